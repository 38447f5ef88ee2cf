"""A torch module whose neurons are written by hand as a NIR graph, compared with the module on random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nirbridge.errors import Diagnostic, ModelError, UsageError, quoted
from nirbridge.importers.by_hand.places import COMPARING
from nirbridge.importers.by_hand.spec import check_of_own, checked_own, found_alone, is_own, own_specs
from nirbridge.importers.lowering.build import build_network
from nirbridge.importers.lowering.described_graph import to_graph, trace_after_reset, with_self_check
from nirbridge.importers.module_checks import check_accepted, check_module
from nirbridge.importers.neuron_specs import DataflowGraph, place_label
from nirbridge.importers.sample import TimeAxis
from nirbridge.importers.tracing.run import deep_copy

DT = 1e-3
"""Seconds per time step where none are given: such neurons count time steps."""
_SPIKING = COMPARING | {"floor", "round", "ceil", "trunc", "sign", "sgn", "floor_divide", "floordiv", "bernoulli"}
"""Functions that spikes are made by."""


def from_own(
    module: Any,
    sample: Any,
    dt: float | None = None,
    *,
    batched: bool | None = None,
    time_axis: TimeAxis = None,
    accept: Sequence[str] = (),
    check: int | None = None,
) -> Any:
    """The ``nir.NIRGraph`` of a module with neurons written by hand; see ``from_torch`` for the arguments.

    Raises:
        UsageError: no neurons were found, or ``check=0``: such an import is always compared with the module.
        ModelError: every operation that cannot be traced or represented; an import that could not be compared.
        UnequalImport: the import does not compute the same as the module.
    """
    import torch

    check_module(module, dt)
    names, specs, check = check_accepted(accept), own_specs(), check_of_own(check)
    flow, reset = trace_after_reset(module, sample, specs, batched=batched, time_axis=time_axis)
    _check_neurons(flow, module)
    try:
        network = build_network(flow, specs, DT if dt is None else dt, accept=names)
    except ModelError as error:
        raise found_alone(error) from None
    graph = to_graph(network, f"torch {torch.__version__}")
    is_given = batched is not None or time_axis is not None
    own: dict[str, Any] = {"private": lambda original: reset(deep_copy(original)), "accept": names}
    graph = with_self_check(graph, module, sample, specs, check, are_axes_given=is_given, **own)
    return checked_own(graph)


def _check_neurons(flow: DataflowGraph, module: Any) -> None:
    """Raises UsageError for a module without neurons."""
    if any(call.kind == "neuron" and is_own(call.target) for call in flow.calls):
        return
    words = list(dict.fromkeys(str(call.arguments.get("function", "")).strip("_") for call in flow.calls))
    steps = [word for word in words if word in _SPIKING]
    if steps:
        found = f"{', '.join(map(quoted, steps))} of values, and no state with a threshold and a reset that NIR has"
        hint = "spikes are comparisons of a state that is carried from one time step to the next"
        ModelError.raise_all((Diagnostic(place_label(""), found, "", hint), *flow.problems))
    limit = "a network without spikes is converted to spike rates only on request"
    hint = (
        "give convert=, typical inputs of shape [samples, *shape] (some hundreds of training samples; --calibrate "
        "DATA.npz), or framework= where it has spikes"
    )
    raise UsageError.of(f"module {quoted(type(module).__name__)}", "no neurons that spike", limit, hint)
