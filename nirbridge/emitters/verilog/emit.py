"""Verilog as a target: a quantized network as a circuit for open tools and boards that people own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.ports import NETWORK
from nirbridge.emitters.readme import filled, shape_text, table_name
from nirbridge.emitters.target import Target, later
from nirbridge.emitters.verilog.bench import bench_text
from nirbridge.emitters.verilog.boards import (
    Board,
    StreamPort,
    constraints,
    constraints_name,
    host_text,
    makefile_text,
    read_board,
    top_text,
)
from nirbridge.emitters.verilog.lanes import Expected, chosen, expected
from nirbridge.emitters.verilog.picture import delay_text, picture, walk_form
from nirbridge.emitters.verilog.plan import Circuit, Core, Stream
from nirbridge.emitters.verilog.proof import SCRIPT, proof_file
from nirbridge.emitters.verilog.render import circuit_text, hex_lines, memories
from nirbridge.emitters.verilog.tokens import mark, token_lines
from nirbridge.emitters.witness import Witness
from nirbridge.errors import UsageError, quoted
from nirbridge.files.regular import template_text
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.neurons import ALL
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.quantization.storage.file import quantized_bytes
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Probe

SOURCES = ("net.v", "library.v")
GOLDEN_STEPS, GOLDEN_RATES = 60, (0.3, 0.1, 0.6)
"""Time steps of the recorded tokens, and how many elements spike in each: a third of them at one rate."""
BUILDS = "net.json net.asc net.bin net.config net.bit report.json yosys.log sim.vvp sim.verilated"
"""Files that make adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerilogOptions:
    """Options of the Verilog target."""

    board: Annotated[str, "Board or device: a name, or FILE.toml"] = "ecp5-25k"
    lanes: Annotated[str, "Sums of a core that are added side by side: auto, or a number"] = "auto"
    rate: Annotated[float, "Time steps a second that are enough at the board's clock; 0: as many as fit"] = 0.0
    activity: Annotated[float, "Share of inputs and neurons that send in a time step, for the choice of lanes"] = 0.3


def emit(quantized: QuantizedNetwork, options: VerilogOptions) -> Artifact:
    """The circuit of a quantized network; the same network and options give the same bytes.

    Raises:
        UsageError: an unknown board, a number that is out of range.
        ModelError: what a circuit cannot hold: every problem.
    """
    board = read_board(options.board)
    if not (0 <= options.rate < float("inf") and 0 < options.activity <= 1):
        found = f"rate {options.rate:g}, activity {options.activity:g}"
        raise UsageError.of("options of emitter 'verilog'", found, "rate: 0 or more; activity: above 0, up to 1")
    return program(chosen(quantized, options.lanes, board, options.rate, options.activity), board, options.activity)


def program(plan: Circuit, board: Board, activity: float) -> Artifact:
    """The files of a circuit on a board."""
    texts = {
        "net.v": circuit_text(plan),
        "library.v": template("library.v"),
        "testbench.v": bench_text(plan, template("testbench.v"), GOLDEN_STEPS),
        "main.cpp": template("main.cpp"),
        "clock.v": template("clock.v"),
        **_board_files(plan, board),
        **_golden(plan),
        **{f"proof/{c.neuron.name}.rule": proof_file(c.neuron) for c in plan.cores},
        "README.md": readme_text(plan, board, activity),
        "circuit.svg": picture(plan, [*expected(plan, board, activity).values()]),
    }
    for core in plan.cores:
        texts |= {name: hex_lines(words) for name, words in memories(core).items()}
    files = {path: text.encode("utf-8") for path, text in texts.items()}
    files[NETWORK] = quantized_bytes(plan.quantized)
    return make_artifact(files, _facts(plan, board, activity))


def _facts(plan: Circuit, board: Board, activity: float) -> dict[str, object]:
    costs = [*expected(plan, board, activity).values()]
    return {
        "kind": "verilog",
        "schema": 1,
        "builds": [*BUILDS.split(), *(f"proof/{c.neuron.name}.smt2" for c in plan.cores)],
        "board": board.record,
        "sources": [*(["top.v"] if board.pins else []), *SOURCES],
        "top": "top" if board.pins else "net",
        "lanes": {c.population.name: [c.stream.layout.lanes, c.neurons] for c in plan.cores},
        "activity": activity,
        "cycles_per_step": max((c.cycles for c in costs), default=0),
        "expected_luts": sum(c.luts for c in costs),
        "expected_block_rams": sum(c.block_rams for c in costs),
        "notes": [*_notes(costs, board)],
    }


