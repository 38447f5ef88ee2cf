"""The parameters of every NIR node class, in one table, and the checks of their values.

Source: the dataclasses of nir 1.0.8 (``nir.ir``); nothing here imports nir, classes are known by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import all_finite, stored_part
from nirbridge.errors import Diagnostic, quoted

#: Classes whose parameters have one element per neuron (or one for all), and those parameters.
NEURONS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "I": ("r",),
        "IF": ("r", "v_threshold", "v_reset"),
        "LI": ("tau", "r", "v_leak"),
        "LIF": ("tau", "r", "v_leak", "v_threshold", "v_reset"),
        "CubaLI": ("tau_syn", "tau_mem", "r", "v_leak", "w_in"),
        "CubaLIF": ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "v_reset", "w_in"),
        "Threshold": ("threshold",),
    }
)

#: As ``NEURONS``, with the linear nodes that work element by element.
ELEMENTWISE: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {**NEURONS, "Scale": ("scale",), "Delay": ("delay",)}
)

#: Real-valued parameters of the nodes that are not elementwise.
WEIGHTED: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "Linear": ("weight",),
        "Affine": ("weight", "bias"),
        "Conv1d": ("weight", "bias"),
        "Conv2d": ("weight", "bias"),
    }
)

#: Linear nodes: they keep no state, so an edge onto themselves has no meaning.
LINEAR: frozenset[str] = frozenset(WEIGHTED) | {"Scale", "Delay", "Flatten", "SumPool2d", "AvgPool2d"}

#: Every class that a graph may hold.
NODE_TYPES: tuple[str, ...] = tuple(sorted({*ELEMENTWISE, *LINEAR, "Input", "Output", "NIRGraph"}))

_POSITIVE = frozenset({"tau", "tau_mem", "tau_syn"})


def kind_of(node: object) -> str:
    """The name of a node's class, for example ``LIF``."""
    return type(node).__name__


def label(name: str, node: object) -> str:
    """Subject of a message on a node: ``node 'fc1' (Affine)``."""
    return f"node {quoted(name)} ({kind_of(node)})"


def value_problems(name: str, node: Any) -> Iterator[Diagnostic]:
    """Problems with the values of a node: not numbers, NaN or infinity, time constants or delays out of range."""
    kind = kind_of(node)
    for field in (*ELEMENTWISE.get(kind, ()), *WEIGHTED.get(kind, ())):
        value = getattr(node, field, None)
        if value is not None:
            yield from array_problems(label(name, node), field, stored_part(np.asarray(value)), name)


def full_shape(values: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A view of ``values`` in ``shape``; one value fits any shape, also one with fewer axes."""
    return np.broadcast_to(values.reshape(()) if values.size == 1 else values, shape)


def array_problems(subject: str, field: str, array: np.ndarray[Any, Any], name: str = "") -> Iterator[Diagnostic]:
    """Problems with the values of one real parameter ``field`` of ``subject``."""
    ids = MappingProxyType({"node": name, "field": field})
    if array.dtype.kind not in "iuf":
        yield Diagnostic(
            subject,
            f"{field} holds {array.dtype.name} values",
            "they must be real numbers",
            "store them as floats",
            ids,
        )
        return
    if not all_finite(array):
        where = _first(~np.isfinite(array))
        yield Diagnostic(
            subject, f"{field}{where} is NaN or infinite", "every parameter must be finite", "repair or retrain it", ids
        )
        return
    if field in _POSITIVE and array.size and not array.min() > 0:
        where = _first(array <= 0)
        yield Diagnostic(
            subject,
            f"{field}{where} is {array.min():g}",
            "it must be above 0 s",
            "give a time constant in seconds",
            ids,
        )
    if field == "delay" and array.size and array.min() < 0:
        where = _first(array < 0)
        yield Diagnostic(
            subject, f"{field}{where} is {array.min():g}", "it must be 0 s or more", "give a delay in s", ids
        )


def _first(flags: np.ndarray[Any, Any]) -> str:
    """The index of the first true flag: ``[3, 0]``; nothing for a scalar."""
    if flags.ndim == 0:
        return ""
    index = np.unravel_index(int(np.argmax(flags)), flags.shape)
    return "[" + ", ".join(str(int(i)) for i in index) + "]"
