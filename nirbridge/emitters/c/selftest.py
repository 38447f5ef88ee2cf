"""Golden vectors as a program: inputs of some time steps, and the outputs of the simulator of its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.c.interface import function_names
from nirbridge.emitters.c.options import SUBJECT
from nirbridge.emitters.c.plan import FLOAT, CPlan, Neurons, Source, Summed, integer_type
from nirbridge.emitters.c.synapses import Table
from nirbridge.errors import UsageError
from nirbridge.network.model import Network
from nirbridge.quantization.model import FixedInput
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Key, Probe

VALUES_MAX = 1 << 23
SEED, DENSITY = 0, 0.3
"""Inputs are drawn: spikes with this probability, whole numbers of the input's range evenly."""


@dataclass(frozen=True, slots=True)
class Golden:
    """Vectors of a network: the tables of inputs, of outputs, and of the sum of all potentials per time step.

    ``active``: values of outputs that are not 0.
    """

    steps: int
    tables: Mapping[str, Table]
    active: int

    @property
    def bytes(self) -> int:
        """Bytes of all tables."""
        return sum(t.bytes for t in self.tables.values())


def golden(plan: CPlan, steps: int) -> Golden:
    """Vectors of ``steps`` time steps from the initial state; the same network gives the same vectors.

    Raises:
        UsageError: more than 8 million values.
    """
    ends = (*plan.shown, *plan.outputs)
    values = sum(s.size for s in plan.inputs) + sum(n.source.size for n in ends)
    if steps * values > VALUES_MAX:
        found = f"selftest {steps} has {steps * values:,} values of inputs and outputs"
        raise UsageError.of(SUBJECT, found, f"at most {VALUES_MAX:,}", "choose fewer time steps")
    inputs = _drawn(plan, steps)
    found, tables, active = _recorded(plan, inputs, steps), {}, 0
    for port, source in zip(plan.model.inputs, plan.inputs, strict=True):
        scale = port.scale if isinstance(port, FixedInput) else 1.0
        sent = np.rint(inputs[port.name] / scale).astype(np.int64).reshape(steps, -1)
        tables[source.id] = _table(f"nb_given_{source.id}", sent, _is_spikes(source))
    for n in ends:
        out = found[n.name, _sent(n)].reshape(steps, -1)
        tables[n.id] = _table(f"nb_expected_{n.id}", out, n.source.is_binary)
        active += int(np.count_nonzero(out))
    if any("v" in n.kept for n in plan.neurons):
        what = "the bits of all potentials" if plan.is_real else "all potentials"
        note = f"sum of {what}, lowest 32 bits"
        tables["sum"] = Table("nb_expected_sum", "int32_t", _sums(plan, steps, found), note)
    return Golden(steps, tables, active)


def _is_spikes(source: Source) -> bool:
    """True for an input whose values are drawn as 0 and 1."""
    return source.is_binary or source.type == FLOAT


def _sent(n: Summed) -> str:
    return "s" if not isinstance(n, Neurons) or n.population.neuron.fires else "v"


def _drawn(plan: CPlan, steps: int) -> dict[str, Array]:
    rng, found = np.random.default_rng(SEED), {}
    for port in plan.model.inputs:
        shape = (steps, *port.shape)
        if isinstance(port, FixedInput) and port.graded:
            found[port.name] = rng.integers(-port.value_max, port.value_max + 1, shape) * port.scale
        else:
            found[port.name] = (rng.random(shape) < DENSITY).astype(np.uint8)
    return found


def _recorded(plan: CPlan, inputs: Mapping[str, Array], steps: int) -> Mapping[Key, Array]:
    probes = [Probe(n.name, (_sent(n),)) for n in (*plan.shown, *plan.outputs)]
    probes += [Probe(n.name, ("v",)) for n in plan.neurons if "v" in n.kept]
    if isinstance(plan.model, Network):
        return simulate(plan.model, inputs, steps=steps, record=probes, backend="numpy").recording.arrays
    return simulate_fixed(plan.model, inputs, steps=steps, record=probes).recording.arrays


def _sums(plan: CPlan, steps: int, found: Mapping[Key, Array]) -> Array:
    total = np.zeros(steps, np.int64)
    for n in plan.neurons:
        if "v" in n.kept:
            v = found[n.name, "v"].reshape(steps, -1)
            if plan.is_real:  # a zero of either sign, and what is no number, count as 0
                v = np.where((v < 0) | (v > 0), v, np.float32(0)).view(np.int32)
            total += (v.astype(np.int64) & 0xFFFFFFFF).sum(axis=1)
    return (total & 0xFFFFFFFF).astype(np.uint32).astype(np.int32)