def _notes(costs: Sequence[Expected], board: Board) -> Iterator[str]:
    """What the model says that would surprise a user."""
    for noun, kind in (("LUTs", "luts"), ("block RAMs", "block_rams")):
        needed, there = sum(getattr(c, kind) for c in costs), getattr(board.resources, kind)
        if needed > there:
            yield f"does not fit {board.name} by nirbridge's model: {needed:,} of {there:,} {noun}"


class _Verilog(Target):
    """The target, and what a profile asks of it."""

    def figures(
        self, mapped: MappedNetwork, inputs: Mapping[str, Array], *, progress: Progress = no_progress
    ) -> Witness:
        """Cells, clock and time of the map's integers as a circuit, for a profile; see ``measure``."""
        measure = later("nirbridge.emitters.verilog.synthesis:measure")
        return measure(mapped, emit(integers_of(mapped), VerilogOptions()), inputs, progress)


VERILOG = _Verilog(
    name="verilog",
    summary="Verilog for an FPGA and open tools, in the integers of a chip",
    takes=(QuantizedNetwork,),
    hint="quantize the network for a chip",
    make=emit,
    start=later("nirbridge.emitters.verilog.run:run_program"),
    options=VerilogOptions,
    one_sample_at_a_time=True,
    carries=ALL,
    prove=later("nirbridge.emitters.verilog.proof:prove_program"),
    synthesize=later("nirbridge.emitters.verilog.synthesis:synthesize_program"),
)


def template(name: str) -> str:
    """A file of the folder ``templates``."""
    return template_text(Path(__file__).with_name("templates") / f"{name}.txt")


def _port(s: Stream) -> StreamPort:
    return StreamPort(s.id, s.layout.bits, s.value_bits, signed=s.value_bits > 0)


def _board_files(plan: Circuit, board: Board) -> dict[str, str]:
    """The Makefile, and of a board with pins the top module, the pins and the program of the host."""
    simulated, neurons = ("clock.v", "testbench.v", *SOURCES), " ".join(c.neuron.name for c in plan.cores)
    script = SCRIPT.format(source="-defer net.v", name="$$n", rule="proof/$$n.rule", proof="proof/$$n.smt2")
    prove = template("prove.mk").replace("@NEURONS@", neurons).replace("@SCRIPT@", script)
    if not board.pins:
        return {"Makefile": makefile_text(board, SOURCES, "net", simulated) + prove}
    inputs, outputs = plan.inputs, tuple(c.stream for c in plan.outputs)
    return {
        "Makefile": makefile_text(board, ("top.v", *SOURCES), "top", simulated) + prove,
        "top.v": top_text(board, [_port(s) for s in inputs], [_port(s) for s in outputs]),
        constraints_name(board): constraints(board),
        "host.py": host_text({s.id: _port(s) for s in inputs}, {s.id: _port(s) for s in outputs}),
    }


# -- golden vectors ------------------------------------------------------------------------------------------------


def _golden(plan: Circuit) -> dict[str, str]:
    """Tokens of random inputs and what every core sends then by the fixed-point simulator, for the test bench."""
    rng = np.random.default_rng(0)
    inputs = {p.name: _random(p, rng) for p in plan.quantized.inputs}
    probes = [Probe(p.name, (_sends(p.neuron.fires),)) for p in plan.quantized.populations]
    real = {p.name: inputs[p.name] * (p.scale if p.graded else 1) for p in plan.quantized.inputs}
    arrays = simulate_fixed(plan.quantized, real, record=probes).recording.arrays
    files = {f"vectors/{s.id}.hex": (s, inputs[s.name]) for s in plan.inputs}
    files |= {
        f"vectors/{c.id}.hex": (c.stream, arrays[c.population.name, _sends(c.population.neuron.fires)])
        for c in plan.cores
    }
    return {path: "".join(token_lines(s, a)) + mark(s) for path, (s, a) in files.items()}


