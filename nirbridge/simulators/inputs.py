"""Inputs of a run: whole arrays, or functions that return a range of time steps on request (and keep memory small)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, UsageError, did_you_mean, quoted
from nirbridge.network.model import Network, Port
from nirbridge.simulators.crew import Crew
from nirbridge.simulators.threads import first_found

Stream = Callable[[int, int], npt.ArrayLike]
"""``stream(start, stop)`` returns the time steps from start to stop: ``[stop - start, *shape]``, or with a batch axis
after the first. Time steps count from the first of the network, also in a run that continues from a state; each range
begins at the end of the last one (the first time step may be requested twice)."""
Input = npt.ArrayLike | Stream
ALONE = Crew(1)
SCAN_ELEMENTS = 4_000_000
SCAN_SHARE = 1_000_000
"""Elements per piece where threads share the search for values other than 0 and 1."""


def from_chunks(chunks: Iterable[npt.ArrayLike]) -> Stream:
    """A stream from consecutive arrays (a generator, say); at most two of them are in memory."""
    rest = iter(chunks)
    held: list[Array] = []
    first: int | None = None

    def stream(start: int, stop: int) -> Array:
        nonlocal first
        first = start if first is None else first
        while held and first + len(held[0]) <= start:
            first += len(held.pop(0))
        while first + sum(map(len, held)) < stop:
            chunk = next(rest, None)
            if chunk is None:
                break
            held.append(np.asarray(chunk))
        if not held:
            return np.empty(0)
        return np.concatenate(held)[start - first : stop - first]

    return stream


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Validated inputs: time ``steps`` to run, ``batch`` size (None: no batch axis), and which hold only 0 and 1."""

    ports: tuple[Port, ...]
    values: Mapping[str, Any]
    steps: int
    batch: int | None
    binary: frozenset[str]
    first_step: int
    dtype: str

    @property
    def has_streams(self) -> bool:
        """True where an input is a function."""
        return any(callable(value) for value in self.values.values())

    def longer(self, steps: int) -> Inputs:
        """These inputs, and then ``steps`` time steps of zeros, for which no function is called."""
        end = self.first_step + self.steps
        shapes = {p.name: (*(() if self.batch is None else (self.batch,)), *p.shape) for p in self.ports}
        values = {
            name: partial(_then_silent, value, end, shapes[name]) if callable(value) else value[: self.steps]
            for name, value in self.values.items()
        }
        return replace(self, values=values, steps=self.steps + steps)

    def part(self, samples: slice) -> Inputs:
        """The inputs of some samples of the batch; functions stay as they are."""
        if self.batch is None or samples == slice(0, self.batch):
            return self
        values = {name: value if callable(value) else value[:, samples] for name, value in self.values.items()}
        return replace(self, values=values, batch=samples.stop - samples.start)

    def read(self, start: int, stop: int) -> dict[str, Array]:
        """Every input from time step ``start`` to ``stop`` of this run: ``[steps, batch, *shape]``, zero-padded."""
        return {port.name: self._one(port, start, stop) for port in self.ports}

    def read_quick(self, start: int, stop: int) -> dict[str, Array]:
        """As ``read``; inputs known to hold only 0 and 1 are bool, so that their values are not scanned again."""
        arrays = self.read(start, stop)
        for name in (port.name for port in self.ports if port.name in self.binary):
            values = arrays[name]
            arrays[name] = values.view(np.bool_) if values.dtype.itemsize == 1 else values.astype(np.bool_)
        return arrays

    def _one(self, port: Port, start: int, stop: int) -> Array:
        source, batch = self.values[port.name], 1 if self.batch is None else self.batch
        if callable(source):
            array = _array(port, source(self.first_step + start, self.first_step + stop))
            subject = f"input {quoted(port.name)}, steps {start} to {stop}"
            UsageError.raise_all(_stream_problems(port, array, self.batch, stop - start, subject))
            check_finite(port, array, self.dtype, start)
        else:
            array = np.asarray(source[start:stop])  # its values were checked by ``open_inputs``
        out = array.reshape(len(array), batch, *port.shape)
        silent = stop - start - len(out)
        return np.concatenate([out, np.zeros((silent, *out.shape[1:]), out.dtype)]) if silent else out


