"""The layers of a network: the step program as lines of Triton, on values of several samples at once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nirbridge.arrays import Array, same_array
from nirbridge.emitters.jax.module import comment
from nirbridge.emitters.ports import ProgramNames, identifiers, real_names
from nirbridge.errors import ModelError, counted
from nirbridge.network.compose import parts_of
from nirbridge.network.graph import in_causal_order
from nirbridge.network.model import Network
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.program.printing import ATOM, ArrayLanguage, Printer, Text, array_table
from nirbridge.program.step import Past, step_program
from nirbridge.program.terms import Kind, Term

ELEMENTS_MAX = 2**31 - 1
"""Elements of a layer or of its weights: places in them are 32-bit."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The time step of ``size`` values of each sample: a population, an output, or values on the way to one.

    Its lines compute values ``n`` of samples ``sample``, ``[ROWS, BLOCK]``; ``rows``, ``each`` and ``inside`` are true
    for samples, values and both that exist, and ``own`` are their places in a state.
    """

    key: str
    about: str
    size: int
    lines: list[str] = field(default_factory=list)

    def load(self, name: str, pointer: str, mask: str) -> str:
        """The name of a value that is loaded once, where it is first read."""
        line = f"{name} = tl.load({pointer}, {mask}, 0)"
        if line not in self.lines:
            self.lines.append(line)
        return name

    def text(self, first: str) -> str:
        """Its time step for the values from ``first`` on."""
        head = [
            f"# {self.about}",
            "sample = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None].to(tl.int64)",
            f"n = {first} + tl.arange(0, BLOCK)[None, :]",
            f"rows, each = sample < batch, n < {self.size}",
            f"inside, own = rows & each, sample * {self.size} + n",
        ]
        return "\n".join([*head, *self.lines])

    @property
    def pointers(self) -> list[str]:
        """The arrays that it reads and writes."""
        text = "\n".join(line for line in self.lines if not line.startswith("#"))
        return list(dict.fromkeys(re.findall(r"\b\w+_ptr\b", text)))


@dataclass(slots=True)
class KernelBuilder:
    """Layers in the order of a time step, and the arrays that they read and write.

    ``inputs``: size and time steps before the first. ``states``: size and first value, or the key of the first values.
    ``rings``: time steps and size of what is sent or delayed. ``records``: shapes of variables by key.
    """

    network: Network
    layers: list[Layer] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, tuple[int, int]] = field(default_factory=dict)
    states: dict[str, tuple[int, float | str]] = field(default_factory=dict)
    rings: dict[str, tuple[int, int]] = field(default_factory=dict)
    records: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ids: dict[str, str] = field(init=False)
    sizes: dict[str, int] = field(init=False)
    program: Any = field(init=False)
    rows: dict[int, Text] = field(default_factory=dict)
    """Where what is sent in this time step stands, by ``id`` of its term."""

    def __post_init__(self) -> None:
        n = self.network
        self.ids, self.program = identifiers(n), step_program(n)
        self.sizes = {x.name: math.prod(x.shape) for x in (*n.inputs, *n.populations, *n.outputs)}

    def built(self) -> dict[str, dict[str, str]]:
        """Writes all layers; the keys of the variables of each population."""
        for name, term in self.program.inputs.items():
            self.inputs[self.ids[name]] = self.sizes[name], self._depth(name)
            self.rows[id(term)] = Text(self._row(name, 0))
        by_name = {p.name: p for p in self.network.populations}
        variables = {name: self._population(by_name[name]) for name in self.program.populations}
        for k, port in enumerate(self.network.outputs):
            layer = self._layer(f"out{k}", self.sizes[port.name], f"out{k}: {comment(port.name)}")
            (text,) = self._write(layer, [self.program.outputs[port.name]], port.name)
            self._record(f"out{k}", port.shape, text, layer)
            self.layers.append(layer)
        return variables

    def _layer(self, key: str, size: int, about: str) -> Layer:
        self._check(size, f"layer of {about}")
        return Layer(key, about, size)

    def _population(self, p: Any) -> dict[str, str]:
        """The layer of a population; the keys of its variables."""
        key, size, step = self.ids[p.name], self.sizes[p.name], self.program.populations[p.name]
        layer = self._layer(key, size, f"{key}: {comment(p.name)}, {counted(p.size, 'neuron')}")
        variables = {v: term for v, term in step.variables.items() if v != "s" or p.neuron.fires}
        following = {v: term for v, term in step.state.items() if (p.name, v) in self.program.carried}
        for v in following:
            self._state(f"{key}_{v}", self.program.initial[p.name, v], v == "refractory")
        ends = [step.sent, *variables.values(), *following.values()]
        sent, *texts = self._write(layer, ends, p.name)
        layer.lines.append(f"tl.store({self._row(p.name, 0)} + n, {sent}, inside)")
        for v, text in zip(following, texts[len(variables) :], strict=True):
            layer.lines.append(f"tl.store({key}_{v}_ptr + own, {text}, inside)")
        for v, text in zip(variables, texts, strict=False):
            self._record(f"{key}.{v}", p.shape, text, layer)
        self.rows[id(step.sent)] = Text(self._row(p.name, 0))
        self.layers.append(layer)
        return {v: f"{key}.{v}" for v in variables}

    def _record(self, key: str, shape: tuple[int, ...], text: str, layer: Layer) -> None:
        """The lines that keep an output, or a variable where it is recorded, of every time step."""
        self.records[key] = shape
        now, pointer = f"now = (t * batch + sample) * {layer.size} + n", f"{key.replace('.', '_')}_all_ptr"
        always = key.startswith("out")
        layer.lines.extend([] if now in layer.lines else [now])
        layer.lines.extend([] if always else [f"if {pointer} is not None:"])
        layer.lines.append(f"{'' if always else '    '}tl.store({pointer} + now, {text}, inside)")

    # -- arrays ----------------------------------------------------------------------------------------------------

    def _weight(self, key: str, values: Any, dtype: str = "float32") -> str:
        """The name of an array of ``weights.npz``; another array of the same key gets a number."""
        self._check(np.size(values), f"array {key}")
        array = np.ascontiguousarray(np.asarray(values).astype(dtype))
        name, number = key, 1
        while name in self.weights and not same_array(self.weights[name], array):
            number += 1
            name = f"{key}{number}"
        self.weights[name] = array
        return name

    def _check(self, size: int, subject: str) -> None:
        if size > ELEMENTS_MAX:
            limit = f"a kernel of Triton counts to {ELEMENTS_MAX:,}"
            raise ModelError.of(subject, f"has {counted(size, 'element')}", limit, "emit for jax")

    def _state(self, key: str, first: Array, is_count: bool) -> None:
        kind = "int32" if is_count else "float32"
        value = np.asarray(first, kind).reshape(-1)
        is_one = bool((value == value[:1]).all()) if value.size else False
        self.states[key] = value.size, value[0].item() if is_one else self._weight(f"{key}_init", value, kind)

    def _depth(self, name: str) -> int:
        history = self.program.histories.get((name, "past"))
        return history.depth if history else 0

    def _row(self, name: str, delay: int | str) -> str:
        """Pointers to the first element of what was sent some time steps ago, for each sample."""
        key, size, depth = self.ids[name], self.sizes[name], self._depth(name)
        if name not in self.program.inputs:
            return self._ring(key, depth + 1, size, delay)
        at = (
            f"(t + {depth} - {delay})"
            if isinstance(delay, str)
            else f"(t + {depth - delay})"
            if depth != delay
            else "t"
        )
        return f"{key}_ptr + ({at} * batch + sample) * {size}"

    def _ring(self, key: str, depth: int, size: int, delay: int | str) -> str:
        """Likewise in an array of ``depth`` time steps, each in the place of the one that is not needed any more."""
        self.rings[key] = depth, size
        if depth == 1:
            return f"{key}_ptr + sample * {size}"
        at = "t" if delay == 0 else f"(t + {depth} - {delay})" if isinstance(delay, str) else f"(t + {depth - delay})"
        return f"{key}_ptr + ({at} % {depth} * batch + sample) * {size}"

    # -- expressions -----------------------------------------------------------------------------------------------

    def _write(self, layer: Layer, ends: Sequence[Term], of: str) -> list[str]:
        """Appends the statements of terms of a target, and keeps its late currents; the texts of the terms."""
        leaf, other = (lambda term: self._leaf(term, layer, of)), (lambda term, args: self._special(term, args, layer))
        late = {c: h for (name, c), h in self.program.histories.items() if name == of and c != "past"}
        printer = Printer(TritonLanguage(leaf, other), layer.lines, made=dict(self.rows))
        texts = printer.write([*(h.term for h in late.values()), *ends])
        for (c, h), text in zip(late.items(), texts, strict=False):
            layer.lines.append(f"tl.store({self._ring(f'{c}_past', h.depth + 1, layer.size, 0)} + n, {text}, inside)")
        return texts[len(late) :]

    def _leaf(self, term: Term, layer: Layer, of: str) -> str:
        if term.op == "arg":
            variable = term.value[1]
            return layer.load(f"old_{variable}", f"{self.ids[of]}_{variable}_ptr + own", "inside")
        is_count = term.kind == "count"  # no run has more time steps than int32 holds
        values = np.minimum(term.value, 2**31 - 1) if is_count else np.asarray(term.value)
        if values.ndim == 0:
            return number_text(values, term.kind)
        local = term.name.replace(".", "_")
        key = local if "." in term.name else f"{self.ids[of]}_{local}"
        return layer.load(local, f"{self._weight(key, values, 'int32' if is_count else 'float32')}_ptr + n", "each")

    def _special(self, term: Term, args: Sequence[Text], layer: Layer) -> str:
        """What is no operation of elements."""
        return self._past(term, args, layer) if term.op == "past" else self._linear(term, args[0].text, layer)

    def _past(self, term: Term, args: Sequence[Text], layer: Layer) -> str:
        """What was there some time steps before: pointers to rows of a source, or values of a late current."""
        past: Past = term.value
        (name, current), delays = past.key, past.delays
        if current != "past":
            delay = self._delays(current, delays, layer)
            depth = self.program.histories[past.key].depth + 1
            earlier = f"tl.load({self._ring(f'{current}_past', depth, layer.size, delay)} + n, inside, 0)"
            return f"tl.where({delay} == 0, {args[0].text}, {earlier})" if args else earlier
        if delays.ndim == 0:
            return self._row(name, int(delays))
        key = f"{self.ids[name]}_late{len(self.layers)}"
        arriving = self._layer(key, self.sizes[name], f"{key}: {comment(name)}, as late as each element arrives")
        delay = self._delays(key, delays, arriving)
        row = self._ring(key, 1, self.sizes[name], 0)
        arriving.lines.append(f"tl.store({row} + n, tl.load({self._row(name, delay)} + n, inside, 0), inside)")
        self.layers.append(arriving)
        return row

    def _delays(self, key: str, delays: Array, layer: Layer) -> int | str:
        if delays.ndim == 0:
            return int(delays)
        weight = self._weight(f"{key}_delays", delays, "int32")
        return layer.load(f"{key}_delays", f"{weight}_ptr + n", "each")

    # -- linear operators ------------------------------------------------------------------------------------------

    def _linear(self, term: Term, row: str, layer: Layer) -> str:
        """The text of an operator's values; what a chain computes before its last sums is a layer of its own."""
        p = next(x for k, x in enumerate(self.network.projections) if f"c{k}" == term.name)
        about = f"{term.name}: {comment(p.source)} -> {comment(p.target)}"
        groups: list[list[Operator]] = [[]]
        for part in parts_of(term.value):
            if isinstance(part, Identity | Reshape):
                continue
            if groups[-1] and not isinstance(part, Scale):
                groups.append([])
            groups[-1].append(part)
        for k, group in enumerate(groups[:-1]):
            key, size = f"{term.name}_{k}", math.prod(group[-1].output_shape)
            before = self._layer(key, size, f"{about}, part {k + 1} of {len(groups)}")
            text, row = self._values(before, key, group, row), self._ring(key, 1, size, 0)
            before.lines.extend([f"{key} = {text}", f"tl.store({row} + n, {key}, inside)"])
            self.layers.append(before)
        layer.lines.append(f"# {about}")
        return self._values(layer, term.name, groups[-1], row)

    def _values(self, layer: Layer, key: str, parts: Sequence[Operator], row: str) -> str:
        """Sums and the scales after them, or what is there and its scales."""
        text = ""
        for part in parts:
            if isinstance(part, Scale):
                scale = self._weight(f"{key}_scale", np.asarray(part.scale).reshape(-1))
                text = f"{text or f'tl.load({row} + n, inside, 0)'} * {layer.load(scale, f'{scale}_ptr + n', 'each')}"
            else:
                text = self._sums(key, part, row)
        return text or f"tl.load({row} + n, inside, 0)"

    def _sums(self, key: str, part: Operator, row: str) -> str:
        pre, post = math.prod(part.input_shape), math.prod(part.output_shape)
        if isinstance(part, Dense):
            weight = self._weight(f"{key}_weight", np.asarray(part.weight).T)
            return f"dense({row}, {weight}_ptr, rows, n, {pre}, {post})"
        if isinstance(part, Sparse):
            weight, sources = (
                self._weight(f"{key}_weight", part.data),
                self._weight(f"{key}_sources", part.indices, "int32"),
            )
            starts = self._weight(f"{key}_starts", part.indptr, "int32")
            return f"sparse({row}, {weight}_ptr, {sources}_ptr, {starts}_ptr, rows, n, {post})"
        assert isinstance(part, Conv | SumPool), "parts of a chain are no chain"
        weight = f"{self._weight(f'{key}_weight', part.weight)}_ptr" if isinstance(part, Conv) else "None"
        text = f"windows({row}, {weight}, rows, n, {', '.join(map(str, _window(part)))})"
        factor = getattr(part, "factor", 1.0)
        return text if factor == 1.0 else f"{text} * {number_text(factor, 'real')}"


