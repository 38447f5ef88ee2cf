"""Lazy loading of attributes by name: a module is imported only when its attribute is used."""

from __future__ import annotations

import importlib
from typing import Any


def load_attribute(where: str) -> Any:
    """The attribute that ``where`` names as ``"module:attribute"``; its module is imported now.

    Raises:
        ImportError: no such module, or the module cannot be imported.
        ValueError: an empty name of a module.
        AttributeError: the module has no such attribute.
    """
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)
