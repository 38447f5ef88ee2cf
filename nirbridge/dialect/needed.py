"""The optional package that the dialect is made of."""

from __future__ import annotations

import importlib.util

from nirbridge.errors import ToolMissing


def need_xdsl() -> None:
    """Raises ToolMissing where xDSL, the extra ``mlir``, is not installed."""
    if importlib.util.find_spec("xdsl") is None:
        raise ToolMissing.of("dialect", "the package xdsl is not installed", "", "install nirbridge[mlir]")
