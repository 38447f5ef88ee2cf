"""JAX in a process of its own, which a guard ends: it exports modules and runs them, and is never imported here."""

from __future__ import annotations

from collections.abc import Mapping

from nirbridge.emitters.lava.runtime.run import output_of_script
from nirbridge.emitters.script_runs import ScriptTool

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
