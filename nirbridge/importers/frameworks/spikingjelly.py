"""spikingjelly 2.0.0 (activation_based): neurons and recurrent containers as canonical neurons.

IF: ``v + x``. LIF: ``v + (x - (v - v_reset)) / tau``, or without ``decay_input`` ``v - (v - v_reset) / tau + x``;
``v_reset=None`` rests at 0 and subtracts the threshold. CUBALIF: ``c = c_decay c + x``, ``v = v_decay v + c``. All
fire at ``v >= threshold`` and start at v_reset. Time constants are in time steps. Source:
``spikingjelly/_ops/*/reference.py``, measured in ``tests/importers/frameworks/test_spikingjelly.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, compact, freeze
from nirbridge.errors import type_text
from nirbridge.importers.emitted import emitted_dt
from nirbridge.importers.lowering.described_graph import module_to_graph
from nirbridge.importers.module_checks import HALF_COUNTS, check_module
from nirbridge.importers.neuron_specs import (
    ImportedNeuron,
    NeuronSpec,
    Parameters,
    Recurrence,
    as_float64,
    neuron_spec_of,
    quietly,
    reader,
    refusals,
    step_of,
)
from nirbridge.importers.sample import TimeAxis
from nirbridge.network.neurons import Compare, Neuron, neuron
from nirbridge.network.operators import Dense, Identity

DT = 1e-3
"""Seconds per time step where none are given."""
NEVER = float(np.finfo(np.float32).max)
"""A threshold that no potential reaches: the neuron is read for its membrane, and never resets."""
_REFUSED = (
    ("a membrane that is not linear below its threshold", "use LIFNode",
     ("QIFNode", "EIFNode", "IzhikevichNode", "RAFNode", "ComplementaryLIFNode", "GatedLIFNode")),
    ("outputs that are not spikes", "use LIFNode", ("LIAFNode", "TernaryIFNode", "TernaryLIFNode", "STBIFNode")),
    ("a threshold or state that adapts", "use LIFNode", ("AdaptBaseNode", "OutlierAwareThresholdNode")),
    ("a convolution over time, not a neuron with a state", "use LIFNode", ("PSN", "MaskedPSN", "SlidingPSN")),
    ("noise", "use the class without noise",
     ("NoisyBaseNode", "NoisyCUBALIFNode", "NoisyILCBaseNode", "NoisyILCCUBALIFNode", "NoisyNonSpikingIFNode")),
    ("connections between the neurons of a layer", "use LinearRecurrentContainer",
     ("ILCBaseNode", "ILCCUBALIFNode", "ILCIFNode", "ILCLIFNode")),
    ("a normalisation inside the neuron", "use LIFNode", ("MPBNBaseNode", "MPBNLIFNode")),
    ("codes or several spikes over a fixed number of time steps", "use IFNode",
     ("FewSpikeNode", "HGNode", "DSRIFNode", "DSRLIFNode", "FlexSN")),
)  # fmt: skip

_REFUSED_LAYERS = (
    ("a maximum over three axes", "use MaxPool2d over spikes", ("MaxPool3d",)),
    ("a current that decays in time steps without a spike only: a product of input and state",
     "use CUBALIFNode, whose current always decays", ("SynapseFilter",)),
    ("a layer that works on all steps at once", "import the network without it",
     ("SpikeCountToBinary", "TemporalBinSum", "TLastMultiStepContainer", "TLastSeqToANNContainer")),
)  # fmt: skip

_STEPS = (
    "Sigmoid", "ATan", "SuperSpike", "SoftSign", "PiecewiseQuadratic", "PiecewiseExp", "Erf", "Rect", "S2NN",
    "NonzeroSignLogAbs", "PiecewiseLeakyReLU", "SquarewaveFourierSeries", "QPseudoSpike", "LeakyKReLU",
    "FakeNumericalGradient", "LogTailedReLU",
)  # fmt: skip
"""Surrogates whose forward pass is a step at 0, as long as ``spiking`` is on."""


def from_spikingjelly(
    module: Any,
    sample: Any,
    *,
    dt: float | None = None,
    batched: bool | None = None,
    time_axis: TimeAxis = None,
    accept: Sequence[str] = (),
    check: int | None = None,
    measure: Any = None,
) -> Any:
    """A module of spikingjelly neurons as a ``nir.NIRGraph`` with the module's meaning.

    Args:
        module: a network of either step mode.
        sample: one time step or a whole sequence, as the module takes it, with or without the batch axis, or a tuple
            of them.
        dt: seconds per time step; spikingjelly counts time steps, so any dt gives the same spikes. None: 1e-3, or that
            of the network that a module of ``nirbridge emit`` was written from.
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
    check_module(module, dt)
    return module_to_graph(
        module,
        sample,
        neuron_specs(),
        package="spikingjelly",
        dt=(emitted_dt(module) or DT) if dt is None else dt,
        batched=batched,
        time_axis=time_axis,
        accept=accept,
        check=check,
        measure=measure,
    )


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """The supported classes of ``spikingjelly.activation_based``, and those that are refused by name."""
    with quietly():
        from spikingjelly.activation_based import layer
        from spikingjelly.activation_based import neuron as nodes

    own: dict[str, Any] = {"layout": _layout, "potential": 1, "membrane": "v"}
    return {
        **refusals(nodes, _REFUSED),
        **refusals(layer, _REFUSED_LAYERS),
        **dict.fromkeys((nodes.IFNode, nodes.HalfThresholdIFNode, nodes.SimpleIFNode), NeuronSpec(read_if, **own)),
        nodes.ActivationAwareIFNode: NeuronSpec(read_offset_if, **own),
        **dict.fromkeys((nodes.LIFNode, nodes.SimpleLIFNode, nodes.ParametricLIFNode), NeuronSpec(read_lif, **own)),
        **dict.fromkeys((nodes.OTTTLIFNode, nodes.SLTTLIFNode), NeuronSpec(read_lif, **own)),
        nodes.ILIFNode: NeuronSpec(read_integer_lif, **own),
        nodes.KLIFNode: NeuronSpec(read_klif, **own),
        nodes.CUBALIFNode: NeuronSpec(read_cuba, **own),
        layer.LinearRecurrentContainer: NeuronSpec(read_linear_container, layout=_layout),
        layer.ElementWiseRecurrentContainer: NeuronSpec(read_adding_container, layout=_layout),
    }


