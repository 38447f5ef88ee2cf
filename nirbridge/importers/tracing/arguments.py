"""Shared by the handlers of all torch functions: their arguments, the lowered operation, reasons why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.importers.neuron_specs import ValueRef
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue
from nirbridge.importers.tracing.structures import torch_tensor

Lead = tuple[str, ...]
"""Words for leading axes: ``batch``, ``time``, ``merged`` (time and batch as one axis), ``merged-batch-first``."""


IN_FRONT = "move them in front of the values, for example with permute or movedim"


class CannotFollow(Exception):
    """A call that cannot be traced: reason and hint."""

    def __init__(self, why: str, advice: str = "") -> None:
        super().__init__(why)
        self.why, self.advice = why, advice


class OverBatch(CannotFollow):
    """A call over samples, as a statistic of a batch is."""


@dataclass(frozen=True, slots=True)
class FlowValue:
    """A value of the flow: where it is, its leading axes, its shape with and without them.

    ``order``: empty where batch and time are in front; else, for each axis of ``whole``, its place among the leading
    axes and then the values. ``summed``: number of time steps that it is the sum of, 0 for none; ``is_mean``: divided
    by that number. ``is_last``: of the last time step only. ``at``: empty where each time step is at its index; else
    the time step at each index of the time axis, -1 for zeros (of one time step: its number).
    """

    ref: ValueRef
    lead: Lead
    whole: Shape
    summed: int = 0
    order: tuple[int, ...] = ()
    is_last: bool = False
    is_mean: bool = False
    at: tuple[int, ...] = ()

    @property
    def arranged(self) -> Shape:
        """The shape with batch and time in front."""
        if not self.order:
            return self.whole
        return tuple(self.whole[self.order.index(k)] for k in range(len(self.whole)))

    @property
    def shape(self) -> Shape:
        """Without batch and time."""
        return self.arranged[len(self.lead) :]

    @property
    def over_time(self) -> str:
        """What an output of the module is, that the network has in each time step."""
        done, to_do = ("averaged", "average") if self.is_mean else ("summed", "sum")
        return f"is {done} over time by the module; the import returns each time step, so {to_do} its spikes"

    def lead_of_a_step(self, iterations: int) -> Lead:
        """Leading axes without a time axis of the iteration's own time step, as ``x[:, k:k + 1]`` leaves it."""
        sizes = zip(self.lead, self.arranged, strict=False)
        return tuple(word for word, n in sizes if word != "time" or n > 1 or iterations == 1)


@dataclass(frozen=True, slots=True)
class LoweredOp:
    """The lowered form of a function: a kind of operation with its arguments, applied to ``inputs``.

    ``shape``: of its values, if it is an input of another one. ``at``: the time steps of the result (``FlowValue.at``).
    """

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[FlowValue | LoweredOp, ...] = ()
    lead: Lead | None = None
    order: tuple[int, ...] = ()
    is_last: bool = False
    shape: Shape = ()
    at: tuple[int, ...] = ()

    @property
    def values(self) -> Iterator[FlowValue]:
        """The values of the flow that it is computed from."""
        for x in self.inputs:
            yield from x.values if isinstance(x, LoweredOp) else (x,)


_LINEAR = (
    "same",
    "scale",
    "reshape",
    "gather",
    "matrix",
    "avg_pool",
    "linear",
    "conv",
    "conv_transpose",
    "add",
    "concat",
)
_AFFINE = (*_LINEAR, "shift", "pad", "batch_norm")
"""Operations of which a sum over time, and a mean, may be computed after them as well as before."""


def with_bias_once(node: TracedCall, word: LoweredOp, x: FlowValue) -> LoweredOp:
    """The operation; of a layer after a sum over time without its bias, which the module adds once."""
    layer: Any = getattr(node.module, "bias", None)
    if not x.summed or x.is_mean or word.arguments.get("bias") is None or layer is None:
        return word
    return replace(word, arguments={**word.arguments, "bias": None})


