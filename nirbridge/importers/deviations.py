"""Known deviations of an import from its module: refused unless the user accepts them by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from nirbridge.errors import Diagnostic, UsageError, did_you_mean, quoted

EARLY_SUBTRACTION, KEPT_STATES, FULL_PRECISION = "early-subtraction", "kept-states", "full-precision"
REPLACED_MAXPOOL = "replaced-maxpool"
DEVIATIONS: Mapping[str, str] = MappingProxyType(
    {
        EARLY_SUBTRACTION: "the threshold is subtracted once per spike, also where the rest stays above the threshold "
        "(the module spikes less there)",
        KEPT_STATES: "states of neurons are kept from time step to time step, although forward resets them",
        FULL_PRECISION: "layers compute in float32, although the module rounds their values to 16 bits",
        REPLACED_MAXPOOL: "a maximum of currents in front of neurons becomes one of their spikes: each neuron of a "
        "window integrates its own current, not the largest",
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
