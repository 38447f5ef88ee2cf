"""What a ``.nir`` file says of itself before its values are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nirbridge.errors import quoted
from nirbridge.files.places import file_name
from nirbridge.importers.nirfile.hdf5.items import text_of
from nirbridge.importers.nirfile.hdf5.scan import ScanLimits, ScannedFile
from nirbridge.importers.nirfile.reader import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_EDGES,
    DEFAULT_MAX_NODES,
    Path,
    draft_of,
    open_scanned,
)
from nirbridge.network.nir.fields import ELEMENTWISE, kind_of


def check_form(path: Path) -> None:
    """Raise FileError for a file that is no graph of NIR; its shapes are not judged."""
    with _scanned(path, DEFAULT_MAX_BYTES) as (scanned, limits):
        draft_of(scanned, limits)


def stored_form(path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> tuple[str | None, frozenset[tuple[str, str]]]:
    """The version of nir that wrote a file, None where it does not say, and (node, parameter) left to a default.

    Raises FileError.
    """
    with _scanned(path, max_bytes) as (scanned, limits):
        leaf = scanned.root.leaf("version")
        version = text_of(leaf) if leaf is not None and leaf.content == "text" and leaf.size == 1 else None
        return version, frozenset(_defaults(draft_of(scanned, limits)[0], ""))


def _defaults(graph: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Parameters that are no array before the values are read, named as in a flat graph."""
    for name, node in graph.nodes.items():
        if kind_of(node) == "NIRGraph":
            yield from _defaults(node, f"{prefix}{name}.")
        for field in ELEMENTWISE.get(kind_of(node), ()):
            if not isinstance(getattr(node, field, None), np.ndarray):
                yield prefix + name, field


@contextmanager
def _scanned(path: Path, max_bytes: int) -> Iterator[tuple[ScannedFile, ScanLimits]]:
    limits = ScanLimits(max_bytes, DEFAULT_MAX_NODES, DEFAULT_MAX_EDGES)
    with open_scanned(path, quoted(file_name(path)), limits, "a .nir file", "write it again with nir.write") as scanned:
        yield scanned, limits