def over_time(
    word: LoweredOp, inputs: tuple[FlowValue, ...], sample_steps: int
) -> tuple[LoweredOp, Mapping[str, Any], list[str]]:
    """The operation, what its result is over time (fields of a ``FlowValue``), and notes.

    It is no sum where that of the results of each time step would be another. A division by the number of time steps,
    those of the trace (a mean) or of the user's sample, is left out: a network does not know it.
    """
    if word.kind == "summed":
        return word, {"summed": word.arguments["steps"], "is_mean": word.arguments["is_mean"]}, []
    kinds = {(x.summed, x.is_mean) for x in inputs}
    steps, is_mean = kinds.pop()
    has_bias = word.arguments.get("bias") is not None and not is_mean
    if not steps or kinds or has_bias or word.kind not in (_AFFINE if is_mean else _LINEAR):
        return word, {"summed": 0, "is_mean": False}, []
    facts = {"summed": steps, "is_mean": is_mean}
    if is_mean or word.kind != "scale":
        return word, facts, []
    same, factor = LoweredOp("same", {}, inputs, inputs[0].lead), word.arguments["factor"]
    if is_division(factor, steps):
        return same, {**facts, "is_mean": True}, []
    if is_division(factor, sample_steps):
        return same, facts, [f"the sum over time is divided by {sample_steps} in the module, not in the import"]
    return word, facts, []


def is_division(factor: Any, count: int) -> bool:
    """True if a factor divides all values by ``count``."""
    return count > 0 and bool(np.allclose(factor, 1 / count, rtol=1e-6, atol=0))


def later(x: FlowValue, steps: int) -> FlowValue:
    """The value of ``steps`` time steps ago."""
    return replace(x, ref=replace(x.ref, previous=x.ref.previous + steps))


Find = Callable[[TracedValue], FlowValue]
Append = Callable[[LoweredOp], ValueRef]
"""Writes one operation."""


def written_inputs(word: LoweredOp, append: Append) -> tuple[FlowValue, ...]:
    """The inputs of an operation, after those that are operations themselves are written."""
    return tuple(x if isinstance(x, FlowValue) else _written(x, append) for x in word.inputs)


def _written(word: LoweredOp, append: Append) -> FlowValue:
    inputs = written_inputs(word, append)
    first, lead = inputs[0], inputs[0].lead if word.lead is None else word.lead
    ref = append(replace(word, inputs=inputs))
    whole = (*first.whole[: len(lead)], *word.shape)
    return FlowValue(ref, lead, whole, first.summed, (), any(x.is_last for x in inputs), first.is_mean)


Handler = Callable[[TracedCall, Find], LoweredOp]


def call_argument(node: TracedCall, position: int, name: str, default: Any = None) -> Any:
    """An argument by position or name."""
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def constant_argument(value: Any, what: str) -> Array | None:
    """A weight as a read-only numpy array.

    Raises:
        CannotFollow: it is computed from the input.
    """
    if value is None:
        return None
    if isinstance(value, TracedValue):
        raise CannotFollow(f"its {what} is computed from the input", "use a fixed one")
    array = value.detach().cpu().numpy() if isinstance(value, torch_tensor()) else np.asarray(value)
    array = array.view()
    array.flags.writeable = False
    return array


def input_of(node: TracedCall, find: Find) -> FlowValue:
    """The first argument in the flow. Raises CannotFollow where it is a constant."""
    value = call_argument(node, 0, "input")
    if not isinstance(value, TracedValue):
        raise CannotFollow("its input is fixed and its parameters are computed", "use a layer with fixed weights")
    return find(value)


