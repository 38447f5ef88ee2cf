"""Finds a C compiler, and compiles with it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nirbridge.errors import ModelError, ToolMissing, UsageError, quoted

NAMES = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O3")
COMPILE_S = 300.0
_LOG = 4000


def find_compiler() -> tuple[str, ...]:
    """The command of a C compiler: ``$CC``, else cc, gcc or clang, else that of the package ziglang.

    Raises:
        ToolMissing: there is none.
        UsageError: ``$CC`` names none.
    """
    named = shlex.split(os.environ.get("CC", ""))
    if named:
        if shutil.which(named[0]) is None:
            hint = "correct or unset the variable CC, which names it"
            raise UsageError.of(f"compiler {quoted(named[0])}", "is not on this machine", "", hint)
        return tuple(named)
    for name in NAMES:
        if shutil.which(name) is not None:
            return (name,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    hint = "install gcc (Debian: apt install gcc libc6-dev), or: pip install ziglang"
    raise ToolMissing.of("emitter 'c'", "no C compiler on this machine", "programs of C are compiled to be run", hint)


def compile_program(
    folder: Path, sources: Sequence[str], out: str, flags: Sequence[str] = FLAGS, compiler: Sequence[str] | None = None
) -> Path:
    """Compiles files of a folder; returns the program.

    Raises:
        UsageError: no compiler.
        ModelError: the compiler refuses the files; its messages are in ``log``.
    """
    command = [*(compiler or find_compiler()), *flags, "-o", out, *sources]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=COMPILE_S, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError.of(
            "program", f"was not compiled within {COMPILE_S:.0f} s", "", "emit a smaller network"
        ) from None
    if done.returncode != 0:
        log = done.stderr.decode("utf-8", "replace")[:_LOG].strip()
        shown = "".join(c if c.isprintable() or c == "\n" else "?" for c in log)
        raise ModelError.of("program", f"the compiler refused it:\n{shown}", "", "", log=shown)
    return folder / out
