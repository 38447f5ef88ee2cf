"""snnTorch 1.0.0: its neurons as canonical ones, and ``from_snntorch``.

With b = beta, a = alpha (clamped to [0, 1] where the module does), S = spike: ``v = b v + x``, S = v > threshold. A
late reset (``reset_delay=True``, the default) takes effect one step behind the spike: a subtraction of th then is one
of th / b at once, since it decays by b before it counts (at b = 0: a connection of -th onto itself); a reset to zero
is the same late or early for Leaky; the others lose the whole next step, input and all. Source: ``snntorch/_neurons``,
measured in ``tests/importers/frameworks/test_snntorch.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, ModelError
from nirbridge.importers.deviations import EARLY_SUBTRACTION
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronSpec, Recurrence
from nirbridge.importers.parameters import version_of
from nirbridge.importers.sample.axes import TimeAxis
from nirbridge.network.neurons import Reset, neuron
from nirbridge.network.operators import Conv, Dense, Operator, Scale

_EARLY = (
    "reset_delay=False with a subtraction: snnTorch tests the potential that is left a second time, and where it is "
    "still above the threshold, the next spike needs twice the threshold"
)
_RESETS: tuple[Reset, ...] = ("subtract", "to-value", "none")
_REFUSED: Mapping[str, tuple[str, str]] = {
    "Alpha": ("its membrane is a difference of two currents that spikes reset as well: NIR has no such neuron",
              "use Synaptic"),
    "SLSTM": ("an LSTM cell multiplies gates: no NIR neuron does", "use Synaptic or RSynaptic"),
    "SConv2dLSTM": ("an LSTM cell multiplies gates: no NIR neuron does", "use Conv2d and Synaptic or RSynaptic"),
    "LeakyParallel": ("a ReLU keeps its membrane above zero: no NIR neuron does", "use Linear and Leaky"),
    "DeltaLeaky": ("it fires on the change of its membrane: no NIR neuron does", "use Leaky"),
    "AssociativeLeaky": ("it multiplies keys and values: no NIR neuron does", "use Linear and Leaky"),
    "StateLeaky": ("it filters a whole sequence at once", "use Leaky(reset_mechanism='none'), beta = exp(-1 / tau)"),
    "LinearLeaky": ("it filters a whole sequence at once",
                    "use Linear and Leaky(reset_mechanism='none') with beta = exp(-1 / tau)"),
}  # fmt: skip


def from_snntorch(
    module: Any,
    sample: Any,
    *,
    dt: float = 1e-4,
    batched: bool | None = None,
    time_axis: TimeAxis = None,
    accept: Sequence[str] = (),
    check: int | None = None,
) -> Any:
    """A trained snnTorch module as a ``nir.NIRGraph`` that means the same, step by step.

    Args:
        module: a ``torch.nn.Module``; it is left as it is.
        sample: one time step or a whole sequence as the module takes it, with or without the batch axis, or a tuple of
            them (tensors or arrays).
        dt: what one step lasts, in seconds; snnTorch itself counts steps.
        batched: whether the sample has a batch axis (None: found out).
        time_axis: which axis of the sample is time, "none" where it is one time step (None: found out).
        accept: known deviations that are taken, by name (``deviations.DEVIATIONS``); others are refused.
        check: random inputs to run the module and the import on, side by side (0: none; None: 2, if it is cheap).

    Returns:
        The graph; its metadata holds notes and warnings (``nirbridge:notes``, ``nirbridge:warnings``).

    Raises:
        ModelError: what can not be followed or represented, every place.
        UnequalImport: the import does not compute the same as the module.
        UsageError: no torch module, no tensor.
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
        source=version_of("snntorch"),
        batched=batched,
        time_axis=time_axis,
        accept=accept,
    )
    given = batched is not None or time_axis is not None
    return with_self_check(graph, module, sample, known, check, accept=accept, are_axes_given=given)


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """Every neuron class of the package: read, or refused by name."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of what snnTorch imports
        import snntorch as snn

    known = {
        snn.Leaky: NeuronSpec(_reader(_leaky), 0, 1),
        snn.Synaptic: NeuronSpec(_reader(_synaptic), 0, 2),
        snn.Lapicque: NeuronSpec(_reader(_lapicque), 0, 1),
        snn.RLeaky: NeuronSpec(_reader(_leaky), 0, 1),
        snn.RSynaptic: NeuronSpec(_reader(_synaptic), 0, 2),
    }
    refused = {
        getattr(snn, name): NeuronSpec(_refusal(name), is_refusal=True) for name in _REFUSED if hasattr(snn, name)
    }
    return {**known, **refused}


class _Parameters:
    """Parameters of a module as arrays that broadcast to its shape, and what is wrong with them."""

    def __init__(self, module: Any, shape: Shape) -> None:
        self.module, self.shape = module, shape
        self.problems: list[Diagnostic] = []

    def fault(self, found: str, limit: str, advice: str) -> None:
        self.problems.append(Diagnostic(f"a {type(self.module).__name__}", found, limit, advice))

    def fitted(self, name: str, tensor: Any) -> Array:
        """float32 values (as the module computes with them), of shape ``()`` or the population's."""
        values = tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)
        values = np.asarray(values, np.float32)
        extra = values.ndim - len(self.shape)
        if extra > 0 and values.shape[:extra] == (1,) * extra:
            values = values.reshape(values.shape[extra:])
        try:
            spread = np.broadcast_to(values, self.shape)
        except ValueError:
            self.fault(f"{name} has shape {values.shape}", f"the neurons have {self.shape}", "give one per neuron")
            return np.asarray(values.flat[0] if values.size else 0, np.float32)
        if not bool(np.all(np.isfinite(values))):
            self.fault(f"{name} is not finite", "", "train or set it again")
        return np.asarray(values.flat[0]) if values.size == 1 else spread


