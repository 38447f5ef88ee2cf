"""SNNAX 0.0.1 (equinox): LIF, LIFSoftReset, SimpleLIF, IAF, SimpleIAF and LI in a Sequential.

Every layer receives the values of the layer before it at the end of the previous time step (``default_forward_fn``), so
each passage from a layer to the next one has a delay of one time step, layers without a state among them; the first
layer receives its input at once. LIF and IAF add the synaptic current of the time step before, which is one more.
Decays of LIFs are cut to 0.5 … 1.
``LIF``: ``V = a V + (1 - a) I``, ``I = b I + (1 - b) x``, reset to 0 or ``reset_val``; ``LIFSoftReset`` subtracts 1 or
``reset_val``; ``SimpleLIF`` has no current and subtracts ``softplus(reset_val)`` where one is given. Source:
``snnax/snn/layers/*.py``; measured in ``tests/stack/test_snnax.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, ModelError, UsageError, type_text
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
from nirbridge.importers.frameworks.jax_runs import snnax_module, with_jax_check
from nirbridge.importers.neuron_specs import ImportedNeuron
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv, Dense, Reshape, SumPool

DT = 1e-3
SPIKING = {"LIF", "LIFSoftReset", "SimpleLIF"}
LAST_ONLY = {"IAF", "SimpleIAF", "LI"}
NEURONS = {*SPIKING, *LAST_ONLY}
REFUSED = {
    "AdaptiveLIF": ("an adaptation besides its potential", "use LIF"),
    "SRM": ("a refractory trace besides its potential", "use LIF"),
    "MaxPool2d": ("a maximum, which is not linear", "use eqx.nn.AvgPool2d"),
    "Dropout": ("random values", "leave it out: it does nothing at inference"),
    "BatchNorm": ("statistics of a batch", "fold it into the layer before"),
}


def from_snnax(module: Any, sample: Any, *, dt: float = DT, check: int | None = None) -> Any:
    """A SNNAX ``Sequential``, or a ``StatefulModel`` that is a chain, as a ``nir.NIRGraph`` with the same spikes.

    Args:
        module: layers of snnax and of equinox; it is not changed.
        sample: an input of the module; its last axes count, ``[features]`` or ``[channels, rows, columns]``.
        dt: seconds per time step; SNNAX counts time steps, so any dt gives the same spikes.
        check: random inputs on which the module is run and compared (0: none; None: 2, where that is cheap).

    Raises:
        ModelError: every layer that cannot be represented; a graph that is no chain.
        UnequalImport: the import does not compute the same as the module.
        UsageError: an invalid argument.
    """
    layers = list(getattr(module, "layers", ()))
    if not any(class_of(layer, dict.fromkeys(NEURONS)) for layer in layers):
        raise UsageError.of("module", type_text(module), "a snnax.snn.Sequential with neurons", "give the module")
    _check_chain(module)
    is_image = class_of(layers[0], dict.fromkeys(("Conv2d", "Conv", "AvgPool2d", "Flatten"))) is not None
    stack = LayerStack(sample_shape(sample, 3 if is_image else 1), checked_dt(dt))
    faults: list[Diagnostic] = []
    for k, part in enumerate(layers):
        stack.delay += int(k > 0)
        if not _read(stack, Layer(part, str(k), faults), is_last=k == len(layers) - 1):
            break
    raise_faults(faults)
    return with_jax_check(stack.graph("a SNNAX module", ()), snnax_module(module), sample, check)


def _check_chain(module: Any) -> None:
    """Raises ModelError for other connections, or another order of computation."""
    graph, count = module.graph_structure, len(module.layers)
    is_chain = [list(ids) for ids in graph.input_connectivity] == [[], *([k] for k in range(count - 1))]
    first_alone = [list(ids) for ids in graph.input_layer_ids] == [[0], *([] for _ in range(count - 1))]
    if not (is_chain and first_alone):
        raise ModelError.of(
            "module", "its layers are no chain", "a snnax.snn.Sequential is imported", "write it as one"
        )
    if getattr(module.forward_fn, "__name__", "") != "default_forward_fn":
        raise ModelError.of("module", "a forward_fn of its own", "default_forward_fn is supported", "leave it out")


def _read(stack: LayerStack, layer: Layer, *, is_last: bool) -> bool:
    """Append a layer; False where the shapes after it are not known."""
    count = len(layer.faults)
    name = class_of(layer.module, dict.fromkeys((*NEURONS, *REFUSED, *_LAYERS)))
    if name in NEURONS:
        if name in LAST_ONLY and not is_last:
            found = "the layer after it receives its state, not its spikes (snnax 0.0.1)"
            layer.fault(found, "supported as the last layer", "use LIF or SimpleLIF")
        _check_start(layer, stack)
        stack.neurons(layer.place, _NEURONS[str(name)](layer, stack))
        return True
    if name in _LAYERS:
        _LAYERS[str(name)](stack, layer)
        return len(layer.faults) == count
    reason, hint = REFUSED.get(str(name), ("it is no layer that can be imported", "see docs/importers-frameworks.md"))
    layer.fault(reason, "", hint)
    return False


# --- neurons ------------------------------------------------------------------------------------------------------


def _check_start(layer: Layer, stack: LayerStack) -> None:
    """Initial potentials are 0: a function of the user's for them is refused."""
    try:
        start = np.asarray(layer.module.init_fn(stack.shape, None))
        is_zero = not start.any()
    except Exception:  # a function of the user's, which may need a key
        is_zero = False
    if not is_zero:
        layer.fault("init_fn gives an initial state", "it is 0 in the import", "leave it out")


