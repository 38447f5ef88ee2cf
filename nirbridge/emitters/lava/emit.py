"""Lava as a target: a quantized or mapped network as a program, a self-contained folder in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.lava import render as text
from nirbridge.emitters.lava.plan.fixed import fixed_plan
from nirbridge.emitters.lava.plan.floating import floating_plan
from nirbridge.emitters.lava.plan.model import LavaPlan
from nirbridge.emitters.program import json_text, program_record
from nirbridge.emitters.target import Target, later
from nirbridge.errors import UsageError
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.neurons import ALL
from nirbridge.quantization.model import QuantizedNetwork


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


@dataclass(frozen=True, slots=True)
class LavaOptions:
    """Options for emitting a Lava program."""

    floating: Annotated[bool, "Lava's floating-point models instead, for comparison; no chip computes so"] = False


def _emitted(model: QuantizedNetwork | MappedNetwork, options: LavaOptions) -> Artifact:
    if isinstance(model, MappedNetwork):
        return emit(integers_of(model), mapped=model, floating=options.floating)
    return emit(model, floating=options.floating)


LAVA = Target(
    name="lava",
    summary="Lava: one process per population, or per core and population of a map",
    takes=(QuantizedNetwork, MappedNetwork),
    hint="quantize the network for a chip",
    options=LavaOptions,
    make=_emitted,
    start=later("nirbridge.emitters.lava.runtime.probes:run_with_probes"),
    one_sample_at_a_time=True,
    carries=ALL,
)
