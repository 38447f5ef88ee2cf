"""Words of snn-mlir 1.0: operations, attributes with their defaults, escaped names. Source: its dialect and lowering.

One time step is one function over arrays in memory; ``->`` precedes the array that an operation writes::

    snn.linear    output[i] = sum over j of weights[i, j] * input[j], from 0, ascending j; then + bias[i]
    snn.conv2d    the same over channels and windows (conv1d: one axis), one bias per channel
    snn.sumpool2d sum over each window; snn.avgpool2d: divided by the window's size
    snn.lif       v = decay * v + input;              output = 1 and v = v_reset where v > threshold, else output = 0
    snn.cubalif   i = cur_decay * i + input;  v = vol_decay * v + i;  output = 1 and v = 0 where v > threshold
    snn.li        v = decay * v + input;      output = v
    snn.cubali    i and v as cubalif;         output = v
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import quote, unquote

FUNCTION = "snn_forward_step"
FACTS = "nirbridge"
"""Attribute of the function with what the operations do not say: the time step, names of ports and populations."""
SYNAPSES: Mapping[str, int] = MappingProxyType({"snn.linear": 0, "snn.conv1d": 1, "snn.conv2d": 2})
"""Operation -> axes of its kernel."""
POOLS = ("snn.sumpool2d", "snn.avgpool2d")
NEURONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "snn.lif": {"decay_float": "a_mem", "threshold_float": "theta", "v_reset_float": "v_reset"},
        "snn.cubalif": {"cur_decay_float": "a_syn", "vol_decay_float": "a_mem", "threshold_float": "theta"},
        "snn.li": {"decay_float": "a_mem"},
        "snn.cubali": {"cur_decay_float": "a_syn", "vol_decay_float": "a_mem"},
    }
)
"""Operation -> its attributes (default 0), each with the field of the neuron record that it is."""
KINDS: Mapping[str, str] = MappingProxyType(
    {"LIF": "snn.lif", "IF": "snn.lif", "CubaLIF": "snn.cubalif", "LI": "snn.li", "I": "snn.li", "CubaLI": "snn.cubali"}
)
"""Kind of a population -> its operation."""
SPIKING = ("snn.lif", "snn.cubalif")
ELEMENTS: Mapping[str, str] = MappingProxyType({"float32": "f32", "float64": "f64"})
SUFFIX = ".mlir"
_SAFE = " !#$&'()*+,-./:;<=>?@[]^_`{|}~"


def kind_of(operation: str, decay: float) -> str:
    """The kind of a population: an integrator has no decay."""
    spiking = {"snn.lif": ("LIF", "IF"), "snn.li": ("LI", "I")}.get(operation)
    if spiking is None:
        return "CubaLIF" if operation == "snn.cubalif" else "CubaLI"
    return spiking[decay == 1.0]


def escaped(name: str) -> str:
    """A name in printable ASCII without quotes and backslashes, for a string."""
    return quote(name, safe=_SAFE, errors="surrogatepass")


def unescaped(text: str) -> str:
    """The name that ``escaped`` wrote."""
    return unquote(text, errors="surrogatepass")


def identifier(name: str) -> str:
    """A name as letters, digits, dots and underscores, for values and symbols; not one to one."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._") else "_" for c in name) or "_"


def memory(shape: tuple[int, ...], element: str) -> str:
    """The type of an array: ``memref<2x3xf32>``."""
    return f"memref<{''.join(f'{n}x' for n in shape)}{element}>"
