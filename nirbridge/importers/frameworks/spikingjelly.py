"""spikingjelly 2.0.0 (activation_based): neurons and recurrent containers as canonical neurons.

IF: ``v + x``. LIF: ``v + (x - (v - v_reset)) / tau``, or without ``decay_input`` ``v - (v - v_reset) / tau + x``;
``v_reset=None`` rests at 0 and subtracts the threshold. CUBALIF: ``c = c_decay c + x``, ``v = v_decay v + c``. All
fire at ``v >= threshold`` and start at v_reset. Time constants count steps. Source:
``spikingjelly/_ops/*/reference.py``, measured in ``tests/importers/frameworks/test_spikingjelly.py``.
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
from nirbridge.importers.parameters import as_float64, module_problem, per_neuron, quietly, refusals, refuse, version_of
from nirbridge.importers.sample.axes import TimeAxis
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense, Identity

_REFUSED = (
    ("a membrane that is not linear below its threshold", "use LIFNode",
     ("QIFNode", "EIFNode", "IzhikevichNode", "KLIFNode", "RAFNode", "ComplementaryLIFNode", "GatedLIFNode")),
    ("outputs that are not spikes", "use LIFNode", ("LIAFNode", "TernaryIFNode", "TernaryLIFNode", "STBIFNode")),
    ("a threshold or state that adapts", "use LIFNode", ("AdaptBaseNode", "OutlierAwareThresholdNode")),
    ("a convolution over time, not a neuron with a state", "use LIFNode", ("PSN", "MaskedPSN", "SlidingPSN")),
    ("noise", "use the class without noise",
     ("NoisyBaseNode", "NoisyCUBALIFNode", "NoisyILCBaseNode", "NoisyILCCUBALIFNode", "NoisyNonSpikingIFNode")),
    ("connections between the neurons of a layer", "use LinearRecurrentContainer",
     ("ILCBaseNode", "ILCCUBALIFNode", "ILCIFNode", "ILCLIFNode")),
    ("a normalisation inside the neuron", "use LIFNode", ("MPBNBaseNode", "MPBNLIFNode")),
    ("codes or several spikes over a fixed number of steps", "use IFNode",
     ("FewSpikeNode", "HGNode", "ILIFNode", "DSRIFNode", "DSRLIFNode", "FlexSN")),
    ("an output that is decoded from all steps", "use a last layer without neurons and add up its outputs yourself",
     ("NonSpikingIFNode", "NonSpikingLIFNode")),
    ("a training rule with a forward pass of its own", "use LIFNode", ("OTTTLIFNode", "SLTTLIFNode")),
)  # fmt: skip

_REFUSED_LAYERS = (
    ("a maximum, which no sum of spikes gives", "use AvgPool2d", ("MaxPool1d", "MaxPool2d", "MaxPool3d")),
    ("a filter over time outside a neuron", "use CUBALIFNode, whose current does that", ("SynapseFilter",)),
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
    dt: float = 1e-3,
    batched: bool | None = None,
    time_axis: TimeAxis = None,
    accept: Sequence[str] = (),
    check: int | None = None,
) -> Any:
    """A module of spikingjelly neurons as a ``nir.NIRGraph`` with the module's meaning.

    Args:
        module: a network of either step mode.
        sample: one time step or a whole sequence as the module takes it, with or without the batch axis, or a tuple of
            them.
        dt: seconds a step; spikingjelly counts steps, so any dt gives the same spikes.
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

    check_module(module, dt)
    known = neuron_specs()
    graph = module_to_graph(
        module,
        sample,
        known,
        dt=dt,
        source=version_of("spikingjelly"),
        batched=batched,
        time_axis=time_axis,
        accept=accept,
    )
    given = batched is not None or time_axis is not None
    return with_self_check(graph, module, sample, known, check, accept=accept, are_axes_given=given)


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """The classes of ``spikingjelly.activation_based`` that are read, and those that are refused by name."""
    with quietly():
        from spikingjelly.activation_based import layer
        from spikingjelly.activation_based import neuron as nodes

    return {
        **refusals(nodes, _REFUSED),
        **refusals(layer, _REFUSED_LAYERS),
        **dict.fromkeys(
            (nodes.IFNode, nodes.HalfThresholdIFNode, nodes.SimpleIFNode), NeuronSpec(read_if, layout=_layout)
        ),
        nodes.ActivationAwareIFNode: NeuronSpec(read_offset_if, layout=_layout),
        **dict.fromkeys(
            (nodes.LIFNode, nodes.SimpleLIFNode, nodes.ParametricLIFNode), NeuronSpec(read_lif, layout=_layout)
        ),
        nodes.CUBALIFNode: NeuronSpec(read_cuba, layout=_layout),
        layer.LinearRecurrentContainer: NeuronSpec(read_linear_container, layout=_layout),
        layer.ElementWiseRecurrentContainer: NeuronSpec(read_adding_container, layout=_layout),
    }


def _layout(module: Any) -> tuple[str, ...] | None:
    return ("time", "batch") if module.step_mode == "m" else None


