"""Time discretisation: dt, integrator, reset, comparison, gain of integrators.

Precedence of each: the caller's ``Timing``, the node's metadata, the graph's metadata, the default. Metadata keys
are ``nirbridge:dt`` and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from nirbridge.errors import Diagnostic, ModelError, UsageError, did_you_mean, quoted
from nirbridge.network.model import IfGain, Integrator, Timing
from nirbridge.network.naming import natural_key
from nirbridge.network.neurons import Compare, Reset
from nirbridge.network.nir.fields import NEURONS, kind_of

PREFIX = "nirbridge:"
DEFAULT_DT = 1e-4
TIME_CONSTANTS = ("tau", "tau_mem", "tau_syn")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "integrator": ("euler", "zoh", "exponential"),
    "reset": ("to-value", "subtract", "none"),
    "compare": (">", ">="),
    "if_gain": ("per-second", "per-step"),
}

Metadata = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResolvedTiming:
    """Timing with every field set. ``options`` holds the caller's choices; ``unit_gain``: dt came from ``1/r``."""

    dt: float
    integrator: Integrator
    reset: Reset
    compare: Compare
    if_gain: IfGain
    options: Timing
    unit_gain: bool
    assumed: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def timing(self) -> Timing:
        """As ``Network.timing`` holds it."""
        return Timing(self.dt, self.integrator, self.reset, self.compare, self.if_gain)

    def choice(
        self, key: Literal["integrator", "reset", "compare", "if_gain"], metadata: Metadata, subject: str
    ) -> str:
        """The value of ``key`` for one node: the caller's, the node's, else that of the graph."""
        option = getattr(self.options, key)
        if option is not None:
            return str(option)
        return read_choice(metadata, key, subject) or str(getattr(self, key))


def read_choice(metadata: Metadata, key: str, subject: str) -> str | None:
    """The text stored under ``nirbridge:key``, one of ``CHOICES[key]``; None if there is none.

    Raises:
        ModelError: the stored value is not one of them.
    """
    value = metadata.get(PREFIX + key)
    if value is None:
        return None
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if text not in CHOICES[key]:
        limit = "one of " + ", ".join(CHOICES[key])
        raise ModelError.of(subject, f"metadata {PREFIX}{key} is {quoted(text)}", limit, "correct the metadata")
    return text


def read_dt(metadata: Metadata, subject: str) -> float | None:
    """The seconds per time step stored under ``nirbridge:dt``, or None.

    Raises:
        ModelError: it is not one finite number above 0.
    """
    value = metadata.get(PREFIX + "dt")
    if value is None:
        return None
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iuf" or not (math.isfinite(float(array.item())) and array > 0):
        found = f"metadata {PREFIX}dt is {quoted(value)}"
        raise ModelError.of(subject, found, "one number of seconds above 0", "correct the metadata")
    return float(array.item())


def resolve_timing(
    nodes: Mapping[str, Any], metadata: Mapping[str, Metadata], graph_metadata: Metadata, options: Timing
) -> ResolvedTiming:
    """Timing for a whole graph; ``nodes`` and ``metadata`` by full name.

    Raises:
        ModelError: metadata that is malformed, or two nodes that store different dt.
        UsageError: an invalid option of the caller.
    """
    _check_options(options)
    neurons = {name: node for name, node in nodes.items() if kind_of(node) in NEURONS}
    stored = _node_dt(metadata) if options.dt is None else None
    if stored is None:
        stored = read_dt(graph_metadata, "graph")
    known_dt = options.dt if options.dt is not None else stored
    if_gain = options.if_gain or read_choice(graph_metadata, "if_gain", "graph")
    unit = _unit_dt(neurons) if known_dt is None and if_gain != "per-step" else None
    dt = next(value for value in (known_dt, unit, DEFAULT_DT) if value is not None)
    assumed = _assumed_dt(known_dt, unit, (graph_metadata, *metadata.values()))
    choices: dict[str, str] = {}
    for key, default in (("integrator", "euler"), ("reset", "to-value"), ("compare", ">"), ("if_gain", "per-second")):
        value = getattr(options, key) or read_choice(graph_metadata, key, "graph")
        choices[key] = value or default
        if value is None:
            assumed += _assumed_choice(key, default, neurons, metadata, unit is not None)
    notes = _tau_note(neurons, dt) if known_dt is None else ()
    return ResolvedTiming(
        dt,
        cast(Integrator, choices["integrator"]),
        cast(Reset, choices["reset"]),
        cast(Compare, choices["compare"]),
        cast(IfGain, choices["if_gain"]),
        options,
        unit is not None,
        (*assumed, *_assumed_state(neurons, metadata)),
        notes,
    )


