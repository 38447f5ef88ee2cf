"""sinabs 3.1.3: LIF, IAF, ExpLeak and their recurrent and squeezed forms as canonical neurons.

Time constants count steps: ``i = e_syn (i + x)`` (without tau_syn: x), ``v = e v + g i`` with ``e = exp(-1/tau)`` and
``g = 1 - e`` (norm_input) or 1; a neuron fires ``trunc(v / threshold)`` times where that is 1 or more and subtracts
as often. Source: ``sinabs/layers/functional/lif.py``, measured in
``tests/importers/frameworks/test_sinabs.py``. Nothing of the optional hardware packages is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact, freeze
from nirbridge.errors import Diagnostic
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronSpec, Recurrence
from nirbridge.importers.parameters import (
    as_float64,
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

UNLIMITED = 2**31 - 1
"""Most spikes a step where the module has no limit."""

_BATCH_FIRST = ("batch", "time")
_REFUSED = (
    ("a threshold that adapts to spikes", "use LIF", ("ALIF", "ALIFRecurrent", "ALIFSqueeze")),
    ("a maximum over spike counts of the whole past", "use SumPool2d or AvgPool2d", ("SpikingMaxPooling2dLayer",)),
    ("a random encoder", "keep it outside: import the network behind it and feed it spikes",
     ("Img2SpikeLayer", "Sig2SpikeLayer")),
    ("an activation without state", "replace it by IAF (sinabs.from_torch.from_model)",
     ("NeuromorphicReLU", "QuantizeLayer")),
)  # fmt: skip


def from_sinabs(
    module: Any,
    sample: Any,
    *,
    dt: float = 1e-3,
    batched: bool | None = None,
    time_axis: TimeAxis = None,
    accept: Sequence[str] = (),
    check: int | None = None,
) -> Any:
    """A module of sinabs layers as a ``nir.NIRGraph`` with the module's meaning.

    Args:
        module: layers, ``sinabs.network.Network``, or a module of one's own around them.
        sample: one time step or a whole sequence as the module takes it, with or without the batch axis, or a tuple of
            them.
        dt: seconds a step; sinabs counts steps, so any dt gives the same spikes.
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
    from nirbridge.importers.lowering.described_graph import module_to_graph
    from nirbridge.importers.tracing.run import check_module

    memo: dict[int, Any] = {}  # kept, since counters of the copy hold weak references to what is in it

    def private(original: Any) -> Any:
        memo.clear()
        return _one_step(original, memo, is_one=len(sample) == 1)

    check_module(module, dt)
    known = neuron_specs()
    graph = module_to_graph(
        private(module),
        sample,
        known,
        dt=dt,
        source=version_of("sinabs"),
        batched=batched,
        time_axis=time_axis,
        accept=accept,
    )
    given = batched is not None or time_axis is not None
    return with_self_check(graph, module, sample, known, check, private=private, accept=accept, are_axes_given=given)


def _one_step(module: Any, memo: dict[int, Any], *, is_one: bool) -> Any:
    """A copy of the module whose squeezed layers take one time step; ``is_one``: of a batch of one sample."""
    import copy

    from nirbridge.importers.tracing.run import computed_tensors_memo

    memo |= computed_tensors_memo(module)
    for layer in module.modules():
        if hasattr(layer, "reset_states") and id(layer) not in memo:
            _copied(layer, memo)
    one_step = copy.deepcopy(module, memo)
    for layer in one_step.modules():  # squeezed layers are told how many steps there are
        if type(layer).__name__ == "UnflattenTime" and is_one:
            layer.batch_size = 1
        if hasattr(layer, "squeeze_forward"):
            layer.batch_size, layer.num_timesteps = -1, 1
        _without_counters(layer)
    return one_step


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """The classes of ``sinabs.layers`` that are read, and those that are refused by name."""
    with quietly():
        import sinabs.layers as sl

    timed = NeuronSpec(read_lif, layout=_BATCH_FIRST)
    flat = NeuronSpec(read_lif)
    return {
        **dict.fromkeys((sl.LIF, sl.IAF, sl.ExpLeak), timed),
        **dict.fromkeys((sl.LIFRecurrent, sl.IAFRecurrent), NeuronSpec(read_recurrent, layout=_BATCH_FIRST)),
        **dict.fromkeys((sl.LIFSqueeze, sl.IAFSqueeze, sl.ExpLeakSqueeze), flat),
        **refusals(sl, _REFUSED),
    }


