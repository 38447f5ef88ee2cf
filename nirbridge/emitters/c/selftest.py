"""Golden vectors as a program: inputs of some time steps, and the outputs of the fixed-point simulator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.c.interface import function_names
from nirbridge.emitters.c.options import SUBJECT
from nirbridge.emitters.c.plan import CPlan, Neurons, integer_type
from nirbridge.emitters.c.synapses import Table
from nirbridge.errors import UsageError
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Key, Probe

BYTES_MAX = 1 << 20
SEED, DENSITY = 0, 0.3
"""Inputs are drawn: spikes with this probability, whole numbers of the input's range evenly."""


@dataclass(frozen=True, slots=True)
class Golden:
    """Vectors of a network: the tables of inputs, of outputs, and of the sum of all potentials in each time step.

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
        UsageError: tables of more than a megabyte.
    """
    values = sum(s.size for s in plan.inputs) + sum(n.source.size for n in plan.shown)
    if steps * values > 8 * BYTES_MAX:
        limit = f"at most {8 * BYTES_MAX:,}"
        found = f"selftest {steps} has {steps * values:,} values of inputs and outputs"
        raise UsageError.of(SUBJECT, found, limit, "choose fewer time steps")
    inputs = _drawn(plan, steps)
    probes = [Probe(n.population.name, _variables(n)) for n in plan.neurons]
    found = simulate_fixed(plan.quantized, inputs, steps=steps, record=probes).recording.arrays
    tables = {}
    for port, source in zip(plan.quantized.inputs, plan.inputs, strict=True):
        sent = np.rint(inputs[port.name] / port.scale).astype(np.int64).reshape(steps, -1)
        tables[source.id] = _table(f"nb_given_{source.id}", sent, source.is_binary)
    for n in plan.shown:
        out = found[n.population.name, "s" if n.population.neuron.fires else "v"].reshape(steps, -1)
        tables[n.id] = _table(f"nb_expected_{n.id}", out, n.source.is_binary)
    active = sum(np.count_nonzero(found[n.population.name, _variables(n)[0]]) for n in plan.shown)
    sums = _sums(plan, steps, found)
    tables["sum"] = Table("nb_expected_sum", "int32_t", sums, "sum of all potentials, lowest 32 bits")
    return Golden(steps, tables, int(active))


def _variables(n: Neurons) -> tuple[str, ...]:
    return ("s", "v") if n.population.neuron.fires else ("v",)


def _drawn(plan: CPlan, steps: int) -> dict[str, Array]:
    rng, found = np.random.default_rng(SEED), {}
    for port in plan.quantized.inputs:
        shape = (steps, *port.shape)
        if port.graded:
            found[port.name] = rng.integers(-port.value_max, port.value_max + 1, shape) * port.scale
        else:
            found[port.name] = (rng.random(shape) < DENSITY).astype(np.uint8)
    return found


def _sums(plan: CPlan, steps: int, found: Mapping[Key, Array]) -> Array:
    total = np.zeros(steps, np.int64)
    for n in plan.neurons:
        if "v" in n.kept:
            total += (found[n.population.name, "v"].astype(np.int64).reshape(steps, -1) & 0xFFFFFFFF).sum(axis=1)
    return (total & 0xFFFFFFFF).astype(np.uint32).astype(np.int32)


def _table(name: str, values: Array, is_binary: bool) -> Table:
    """``[steps, elements]``: spikes as bits, 8 in a byte, the first one lowest."""
    if is_binary:
        return Table(name, "uint8_t", np.packbits(values.astype(np.uint8), axis=1, bitorder="little").reshape(-1))
    return Table(name, integer_type(values), values.reshape(-1))


# -- source --------------------------------------------------------------------------------------------------------


def selftest_text(plan: CPlan, vectors: Golden) -> str:
    """The file of the self-test, for ``renamed``."""
    lines = [
        f"/* Made by nirbridge: inputs of {vectors.steps} time steps, and the outputs of its fixed-point simulator.",
        "   -DNB_SELFTEST_MAIN adds a main, for machines with an operating system; it returns 0 if all are equal. */",
        '#include "@STEM@.h"\n\n#include <stddef.h>\n',
        *(t.text() for t in vectors.tables.values()),
        "uint32_t nb_selftest(nb_model *m)\n{",
        "    nb_reset(m);",
        f"    for (uint32_t t = 0; t < {vectors.steps}u; ++t) {{",
        "        uint32_t sum = 0;\n",
        *("        " + line for line in _given(plan, vectors)),
        "        nb_step(m, NULL);",
        *("        " + line for line in _compared(plan, vectors)),
        "        if (sum != (uint32_t)nb_expected_sum[t])",
        "            return t + 1u;",
        "    }",
        "    return 0;",
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
    for port, source in zip(plan.quantized.inputs, plan.inputs, strict=True):
        yield f"for (uint32_t i = 0; i < {source.size}u; ++i)"
        value = _value(vectors.tables[source.id], source.size, source.is_binary)
        if source.is_binary:
            yield f"    if ({value} != 0u)"
            yield f"        {names[port.name]}(m, i);"
        else:
            yield f"    {names[port.name]}(m, i, {value});"


def _compared(plan: CPlan, vectors: Golden) -> Iterator[str]:
    for n in plan.shown:
        yield f"for (uint32_t i = 0; i < {n.source.size}u; ++i)"
        yield f"    if (m->out.{n.id}[i] != {_value(vectors.tables[n.id], n.source.size, n.source.is_binary)})"
        yield "        return t + 1u;"
    for n in plan.neurons:
        if "v" in n.kept:
            yield f"for (uint32_t i = 0; i < {n.source.size}u; ++i)"
            yield f"    sum += (uint32_t)m->{n.id}_v[i];"


def _value(table: Table, size: int, is_binary: bool) -> str:
    """Element i of time step t."""
    if not is_binary:
        return f"{table.name}[t * {size}u + i]"
    return f"({table.name}[t * {math.ceil(size / 8)}u + i / 8u] >> (i % 8u) & 1u)"
