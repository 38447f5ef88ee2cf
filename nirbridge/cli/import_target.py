"""``PACKAGE.MODULE:ATTR`` or ``FILE.py:ATTR`` as the torch module that it names; the user's own code runs here."""

from __future__ import annotations

from typing import Any

from nirbridge.errors import FileError, UsageError, nearest, quoted


def module_of(target: str, *, of_torch: bool) -> Any:
    """The module that PACKAGE.MODULE:ATTR or FILE.py:ATTR names; a class or a function is called."""
    import inspect

    place, colon, attribute = target.rpartition(":")
    if not colon or not place or not attribute:
        limit = "PACKAGE.MODULE:ATTR or FILE.py:ATTR"
        raise UsageError.of(quoted(target), "names no module and attribute", limit, "for example my_net.py:net")
    module = _attribute(_loaded(place), attribute, place)
    if isinstance(module, type) or inspect.isfunction(module):
        try:
            module = module()
        except Exception as error:
            text = f"calling it without arguments fails ({type(error).__name__}: {error})"
            raise UsageError.of(quoted(target), text, "", "name a module, or a function without arguments") from error
    if not of_torch:
        return module
    import torch

    if not isinstance(module, torch.nn.Module):
        text = f"is of type {type(module).__name__}, not a torch module"
        raise UsageError.of(quoted(target), text, "", "name a torch.nn.Module, a class or a function that returns one")
    return module


def _loaded(place: str) -> Any:
    """The Python module of a file or a dotted name; the user's own code runs here."""
    import importlib
    import os
    import sys

    folder = os.path.dirname(os.path.abspath(place)) if place.endswith(".py") else os.getcwd()
    if place.endswith(".py") and not os.path.isfile(place):
        raise FileError.of(quoted(place), "there is no such file", "", "give the path of a Python file")
    sys.path.insert(0, folder)
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        name = os.path.splitext(os.path.basename(place))[0]
        return _run_file(name, place)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise anything, even SystemExit
        found = f"importing it fails ({type(error).__name__}: {error})"
        raise UsageError.of(quoted(place), found, "", "make it import on its own first") from error
    finally:
        sys.path.remove(folder)


def _run_file(name: str, path: str) -> Any:
    """Runs a file as the module ``name``, which pickles and dataclasses of it can find."""
    import importlib.machinery
    import importlib.util
    import sys

    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    loader.exec_module(module)
    return module


def _attribute(module: Any, dotted: str, place: str) -> Any:
    value = module
    for part in dotted.split("."):
        if not hasattr(value, part):
            near = nearest(part, [n for n in dir(value) if not n.startswith("_")], 3)
            step = f"did you mean {' or '.join(quoted(n) for n in near)}?" if near else "see what it defines"
            raise UsageError.of(quoted(place), f"it has no {quoted(part)}", "", step)
        value = getattr(value, part)
    return value
