"""The module of a network: its linear operators and rules of neurons as lines, in real numbers or in integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.jax.module import INDENT, ModuleWriter, axes, comment, size_of
from nirbridge.emitters.ports import ProgramNames, identifiers, integer_names, real_names
from nirbridge.emitters.timesteps import (
    integer_states,
    late_depths,
    longest_delays,
    real_states,
    sent_ranges,
    sparse_rows,
    sparse_table,
)
from nirbridge.errors import counted
from nirbridge.network.apply import matrix
from nirbridge.network.compose import parts_of
from nirbridge.network.graph import in_causal_order, population_groups
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.program.interval import fit_of_neurons
from nirbridge.program.printing import ATOM, Printer, Text
from nirbridge.program.rewrites import in_halves
from nirbridge.program.rules import traced_step
from nirbridge.program.terms import Function, Term
from nirbridge.quantization.model import FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import operator_bounds, prove


class ModuleBuilder:
    """Lines of ``currents``, whose values are of all time steps, and of ``step``, whose values are of one."""

    def __init__(self, model: Network | QuantizedNetwork, projections: Sequence[Any]) -> None:
        self.m, self.ids = ModuleWriter(), identifiers(model)
        self.inputs = {p.name for p in model.inputs}
        self.sources = {p.name: p for p in (*model.inputs, *model.populations)}
        self.depths = longest_delays(self.sources.values(), projections)

    def begin_input(self, name: str, dtype: str) -> None:
        """The lines that take an input, with as many time steps of its past as delays need."""
        key, depth, out = self.ids[name], self.depths[name], self.m.before
        out.append(f'{key} = inputs["{key}"].astype(jnp.{dtype})')
        if depth:
            past = self.m.state(f"{key}.past", np.zeros(self.sources[name].shape), dtype, depth)
            out.append(f"{key}_all = jnp.concatenate([{past}, {key}])")
            out.append(f'past["{key}.past"] = {key}_all[{key}.shape[0] :]')

    def begin_population(self, name: str, dtype: str) -> None:
        """The ring of the last values of a population that are sent with a delay."""
        self._ring(self.ids[name], self.depths[name], self.sources[name].shape, dtype)

    def _ring(self, key: str, depth: int, shape: tuple[int, ...], dtype: str) -> None:
        if depth:
            self.m.state(f"{key}.past", np.zeros(shape), dtype, depth)
        if depth > 1:
            self.m.counter(f"{key}.at")

    def turn_ring(self, key: str, depth: int) -> None:
        """The lines that put the latest value of ``key`` in place of the oldest."""
        if depth == 1:
            self.m.step.append(f'new["{key}.past"] = {key}[None]')
        elif depth:
            past, at = f'state["{key}.past"]', f'state["{key}.at"]'
            self.m.step.append(f'new["{key}.past"] = {past}.at[{at}].set({key})')
            self.m.step.append(f'new["{key}.at"] = ({at} + 1) % {depth}')

    def sent(self, source: str, delays: Array, key: str) -> str:
        """What a source sent ``delays`` time steps ago; ``key``: of the projection that asks."""
        name, depth = self.ids[source], self.depths[source]
        return self._delayed(name, depth, delays, self.sources[source].shape, f"{key}.delays", source in self.inputs)

    def _delayed(self, name: str, depth: int, delays: Array, shape: tuple[int, ...], key: str, is_whole: bool) -> str:
        delays, m = np.asarray(delays), self.m
        same, first = bool((delays == delays.flat[0]).all()), int(delays.flat[0])
        if same and first == 0:
            return name
        if same and is_whole:
            return f"{m.helper('earlier')}({name}_all, {depth}, {first})"
        past, at = f'state["{name}.past"]', f'state["{name}.at"]'
        if same:
            return f"{past}[0]" if depth == 1 else f"{m.helper('ago')}({past}, {at}, {first})"
        each = m.weight(key, np.broadcast_to(delays, shape), "int32")
        if is_whole:
            return f"{m.helper('earlier_each')}({name}_all, {depth}, {each})"
        latest = name if (delays == 0).any() else "None"
        return f"{m.helper('ago_each')}({past}, {at if depth > 1 else 0}, {latest}, {each})"

    def current(self, key: str, p: Any, text: str, late: Array | None = None, dtype: str = "") -> str:
        """Lines that make the current of a projection; returns its text in a time step.

        ``text``: its sums; ``late``: a delay for each target element.
        """
        hoisted = p.source in self.inputs
        lines = self.m.before if hoisted else self.m.step
        lines.append(f"# {key}: {comment(p.source)} -> {comment(p.target)}")
        lines.append(f"{key} = {text}")
        arrived = key
        if late is not None:
            arrived = f"{key}_in"
            lines += self._late(key, late, p.operator.output_shape, dtype, hoisted)
        if getattr(p, "bias", None) is not None:
            bias = self.m.coefficient(f"{key}.bias", p.bias, p.operator.output_shape, dtype)
            lines.append(f"{arrived} = {arrived} + {bias}")
        if not hoisted:
            return arrived
        lines.append(f'now["{key}"] = {arrived}')
        return f'now["{key}"]'

    def _late(self, key: str, late: Array, shape: tuple[int, ...], dtype: str, hoisted: bool) -> list[str]:
        depth, out = int(late.max()), []
        if hoisted:
            past = self.m.state(f"{key}.past", np.zeros(shape), dtype, depth)
            out.append(f"{key}_all = jnp.concatenate([{past}, {key}])")
            out.append(f'past["{key}.past"] = {key}_all[{key}.shape[0] :]')
        else:
            self._ring(key, depth, shape, dtype)
        return [*out, f"{key}_in = {self._delayed(key, depth, late, shape, f'{key}.late', hoisted)}"]

    def population(self, p: Any, drive: str, states: dict[str, str], dtype: str) -> dict[str, str]:
        """The lines of a population; returns the keys of its variables."""
        key, lines = self.ids[p.name], self.m.step
        lines.append(f"# {key}: {comment(p.name)}, {counted(p.size, 'neuron')}")
        lines.append(f"drive = {drive}")
        text, variables, following = neuron_lines(self.m, p, key, states, dtype)
        lines += text
        lines += [f'new["{key}.{name}"] = {value}' for name, value in following.items()]
        lines += [f'values["{key}.{name}"] = {value}' for name, value in variables.items()]
        return {name: f"{key}.{name}" for name in variables}

    def silence(self, shape: tuple[int, ...], dtype: str) -> str:
        """No input: zeros for every sample."""
        return f"jnp.zeros({axes(shape, '*batch')}, jnp.{dtype})"


# -- neurons -------------------------------------------------------------------------------------------------------
# One time step of a population as lines of Python: its rule (``program/rules.py``), printed.

UNARY, PRODUCT, SUM, SHIFT, AND, COMPARISON = 13, 12, 11, 10, 9, 6
"""How tightly Python's operators bind."""


