"""Weights of a trained module from a file of torch or safetensors, as people save them; no code of the file is run."""

from __future__ import annotations

import os
import shlex
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import IO, Any

from nirbridge.errors import Diagnostic, FileError, counted, quoted, type_text
from nirbridge.files.regular import open_regular
from nirbridge.files.safetensors import SUFFIX, load_safetensors
from nirbridge.importers.neuron_specs import quietly

WEIGHTS = (".pt", ".pth", ".ckpt", ".safetensors")
"""Endings of files that hold the weights of a module."""
_SAVE = "save it with torch.save(model.state_dict(), PATH)"
_NESTED = ("state_dict", "model_state_dict", "model", "net")
_DEEPEST = 4
"""How many dictionaries a file may put around that of the tensors."""
_PREFIXES = ("module.", "model.", "net.")
"""Of DataParallel, of Lightning modules, and of modules that hold the network in an attribute."""
_COMPILED = "_orig_mod."
"""Within the names of a module that torch.compile has wrapped, as a whole or in parts."""
_SHOWN = 50
_LIMIT = "tensors and plain containers alone are read (weights_only=True), since other objects can run code"


def load_weights(module: Any, path: str | Path) -> tuple[str, ...]:
    """Gives a torch module the parameters and buffers of a file; returns what was found on the way, in sentences.

    The file is one of ``torch.save(module.state_dict(), path)``, a checkpoint that holds such a dictionary (of
    Lightning, or any other part that is one; of several ``state_dict``, ``model_state_dict``, ``model``, ``net``), or
    a ``.safetensors`` file. Files of torch are read with ``weights_only=True``: objects beside the tensors are neither
    built nor run. Prefixes of names that wrappers add (``module.``, ``_orig_mod.``, ``model.``,
    ``net.``) are removed where the module has none, and so is any other that all names have.

    Raises:
        FileError: anything else; names that are missing, unexpected or of another shape, every one.
    """
    subject = f"weights {quoted(Path(path).name)}"
    state, notes = _read(path, subject)
    own = module.state_dict()
    state, prefix, more = _renamed(own, state, subject)
    unused = {name: own[name] for name in own if name in state and _shape(own[name]) == (0,) != _shape(state[name])}
    if unused:  # of neurons before the first run, as in Sinabs
        more.append(f"left out: {counted(len(unused), 'state')} of a run, {quoted(next(iter(unused)))} first")
        state = {**state, **unused}
    after = f", names after {quoted(prefix)}" if prefix else ""
    problems = list(_mismatches(own, state, subject + after))
    if problems:
        left = len(problems) - _SHOWN
        rest = [Diagnostic(subject, f"{left:,} more names do not match")] if left > 0 else []
        raise FileError(*problems[:_SHOWN], *rest)
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        reason = quoted(str(error).strip().splitlines()[-1].strip(), 120)[1:-1]
        raise FileError.of(subject, f"the module does not take them ({reason})", "", _SAVE) from error
    now = {name: value for name, value in module.state_dict().items() if value.dtype != state[name].dtype}
    rounded = [name for name, value in now.items() if not value.double().equal(state[name].double())]
    if rounded:
        more.append(f"rounded to the module's type: {quoted(rounded[0])}, {counted(len(rounded), 'name')} in all")
    return tuple(f"{subject}: {note}" for note in (*notes, *more))


def weights_hint(name: str, *, is_torch: bool = False) -> str:
    """The command that imports the module of a file of weights; empty for a name with another ending."""
    stem, ending = os.path.splitext(name)
    if ending not in WEIGHTS and not is_torch:
        return ""
    options = f"--sample-shape SHAPE -o {shlex.quote(stem + '.nir')}"
    return f"import its module: nirbridge import FILE.py:ATTR --weights {shlex.quote(name)} {options}"


# -- the file ------------------------------------------------------------------------------------------------------


