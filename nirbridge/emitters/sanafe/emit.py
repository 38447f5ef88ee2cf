"""SANA-FE as a target: a map as its architecture and network, a self-contained folder in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.program import ProgramArrays, json_text, program_record, with_host_code
from nirbridge.emitters.sanafe.architecture import architecture_text, edge_arrays, network_text
from nirbridge.emitters.sanafe.model import Group, SanafePlan
from nirbridge.emitters.sanafe.plan import sanafe_plan
from nirbridge.emitters.sanafe.readme import TEMPLATES, readme_text
from nirbridge.emitters.target import Target, later
from nirbridge.emitters.witness import StageTimes, Witness
from nirbridge.files.regular import template_text
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.quantization.model import QuantizedNetwork

VERSION = "2.2.9"
"""The version of SANA-FE whose arithmetic the programs are held to."""


def emit(mapped: MappedNetwork, *, floating_currents: bool = False) -> Artifact:
    """The program of a map; the same map gives the same bytes.

    Raises:
        ModelError: what SANA-FE does not compute; every problem.
        IllegalMapping: only a placement.
    """
    plan = sanafe_plan(mapped, floating_currents=floating_currents)
    record, arrays = program_record(plan.inputs, plan.nodes, plan.outputs)
    record |= _facts(plan, integers_of(mapped), arrays)
    run = with_host_code(template_text(TEMPLATES / "run.py.txt"))
    files = {
        "architecture.yaml": architecture_text(mapped.chip, plan).encode("ascii"),
        "network.yaml": network_text(plan).encode("ascii"),
        "program.json": json_text(record).encode("ascii"),
        "program.npz": npz_bytes(arrays),
        "synapses.npz": npz_bytes(edge_arrays(plan)),
        "run.py": run.encode("ascii"),
        "README.md": readme_text(mapped.chip, plan).encode("utf-8"),
    }
    facts = {"kind": "sanafe", "sanafe": VERSION, "schema": 1, "synapses": plan.synapses, "cores": len(mapped.cores)}
    return make_artifact(files, facts)


def _facts(plan: SanafePlan, quantized: QuantizedNetwork, arrays: ProgramArrays) -> dict[str, Any]:
    """Entries of ``program.json`` beside the names."""
    bits = {part.id: quantized.population(node.name).neuron.u_bits for node in plan.nodes for part in node.parts}
    network = quantized.network
    return {
        "schema": 1,
        "chip": quantized.chip,
        "dt": quantized.dt,
        "tag": "fixed_pt",
        "latency": dict(quantized.latency),
        "notes": list(plan.notes),
        "assumed": [] if network is None else list(network.assumed),
        "delayed": plan.delayed,
        "refractory": any("refractory_delay" in group.attributes for group in plan.groups),
        "synapses": plan.synapses,
        "edges": [{"source": e.source, "target": e.target, "kind": e.kind} for e in plan.edges],
        "paddings": [{"target": p.target, "kind": p.kind, "count": p.count} for p in plan.paddings],
        "groups": [_group(g, bits[g.id], arrays) for g in plan.groups if g.id not in plan.input_ids],
    }


def _group(group: Group, u_bits: int, arrays: ProgramArrays) -> dict[str, Any]:
    def put(name: str, values: Array | None) -> str | None:
        return None if values is None else arrays.put(f"{group.id}.{name}", values)

    carries = group.decay is not None
    starts = group.start is not None and bool(group.start.any())
    return {
        "id": group.id,
        "size": group.size,
        "u_bits": u_bits,
        "decay": put("decay", group.decay),
        "start": put("start", group.start if starts else None),
        "start_current": put("start_current", group.start_current if carries else None),
        "bias": put("bias", group.bias if carries else None),
        "v_limit": put("v_limit", group.v_limit),
    }


@dataclass(frozen=True, slots=True)
class SanafeOptions:
    """Options for emitting a SANA-FE program.

    ``floating_currents``: spikes then may differ from the chip's; by default the runner keeps these currents in the
    chip's integers, and every spike is the same.
    """

    floating_currents: Annotated[bool, "Currents with memory are SANA-FE's own, which it does not round"] = False


class _Sanafe(Target):
    """The target, and what a profile asks of it."""

    def figures(
        self, mapped: MappedNetwork, inputs: Mapping[str, Array], *, progress: Progress = no_progress
    ) -> Witness:
        """SANA-FE's energy and time of a map on data, for a profile; see ``measure``."""
        from nirbridge.emitters.sanafe.run import measure

        return measure(mapped, emit(mapped), inputs, VERSION, progress)

    def stage_times(
        self, mapped: MappedNetwork, inputs: Mapping[str, Array], *, progress: Progress = no_progress
    ) -> StageTimes:
        """SANA-FE's time by stages, where messages do not wait, for a profile whose times differ."""
        from nirbridge.emitters.sanafe.run import stage_times

        return stage_times(mapped, emit(mapped), inputs, progress)


SANAFE = _Sanafe(
    name="sanafe",
    summary="SANA-FE: every neuron of a map on its core, every synapse an edge",
    takes=(MappedNetwork,),
    hint="map the network onto a chip",
    options=SanafeOptions,
    make=lambda mapped, options: emit(mapped, floating_currents=options.floating_currents),
    start=later("nirbridge.emitters.sanafe.run:run_program"),
    records=("s", "v"),
    one_sample_at_a_time=True,
)
