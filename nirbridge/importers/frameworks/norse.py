"""Norse 1.1.0: cells and their sequence forms as canonical neurons, from the modules' own parameters.

Norse integrates by Euler with a dt of its own: ``v + dt tmi ((v_leak - v) + j)``, which is ``a v + g j + b`` with
``g = dt tmi`` (in float32, as the module computes it), ``a = 1 - g``, ``b = g v_leak``; the synaptic current is updated
first, ``j = i + x``, ``i = (1 - dt tsi) j``. It fires above the threshold and starts at v_leak (IAF: at v_reset).
Source: ``norse/torch/functional``, measured in ``tests/importers/frameworks/test_norse.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import compact, freeze
from nirbridge.errors import Diagnostic
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronSpec, Recurrence
from nirbridge.importers.parameters import (
    module_problem,
    per_neuron,
    quietly,
    recurrent_weights,
    refusals,
    refuse,
    version_of,
)
from nirbridge.importers.sample.axes import TimeAxis
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense

DEFAULT_DT = 1e-3
METHODS = ("heaviside", "super", "tanh", "triangle", "circ", "heavi_erfc")
"""Surrogates whose forward pass is a step above 0; ``adjoint`` fails in norse 1.1.0 itself."""

_TIME_FIRST = ("time", "batch")
_REFUSED = (
    ("an exponential or adaptive membrane", "use LIFCell or LIFBoxCell",
     ("LIFAdEx", "LIFAdExCell", "LIFAdExRecurrent", "LIFAdExRecurrentCell", "LIFEx", "LIFExCell", "LIFExRecurrent",
      "LIFExRecurrentCell", "LIFAdExRefracCell", "LIFAdExRefracRecurrent", "LIFAdExRefracRecurrentCell")),
    ("a quadratic membrane", "use LIFCell or LIFBoxCell",
     ("Izhikevich", "IzhikevichCell", "IzhikevichRecurrent", "IzhikevichRecurrentCell")),
    ("a threshold that adapts to spikes", "use LIFCell", ("LSNN", "LSNNCell", "LSNNRecurrent", "LSNNRecurrentCell")),
    ("conductances that multiply the potential", "use LIFCell", ("CobaLIFCell",)),
    ("weights that change while it runs", "use LIFRecurrentCell with fixed weights", ("LIFCorrelation",)),
    ("potentials of compartments that drive each other", "use LIFRecurrentCell",
     ("LIFMCRecurrentCell", "LIFMCRefracRecurrentCell")),
    ("an encoder or decoder of values over time", "keep it outside: import the network behind it and feed it spikes",
     ("ConstantCurrentLIFEncoder", "PoissonEncoder", "SignedPoissonEncoder", "PopulationEncoder", "SpikeLatencyEncoder",
      "SpikeLatencyLIFEncoder", "SpikesToTimesDecoder", "TemporalReceptiveField")),
    ("a convolution that has a time axis", "use norse.torch.Lift(torch.nn.Conv2d(...))", ("LConv2d",)),
    ("an output that comes back to the input through a cache", "write it as LIFRecurrentCell, or as a loop over time",
     ("RecurrentSequential",)),
    ("a counter for training", "take it out before the import", ("RegularizationCell",)),
)  # fmt: skip


def from_norse(
    module: Any,
    sample: Any,
    *,
    dt: float | None = None,
    batched: bool | None = None,
    time_axis: TimeAxis = None,
    accept: Sequence[str] = (),
    check: int | None = None,
) -> Any:
    """A module of Norse cells as a ``nir.NIRGraph`` with the module's meaning.

    Args:
        module: cells, their sequence forms, ``SequentialState``, ``Lift``, or a module of one's own around them.
        sample: one time step or a whole sequence as the module takes it, with or without the batch axis, or a tuple of
            them.
        dt: seconds a step; None: what the cells were made with. A cell made with another dt is an error: its decays
            were computed with its own. IAF cells do not use theirs.
        batched: whether the sample has a batch axis (None: found out).
        time_axis: which axis of the sample is time, "none" where it is one time step (None: found out).
        accept: known deviations that are taken, by name (``deviations.DEVIATIONS``); others are refused.
        check: random inputs to run the module and the import on, side by side (0: none; None: 2, if it is cheap).

    Raises:
        ModelError: what can not be followed or represented, every place.
        UnequalImport: the import does not compute the same as the module.
        UsageError: an argument that makes no sense.
    """
    from nirbridge.importers.checked import with_self_check
    from nirbridge.importers.deviations import check_accepted
    from nirbridge.importers.frameworks.norse_lift import without_lifts, without_states
    from nirbridge.importers.lowering.build import build_network
    from nirbridge.importers.lowering.described_graph import to_graph
    from nirbridge.importers.tracing.run import check_module
    from nirbridge.importers.tracing.trace import trace_module

    check_module(module, dt)
    step = next(value for value in (dt, module_dt(module), DEFAULT_DT) if value is not None)
    plain, known = without_lifts(module, neuron_specs())
    names = check_accepted(accept)
    flow = without_states(trace_module(plain, sample, known, batched=batched, time_axis=time_axis))
    graph = to_graph(build_network(flow, known, step, accept=names), version_of("norse"))
    given = batched is not None or time_axis is not None
    return with_self_check(graph, module, sample, neuron_specs(), check, accept=names, are_axes_given=given)


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """The classes of ``norse.torch`` that are read, and those that are refused by name."""
    with quietly():
        import norse.torch as norse

    def both(read: Any, cell: str, sequence: str | None, potential: int) -> dict[type, NeuronSpec]:
        found = {getattr(norse, cell): NeuronSpec(read, potential=potential)}
        if sequence is not None:
            found[getattr(norse, sequence)] = NeuronSpec(read, layout=_TIME_FIRST)
        return found

    return {
        **both(read_lif, "LIFCell", "LIF", 1),
        **both(read_lif, "LIFRecurrentCell", "LIFRecurrent", 2),
        **both(read_refractory, "LIFRefracCell", None, 1),
        **both(read_refractory, "LIFRefracRecurrentCell", "LIFRefracRecurrent", 2),
        **both(read_box, "LIFBoxCell", None, 1),
        **both(read_iaf, "IAFCell", "IAF", 1),
        **both(read_li, "LICell", "LI", 1),
        **both(read_li, "LILinearCell", None, 1),
        **both(read_li, "LIBoxCell", None, 1),
        **refusals(norse, _REFUSED),
    }


def read_lif(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LIFCell, LIF, LIFRecurrentCell, LIFRecurrent: current first, strict threshold, reset to v_reset.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems = _own_dt(module, dt)
    record = _current_based(module, module.p, shape, problems)
    record = _firing(record, module, module.p, shape, problems)
    wiring = _weights(module, shape, problems)
    refuse(problems)
    return replace(wiring, neuron=record)


def read_refractory(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LIFRefracCell, LIFRefracRecurrentCell, LIFRefracRecurrent: as LIF, then rho steps at v_reset, current going on.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems = _own_dt(module, dt)
    record = _current_based(module, module.p.lif, shape, problems)
    record = _firing(record, module, module.p.lif, shape, problems)
    steps = np.ceil(per_neuron(module, "rho_reset", module.p.rho_reset, shape, problems))
    wiring = _weights(module, shape, problems)
    refuse(problems)
    held = compact(np.maximum(steps, 0), np.int64)
    return replace(wiring, neuron=replace(record, refractory_steps=held))


def read_box(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LIFBoxCell: a membrane without synaptic current; reset to v_reset, or by the threshold (``reset_subtract``).

    Raises:
        ModelError: everything about the module that has no form.
    """
    from norse.torch.functional.reset import reset_subtract, reset_value

    problems = _own_dt(module, dt)
    record = _firing(neuron("LIF", **_membrane(module, module.p, shape, problems)), module, module.p, shape, problems)
    if module.p.reset_method is reset_subtract and record.theta is not None:
        record = replace(record, reset="subtract", reset_amount=record.theta)
    elif module.p.reset_method is not reset_value:
        limit = "reset_value and reset_subtract have a form"
        problems.append(module_problem(module, "reset_method is a function of its own", limit, "use one of the two"))
    refuse(problems)
    return ImportedNeuron(record)