def _window(part: Conv | SumPool) -> list[int]:
    """Extents of a convolution in two dimensions: channels, image, windows, kernel and others."""
    groups = part.groups if isinstance(part, Conv) else part.input_shape[0]
    channels, post = part.input_shape[0] // groups, part.output_shape[0]
    pairs = [(1, *x)[-2:] for x in (part.input_shape[1:], part.output_shape[1:], part.kernel, part.stride)]
    before = (0, *(low for low, _ in part.padding))[-2:]
    return [post, channels, post // groups, *(x for pair in pairs for x in pair), *before, *(1, *part.dilation)[-2:]]


def number_text(value: Any, kind: Kind) -> str:
    """A number as Triton reads it, rounded to float32 here."""
    if kind == "count":
        return str(int(value))
    single = np.float32(value)
    if not np.isfinite(single):
        return f'float("{single}")'
    return next(text for text in (str(single), repr(float(single))) if np.float32(float(text)) == single)


@dataclass(frozen=True, slots=True)
class TritonLanguage(ArrayLanguage):
    """Expressions of ``triton.language``, whose ``/`` rounds as it likes. See ``JaxLanguage``."""

    leaf: Callable[[Term], str]
    other: Callable[[Term, Sequence[Text]], str]
    table: ClassVar[Mapping[str, tuple[str, int]]] = {**array_table("tl"), "div": ("tl.div_rn({}, {})", ATOM)}

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """See ``Language``."""
        return None if term.op in self.table else (self.other(term, args), ATOM)


def built_kernels(network: Network) -> tuple[KernelBuilder, ProgramNames]:
    """The layers of a network in float32, and its names."""
    network = in_causal_order(network)
    builder = KernelBuilder(network)
    return builder, real_names(network, builder.built(), "float32")