@dataclass(frozen=True, slots=True)
class JaxLanguage:
    """Expressions of ``jax.numpy``; ``leaf``: the text of a number, a coefficient or an arg."""

    leaf: Callable[[Term], str]
    dtype: str
    table: ClassVar[Mapping[str, tuple[str, int]]] = {
        "add": ("{} + {}", SUM), "sub": ("{} - {}", SUM), "mul": ("{} * {}", PRODUCT), "div": ("{} / {}", PRODUCT),
        "floordiv": ("{} // {}", PRODUCT), "neg": ("-{}", UNARY), "abs": ("jnp.abs({})", ATOM),
        "floor": ("jnp.floor({})", ATOM), "shl": ("{} << {}", SHIFT), "shr": ("{} >> {}", SHIFT),
        "min": ("jnp.minimum({}, {})", ATOM), "max": ("jnp.maximum({}, {})", ATOM), "and": ("{} & {}", AND),
        "not": ("~{}", UNARY), "where": ("jnp.where({}, {}, {})", ATOM),
        "lt": ("{} < {}", COMPARISON), "le": ("{} <= {}", COMPARISON), "gt": ("{} > {}", COMPARISON),
        "ge": ("{} >= {}", COMPARISON),
    }  # fmt: skip

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """See ``Language``: calls, and numbers of a type where no other part of an expression gives them one."""
        if term.op == "call":
            return f"{term.value.name}({', '.join(a.text for a in args)})", ATOM
        if term.op == "where" and all(a.op == "const" for a in term.args[1:]):
            return (
                f"jnp.where({args[0].text}, jnp.{self.dtype}({args[1].text}), jnp.{self.dtype}({args[2].text}))",
                ATOM,
            )
        return None

    def statement(self, name: str, text: str, term: Term, is_first: bool) -> str:
        """See ``Language``."""
        return f"{name} = {text}"


