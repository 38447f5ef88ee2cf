"""Integers as processes of Lava: a population as LIF or a custom neuron, a projection as Dense, Sparse or Conv.

Widths of registers are checked. A synaptic process adds a time step of its own, so a delay of d steps is d - 1 in Lava.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.lava.plan.model import Argument, LavaLayer, LavaSynapse, SynapseProcess
from nirbridge.emitters.program import filled
from nirbridge.emitters.target import other_fields
from nirbridge.errors import Diagnostic, quoted
from nirbridge.files.regular import template_text
from nirbridge.network.apply import matrix
from nirbridge.network.neurons import Neuron
from nirbridge.network.operators import Conv, Dense
from nirbridge.program.printing import ArrayLanguage, Printer, function_text, number_text
from nirbridge.program.rules import first_value, traced_step
from nirbridge.program.terms import LEAVES, Stepped, Term, Tracing, fold, in_order
from nirbridge.quantization.formats import grid_of
from nirbridge.quantization.model import FixedNeuron, FixedPopulation, FixedProjection, QuantizedNetwork

TEMPLATES = Path(__file__).parents[1] / "templates"
VTH_MAX = 2**17 - 1
"""Largest threshold of a LIF: 17 bits, unsigned."""
LIF_BITS = 24
"""Width of u and v of Lava's LIF; a chip with others has neurons of its own."""
STATE_BITS_MAX = 32
"""Widest u and v that the arrays of a program hold."""
DELAY_MAX = 63
"""Longest delay of DelayDense and DelaySparse: 6 bits."""
_INT8 = 127
_DELAY_DENSE_MAX = 1_000_000
_SYNAPSES_MAX = 200_000_000


def lava_layer(id: str, population: FixedPopulation, v_max: int | None = None) -> LavaLayer:
    """The process of one population; ``v_max``: the proved upper bound of v (for a readout)."""
    n = population.neuron
    shape = population.shape or (1,)
    state = {"u": uniform_number(n.u_init), "v": uniform_number(n.v_init)}
    vth = n.vth if n.vth is not None else np.int64(VTH_MAX)
    silent = n.fires or (v_max is not None and v_max <= VTH_MAX << 6)
    if population.process == "lif" and silent and not other_fields(n):
        plain = {"du": int(n.du), "dv": int(n.dv), "vth": int(vth)}
        bias = {"bias_mant": uniform_number(n.bias_mant), "bias_exp": n.bias_exp}
        return LavaLayer(id, "LIF", shape, {"shape": shape, **plain, **bias, **state})
    return own_layer(id, shape, n)


def v_max(quantized: QuantizedNetwork, name: str) -> int | None:
    """The greatest v that the quantizer proved for a population; None where it proved nothing."""
    for entry in quantized.report:
        if entry.population == name and entry.bounds.proved:
            return entry.bounds.v[1]
    return None


# -- own neurons ---------------------------------------------------------------------------------------------------
# Neurons that Lava has no process for: the rule of their numbers (``program/rules.py``), printed for NumPy.

LAVA_NAMES = {"i": "u", "u": "v"}
"""Lava's names of the canonical neuron's current and potential."""
TYPES = {"real": "float", "int": "np.int64", "count": "np.int64"}
WORDS = {
    "RealNeuron": {"NUMBER": "float", "TAG": "floating_pt", "WIDE": ""},
    "IntegerNeuron": {"NUMBER": "np.int32", "TAG": "fixed_pt", "WIDE": ".astype(np.int64)"},
}
"""Words in place of those of the template, by process."""


