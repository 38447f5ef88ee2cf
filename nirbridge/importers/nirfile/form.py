"""What a ``.nir`` file says of itself before its values are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


def check_form(path: Path) -> None:
    """Raise FileError for a file that is no graph of NIR; its shapes are not judged."""
    with _scanned(path, DEFAULT_MAX_BYTES) as (scanned, limits):
        draft_of(scanned, limits)


def stored_version(path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> str | None:
    """The version of nir that wrote a file, as the file says it; None where it does not. Raises FileError."""
    with _scanned(path, max_bytes) as (scanned, _):
        leaf = scanned.root.leaf("version")
        return text_of(leaf) if leaf is not None and leaf.content == "text" and leaf.size == 1 else None


@contextmanager
def _scanned(path: Path, max_bytes: int) -> Iterator[tuple[ScannedFile, ScanLimits]]:
    limits = ScanLimits(max_bytes, DEFAULT_MAX_NODES, DEFAULT_MAX_EDGES)
    with open_scanned(path, quoted(file_name(path)), limits, "a .nir file", "write it again with nir.write") as scanned:
        yield scanned, limits