def _layout(module: Any) -> tuple[str, ...] | None:
    return ("time", "batch") if module.step_mode == "m" else None


@reader
def read_if(p: Parameters) -> ImportedNeuron:
    """IFNode, HalfThresholdIFNode, SimpleIFNode."""
    return ImportedNeuron(_firing(p, neuron("IF", compare=">=")), membrane="v")


@reader
def read_offset_if(p: Parameters) -> ImportedNeuron:
    """ActivationAwareIFNode: fires at ``v + v_offset >= threshold``, and subtracts the threshold."""
    reset = p.module.v_reset
    membrane = neuron("IF", compare=">=", v_reset=reset or 0.0, v_init=_initial_potential(p))
    threshold, offset = _by_channel(p, "v_threshold"), _by_channel(p, "v_offset")
    firing = replace(membrane, theta=compact(threshold - offset), reset_amount=compact(threshold), compare=_compare(p))
    return ImportedNeuron(replace(firing, reset="subtract" if reset is None else "to-value"))


@reader
def read_lif(p: Parameters) -> ImportedNeuron:
    """LIFNode, SimpleLIFNode, ParametricLIFNode, OTTTLIFNode, SLTTLIFNode, with or without ``decay_input``."""
    module = p.module
    share = p.fitted("w", module.w.sigmoid()) if hasattr(module, "w") else np.asarray(1.0 / module.tau)
    rest = 0.0 if module.v_reset is None else float(module.v_reset)
    gain = share if module.decay_input else np.float64(1)
    record = _firing(p, neuron("LIF", a_mem=1.0 - share, g_mem=gain, bias=share * rest, compare=">="))
    return ImportedNeuron(record, membrane="v")


@reader
def read_integer_lif(p: Parameters) -> ImportedNeuron:
    """ILIFNode: ``round(h / th)`` spikes, at most D: ``floor((h + th / 2) / th)`` of a potential that is th / 2 higher.

    Halfway between two counts, the module rounds to the even one: 0 of 0.5 and 2 of 1.5, as the floor, but 2 of 2.5.
    """
    most, decay = int(p.module.surrogate_function.max_spike_count), 1.0 - 1.0 / p.module.tau
    theta = compact(p.fitted("v_threshold", p.module.v_threshold))
    if not np.all(theta > 0):
        p.fault("its threshold is not above 0", "spikes are counted in thresholds", "use one above 0")
    rule: dict[str, Any] = {"reset": "subtract", "reset_amount": theta, "max_spikes": most, "v_init": theta / 2}
    record = neuron("LIF", a_mem=decay, bias=(1.0 - decay) * theta / 2, theta=theta, **rule)
    found = "at a potential of 2.5 thresholds it sends 2 spikes, the import 3 (likewise at 4.5, 6.5, ...)"
    return ImportedNeuron(record, deviations=((HALF_COUNTS, found),) if most > 2 else ())


