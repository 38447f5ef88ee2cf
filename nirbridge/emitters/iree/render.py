"""The scripts and the README of a program for IREE."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nirbridge.emitters.ports import ProgramNames
from nirbridge.files.regular import template_text

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
    return _filled(template("compile.py"), {"FLAGS": flags, "AVX": repr(AVX) if plain else repr("")})


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
    return _filled(template("README.md"), marks)


def _filled(text: str, marks: Mapping[str, str]) -> str:
    """The template with its marks replaced in one go: no name of a model can be taken for a mark."""
    parts = text.split("@")
    return "".join(part if k % 2 == 0 else marks[part] for k, part in enumerate(parts))
