"""Spyx 1.0 (flax nnx): IF, LIF, CuBaLIF, their recurrent forms, PSU_LIF and LI in a Sequential.

A neuron of Spyx compares the potential of the time step before: ``s[t] = V[t-1] > th`` leaves it one time step late,
and ``th`` is taken off after the decay (``V = b V + x - s th``; CuBaLIF: before it, ``V = b (V - s th) + I``). So the
canonical neuron fires at once, subtracts ``th / b`` (CuBaLIF: ``th``), and its spikes have a delay of one time step.
PSU_LIF compares after its input and has no reset. Decays are cut to 0 … 1. Images of Spyx are channels last, those of
the network channels first. Source: ``spyx/nn.py``; measured in ``tests/stack/test_spyx.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, UsageError, type_text
from nirbridge.importers.frameworks.jax_layers import (
    Layer,
    LayerStack,
    ReadNeuron,
    add_conv,
    checked_dt,
    class_of,
    conv_padding,
    pairs,
    raise_faults,
    sample_shape,
)
from nirbridge.importers.frameworks.jax_runs import spyx_module, with_jax_check
from nirbridge.importers.neuron_specs import ImportedNeuron, Recurrence, late_subtraction
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv, Dense, Reshape, SumPool

DT = 1e-3
LATE = {"IF", "LIF", "RIF", "RLIF", "CuBaLIF", "RCuBaLIF"}
NEURONS = {*LATE, "PSU_LIF", "AssociativeLIF", "LI"}
REFUSED = {
    "ALIF": ("a threshold that adapts to spikes", "use LIF"),
    "ResonateFire": ("a complex state", "use LIF"),
    "BatchNorm": ("statistics of a batch", "fold it into the layer before"),
    "Dropout": ("random values", "leave it out: it does nothing at inference"),
}


def from_spyx(module: Any, sample: Any, *, dt: float = DT, check: int | None = None) -> Any:
    """A Spyx ``Sequential``, or one neuron, as a ``nir.NIRGraph`` that computes the same spikes.

    Args:
        module: ``spyx.nn.Sequential`` of nnx.Linear, nnx.Conv, SumPool, Flatten and neurons; it is not changed.
        sample: an input of the module; its last axes count, ``[features]`` or ``[rows, columns, channels]``.
        dt: seconds per time step; Spyx counts time steps, so any dt gives the same spikes.
        check: random inputs on which the module is run and compared (0: none; None: 2, where that is cheap).

    Returns:
        The graph; images are ``[channels, rows, columns]`` in it, which a note says.

    Raises:
        ModelError: every layer that cannot be represented.
        UnequalImport: the import does not compute the same as the module.
        UsageError: an invalid argument.
    """
    layers = _flat(module)
    if not any(class_of(layer, dict.fromkeys(NEURONS)) for _, layer in layers):
        raise UsageError.of("module", type_text(module), "a spyx.nn.Sequential with neurons", "give the module")
    shape = sample_shape(sample, _input_axes(layers[0][1]))
    is_image = len(shape) == 3
    reader = _Reader(LayerStack((shape[-1], *shape[:-1]), checked_dt(dt)))
    for place, layer in layers:
        reader.read(Layer(layer, place, reader.faults))
        if reader.is_stuck:
            break
    reader.finish()
    notes = ("images are [channels, rows, columns], in Spyx [rows, columns, channels]",) if is_image else ()
    return with_jax_check(reader.stack.graph("a Spyx module", notes), spyx_module(module), sample, check)


def _input_axes(layer: Any) -> int:
    """Axes of one time step of one sample."""
    own = getattr(layer, "hidden_shape", getattr(layer, "layer_shape", None))
    if own is not None:
        return len(own)
    return 3 if class_of(layer, dict.fromkeys(("Conv", "SumPool", "Flatten"))) else 1


def _flat(module: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Layers with their places, those of nested Sequentials among them."""
    if not hasattr(module, "layers"):
        return [(prefix.rstrip(".") or "0", module)]
    return [pair for k, layer in enumerate(module.layers) for pair in _flat(layer, f"{prefix}{k}.")]


