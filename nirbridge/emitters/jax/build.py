"""The module of a network: the step program as lines of ``jax.numpy``, in real numbers or in integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nirbridge._types import Shape
from nirbridge.emitters.jax.module import ModuleWriter, axes, comment
from nirbridge.emitters.ports import ProgramNames, identifiers, integer_names, real_names
from nirbridge.emitters.sums import sparse_rows, sparse_table, sums_of_currents, synapses
from nirbridge.emitters.surrogates import threshold_of
from nirbridge.errors import counted
from nirbridge.network.compose import parts_of
from nirbridge.network.graph import in_causal_order
from nirbridge.network.model import Network
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.program.interval import fit_of_neurons
from nirbridge.program.printing import (
    ATOM,
    ArrayLanguage,
    Printer,
    Text,
    array_table,
    bracketed,
    function_text,
    number_text,
)
from nirbridge.program.rewrites import in_halves
from nirbridge.program.step import Key, Past, step_program
from nirbridge.program.terms import LEAVES, Term, in_order
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.overflow import prove

REAL = "float64"
"""Of readouts, which the host computes."""


class ModuleBuilder:
    """Lines of ``currents``, whose values are of all time steps, and of ``step``, whose values are of one.

    Args:
        model: a quantized network, or a network in causal order.
        types: of what each input and population sends and each output is, by name.
        exact: the type that holds the sums of a current, by its name, where it is not that of its target.
    """

    def __init__(
        self, model: Network | QuantizedNetwork, types: Mapping[str, str], exact: Mapping[str, str] | None = None
    ) -> None:
        self.m, self.ids, self.types, self.exact = ModuleWriter(), identifiers(model), types, exact or {}
        self.program = program = in_halves(step_program(model))
        self.model, self.shapes = model, {x.name: x.shape for x in (*model.inputs, *model.populations, *model.outputs)}
        self.projections: dict[str, Any] = {f"c{k}": p for k, p in enumerate(model.projections)}
        self.projections |= {f"r{k}": p for k, p in enumerate(getattr(model, "reads", ()))}
        named = {t.name.removesuffix("_late"): t for t in in_order(program.ends) if t.op not in LEAVES}
        self.currents = {key: named[key] for key in self.projections if key in named}
        self.carried, self.samples = program.carried, program.of_samples
        self.made: dict[int, Text] = {}
        self.spiking: list[Term] = []  # kept, since ``made`` knows terms by their id
        self.last: list[str] = []

    def built(self) -> dict[str, dict[str, str]]:
        """Writes all lines; the keys of the variables of each population."""
        for name in self.program.inputs:
            key = self.ids[name]
            self.m.before.append(f'{key} = inputs["{key}"].astype(jnp.{self.types[name]})')
            self._remember((name, "past"), key)
        by_name = {p.name: p for p in self.model.populations}
        variables = {name: self._population(by_name[name]) for name in self.program.populations}
        for k, (name, term) in enumerate(self.program.outputs.items()):
            self._currents(name)
            self.m.step.append(f'values["out{k}"] = {self._write([term], name, self.m.step)[0]}')
        self.m.step += self.last
        return variables

    def _population(self, p: Any) -> dict[str, str]:
        """The lines of a population, after those of its currents; the keys of its variables."""
        key, step, lines = self.ids[p.name], self.program.populations[p.name], self.m.step
        self._currents(p.name)
        lines.append(f"# {key}: {comment(p.name)}, {counted(p.size, 'neuron')}")
        sending, variables = self._sending(p), {v: t for v, t in step.variables.items() if v != "s" or p.neuron.fires}
        following = {v: term for v, term in step.state.items() if (p.name, v) in self.carried}
        for v, term in following.items():
            self.m.state(f"{key}.{v}", self.program.initial[p.name, v], self._type(term, p.name))
        sent, *texts = self._write([sending, *variables.values(), *following.values()], p.name, lines)
        lines.append(f"{key} = {sent}")
        lines += [f'new["{key}.{v}"] = {text}' for v, text in zip(following, texts[len(variables) :], strict=True)]
        texts = [key if t is step.sent else text for t, text in zip(variables.values(), texts, strict=False)]
        lines += [f'values["{key}.{v}"] = {text}' for v, text in zip(variables, texts, strict=True)]
        self.made[id(step.sent)] = Text(key)
        self._remember((p.name, "past"), key)
        return {v: f"{key}.{v}" for v in variables}

    def _sending(self, p: Any) -> Term:
        """What a population sends, of reals with the derivative of its spikes; a reset has none by them."""
        sent = self.program.populations[p.name].sent
        threshold = threshold_of(sent) if self.program.kind == "real" else ()
        if not threshold:
            return sent
        self.spiking.append(Term("spike", "real", (sent, *threshold), p.neuron.max_spikes))
        self.samples |= {id(self.spiking[-1])} if id(sent) in self.samples else set()
        return self.spiking[-1]

    def _currents(self, target: str) -> None:
        """The lines of the currents of a target: those of inputs for all time steps at once."""
        for key, p in self.projections.items():
            if p.target != target or key not in self.currents:
                continue
            is_whole, history = p.source in self.program.inputs, self.program.histories.get((target, key))
            lines = self.m.before if is_whole else self.m.step
            lines.append(f"# {key}: {comment(p.source)} -> {comment(p.target)}")
            if history is not None:
                self._write([history.term], target, lines)
                self.made[id(history.term)] = Text(key)
                self._remember((target, key), key)
            (text,) = self._write([self.currents[key]], target, lines)
            if is_whole:
                lines.append(f'now["{key}"] = {text}')
                text = f'now["{key}"]'
            self.made[id(self.currents[key])] = Text(text)

    def _write(self, ends: Sequence[Term], of: str, lines: list[str]) -> list[str]:
        """Appends the statements of terms of a target; their texts, each with all axes."""
        leaf, other = lambda term: self._leaf(term, of), lambda term, args: self._special(term, args, of)
        printer = Printer(JaxLanguage(leaf, self.types[of], other), lines, made=self.made)
        texts = printer.write(ends)
        in_functions = JaxLanguage(number_text, "int32")
        self.m.functions |= {f.name: function_text(f, in_functions) for f in printer.functions.values()}
        full = axes(self.shapes[of], "*batch")
        return [
            text if id(term) in self.samples else f"jnp.full({full}, {text}, jnp.{self._type(term, of)})"
            for term, text in zip(ends, texts, strict=True)
        ]

    def _type(self, term: Term, of: str) -> str:
        return "int32" if term.kind == "count" else self.types[of]

    def _leaf(self, term: Term, of: str) -> str:
        if term.op == "param":
            is_count = term.kind == "count"  # no run has more time steps than int32 holds
            values = np.minimum(term.value, 2**31 - 1) if is_count else term.value
            key = term.name if "." in term.name else f"{self.ids[of]}.{term.name}"
            return self.m.weight(key, values, self._type(term, of))
        if term.op == "const":
            return number_text(term)
        return self.ids[term.name] if term.value is None else f'state["{self.ids[of]}.{term.value[1]}"]'

    def _special(self, term: Term, args: Sequence[Text], of: str) -> str:
        """What is no operation of elements."""
        if term.op == "past":
            return self._past(term.value, args)
        if term.op == "spike":
            *texts, free = (a.text for a in args)
            texts += [f"free={free}"] if term.args[-1].op != "const" else []
            texts += [f"most={term.value}"] if term.value > 1 else []
            return f"{self.m.helper('spike')}({', '.join(texts)})"
        x = bracketed(args[0], ATOM)
        if term.op == "real":
            return f"{x}.astype(jnp.{REAL})"
        p, exact = self.projections[term.name], self.exact.get(term.name)
        shapes = self.shapes[p.source], self.shapes[p.target]
        if exact is None:
            return linear(self.m, term.name, term.value, x, self.types[of], shapes)
        text = linear(self.m, term.name, term.value, f"{x}.astype(jnp.{exact})", exact, shapes)
        return f"{text}.astype(jnp.{self.types[of]})"

    def _ring(self, key: Key) -> tuple[str, bool]:
        """The name of what is remembered, and True where it is of all time steps at once."""
        name, current = key
        source = name if current == "past" else self.projections[current].source
        return self.ids[name] if current == "past" else current, source in self.program.inputs

    def _past(self, past: Past, args: Sequence[Text]) -> str:
        """What was there some time steps before."""
        h, (name, is_whole), m, delays = self.program.histories[past.key], self._ring(past.key), self.m, past.delays
        ring, at = f'state["{name}.past"]', f'state["{name}.at"]'
        if delays.ndim == 0:
            if is_whole:
                return f"{m.helper('earlier')}({name}_all, {h.depth}, {delays})"
            return f"{ring}[0]" if h.depth == 1 else f"{m.helper('ago')}({ring}, {at}, {delays})"
        each = m.weight(f"{name}.delays", np.broadcast_to(delays, h.shape), "int32")
        if is_whole:
            return f"{m.helper('earlier_each')}({name}_all, {h.depth}, {each})"
        latest = args[0].text if args else "None"
        return f"{m.helper('ago_each')}({ring}, {at if h.depth > 1 else 0}, {latest}, {each})"

    def _remember(self, key: Key, now: str) -> None:
        """The lines that keep ``now``, of this time step or of all, as far as delays need it."""
        h = self.program.histories.get(key)
        if h is None:
            return
        name, is_whole = self._ring(key)
        ring, at = self.m.state(f"{name}.past", np.zeros(h.shape), self.types[key[0]], h.depth), f'state["{name}.at"]'
        if is_whole:
            self.m.before.append(f"{name}_all = jnp.concatenate([{ring}, {now}])")
            self.m.before.append(f'past["{name}.past"] = {name}_all[{now}.shape[0] :]')
        elif h.depth == 1:
            self.last.append(f'new["{name}.past"] = {now}[None]')
        else:
            self.m.counter(f"{name}.at")
            self.last.append(f'new["{name}.past"] = {ring}.at[{at}].set({now})')
            self.last.append(f'new["{name}.at"] = ({at} + 1) % {h.depth}')


# -- expressions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JaxLanguage(ArrayLanguage):
    """Expressions of ``jax.numpy``.

    ``leaf``: the text of a number, a coefficient or an arg; ``other``: of what is no operation of elements.
    """

    leaf: Callable[[Term], str]
    dtype: str
    other: Callable[[Term, Sequence[Text]], str] | None = None
    table: ClassVar[Mapping[str, tuple[str, int]]] = array_table("jnp")

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """See ``Language``: numbers of a type where no other part of an expression gives them one."""
        if term.op == "where" and all(a.op == "const" for a in term.args[1:]):
            return (
                f"jnp.where({args[0].text}, jnp.{self.dtype}({args[1].text}), jnp.{self.dtype}({args[2].text}))",
                ATOM,
            )
        if self.other is None or term.op in self.table or term.op == "call":
            return ArrayLanguage.special(self, term, args)
        return self.other(term, args), ATOM


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
    if isinstance(part, Sparse) or dtype.startswith("int"):  # convolutions are of real numbers on most devices
        return _sparse(m, key, synapses(part), x, dtype)
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
    pre, post = math.prod(part.input_shape), math.prod(part.output_shape)
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


# -- numbers -------------------------------------------------------------------------------------------------------

EXACT = {"float32": 1 << 24, "float64": 1 << 53}
"""Sums of whole numbers below this are exact in the type, in any order."""
INT32 = 1 << 30
"""Numbers below this leave room in int32 for one addition of two."""


def integer_module(quantized: QuantizedNetwork) -> tuple[ModuleWriter, ProgramNames]:
    """The module of a quantized network, bit-equal to the fixed-point simulator, and its names.

    Sums are made in real numbers where these are exact, neurons in int32 or int64.
    """
    q, bounds, sums = quantized, prove(quantized), sums_of_currents(quantized)
    types = {p.name: "int32" if p.value_max < INT32 else "int64" for p in q.inputs} | {p.name: REAL for p in q.outputs}
    for p in q.populations:
        into = [sums[f"c{k}"] << max(x.weight_exp, 0) for k, x in enumerate(q.projections) if x.target == p.name]
        is_small = max(into, default=0) < INT32 and fit_of_neurons(p.neuron, bounds[p.name].a_in, 32)
        types[p.name] = "int32" if is_small else "int64"
    exact = {key: next((kind for kind, limit in EXACT.items() if x < limit), "int64") for key, x in sums.items()}
    builder = ModuleBuilder(q, types, exact)
    return builder.m, integer_names(q, builder.built(), builder.program)


def real_module(network: Network, dtype: str) -> tuple[ModuleWriter, ProgramNames]:
    """The module of a network in ``float32`` or ``float64``, and its names."""
    network = in_causal_order(network)
    names = [x.name for x in (*network.inputs, *network.populations, *network.outputs)]
    builder = ModuleBuilder(network, dict.fromkeys(names, dtype))
    return builder.m, real_names(network, builder.built(), dtype, builder.program)