def _decays(layer: Layer, stack: LayerStack, count: int) -> list[Array]:
    data = layer.module.decay_constants.data
    values = [layer.fitted("decay_constants", data[k], stack.shape) for k in range(count)]
    return [np.clip(value, np.float32(0.5), np.float32(1)) for value in values]


def _rest(value: Array) -> Array:
    """``1 - value`` in float32, as the module computes it."""
    return (np.float32(1) - value.astype(np.float32)).astype(np.float64)


def _fires(layer: Layer, stack: LayerStack, record: dict[str, Any]) -> dict[str, Any]:
    compare = layer.comparison(layer.module.spike_fn)
    return {**record, "compare": compare, "theta": layer.fitted("threshold", layer.module.threshold, stack.shape)}


def _lif(layer: Layer, stack: LayerStack) -> ReadNeuron:
    a, b = _decays(layer, stack, 2)
    record = _fires(layer, stack, {"a_mem": a, "g_mem": _rest(a), "a_syn": b, "g_syn": _rest(b)})
    value = layer.module.reset_val
    if type(layer.module).__name__ == "LIFSoftReset":
        amount = layer.fitted("reset_val", 1.0 if value is None else value, stack.shape)
        record |= {"reset": "subtract", "reset_amount": amount}
    else:
        record["v_reset"] = layer.fitted("reset_val", 0.0 if value is None else value, stack.shape)
    return ReadNeuron(ImportedNeuron(neuron("CubaLIF", **record)), heard_late=1)


def _simple_lif(layer: Layer, stack: LayerStack) -> ReadNeuron:
    (a,) = _decays(layer, stack, 1)
    record = _fires(layer, stack, {"a_mem": a, "g_mem": _rest(a)})
    value = layer.module.reset_val
    if value is not None:
        amount = np.log1p(np.exp(layer.values("reset_val", value).astype(np.float64)))
        record |= {"reset": "subtract", "reset_amount": layer.fitted("reset_val", amount, stack.shape)}
    return ReadNeuron(ImportedNeuron(neuron("LIF", **record)))


def _iaf(layer: Layer, stack: LayerStack) -> ReadNeuron:
    a, b = (layer.fitted("decay_constants", layer.module.decay_constants[k], stack.shape) for k in (0, 1))
    if bool(np.any(b == 0)):
        layer.fault("a synaptic decay of 0", "the current of the time step before is added", "use one above 0")
        b = np.ones(())
    record = _integrator(layer, stack) | {"g_mem": _rest(a), "a_syn": b, "g_syn": _rest(b)}
    return ReadNeuron(ImportedNeuron(neuron("CubaLIF", **record)), heard_late=1)