def per_axis(value: Any, count: int) -> tuple[int, ...]:
    """One number for all axes, or one each."""
    return (int(value),) * count if isinstance(value, int) else tuple(int(v) for v in value) * (count // len(value))


def broadcast(value: Any, x: FlowValue | LoweredOp, what: str) -> Array:
    """A constant as it meets the values of one sample: of ``x.shape``, or of a shape that broadcasts to it.

    Raises:
        CannotFollow: it differs from sample to sample or step to step, or is larger than the values.
    """
    array = constant_argument(value, what)
    if array is None:
        raise CannotFollow(f"arithmetic with None as {what}")
    extra = array.ndim - len(x.shape)
    if extra > 0:
        if not bool(np.all(array == array[(slice(0, 1),) * extra])):
            raise CannotFollow(f"a {what} of shape {array.shape}", "use the same one for every sample and time step")
        array = array[(0,) * extra]
    if np.broadcast_shapes(array.shape, x.shape) != x.shape:
        raise CannotFollow(f"a {what} of shape {array.shape} on values of shape {x.shape}", "use equal shapes")
    return array


def alike(values: Sequence[FlowValue], what: str) -> tuple[FlowValue | LoweredOp, ...]:
    """The values in the one shape that torch broadcasts those of a sample to.

    Raises:
        CannotFollow: their leading axes differ, so that samples or time steps would meet values.
    """
    if len({(x.lead, len(x.whole)) for x in values}) > 1:
        shapes = " and ".join(str(x.shape) for x in values)
        raise CannotFollow(f"{what} of values of shape {shapes}", "use equal shapes: a.expand_as(b)")
    shape = np.broadcast_shapes(*(x.shape for x in values))
    return tuple(x if x.shape == shape else _spread(x, shape) for x in values)


def _spread(x: FlowValue, shape: Shape) -> LoweredOp:
    indices = np.broadcast_to(np.arange(math.prod(x.shape)).reshape(x.shape), shape)
    return LoweredOp("gather", {"indices": freeze(indices, np.int64)}, (x,), x.lead, shape=shape)


# -- advice --------------------------------------------------------------------------------------------------------
# Reasons why torch functions have no equivalent in a network, and alternatives.


_CURVE = (
    "it is not linear, and no neuron",
    "put a spiking neuron there; at the end: apply it to the network's outputs",
)
_COMPARE = ("a comparison that is no neuron of the framework", "let a neuron compare: it fires above its threshold")
_CHOICE = ("a choice among values is not linear", "compute it from the output spikes, or use an average pool")
_RESAMPLE = (
    "NIR has no resampling",
    "repeat values with repeat_interleave, or use a convolution with a stride",
)

TABLE: tuple[tuple[tuple[str, ...], tuple[str, str]], ...] = (
    (
        ("lstm", "gru", "rnn"),
        ("its gates multiply values: no spiking neuron does", "use a recurrent spiking layer of the framework"),
    ),
    (
        ("attention", "einsum", "bmm", "baddbmm", "bilinear", "outer", "dot"),
        ("a product of values, or an unsupported call", "use torch.nn.Linear or a convolution"),
    ),
    (("conv_transpose",), ("NIR has no transposed convolution", _RESAMPLE[1])),
    (("interpolate", "upsample", "grid_sample", "pixel_shuffle"), _RESAMPLE),
    (
        ("normalize", "layer_norm", "group_norm", "instance_norm", "local_response_norm", "rms_norm"),
        ("it normalizes every sample by its own values", "use BatchNorm, which folds into weights"),
    ),
    (("__setitem__",), ("it writes into part of a tensor", "put the parts together with torch.cat or torch.stack")),
    (("pad",), ("a padding that is not part of a convolution", "pad with zeros in the convolution: padding=…")),
    (
        ("softmax", "softmin"),
        ("its outputs depend on all others", "leave it out: the largest output stays the largest"),
    ),
    (
        ("fake_quant",),
        ("it rounds values of each time step", "quantize weights alone: activation=torch.nn.Identity in the QConfig"),
    ),
    (("bernoulli", "rand", "normal", "multinomial"), ("it is random", "leave it out of forward, or out of eval mode")),
    (
        ("cumsum", "cumprod", "prod", "std", "var", "norm", "fft", "diff"),
        ("it works along an axis of values", "use torch.nn.Linear with fixed weights"),
    ),
    (("max_unpool", "fractional_max", "adaptive_max", "max_pool"), _CHOICE),
)
"""Parts of a function's name -> (reason, hint); the first match counts."""

EXACTLY: tuple[tuple[tuple[str, ...], tuple[str, str]], ...] = (
    (("gt", "ge", "lt", "le", "eq", "ne", "__gt__", "__ge__", "__lt__", "__le__", "__eq__", "__ne__"), _COMPARE),
    (("where", "sign", "sgn", "heaviside", "masked_fill", "threshold", "round", "floor", "ceil"), _COMPARE),
    (("max", "min", "amax", "amin", "argmax", "argmin", "topk", "sort", "argsort", "median", "maximum"), _CHOICE),
    (("sigmoid", "tanh", "gelu", "elu", "celu", "selu", "silu", "softplus", "softsign", "mish", "prelu"), _CURVE),
    (
        ("leaky_relu", "rrelu", "glu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "logsigmoid", "tanhshrink"),
        _CURVE,
    ),
    (("abs", "exp", "log", "sqrt", "rsqrt", "pow", "square", "sin", "cos", "clamp", "clip", "erf", "__pow__"), _CURVE),
)
"""Names of functions -> (reason, hint)."""


def advice_on(function: str) -> tuple[str, str]:
    """(Reason, hint) for a function that cannot be represented, from its name alone."""
    name = function.lower().removesuffix("_") if not function.endswith("__") else function
    for names, advice in EXACTLY:
        if name in names:
            return advice
    for parts, advice in TABLE:
        if any(part in name for part in parts):
            return advice
    return "it has no equivalent neuron or linear layer", "replace it, or remove it from the module"
