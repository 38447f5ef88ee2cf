"""Packages of the second environment, which `make test-stack` sets up; elsewhere their tests are skipped."""

from __future__ import annotations

import importlib.util
import os

import pytest

REQUIRED = "NIRBRIDGE_STACK"
"""Where it is ``required``, a package that is absent is an error."""


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skips the tests of a module without these packages, with a reason that names them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing and os.environ.get(REQUIRED) == "required":
        raise ModuleNotFoundError(f"the second environment lacks {', '.join(missing)}")
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed: make test-stack")