@dataclass(slots=True)
class _Reader:
    """The stack, and the order of flattened values: ``order[k]`` is the place in Spyx of the network's value ``k``."""

    stack: LayerStack
    order: Array | None = None
    faults: list[Diagnostic] = field(default_factory=list)
    is_stuck: bool = False

    def read(self, layer: Layer) -> None:
        """Append a layer, or note its faults; ``is_stuck`` where the shapes after it are not known."""
        count = len(self.faults)
        name = class_of(layer.module, dict.fromkeys((*NEURONS, *REFUSED, *_LAYERS)))
        if name in NEURONS:
            self._neurons(layer, str(name))
        elif name in _LAYERS:
            _LAYERS[str(name)](self, layer)
            self.is_stuck = len(self.faults) > count
        else:
            reason, hint = REFUSED.get(
                str(name), ("it is no layer that can be imported", "see docs/importers-frameworks.md")
            )
            layer.fault(reason, "", hint)
            self.is_stuck = True

    def finish(self) -> None:
        """Raises ModelError with every fault, of the order of outputs too."""
        if self.order is not None:
            self.faults.append(Diagnostic("output", "flattened images", "their order differs", "end in an nnx.Linear"))
        raise_faults(self.faults)

    def fitted(self, layer: Layer, name: str, value: Any) -> Array:
        """A parameter of neurons in the order of the network."""
        shape = self.stack.shape
        array = np.asarray(value)
        if array.ndim == 0:
            return layer.fitted(name, array, shape)
        if self.order is not None and array.shape == shape:
            return layer.fitted(name, array[self.order], shape)
        if len(shape) == 3:
            array = np.moveaxis(np.broadcast_to(array, (*shape[1:], shape[0])), -1, 0)
        return layer.fitted(name, array, shape)

    def _neurons(self, layer: Layer, name: str) -> None:
        module = layer.module
        own = tuple(getattr(module, "hidden_shape", getattr(module, "layer_shape", ())))
        shape = self.stack.shape
        if own != ((*shape[1:], shape[0]) if len(shape) == 3 else shape):
            layer.fault(f"its shape is {own}", f"its input has {shape}, channels first", "give the shape of its input")
            self.is_stuck = True
            return
        self.stack.neurons(layer.place, self._neuron(layer, name))

    def _neuron(self, layer: Layer, name: str) -> ReadNeuron:
        module = layer.module
        one = np.ones(())
        decay = np.clip(self.fitted(layer, "beta", module.beta[...]), 0, 1) if hasattr(module, "beta") else one
        if name == "LI":
            return ReadNeuron(ImportedNeuron(neuron("LI", a_mem=decay, theta=None, reset="none")))
        compare = layer.comparison(module.spike)
        theta = self.fitted(layer, "threshold", module.threshold)
        if bool(np.any(theta < 0)) or (compare == ">=" and bool(np.any(theta == 0))):
            layer.fault("a threshold below 0", "it fires before its first input", "use one above 0")
        if name not in LATE:
            return ReadNeuron(ImportedNeuron(neuron("LIF", a_mem=decay, theta=theta, compare=compare, reset="none")))
        feedback = self._feedback(layer)
        firing: dict[str, Any] = {"theta": theta, "compare": compare, "reset": "subtract"}
        if hasattr(module, "alpha"):
            a_syn = np.clip(self.fitted(layer, "alpha", module.alpha[...]), 0, 1)
            record = neuron(
                "CubaLIF", a_mem=decay, a_syn=a_syn, theta=theta, compare=compare, reset="subtract", reset_amount=theta
            )
            return ReadNeuron(ImportedNeuron(record, feedback), sent_late=1)
        amount, extra = late_subtraction(decay, theta, self.stack.shape, 1.0)
        record = neuron("LIF" if hasattr(module, "beta") else "IF", a_mem=decay, **firing, reset_amount=amount)
        return ReadNeuron(ImportedNeuron(record, (*feedback, *extra)), sent_late=1)

    def _feedback(self, layer: Layer) -> tuple[Recurrence, ...]:
        if not hasattr(layer.module, "recurrent_w"):
            return ()
        weight = layer.values("recurrent_w", layer.module.recurrent_w[...])
        if weight.ndim != 2 or len(self.stack.shape) != 1 or self.order is not None:
            layer.fault(f"recurrent weights of shape {weight.shape}", "one axis of neurons", "use a layer of one axis")
            return ()
        return (Recurrence(Dense(freeze(weight.T))),)


