"""snnTorch 1.0.0: its neurons as canonical ones, and ``from_snntorch``.

With b = beta, a = alpha (clamped to [0, 1] where the module does), S = spike: ``v = b v + x``, S = v > threshold. A
late reset (``reset_delay=True``, the default) takes effect one time step after the spike: a subtraction of th is one
of th / b at once, since it decays by b before it counts (at b = 0: a connection of -th onto itself); a reset to zero
is the same late or early for Leaky; the others lose the whole next step, input and all. Source: ``snntorch/_neurons``,
measured in ``tests/importers/frameworks/test_snntorch.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.importers.emitted import emitted_dt
from nirbridge.importers.lowering.described_graph import module_to_graph
from nirbridge.importers.lowering.linear_layers import per_channel_values
from nirbridge.importers.module_checks import EARLY_SUBTRACTION, check_module
from nirbridge.importers.neuron_specs import (
    ImportedNeuron,
    NeuronSpec,
    Parameters,
    Recurrence,
    as_float64,
    late_subtraction,
    quietly,
    reader,
    refusals,
)
from nirbridge.importers.sample import TimeAxis
from nirbridge.network.neurons import Reset, neuron
from nirbridge.network.operators import Conv, Dense, Operator, Scale

DT = 1e-4
"""Seconds per time step where none are given."""
_EARLY = (
    "reset_delay=False with a subtraction: snnTorch tests the potential that is left a second time, and where it is "
    "still above the threshold, the next spike needs twice the threshold"
)
_RESETS: tuple[Reset, ...] = ("subtract", "to-value", "none")
_REFUSED = (
    ("its membrane is a difference of two currents that spikes reset as well", "use Synaptic", ("Alpha",)),
    ("an LSTM cell multiplies gates", "use Synaptic or RSynaptic", ("SLSTM",)),
    ("an LSTM cell multiplies gates", "use Conv2d and Synaptic or RSynaptic", ("SConv2dLSTM",)),
    ("a ReLU keeps its membrane above zero", "use Linear and Leaky", ("LeakyParallel",)),
    ("it fires on the change of its membrane", "use Leaky", ("DeltaLeaky",)),
    ("it multiplies keys and values", "use Linear and Leaky", ("AssociativeLeaky",)),
)  # fmt: skip


def from_snntorch(
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
    """A trained snnTorch module as a ``nir.NIRGraph`` that computes the same in every time step.

    Args:
        module: a ``torch.nn.Module``; it is not changed.
        sample: one time step or a whole sequence, as the module takes it, with or without the batch axis, or a tuple
            of them (tensors or arrays).
        dt: seconds per time step; snnTorch itself counts time steps. None: 1e-4, or that of the network that a module
            of ``nirbridge emit`` was written from.
        batched: whether the sample has a batch axis (None: inferred).
        time_axis: the axis of the sample that is time, "none" if it is one time step (None: inferred).
        accept: names of known deviations to accept (``deviations.DEVIATIONS``); all others are refused.
        check: number of random inputs on which the import is compared with the module (0: none; None: 2, if cheap).
        measure: labelled data ``(inputs, labels)``: the accuracy of the module and of the import on them is stated.

    Returns:
        The graph; its metadata holds notes and warnings (``nirbridge:notes``, ``nirbridge:warnings``).

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
        package="snntorch",
        dt=(emitted_dt(module) or DT) if dt is None else dt,
        batched=batched,
        time_axis=time_axis,
        accept=accept,
        check=check,
        measure=measure,
    )


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """The supported neuron classes of the package, and those that are refused by name."""
    with quietly():
        import snntorch as snn

    return {
        **dict.fromkeys((snn.Leaky, snn.RLeaky), NeuronSpec(_read_leaky, potential=1, membrane="mem")),
        **dict.fromkeys((snn.Synaptic, snn.RSynaptic), NeuronSpec(_read_synaptic, potential=2)),
        snn.Lapicque: NeuronSpec(_read_lapicque, potential=1, membrane="mem"),
        **dict.fromkeys(
            (cls for cls in (getattr(snn, name, None) for name in ("StateLeaky", "LinearLeaky")) if cls),
            NeuronSpec(_read_state_leaky, potential=1, layout=("time", "batch")),
        ),
        **refusals(snn, _REFUSED),
    }


@reader
def _read_leaky(p: Parameters) -> ImportedNeuron:
    _check_common(p)
    return _imported(p, "LIF", _fitted(p, "beta", p.module.beta.clamp(0, 1)))


@reader
def _read_synaptic(p: Parameters) -> ImportedNeuron:
    _check_common(p)
    decay, a_syn = (_fitted(p, name, getattr(p.module, name).clamp(0, 1)) for name in ("beta", "alpha"))
    return _imported(p, "CubaLIF", decay, a_syn=a_syn)


@reader
def _read_lapicque(p: Parameters) -> ImportedNeuron:
    """``v = (1 - dt / RC) v + x R (1 / RC) dt``, each product in float32 as the module computes it."""
    _check_common(p)
    module = p.module
    rate = 1 / (module.R * module.C)
    gain = _fitted(p, "R and C", module.R * rate * module.time_step)
    decay = _fitted(p, "R and C", 1 - module.time_step / (module.R * module.C))
    return _imported(p, "LIF", decay, g_mem=gain)