def _simple_iaf(layer: Layer, stack: LayerStack) -> ReadNeuron:
    return ReadNeuron(ImportedNeuron(neuron("IF", **_integrator(layer, stack))))


def _integrator(layer: Layer, stack: LayerStack) -> dict[str, Any]:
    """Without a decay of the potential: a constant leak, and a subtraction where ``reset_val`` is given."""
    record = _fires(layer, stack, {"bias": -layer.fitted("leak", layer.module.leak, stack.shape)})
    value = layer.module.reset_val
    if value is not None:
        record |= {"reset": "subtract", "reset_amount": layer.fitted("reset_val", value, stack.shape)}
    return record


def _li(layer: Layer, stack: LayerStack) -> ReadNeuron:
    a = layer.fitted("decay_constant", layer.module.decay_constant, stack.shape)
    return ReadNeuron(ImportedNeuron(neuron("LI", a_mem=a, g_mem=_rest(a), theta=None, reset="none")))


_NEURONS: dict[str, Any] = {
    "LIF": _lif,
    "LIFSoftReset": _lif,
    "SimpleLIF": _simple_lif,
    "IAF": _iaf,
    "SimpleIAF": _simple_iaf,
    "LI": _li,
}


# --- layers of equinox --------------------------------------------------------------------------------------------


def _linear(stack: LayerStack, layer: Layer) -> None:
    weight = layer.values("weight", layer.module.weight)
    if weight.ndim != 2 or stack.shape != (weight.shape[1],):
        layer.fault(
            f"weights of shape {weight.shape}", f"its input has shape {stack.shape}", "flatten images before it"
        )
        return
    bias = None if layer.module.bias is None else layer.values("bias", layer.module.bias)
    stack.operator(Dense(freeze(weight)), layer.place, bias)


def _conv(stack: LayerStack, layer: Layer) -> None:
    module, weight = layer.module, layer.values("weight", layer.module.weight)
    if weight.ndim != 4 or len(stack.shape) != 3:
        layer.fault(f"weights of shape {weight.shape}", f"its input has shape {stack.shape}", "two axes are supported")
        return
    if getattr(module, "padding_mode", "ZEROS").upper() != "ZEROS":
        layer.fault(f"padding_mode {module.padding_mode}", "zeros are supported", "pad with zeros")
        return
    stride, dilation = pairs(module.stride, 2), pairs(module.dilation, 2)
    padding = conv_padding(module.padding, layer, stack.shape[1:], (weight.shape[2:], stride, dilation))
    conv = Conv(freeze(weight), stride, padding, dilation, int(module.groups), stack.shape)
    add_conv(stack, layer, conv, module.bias)


def _pool(stack: LayerStack, layer: Layer) -> None:
    module = layer.module
    window, stride = pairs(module.kernel_size, 2), pairs(module.stride, 2)
    if len(stack.shape) != 3 or module.use_ceil:
        layer.fault("a pool over other axes, or use_ceil", "rows and columns", "use AvgPool2d without use_ceil")
        return
    padding = conv_padding(module.padding, layer, stack.shape[1:], (window, stride, (1, 1)))
    stack.operator(SumPool(window, stride, padding, stack.shape, 1 / math.prod(window)), layer.place)


def _flatten(stack: LayerStack, layer: Layer) -> None:
    stack.operator(Reshape(stack.shape, (math.prod(stack.shape),)), layer.place)


def _through(stack: LayerStack, layer: Layer) -> None:
    """Nothing is computed."""


_LAYERS: dict[str, Any] = {
    "Linear": _linear,
    "Conv2d": _conv,
    "Conv": _conv,
    "AvgPool2d": _pool,
    "Flatten": _flatten,
    "Identity": _through,
}
