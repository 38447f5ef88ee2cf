"""The table of contents of nirbridge: every stage in order, each from frozen values to a new frozen value.

1. ``load``: a file, shapes in words, or a module of a framework as a ``Network``; a chip by name.
2. ``passes``, ``fit``: the network as it will run on the chip, with relays, delays that hold the hops, copies.
3. ``partitioning``, ``map``: slices in cores, cores on the mesh, and the independent checker.
4. ``saved_files``: the map as a file, checked against its model; saved files of any kind.
5. ``quantize``: the network in the chip's integers, calibrated on data, and run.
6. ``emit``: programs for another tool, emitted and run.
7. ``recordings``: inputs and the reference simulation.
8. ``verify``: all of these on the same input, compared.
9. ``profile``: rates measured on data, and what the events cost.
10. ``bench``: one model on every back end that is there, compared and timed.

Only this room knows all stages. Its names are listed in ``__init__.pyi``; their modules are imported when they
are first used.
"""

import ast
import importlib
import pkgutil
from functools import cache


@cache
def _modules() -> dict[str, str]:
    """Name -> the module that defines it, from the stub."""
    stub = ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"")
    return {a.name: str(node.module) for node in stub.body if isinstance(node, ast.ImportFrom) for a in node.names}


def __getattr__(name: str) -> object:
    if name not in _modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_modules()[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules()})