def number_text(term: Term) -> str:
    """The text of a const, or the name of an arg."""
    return repr(term.value) if term.op == "const" else term.name


def function_text(function: Function) -> str:
    """A function of a rule in Python."""
    printer = Printer(JaxLanguage(number_text, "int32"))
    (result,) = printer.write([function.value])
    names = ", ".join(p.name for p in function.parameters)
    lines = [f'"""{function.doc}"""', *printer.lines, f"return {result}"]
    return "\n".join([f"def {function.name}({names}):", *(INDENT + line for line in lines)])


def neuron_lines(
    m: ModuleWriter, p: Population | FixedPopulation, key: str, states: Mapping[str, str], dtype: str
) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """The lines of a population with the input ``drive``, the text of each variable, and of each next state.

    ``key`` becomes what the population sends; ``states``: the texts of its state by name.
    """

    def leaf(term: Term) -> str:
        if term.op == "param":
            is_count = term.kind == "count"  # no run has more time steps than int32 holds
            values = np.minimum(term.value, 2**31 - 1) if is_count else term.value
            return m.coefficient(f"{key}.{term.name}", values, p.shape, "int32" if is_count else dtype)
        return states[term.name.removeprefix("state.")] if term.name.startswith("state.") else number_text(term)

    step = in_halves(traced_step(p.neuron))
    variables = {name: term for name, term in step.variables.items() if name != "s" or p.neuron.fires}
    following = {name: step.state[name] for name in states}
    printer = Printer(JaxLanguage(leaf, dtype))
    sent, *texts = printer.write([step.sent, *variables.values(), *following.values()])
    m.functions |= {f.name: function_text(f) for f in printer.functions.values()}
    named = dict(zip(variables, texts, strict=False))
    return [*printer.lines, f"{key} = {sent}"], named, dict(zip(following, texts[len(named) :], strict=True))


# -- linear --------------------------------------------------------------------------------------------------------
# Linear operators as expressions of the module, on arrays ``[..., *shape]``.


def linear(
    m: ModuleWriter, key: str, operator: Operator, x: str, dtype: str, shapes: tuple[Shape, Shape] | None = None
) -> str:
    """The text of ``operator(x)``.

    ``key``: of its weights; ``dtype``: of ``x`` and of the sums; ``shapes``: of the source and of the target where
    these may differ from the operator's own.
    """
    parts = parts_of(operator)
    before, after = shapes or (operator.input_shape, operator.output_shape)
    x = _reshaped(m, x, before, tuple(operator.input_shape))
    for k, part in enumerate(parts):
        x = _part(m, key if len(parts) == 1 else f"{key}.{k}", part, x, dtype)
    return _reshaped(m, x, tuple(operator.output_shape), after)


def _part(m: ModuleWriter, key: str, part: Operator, x: str, dtype: str) -> str:
    assert not isinstance(part, Chain), "a chain has no chain among its parts"
    if isinstance(part, Identity):
        return x
    if isinstance(part, Reshape):
        return _reshaped(m, x, part.input_shape, part.output_shape)
    if isinstance(part, Scale):
        return f"{x} * {m.weight(f'{key}.scale', part.scale, dtype)}"
    if isinstance(part, Dense):
        return f"{m.helper('dense')}({x}, {m.weight(f'{key}.weight', np.asarray(part.weight).T, dtype)})"
    if isinstance(part, Sparse):
        return _sparse(m, key, part, x, dtype)
    if dtype.startswith("int"):  # convolutions are of real numbers on most devices
        rows = matrix(part)
        listed = Sparse(rows.indptr, rows.indices, rows.data, part.input_shape, part.output_shape)
        return _sparse(m, key, listed, x, dtype)
    if isinstance(part, Conv):
        weight = m.weight(f"{key}.weight", part.weight, dtype)
        return (
            f"{m.helper('convolution')}({x}, {weight}, stride={part.stride}, padding={_edges(part)}, "
            f"dilation={part.dilation}, groups={part.groups})"
        )
    return _pool(m, key, part, x, dtype)


def _reshaped(m: ModuleWriter, x: str, before: tuple[int, ...], after: tuple[int, ...]) -> str:
    return x if before == after else f"{m.helper('reshaped')}({x}, {len(before)}, {axes(after)})"


