"""Layers of JAX frameworks one after the other as a network: what Spyx and SNNAX share.

JAX is not imported: parameters are read by numpy. A module is read by its parameters; ``jax_runs`` runs it for a check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact, freeze
from nirbridge.errors import Diagnostic, ModelError, UsageError, quoted, type_text
from nirbridge.importers.neuron_specs import ImportedNeuron
from nirbridge.network.apply import apply
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Compare, Neuron
from nirbridge.network.operators import Chain, Conv, Operator

TIMING = Timing(None, "euler", "to-value", ">", "per-second")
PROBES = (-1e3, -1.0, -1e-6, 0.0, 1e-6, 1.0, 1e3)


@dataclass(frozen=True, slots=True, eq=False)
class ReadNeuron:
    """A layer of neurons as a canonical one.

    ``sent_late``: time steps after which its own output leaves it; ``heard_late``: after which its input acts, though
    a constant acts from the first one on.
    """

    imported: ImportedNeuron
    sent_late: int = 0
    heard_late: int = 0


class Layer:
    """A layer under inspection: its place, its parameters in float32, and its faults."""

    def __init__(self, module: Any, place: str, faults: list[Diagnostic]) -> None:
        self.module, self.place, self.faults = module, place, faults

    def fault(self, found: str, limit: str = "", hint: str = "") -> None:
        """Note a reason why the layer cannot be imported."""
        self.faults.append(Diagnostic(f"layer {quoted(self.place)} ({type(self.module).__name__})", found, limit, hint))

    def values(self, name: str, value: Any) -> Array:
        """A parameter in float32, the type that JAX computes in by default."""
        array = np.asarray(value)
        if array.dtype not in (np.float32, np.float64, np.int32, np.int64):
            self.fault(f"{name} is {array.dtype}", "networks compute in float32", "give it in float32")
        array = array.astype(np.float32)
        if not np.isfinite(array).all():
            self.fault(f"{name} is not finite", "", "correct it")
        return array

    def fitted(self, name: str, value: Any, shape: Shape) -> Array:
        """A parameter of neurons of this shape, one number or one each."""
        array = self.values(name, value)
        try:
            return compact(np.broadcast_to(array, shape).astype(np.float64))
        except ValueError:
            self.fault(f"{name} has shape {array.shape}", f"the neurons have {shape}", "give fitting values")
            return np.zeros(())

    def comparison(self, function: Callable[[Any], Any]) -> Compare:
        """How its spike function compares a potential with the threshold: ``>``, or ``>=`` where 0 gives a spike."""
        found = np.asarray(function(np.asarray(PROBES, np.float32)))
        if np.array_equal(found, np.asarray(PROBES) >= 0):
            return ">="
        if not np.array_equal(found, np.asarray(PROBES) > 0):
            limit = "a spike is 1 above the threshold, else 0"
            self.fault("its spike function is not a step at the threshold", limit, "use a surrogate of the framework")
        return ">"


@dataclass(slots=True)
class LayerStack:
    """The network so far: the last source, and what lies between it and the next population."""

    shape: Shape
    dt: float
    populations: list[Population] = field(default_factory=list)
    projections: list[Projection] = field(default_factory=list)
    parts: list[Operator] = field(default_factory=list)
    bias: Array | None = None
    delay: int = 0
    nodes: list[str] = field(default_factory=list)
    source: str = "input"
    first_shape: Shape = ()

    def __post_init__(self) -> None:
        self.first_shape = self.shape

    def operator(self, operator: Operator, name: str, bias: Array | None = None) -> None:
        """Append an operator with a bias of its output."""
        if self.bias is not None:
            self.bias = apply(operator, self.bias.astype(np.float64)).astype(np.float32)
        if bias is not None:
            self.bias = bias if self.bias is None else self.bias + bias
        self.parts += parts_of(operator)
        self.shape = operator.output_shape
        self.nodes.append(name)

    def neurons(self, name: str, read: ReadNeuron) -> None:
        """Append a population."""
        found = read.imported
        record = found.neuron
        if read.heard_late and self.bias is not None:
            record = without_first_bias(record, self.bias)
        self._project(name, read.heard_late)
        self.populations.append(Population(name, self.shape, record))
        for recurrence in found.recurrences:
            late = freeze(np.int64(1))
            self.projections.append(
                Projection(
                    name, name, recurrence.operator, recurrence.bias, late, is_back=True, nodes=(f"{name}_back",)
                )
            )
        self.source, self.delay = name, read.sent_late

    def _project(self, target: str, more: int = 0) -> None:
        from nirbridge.network.operators import Identity

        operator = self.parts[0] if len(self.parts) == 1 else Chain(tuple(self.parts)) if self.parts else None
        operator = Identity(self.shape) if operator is None else operator
        bias = None if self.bias is None else freeze(self.bias.astype(np.float64))
        delay, nodes = (
            freeze(np.int64(self.delay + more)),
            tuple(self.nodes) if len(self.nodes) == len(self.parts) else (),
        )
        self.projections.append(Projection(self.source, target, operator, bias, delay, nodes=nodes))
        self.parts, self.bias, self.nodes, self.delay = [], None, [], 0

    def graph(self, source: str, notes: Sequence[str]) -> Any:
        """The ``nir.NIRGraph`` of the network."""
        from nirbridge.network.nir.to_nir import to_nir

        self._project("output")
        ports = (Port("input", self.first_shape),), (Port("output", self.shape),)
        timing = replace(TIMING, dt=self.dt)
        network = Network(self.dt, timing, tuple(self.populations), tuple(self.projections), *ports, notes=tuple(notes))
        graph = to_nir(network)
        graph.metadata["nirbridge:source"] = source
        graph.metadata["nirbridge:notes"] = "\n".join(notes)
        return graph


def without_first_bias(record: Neuron, bias: Array) -> Neuron:
    """The neuron with an initial current that cancels a bias in the first time step."""
    cancels = record.i_init - record.g_syn * bias.astype(np.float64) / record.a_syn
    return replace(record, i_init=compact(cancels))


def checked_dt(dt: Any) -> float:
    """Seconds per time step. Raises UsageError."""
    if not isinstance(dt, int | float) or not 0 < dt < float("inf"):
        raise UsageError.of("dt", type_text(dt), "seconds per time step, above 0", "for example 1e-3")
    return float(dt)


def sample_shape(sample: Any, axes: int) -> Shape:
    """The last axes of the sample, those of one time step of one sample. Raises UsageError."""
    shape = np.shape(sample)
    if len(shape) < axes or 0 in shape:
        limit = f"the first layer takes {axes} axes, after those of time and batch"
        raise UsageError.of("sample", f"shape {shape}", limit, "give one input")
    return tuple(int(n) for n in shape[len(shape) - axes :])


def conv_padding(padding: Any, layer: Layer, spatial: Shape, window: Any) -> tuple[tuple[int, int], ...]:
    """Zeros before and after each axis: numbers as they are, or the text that JAX has for them.

    ``window``: (kernel, stride, dilation), each one number per axis.
    """
    axes = len(spatial)
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return ((0, 0),) * axes
        if padding.upper() == "SAME":
            totals = [
                max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in zip(spatial, *window, strict=True)
            ]
            return tuple((total // 2, total - total // 2) for total in totals)
        layer.fault(f"padding {quoted(padding)}", "VALID, SAME and numbers are supported", "use one of them")
        return ((0, 0),) * axes
    if isinstance(padding, int):
        return ((padding, padding),) * axes
    return tuple((int(p), int(p)) if isinstance(p, int) else (int(p[0]), int(p[1])) for p in padding)


def add_conv(stack: LayerStack, layer: Layer, conv: Conv, bias: Any) -> None:
    """Append a convolution with a bias per kernel."""
    if min(conv.output_shape, default=1) < 1:
        layer.fault(f"its window does not fit the input {conv.input_shape}", "", "give a larger sample")
        return
    values = None if bias is None else layer.values("bias", bias).reshape(-1)
    spread = None if values is None else np.broadcast_to(values.reshape(-1, 1, 1), conv.output_shape).copy()
    stack.operator(conv, layer.place, spread)


def pairs(value: Any, axes: int) -> tuple[int, ...]:
    """One number per axis."""
    return (int(value),) * axes if isinstance(value, int) else tuple(int(v) for v in value)


def class_of(module: Any, known: Mapping[str, Any]) -> str | None:
    """The known class that a layer is an instance of, by name; a subclass with a call of its own is none."""
    for cls in type(module).__mro__:
        if cls.__name__ in known and type(module).__call__ is cls.__call__:
            return cls.__name__
    return None


def raise_faults(faults: Sequence[Diagnostic]) -> None:
    """Raises ModelError with every fault."""
    ModelError.raise_all(faults)
