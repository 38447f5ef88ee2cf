"""Weights of a trained module from a file of torch; no code of the file is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nirbridge.errors import Diagnostic, FileError, quoted, type_text
from nirbridge.files.regular import open_regular
from nirbridge.importers.neuron_specs import quietly

_SAVE = "save it with torch.save(model.state_dict(), PATH)"
_NESTED = ("state_dict", "model_state_dict", "model", "net")
_SHOWN = 50


def load_weights(module: Any, path: str | Path) -> None:
    """Gives a torch module the parameters and buffers of a file that ``torch.save(module.state_dict(), path)`` wrote.

    The file is read with ``weights_only=True``: tensors, numbers and plain containers, never an object that runs code.

    Raises:
        FileError: anything else; names that are missing, unexpected or of another shape, every one.
    """
    subject = f"weights {quoted(Path(path).name)}"
    state = _read(path, subject)
    problems = list(_mismatches(module.state_dict(), state, subject))
    if problems:
        more = len(problems) - _SHOWN
        rest = [Diagnostic(subject, f"{more:,} more names do not match")] if more > 0 else []
        raise FileError(*problems[:_SHOWN], *rest)
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise FileError.of(subject, f"the module does not take them ({_first_line(error)})", "", _SAVE) from error


def _read(path: str | Path, subject: str) -> Mapping[str, Any]:
    import torch

    try:
        with open_regular(path, subject, "a file of torch.save") as file, quietly():  # warnings of old formats of torch
            state = torch.load(file, map_location="cpu", weights_only=True)
    except FileError:
        raise
    except Exception as error:  # pickle, zip and torch raise anything for a file that is not theirs
        limit = "tensors and plain containers alone are read (weights_only=True), since other objects can run code"
        raise FileError.of(subject, f"cannot be read ({_first_line(error)})", limit, _SAVE) from error
    if not isinstance(state, Mapping):
        raise FileError.of(subject, f"holds {type_text(state)}", "a dictionary of tensors by name", _SAVE)
    others = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
    if others:
        inner = next((name for name in _NESTED if isinstance(state.get(name), Mapping)), None)
        hint = _SAVE if inner is None else f"save its part alone: torch.save(checkpoint[{inner!r}], PATH)"
        found = f"{quoted(others[0])} is of type {type(state[others[0]]).__name__}"
        raise FileError.of(subject, found, "a dictionary of tensors by name", hint)
    return state


def _mismatches(own: Mapping[str, Any], state: Mapping[str, Any], subject: str) -> Iterator[Diagnostic]:
    for name in (name for name in own if name not in state):
        yield Diagnostic(subject, f"{quoted(name)} is missing", "the module has it", "save the weights of this module")
    for name in (name for name in state if name not in own):
        yield Diagnostic(subject, f"{quoted(name)} is unexpected", "the module has nothing of that name", _SAVE)
    for name in (name for name in own if name in state):
        stored, expected = _shape(state[name]), _shape(own[name])
        if expected not in (None, stored):
            limit, hint = f"the module has {expected}", "build the module as it was trained"
            yield Diagnostic(subject, f"{quoted(name)} is of shape {stored}", limit, hint)


def _shape(value: Any) -> tuple[int, ...] | None:
    """None for a parameter of a lazy module, which has no shape yet."""
    try:
        return tuple(value.shape)
    except RuntimeError:
        return None


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return quoted(text.splitlines()[0] if text else type(error).__name__, 120)[1:-1]