def open_inputs(
    network: Network,
    inputs: Mapping[str, Input] | Input,
    steps: int | None,
    first_step: int,
    dtype: str,
    crew: Crew = ALONE,
) -> Inputs:
    """Check names, shapes, types and values (with the threads of a crew); nothing is copied.

    Raises:
        UsageError: all problems are listed.
    """
    by_name = inputs_by_name(network.inputs, inputs)
    values: dict[str, Any] = {}
    problems: list[Diagnostic] = []
    binary: set[str] = set()
    for port in network.inputs:
        value = by_name[port.name]
        values[port.name] = value if callable(value) else _array(port, value)
        if callable(value):
            continue
        array = values[port.name]
        faults = _shape_problems(port, array)
        if not faults and _is_binary(array, crew):
            binary.add(port.name)
        elif not faults:
            faults = first_found(partial(_not_finite, port, dtype), list(_scan(array)), crew) or []
        problems += faults
    UsageError.raise_all(problems)
    count = _steps(values, steps)
    batch = _batch(network.inputs, values, first_step)
    return Inputs(network.inputs, values, count, batch, frozenset(binary), first_step, dtype)


def _then_silent(stream: Any, end: int, shape: Shape, start: int, stop: int) -> npt.ArrayLike:
    """A range of time steps of a stream, with zeros in place of those from ``end`` on."""
    if stop <= end:
        return stream(start, stop)
    silent = np.zeros((stop - max(start, end), *shape))
    return silent if start >= end else np.concatenate([np.asarray(stream(start, end)), silent])


def inputs_by_name(ports: Sequence[Any], inputs: Mapping[str, Input] | Input) -> Mapping[str, Input]:
    """The inputs by name; one alone where there is one port. Raises UsageError: names that ports do not have."""
    names = [port.name for port in ports]
    if not isinstance(inputs, Mapping):
        if len(names) == 1:
            return {names[0]: inputs}
        shown = ", ".join(map(quoted, names[:8]))
        raise UsageError.of(
            "inputs", "one array", f"the network has {len(names)} inputs", f"give each by name: {shown}"
        )
    problems = [
        Diagnostic(f"input {quoted(n)}", "is missing", "", "give an array for it") for n in names if n not in inputs
    ]
    for name in inputs:
        if name not in names:
            shown = ", ".join(map(quoted, names[:8]))
            step = did_you_mean(name, names) or f"inputs: {shown}"
            problems.append(Diagnostic(f"input {quoted(name)}", "the network has no input of that name", "", step))
    UsageError.raise_all(problems)
    return inputs


def _array(port: Port, value: Any) -> Array:
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = quoted(str(error).splitlines()[0] if str(error) else type(error).__name__)
        found = f"cannot be converted to a NumPy array ({reason})"
        raise UsageError.of(f"input {quoted(port.name)}", found, "", "give a plain array") from None


def _shape_problems(port: Port, values: Array, steps: int | None = None) -> list[Diagnostic]:
    axes = max(0, values.ndim - len(port.shape))
    lead, shape = values.shape[:axes], values.shape[axes:]
    subject = f"input {quoted(port.name)}"
    if values.dtype.kind not in "biuf":
        step = "read the file, with numpy.load or nirbridge.read_events" if values.dtype.kind == "U" else "convert it"
        return [Diagnostic(subject, f"an array of type {values.dtype}", "inputs are real numbers", step)]
    if shape != port.shape or len(lead) not in (1, 2) or 0 in lead[1:]:
        axes = ", ".join(map(str, port.shape))
        limit = f"it takes [steps, {axes}] or [steps, batch, {axes}]"
        return [Diagnostic(subject, f"an array of shape {values.shape}", limit, _shape_hint(values.shape, port.shape))]
    if steps in (None, len(values)):
        return []
    return [Diagnostic(subject, f"{len(values)} steps", f"{steps} were requested", "return exactly those time steps")]


