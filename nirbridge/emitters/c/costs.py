"""Costs of a C program from its plan: bytes and operations exactly, bytes of code and a Cortex-M4's work estimated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nirbridge.emitters.c.plan import CPlan, Neurons, Synapses
from nirbridge.emitters.c.render import input_type, state_arrays
from nirbridge.emitters.c.synapses import BYTES, Table, is_grouped, is_partition
from nirbridge.emitters.readme import PORTS_SHOWN, latency_facts, shape_text, table_name
from nirbridge.errors import counted
from nirbridge.network.model import Network, Port
from nirbridge.network.operators import Conv, Dense, Operator, Sparse, SumPool
from nirbridge.program.terms import in_order
from nirbridge.quantization.model import FixedInput


@dataclass(frozen=True, slots=True)
class CortexM4:
    """Instructions and bytes of what ``arm-none-eabi-gcc -Os`` makes of a program, on average.

    Fitted to networks counted in QEMU; ``tests/emitters/c/test_costs.py`` counts again.
    """

    dense: float = 6.2
    """For each weight that is added; the loop is two loads, an addition, a store, a comparison and a branch."""
    grouped: float = 3.6
    """The same where the rows of several spikes are added at once."""
    conv: float = 7.8
    tap: float = 15.8
    """For each place of a kernel that a spike meets."""
    pool: float = 20.0
    """For each source of a pool whose windows do not overlap."""
    neuron: float = 28.0
    decay: float = 9.0
    """For each state of a neuron that decays by another factor than 0 or 1."""
    halves: float = 8.0
    """More where its product is taken in halves."""
    population: float = 60.0
    """Bytes of code for each population."""
    projection: float = 185.0
    """Bytes of code for each projection, twice where it adds rows in groups; 26 programs have 0.80 to 1.21 of it."""


M4 = CortexM4()
STACK = 256
"""Bytes of stack below ``nb_step`` on a Cortex-M4: 4 to 140 for twelve networks at -Os, -O2 and -O3."""
CYCLES = (1.3, 1.8)
"""Cycles of an instruction in the loops of weights: six take 8 to 11 (Arm 100166, once DDI 0439, table 3-1)."""


def costs(plan: CPlan, found: Iterable[Table]) -> dict[str, Any]:
    """Bytes, operations of a time step, and estimates, as plain JSON."""
    synaptic = sum(synaptic_operations(s.operator) for s in plan.synapses)
    neurons = sum(n.source.size for n in plan.neurons)
    idle = sum(n.source.size * (M4.neuron + _decays(n)) for n in plan.neurons)
    busy = idle + sum(map(_instructions, plan.synapses))
    functions = sum(1 + is_grouped(s) for s in plan.synapses if s.operator is not None)
    code = M4.population * len(plan.neurons) + M4.projection * functions
    instructions = {"without_spikes": _rounded(idle), "most": _rounded(busy)}
    return {
        "flash_bytes": {"tables": sum(t.bytes for t in found), "code_estimated": _rounded(code)},
        "ram_bytes": {"nb_model": _struct_bytes(_state(plan))[1], "nb_inputs": _struct_bytes(_inputs(plan))[1]},
        "stack_bytes_estimated": STACK,
        "operations_per_step": {"synaptic_most": synaptic, "neuron_updates": neurons},
        **({} if plan.is_real else {"cortex_m4_instructions_per_step_estimated": instructions}),
    }


def ports(plan: CPlan) -> dict[str, Any]:
    """The inputs of a program, in the order of their indices in text, and the latency of its outputs."""
    inputs, first = [], 0
    for port, source in zip(plan.model.inputs, plan.inputs, strict=True):
        about = {"name": port.name, "field": f"in.{source.id}", "type": input_type(source), "shape": list(port.shape)}
        inputs.append({**about, **_values(port), "first_index": first, "size": source.size})
        first += source.size
    return {"inputs": inputs, "latency_steps": latencies(plan)}


def _values(port: Port | FixedInput) -> dict[str, Any]:
    if isinstance(port, Port):
        return {"values": "real numbers"}
    return {"values": "whole numbers" if port.graded else "spikes", "scale": port.scale, "max": port.value_max}


def latencies(plan: CPlan) -> dict[str, int]:
    """Time steps by which outputs are later than those of the network; none in reals."""
    if isinstance(plan.model, Network):
        return dict.fromkeys((p.name for p in plan.model.outputs), 0)
    return {read.target: int(plan.model.latency.get(read.target, 0)) for read in plan.model.reads}


def cost_facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and text of each cost of a program, from its manifest."""
    found = manifest["costs"]
    flash, ram, operations = found["flash_bytes"], found["ram_bytes"], found["operations_per_step"]
    yield "flash", f"{flash['tables']:,} bytes of tables, and about {flash['code_estimated']:,} of code"
    yield "RAM", f"{ram['nb_model']:,} bytes of state, {ram['nb_inputs']:,} of inputs, stack below {STACK}"
    updates = counted(operations["neuron_updates"], "neuron update")
    yield "time step", f"{counted(operations['synaptic_most'], 'synaptic operation')} at most, and {updates}"
    if (instructions := found.get("cortex_m4_instructions_per_step_estimated")) is not None:
        most, idle = instructions["most"], instructions["without_spikes"]
        text = f"about {most:,} instructions a time step at most, {idle:,} without spikes"
        yield "Cortex-M4", f"{text}; {CYCLES[0]} to {CYCLES[1]} cycles each"
        yield "at 100 MHz", f"about {_microseconds(most)} us a time step at most, {_microseconds(idle)} without spikes"


