"""The sliding window of a NIR convolution or pooling: whole numbers per spatial axis, checked."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, ModelError
from nirbridge.network.nir.fields import kind_of, label
from nirbridge.network.operators import window_shape

_AXES = MappingProxyType({"Conv1d": 1, "Conv2d": 2, "SumPool2d": 2, "AvgPool2d": 2})
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Window:
    """A window that slides over the spatial axes: one entry per axis; ``padding`` is (before, after)."""

    kernel: Shape
    stride: Shape
    padding: tuple[tuple[int, int], ...]
    dilation: Shape
    groups: int = 1

    def slide(self, spatial: Shape) -> Shape:
        """Size after sliding over ``spatial``, as torch's conv counts; 0 or less where the window is too large."""
        return window_shape(spatial, self.kernel, self.stride, self.padding, self.dilation)


def window_of(name: str, node: Any) -> Window:
    """The window of a Conv1d, Conv2d, SumPool2d or AvgPool2d node called ``name``.

    Raises:
        ModelError: with every problem: not whole numbers, a wrong count of axes, stride, kernel or dilation below 1,
            padding below 0, ``same`` with a stride, groups that do not divide the output channels.
    """
    problems: list[Diagnostic] = []
    axes = _AXES[kind_of(node)]
    window = _conv(name, node, axes, problems) if kind_of(node).startswith("Conv") else _pool(name, node, problems)
    if problems or window is None:
        raise ModelError(*problems)
    return window


def whole_numbers(
    subject: str, field: str, value: Any, count: int, least: int, problems: list[Diagnostic]
) -> Shape | None:
    """``value`` as ``count`` whole numbers of at least ``least`` (one number stands for all), or None and a problem."""
    array = np.asarray(value) if not isinstance(value, str | bytes) else np.asarray(None)
    if array.dtype.kind not in "iu" or array.ndim > 1 or array.size not in (1, count):
        expected = "one whole number" if count == 1 else f"1 or {count} whole numbers"
        problems.append(
            Diagnostic(subject, f"{field} is {value_text(value)}", f"it must be {expected}", f"correct {field}")
        )
        return None
    numbers = tuple(int(v) for v in np.broadcast_to(array.reshape(-1), (count,)))
    if min(numbers) < least or max(numbers) > _LARGEST:
        limit = f"it must be from {least} to {_LARGEST:,}"
        problems.append(Diagnostic(subject, f"{field} is {value_text(value)}", limit, f"correct {field}"))
        return None
    return numbers


def value_text(value: Any) -> str:
    """A value of a field in one line of a message."""
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"an array of shape {value.shape}"
    text = ascii(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    return text if len(text) <= 60 else text[:59] + "…"


def _conv(name: str, node: Any, axes: int, problems: list[Diagnostic]) -> Window | None:
    subject = label(name, node)
    weight = np.asarray(node.weight)
    if weight.ndim != axes + 2 or 0 in weight.shape:
        limit = f"it must be [out, in/groups, {', '.join(['kernel'] * axes)}], none of them 0"
        problems.append(
            Diagnostic(subject, f"weight has shape {weight.shape}", limit, "store the weight as torch does")
        )
        return None
    kernel = weight.shape[2:]
    stride = whole_numbers(subject, "stride", node.stride, axes, 1, problems)
    dilation = whole_numbers(subject, "dilation", node.dilation, axes, 1, problems)
    groups = whole_numbers(subject, "groups", node.groups, 1, 1, problems)
    padding = _padding(subject, node.padding, kernel, stride, dilation, problems)
    if groups and weight.shape[0] % groups[0]:
        found = f"groups is {groups[0]}, the weight has {weight.shape[0]} output channels"
        problems.append(Diagnostic(subject, found, "groups must divide them", "correct groups or the weight"))
    if stride is None or dilation is None or padding is None or groups is None:
        return None
    return Window(kernel, stride, padding, dilation, groups[0])


def _padding(
    subject: str, value: Any, kernel: Shape, stride: Shape | None, dilation: Shape | None, problems: list[Diagnostic]
) -> tuple[tuple[int, int], ...] | None:
    if not isinstance(value, str):
        numbers = whole_numbers(subject, "padding", value, len(kernel), 0, problems)
        return None if numbers is None else tuple((p, p) for p in numbers)
    if value == "valid":
        return ((0, 0),) * len(kernel)
    if value != "same":
        limit = "it must be 'same', 'valid' or whole numbers"
        problems.append(Diagnostic(subject, f"padding is {value_text(value)}", limit, "correct padding"))
        return None
    if stride is None or dilation is None:
        return None
    if max(stride) > 1:
        found = f"padding is 'same' with stride {stride}"
        problems.append(Diagnostic(subject, found, "'same' needs stride 1", "give the padding as numbers"))
        return None
    total = tuple(d * (k - 1) for d, k in zip(dilation, kernel, strict=True))
    return tuple((t // 2, t - t // 2) for t in total)  # torch puts the odd element last


def _pool(name: str, node: Any, problems: list[Diagnostic]) -> Window | None:
    subject = label(name, node)
    kernel = whole_numbers(subject, "kernel_size", node.kernel_size, 2, 1, problems)
    stride = whole_numbers(subject, "stride", node.stride, 2, 1, problems)
    padding = whole_numbers(subject, "padding", node.padding, 2, 0, problems)
    if kernel is None or stride is None or padding is None:
        return None
    return Window(kernel, stride, tuple((p, p) for p in padding), (1, 1))