def _check_options(options: Timing) -> None:
    problems: list[Diagnostic] = []
    if options.dt is not None and not (math.isfinite(options.dt) and options.dt > 0):
        problems.append(
            Diagnostic("timing option dt", f"{options.dt}", "a finite number of seconds above 0", "correct it")
        )
    for key, choices in CHOICES.items():
        value = getattr(options, key)
        if value is not None and value not in choices:
            limit = "one of " + ", ".join(choices)
            hint = did_you_mean(value, choices) or "choose one of them"
            problems.append(Diagnostic(f"timing option {key}", quoted(value), limit, hint))
    UsageError.raise_all(problems)


def _node_dt(metadata: Mapping[str, Metadata]) -> float | None:
    """The dt stored in nodes, which must be the same in all."""
    first: tuple[str, float] | None = None
    for name in sorted(metadata, key=natural_key):
        dt = read_dt(metadata[name], f"node {quoted(name)}")
        if dt is None:
            continue
        if first is not None and dt != first[1]:
            subject = f"nodes {quoted(first[0])} and {quoted(name)}"
            found = f"metadata {PREFIX}dt is {first[1]:g} s in one and {dt:g} s in the other"
            raise ModelError.of(
                subject, found, "a network has one dt", "correct one of them, or give dt (--dt)", nodes=(first[0], name)
            )
        first = first or (name, dt)
    return None if first is None else first[1]


def _unit_dt(neurons: Mapping[str, Any]) -> float | None:
    """``1/r`` where no neuron has a time constant and all integrators share one r above 0."""
    gains: set[float] = set()
    for node in neurons.values():
        if any(hasattr(node, field) for field in TIME_CONSTANTS):
            return None
        if kind_of(node) in ("IF", "I"):
            r = np.asarray(node.r)
            gains |= {float(r.min()), float(r.max())}
    if len(gains) != 1:
        return None
    r = gains.pop()
    return 1.0 / r if r > 0 and math.isfinite(1.0 / r) else None


def _assumed_dt(stored: float | None, unit: float | None, metadata: Iterable[Metadata]) -> tuple[str, ...]:
    if stored is not None:
        return ()
    foreign = (np.asarray(m["dt"]) for m in metadata if "dt" in m)  # a word of no standard: said, not taken
    texts = [
        f"--dt {value:g}"
        for value in sorted({float(a.item()) for a in foreign if a.size == 1 and a.dtype.kind in "iuf"})
    ]
    end = (
        f"; its metadata has a 'dt', which NIR does not define: give {' or '.join(texts)} if that is in seconds"
        if texts
        else ""
    )
    if unit is not None:
        return (f"dt = {unit:g} s: 1/r, since no node has a time constant; a unit input then adds 1 a step{end}",)
    return (f"dt = {DEFAULT_DT:g} s: the file stores none{end}",)


#: Classes of neurons that each choice concerns, and the sentence on its default.
_CONCERNS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "integrator": (("LIF", "LI", "CubaLIF", "CubaLI"), "integrator = {}: the file stores none"),
    "reset": (("LIF", "IF", "CubaLIF"), "reset = {}, in the step of the spike: the file stores none"),
    "compare": (("LIF", "IF", "CubaLIF", "Threshold"), "a spike where v {} threshold: the file stores no comparison"),
    "if_gain": (("IF", "I"), "gain of integrators = r * dt ({}): the file stores none"),
}


def _assumed_choice(
    key: str, default: str, neurons: Mapping[str, Any], metadata: Mapping[str, Metadata], unit: bool
) -> tuple[str, ...]:
    kinds, sentence = _CONCERNS[key]
    if key == "if_gain" and unit:
        return ()  # stated with dt
    is_open = any(kind_of(node) in kinds and PREFIX + key not in metadata[n] for n, node in neurons.items())
    return (sentence.format(default),) if is_open else ()


def _assumed_state(neurons: Mapping[str, Any], metadata: Mapping[str, Metadata]) -> tuple[str, ...]:
    def starts_elsewhere(name: str, node: Any) -> bool:
        levels: Iterable[Any] = (getattr(node, "v_leak", None), getattr(node, "v_reset", None))
        stored = PREFIX + "v_init" in metadata[name]
        return not stored and any(v is not None and bool(np.any(np.asarray(v) != 0)) for v in levels)

    is_open = any(starts_elsewhere(name, node) for name, node in neurons.items())
    return ("v = 0 before the first step: the file stores no initial state",) if is_open else ()


def _tau_note(neurons: Mapping[str, Any], dt: float) -> tuple[str, ...]:
    taus = [np.asarray(getattr(node, f)) for node in neurons.values() for f in TIME_CONSTANTS if hasattr(node, f)]
    if not taus or min(float(t.min()) for t in taus) < 1:
        return ()
    return (f"every time constant is 1 s or more and dt = {dt:g} s: if the file counts them in steps, give --dt 1",)
