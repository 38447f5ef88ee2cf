"""Loops of the searches as machine code, for tests that call them one by one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from nirbridge.partitioner.search.irregular.jit import compiled


class Machine:
    """A module whose marked functions are compiled."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return compiled(found) if hasattr(found, "compile_options") else found