@reader
def _read_state_leaky(p: Parameters) -> ImportedNeuron:
    """StateLeaky, LinearLeaky: ``v = exp(-1 / tau) v + x`` without a reset; with ``output=False`` v alone."""
    _check_common(p)
    module = p.module
    if module.kernel_truncation_steps is not None:
        found = f"kernel_truncation_steps={module.kernel_truncation_steps} forgets earlier time steps altogether"
        p.fault(found, "a membrane decays without an end", "use kernel_truncation_steps=None")
    decay = p.fitted("tau", np.exp(-1.0 / as_float64(module.tau)))
    readout = ImportedNeuron(neuron("LI", a_mem=decay, theta=None, reset="none"))
    read = _imported(p, "LIF", decay, reset="none") if module.output else readout
    if not hasattr(module, "linear"):
        return read
    bias = None if module.linear.bias is None else freeze(as_float64(module.linear.bias))
    return replace(read, operator=Dense(freeze(as_float64(module.linear.weight).astype(np.float32))), bias=bias)


def _fitted(p: Parameters, name: str, value: Any) -> Array:
    """The parameter in float32, as the module computes with it."""
    return p.fitted(name, as_float64(value).astype(np.float32))


def _check_common(p: Parameters) -> None:
    import torch

    if p.module.inhibition:
        limit = "NIR neurons are independent of each other"
        p.fault("inhibition=True lets only one neuron of a layer fire", limit, "turn it off")
    if p.module.state_quant:
        p.fault("state_quant rounds its state", "NIR states are real numbers", "import without it, then quantize")
    probes = torch.tensor([-2.0, -1e-3, 0.0, 1e-3, 2.0] * 8)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        fired = p.module.spike_grad(probes)
    if not torch.equal(fired, (probes > 0).to(fired.dtype)):
        limit = "a spike is 1 above the threshold, else 0"
        p.fault("spike_grad is not a step at the threshold", limit, "use a surrogate whose forward is a step")


def _imported(
    p: Parameters, kind: str, decay: Array, *, a_syn: Any = 0.0, g_mem: Any = 1.0, reset: Reset | None = None
) -> ImportedNeuron:
    theta = _fitted(p, "threshold", p.module.threshold)
    reset, late = reset or _RESETS[int(p.module.reset_mechanism_val)], _is_late(p.module)
    early: tuple[tuple[str, str], ...] = ()
    amount, extra = theta, ()
    if reset == "subtract" and late:
        amount, extra = late_subtraction(decay, theta, p.shape, g_mem)
        if extra and bool(np.any((decay == 0) & (np.asarray(a_syn) != 0))):
            hint = "use reset_mechanism='zero', or a beta above 0"
            p.fault("beta = 0 after a current, and a late subtraction", "nothing is left to subtract from", hint)
    elif reset == "subtract":
        early = ((EARLY_SUBTRACTION, _EARLY),)
    if reset != "none" and bool(np.any(theta < 0)):
        p.fault("a threshold below zero with a reset", "it resets before its first time step", "use one above zero")
    waits = reset == "to-value" and late and type(p.module).__name__ != "Leaky"
    canonical = neuron(
        kind,
        a_mem=decay,
        g_mem=g_mem,
        a_syn=a_syn,
        theta=theta,
        reset=reset,
        reset_amount=amount,
        refractory_steps=int(waits),
    )
    graded = _fitted(p, "graded_spikes_factor", p.module.graded_spikes_factor)
    recurrences = (*_recurrences(p), *extra)
    scale, shown = None if np.all(graded == 1) else graded, "u" if late else "v"
    return ImportedNeuron(canonical, recurrences, scale_out=scale, deviations=early, membrane=shown)


def _is_late(module: Any) -> bool:
    """Lapicque has no early reset, and RSynaptic 1.0.0 computes it but keeps the late one."""
    return type(module).__name__ in ("Lapicque", "RSynaptic") or bool(getattr(module, "reset_delay", True))


def _recurrences(p: Parameters) -> tuple[Recurrence, ...]:
    """The feedback of an RLeaky or RSynaptic: a matrix, a convolution, or one weight per neuron."""
    if not hasattr(p.module, "recurrent"):
        return ()
    layer, shape = p.module.recurrent, p.shape
    if hasattr(layer, "V"):
        return (Recurrence(Scale(freeze(np.broadcast_to(_fitted(p, "V", layer.V), shape)))),)
    weight = as_float64(layer.weight).astype(np.float32)
    operator = _operator(layer, weight, shape)
    if operator is None or operator.output_shape != shape:
        p.fault(f"its recurrent weights have shape {weight.shape}", f"the neurons have {shape}", "give fitting ones")
        return ()
    bias = None if layer.bias is None else per_channel_values(as_float64(layer.bias), shape)
    return (Recurrence(operator, None if bias is None else freeze(bias)),)


def _operator(layer: Any, weight: Array, shape: Shape) -> Operator | None:
    if weight.ndim == 2:
        return Dense(freeze(weight)) if shape == (weight.shape[1],) else None
    if len(shape) != 3 or weight.ndim != 4 or shape[0] != weight.shape[1]:
        return None
    padding = tuple((int(p), int(p)) for p in layer.padding)
    return Conv(freeze(weight), tuple(layer.stride), padding, tuple(layer.dilation), layer.groups, shape)
