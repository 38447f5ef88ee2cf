"""Where the user's code compares values, and what it calls them."""

from __future__ import annotations

import sys
from typing import Any

from nirbridge.importers.tracing.structures import torch_tensor, untracked

COMPARING = frozenset({"gt", "ge", "lt", "le", "greater", "greater_equal", "less", "less_equal", "heaviside"})
"""Functions that a neuron may compare its state with."""
_LIBRARIES = frozenset({"nirbridge", "torch"})
_FRAMES = 6
_PLAIN = frozenset({"x", "input", "inputs", "input_", "data", "tensor", "value", "v_minus_th"})
"""Names of arguments of surrogates, which say nothing of a state."""


def is_initial(args: tuple[Any, ...]) -> bool:
    """True for a comparison of a fixed tensor that holds one number throughout, as an initial state does."""
    state: Any = args[0] if args else None
    if not isinstance(state, torch_tensor()) or (
        len(args) > 1 and isinstance(args[1], torch_tensor()) and args[1].ndim
    ):
        return False
    with untracked():
        is_state = state.ndim > 0 and state.is_floating_point() and state.numel() > 1 and not state.requires_grad
        return is_state and bool((state == state.reshape(-1)[0]).all())


def note_place(recorder: Any, *, is_wanted: bool) -> None:
    """Note the place of the latest call in the user's code, and the names of values in its functions."""
    if not is_wanted:
        return
    index = len(recorder.recording.nodes) - 1
    frames: list[Any] = []
    frame: Any = sys._getframe(1)
    while frame is not None and len(frames) < _FRAMES:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _LIBRARIES:
            frames.append(frame)
        frame = frame.f_back
    recorder.recording.places[index] = tuple((f.f_code.co_filename, f.f_code.co_firstlineno, f.f_lasti) for f in frames)
    names = recorder.recording.names
    for frame in frames:
        owner = frame.f_locals.get("self")
        for scope in (vars(owner) if hasattr(owner, "__dict__") else {}, frame.f_locals):
            for name, tensor in scope.items():
                if name in _PLAIN:
                    continue
                value = recorder.values.get(tensor) if isinstance(tensor, torch_tensor()) else None
                if value is not None:
                    names.setdefault((value.node.index, value.output), name)
