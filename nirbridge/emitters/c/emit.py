"""C99 as a target: a quantized network as source files that need a compiler alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.c.helpers import HELPERS
from nirbridge.emitters.c.main_file import main_text, readme_text, template
from nirbridge.emitters.c.planning import c_plan
from nirbridge.emitters.c.render import header, source_text, weights_header
from nirbridge.emitters.c.tables import tables
from nirbridge.errors import instance_of
from nirbridge.mapping.model import Model
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import quantized_bytes
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Probe, Recording

NETWORK = "network.q.npz"
BUILDS = ("model", "main.o", "model.o")
"""Files that make adds."""


@dataclass(frozen=True, slots=True)
class COptions:
    """Options for emitting a C program: none so far."""


def emit(quantized: QuantizedNetwork) -> Artifact:
    """The C program of a quantized network; the same network gives the same bytes.

    Raises:
        ModelError: what C cannot hold: more than 20 million weights, 64-bit sums that may overflow.
    """
    plan = c_plan(quantized)
    found = list(tables(plan))
    texts = {
        "model.h": header(plan, template("model.h")),
        "model.c": source_text(plan, HELPERS),
        "weights.h": weights_header(found),
        "main.c": main_text(plan),
        "Makefile": template("Makefile"),
        "README.md": readme_text(plan, found),
    }
    files = {path: text.encode("utf-8") for path, text in texts.items()}
    files[NETWORK] = quantized_bytes(quantized)
    facts = {"kind": "c", "schema": 1, "builds": list(BUILDS), "tables_bytes": sum(t.bytes for t in found)}
    return make_artifact(files, facts)


@dataclass(frozen=True, slots=True)
class CEmitter:
    """Programs in C99, compiled and run with the compiler of this machine."""

    takes = (QuantizedNetwork,)
    options = COptions
    records = ("s", "u", "v")
    one_sample_at_a_time = True

    def emit(self, model: Model, options: COptions | None = None) -> Artifact:
        """See ``emit``."""
        known = instance_of(model, QuantizedNetwork, "model of emitter 'c'", "quantize the network for a chip")
        if options is not None:
            instance_of(options, COptions, "options of emitter 'c'")
        return emit(known)

    def run(
        self,
        artifact: Artifact,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``run_program``: compiled in a temporary folder, and run with a time limit."""
        from nirbridge.emitters.c.runtime.run import run_program

        program = instance_of(artifact, Artifact, "program of emitter 'c'")
        return run_program(program, inputs, steps=steps, record=record, progress=progress)


C = CEmitter()
