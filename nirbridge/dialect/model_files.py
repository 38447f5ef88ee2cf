"""Model files that are no NIR files, by their endings: of snn-mlir, of lava-dl, and nirbridge's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from nirbridge.dialect.snn_mlir.grammar import SUFFIX as SNN_MLIR
from nirbridge.dialect.snn_mlir.read import load_snn_mlir
from nirbridge.importers.lava_dl import SUFFIX as LAVA_DL
from nirbridge.importers.lava_dl import load_lava_dl
from nirbridge.network.model import Network
from nirbridge.network.storage.file import is_network_file, load_network_file

_LOADERS: dict[str, Callable[..., Network]] = {SNN_MLIR: load_snn_mlir, LAVA_DL: load_lava_dl}


def network_loader(path: str | Path) -> Callable[..., Network] | None:
    """The function that reads a file, called with its path, timing, repairs and ``max_bytes=``; None: a NIR file."""
    ending = os.path.splitext(os.fsdecode(path))[1]
    return _LOADERS.get(ending) or (load_network_file if is_network_file(path) else None)
