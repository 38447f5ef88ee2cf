"""A lowered module as IREE 3.13 runs it fastest."""

from __future__ import annotations

from nirbridge.dialect.lowering.program import LoweredProgram

_HEAD = "module {"
_LINK = "(@__device_0 -> @__device_0 = {unified_memory = true})"


def iree_text(program: LoweredProgram) -> str:
    """The module with the statement that its one device shares its memory with itself.

    Without it IREE takes each value that the loop over time carries for one of another device, and copies it in
    every time step, the outputs of all time steps among them: the time of a run grows with the square of the time
    steps. Modules with delays stay as they are, since their histories would move within one buffer.
    """
    if any(state.variable.startswith("past") for state in program.states) or not program.text.startswith(_HEAD):
        return program.text
    head = f"module attributes {{stream.topology = #hal.device.topology<links = [{_LINK}]>}} {{"
    return head + program.text[len(_HEAD) :]
