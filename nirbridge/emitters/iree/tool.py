"""IREE's compiler in a process of its own, which a guard ends, and what of IREE is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import partial

from nirbridge.emitters.lava.runtime.run import output_of_script
from nirbridge.emitters.own_time import compile_time
from nirbridge.errors import ModelError, ToolMissing, quoted

TOOL = "IREE"
COMPILE_S = 900.0
"""Longest time of one compilation; networks of the tests take 1 to 3 s."""
HINT = 'pip install "nirbridge[iree]"'


def _has(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


has_compiler = partial(_has, "iree.compiler")
has_runtime = partial(_has, "iree.runtime")


def need(package: str) -> None:
    """Raises ToolMissing where a package of IREE, ``compiler`` or ``runtime``, is not installed."""
    if not _has(f"iree.{package}"):
        raise ToolMissing.of("emitter 'iree'", f"the package iree-base-{package} is not installed", "", HINT)


def compiled(files: Mapping[str, bytes], seconds: float = COMPILE_S) -> bytes:
    """What ``compile.py`` of a program writes.

    Raises:
        ToolMissing: IREE's compiler is not installed.
        ModelError: it refuses the module, ends with a fault, or takes longer than ``seconds``.
    """
    need("compiler")
    try:
        with compile_time():
            return output_of_script(files, "compile.py", seconds, tool=TOOL)
    except ModelError as error:
        raise _shortened(error) from None


def _shortened(error: ModelError) -> ModelError:
    """The first message of the compiler in place of its log, which repeats the module."""
    problem = error.problems[0]
    log = str(problem.ids.get("log", ""))
    first = next((line.partition("error: ")[2] for line in log.splitlines() if "error: " in line), "")
    if not first:
        return error
    return ModelError.of("module", "is refused by iree-compile", quoted(first, 300), "see docs/iree.md", log=log)
