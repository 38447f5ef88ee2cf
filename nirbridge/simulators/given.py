"""The user's arrays, read by named axes into the order of the simulators: time steps, samples, values.

One function for every stage that takes data: ``read_given``. The axes are those that the caller names, else those of
the module that was imported (``Network.axes``), else time steps first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.network.axes import DEFAULT, SAMPLE, TIME, VALUES, Axes, number_in, parse_axes, roles_in

LABELS = "labels"
_TRANSPOSED = {"time,sample": "sample,time", "sample,time": "time,sample"}


class TakesInputs(Protocol):
    """A network in reals or in integers."""

    @property
    def inputs(self) -> Sequence[Any]:
        """Its input ports."""
        ...

    @property
    def axes(self) -> Axes:
        """The axes of its data, as far as they are known."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Data of a run: ``inputs`` as ``open_inputs`` takes them, the class of each sample, and the reading in words.

    ``reading`` is ``100 samples of 16 time steps (axes sample, time: the order of the module)``; empty for functions.
    """

    inputs: Any
    labels: Any
    reading: str

    @property
    def with_labels(self) -> Any:
        """The inputs, with ``labels`` among them where there are any; one array for several inputs is refused later."""
        has_both = self.labels is not None and isinstance(self.inputs, Mapping)
        return {**self.inputs, LABELS: self.labels} if has_both else self.inputs


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    values: Any
    steps: int
    samples: int | None
    axes: Axes


def read_given(
    network: TakesInputs,
    inputs: Any,
    *,
    axes: str | Sequence[str] | None = None,
    labels: Any = None,
    steps: int | None = None,
) -> Given:
    """Arrays by input name or one alone, as ``[time steps, samples, *shape]`` or ``[time steps, *shape]``.

    Args:
        network: whose data they are.
        inputs: arrays in the order of ``axes``; functions and arrays of unknown inputs stay as they are. ``labels`` may
            be among arrays by name. For one input, an array of it and one of labels may have any names, as x and y.
        axes: as ``network.axes.parse_axes``; None: those of the network, else time steps first. An array with one axis
            less has no axis of samples.
        labels: the class of each sample.
        steps: time steps for which inputs without an axis of time are presented, in place of those that axes name.

    Raises:
        UsageError: axes that cannot be read or do not fit an array; labels of another number than samples.
    """
    if inputs is None:
        return Given(None, labels, "")
    named = parse_axes(axes, "--axes") if axes is not None else network.axes or DEFAULT
    origin = "as given" if axes is not None else "the order of the module" if network.axes else "the default order"
    ports = {port.name: port.shape for port in network.inputs}
    by_name = _one_input(ports, inputs) if isinstance(inputs, Mapping) else {next(iter(ports), ""): inputs}
    inside = by_name.get(LABELS) if LABELS not in ports else None
    others = [name for name in by_name if name in ports or name != LABELS]
    shapes = dict(ports) if len(ports) > 1 or len(others) > 1 else dict.fromkeys(others, next(iter(ports.values()), ()))
    read = {
        name: _read(name, value, shapes[name], named, steps, strict=axes is not None)
        for name, value in by_name.items()
        if name in others and name in shapes and not callable(value)
    }
    placed = {name: read[name].values if name in read else by_name[name] for name in others}
    labels = labels if labels is not None else inside
    first = next(iter(read.values()), None)
    if first is not None:
        _check_labels(labels, first)
    is_named = isinstance(inputs, Mapping) or (labels is not None and len(ports) == 1)
    result = placed if is_named else next(iter(placed.values()))
    if first is None:
        return Given(result, labels, "")
    return Given(result, labels, _in_words(first, origin if first.axes == named else "the default order"))


def _one_input(ports: Mapping[str, Shape], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by name; of one input and its labels under other names, such as x and y, those of the network."""
    data = {name: a for name, a in arrays.items() if name != LABELS and getattr(a, "ndim", 0) > 1}
    others = [name for name in arrays if name not in data]
    fitting = all(name == LABELS or _are_classes(arrays[name]) for name in others)
    if len(ports) != 1 or ports.keys() & arrays.keys() or len(data) != 1 or len(others) > 1 or not fitting:
        return dict(arrays)
    found = dict(zip(ports, data.values(), strict=True))
    return found | {LABELS: arrays[others[0]]} if others else found