def _microseconds(instructions: int, mhz: float = 100.0) -> str:
    low, high = (f"{float(f'{instructions * cycles / mhz:.1e}'):,g}" for cycles in CYCLES)
    return f"{low} to {high}"


def program_facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """``cost_facts``, what a self-test compares, the latency of the outputs, and how a host fills the inputs."""
    yield from cost_facts(manifest)
    if (test := manifest.get("selftest")) is not None:
        active = counted(test["active_outputs"], "value")
        yield "self-test", f"{counted(test['steps'], 'time step')}, {active} of outputs other than 0"
    yield from latency_facts(manifest["latency_steps"])
    for port in manifest["inputs"][:PORTS_SHOWN]:
        order = ", last axis fastest" if len(port["shape"]) > 1 else ""
        takes = "real numbers, 1 for a spike" if port["values"] == "real numbers" else "1 for a spike"
        if port["values"] == "whole numbers":
            takes = f"round(x / {port['scale']:g}), {-port['max']:,} to {port['max']:,}"
        shape = f"{table_name(port['name'])} {shape_text(port['shape'])}{order}"
        yield "input", f"{shape}, as {port['type']} {port['field']}[{port['size']}]: {takes}"
    if len(manifest["inputs"]) > PORTS_SHOWN:
        yield "", f"and {len(manifest['inputs']) - PORTS_SHOWN:,} more inputs"
    prefix = manifest["options"]["prefix"]
    yield "use", f"fill in, {prefix}_step(&model, &in), read model.out: one time step; README.md shows it"


def takes_text(port: Port | FixedInput) -> str:
    """What an input takes, in words."""
    if isinstance(port, Port):
        return "real numbers; 1 for a spike"
    if not port.graded:
        return "spikes: 1 or 0"
    return f"whole numbers from {-port.value_max} to {port.value_max}, each standing for {port.scale:g}"


def synaptic_operations(operator: Operator | None) -> int:
    """Additions of weights where every source sends once."""
    if isinstance(operator, Dense):
        return operator.weight.size
    if isinstance(operator, Sparse):
        return operator.data.size
    if isinstance(operator, Conv):
        return operator.weight.shape[0] * operator.weight.shape[1] * math.prod(_taps(operator))
    if isinstance(operator, SumPool):
        return operator.input_shape[0] * math.prod(_taps(operator))
    return 0 if operator is None else math.prod(operator.input_shape)


def _taps(conv: Conv | SumPool) -> list[int]:
    """By axis, the pairs of a target and a place of its kernel that lies inside the image."""
    return [
        sum(0 <= y * s - p + a * d < n for y in range(m) for a in range(k))
        for n, m, k, s, (p, _), d in zip(
            conv.input_shape[1:], conv.output_shape[1:], conv.kernel, conv.stride, conv.padding, conv.dilation,
            strict=True,
        )
    ]  # fmt: skip


def _instructions(s: Synapses) -> float:
    """Of a projection where every source sends."""
    operations = synaptic_operations(s.operator)
    if isinstance(s.operator, SumPool) and is_partition(s.operator):
        return operations * M4.pool
    if isinstance(s.operator, Conv | SumPool):
        return operations * M4.conv + s.operator.input_shape[0] * math.prod(_taps(s.operator)) * M4.tap
    return operations * (M4.grouped if is_grouped(s) else M4.dense)


def _decays(n: Neurons) -> float:
    """Instructions of the products with a decay: the functions that a time step calls."""
    called = [term.value for term in in_order(n.step.ends) if term.op == "call"]
    halves = [f for f in called if any(term.op == "and" for term in in_order([f.value]))]
    return M4.decay * len(called) + M4.halves * len(halves)


def _rounded(value: float) -> int:
    """Two digits, as many as an estimate has."""
    return int(float(f"{value:.1e}"))


# -- structs -------------------------------------------------------------------------------------------------------

Field = tuple[int, int]
"""Alignment and size in bytes."""


def _struct_bytes(fields: Sequence[Field]) -> Field:
    """A struct whose fields are aligned to the size of their type, as on ARM, RISC-V and 64-bit x86."""
    place, most = 0, 1
    for alignment, size in fields or [(1, 1)]:
        place = _aligned(place, alignment) + size
        most = max(most, alignment)
    return most, _aligned(place, most)


def _aligned(place: int, alignment: int) -> int:
    return -(-place // alignment) * alignment


def _array(kind: str, count: int) -> Field:
    return BYTES[kind], BYTES[kind] * count


def _inputs(plan: CPlan) -> list[Field]:
    return [_array(input_type(s), s.size) for s in plan.inputs]


def _state(plan: CPlan) -> list[Field]:
    shown = [(n.out_type, n.source.size) for n in plan.shown] + [(o.sums, o.source.size) for o in plan.outputs]
    outputs = _struct_bytes([_array(*field) for field in shown])
    return [(4, 4), outputs, *(_array(kind, math.prod(sizes)) for kind, _, sizes in state_arrays(plan))]
