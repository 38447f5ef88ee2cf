"""JAX in a process of its own, which a guard ends: it exports modules and runs them, and is never imported here."""

from __future__ import annotations

from collections.abc import Mapping

from nirbridge.emitters.artifact import Artifact, read_document
from nirbridge.emitters.jax.module import TEMPLATES
from nirbridge.emitters.lava.runtime.run import output_of_script
from nirbridge.emitters.ports import PROGRAM, PROGRAM_FIELDS
from nirbridge.emitters.program_sessions import ProgramSession
from nirbridge.emitters.readme import filled
from nirbridge.emitters.script_runs import LIMITS, ScriptTool
from nirbridge.emitters.served_programs import ServedProgram
from nirbridge.files.regular import template_text

JAX_TOOL = ScriptTool("jax", ("jax",), "jax", "JAX")
EXPORT_S = 600.0
is_installed, run_program = JAX_TOOL.is_installed, JAX_TOOL.run_program


def exported_bytes(files: Mapping[str, bytes]) -> bytes:
    """What ``export.py`` of a program writes.

    Raises:
        ToolMissing: jax is not installed.
        ModelError: jax refuses the module, or took longer than ``EXPORT_S``.
    """
    JAX_TOOL.needed()
    return output_of_script(files, "export.py", EXPORT_S, tool=JAX_TOOL.tool)


def open_program(artifact: Artifact) -> ProgramSession:
    """A program that a process of its own keeps compiled, and that runs on from states; the process ends with it.

    Raises:
        ToolMissing: jax is not installed.
        FileError: a program of a version of nirbridge that stated no states.
        ModelError: the process does not start; its log is in the message.
    """
    JAX_TOOL.needed()
    facts = read_document(artifact, PROGRAM, PROGRAM_FIELDS)
    has_input, is_wide = bool(facts["inputs"]), facts["numbers"] != "float32"
    marks = {
        "X64": 'jax.config.update("jax_enable_x64", True)\n' if is_wide else "",
        "STATIC": '("record",)' if has_input else '("record", "steps", "batch")',
        "EXTENT": "{}" if has_input else '{"steps": steps, "batch": (batch,)}',
    }
    served = filled(template_text(TEMPLATES / "served.py.txt"), marks).encode()
    return ProgramSession(artifact, ServedProgram({**artifact.files, "served.py": served}, LIMITS, JAX_TOOL.tool))
