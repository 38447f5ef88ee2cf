"""The files of a program for IREE but the compiled module, for a batch and a choice of recorded variables."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nirbridge.emitters.artifact import Artifact, npz_bytes, read_document
from nirbridge.emitters.iree.module import (
    default_records,
    linalg_module,
    module_states,
    program_names,
    stablehlo_module,
)
from nirbridge.emitters.ports import NETWORK, PROGRAM, ProgramNames
from nirbridge.emitters.readme import filled
from nirbridge.errors import ModelError
from nirbridge.files.regular import open_file, template_text
from nirbridge.files.scratch import unnamed_file
from nirbridge.network.model import Network
from nirbridge.network.storage.file import read_network, write_network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import quantized_bytes, read_quantized
from nirbridge.simulators.types import Key

SOURCE, COMPILED, STATES = "network.mlir", "network.vmfb", "states.npz"
REAL = "network.net.npz"
_FIRING, _SILENT = ("LIF", "CubaLIF", "IF"), ("LI", "CubaLI", "I")


def options_record(options: Any) -> dict[str, Any]:
    """The options of an emitter that its program keeps, so that it can be compiled again for another batch."""
    kept = asdict(options)
    del kept["vmfb"]
    return kept


def program_files(
    model: Network | QuantizedNetwork,
    options: Mapping[str, Any],
    *,
    records: Sequence[Key] | None = None,
    notes: str = "",
) -> dict[str, bytes]:
    """Everything but the compiled module.

    Args:
        model: what to emit.
        options: as of ``options_record``.
        records: variables of populations that are results beside the outputs; None: those of ``default_records``.
        notes: a sentence on the compiled module for the README.
    """
    wanted = default_records(model) if records is None else tuple(sorted({*records, *default_records(model)}))
    names = program_names(model, options["dtype"], {"options": dict(options)})
    module = (linalg_module if options["source"] == "linalg" else stablehlo_module)(model, names, options, wanted)
    names = program_names(model, options["dtype"], {"options": dict(options), "module": module.facts()})
    names = replace(names, states=module_states(model, module, options["dtype"]))
    return {
        SOURCE: module.text.encode("utf-8"),
        STATES: npz_bytes({f"state{k}": values for k, values in enumerate(module.states)}),
        PROGRAM: names.as_json(),
        **_stored(model),
        "run.py": run_text().encode(),
        "compile.py": compile_text(options).encode(),
        "README.md": readme_text(names, options, notes).encode(),
    }


def _stored(model: Network | QuantizedNetwork) -> dict[str, bytes]:
    """The network as a file of nirbridge; no file of a network beyond the limits of the format."""
    if isinstance(model, QuantizedNetwork):
        return {NETWORK: quantized_bytes(model)}
    with unnamed_file(REAL) as path:
        try:
            write_network(_named_as_stored(model), path)
        except ModelError:
            return {}
        with open_file(path) as file:
            return {REAL: file.read()}


def _named_as_stored(network: Network) -> Network:
    """The network with kinds of neurons that a file has: a LIF without a threshold is an LI there."""
    kinds = dict(zip(_FIRING, _SILENT, strict=True))
    back = {silent: firing for firing, silent in kinds.items()}
    populations = []
    for p in network.populations:
        table = back if p.neuron.fires else kinds
        populations.append(replace(p, neuron=replace(p.neuron, kind=table.get(p.neuron.kind, p.neuron.kind))))
    return replace(network, populations=tuple(populations))


def stored_model(files: Mapping[str, bytes]) -> Network | QuantizedNetwork | None:
    """The network of a program; None where it has none."""
    name = next((name for name in (NETWORK, REAL) if name in files), None)
    if name is None:
        return None
    with unnamed_file(name, files[name]) as path:
        return (read_quantized if name == NETWORK else read_network)(path, max_bytes=sys.maxsize)


def program_facts(program: Artifact) -> dict[str, Any]:
    """``program.json``. Raises FileError."""
    return read_document(program, PROGRAM, {"module": dict[str, Any], "options": dict[str, Any]})


# -- scripts -------------------------------------------------------------------------------------------------------
# The scripts and the README.

TEMPLATES = Path(__file__).with_name("templates")
CPU = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
ORDER = ("--iree-llvmcpu-reassociate-fp-reductions=false",)
"""Sums are added in the order of the module; IREE's default is any order."""
TILING = ("--iree-opt-data-tiling=true", "--iree-dispatch-creation-data-tiling=true")
"""Weights are stored in blocks of registers: a product of 32 samples takes 0.43 of its time. Sums keep their order."""
VULKAN = ("--iree-hal-target-device=vulkan",)
WIDE = ("--iree-input-demote-f64-to-f32=false", "--iree-input-demote-i64-to-i32=false")
"""Numbers keep their 64 bits; by default IREE makes 32 of them."""
AVX = "--iree-llvmcpu-target-cpu-features=+avx"
"""AVX comes without fused multiply-add, which rounds once where the reference rounds twice."""


def compile_flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The options of ``iree-compile``; without a processor, ``compile.py`` adds ``AVX`` on x86."""
    source = (f"--iree-input-type={'stablehlo' if options['source'] == 'stablehlo' else 'none'}", *WIDE)
    if options["device"] == "vulkan-spirv":
        return (*source, *VULKAN)
    cpu = (f"--iree-llvmcpu-target-cpu={options['cpu']}",) if options["cpu"] else ()
    return (*source, *CPU, *ORDER, *TILING, *cpu)


def template(name: str) -> str:
    """The text of a template."""
    return template_text(TEMPLATES / f"{name}.txt")


def run_text() -> str:
    """``run.py``: the same for every program."""
    return template("run.py")


def compile_text(options: Mapping[str, Any]) -> str:
    """``compile.py``."""
    plain = options["device"] == "llvm-cpu" and not options["cpu"]
    flags = json.dumps(compile_flags(options), indent=4)
    return filled(template("compile.py"), {"FLAGS": flags, "AVX": repr(AVX) if plain else repr("")})


def readme_text(names: ProgramNames, options: Mapping[str, Any], note: str) -> str:
    """``README.md``."""
    numbers = names.facts["numbers"]
    module = names.facts["module"]
    marks = {
        "NUMBERS": numbers if numbers != "integers" else "the integers of a chip",
        "PORTS": names.table(),
        "DEVICE": options["device"],
        "SOURCE": "StableHLO" if options["source"] == "stablehlo" else "linalg",
        "BATCH": str(module["batch"]),
        "STEPS": "any number of" if module["steps"] is None else str(module["steps"]),
        "NOTE": f"There is {note}.\n\n" if note else "",
        "NETWORK": "network.q.npz" if numbers == "integers" else "network.net.npz",
        "FLAGS": " ".join(compile_flags(options)),
    }
    return filled(template("README.md"), marks)