def _shape_hint(found: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """The likely mend of an input of another shape: a missing, misplaced or merged axis."""
    if found == shape:
        return "add an axis of time steps, as x[None]"
    if found[:-1] == shape:
        return "put time steps first, as numpy.moveaxis(x, -1, 0)"
    if 0 in found[1:]:
        return "give at least one sample"
    for lead, text in ((1, "len(x)"), (2, "*x.shape[:2]")):
        if len(found) > lead and sorted(found[lead:]) == sorted(shape) != [] and len(shape) > 1:
            return f"transpose the axes after {'time steps' if lead == 1 else 'samples'} to {shape}"
        if len(found) > lead and math.prod(found[lead:]) == math.prod(shape):
            return f"reshape it, as x.reshape({', '.join([text, *map(str, shape)])})"
    return "put time steps first, then samples, then the axes of the input"


def _scan(values: Array, elements: int | None = None) -> Iterable[tuple[int, Array]]:
    rows = max(1, (elements or SCAN_ELEMENTS) // max(1, values[:1].size))
    return ((start, np.asarray(values[start : start + rows])) for start in range(0, len(values), rows))


def _is_binary(values: Array, crew: Crew) -> bool:
    pieces = list(_scan(values, SCAN_ELEMENTS if crew.count == 1 else SCAN_SHARE))
    return values.dtype.kind == "b" or not first_found(_has_others, pieces, crew)


def _has_others(piece: tuple[int, Array]) -> bool:
    """True where a value is neither 0 nor 1."""
    values = piece[1]
    if values.dtype.kind == "u":
        return values.size > 0 and int(values.max()) > 1
    return not np.all((values == 0) | (values == 1))


def check_finite(port: Port, values: Array, dtype: str, first_step: int) -> None:
    """Raise UsageError for time steps of an input, from ``first_step`` on, that are not finite in ``dtype``."""
    kind = values.dtype
    if kind.kind == "f" and not (kind == dtype and np.isfinite(values).all()):
        UsageError.raise_all(_not_finite(port, dtype, (first_step, values)))


def _not_finite(port: Port, dtype: str, piece: tuple[int, Array]) -> list[Diagnostic]:
    """The problem of a piece of an input, which begins at a time step of it."""
    first, values = piece
    if values.dtype.kind != "f":
        return []
    with np.errstate(over="ignore", invalid="ignore"):
        bad = ~np.isfinite(np.asarray(values, dtype))
    if not bad.any():
        return []
    place = np.unravel_index(int(np.argmax(bad)), bad.shape)
    value = "NaN" if np.isnan(values[place]) else f"{values[place]:g}"
    count = f"{int(bad.sum()):,} such value{'s' if bad.sum() > 1 else ''}"
    found = f"{value} at time step {first + int(place[0])} ({count})"
    return [Diagnostic(f"input {quoted(port.name)}", found, f"inputs are finite numbers of {dtype}", "remove them")]


def _stream_problems(port: Port, values: Array, batch: int | None, steps: int, subject: str) -> list[Diagnostic]:
    problems = _shape_problems(port, values, steps)
    if problems or _batch_of(port, values) == batch:
        return problems
    return [Diagnostic(subject, f"an array of shape {values.shape}", f"its batch is {batch or 'without an axis'}")]


def _steps(values: Mapping[str, Any], steps: int | None) -> int:
    lengths = {name: len(v) for name, v in values.items() if not callable(v)}
    if steps is None:
        if not lengths:
            raise UsageError.of("steps", "are not given", "no input is an array with a length", "give steps")
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{quoted(n)} has {k}" for n, k in lengths.items())
            raise UsageError.of(
                "inputs", counts, "all inputs need the same number of time steps", "cut them, or give steps"
            )
        steps = next(iter(lengths.values()))
    if steps < 1:
        raise UsageError.of("steps", f"{steps}", "at least 1", "give more")
    return int(steps)


def _batch(ports: tuple[Port, ...], values: Mapping[str, Any], first_step: int) -> int | None:
    """The batch size of all inputs; a stream is read at its first time step."""
    batches: dict[str, int | None] = {}
    for port in ports:
        value = values[port.name]
        if callable(value):
            value = _array(port, value(first_step, first_step + 1))
            UsageError.raise_all(_shape_problems(port, value, 1))
        batches[port.name] = _batch_of(port, value)
    if len(set(batches.values())) > 1:
        sizes = ", ".join(f"{quoted(n)} has {'no batch axis' if b is None else b}" for n, b in batches.items())
        raise UsageError.of("inputs", sizes, "all inputs need the same batch size", "give each the same")
    return next(iter(batches.values()), None)


def _batch_of(port: Port, values: Array) -> int | None:
    return values.shape[1] if values.ndim == len(port.shape) + 2 else None