def _are_classes(values: Any) -> bool:
    return getattr(values, "ndim", 0) == 1 and values.dtype.kind in "iu"


def _read(name: str, value: Any, shape: Shape, named: Axes, steps: int | None, *, strict: bool) -> _Read:
    """One array in the order of the simulators; one that has other axes than are named stays as it is, or is refused.

    ``strict``: the caller named the axes.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return _Read(value, 0, None, ())  # refused with the others by ``open_inputs``
    lead = array.ndim - len(shape)
    own = tuple(word for word in named if "=" not in word and word != VALUES)
    if len(own) == 2 and lead == 1:
        own = (TIME,)
    elif own == (SAMPLE,) and lead == 0:
        own = ()
    elif own == (SAMPLE,) and lead == 2 and not strict:
        own = named = DEFAULT  # whole sequences for a module that takes one input for all time steps
    elif lead != len(own):
        if not strict and named == DEFAULT:
            return _Read(value, 0, None, ())
        raise _wrong_axes(name, array.shape, shape, named)
    present = tuple(word for word in named if word in own or word == VALUES)
    return _placed(name, array, shape, named, present, steps)


def _placed(name: str, array: Array, shape: Shape, named: Axes, present: Axes, steps: int | None) -> _Read:
    values = present.index(VALUES) if VALUES in present else len(present)
    after = len(present) - values - 1 if VALUES in present else 0
    order = [*range(values), *range(array.ndim - after, array.ndim), *range(values, array.ndim - after)]
    moved = array.transpose(order)
    roles = [role for word in present for role in roles_in(word)]
    split = [word for word in present if "*" in word]
    if split:
        moved = _split(name, moved, split[0], shape)
    if roles == [SAMPLE, TIME]:
        moved = moved.swapaxes(0, 1)
    if TIME not in roles:
        count = steps or max(map(number_in, named))
        moved = np.broadcast_to(moved, (count, *moved.shape))
    return _Read(moved, len(moved), moved.shape[1] if SAMPLE in roles else None, named)


def _split(name: str, array: Array, word: str, shape: Shape) -> Array:
    """The array with the two axes that its first one holds."""
    number, length = number_in(word), len(array)
    if length % number:
        limit = f"{quoted(word)} needs a multiple of {number:,}"
        raise UsageError.of(f"input {quoted(name)}", f"an axis of {length:,}", limit, "name other axes (axes=, --axes)")
    is_first = word.split("*")[0].isdecimal()
    pair = (number, length // number) if is_first else (length // number, number)
    return array.reshape(*pair, *array.shape[1:])


def _wrong_axes(name: str, found: Shape, shape: Shape, named: Axes) -> UsageError:
    words = [word for word in named if "=" not in word]
    values = ", ".join(map(str, shape)) or "one value"
    listed = [values if word == VALUES else word for word in (words if VALUES in words else [*words, VALUES])]
    limit = f"the axes {','.join(named)} are [{', '.join(listed)}]"
    return UsageError.of(f"input {quoted(name)}", f"an array of shape {found}", limit, "name its axes: axes=, --axes")


def _check_labels(labels: Any, read: _Read) -> None:
    """Raises UsageError for labels of another number than samples."""
    is_list = isinstance(labels, np.ndarray | Sequence) and not isinstance(labels, str | bytes)
    count = len(labels) if is_list and getattr(labels, "ndim", 1) == 1 else None
    samples = 1 if read.samples is None else read.samples
    if count is None or count == samples or not read.steps:
        return
    found = f"{counted(count, 'label')} for {counted(samples, 'sample')}"
    other = _TRANSPOSED.get(",".join(read.axes))
    is_other = other is not None and read.samples is not None and read.steps == count
    found += f" of {counted(read.steps, 'time step')}" if is_other else ""
    hint = f"name the axes: axes='{other}', --axes {other}" if is_other else "give the class of each sample of the data"
    raise UsageError.of("labels", found, "one for each sample", hint)


def _in_words(read: _Read, origin: str) -> str:
    if not read.steps:
        return ""
    samples = "" if read.samples is None else f"{counted(read.samples, 'sample')} of "
    return f"{samples}{counted(read.steps, 'time step')} (axes {', '.join(read.axes)}: {origin})"