def own_layer(id: str, shape: Shape, n: FixedNeuron | Neuron, drive: Array | None = None) -> LavaLayer:
    """A process of the program's own, with the coefficients that its time step needs.

    ``drive``: a constant input of real neurons.
    """
    process, kind = ("RealNeuron", "real") if isinstance(n, Neuron) else ("IntegerNeuron", "int")
    a_in = Term("arg", kind, (), None, "a_in")
    step = traced_step(n, a_in if drive is None else a_in + Tracing(kind).param("drive", drive))
    first = [first_value(n, name) for name in step.state]
    step = _named(step, LAVA_NAMES) if kind == "real" else step
    coefficients = {t.name: t for t in in_order(step.ends) if t.op == "param"}
    values = {name: t.value for name, t in coefficients.items()} | dict(zip(step.state, first, strict=True))
    types = {name: TYPES[t.kind] for name, t in coefficients.items()}
    types |= {name: "np.int32" if t.kind == "int" else TYPES[t.kind] for name, t in step.state.items()}
    arguments = {"shape": shape, **{name: uniform_number(a) for name, a in values.items()}}
    return LavaLayer(id, process, shape, arguments, *_definition(step, types, process))


def _definition(step: Stepped, types: Mapping[str, str], process: str) -> tuple[tuple[str, ...], str]:
    """Functions, and a process with its model; ``types``: of its variables."""
    printer = Printer(ArrayLanguage(_leaf))
    sent, *texts = printer.write([step.sent, *step.state.values()])
    stored = [f"self.{name}[:] = {text}" for name, text in zip(step.state, texts, strict=True)]
    blocks = {
        "PARAMETERS": [f"{name}," for name in types],
        "VARS": [f"self.{name} = Var(shape=shape, init={name})" for name in types],
        "TYPES": [f"{name}: np.ndarray = LavaPyType(np.ndarray, {kind})" for name, kind in types.items()],
        "STEP": [*printer.lines, *stored, f"self.s_out.send({sent}.astype(NUMBER))"],
    }
    text = filled(template_text(TEMPLATES / "neuron.py.txt"), blocks)
    for word, value in WORDS[process].items():
        text = text.replace(word, value)
    return tuple(function_text(f, ArrayLanguage(number_text)) for f in printer.functions.values()), text


def _named(step: Stepped, names: Mapping[str, str]) -> Stepped:
    """The time step with other names of variables."""

    def renamed(term: Term, args: list[Term]) -> Term:
        head, dot, last = term.name.rpartition(".")
        is_variable = term.op not in LEAVES or bool(dot)
        return replace(term, args=tuple(args), name=head + dot + names.get(last, last) if is_variable else term.name)

    step = step.remade(lambda ends: fold(ends, renamed))
    return replace(step, state={names.get(name, name): term for name, term in step.state.items()})


def _leaf(term: Term) -> str:
    if term.name.startswith("state."):
        return f"self.{term.name.removeprefix('state.')}{'.astype(np.int64)' if term.kind == 'int' else ''}"
    return f"self.{term.name}" if term.op == "param" else number_text(term)


def register_problems(population: FixedPopulation) -> Iterator[Diagnostic]:
    """Integers that do not fit their registers, which Lava on a CPU would accept silently."""
    n = population.neuron
    plain = population.process == "lif" and _as_wide_as_lif(n)
    half = 1 << (n.v_bits - 1)
    limits: list[tuple[str, Array, int, int]] = [
        ("du", n.du, 0, 4095),
        ("dv", n.dv, 0, 4095 if plain else 4096),
        *_bias_limits(n),
        ("v_init", n.v_init, -half + 1, half - 1),
        ("u_init", n.u_init, -(1 << (n.u_bits - 1)) + 1, 1 << (n.u_bits - 1)),
        ("refractory_steps", n.refractory_steps, 0, 2**31 - 1),
    ]
    limits += [("width of u and v", np.array([n.u_bits, n.v_bits]), 1, STATE_BITS_MAX)]
    if plain and n.vth is not None:
        limits.append(("vth", n.vth, 0, VTH_MAX))
    subject = f"population {quoted(population.name)}"
    for name, values, low, high in limits:
        lowest, highest = int(np.min(values)), int(np.max(values))
        if lowest < low or highest > high:
            found = f"{name} from {lowest:,} to {highest:,}"
            yield Diagnostic(subject, found, f"the register holds {low:,} to {high:,}", "quantize it again")
    if plain and not n.is_lava_lif:
        limit = "one du, dv and vth, reset to zero, no refractory time, no floor"
        yield Diagnostic(subject, "is marked as a plain LIF, but is not one", limit, "mark it 'custom'")