def read_if(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """IFNode, HalfThresholdIFNode, SimpleIFNode. ``dt`` is what the user says a step lasts.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems: list[Diagnostic] = []
    record = _firing(neuron("IF", compare=">="), module, shape, problems)
    refuse(problems)
    return ImportedNeuron(record)


def read_offset_if(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """ActivationAwareIFNode: fires at ``v + v_offset >= threshold``, and subtracts the threshold.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems: list[Diagnostic] = []
    record = neuron("IF", compare=">=", v_reset=module.v_reset or 0.0, v_init=_start(module, shape, problems))
    threshold, offset = (_by_channel(module, n, shape, problems) for n in ("v_threshold", "v_offset"))
    _check_surrogate(module, problems)
    refuse(problems)
    record = replace(record, theta=compact(threshold - offset), reset_amount=compact(threshold))
    return ImportedNeuron(replace(record, reset="subtract" if module.v_reset is None else "to-value"))


def read_lif(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LIFNode, SimpleLIFNode, ParametricLIFNode, with or without ``decay_input``.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems: list[Diagnostic] = []
    share = as_float64(module.w.sigmoid()) if hasattr(module, "w") else np.asarray(1.0 / module.tau)
    rest = 0.0 if module.v_reset is None else float(module.v_reset)
    gain = share if module.decay_input else np.float64(1)
    record = neuron("LIF", a_mem=1.0 - share, g_mem=gain, bias=share * rest, compare=">=")
    record = _firing(record, module, shape, problems)
    refuse(problems)
    return ImportedNeuron(record)


def read_cuba(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """CUBALIFNode: the current first; it rests at 0 whatever v_reset is.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems: list[Diagnostic] = []
    record = neuron("CubaLIF", a_mem=module.v_decay, a_syn=module.c_decay, compare=">=")
    record = _firing(record, module, shape, problems)
    refuse(problems)
    return ImportedNeuron(record)


def read_linear_container(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LinearRecurrentContainer around a neuron: one Linear over (input, last output) in front of it.

    Raises:
        ModelError: everything about the module that has no form.
    """
    inner = _inner(module, shape, dt)
    weight = as_float64(module.rc.weight).astype(np.float32)
    width = weight.shape[1] - module.sub_module_out_features
    operator, feedback = Dense(freeze(weight[:, :width])), Dense(freeze(weight[:, width:]))
    bias = None if module.rc.bias is None else freeze(as_float64(module.rc.bias))
    return replace(inner, operator=operator, bias=bias, recurrences=(Recurrence(feedback),))


def read_adding_container(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """ElementWiseRecurrentContainer around a neuron, whose function adds the last output to the input.

    Raises:
        ModelError: everything about the module that has no form.
    """
    inner = _inner(module, shape, dt)
    if not _adds(module.element_wise_function):
        limit = "only the sum of the two has a form"
        found = "element_wise_function is not the sum of its arguments"
        refuse([module_problem(module, found, limit, "use lambda y, x: y + x")])
    return replace(inner, recurrences=(Recurrence(Identity(shape)),))


# --- pieces -------------------------------------------------------------------------------------------------------


def _inner(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """The neuron inside a container."""
    from nirbridge.importers.neuron_specs import neuron_spec_of

    form = neuron_spec_of(module.sub_module, neuron_specs())
    if form is None or hasattr(module.sub_module, "sub_module"):
        found = f"it holds a {type(module.sub_module).__name__}"
        refuse(
            [module_problem(module, found, "one neuron in it has a form", "take the other layers out of the container")]
        )
    assert form is not None
    return form.read(module.sub_module, shape, dt)


def _adds(function: Any) -> bool:
    """True if ``function(y, x)`` is ``y + x`` on values that no other simple function maps so."""
    import torch

    source = torch.Generator().manual_seed(0)
    y, x = torch.randn(2, 64, generator=source).unbind()
    try:
        found = function(y, x)
    except Exception:  # a user's function may raise what it likes
        return False
    return isinstance(found, torch.Tensor) and torch.equal(found, y + x)


def _firing(record: Neuron, module: Any, shape: Shape, problems: list[Diagnostic]) -> Neuron:
    theta = compact(per_neuron(module, "v_threshold", module.v_threshold, shape, problems))
    _check_surrogate(module, problems)
    start = compact(_start(module, shape, problems))
    soft = module.v_reset is None
    level = np.zeros(()) if soft else per_neuron(module, "v_reset", module.v_reset, shape, problems)
    record = replace(record, theta=theta, reset_amount=theta, v_init=start, v_reset=compact(level))
    return replace(record, reset="subtract") if soft else record


def _start(module: Any, shape: Shape, problems: list[Diagnostic]) -> Array:
    """The potential after ``reset()``."""
    value = module.get_reset_value("v")
    return per_neuron(module, "v at reset", value, shape, problems)


def _by_channel(module: Any, name: str, shape: Shape, problems: list[Diagnostic]) -> Array:
    values = as_float64(getattr(module, name))
    axis = module.channel_dim if module.channel_dim < 0 else module.channel_dim - 1 - len(shape)
    if values.size > 1 and -len(shape) <= axis < 0 and shape[axis] == values.size:
        values = values.reshape(-1, *(1,) * (-axis - 1))
    return per_neuron(module, name, values, shape, problems)


def _check_surrogate(module: Any, problems: list[Diagnostic]) -> None:
    surrogate = module.surrogate_function
    name = type(surrogate).__name__
    if name not in _STEPS:
        limit = "its forward pass must be a step at 0"
        problems.append(module_problem(module, f"surrogate_function is {name}", limit, "use ATan or Sigmoid"))
    elif not surrogate.spiking:
        found = "surrogate_function has spiking = False, so the outputs are not spikes"
        problems.append(module_problem(module, found, "", "call surrogate_function.set_spiking_mode(True)"))


__all__ = [
    "from_spikingjelly",
    "neuron_specs",
    "read_adding_container",
    "read_cuba",
    "read_if",
    "read_lif",
    "read_linear_container",
    "read_offset_if",
]