def _sparse(m: ModuleWriter, key: str, part: Sparse, x: str, dtype: str) -> str:
    pre, post = size_of(part.input_shape), size_of(part.output_shape)
    x = _reshaped(m, x, tuple(part.input_shape), (pre,))
    table = sparse_table(part)
    if table is not None:
        out = f"{m.helper('dense')}({x}, {m.weight(f'{key}.weight', table, dtype)})"
    else:
        weight = m.weight(f"{key}.weight", part.data, dtype)
        sources = m.weight(f"{key}.sources", part.indices, "int32")
        targets = m.weight(f"{key}.targets", sparse_rows(part), "int32")
        out = f"{m.helper('sparse')}({x}, {weight}, {sources}, {targets}, {post})"
    return _reshaped(m, out, (post,), tuple(part.output_shape))


def _pool(m: ModuleWriter, key: str, part: SumPool, x: str, dtype: str) -> str:
    """The sums of the windows, then the factor, as the reference does it."""
    edges = ((0, 0), *_edges(part))
    sums = f"{m.helper('sum_pool')}({x}, window={(1, *part.kernel)}, stride={(1, *part.stride)}, padding={edges})"
    return sums if part.factor == 1.0 else f"{sums} * {m.weight(f'{key}.factor', part.factor, dtype)}"


def _edges(part: Conv | SumPool) -> tuple[tuple[int, int], ...]:
    """The padding; along an axis with one window none that the window does not reach, or less than none.

    There IREE, which compiles this module too, takes the extent of the input for that of the kernel.
    """
    found = []
    rows = zip(part.input_shape[1:], part.output_shape[1:], part.kernel, part.dilation, part.padding, strict=True)
    for size, windows, kernel, dilation, (low, high) in rows:
        found.append((low, (kernel - 1) * dilation + 1 - size - low if windows == 1 else high))
    return tuple(found)


# -- integers ------------------------------------------------------------------------------------------------------
# A quantized network as a module for JAX: sums in real numbers where these are exact, neurons in int32 or int64.

EXACT = {"float32": 1 << 24, "float64": 1 << 53}
"""Sums of whole numbers below this are exact in the type, in any order."""
INT32 = 1 << 30
"""Numbers below this leave room in int32 for one addition of two."""
REAL = "float64"
"""Of readouts, which the host computes."""


def integer_module(quantized: QuantizedNetwork) -> tuple[ModuleWriter, ProgramNames]:
    """The module of a quantized network, bit-equal to the fixed-point simulator, and its names."""
    return _IntegerBuilder(quantized).built()


