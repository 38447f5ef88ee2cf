"""Checks of a module before it is copied and run, of labelled data, and of the deviations that a user accepts."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError, UsageError, counted, did_you_mean, quoted, type_text

ROUNDED = "its float64 parameters are rounded to float32"


def check_module(module: Any, dt: Any = None) -> None:
    """Nothing, where ``module`` is one that can be run and read.

    Raises:
        UsageError: no torch module, or a ``dt`` that is no number (None: the importer's own).
        ModelError: TorchScript; parameters without values, or of a number format that rounds otherwise; every one.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise UsageError.of("module", type_text(module), "a torch.nn.Module is needed", "give the module")
    if dt is not None and not isinstance(dt, numbers.Real):
        raise UsageError.of("dt", type_text(dt), "seconds per time step, a number", "for example 1e-3")
    scripted = [name for name, inner in torch.nn.Module.named_modules(module) if _is_scripted(inner)]
    if scripted:
        outer = [name for name in scripted if not name.startswith(tuple(f"{other}." for other in scripted))]
        label = f"module{'s' * (len(outer) > 1)} {', '.join(map(quoted, outer))}" if outer != [""] else "module"
        raise ModelError.of(
            label, "TorchScript, whose code cannot be traced", "", "give the modules before compilation"
        )
    places: dict[tuple[str, str, str], list[str]] = {}
    for name, value in torch.nn.Module.named_parameters(module):
        reason = _unfit(value)
        if reason:
            places.setdefault(reason, []).append(quoted(name))
    ModelError.raise_all(Diagnostic(f"parameters {', '.join(names)}", *reason) for reason, names in places.items())


def _is_scripted(module: Any) -> bool:
    import torch

    return isinstance(module, torch.jit.ScriptModule)


def _unfit(value: Any) -> tuple[str, str, str] | None:
    """Reason why a parameter cannot be imported: found, limit, hint; None if it can."""
    import torch

    if torch.nn.parameter.is_lazy(value):
        return "they have no values yet (lazy layers)", "", "run the module once, or load its weights"
    if value.is_meta:
        return "they have no values (device 'meta')", "", "load the weights on the CPU"
    if value.is_floating_point() and value.dtype not in (torch.float32, torch.float64):
        limit = "networks compute in float32, which rounds differently"
        return f"their numbers are {value.dtype}", limit, "call module.float() and check its outputs again"
    return None


def enabled_observers(module: Any) -> list[Diagnostic]:
    """A problem that names the fake quantizations whose grid changes with each call, in eval mode too."""
    import torch

    named = torch.nn.Module.named_modules(module)
    names = [
        quoted(name) for name, inner in named if bool(torch.as_tensor(getattr(inner, "observer_enabled", 0)).any())
    ]
    found = f"their observers are on, so their grids may change with each call: {', '.join(names)}"
    hint = "call module.apply(torch.ao.quantization.disable_observer) after the training"
    return [Diagnostic("fake quantizations", found, "weights of a network are fixed", hint)] if names else []


def has_float64(module: Any) -> bool:
    """True if a parameter is in float64."""
    import torch

    return any(value.dtype == torch.float64 for _, value in torch.nn.Module.named_parameters(module))


# -- labelled data -------------------------------------------------------------------------------------------------

LABELS = "labels"
_STEP = "give measure=(inputs, labels), or an .npz file with the arrays of the inputs and 'labels'"


@dataclass(frozen=True, slots=True, eq=False)
class LabelledData:
    """``inputs``: as the user gave them, an array, several, or arrays by name; ``labels``: the class of each sample."""

    inputs: Any
    labels: Array


def labelled_data(measure: Any, check: int | None) -> LabelledData | None:
    """The data of ``measure=(inputs, labels)``, or of a mapping that holds ``labels``; None for None.

    Raises:
        UsageError: no such pair, no labels, or no self-check, which finds out how a module takes its axes.
    """
    if measure is None:
        return None
    if check == 0:
        limit = "the self-check finds the axes of the data"
        raise UsageError.of("measure", "it is given without a self-check", limit, "leave out check=0 (--no-check)")
    if isinstance(measure, Mapping):
        if LABELS not in measure or len(measure) < 2:
            found = f"arrays {', '.join(map(quoted, measure)) or 'none'}"
            raise UsageError.of("measure", found, "it needs the inputs and 'labels'", _STEP)
        inputs: Any = {name: values for name, values in measure.items() if name != LABELS}
        return LabelledData(inputs, _labels(measure[LABELS]))
    if not isinstance(measure, tuple | list) or len(measure) != 2:
        raise UsageError.of("measure", f"a value of type {type(measure).__name__}", "it needs two", _STEP)
    return LabelledData(measure[0], _labels(measure[1]))


def _labels(values: Any) -> Array:
    labels = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    if labels.ndim != 1 or not labels.size or labels.dtype.kind not in "iu" or int(labels.min()) < 0:
        found = f"{counted(labels.size, 'value')} of type {labels.dtype}, shape {labels.shape}"
        limit = "the class of each sample is a whole number from 0"
        raise UsageError.of("labels of measure", found, limit, "give one class per sample")
    return labels.astype(np.int64)


# -- deviations ----------------------------------------------------------------------------------------------------
# Known deviations of an import from its module: refused unless the user accepts them by name.


EARLY_SUBTRACTION, KEPT_STATES, FULL_PRECISION = "early-subtraction", "kept-states", "full-precision"
REPLACED_MAXPOOL, HALF_COUNTS = "replaced-maxpool", "half-counts"
DEVIATIONS: Mapping[str, str] = MappingProxyType(
    {
        EARLY_SUBTRACTION: "the threshold is subtracted once per spike, also where the rest stays above the threshold "
        "(the module spikes less there)",
        KEPT_STATES: "states of neurons are kept from time step to time step, although forward resets them",
        FULL_PRECISION: "layers compute in float32, although the module rounds their values to 16 bits",
        REPLACED_MAXPOOL: "a maximum of currents in front of neurons becomes one of their spikes: each neuron of a "
        "window integrates its own current, not the largest",
        HALF_COUNTS: "a potential exactly halfway between two numbers of spikes gives the larger one, not the even one",
    }
)
"""Name -> description of the deviation."""


_ACCEPTED = "; accepted as "


@dataclass(frozen=True, slots=True)
class Deviation:
    """One place where the import deviates from the module; ``name`` is a key of ``DEVIATIONS``."""

    name: str
    subject: str
    found: str


def check_accepted(accept: Any) -> tuple[str, ...]:
    """The accepted deviations as a tuple.

    Raises:
        UsageError: not a sequence of known names.
    """
    limit = ", ".join(DEVIATIONS)
    if isinstance(accept, str) or not isinstance(accept, Iterable):
        raise UsageError.of(
            "accept", quoted(accept), f"a sequence of names: {limit}", f"for example ({EARLY_SUBTRACTION!r},)"
        )
    names = tuple(accept)
    unknown = [name for name in names if name not in DEVIATIONS]
    if unknown:
        hint = did_you_mean(unknown[0], DEVIATIONS)
        raise UsageError.of("accept", ", ".join(map(quoted, unknown)), f"known deviations: {limit}", hint)
    return names


def accepted_in(notes: str) -> bool:
    """True if the notes of a graph name a deviation that was accepted."""
    return _ACCEPTED in notes


def sort_deviations(deviations: Iterable[Deviation], accept: Sequence[str]) -> tuple[list[Diagnostic], list[str]]:
    """(Problems of deviations that are not accepted, notes on the others)."""
    problems: list[Diagnostic] = []
    notes: list[str] = []
    for d in dict.fromkeys(deviations):
        if d.name in accept:
            notes.append(f"{d.subject}: {d.found}{_ACCEPTED}{quoted(d.name)}: {DEVIATIONS[d.name]}")
        else:
            step = f"accept=({d.name!r},) or --accept {d.name} imports it anyway: {DEVIATIONS[d.name]}"
            problems.append(Diagnostic(d.subject, d.found, "a network cannot do that", step))
    return problems, notes