def read_lif(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LIF, IAF, ExpLeak, squeezed or not. ``dt`` is what the user says a step lasts; the module counts steps.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems: list[Diagnostic] = []
    record = _record(module, shape, problems)
    refuse(problems)
    return ImportedNeuron(record)


def read_recurrent(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LIFRecurrent, IAFRecurrent with a linear ``rec_connect``, whose bias acts from the second step on.

    The recurrence's bias acts from the first step; the initial state takes that one off.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems: list[Diagnostic] = []
    record = _record(module, shape, problems)
    layer = _linear(module, problems)
    if layer is not None:
        recurrent_weights(module, "rec_connect.weight", layer.weight, shape, problems)
    refuse(problems)
    if layer is None or layer.bias is None:
        bias = None
    else:
        bias = freeze(as_float64(layer.bias))
        record = _without_first_bias(record, bias)
    weight = Dense(freeze(as_float64(layer.weight).astype(np.float32))) if layer is not None else None
    return ImportedNeuron(record, (Recurrence(weight, bias),) if weight is not None else ())


def _copied(layer: Any, memo: dict[int, Any]) -> Any:
    """A copy of a layer as torch would make it: that of sinabs 3.1.3 fails where a layer has a layer inside."""
    import copy
    import functools

    import torch

    from nirbridge.importers.lowering.analysis import LEFT_OVER, leftover_states

    clone: Any = object.__new__(type(layer))
    memo[id(layer)] = clone
    vars(clone)[LEFT_OVER] = tuple(leftover_states(layer))
    for name, found in vars(layer).items():
        if name == "_buffers":
            found = {key: None if b is None else torch.zeros(0) for key, b in found.items()}  # the state at rest
        elif name != "__deepcopy__":
            found = found.detach().clone() if isinstance(found, torch.Tensor) else copy.deepcopy(found, memo)
        vars(clone)[name] = found
    vars(clone)["__deepcopy__"] = functools.partial(_copied, clone)
    return clone


def _without_counters(layer: Any) -> None:
    """Takes off what sinabs hangs on a layer to count synaptic operations: it is told how many samples there are."""
    for key, hook in tuple(layer._forward_hooks.items()):
        if str(getattr(hook, "__module__", "")).startswith("sinabs."):
            del layer._forward_hooks[key]


# --- pieces -------------------------------------------------------------------------------------------------------


def _record(module: Any, shape: Shape, problems: list[Diagnostic]) -> Neuron:
    decay = module.alpha_mem_calculated
    a_mem = per_neuron(module, "tau_mem", decay, shape, problems)
    gain = per_neuron(module, "tau_mem", 1 - decay, shape, problems) if module.norm_input else np.float64(1)
    syn = module.alpha_syn_calculated
    a_syn = np.zeros(()) if syn is None else per_neuron(module, "tau_syn", syn, shape, problems)
    if module.min_v_mem is not None:
        found = f"min_v_mem = {float(as_float64(module.min_v_mem).min()):g} keeps the potential above a floor"
        limit = "neither NIR nor a chip's neuron has one"
        problems.append(module_problem(module, found, limit, "set min_v_mem = None and look at the accuracy again"))
    if syn is not None:  # e (i + x) is e times j = e j + x, to the last bit
        gain = gain * a_syn
    kind = "LIF" if syn is None and module.tau_mem_calculated is not None else "IF" if syn is None else "CubaLIF"
    record = neuron(kind, a_mem=a_mem, g_mem=gain, a_syn=a_syn, compare=">=")
    if module.spike_fn is None:
        return replace(record, kind="LI", theta=None, reset="none", reset_amount=freeze(np.float64(0)), compare=">")
    return _firing(record, module, shape, problems)


def _firing(record: Neuron, module: Any, shape: Shape, problems: list[Diagnostic]) -> Neuron:
    from sinabs.activation import MembraneReset, MembraneSubtract

    theta = compact(per_neuron(module, "spike_threshold", module.spike_threshold, shape, problems))
    if bool(np.any(theta <= 0)):
        problems.append(module_problem(module, "its spike_threshold is not above 0", "", "give a threshold above 0"))
    record = replace(record, theta=theta, reset_amount=theta, max_spikes=_most(module, problems))
    reset = module.reset_fn
    if type(reset) is MembraneSubtract:
        value = reset.subtract_value
        amount = theta if value is None else compact(per_neuron(module, "subtract_value", value, shape, problems))
        return replace(record, reset="subtract", reset_amount=amount)
    if type(reset) is MembraneReset:
        value = per_neuron(module, "reset_value", reset.reset_value, shape, problems)
        return _reset_that_is_always_added(record, value) if bool(np.any(value != 0)) else record
    limit = "MembraneSubtract and MembraneReset have a form"
    problems.append(module_problem(module, f"reset_fn is {type(reset).__name__}", limit, "use one of the two"))
    return record


def _most(module: Any, problems: list[Diagnostic]) -> int:
    from sinabs.activation import MaxSpike, MultiSpike, SingleSpike

    function = module.spike_fn
    if function is MultiSpike:
        return UNLIMITED
    if function is SingleSpike:
        return 1
    if isinstance(function, MaxSpike):
        most = function.max_num_spikes_per_bin
        return UNLIMITED if most is None else int(most)
    limit = "MultiSpike, SingleSpike and MaxSpike have a form"
    name = getattr(function, "__name__", type(function).__name__)
    problems.append(module_problem(module, f"spike_fn is {name}", limit, "use one of them"))
    return 1


def _reset_that_is_always_added(record: Neuron, value: Array) -> Neuron:
    """In sinabs reset_value is added in every step, spike or not: a drive behind the decay, missing in the first."""
    return replace(record, bias=compact(record.a_mem * value), v_init=compact(record.v_init - value))


def _linear(module: Any, problems: list[Diagnostic]) -> Any:
    """The one Linear that ``rec_connect`` is, alone or between layers that only reshape."""
    import torch

    inert = (torch.nn.Flatten, torch.nn.Unflatten, torch.nn.Identity)
    connect = module.rec_connect
    layers = list(connect) if isinstance(connect, torch.nn.Sequential) else [connect]
    working = [layer for layer in layers if not isinstance(layer, inert)]
    if len(working) == 1 and isinstance(working[0], torch.nn.Linear):
        return working[0]
    limit = "one torch.nn.Linear (between Flatten and Unflatten) has a form"
    problems.append(module_problem(module, f"rec_connect is {type(connect).__name__}", limit, "write it as one Linear"))
    return None


def _without_first_bias(record: Neuron, bias: Array) -> Neuron:
    """The neuron with an initial state that cancels ``bias`` on its input in the first step."""
    if record.has_synapse:
        return replace(record, i_init=compact(record.i_init - bias / record.a_syn))
    return replace(record, v_init=compact(record.v_init - record.g_mem * bias / record.a_mem))


__all__ = ["UNLIMITED", "from_sinabs", "neuron_specs", "read_lif", "read_recurrent"]
