"""Lava as a target: a quantized or mapped network as a program, a self-contained folder in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.lava import render as text
from nirbridge.emitters.lava.plan.fixed import fixed_plan
from nirbridge.emitters.lava.plan.floating import floating_plan
from nirbridge.emitters.lava.plan.model import LavaPlan, Readout
from nirbridge.errors import ModelError, UsageError, instance_of, quoted
from nirbridge.files.archive_names import encode_name
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Probe, Recording

_LONGEST_KEY = 30_000


def emit(
    quantized: QuantizedNetwork,
    *,
    mapped: MappedNetwork | Sequence[Any] | None = None,
    floating: bool = False,
) -> Artifact:
    """The program of a quantized network; the same network gives the same bytes.

    Args:
        quantized: what to emit.
        mapped: its cores (a map, or the slices of one), for one process per core and population instead of one per
            population. Many processes are slow.
        floating: Lava's floating-point models of the real network, for comparison; no chip computes so.

    Raises:
        ModelError: what Lava or the chip cannot hold; every problem.
        UsageError: options that contradict each other.
    """
    if floating and mapped is not None:
        raise UsageError.of("emit", "floating and a map", "a map holds the integers of the chip", "choose one")
    return _artifact(floating_plan(quantized) if floating else fixed_plan(quantized, mapped))


def _artifact(plan: LavaPlan) -> Artifact:
    record, arrays = _program(plan)
    files = {path: content.encode("utf-8") for path, content in text.static_files(plan)}
    files["network.py"] = text.network_text(plan).encode("ascii")
    files["processes/recorder.py"] = text.recorder_text(plan).encode("ascii")
    files["README.md"] = text.readme_text(plan).encode("utf-8")
    files["program.json"] = text.json_text(record).encode("ascii")
    files["program.npz"] = npz_bytes(arrays)
    files["weights.npz"] = npz_bytes(text.weight_arrays(plan))
    facts = {"kind": "lava", "lava": "0.10.0", "schema": 1, "tag": plan.tag, "processes": plan.processes}
    return make_artifact(files, facts)


def _program(plan: LavaPlan) -> tuple[dict[str, Any], dict[str, Array]]:
    """``program.json`` and the arrays it points to. Names of the model stand here and nowhere else."""
    arrays: dict[str, Array] = {}

    def put(key: str, values: Any) -> str:
        arrays[key] = np.asarray(values)
        return key

    inputs = [
        {"name": t.name, "key": _key(t.name), "shape": t.shape, "id": t.id, "value_max": t.value_max, "scale": t.scale}
        for t in plan.inputs
    ]
    nodes = []
    for k, node in enumerate(plan.nodes):
        parts = [
            {"id": p.id, "at": None if p.at is None else put(f"node{k}.part{j}", p.at)}
            for j, p in enumerate(node.parts)
        ]
        nodes.append(
            {
                "name": node.name,
                "key": _key(node.name),
                "shape": node.shape,
                "parts": parts,
                "fires": node.fires,
                "max_spikes": node.max_spikes,
                "scale": put(f"node{k}.scale", _flat(node.scale)),
                "v_offset": put(f"node{k}.v_offset", _flat(node.v_offset)),
            }
        )
    silent = {node.name for node in plan.nodes if not node.fires}
    outputs = []
    for k, port in enumerate(plan.outputs):
        reads = [_read(f"output{k}.read{j}", read, put) for j, read in enumerate(port.reads)]
        reads_out = bool(reads) and all(read.source in silent for read in port.reads)
        outputs.append(
            {"name": port.name, "key": _key(port.name), "shape": port.shape, "reads": reads, "reads_out": reads_out}
        )
    return {**text.program_meta(plan), "inputs": inputs, "nodes": nodes, "outputs": outputs}, arrays


def _read(key: str, read: Readout, put: Any) -> dict[str, Any]:
    matrix = None
    if read.matrix is not None:
        matrix = f"{key}.matrix"
        for name, values in read.matrix.items():
            put(f"{matrix}.{name}", values)
    return {
        "source": read.source,
        "matrix": matrix,
        "bias": None if read.bias is None else put(f"{key}.bias", np.ravel(read.bias)),
        "source_delay": put(f"{key}.source_delay", _flat(read.source_delay)),
        "target_delay": put(f"{key}.target_delay", _flat(read.target_delay)),
    }


def _flat(values: Array) -> Array:
    return np.asarray(values).reshape(-1) if np.ndim(values) else np.asarray(values)


def _key(name: str) -> str:
    key = encode_name(name)
    if len(key.encode("utf-8", "surrogatepass")) > _LONGEST_KEY:
        raise ModelError.of(f"node {quoted(name)}", "its name is too long for an archive", "", "rename the node")
    return key


TAKES = (QuantizedNetwork, MappedNetwork)


@dataclass(frozen=True, slots=True)
class LavaOptions:
    """Options for emitting a Lava program.

    ``floating``: Lava's floating-point models of the real network, for comparison; no chip computes so.
    """

    floating: bool = False


@dataclass(frozen=True, slots=True)
class LavaEmitter:
    """Programs for Lava: one process per population, or per core and population of a mapped network."""

    takes = TAKES
    options = LavaOptions
    records = ("s", "u", "v")

    def emit(self, model: Model, options: LavaOptions | None = None) -> Artifact:
        """See ``emit``; many processes are slow."""
        from nirbridge.mapping.integers import integers_of

        known = instance_of(model, TAKES, "model of emitter 'lava'", "quantize the network for a chip")
        chosen = LavaOptions() if options is None else instance_of(options, LavaOptions, "options of emitter 'lava'")
        if isinstance(known, MappedNetwork):
            return emit(integers_of(known), mapped=known, floating=chosen.floating)
        return emit(known, floating=chosen.floating)

    def run(
        self,
        artifact: Artifact,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``run_program``: supervised, in the isolated environment of Lava."""
        from nirbridge.emitters.lava.runtime.probes import requested
        from nirbridge.emitters.lava.runtime.run import run_program

        program = instance_of(artifact, Artifact, "program of emitter 'lava'")
        probes = requested(program, record)
        return probes.recording(run_program(program, inputs, steps=steps, record=probes.texts, progress=progress))


LAVA = LavaEmitter()
