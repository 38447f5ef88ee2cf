"""Lava as a target: a quantized or mapped network as a program, a self-contained folder in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.lava import render as text
from nirbridge.emitters.lava.plan.fixed import fixed_plan
from nirbridge.emitters.lava.plan.floating import floating_plan
from nirbridge.emitters.lava.plan.model import LavaPlan
from nirbridge.emitters.program import json_text, program_record
from nirbridge.errors import UsageError, instance_of
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Probe, Recording


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
    record, arrays = program_record(plan.inputs, plan.nodes, plan.outputs)
    files = {path: content.encode("utf-8") for path, content in text.static_files(plan)}
    files["network.py"] = text.network_text(plan).encode("ascii")
    files["processes/recorder.py"] = text.recorder_text(plan).encode("ascii")
    files["README.md"] = text.readme_text(plan).encode("utf-8")
    files["program.json"] = json_text({**text.program_meta(plan), **record}).encode("ascii")
    files["program.npz"] = npz_bytes(arrays)
    files["weights.npz"] = npz_bytes(text.weight_arrays(plan))
    facts = {"kind": "lava", "lava": "0.10.0", "schema": 1, "tag": plan.tag, "processes": plan.processes}
    return make_artifact(files, facts)


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
    one_sample_at_a_time = True

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