class _Object:
    """Stands for an object of a class that torch does not read: keeps nothing of it, and runs nothing."""

    is_module = False

    def __new__(cls, *args: object, **kwargs: object) -> _Object:
        return object.__new__(cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Takes anything."""

    def __setstate__(self, state: object) -> None:
        self.is_module = isinstance(state, Mapping) and "_parameters" in state


def _read(path: str | Path, subject: str) -> tuple[Mapping[str, Any], list[str]]:
    """The tensors by name, and what was found beside them."""
    import torch

    if str(path).endswith(f"{SUFFIX}.index.json"):
        step = "load the files that it names with safetensors.torch.load_file, and save them as one with save_file"
        raise FileError.of(subject, "it is the index of several files", "one file is read", step)
    if str(path).endswith(SUFFIX):
        arrays = load_safetensors(path, subject)
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}, []
    try:
        with open_regular(path, subject, "a file of torch.save") as file, quietly():  # warnings of old formats of torch
            content = _content(file)
    except FileError:
        raise
    except Exception as error:  # pickle, zip and torch raise anything for a file that is not theirs
        raise FileError.of(subject, f"cannot be read ({_first_line(error)})", _LIMIT, _SAVE) from error
    return _tensors(content, subject)


def _content(file: IO[bytes]) -> Any:
    """What a file holds, with an ``_Object`` for each object of a class that torch does not know as harmless.

    Classes of the file are looked up by name in a list of stand-ins, never imported.
    """
    import torch
    from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except Exception:
        file.seek(0)
        unknown = get_unsafe_globals_in_checkpoint(file)
        if not unknown:
            raise
    stand_ins: list[Any] = [(OrderedDict if name.endswith(".AttributeDict") else _Object, name) for name in unknown]
    file.seek(0)
    with safe_globals(stand_ins):  # AttributeDict: the hyperparameters of Lightning, a subclass of dict
        return torch.load(file, map_location="cpu", weights_only=True)


def _tensors(content: Any, subject: str, *, depth: int = 0) -> tuple[Mapping[str, Any], list[str]]:
    """The dictionary of tensors that a file is, or that it holds; ``depth``: of how many others it is part."""
    if isinstance(content, _Object) or not isinstance(content, Mapping):
        raise _refusal(subject, "it", content)
    other = next((name for name, value in content.items() if not _is_tensor(name, value)), None)
    if other is None:
        return content, []
    parts = {name: part for name, part in content.items() if isinstance(part, Mapping) and part}
    parts = {name: part for name, part in parts.items() if all(_is_tensor(*item) for item in part.items())}
    for name in (*_NESTED, *(parts if len(parts) == 1 else ())):
        part = content.get(name)
        if name in parts:
            others = ", ".join(quoted(each) for each in parts if each != name)
            return parts[name], [f"its part {quoted(name)} is read" + (f", not {others}" if others else "")]
        if isinstance(part, _Object):
            raise _refusal(subject, quoted(name), part)
        if depth < _DEEPEST and isinstance(part, Mapping) and any(each in part for each in _NESTED):
            return _tensors(part, subject, depth=depth + 1)
    raise _refusal(subject, quoted(next(iter(parts), other)), content[next(iter(parts), other)])


def _is_tensor(name: object, value: object) -> bool:
    import torch

    return isinstance(name, str) and isinstance(value, torch.Tensor)


def _refusal(subject: str, place: str, value: Any) -> FileError:
    if isinstance(value, _Object) and value.is_module:
        hint = "where its code is: torch.save(torch.load(PATH, weights_only=False).state_dict(), NEW_PATH)"
        return FileError.of(subject, f"{place} is a whole module, pickled", "reading it would run its code", hint)
    if isinstance(value, _Object):
        return FileError.of(subject, f"{place} is an object", _LIMIT, _SAVE)
    if isinstance(value, Mapping) and value and all(_is_tensor(*item) for item in value.items()):
        found = f"{place} is one of several parts with weights"
        return FileError.of(subject, found, f"one is read, or the first of {', '.join(_NESTED)}", _SAVE)
    if place == "it":
        return FileError.of(subject, f"holds {type_text(value)}", "a dictionary of tensors by name", _SAVE)
    found = f"{place} is of type {type(value).__name__}"
    return FileError.of(subject, found, "a dictionary of tensors by name", _SAVE)


# -- names ---------------------------------------------------------------------------------------------------------


def _renamed(
    own: Mapping[str, Any], state: Mapping[str, Any], subject: str
) -> tuple[Mapping[str, Any], str, list[str]]:
    """The tensors by the module's own names, the prefix that was removed for it, and notes.

    The prefix that most of the module's names are found after. If all are, the others belong to other parts (a loss,
    a teacher) and are left out, after a known prefix; any other has to be that of every name. It is added instead where
    the module is the wrapper.
    """
    notes: list[str] = []
    plain = {name.replace(_COMPILED, ""): value for name, value in state.items()}
    if plain.keys() != state.keys() and len(plain) == len(state) and not any(_COMPILED in name for name in own):
        state, notes = plain, [f"{quoted(_COMPILED)} is removed from its names"]
    prefixes = ["".join(parts) for n in range(4) for parts in product(_PREFIXES, repeat=n)]
    prefix = max(prefixes, key=lambda p: sum(p + name in state for name in own))
    if not all(prefix + name in state for name in own):
        fitting = [p for p in _before(own, state) if all(p + name in state for name in own)]
        if len(fitting) > 1:
            found = f"the module's names are found after {' and after '.join(map(quoted, fitting))}"
            raise FileError.of(subject, found, "one part is this module's", "save the state_dict() of that part")
        prefix = fitting[0] if fitting and all(name.startswith(fitting[0]) for name in state) else prefix
    if not prefix:
        added = next((p for p in _before(state, own) if {p + name for name in state} == own.keys()), "")
        if not added:
            return state, "", notes
        notes.append(f"{quoted(added)} is added to the start of its names")
        return {added + name: value for name, value in state.items()}, "", notes
    inner = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    others = {name: value for name, value in state.items() if not name.startswith(prefix)}
    notes.append(f"{quoted(prefix)} is removed from the start of its names")
    if own.keys() <= inner.keys() and others:
        notes.append(f"left out: {counted(len(others), 'name')} without it, {quoted(next(iter(others)))} first")
        others = {}
    return others | inner, prefix, notes


def _before(names: Mapping[str, Any], longer: Mapping[str, Any]) -> list[str]:
    """What the first of ``names`` is found after in ``longer``, in order."""
    first = next(iter(names), "")
    return [name.removesuffix(first) for name in longer if first and name.endswith("." + first)]


def _mismatches(own: Mapping[str, Any], state: Mapping[str, Any], subject: str) -> Iterator[Diagnostic]:
    for name in (name for name in own if name not in state):
        yield Diagnostic(subject, f"{quoted(name)} is missing", "the module has it", "save the weights of this module")
    for name in (name for name in state if name not in own):
        yield Diagnostic(subject, f"{quoted(name)} is unexpected", "the module has nothing of that name", _SAVE)
    for name in (name for name in own if name in state):
        stored, expected = _shape(state[name]), _shape(own[name])
        if state[name].is_complex() and not own[name].is_complex():
            limit, hint = "its imaginary part would be lost", "build the module as it was trained"
            yield Diagnostic(subject, f"{quoted(name)} is complex, the module's is not", limit, hint)
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