def read_iaf(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """IAFCell, IAF: adds its input, whatever its dt; starts at v_reset.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems: list[Diagnostic] = []
    record = _firing(neuron("IF"), module, module.p, shape, problems)
    refuse(problems)
    return ImportedNeuron(replace(record, v_init=record.v_reset))


def read_li(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LICell, LI, LILinearCell, LIBoxCell: read-outs, whose output is their potential.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems = _own_dt(module, dt)
    if hasattr(module.p, "tau_syn_inv"):
        record = replace(_current_based(module, module.p, shape, problems), kind="CubaLI", theta=None)
    else:
        record = neuron("LI", **_membrane(module, module.p, shape, problems))
    record = replace(record, theta=None, reset="none", reset_amount=freeze(np.float64(0)))
    wiring = _weights(module, shape, problems)
    refuse(problems)
    return replace(wiring, neuron=record)


# --- pieces -------------------------------------------------------------------------------------------------------


def _own_dt(module: Any, dt: float) -> list[Diagnostic]:
    if float(module.dt) == dt:
        return []
    found = f"it was made with dt = {float(module.dt):g} s"
    limit = f"the network is imported with dt = {dt:g} s"
    return [module_problem(module, found, limit, "leave dt out, or make the module with that dt")]


def _membrane(module: Any, p: Any, shape: Shape, problems: list[Diagnostic]) -> dict[str, Any]:
    import torch

    gain = per_neuron(module, "tau_mem_inv", float(module.dt) * torch.as_tensor(p.tau_mem_inv), shape, problems)
    leak = per_neuron(module, "v_leak", p.v_leak, shape, problems)
    return {"a_mem": 1 - gain, "g_mem": gain, "bias": gain * leak, "v_init": leak}


def _current_based(module: Any, p: Any, shape: Shape, problems: list[Diagnostic]) -> Neuron:
    import torch

    share = per_neuron(module, "tau_syn_inv", float(module.dt) * torch.as_tensor(p.tau_syn_inv), shape, problems)
    return neuron("CubaLIF", a_syn=1 - share, **_membrane(module, p, shape, problems))


def _firing(record: Neuron, module: Any, p: Any, shape: Shape, problems: list[Diagnostic]) -> Neuron:
    if p.method not in METHODS:
        limit = "its forward pass must be a step above 0: " + ", ".join(METHODS)
        problems.append(module_problem(module, f"method is {p.method!r}", limit, "choose one of them"))
    theta = compact(per_neuron(module, "v_th", p.v_th, shape, problems))
    reset = compact(per_neuron(module, "v_reset", p.v_reset, shape, problems))
    return replace(record, theta=theta, reset_amount=theta, v_reset=reset)


def _weights(module: Any, shape: Shape, problems: list[Diagnostic]) -> ImportedNeuron:
    """The module's own input and recurrent weights, around a neuron that is still to come."""
    nothing = ImportedNeuron(neuron("IF"))
    operator = None
    if hasattr(module, "input_weights"):
        operator = Dense(freeze(module.input_weights.detach().cpu().numpy()))
        if operator.output_shape != shape:
            limit = f"its neurons have shape {shape}"
            found = f"input_weights has shape {operator.weight.shape}"
            problems.append(module_problem(module, found, limit, "use one axis of neurons"))
    if not hasattr(module, "recurrent_weights"):
        return replace(nothing, operator=operator)
    recurrent_weights(module, "recurrent_weights", module.recurrent_weights, shape, problems)
    feedback = Dense(freeze(module.recurrent_weights.detach().cpu().numpy()))
    return replace(nothing, operator=operator, recurrences=(Recurrence(feedback),))


def module_dt(module: Any) -> float | None:
    """The dt that the cells of ``module`` were made with, if they agree on one; IAF cells do not use theirs."""
    import norse.torch as norse

    readers = (read_lif, read_refractory, read_box, read_li)
    timed = tuple(cls for cls, form in neuron_specs().items() if form.read in readers)
    found = [float(m.dt) for m in module.modules() if isinstance(m, timed) and not isinstance(m, norse.IAFCell)]
    return found[0] if found else None


__all__ = [
    "DEFAULT_DT",
    "from_norse",
    "module_dt",
    "neuron_specs",
    "read_box",
    "read_iaf",
    "read_li",
    "read_lif",
    "read_refractory",
]