def _sends(fires: bool) -> str:
    return "s" if fires else "v"


def _random(port: FixedInput, rng: np.random.Generator) -> Array:
    rates = np.repeat(GOLDEN_RATES, GOLDEN_STEPS // len(GOLDEN_RATES)).reshape(-1, *(1 for _ in port.shape))
    spikes = (rng.random((GOLDEN_STEPS, *port.shape)) < rates).astype(np.int64)
    return spikes * rng.integers(-port.value_max, port.value_max + 1, spikes.shape) if port.graded else spikes


# -- README --------------------------------------------------------------------------------------------------------


def readme_text(plan: Circuit, board: Board, activity: float) -> str:
    """The file ``README.md``."""
    costs = [*expected(plan, board, activity).values()]
    slowest = max((x.cycles for x in costs), default=1)
    marks = {
        "CHIP": quoted(plan.quantized.chip)[1:-1],
        "BOARD": f"{board.name} ({board.summary})",
        "CYCLES": f"{slowest:,}",
        "ACTIVITY": f"{activity:.0%}",
        "TIME": f"{slowest / board.mhz:,.4g}",
        "MHZ": f"{board.mhz:g}",
        "LUTS": f"{sum(x.luts for x in costs):,} of {board.resources.luts:,}",
        "RAMS": f"{sum(x.block_rams for x in costs):,} of {board.resources.block_rams:,}",
        "INPUTS": _table(STREAM, [_stream_row(s) for s in plan.inputs]),
        "OUTPUTS": _table(STREAM, [_stream_row(c.stream) for c in plan.outputs]),
        "LATENCY": _latencies(plan.quantized),
        "CORES": _table(CORE, [_core_row(c, x.cycles) for c, x in zip(plan.cores, costs, strict=True)]),
        "WALKS": _table(WALK, [row for c in plan.cores for row in _walk_rows(c)]),
        "REMOVED": "\n".join(f"* `{c.id}`: {', '.join(c.neuron.removed)}" for c in plan.cores if c.neuron.removed),
    }
    return filled(template("README.md"), marks)


STREAM = ("stream", "name in the model", "shape", "index", "value")
CORE = (
    "core",
    "population",
    "neurons",
    "sums side by side",
    "neurons side by side",
    "sums",
    "states",
    "stages",
    "cycles",
)
WALK = ("walk", "from", "to", "form", "words of weights", "weight", "delay")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _stream_row(s: Stream) -> tuple[str, ...]:
    names = ("row", "column", "channel")
    fields = [f"{name} {bits} bits" for name, bits in zip(names, s.layout.fields, strict=True) if bits]
    index = f"{s.layout.bits} bits: the element" if len(fields) == 1 else ", ".join(fields) + ", the first highest"
    value = f"{s.value_bits} bits, signed" if s.value_bits else "none: spikes"
    return f"`{s.id}`", table_name(s.name), shape_text(s.shape), index, value


def _core_row(c: Core, cycles: int) -> tuple[str, ...]:
    states = ", ".join(f"{f.name} {f.bits}" for f in c.neuron.states)
    sums = ", ".join(str(s.bits) for s in c.sums)
    side = str(c.stream.layout.lanes), str(c.neurons)
    name, size = table_name(c.population.name), str(c.population.size)
    return f"`{c.id}`", name, size, *side, f"{sums} bits", f"{states} bits", str(c.neuron.latency), f"{cycles:,}"


def _walk_rows(c: Core) -> list[tuple[str, ...]]:
    rows = []
    for w in c.walks:
        ends, words = (f"`{w.source.id}`", f"`{c.id}`"), f"{len(w.form.weights):,}"
        rows.append((f"`{w.id}`", *ends, walk_form(w), words, f"{w.weight_bits} bits", delay_text(w)))
    return rows


def _latencies(quantized: QuantizedNetwork) -> str:
    found = [f"{quantized.latency.get(p.name, 0)} for {table_name(p.name)}" for p in quantized.outputs]
    return ", ".join(found) or "none"