def _reader(read: Callable[[_Parameters], ImportedNeuron]) -> Callable[[Any, Shape, float], ImportedNeuron]:
    def reader(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
        values = _Parameters(module, shape)
        _check_common(values)
        reading = read(values)
        if values.problems:
            raise ModelError(*values.problems)
        return reading

    return reader


def _refusal(name: str) -> Callable[[Any, Shape, float], ImportedNeuron]:
    def reader(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
        found, advice = _REFUSED[name]
        raise ModelError.of(f"a {name}", found, "", advice)

    return reader


def _check_common(values: _Parameters) -> None:
    import torch

    module = values.module
    if module.inhibition:
        values.fault(
            "inhibition=True lets one neuron of a layer fire", "NIR neurons do not see each other", "turn it off"
        )
    if module.state_quant:
        values.fault("state_quant rounds its state", "NIR states are real numbers", "import without it, then quantize")
    probes = torch.tensor([-2.0, -1e-3, 0.0, 1e-3, 2.0] * 8)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        fired = module.spike_grad(probes)
    if not torch.equal(fired, (probes > 0).to(fired.dtype)):
        values.fault("spike_grad is no step at the threshold", "a spike is 1 above the threshold, else 0",
                     "use a surrogate whose forward is a step")  # fmt: skip


def _leaky(values: _Parameters) -> ImportedNeuron:
    module = values.module
    decay = values.fitted("beta", module.beta.clamp(0, 1))
    return _reading(values, "LIF", decay, a_syn=0.0)


def _synaptic(values: _Parameters) -> ImportedNeuron:
    module = values.module
    decay = values.fitted("beta", module.beta.clamp(0, 1))
    return _reading(values, "CubaLIF", decay, a_syn=values.fitted("alpha", module.alpha.clamp(0, 1)))


def _lapicque(values: _Parameters) -> ImportedNeuron:
    """``v = (1 - dt / RC) v + x R (1 / RC) dt``, each product in float32 as the module computes it."""
    module = values.module
    rate = 1 / (module.R * module.C)
    gain = values.fitted("R and C", module.R * rate * module.time_step)
    decay = values.fitted("R and C", 1 - module.time_step / (module.R * module.C))
    return _reading(values, "LIF", decay, a_syn=0.0, g_mem=gain)


def _reading(values: _Parameters, kind: str, decay: Array, *, a_syn: Any, g_mem: Any = 1.0) -> ImportedNeuron:
    module = values.module
    theta = values.fitted("threshold", module.threshold)
    reset, late = _RESETS[int(module.reset_mechanism_val)], _is_late(module)
    early: tuple[tuple[str, str], ...] = ()
    amount, extra = theta.astype(np.float64), ()
    if reset == "subtract" and late:
        amount, extra = _late_subtraction(decay, theta, values.shape, g_mem)
        if extra and bool(np.any((np.asarray(decay) == 0) & (np.asarray(a_syn) != 0))):
            values.fault("beta = 0 behind a current, and a late subtraction", "nothing is left to subtract from",
                         "use reset_mechanism='zero', or a beta above 0")  # fmt: skip
    elif reset == "subtract":
        early = ((EARLY_SUBTRACTION, _EARLY),)
    if reset != "none" and bool(np.any(theta < 0)):
        values.fault("a threshold below zero with a reset", "it resets before its first step", "use one above zero")
    waits = reset == "to-value" and late and type(module).__name__ not in ("Leaky",)
    record = neuron(
        kind,
        a_mem=decay,
        g_mem=g_mem,
        a_syn=a_syn,
        theta=theta,
        reset=reset,
        reset_amount=amount,
        refractory_steps=1 if waits else 0,
    )
    graded = values.fitted("graded_spikes_factor", module.graded_spikes_factor)
    recurrences = (*_recurrences(values), *extra)
    return ImportedNeuron(record, recurrences, scale_out=None if np.all(graded == 1) else graded, deviations=early)


def _is_late(module: Any) -> bool:
    """Lapicque has no early reset, and RSynaptic 1.0.0 computes it but keeps the late one."""
    return type(module).__name__ in ("Lapicque", "RSynaptic") or bool(module.reset_delay)


def _late_subtraction(decay: Array, theta: Array, shape: Shape, gain: Any) -> tuple[Array, tuple[Recurrence, ...]]:
    """The amount th / b taken off at once; where b = 0, a connection of -th onto the neuron itself instead."""
    forgets = np.asarray(decay) == 0
    amount = np.where(forgets, 0.0, theta.astype(np.float64) / np.where(forgets, 1.0, decay))
    if not bool(np.any(forgets)):
        return amount, ()
    back = np.where(forgets, -theta.astype(np.float64) / np.where(np.asarray(gain) == 0, 1.0, gain), 0.0)
    return amount, (Recurrence(Scale(freeze(np.broadcast_to(back, shape)))),)


def _recurrences(values: _Parameters) -> tuple[Recurrence, ...]:
    """What an RLeaky or RSynaptic feeds back: a matrix, a convolution, or one weight per neuron."""
    module = values.module
    if not hasattr(module, "recurrent"):
        return ()
    layer, shape = module.recurrent, values.shape
    if hasattr(layer, "V"):
        weight = values.fitted("V", layer.V).astype(np.float64)
        return (Recurrence(Scale(freeze(np.broadcast_to(weight, shape)))),)
    weight = layer.weight.detach().cpu().numpy().astype(np.float32)
    bias = None if layer.bias is None else layer.bias.detach().cpu().numpy().astype(np.float64)
    operator = _operator(layer, weight, shape)
    if operator is None or operator.output_shape != shape:
        values.fault(
            f"its recurrent weights have shape {weight.shape}", f"the neurons have {shape}", "give fitting ones"
        )
        return ()
    return (Recurrence(operator, None if bias is None else freeze(_spread(bias, shape))),)


def _operator(layer: Any, weight: Array, shape: Shape) -> Operator | None:
    if weight.ndim == 2:
        return Dense(freeze(weight)) if shape == (weight.shape[1],) else None
    if len(shape) != 3 or weight.ndim != 4 or shape[0] != weight.shape[1]:
        return None
    padding = tuple((int(p), int(p)) for p in layer.padding)
    return Conv(freeze(weight), tuple(layer.stride), padding, tuple(layer.dilation), layer.groups, shape)


def _spread(bias: Array, shape: Shape) -> Array:
    return np.broadcast_to(bias.reshape(-1, *(1,) * (len(shape) - 1)), shape)