def _bias_limits(n: FixedNeuron) -> list[tuple[str, Array, int, int]]:
    """Of Loihi's registers; of a chip with other widths the bias lies within the membrane."""
    if _as_wide_as_lif(n):
        return [("bias_mant", n.bias_mant, -4096, 4095), ("bias_exp", np.asarray(n.bias_exp), 0, 7)]
    half = 1 << (n.v_bits - 1)
    return [("bias", n.bias, -half + 1, half - 1)]


def _as_wide_as_lif(n: FixedNeuron) -> bool:
    return n.u_bits == n.v_bits == LIF_BITS


def uniform_number(values: Array | int) -> float | int | Array:
    """A plain number where all elements are equal, which is easier to read; else the array."""
    values = np.asarray(values)
    return values.flat[0].item() if values.size and bool(np.all(values == values.flat[0])) else values


def lava_synapse(
    id: str, p: FixedProjection, ends: tuple[str, str], shapes: tuple[Shape, Shape], bits: int
) -> LavaSynapse:
    """The process of one projection.

    Args:
        id: its identifier.
        p: the projection.
        ends: identifiers of the source's and the target's process.
        shapes: their shapes.
        bits: bits of a message: 0 for spikes of 0 and 1, else graded.
    """
    if isinstance(p.operator, Conv) and _is_plain_conv(p):
        return _conv(id, p.operator, p, ends, shapes, bits)
    arguments, process = _matrix_arguments(p)
    common: dict[str, Argument] = {"num_weight_bits": p.weight_bits, "weight_exp": p.weight_exp}
    if bits:
        common["num_message_bits"] = bits
    flat = (math.prod(shapes[0]),)
    before = (("reshape", flat),) if shapes[0] != flat else ()
    after = (("reshape", shapes[1]),) if len(shapes[1]) != 1 else ()
    return LavaSynapse(id, process, *ends, {**arguments, **common}, before, after, p.sign_mode)


def synapse_problems(p: FixedProjection) -> Iterator[Diagnostic]:
    """Weights and delays that Lava would truncate silently or cannot represent."""
    subject = f"projection {quoted(p.source)} to {quoted(p.target)}"
    values = p.operator.weight if isinstance(p.operator, Dense | Conv) else p.operator.data
    grid = grid_of(p.weight_bits, p.sign_mode)
    if values.size and (int(values.min()) < grid.low or int(values.max()) > grid.high):
        found = f"weights from {int(values.min())} to {int(values.max())}"
        yield Diagnostic(subject, found, f"{p.sign_mode} weights are {grid.low} to {grid.high}", "quantize it again")
    if np.any(values % grid.step):
        found = f"weights that are not multiples of {grid.step}"
        limit = f"{p.weight_bits} {p.sign_mode} bits hold multiples of it"
        yield Diagnostic(subject, found, limit, "quantize it again")
    delays = _delays(p)
    if int(delays[0].min()) + int(delays[1].min()) < 1:
        yield Diagnostic(
            subject, "a delay of 0 time steps", "a synaptic process takes one time step", "retime the network first"
        )
    longest = int(delays[0].max()) + int(delays[1].max())
    uneven = any(int(d.min()) != int(d.max()) for d in delays)
    if p.weight_exp < 0 and uneven:
        limit = "Lava truncates the input of each delay separately, not their sum"
        yield Diagnostic(subject, "uneven delays and a negative exponent", limit, "quantize it with an exponent of 0")
    if longest > DELAY_MAX + 1:
        yield Diagnostic(
            subject, f"a delay of {longest} steps", f"at most {DELAY_MAX + 1}", "retime it with relay populations"
        )