@reader
def read_klif(p: Parameters) -> ImportedNeuron:
    """KLIFNode: ``relu(k h)`` of a LIF's potential h. Its floor at 0 comes before the reset, the same above 0.

    ``scale_reset`` divides the potential by k again, so that k is part of the threshold, not of the decay.
    """
    module, k = p.module, float(p.module.k)
    share, factor = 1.0 / module.tau, 1.0 if module.scale_reset else k
    rest = 0.0 if module.v_reset is None else float(module.v_reset)
    if not (k > 0 and float(module.v_threshold) > 0 and rest >= 0):
        found = f"k is {k:g}, v_threshold {float(module.v_threshold):g}, v_reset {rest:g}"
        p.fault(found, "its rectified potential needs k and v_threshold above 0, v_reset from 0 on", "use LIFNode")
        return ImportedNeuron(neuron("IF"))
    if factor * (1.0 - share) >= 1:
        p.fault(f"k is {k:g} and tau {module.tau:g}", "its potential would grow without input", "use a smaller k")
    gain = factor * (share if module.decay_input else 1.0)
    decay, drive = factor * (1.0 - share), factor * share * rest
    firing = _firing(p, neuron("LIF", a_mem=decay, g_mem=gain, bias=drive, compare=">=", v_min=0.0))
    if module.scale_reset and firing.theta is not None:
        theta = compact(firing.theta / k)
        firing = replace(firing, theta=theta, reset_amount=theta)
    return ImportedNeuron(firing)


@reader
def read_cuba(p: Parameters) -> ImportedNeuron:
    """CUBALIFNode: the current first; it rests at 0 for any v_reset. Its decays may be tensors, one per neuron."""
    v_decay, c_decay = (p.fitted(name, getattr(p.module, name)) for name in ("v_decay", "c_decay"))
    return ImportedNeuron(_firing(p, neuron("CubaLIF", a_mem=v_decay, a_syn=c_decay, compare=">=")))


@reader
def read_linear_container(p: Parameters) -> ImportedNeuron:
    """LinearRecurrentContainer around a neuron: one Linear over (input, last output) in front of it."""
    layer = p.module.rc
    weight = as_float64(layer.weight).astype(np.float32)
    width = weight.shape[1] - p.module.sub_module_out_features
    operator, feedback = Dense(freeze(weight[:, :width])), Dense(freeze(weight[:, width:]))
    bias = None if layer.bias is None else freeze(as_float64(layer.bias))
    return replace(_inner(p), operator=operator, bias=bias, recurrences=(Recurrence(feedback),))


@reader
def read_adding_container(p: Parameters) -> ImportedNeuron:
    """ElementWiseRecurrentContainer around a neuron, whose function adds the last output to the input."""
    imported = _inner(p)
    if not _adds(p.module.element_wise_function):
        found = "element_wise_function is not the sum of its arguments"
        p.fault(found, "only the sum of the two is supported", "use lambda y, x: y + x")
    return replace(imported, recurrences=(Recurrence(Identity(p.shape)),))


# --- pieces -------------------------------------------------------------------------------------------------------


def _inner(p: Parameters) -> ImportedNeuron:
    """The neuron inside a container."""
    module = p.module.sub_module
    form = neuron_spec_of(module, neuron_specs())
    if form is None or hasattr(module, "sub_module"):
        hint = "take the other layers out of the container"
        p.fault(f"it holds {type_text(module)}", "a container of one neuron is supported", hint)
        return ImportedNeuron(neuron("IF"))
    return form.read(module, p.shape, p.dt)


def _adds(function: Any) -> bool:
    """True if ``function(y, x)`` is ``y + x`` on random values."""
    import torch

    source = torch.Generator().manual_seed(0)
    y, x = torch.randn(2, 64, generator=source).unbind()
    try:
        result = function(y, x)
    except Exception:  # a user's function may raise anything
        return False
    return isinstance(result, torch.Tensor) and torch.equal(result, y + x)


def _firing(p: Parameters, membrane: Neuron) -> Neuron:
    theta = compact(p.fitted("v_threshold", p.module.v_threshold))
    compare = _compare(p)
    start, reset = compact(_initial_potential(p)), p.module.v_reset
    level = np.zeros(()) if reset is None else p.fitted("v_reset", reset)
    firing = replace(membrane, theta=theta, reset_amount=theta, v_init=start, v_reset=compact(level), compare=compare)
    if np.all(theta >= NEVER):
        return replace(firing, reset="none")
    return replace(firing, reset="subtract") if reset is None else firing


def _initial_potential(p: Parameters) -> Array:
    """The potential after ``reset()``."""
    return p.fitted("v at reset", p.module.get_reset_value("v"))


def _by_channel(p: Parameters, name: str) -> Array:
    values, shape, channel = as_float64(getattr(p.module, name)), p.shape, p.module.channel_dim
    axis = channel if channel < 0 else channel - 1 - len(shape)
    if values.size > 1 and -len(shape) <= axis < 0 and shape[axis] == values.size:
        values = values.reshape(-1, *(1,) * (-axis - 1))
    return p.fitted(name, values)


def _compare(p: Parameters) -> Compare:
    """Whether the surrogate's forward pass counts the threshold itself; a fault where it is no step at 0."""
    surrogate = p.module.surrogate_function
    name = type(surrogate).__name__
    found = ">=" if name in _STEPS else step_of(surrogate)
    if found is None:
        p.fault(f"surrogate_function is {name}", "its forward pass must be a step at 0", "use ATan or Sigmoid")
    elif not surrogate.spiking:
        text = "surrogate_function has spiking = False, so the outputs are not spikes"
        p.fault(text, "", "call surrogate_function.set_spiking_mode(True)")
    return found or ">="
