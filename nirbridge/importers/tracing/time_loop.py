"""A time loop of the user's code as one time step: all iterations of the loop have to be alike.

The neurons count the iterations: the k-th call of a neuron is time step k. An iteration may use the outputs of neurons
and the inputs of a fixed number of iterations before (its own state, a connection or a delay that the user wrote by
hand); in the first iterations a constant zero stands there. Other values that depend on no neuron are computed once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from nirbridge.errors import Diagnostic, counted, quoted
from nirbridge.importers.neuron_specs import place_label
from nirbridge.importers.tracing.arguments import CannotFollow, FlowValue, LoweredOp, call_argument
from nirbridge.importers.tracing.consistency import foreign_states
from nirbridge.importers.tracing.recorder import RING, ForwardTrace, TracedCall, TracedValue, values_of
from nirbridge.importers.tracing.structures import match, torch_tensor
from nirbridge.importers.tracing.values import (
    JOINS,
    WRITES,
    AxisSlice,
    first_input,
    is_zero,
    result_of,
    rows_of,
    same_constant,
    slice_of,
    states,
    uncopied,
    write_of,
)

STATIC, SERIES = -1, -2
"""Ages of values that depend on no neuron, and of values that depend on all iterations at once."""

_ONCE = "use a separate module for each use within a time step, and make all time steps alike"
_OWN = "use a separate module for each use, or pass each its own state, initially zeros"
FOLLOWED = "only inputs and neuron outputs of a fixed number of time steps ago are traced, initially zero"
FORWARD = "a network processes every time step, from the first on"
KEEP = "feed back only spikes of earlier time steps, initially zero"

ADDS = frozenset({"add", "add_", "__add__", "__radd__", "__iadd__"})


class TimeLoop:
    """The iterations of a recording's loop, and how its values compare."""

    def __init__(
        self,
        recording: ForwardTrace,
        calls: int = 1,
        sequences: Container[str] = (),
        times: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """``calls`` above 1: the iterations are that many calls of forward, not a loop in it.

        ``sequences``: paths of neurons that take whole sequences; beside a loop, one call is all iterations at once.
        ``times``: the time axis of each input that has one.
        """
        self.nodes, self.returned = recording.nodes, recording.returned
        self.is_called = calls > 1
        self.calls = recording.neurons()
        self.iterations = calls if self.is_called else max(map(len, self.calls.values()), default=1)
        self.last = self.iterations - 1
        is_beside = self.iterations > 1 and not self.is_called
        self.at_once = {p for p, c in self.calls.items() if is_beside and len(c) == 1 and p in sequences}
        self.stepped: set[int] = set()
        self.follows_time, self.time_steps = False, 0  # a slice of the time axis moves with the loop; its size
        sizes = (n.shapes[0][times[n.name]] for n in self.nodes if n.kind == "input" and n.name in times)
        self.times, self.time_size = times, next(sizes, 0)  # the size of the time axis of the input
        self.lags: dict[tuple[int, int], int] = {}  # slices of the time axis that are of earlier iterations
        self.only_parts: set[int] = set()  # slices of an axis of the input that has size one
        self.memo: dict[tuple[Any, ...], bool] = {}
        self.silence: dict[tuple[int, int, int], Any] = {}
        self.latest = {(n.kind, n.path or n.name): n for n in self.nodes if n.kind in ("neuron", "input")}
        self.ages: dict[int, int] = {}
        self.series: dict[int, ItemSeries] = {}
        self.runs: dict[int, ItemSeries] = {}
        self.sums: dict[int, tuple[Any, ...]] = {}
        self.terms: dict[int, tuple[Any, ...]] = {}
        self.stateless = frozenset(recording.stateless)
        self.resets = frozenset() if self.is_called else frozenset(recording.resets)
        self.turn_of = {n.index: k for c in self.calls.values() for k, n in enumerate(c)}
        if self.is_called:
            self.turn_of = {n.index: bisect_right(recording.starts, n.index) - 1 for n in self.nodes}
        self.turn_of |= {self.calls[path][0].index: self.last for path in self.at_once}
        self.unrolled = self._unrolled() if self.is_folded else frozenset()
        for node in self.nodes:
            self.ages[node.index] = self._age(node)

    @property
    def is_folded(self) -> bool:
        """True if the iterations are those of a loop in forward."""
        return self.iterations > 1 and not self.is_called

    @property
    def text(self) -> str:
        """The time steps of the loop; over the input their number is that of the trace, which is not the sample's."""
        return "the time steps of its input" if self.follows_time else f"{self.iterations} time steps"

    # -- ages ----------------------------------------------------------------------------------------------------

    def age(self, value: TracedValue) -> int:
        """The iteration that a value belongs to, STATIC or SERIES."""
        value = self.plain(value)
        taken = slice_of(value)
        if taken and (self.ages[taken.parent.node.index] == SERIES or self._is_over_time(taken)):
            return taken.index
        return self.ages[value.node.index]

    def _unrolled(self) -> frozenset[tuple[int, int]]:
        """(Index of a call, axis) of results of which several slices along time, or an axis as long, are taken."""
        indices: dict[tuple[int, int], set[int]] = {}
        for taken in (slice_of(TracedValue(n, k)) for n in self.nodes for k in range(len(n.shapes))):
            if taken and taken.parent.shape[taken.axis] == self.time_size == self.iterations:
                node = taken.parent.node
                if node.kind != "input" or self.times.get(node.name) == taken.axis:
                    indices.setdefault((node.index, taken.axis), set()).add(taken.index)
        return frozenset(key for key, found in indices.items() if len(found) > 1)

    def _is_over_time(self, taken: AxisSlice | None) -> bool:
        """True for a slice of a value that depends on no neuron, one of as many as there are time steps."""
        key = (taken.parent.node.index, taken.axis) if taken else None
        return taken is not None and key in self.unrolled and self.ages[taken.parent.node.index] == STATIC

    def plain(self, value: TracedValue) -> TracedValue:
        """The original of a value that was copied, or sliced from stacked iterations."""
        while True:
            value = uncopied(value)
            taken = slice_of(value)
            if taken is None:
                return value
            series = self.series.get(taken.parent.node.index)
            if series is None or series.chunks or (taken.axis, taken.is_kept) != (series.axis, series.is_joined):
                return value
            value = series.items[taken.index]

    def _age(self, node: TracedCall) -> int:
        if node.kind == "neuron" or (node.kind == "input" and self.is_called):
            return SERIES if node.path in self.at_once else self.turn_of[node.index]
        if node.kind == "input":
            return STATIC
        assembled = series_of(node, self.runs)
        series = next((s for s in assembled if self.is_series(s.items)), None)
        if series:
            self.series[node.index] = series
            return SERIES
        if assembled:
            self.runs[node.index] = assembled[-1]
        if node.name in ADDS and self.iterations > 1 and self.is_series(self._terms(node)):
            self.sums[node.index] = self.terms[node.index]
            return SERIES
        ages = [self.age(v) for v in values_of((node.args, node.kwargs))]
        return max((a for a in ages if a >= 0), default=SERIES if SERIES in ages else STATIC)

    def _terms(self, node: TracedCall) -> tuple[Any, ...]:
        """The terms of a running sum over iterations, in order."""
        terms: list[Any] = []
        for value in (v for v in node.args[:2] if not is_zero(v)):
            inner = self.plain(value) if isinstance(value, TracedValue) else None
            terms += self.terms.get(inner.node.index, (value,)) if inner else (value,)
        if len(node.kwargs) == 0:
            self.terms[node.index] = tuple(terms)
        return self.terms.get(node.index, ())

    def is_series(self, items: tuple[Any, ...]) -> bool:
        """True if the items are one value in each of the iterations, in order."""
        if self.is_called or len(items) != self.iterations or not all(isinstance(i, TracedValue) for i in items):
            return False
        if any(self.age(item) != k for k, item in enumerate(items)):
            return False
        return all(self.alike(item, k, items[-1]) for k, item in enumerate(items[:-1]))

    # -- comparison ----------------------------------------------------------------------------------------------

    def alike(self, a: Any, iteration: int, b: Any) -> bool:
        """True if ``a`` plays the same part in iteration ``iteration`` as ``b`` in the last one."""
        if isinstance(a, TracedValue) and isinstance(b, TracedValue):
            key = (a.node.index, a.output, iteration, b.node.index, b.output)
            if key not in self.memo:
                self.memo[key] = self._alike(self.plain(a), iteration, self.plain(b))
            return self.memo[key]
        if isinstance(b, TracedValue):
            return self._is_start(a, iteration, b)
        return same_constant(a, b)

    def _is_start(self, constant: Any, iteration: int, b: TracedValue) -> bool:
        """True if ``constant``, used in an early iteration, is ``b`` where all that it depends on has not come yet."""
        silent = self._silent(b, iteration)
        if silent is None:
            return False
        if is_zero(constant):
            return is_zero(silent)
        return all(isinstance(v, torch_tensor()) for v in (constant, silent)) and bool((constant == silent).all())

    def _silent(self, b: TracedValue, iteration: int) -> Any:
        """The value of ``b`` in an iteration where all that it depends on was zero before the first; else None."""
        b = self.plain(b)
        key = (b.node.index, b.output, iteration)
        if key not in self.silence:
            self.silence[key] = self._silent_result(b, iteration)
        return self.silence[key]

    def _silent_result(self, b: TracedValue, iteration: int) -> Any:
        import torch

        if self._is_source(b):
            return torch.zeros(b.shape) if 0 <= self.age(b) < self.last - iteration else None
        parts = [self._silent(v, iteration) for v in values_of((b.node.args, dict(b.node.kwargs)))]
        if not parts or b.node.func is None or any(p is None for p in parts):
            return None
        try:
            return result_of(b, lambda value: self._silent(value, iteration))
        except (RuntimeError, TypeError):  # spikes of neurons written by hand were truth values
            return None

    def _is_source(self, value: TracedValue) -> bool:
        """True for outputs of neurons, and for inputs of one time step."""
        return value.node.kind in ("neuron", "input") or self._is_over_time(slice_of(value))

    def _alike(self, a: TracedValue, iteration: int, b: TracedValue) -> bool:
        if a.output != b.output and slice_of(a) is None:
            return False
        p, q = slice_of(a), slice_of(b)
        is_late = self.age(b) >= 0 and iteration - self.age(a) != self.last - self.age(b)
        if a.node.kind == "neuron" or b.node.kind == "neuron" or (self.is_called and b.node.kind == "input"):
            return not is_late and (a.node.kind, a.node.path, a.node.name) == (b.node.kind, b.node.path, b.node.name)
        if is_late and self._is_over_time(q):
            return False
        if (a == b and (self.age(b) < 0 or not is_late)) or self._adds_silence(a, iteration, b):
            return True
        if b.node.name == RING != a.node.name:  # the same rows before the first of them was moved
            rows = rows_of(a, b.node.args[1])
            return rows is not None and match(tuple(rows), b.node.args[0], lambda x, y: self.alike(x, iteration, y))
        if a.node.kind != b.node.kind or a.node.name != b.node.name or a.node.path != b.node.path:
            return False
        if p and q and (p.axis, p.is_kept) == (q.axis, q.is_kept) and self._is_stepped(p, q, iteration):
            self.stepped |= {b.node.index} if q.index == self.last else set()
            self.lags[b.node.index, b.output] = self.last - q.index
            return p.parent.node is q.parent.node or self.alike(p.parent, iteration, q.parent)
        before, now = ((node.args, dict(node.kwargs)) for node in (a.node, b.node))
        return a.output == b.output and match(before, now, lambda x, y: self.alike(x, iteration, y))

    def _is_stepped(self, p: AxisSlice, q: AxisSlice, iteration: int) -> bool:
        """True if the slices ``p`` and ``q`` move with the iterations; by more than none if they are over time."""
        return (p.index, q.index) == (iteration, self.last) or (self._is_over_time(q) and q.index <= self.last)

    def _is_nothing(self, value: TracedValue, iteration: int) -> bool:
        silent = self._silent(value, iteration)
        return silent is not None and is_zero(silent)

    def _adds_silence(self, a: TracedValue, iteration: int, b: TracedValue) -> bool:
        """True if ``b`` is ``a`` of an early iteration plus a term that was zero then."""
        if b.node.name not in ADDS or len(b.node.args) != 2 or b.node.kwargs:
            return False
        pairs = (b.node.args, b.node.args[::-1])
        terms = ((p, q) for p, q in pairs if isinstance(p, TracedValue))
        return any(self._is_nothing(p, iteration) and self.alike(a, iteration, q) for p, q in terms)

    # -- problems -----------------------------------------------------------------------------------------------

    def problems(self) -> list[Diagnostic]:
        """Why the iterations are not one time step, neuron by neuron; empty where they are."""
        faults: list[Diagnostic] = []
        for path, calls in ((p, c) for p, c in self.calls.items() if p not in self.at_once):
            if len(calls) != self.iterations:
                text = f"called {len(calls)} times, others are called {self.iterations} times"
                text = f"called {len(calls)} times in {self.iterations} calls of forward" if self.is_called else text
                faults.append(Diagnostic(place_label(path), text, "each neuron is called once per time step", _ONCE))
            elif not all(self.alike(first_input(node), k, first_input(calls[-1])) for k, node in enumerate(calls[:-1])):
                faults.append(self._differs(path, calls))
            faults += self._states(path, calls)
        for path in dict.fromkeys(node.path for node in self.nodes if node.name == "delay"):
            count = sum((node.name, node.path) == ("delay", path) for node in self.nodes)
            if count not in (1, self.iterations):
                found = f"a delay called {count} times in {counted(self.iterations, 'time step')}"
                faults.append(Diagnostic(place_label(path), found, "its queue is one", _ONCE))
        return faults + (self._outputs() if self.is_called else [])

    def _differs(self, path: str, calls: list[TracedCall]) -> Diagnostic:
        if self.is_called:
            text = "its input depends on a value that forward keeps between calls"
            return Diagnostic(place_label(path), text, FOLLOWED, KEEP)
        order = self._slices_taken(calls)
        if order and order != [*range(len(calls))]:
            shown = ", ".join(map(str, order[:4])) + (", …" if len(order) > 4 else "")
            text = f"called {len(calls)} times, on the slices {shown} of its input"
            return Diagnostic(
                place_label(path), text, FORWARD, "loop from 0 on and skip none; reverse the input before the loop"
            )
        text = f"called {len(calls)} times, with inputs that are not computed alike in every time step"
        if not any(states(node) for node in calls):
            return Diagnostic(
                place_label(path), text, "its state is kept in the module, so all calls share one state", _OWN
            )
        return Diagnostic(place_label(path), text, "a neuron has one state, so it has one input per time step", _ONCE)

    def _slices_taken(self, calls: list[TracedCall]) -> list[int]:
        """The index of the one slice that each call works on; empty where that is not one each, along one axis."""
        slices = [self._parts(first_input(node)) for node in calls]
        axes = {axis for parts in slices for axis, _ in parts}
        if len(axes) != 1 or any(len(parts) != 1 for parts in slices):
            return []
        indices = [index for parts in slices for _, index in parts]
        return indices if len(set(indices)) == len(indices) else []

    def _parts(self, value: Any) -> set[tuple[int, int]]:
        """(Axis, index) of every slice along time of values that depend on no neuron, among the inputs of a value."""
        slices: set[tuple[int, int]] = set()
        visited: set[int] = set()
        waiting = [*values_of(value)]
        while waiting:
            source = self.plain(waiting.pop())
            if source.node.index in visited or source.node.kind == "neuron":
                continue
            visited.add(source.node.index)
            taken = slice_of(source)
            if taken is not None and self.age(taken.parent) == STATIC:
                is_time = taken.parent.shape[taken.axis] == self.time_size
                slices |= {(taken.axis, taken.index)} if is_time else set()
            else:
                waiting += values_of((source.node.args, dict(source.node.kwargs)))
        return slices

    def _outputs(self) -> list[Diagnostic]:
        """Outputs that are not the same value in every call."""
        problems: list[Diagnostic] = []
        for k, (name, last) in enumerate(self.returned[-1]):
            before = [r[k][1] if k < len(r) else None for r in self.returned[:-1]]
            if not all(self.alike(value, iteration, last) for iteration, value in enumerate(before)):
                text = f"its output {quoted(name or 'output')} depends on a value that forward keeps between calls"
                problems.append(Diagnostic(place_label(""), text, FOLLOWED, KEEP))
        return problems

    def _states(self, path: str, calls: list[TracedCall]) -> list[Diagnostic]:
        """A state must be the one that the neuron returned in the iteration before, zeros at first, or an argument."""
        reset = next((k for k, n in enumerate(calls) if k and n.index in self.resets and not states(n)), None)
        if reset is not None:
            found = f"its state is reset in time step {reset} of a loop"
            return [Diagnostic(place_label(path), found, "", "reset it before the loop")]
        starts = [self.is_called or not k for k in range(len(calls))]
        return foreign_states(path, calls, starts, self.stateless, self.plain)


# -- series --------------------------------------------------------------------------------------------------------
# Tensors that a loop over time assembles: stacked, concatenated, or written into a buffer slice by slice.

_ADVICE = "stack the time steps in front of the values, or right after the batch"


class ItemSeries(NamedTuple):
    """One value for each index along an axis of the whole; ``is_joined``: the values have that axis already.

    ``chunks``: into how many rows of equal length the whole splits that axis (0: it does not).
    """

    items: tuple[Any, ...]
    axis: int
    is_joined: bool = False
    chunks: int = 0


Runs = Mapping[int, ItemSeries]
"""Parts that earlier calls have put together, by the index of the call."""


def series_of(node: TracedCall, runs: Runs) -> list[ItemSeries]:
    """The parts that a call assembles along an axis, in order: one by one, or as the parts of its parts."""
    if node.name in WRITES:
        written = _written(node)
        return [written] if written else []
    items: Any = node.args[0] if node.args else None
    if node.name not in JOINS | {"stack", RING} or not isinstance(items, tuple):
        return []
    axis = int(call_argument(node, 1, "dim", node.kwargs.get("axis", 0))) % len(node.shapes[0])
    if node.name in ("stack", RING):
        return [ItemSeries(items, axis), *_stacked_runs(items, axis, runs)]
    is_sliced = all(isinstance(i, TracedValue) and i.shape[axis] == 1 for i in items)
    one_by_one = [ItemSeries(items, axis, is_joined=True)] if is_sliced else []
    return [*one_by_one, *(run for run in _joined_runs(items, axis, runs) if run not in one_by_one)]


def _stacked_runs(items: tuple[Any, ...], axis: int, runs: Runs) -> Iterator[ItemSeries]:
    """Chunks of equal length before or after each other, on an axis of their own before that of their parts."""
    inner = [runs.get(i.node.index) if isinstance(i, TracedValue) else None for i in items]
    rows = [run for run in inner if run is not None and run.axis == axis and not run.chunks]
    if len(rows) == len(items) and len({(len(row.items), row.is_joined) for row in rows}) == 1:
        yield ItemSeries(tuple(i for row in rows for i in row.items), axis, rows[0].is_joined, len(rows))


def _joined_runs(items: tuple[Any, ...], axis: int, runs: Runs) -> Iterator[ItemSeries]:
    """Chunks, single parts, and tensors that are still empty, one after the other on one axis."""
    found: list[ItemSeries] = []
    for item in items:
        run = runs.get(item.node.index) if isinstance(item, TracedValue) else None
        if run is not None and run.axis == axis and not run.chunks:
            found.append(run)
        elif isinstance(item, TracedValue) and item.shape[axis] == 1:
            found.append(ItemSeries((item,), axis, is_joined=True))
        elif isinstance(item, TracedValue) or item.shape[axis]:
            return
    if len({run.is_joined for run in found}) == 1:
        yield ItemSeries(tuple(i for run in found for i in run.items), axis, found[0].is_joined)


def without_lists(
    outputs: Sequence[tuple[str, Any]], iterations: int, is_series: Callable[[tuple[Any, ...]], bool]
) -> tuple[list[tuple[str, Any]], list[Diagnostic]]:
    """The outputs of forward, with lists of one output per time step reduced to the last; a problem for such lists."""
    outputs_left: list[tuple[str, Any]] = []
    waiting = list(outputs)
    lists = 0
    while waiting:
        items = tuple(value for _, value in waiting[:iterations])
        length = iterations if iterations > 1 and is_series(items) else 1
        outputs_left.append(waiting[length - 1])
        waiting = waiting[length:]
        lists += length > 1
    if not lists:
        return outputs_left, []
    found = f"it returns {'a list' if lists == 1 else f'{lists} lists'} with one output per time step"
    step = "return one tensor: torch.stack(outputs) instead of outputs"
    return outputs_left, [Diagnostic(place_label(""), found, "an output is one tensor", step)]


def _written(node: TracedCall) -> ItemSeries | None:
    """The slices written into a buffer along one axis."""
    item_at: dict[int, Any] = {}
    kinds: set[tuple[int, bool]] = set()
    write: Any = node
    while isinstance(write, TracedCall) and write.name in WRITES:
        buffer, place, item = write_of(write)
        if place is None or not isinstance(item, TracedValue):
            return None
        kinds.add((place.axis, place.is_kept))
        item_at.setdefault(place.index, item)
        write = buffer.node if isinstance(buffer, TracedValue) else None
    if len(kinds) != 1:
        return None
    (axis, is_kept), items = kinds.pop(), tuple(item_at[k] for k in sorted(item_at))
    rank = len(node.shapes[0]) - (not is_kept)
    if any(len(item.shape) != rank or (is_kept and item.shape[axis] != 1) for item in items):
        return None  # one value for several places
    return ItemSeries(items, axis, is_kept)


def join_series(x: FlowValue, series: ItemSeries) -> LoweredOp:
    """The whole as one value, of which ``x`` is the last item.

    Raises:
        CannotFollow: the time axis would stand among values in a way that is not read.
    """
    count, axis = len(x.lead), series.axis
    if x.order:
        raise CannotFollow("values whose batch or time axis is not leading are put together", _ADVICE)
    if series.chunks and not series.is_joined and axis <= count:
        return LoweredOp("same", {}, (x,), (*x.lead[:axis], "chunk", "time", *x.lead[axis:]))
    if series.chunks:
        raise CannotFollow("chunks of time steps are put together among values", _ADVICE)
    if series.is_joined:
        if axis < count and x.lead[axis] == "time":
            return LoweredOp("same", {}, (x,), x.lead)
        if axis == count:
            return LoweredOp("reshape", {}, (x,), (*x.lead, "time"))
        raise CannotFollow("the time steps are concatenated along values", _ADVICE)
    if axis <= count:
        return LoweredOp("same", {}, (x,), (*x.lead[:axis], "time", *x.lead[axis:]))
    values = range(count + 1, len(x.whole) + 1)
    order = [*range(count), *values]
    order.insert(axis, count)
    return LoweredOp("same", {}, (x,), (*x.lead, "time"), tuple(order))