def _linear(reader: _Reader, layer: Layer) -> None:
    """``x @ kernel + bias`` of one axis."""
    kernel = layer.values("kernel", layer.module.kernel[...])
    shape = reader.stack.shape
    if shape != (kernel.shape[0],):
        layer.fault(f"it takes {kernel.shape[0]} values", f"its input has shape {shape}", "flatten images before it")
        return
    if reader.order is not None:
        kernel, reader.order = kernel[reader.order], None
    bias = None if layer.module.bias is None else layer.values("bias", layer.module.bias[...])
    reader.stack.operator(Dense(freeze(np.ascontiguousarray(kernel.T))), layer.place, bias)


def _conv(reader: _Reader, layer: Layer) -> None:
    module, shape = layer.module, reader.stack.shape
    kernel = layer.values("kernel", module.kernel[...])
    if len(shape) != 3 or kernel.ndim != 4:
        layer.fault(f"a kernel of shape {kernel.shape}", f"its input has shape {shape}", "two axes are supported")
        return
    if pairs(module.input_dilation or 1, 2) != (1, 1) or getattr(module, "mask", None) is not None:
        layer.fault("input_dilation, or a mask", "plain convolutions are supported", "leave it out")
        return
    stride, dilation = (pairs(value or 1, 2) for value in (module.strides, module.kernel_dilation))
    padding = conv_padding(module.padding, layer, shape[1:], (kernel.shape[:2], stride, dilation))
    weight = freeze(np.ascontiguousarray(kernel.transpose(3, 2, 0, 1)))
    conv = Conv(weight, stride, padding, dilation, int(module.feature_group_count), shape)
    add_conv(reader.stack, layer, conv, None if module.bias is None else module.bias[...])


def _pool(reader: _Reader, layer: Layer) -> None:
    module, shape = layer.module, reader.stack.shape
    if len(shape) != 3 or module.channel_axis not in (-1, 3) or np.size(module.window_shape) > 2:
        layer.fault("a pool over other axes than rows and columns", "channels are last", "use channel_axis=-1")
        return
    window, stride = pairs(module.window_shape, 2), pairs(module.strides, 2)
    padding = conv_padding(module.padding, layer, shape[1:], (window, stride, (1, 1)))
    reader.stack.operator(SumPool(window, stride, padding, shape), layer.place)


def _flatten(reader: _Reader, layer: Layer) -> None:
    shape = reader.stack.shape
    if len(shape) == 1:
        return
    size = math.prod(shape)
    places = np.arange(size).reshape(*shape[1:], shape[0])  # as Spyx counts them
    reader.order = np.moveaxis(places, -1, 0).reshape(-1)
    reader.stack.operator(Reshape(shape, (size,)), layer.place)


def _through(reader: _Reader, layer: Layer) -> None:
    """Nothing: a layer that only counts spikes."""


_LAYERS: dict[str, Any] = {
    "Linear": _linear,
    "Conv": _conv,
    "SumPool": _pool,
    "Flatten": _flatten,
    "ActivityRegularization": _through,
}
