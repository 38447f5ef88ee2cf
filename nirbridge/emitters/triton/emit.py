"""Triton as a target: a network in float32 as kernels for a GPU, layer by layer or all in one launch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, indent
from typing import Annotated, Any, Literal

from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.jax.module import axes
from nirbridge.emitters.ports import PROGRAM, ProgramNames
from nirbridge.emitters.readme import filled
from nirbridge.emitters.script_runs import ScriptTool
from nirbridge.emitters.target import Target
from nirbridge.errors import ModelError, counted
from nirbridge.files.regular import template_text
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL

TEMPLATES = Path(__file__).with_name("templates")
TRITON_TOOL = ScriptTool("triton", ("triton", "torch"), "triton", "Triton")
INDENT = "    "
FORMS = {
    "layers": "One kernel for each layer's time step, launched step by step.",
    "mega": "One kernel for all layers and all time steps, in one launch, each program with samples of its own.",
}


@dataclass(frozen=True, slots=True)
class TritonOptions:
    """Options for emitting kernels of Triton."""

    form: Annotated[Literal["layers", "mega"], "A kernel for each layer's time step, or one for all of them"] = "layers"


def emit(network: Network, options: TritonOptions | None = None) -> Artifact:
    """The kernels of a network, its weights, and scripts that run and compile them; always the same bytes.

    Raises:
        ModelError: no output to compute, or a layer or weights of more elements than a kernel counts.
    """
    from nirbridge.emitters.triton.build import built_kernels

    if not network.outputs:
        raise ModelError.of("network", "has no output", "kernels of Triton compute one", "add an output")
    form = (options or TritonOptions()).form
    built, names = built_kernels(network)
    marks = {"FORM": form, "FORM_TEXT": FORMS[form], "PORTS": names.table()}
    files = {
        "network.py": filled(_template("network.py"), marks | _network_marks(built, names, form)).encode("ascii"),
        "weights.npz": npz_bytes(built.weights),
        "README.md": filled(_template("README.md"), marks).encode(),
        **{name: _template(name).encode("ascii") for name in ("run.py", "compile.py")},
        PROGRAM: names.as_json(),
    }
    return make_artifact(files, {"kind": "triton", "schema": 1, "numbers": "float32", "form": form})


def _template(name: str) -> str:
    return template_text(TEMPLATES / f"{name}.txt")


def _network_marks(built: Any, names: ProgramNames, form: str) -> dict[str, str]:
    neurons = sum(math.prod(n.shape) for n in names.nodes)
    kernels = _mega(built.layers) if form == "mega" else _by_layers(built.layers)
    helpers = [block.strip("\n") for block in _template("helpers.py").split("\n\n\n")]
    return {
        "COUNTS": f"{counted(len(names.nodes), 'population')}, {counted(neurons, 'neuron')}",
        "INPUTS": _table(built.inputs),
        "STATES": _table(built.states),
        "RINGS": _table(built.rings),
        "RECORDS": _table(built.records),
        "OUTPUTS": axes([f'"{p.id}"' for p in names.outputs]),
        "HELPERS": "\n\n\n".join(x for x in helpers if f"{x.partition('def ')[2].partition('(')[0]}(" in kernels),
        "KERNELS": kernels,
    }


def _table(rows: Mapping[str, object]) -> str:
    return "{\n" + "".join(f'    "{key}": {value!r},\n' for key, value in rows.items()) + "}"


def _by_layers(layers: Sequence[Any]) -> str:
    """A kernel for each layer: samples along the first axis of the grid, values along the second."""
    texts = [_kernel(layer.key, layer.pointers, "t", layer.text("tl.program_id(1) * BLOCK")) for layer in layers]
    rows = "".join(f"    ({layer.key}_kernel, {layer.size}),\n" for layer in layers)
    return "\n\n\n".join([*texts, f"KERNELS = (\n{rows})"])


def _mega(layers: Sequence[Any]) -> str:
    """One kernel: all layers in order within the loop over time; after each, all threads have its values."""
    loops = [
        f"for first in range(0, {layer.size}, BLOCK):\n{indent(layer.text('first'), INDENT)}\ntl.debug_barrier()"
        for layer in layers
    ]
    pointers = dict.fromkeys(name for layer in layers for name in layer.pointers)
    text = _kernel(
        "network", pointers, "steps", "\n".join(["for t in range(steps):", *(indent(x, INDENT) for x in loops)])
    )
    return f"{text}\n\n\nKERNELS = ((network_kernel, {max(layer.size for layer in layers)}),)"


def _kernel(name: str, pointers: Iterable[str], time: str, body: str) -> str:
    """A kernel, compiled once for whatever ``time``."""
    own = fill(", ".join(pointers), 116, initial_indent=INDENT, subsequent_indent=INDENT)
    others = f"{time}, batch, ROWS: tl.constexpr, BLOCK: tl.constexpr"
    head = f'@triton.jit(do_not_specialize=["{time}"])\ndef {name}_kernel(\n{own},\n{INDENT}{others},\n):'
    return f"{head}\n{indent(body, INDENT)}"


TRITON = Target(
    name="triton",
    summary="kernels of Triton for a GPU: one for each layer's time step, or one for all of them",
    takes=(Network,),
    hint="emit the network itself",
    options=TritonOptions,
    make=emit,
    start=TRITON_TOOL.run_program,
    carries=ALL,
)
