"""C99 as a target: a quantized network as source files that need a compiler alone."""

from __future__ import annotations

from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.c.helpers import HELPERS
from nirbridge.emitters.c.main_file import main_text, readme_text, template
from nirbridge.emitters.c.planning import c_plan
from nirbridge.emitters.c.render import header, source_text, weights_header
from nirbridge.emitters.c.tables import tables
from nirbridge.emitters.target import Target, later
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import quantized_bytes

NETWORK = "network.q.npz"
BUILDS = ("model", "main.o", "model.o")
"""Files that make adds."""


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


C = Target(
    name="c",
    summary="C99 that a compiler alone builds, in the integers of a chip",
    takes=(QuantizedNetwork,),
    hint="quantize the network for a chip",
    make=lambda quantized, options: emit(quantized),
    start=later("nirbridge.emitters.c.runtime.run:run_program"),
    one_sample_at_a_time=True,
)