class _IntegerBuilder(ModuleBuilder):
    def __init__(self, quantized: QuantizedNetwork) -> None:
        super().__init__(quantized, (*quantized.projections, *quantized.reads))
        self.q, self.ranges = quantized, sent_ranges(quantized)
        bounds = prove(quantized)
        self.types = {p.name: self._type(p, bounds[p.name].a_in) for p in quantized.populations}
        self.types |= {p.name: "int32" if p.value_max < INT32 else "int64" for p in quantized.inputs}

    def _type(self, p: FixedPopulation, drive: tuple[int, int]) -> str:
        """int32 where no sum of the neuron and of its currents can leave it."""
        currents = [self._largest(q) << max(q.weight_exp, 0) for q in self.q.projections if q.target == p.name]
        fits = fit_of_neurons(p.neuron, drive, 32)
        return "int32" if fits and max(currents, default=0) < INT32 else "int64"

    def built(self) -> tuple[ModuleWriter, ProgramNames]:
        q, variables = self.q, {}
        for port in q.inputs:
            self.begin_input(port.name, self.types[port.name])
        for p in q.populations:
            self.begin_population(p.name, self.types[p.name])
        for p in q.populations:
            states = {
                name: self.m.state(
                    f"{self.ids[p.name]}.{name}", x, "int32" if name == "refractory" else self.types[p.name]
                )
                for name, x in integer_states(p).items()
            }
            variables[p.name] = self.population(p, self._drive(p), states, self.types[p.name])
        for k, port in enumerate(q.outputs):
            reads = [self._read(j, read) for j, read in enumerate(q.reads) if read.target == port.name]
            self.m.step.append(f'values["out{k}"] = {" + ".join(reads)}')
        for p in q.populations:
            self.turn_ring(self.ids[p.name], self.depths[p.name])
        return self.m, integer_names(q, variables)

    def _drive(self, target: FixedPopulation) -> str:
        dtype, found = self.types[target.name], []
        for k, p in enumerate(self.q.projections):
            if p.target == target.name:
                found.append(self.current(f"c{k}", p, self._sums(f"c{k}", p, dtype)))
        return " + ".join(found) or self.silence(target.shape, dtype)

    def _largest(self, p: FixedProjection) -> int:
        """The largest number that a sum of the projection can meet."""
        sent = self.ranges[p.source]
        low, high = operator_bounds(p.operator, sent)
        sums = (-int(low.min(initial=0)), int(high.max(initial=0)), -sent.low, sent.high)
        return max(*sums, int(np.abs(weights_of(p.operator)).max(initial=0)))

    def _sums(self, key: str, p: FixedProjection, dtype: str) -> str:
        """``operator(sent) << weight_exp``."""
        largest = self._largest(p)
        computed = next((kind for kind, limit in EXACT.items() if largest < limit), "int64")
        sent = self.sent(p.source, p.delay_steps, key)
        shapes = self.sources[p.source].shape, self.q.population(p.target).shape
        text = linear(self.m, key, p.operator, f"{sent}.astype(jnp.{computed})", computed, shapes)
        text = f"{text}.astype(jnp.{dtype})"
        if p.weight_exp == 0:
            return text
        return f"{text} << {p.weight_exp}" if p.weight_exp > 0 else f"{text} >> {-p.weight_exp}"

    def _read(self, j: int, read: Projection) -> str:
        """The values of a readout in reals."""
        key = f"r{j}"
        sent = f"{self.sent(read.source, read.delay_steps, key)}.astype(jnp.{REAL})"
        for port in self.q.inputs:
            if port.name == read.source and port.graded:
                sent = f"({sent} * {self.m.weight(f'{key}.scale', port.scale, REAL)})"
        if read.source not in self.inputs and not (p := self.q.population(read.source)).neuron.fires:
            scale = self.m.coefficient(f"{key}.scale", p.neuron.scale, p.shape, REAL)
            offset = self.m.coefficient(f"{key}.offset", p.neuron.v_offset, p.shape, REAL)
            sent = f"({sent} / {scale} + {offset})"
        target = next(port.shape for port in self.q.outputs if port.name == read.target)
        values = linear(self.m, key, read.operator, sent, REAL, (self.sources[read.source].shape, target))
        return self.current(key, read, values, dtype=REAL)


# -- real ----------------------------------------------------------------------------------------------------------


def real_module(network: Network, dtype: str) -> tuple[ModuleWriter, ProgramNames]:
    """The module of a network in ``float32`` or ``float64``, and its names."""
    return _RealBuilder(in_causal_order(network), dtype).built()


class _RealBuilder(ModuleBuilder):
    def __init__(self, network: Network, dtype: str) -> None:
        super().__init__(network, network.projections)
        self.network, self.dtype, self.late = network, dtype, late_depths(network)

    def built(self) -> tuple[ModuleWriter, ProgramNames]:
        network, variables = self.network, {}
        for port in network.inputs:
            self.begin_input(port.name, self.dtype)
        for p in network.populations:
            self.begin_population(p.name, self.dtype)
        for group in population_groups(network):
            for p in group.populations:
                drive = self._drive(p.name, p.shape)
                variables[p.name] = self.population(p, drive, self._states(p), self.dtype)
        for k, port in enumerate(network.outputs):
            drive = self._drive(port.name, port.shape)
            self.m.step.append(f'values["out{k}"] = {drive}')
        for p in network.populations:
            self.turn_ring(self.ids[p.name], self.depths[p.name])
        for k, depth in self.late.items():
            if network.projections[k].source not in self.inputs:
                self.turn_ring(f"c{k}", depth)
        return self.m, real_names(network, variables, self.dtype)

    def _states(self, p: Population) -> dict[str, str]:
        return {
            name: self.m.state(f"{self.ids[p.name]}.{name}", start, "int32" if name == "refractory" else self.dtype)
            for name, start in real_states(p).items()
        }

    def _drive(self, target: str, shape: tuple[int, ...]) -> str:
        """The currents of a target, added in the order of the network's projections."""
        found = []
        for k, p in enumerate(self.network.projections):
            if p.target == target:
                key = f"c{k}"
                sums = linear(self.m, key, p.operator, self.sent(p.source, p.delay_steps, key), self.dtype)
                found.append(self.current(key, p, sums, p.target_delay_steps if k in self.late else None, self.dtype))
        return " + ".join(found) or self.silence(shape, self.dtype)
