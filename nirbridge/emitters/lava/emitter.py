"""Lava as a target, in the form that plugins have (``nirbridge.plugins.Emitter``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact
from nirbridge.errors import instance_of
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Probe, Recording

TAKES = (QuantizedNetwork, MappedNetwork)


@dataclass(frozen=True, slots=True)
class LavaOptions:
    """How a Lava program is emitted.

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
        """See ``nirbridge.emitters.lava.emit.emit``; many processes are slow."""
        from nirbridge.emitters.lava.emit import emit
        from nirbridge.mapping.integers import integers_of

        known = instance_of(model, TAKES, "model of emitter 'lava'", "quantize the network for a chip")
        chosen = LavaOptions() if options is None else instance_of(options, LavaOptions, "options of emitter 'lava'")
        if isinstance(known, MappedNetwork):
            return emit(integers_of(known), mapped=known, per_core=True, floating=chosen.floating)
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
        from nirbridge.emitters.lava.runtime.probes import checked_inputs, requested
        from nirbridge.emitters.lava.runtime.run import run_program

        known = instance_of(artifact, Artifact, "program of emitter 'lava'")
        wanted = requested(known, record)
        arrays, count = checked_inputs(known, inputs, steps)
        ran = run_program(known, arrays, steps=count, record=wanted.texts, progress=progress)
        return wanted.recording(ran)


LAVA = LavaEmitter()
