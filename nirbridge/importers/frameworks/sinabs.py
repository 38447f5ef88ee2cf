"""sinabs 3.1.3: LIF, IAF, ALIF, ExpLeak and their recurrent and squeezed forms as canonical neurons.

Time constants are in time steps: ``i = e_syn (i + x)`` (without tau_syn: x), ``v = e v + g i`` with
``e = exp(-1/tau)``, ``g = 1 - e`` (norm_input) or 1; a neuron fires ``trunc(v / threshold)`` times where that is 1 or
more and subtracts as often; ``min_v_mem`` is a floor of v after that. ALIF adds ``adapt_scale b`` to its threshold and
subtracts that, too (MembraneSubtract): ``b = e b + (1 - e) s`` at the end. Source: ``sinabs/layers/functional/lif.py``,
measured in ``tests/importers/frameworks/test_sinabs.py``. The optional hardware packages are not imported.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, compact, freeze
from nirbridge.importers.lowering.analysis import LEFT_OVER, leftover_states
from nirbridge.importers.lowering.described_graph import module_to_graph
from nirbridge.importers.module_checks import check_module
from nirbridge.importers.neuron_specs import (
    ImportedNeuron,
    NeuronSpec,
    Parameters,
    Recurrence,
    as_float64,
    quietly,
    reader,
    refusals,
)
from nirbridge.importers.sample import TimeAxis
from nirbridge.importers.tracing.run import computed_tensors_memo
from nirbridge.network.neurons import Adaptation, Neuron, neuron
from nirbridge.network.operators import Dense

UNLIMITED = 2**31 - 1
"""Most spikes per time step where the module has no limit."""

_BATCH_FIRST = ("batch", "time")
_REFUSED = (
    ("a maximum over spike counts of the whole past", "use SumPool2d or AvgPool2d", ("SpikingMaxPooling2dLayer",)),
    ("a random encoder", "leave it out: import the network after it and feed that spikes",
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
    measure: Any = None,
) -> Any:
    """A module of sinabs layers as a ``nir.NIRGraph`` with the module's meaning.

    Args:
        module: layers, ``sinabs.network.Network``, or a module that contains them.
        sample: one time step or a whole sequence, as the module takes it, with or without the batch axis, or a tuple
            of them.
        dt: seconds per time step; sinabs counts time steps, so any dt gives the same spikes.
        batched: whether the sample has a batch axis (None: inferred).
        time_axis: the axis of the sample that is time, "none" if it is one time step (None: inferred).
        accept: names of known deviations to accept (``deviations.DEVIATIONS``); all others are refused.
        check: number of random inputs on which the import is compared with the module (0: none; None: 2, if cheap).
        measure: labelled data ``(inputs, labels)``: the accuracy of the module and of the import on them is stated.

    Raises:
        ModelError: every operation that cannot be traced or represented.
        UnequalImport: the import does not compute the same as the module.
        UsageError: an invalid argument.
    """
    memo: dict[int, Any] = {}  # kept alive: counters of the copy hold weak references into it

    def private(original: Any) -> Any:
        memo.clear()
        return _one_step(original, memo, is_one=len(sample) == 1)

    check_module(module, dt)
    return module_to_graph(
        module,
        sample,
        neuron_specs(),
        package="sinabs",
        dt=dt,
        batched=batched,
        time_axis=time_axis,
        accept=accept,
        check=check,
        measure=measure,
        traced=(private(module), neuron_specs()),
        private=private,
    )


def _one_step(module: Any, memo: dict[int, Any], *, is_one: bool) -> Any:
    """Copy of the module whose squeezed layers take one time step; ``is_one``: the batch is one sample."""
    memo |= computed_tensors_memo(module)
    for layer in module.modules():
        if hasattr(layer, "reset_states") and id(layer) not in memo:
            _copied(layer, memo)
    one_step = copy.deepcopy(module, memo)
    for layer in one_step.modules():  # squeezed layers store the number of time steps
        if type(layer).__name__ == "UnflattenTime" and is_one:
            layer.batch_size = 1
        if hasattr(layer, "squeeze_forward"):
            layer.batch_size, layer.num_timesteps = -1, 1
        for key, hook in tuple(layer._forward_hooks.items()):  # counters of operations store the number of samples
            if str(getattr(hook, "__module__", "")).startswith("sinabs."):
                del layer._forward_hooks[key]
    return one_step


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """The supported classes of ``sinabs.layers``, and those that are refused by name."""
    with quietly():
        import sinabs.layers as sl

    timed = NeuronSpec(read_lif, layout=_BATCH_FIRST)
    flat = NeuronSpec(read_lif)
    return {
        **dict.fromkeys((sl.LIF, sl.IAF, sl.ExpLeak), timed),
        **dict.fromkeys((sl.LIFRecurrent, sl.IAFRecurrent), NeuronSpec(read_recurrent, layout=_BATCH_FIRST)),
        sl.ALIF: NeuronSpec(read_alif, layout=_BATCH_FIRST),
        sl.ALIFRecurrent: NeuronSpec(read_alif_recurrent, layout=_BATCH_FIRST),
        **dict.fromkeys((sl.LIFSqueeze, sl.IAFSqueeze, sl.ExpLeakSqueeze), flat),
        **refusals(sl, _REFUSED),
    }


@reader
def read_lif(p: Parameters) -> ImportedNeuron:
    """LIF, IAF, ExpLeak, squeezed or not; the module counts time steps."""
    return ImportedNeuron(_canonical(p))


@reader
def read_recurrent(p: Parameters) -> ImportedNeuron:
    """LIFRecurrent, IAFRecurrent with a linear ``rec_connect``, whose bias acts from the second time step on.

    The recurrence's bias acts from the first time step; the initial state cancels it there.
    """
    return _recurrent(p, _canonical(p))


@reader
def read_alif(p: Parameters) -> ImportedNeuron:
    """ALIF: a LIF whose threshold adapts."""
    return ImportedNeuron(_adaptive(p))


@reader
def read_alif_recurrent(p: Parameters) -> ImportedNeuron:
    """ALIFRecurrent, as LIFRecurrent."""
    return _recurrent(p, _adaptive(p))


def _recurrent(p: Parameters, canonical: Neuron) -> ImportedNeuron:
    layer = _linear(p)
    if layer is None:
        return ImportedNeuron(canonical)
    p.check_square("rec_connect.weight", layer.weight)
    weight = Dense(freeze(as_float64(layer.weight).astype(np.float32)))
    if layer.bias is None or p.problems:
        return ImportedNeuron(canonical, (Recurrence(weight),))
    bias = freeze(as_float64(layer.bias))
    return ImportedNeuron(_without_first_bias(canonical, bias), (Recurrence(weight, bias),))


def _copied(layer: Any, memo: dict[int, Any]) -> Any:
    """Copy of a layer as torch makes it; the copy of sinabs 3.1.3 fails for a layer inside a layer."""
    import torch

    clone: Any = object.__new__(type(layer))
    memo[id(layer)] = clone
    vars(clone)[LEFT_OVER] = tuple(leftover_states(layer))
    for name, value in vars(layer).items():
        if name == "_buffers":
            value = {key: None if b is None else torch.zeros(0) for key, b in value.items()}  # the state at rest
        elif name != "__deepcopy__":
            value = value.detach().clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value, memo)
        vars(clone)[name] = value
    vars(clone)["__deepcopy__"] = functools.partial(_copied, clone)
    return clone


# --- pieces -------------------------------------------------------------------------------------------------------


def _canonical(p: Parameters) -> Neuron:
    module, decay, syn = p.module, p.module.alpha_mem_calculated, p.module.alpha_syn_calculated
    a_mem = p.fitted("tau_mem", decay)
    gain = p.fitted("tau_mem", 1 - decay) if module.norm_input else np.float64(1)
    a_syn = np.zeros(()) if syn is None else p.fitted("tau_syn", syn)
    if syn is not None:  # e (i + x) is e times j = e j + x, to the last bit
        gain = gain * a_syn
    leaks = getattr(module, "tau_mem_calculated", decay) is not None  # ALIF has none
    kind = "LIF" if syn is None and leaks else "IF" if syn is None else "CubaLIF"
    floor = None if module.min_v_mem is None else p.fitted("min_v_mem", module.min_v_mem)
    membrane = neuron(kind, a_mem=a_mem, g_mem=gain, a_syn=a_syn, compare=">=", v_min=floor)
    if module.spike_fn is None:
        if floor is not None:
            found = f"min_v_mem = {float(np.min(floor)):g}, and it sends the potential before the floor"
            p.fault(found, "only neurons that fire have a floor", "set min_v_mem = None")
        return replace(membrane, kind="LI", theta=None, reset="none", reset_amount=freeze(np.float64(0)), compare=">")
    return _firing(p, membrane)


def _adaptive(p: Parameters) -> Neuron:
    """An ALIF. With norm_input its current is multiplied by ``1 - e`` where it is kept, and so decays by that, too."""
    from sinabs.activation import MembraneSubtract

    module, lif = p.module, _canonical(p)
    lif = lif if module.alpha_syn_calculated is None else replace(lif, a_syn=lif.g_mem)
    kept, size = p.fitted("tau_adapt", module.alpha_adapt_calculated), p.fitted("adapt_scale", module.adapt_scale)
    jump = size * p.fitted("tau_adapt", 1 - module.alpha_adapt_calculated)
    if lif.max_spikes > 1 and bool(np.any(jump < 0)):
        p.fault("its adapt_scale is below 0", "several spikes need a threshold above 0", "use SingleSpike")
    in_reset = type(module.reset_fn) is MembraneSubtract and module.reset_fn.subtract_value is None
    return replace(lif, adaptation=Adaptation.of(kept, jump, in_reset=in_reset))


def _firing(p: Parameters, membrane: Neuron) -> Neuron:
    from sinabs.activation import MembraneReset, MembraneSubtract

    given = p.module.b0 if hasattr(p.module, "b0") else p.module.spike_threshold  # that of ALIF moves
    theta = compact(p.fitted("spike_threshold", given))
    if bool(np.any(theta <= 0)):
        p.fault("its spike_threshold is not above 0", "", "give a threshold above 0")
    firing = replace(membrane, theta=theta, reset_amount=theta, max_spikes=_max_spikes(p))
    reset = p.module.reset_fn
    if type(reset) is MembraneSubtract:
        value = reset.subtract_value
        amount = theta if value is None else compact(p.fitted("subtract_value", value))
        return replace(firing, reset="subtract", reset_amount=amount)
    if type(reset) is MembraneReset:
        value = p.fitted("reset_value", reset.reset_value)
        if not bool(np.any(value != 0)):
            return firing
        # sinabs adds it in every time step, spike or not: a drive after the decay, missing in the first time step
        v_min = None if firing.v_min is None else compact(firing.v_min - value)
        bias, v_init = compact(firing.a_mem * value), compact(firing.v_init - value)
        return replace(firing, bias=bias, v_init=v_init, v_min=v_min)
    limit = "MembraneSubtract and MembraneReset are supported"
    p.fault(f"reset_fn is {type(reset).__name__}", limit, "use one of the two")
    return firing


def _max_spikes(p: Parameters) -> int:
    from sinabs.activation import MaxSpike, MultiSpike, SingleSpike

    function = p.module.spike_fn
    if function in (MultiSpike, SingleSpike):
        return UNLIMITED if function is MultiSpike else 1
    if isinstance(function, MaxSpike):
        limit = function.max_num_spikes_per_bin
        return UNLIMITED if limit is None else int(limit)
    name = getattr(function, "__name__", type(function).__name__)
    p.fault(f"spike_fn is {name}", "MultiSpike, SingleSpike and MaxSpike are supported", "use one of them")
    return 1


def _linear(p: Parameters) -> Any:
    """The Linear of ``rec_connect``, alone or between layers that only reshape; a fault and None otherwise."""
    import torch

    inert = (torch.nn.Flatten, torch.nn.Unflatten, torch.nn.Identity)
    connect = p.module.rec_connect
    layers = list(connect) if isinstance(connect, torch.nn.Sequential) else [connect]
    working = [layer for layer in layers if not isinstance(layer, inert)]
    if len(working) == 1 and isinstance(working[0], torch.nn.Linear):
        return working[0]
    limit = "one torch.nn.Linear (between Flatten and Unflatten) is supported"
    p.fault(f"rec_connect is {type(connect).__name__}", limit, "write it as one Linear")
    return None


def _without_first_bias(record: Neuron, bias: Array) -> Neuron:
    """The neuron with an initial state that cancels ``bias`` in the first time step."""
    if record.has_synapse:
        return replace(record, i_init=compact(record.i_init - bias / record.a_syn))
    return replace(record, v_init=compact(record.v_init - record.g_mem * bias / record.a_mem))