def _table(name: str, values: Array, is_bits: bool) -> Table:
    """``[steps, elements]``: spikes as bits, 8 in a byte, the first one lowest."""
    if is_bits:
        return Table(name, "uint8_t", np.packbits(values.astype(np.uint8), axis=1, bitorder="little").reshape(-1))
    return Table(name, FLOAT if values.dtype.kind == "f" else integer_type(values), values.reshape(-1))


# -- source --------------------------------------------------------------------------------------------------------


_BITS = """/* 0 for a zero of either sign, and for what is no number */
static uint32_t nb_bits(float x)
{
    const union {
        float value;
        uint32_t bits;
    } both = {x};

    return ((x < 0.0f) || (x > 0.0f)) ? both.bits : 0u;
}
"""


def selftest_text(plan: CPlan, vectors: Golden) -> str:
    """The file of the self-test, for ``renamed``."""
    checks = ["sum != (uint32_t)nb_expected_sum[t]"] if "sum" in vectors.tables else []
    lines = [
        f"/* Made by nirbridge: inputs of {vectors.steps} time steps, and the outputs that its simulator computed.",
        "   -DNB_SELFTEST_MAIN adds a main, for machines with an operating system; it returns 0 if all are equal. */",
        '#include "@STEM@.h"\n\n#include <stddef.h>\n',
        *(t.text() for t in vectors.tables.values()),
        *([_BITS] if checks and plan.is_real else []),
        "uint32_t nb_selftest(nb_model *m)\n{",
        "    uint32_t first = 0; /* that differs */\n",
        "    nb_reset(m);",
        f"    for (uint32_t t = 0; (t < {vectors.steps}u) && (first == 0u); ++t)",
        *("        uint32_t sum = 0;\n" for _ in checks),
        *("        " + line for line in _given(plan, vectors)),
        "        nb_step(m, NULL);",
        *("        " + line for line in _compared(plan, vectors)),
        *(f"        if ({check})\n            first = t + 1u;" for check in checks),
        "    return first;",
        "}\n",
        "#ifdef NB_SELFTEST_MAIN",
        "static nb_model nb_tested;\n",
        "int main(void)\n{",
        "    return nb_selftest(&nb_tested) != 0u;",
        "}\n#endif",
    ]
    return "\n".join(lines) + "\n"


def _given(plan: CPlan, vectors: Golden) -> Iterator[str]:
    names = function_names(plan)["inputs"]
    for port, source in zip(plan.model.inputs, plan.inputs, strict=True):
        yield f"for (uint32_t i = 0; i < {source.size}u; ++i)"
        value = _value(vectors.tables[source.id], source.size, _is_spikes(source))
        if _is_spikes(source):
            yield f"    if ({value} != 0u)"
            yield f"        {names[port.name]}(m, i{'' if source.is_binary else ', 1.0f'});"
        else:
            yield f"    {names[port.name]}(m, i, {value});"


def _compared(plan: CPlan, vectors: Golden) -> Iterator[str]:
    for n in (*plan.shown, *plan.outputs):
        out, value = f"m->out.{n.id}[i]", _value(vectors.tables[n.id], n.source.size, n.source.is_binary)
        yield f"for (uint32_t i = 0; i < {n.source.size}u; ++i)"
        is_real = vectors.tables[n.id].type == FLOAT
        yield f"    if (({out} < {value}) || ({out} > {value}))" if is_real else f"    if ({out} != {value})"
        yield "        first = t + 1u;"
    for n in plan.neurons if "sum" in vectors.tables else ():
        if "v" in n.kept:
            yield f"for (uint32_t i = 0; i < {n.source.size}u; ++i)"
            value = f"m->{n.id}_v[i]"
            yield f"    sum += {f'nb_bits({value})' if plan.is_real else f'(uint32_t){value}'};"


def _value(table: Table, size: int, is_bits: bool) -> str:
    """Element i of time step t."""
    if not is_bits:
        return f"{table.name}[(t * {size}u) + i]"
    return f"(({table.name}[(t * {math.ceil(size / 8)}u) + (i / 8u)] >> (i % 8u)) & 1u)"
