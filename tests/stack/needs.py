"""Packages of the second and third environment, set up by `make test-stack` and `make test-compilers`; else skipped."""

from __future__ import annotations

import importlib.util
import os

import pytest

REQUIRED = "NIRBRIDGE_{}"
"""Where the variable of an environment, ``STACK`` or ``COMPILERS``, is ``required``, an absent package is an error."""


def needs(*packages: str, where: str = "stack") -> pytest.MarkDecorator:
    """Skips the tests of a module without these packages, with a reason that names them; ``where``: the environment."""
    missing = [name for name in packages if not _is_there(name)]
    if missing and os.environ.get(REQUIRED.format(where.upper())) == "required":
        raise ModuleNotFoundError(f"the environment of make test-{where} lacks {', '.join(missing)}")
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed: make test-{where}")


def _is_there(name: str) -> bool:
    """Without the package of a module, finding its specification raises."""
    package = name.partition(".")[0]
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec(name) is not None
