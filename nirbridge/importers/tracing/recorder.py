"""Writing down which value came from where while a torch module's own forward runs (see ``trace_run``).

Neuron modules (those with a form) are one record each; below that, every torch function that meets a traced value is
one, called by a layer, a function or code of the user. So any Python is followed, and shapes come for free. What
asks a traced value for its number (``if x.sum() > 0``) is written down as a problem, unless it decides nothing (see
``reads``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import reduce
from typing import Any

from nirbridge._types import IMPORT_PROGRESS, Shape
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.by_hand.spec import COMPARING, is_initial, note_names, place_in_code, reads_own
from nirbridge.importers.neuron_specs import NeuronSpec, NeuronSpecs, neuron_spec_of, place_label
from nirbridge.importers.tracing.heads import HEADS
from nirbridge.importers.tracing.memory import (
    MemoryBudget,
    Noted,
    TensorConstants,
    TensorIdentities,
    changed_tensors,
    noted,
    version_of,
)
from nirbridge.importers.tracing.reads import NUMBERS, Place, ReadPlace, Reads, plain
from nirbridge.importers.tracing.structures import (
    RandomResults,
    bound_arguments,
    by_position,
    function_name,
    index_in,
    instances_of,
    is_all_state,
    is_in_place,
    is_write,
    overwrites,
    single_indices,
    tensors_of,
    torch_tensor,
    untracked,
)

UseOf = Callable[[str, tuple[tuple[Any, ...], Mapping[str, Any]], int, bool], str]
"""(path of a module, its arguments, number of the call of forward, whether they are all of its state) -> path of the
use: see ``trace_uses``."""
ReadBack = Callable[[Any, Any], tuple[Any, ...]]
"""(value, index) -> what stands there, of a tensor that was written into: see ``values.read_back``."""
KeptRows = Callable[[str, tuple[Any, ...], Mapping[str, Any]], tuple[list[Any] | None, int]]
"""(function, its arguments) -> rows of its result and their axis: see ``values.kept_rows``."""
RING = "ring"
"""Name of the call that stacks the rows of a tensor in which values are kept: rolled, shifted, or in part written."""

_LIKE = ("zeros_like", "ones_like", "full_like", "empty_like")
_SHAPE_ONLY = frozenset({*_LIKE, "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor"})
_HALVES = frozenset({"torch.float16", "torch.bfloat16"})
_UNSET = frozenset({"empty", "empty_like", "empty_strided", "new_empty"})


@dataclass(frozen=True, slots=True, eq=False)
class TracedCall:
    """One call: ``args`` holds values, constants and whatever else was given, ``shapes`` those of its outputs.

    ``returned``: (name, output) of each tensor that a neuron returned, in order; one returned twice is one output.
    ``place``: that of a comparison, and of a function of ``heads.HEADS``, in the user's code.
    """

    index: int
    kind: str
    name: str
    path: str
    module: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    shapes: tuple[Shape, ...]
    func: Any = None
    returned: tuple[tuple[str, int], ...] = ()
    place: Any = None


@dataclass(frozen=True, slots=True)
class TracedValue:
    """Output ``output`` of a node."""

    node: TracedCall
    output: int = 0

    @property
    def shape(self) -> Shape:
        """Shape of the tensor, batch and time included."""
        return self.node.shapes[self.output]


@dataclass(slots=True)
class ForwardTrace:
    """The trace of forward, called once or several times in a row.

    ``outputs``: those of the last call. ``starts``: where the nodes of each call begin; ``returned``: the outputs of
    each. ``handed``: arguments of a later call that took outputs of the previous one. ``failure``: why a later call
    failed, if one did. ``resets``: neurons' calls in front of which something else than the neuron set its state;
    ``stateless``: those of neurons that keep no state and were given none. ``halves``: (path, function, number format)
    of what gave values of 16 bits. ``reads``: where forward reads values; ``notes``: remarks for the user. Where
    neurons written by hand are read: ``names`` of values in the user's code.
    """

    nodes: list[TracedCall] = field(default_factory=list)
    outputs: list[tuple[str, Any]] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    returned: list[list[tuple[str, Any]]] = field(default_factory=list)
    handed: tuple[str, ...] = ()
    failure: str = ""
    resets: list[int] = field(default_factory=list)
    stateless: list[int] = field(default_factory=list)
    halves: list[tuple[str, str, str]] = field(default_factory=list)
    reads: Mapping[Place, ReadPlace] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    names: dict[tuple[int, int], str] = field(default_factory=dict)

    def neurons(self, call: int = 0) -> dict[str, list[TracedCall]]:
        """Calls of neurons from call ``call`` of forward on, in order, by path."""
        nodes: dict[str, list[TracedCall]] = {}
        first = next(iter(self.starts[call:]), len(self.nodes)) if call else 0
        for node in self.nodes[first:]:
            if node.kind == "neuron":
                nodes.setdefault(node.path, []).append(node)
        return nodes


class ForwardRecorder:
    """Knows the value of each tensor, by identity, while the forward keeps that tensor (see ``tracing.memory``)."""

    def __init__(
        self,
        forms: NeuronSpecs,
        originals: Mapping[str, Any],
        noise: Callable[[Any], None] | None,
        use_of: UseOf,
        read_back: ReadBack,
        kept_rows: KeptRows,
        constants: TensorConstants,
    ) -> None:
        self.forms, self.originals, self.noise = forms, originals, noise or (lambda tensor: None)
        self.use_of, self.read_back, self.kept_rows = use_of, read_back, kept_rows
        self.recording = ForwardTrace()
        self.constants, self.values, self.stand_ins = constants, TensorIdentities(), RandomResults()
        self.stack: list[str] = []
        self.is_paused = False
        self.attributes: dict[str, NeuronAttributes] = {}
        self.reads = Reads()
        self.reads_own = reads_own(forms)

    def close(self) -> None:
        """Lets go of everything but the recording."""
        self.recording.reads, self.reads.is_open = self.reads.places, False
        self.values, self.stand_ins = TensorIdentities(), RandomResults()
        self.constants = TensorConstants(MemoryBudget(0))

    def bind(self, tensor: Any, value: TracedValue) -> None:
        """From now on ``tensor`` is ``value``."""
        if self.values.get(tensor) is None:
            self.constants.budget.add(tensor)
        self.values.set(tensor, value)

    def add(
        self,
        kind: str,
        name: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: list[Any],
        func: Any = None,
        use: str | None = None,
        returned: tuple[tuple[str, int], ...] = (),
        place: Any = None,
    ) -> TracedCall:
        """Record a call and bind its outputs; ``use``: the recorded path, if it differs from the module's."""
        self.reads.check(len(self.recording.nodes) + 1)
        path = self.stack[-1] if self.stack else ""
        with untracked():
            shapes = tuple(tuple(t.shape) for t in tensors)
            halves = {str(t.dtype) for t in tensors} & _HALVES
            IMPORT_PROGRESS.get()(f"running the module: operation {len(self.recording.nodes) + 1:,}", None)
        self.recording.halves += [(path, name, number_format) for number_format in sorted(halves)]
        number, own_path, module = len(self.recording.nodes), path if use is None else use, self.originals.get(path)
        node = TracedCall(number, kind, name, own_path, module, args, kwargs, shapes, func, returned, place)
        self.recording.nodes.append(node)
        for k, tensor in reversed(list(enumerate(tensors))):  # one returned twice is the first: spikes, then states
            self.bind(tensor, TracedValue(node, k))
        return node

    def seen(self, structure: Any) -> Any:
        """The same structure with values in the place of traced tensors, constants as they are now."""
        if isinstance(structure, torch_tensor()):
            value = self.values.get(structure)
            if self.values.is_overwritten(structure):
                value = TracedValue(self.add("function", "overwritten", (value,), {}, [structure]))
            return self.constants.kept(structure) if value is None else value
        if isinstance(structure, dict):
            return {k: self.seen(v) for k, v in structure.items()}
        if isinstance(structure, list | tuple):
            return tuple(self.seen(v) for v in structure)
        if is_dataclass(structure) and not isinstance(structure, type):
            return {f.name: self.seen(getattr(structure, f.name)) for f in fields(structure)}
        return plain(structure)

    def function(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A torch function was called."""
        if self.is_paused:
            return self.constants.budget.counted(func(*args, **kwargs))
        name = function_name(func)
        if name == "data" and func.__name__ == "__get__":
            func = type(args[0]).detach  # the same, but writes into the result are seen
        if is_write(func, name) or "out" in kwargs:
            self.constants.check_write(kwargs.get("out", args[0]))
        is_index = name == "__getitem__" and self.values.get(args[0]) is not None
        if is_index and not any(True for _ in values_of(self.seen(args[1]))):
            *before, last = single_indices(args[1], args[0].ndim)
            args = (reduce(lambda part, index: self._called(func, (part, index), {}), before, args[0]), last)
        return self._called(func, args, kwargs)

    def _called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = function_name(func)
        if name in _UNSET:  # what memory holds by chance would differ from run to run
            return self.constants.budget.counted(func(*args, **kwargs).zero_())
        is_own = self.reads_own and name.strip("_") in COMPARING
        if name in _SHAPE_ONLY or (not (is_own and is_initial(args)) and self._is_fixed(args, kwargs)):
            return self.constants.budget.counted(func(*args, **kwargs), args)
        if name not in NUMBERS and not name.startswith("__"):
            self.constants.budget.check_result(func, args, kwargs)
        shown, named = by_position(self.seen(args), self.seen(kwargs))
        place = self._place_of(args[0]) if args and is_in_place(name) else None
        before = _versions(args, kwargs)
        result = self.stand_ins.result(func, name, args, kwargs)
        if before.get(id(result)) is not None and before == _versions(args, kwargs):
            return result  # the operand as it was, as of a dropout in eval mode: a state may hold the same tensor
        if name in NUMBERS:
            return self._read(name, result)
        if self._is_kept(name, shown, named, result, args):
            return result
        if overwrites(func, name) and isinstance(shown[1], TracedValue) and shown[1].shape == tuple(args[0].shape):
            self.bind(args[0], shown[1])
            self._write_through(place, args[0])
            return result
        tensors = [t for _, t in tensors_of(result)]
        if tensors:
            self.add("function", name, shown, named, tensors, func, place=place_in_code(is_own or name in HEADS))
            note_names(self, is_wanted=is_own)
        self._write_through(place, args[0] if args else None)
        return result

    def _is_fixed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return all(self.values.get(tensor) is None for _, tensor in tensors_of((args, kwargs)))

    def _is_kept(
        self, name: str, shown: tuple[Any, ...], named: Mapping[str, Any], result: Any, args: tuple[Any, ...]
    ) -> bool:
        """True for calls that move, write or read rows of a tensor: what the result holds is noted."""
        rows, axis = self.kept_rows(name, shown, named)
        if rows and any(isinstance(row, TracedValue) for row in rows):
            self.add("function", RING, (tuple(rows), axis), {}, [args[0] if result is None else result], _stacked)
        elif name == "__setitem__":
            self.add("function", name, shown, named, [args[0]])
        return bool(rows) or name == "__setitem__" or (name == "__getitem__" and self._is_read_back(result, shown))

    def _is_read_back(self, result: Any, shown: tuple[Any, ...]) -> bool:
        """True if ``result`` is a slice that was written before, or one that was not: then it is what it was."""
        stored = self.read_back(*shown)
        if stored and isinstance(stored[0], TracedValue):
            self.bind(result, stored[0])
        return bool(stored)

    def _place_of(self, part: Any) -> tuple[Any, Any, tuple[Any, ...]] | None:
        """(Tensor, what it is by now, index) of a tensor that is a slice of another; None of any other."""
        whole = getattr(part, "_base", None)
        index = None if whole is None else index_in(whole, part)
        return None if index is None else (whole, self.seen(whole), index)

    def _write_through(self, place: tuple[Any, Any, tuple[Any, ...]] | None, part: Any) -> None:
        """A slice of a tensor was overwritten: so was that part of the tensor."""
        if place is not None:
            self.add("function", "__setitem__", (place[1], place[2], self.seen(part)), {}, [place[0]])

    def neuron(self, path: str, module: Any, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A neuron module was called; its own forward gives the shapes."""
        attributes = NeuronAttributes(module, self.attributes.get(path))
        bound = bound_arguments(forward, args, kwargs)
        shown, named = (self.seen(p) for p in ((bound.args, bound.kwargs) if bound else (args, kwargs)))
        with untracked():
            self.constants.budget.check_room(args)
        self.is_paused = True
        try:
            result = forward(*args, **kwargs)
        finally:
            self.is_paused = False
        names, tensors = [name for name, _ in tensors_of(result)], [t for _, t in tensors_of(result)]
        for tensor in tensors:
            self.noise(tensor)
        self._note_attributes(path, module, attributes)
        if not attributes.keeps and not any(True for _ in tensors_of((args[1:], kwargs))):
            self.recording.stateless.append(len(self.recording.nodes))
        is_whole = is_all_state(bound, keeps=attributes.keeps)
        use = self.use_of(path, (shown, named), len(self.recording.starts), is_whole)
        firsts = [next(k for k, other in enumerate(tensors) if other is tensor) for tensor in tensors]
        returned = tuple((name.rpartition("_")[2], first) for name, first in zip(names, firsts, strict=True))
        outputs = [*tensors, *kept_membrane(module, neuron_spec_of(module, self.forms), tensors)]
        self.add("neuron", use, shown, named, outputs, use=use, returned=returned)
        return result

    def delay(self, module: Any, forward: Any, args: tuple[Any, ...]) -> Any:
        """A module that only delays was called; its queue is not looked at."""
        self.is_paused = True
        try:
            result = forward(*args).clone()  # it may be the very tensor of an earlier time step
        finally:
            self.is_paused = False
        if not self._is_fixed(args, {}):
            self.add("function", "delay", (*self.seen(args), module.delay_steps, module.step_mode), {}, [result], _late)
        return result

    def _note_attributes(self, path: str, module: Any, attributes: NeuronAttributes) -> None:
        attributes.compare(module, self.originals.get(path, module))
        self.attributes[path] = attributes
        if attributes.is_reset:
            self.recording.resets.append(len(self.recording.nodes))
        for name in attributes.changed:
            found, hint = f"forward changes its {quoted(name)}", "set it before the import, not in forward"
            problem = Diagnostic(place_label(path), found, "parameters of a network are fixed", hint)
            self.recording.problems += [problem] if str(problem) not in map(str, self.recording.problems) else []

    def _read(self, name: str, value: Any) -> Any:
        path = self.stack[-1] if self.stack else ""
        found = f"it reads the value of a tensor ({name.strip('_')}): data-dependent control flow"
        problem = Diagnostic(place_label(path), found, "", "compute with tensors, or leave that part out of forward")
        if str(problem) not in map(str, self.recording.problems):
            self.recording.problems.append(problem)
        return self.reads.answer(name, value, problem)


def _versions(*structures: Any) -> dict[int, int | None]:
    """How often each tensor of the structures was written to, by its identity; None where torch does not count it."""
    return {id(tensor): version_of(tensor) for _, tensor in tensors_of(structures)}


def is_delay(module: Any) -> bool:
    """True for spikingjelly's ``layer.Delay``."""
    return type(module).__name__ == "Delay" and type(module).__module__.startswith("spikingjelly.")


def _stacked(rows: tuple[Any, ...], axis: int) -> Any:
    import torch

    return torch.stack(rows, axis)


def _late(x: Any, *_: Any) -> Any:
    """A delayed value where nothing has come yet: nothing."""
    if bool(x.any()):
        raise RuntimeError
    return x


def values_of(structure: Any) -> Iterator[TracedValue]:
    """Every value in a structure of a node's arguments."""
    return instances_of(structure, TracedValue)


# -- neuron attributes ---------------------------------------------------------------------------------------------


class NeuronAttributes:
    """The tensors and numbers of a neuron, noted before a call and compared after it.

    ``is_reset``: something else than the neuron set its state since its previous call. ``keeps``: the call changed
    attributes. ``changed``: parameters that forward has given other values than the user's module has.
    """

    def __init__(self, module: Any, previous: NeuronAttributes | None) -> None:
        """``previous``: those around the previous call of the neuron."""
        tensors = dict(tensors_of(vars(module)))
        self.before, self.numbers = noted(tensors), _numbers(module)
        self.states = set[str]() if previous is None else previous.states
        self.is_first = previous is None
        self.replaced = set(tensors) if previous is None else changed_tensors(previous.after, tensors)
        self.after: Mapping[str, Noted] = {}
        self.keeps = self.is_reset = False
        self.changed: list[str] = []

    def compare(self, module: Any, original: Any) -> None:
        """Compare after the call; ``original``: the module of the user."""
        tensors = dict(tensors_of(vars(module)))
        own = changed_tensors(self.before, tensors)
        self.after, self.keeps, self.states = noted(tensors), bool(own), self.states | own
        self.is_reset = not self.is_first and bool(self.replaced & self.states)
        users = dict(tensors_of(vars(original)))
        self.changed = [
            name.removeprefix("_parameters_").removeprefix("_buffers_")
            for name in sorted(self.replaced - self.states)
            if name in tensors and name in users and not _is_same(tensors[name], users[name])
        ]
        now, users = _numbers(module), _numbers(original)
        self.changed += [n for n, v in now.items() if v == self.numbers.get(n) and n in users and v != users[n]]


def _is_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    with untracked():
        is_alike = a.shape == b.shape and a.dtype == b.dtype
    return is_alike and bool(((a == b) | (a != a)).all())


def _numbers(module: Any) -> dict[str, Any]:
    """Numbers in attributes."""
    return {name: value for name, value in vars(module).items() if type(value) in (int, float)}


def kept_membrane(module: Any, spec: NeuronSpec | None, returned: list[Any]) -> list[Any]:
    """The membrane that a neuron keeps in an attribute, where a user may read it."""
    if spec is None or not spec.membrane or not hasattr(module, spec.membrane):
        return []
    value = getattr(module, spec.membrane)
    is_new = isinstance(value, torch_tensor()) and all(value is not tensor for tensor in returned)
    return [value] if is_new and [value.shape] == [tensor.shape for tensor in returned] else []