def _delays(p: FixedProjection) -> tuple[Array, Array]:
    return np.atleast_1d(p.delay_steps).ravel(), np.atleast_1d(p.target_delay_steps).ravel()


def _is_plain_conv(p: FixedProjection) -> bool:
    """Lava's Conv pads alike on both sides, keeps its settings in 8 bits, and knows no exponent and no delays."""
    op = p.operator
    assert isinstance(op, Conv)
    numbers = (*op.kernel, *op.stride, *op.dilation, op.groups, *(n for pad in op.padding for n in pad))
    longest = sum(int(d.max()) for d in _delays(p))
    alike = all(low == high for low, high in op.padding)
    return p.weight_exp == 0 and longest == 1 and alike and max(numbers) <= _INT8 and len(op.kernel) <= 2


def _conv(
    id: str, op: Conv, p: FixedProjection, ends: tuple[str, str], shapes: tuple[Shape, Shape], bits: int
) -> LavaSynapse:
    """Lava convolves (the kernel is flipped), in the order width, height, channel."""
    weight = op.weight if len(op.kernel) == 2 else op.weight[:, :, None, :]
    settings = [(1, 1)[: 2 - len(op.kernel)] + op.stride, (1, 1)[: 2 - len(op.kernel)] + op.dilation]
    padding = ((0,) * (2 - len(op.kernel))) + tuple(low for low, _ in op.padding)
    inner, outer = _image(op.input_shape), _image(op.output_shape)
    arguments: dict[str, Argument] = {
        "weight": np.ascontiguousarray(weight[:, :, ::-1, ::-1].transpose(0, 3, 2, 1)),
        "input_shape": inner[::-1],
        "stride": settings[0][::-1],
        "padding": padding[::-1],
        "dilation": settings[1][::-1],
        "groups": op.groups,
        "num_weight_bits": p.weight_bits,
    }
    if bits:
        arguments["num_message_bits"] = bits
    flip = ("transpose", (2, 1, 0))
    before = ((("reshape", inner),) if shapes[0] != inner else ()) + (flip,)
    after = (flip,) + ((("reshape", shapes[1]),) if shapes[1] != outer else ())
    return LavaSynapse(id, "Conv", *ends, arguments, before, after)


def _image(shape: Shape) -> Shape:
    """Channel, row, column; a line is an image of one row."""
    return shape if len(shape) == 3 else (shape[0], 1, shape[1])


def _matrix_arguments(p: FixedProjection) -> tuple[dict[str, Argument], SynapseProcess]:
    source, target = _delays(p)
    plain = source.max() == source.min() and target.max() == target.min()
    steps = int(source.max() + target.max()) - 1
    if isinstance(p.operator, Dense):
        weights = np.asarray(p.operator.weight)
        if plain and steps == 0:
            return {"weights": weights}, "Dense"
        if weights.size * (steps + 1) <= _DELAY_DENSE_MAX:
            each = np.broadcast_to(target[:, None] + source[None, :] - 1, weights.shape)
            delays: Argument = steps if plain else np.ascontiguousarray(each)
            return {"weights": weights, "delays": delays}, "DelayDense"
    rows = matrix(p.operator, _SYNAPSES_MAX)
    posts, pres = _shape(rows)
    indices = np.asarray(rows.indices, np.int64)
    arguments: dict[str, Argument] = {
        "data": rows.data,
        "indices": indices,
        "indptr": np.asarray(rows.indptr, np.int64),
        "matrix_shape": (posts, pres),
    }
    if plain and steps == 0:
        return arguments, "Sparse"
    of_row = np.repeat(np.broadcast_to(target, posts), np.diff(rows.indptr))
    arguments["delays"] = (of_row + np.broadcast_to(source, pres)[indices] - 1).astype(np.int64)
    return arguments, "DelaySparse"


def _shape(rows: Any) -> tuple[int, int]:
    return int(rows.shape[0]), int(rows.shape[1])
