"""Model files that are no NIR files, by their endings: MLIR, of lava-dl, and nirbridge's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nirbridge.dialect.lower import need_xdsl
from nirbridge.dialect.snn_mlir.grammar import SUFFIX as MLIR
from nirbridge.dialect.snn_mlir.read import read_snn_mlir, text_of
from nirbridge.errors import NirbridgeError
from nirbridge.importers.lava_dl import SUFFIX as LAVA_DL
from nirbridge.importers.lava_dl import load_lava_dl
from nirbridge.network.model import Network, Timing
from nirbridge.network.storage.file import as_requested, is_network_file, load_network_file

IN_DIALECT = "spike.network"
"""The operation that a text of nirbridge's own dialect has, and no text of snn-mlir."""


def load_mlir(
    path: str | Path, timing: Timing | None = None, repairs: Sequence[str] = (), *, max_bytes: int | None = None
) -> Network:
    """The network of a ``.mlir`` file of nirbridge's dialect (needs xDSL) or of snn-mlir.

    Raises:
        ToolMissing: xDSL is not installed.
        FileError: the file cannot be read, or is neither; the place of the fault is named.
        ModelError: a text whose operations contradict each other, each place, or a chip's integers.
        UsageError: repairs, or another timing than the one that the text states.
    """
    subject, text = text_of(path, max_bytes)
    if IN_DIALECT not in text:
        return read_snn_mlir(text, timing, repairs, subject=subject)
    need_xdsl()
    from nirbridge.dialect.module import parse_module
    from nirbridge.dialect.read import module_network

    try:
        network = module_network(parse_module(text))
    except NirbridgeError as error:
        raise type(error)(*(replace(each, subject=f"{subject}, {each.subject}") for each in error.problems)) from None
    return as_requested(network, timing, repairs, subject)


_LOADERS: dict[str, Callable[..., Network]] = {MLIR: load_mlir, LAVA_DL: load_lava_dl}


def network_loader(path: str | Path) -> Callable[..., Network] | None:
    """The function that reads a file, called with its path, timing, repairs and ``max_bytes=``; None: a NIR file."""
    ending = os.path.splitext(os.fsdecode(path))[1]
    return _LOADERS.get(ending) or (load_network_file if is_network_file(path) else None)
