"""Packages of the second environment, which `make test-stack` sets up; elsewhere their tests are skipped."""

from __future__ import annotations

import importlib.util
import os

import pytest

REQUIRED = "NIRBRIDGE_STACK"
"""Where it is ``required``, a package that is absent is an error."""


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skips the tests of a module without these packages, with a reason that names them."""
    missing = [name for name in packages if not _is_there(name)]
    if missing and os.environ.get(REQUIRED) == "required":
        raise ModuleNotFoundError(f"the second environment lacks {', '.join(missing)}")
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed: make test-stack")


def _is_there(name: str) -> bool:
    """Without the package of a module, finding its specification raises."""
    package = name.partition(".")[0]
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec(name) is not None
