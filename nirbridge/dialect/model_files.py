"""Model files that are no NIR files, by their endings: MLIR, of lava-dl, and nirbridge's own; quantized ones, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from nirbridge.dialect.lower import need_xdsl
from nirbridge.dialect.snn_mlir.grammar import SUFFIX as MLIR
from nirbridge.dialect.snn_mlir.read import read_snn_mlir, text_of
from nirbridge.errors import FileError, ModelError, NirbridgeError
from nirbridge.files.npy import MAX_BYTES
from nirbridge.importers.lava_dl import SUFFIX as LAVA_DL
from nirbridge.importers.lava_dl import load_lava_dl
from nirbridge.network.model import Network, Timing
from nirbridge.network.storage.file import as_requested, is_network_file, load_network_file
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import SUFFIX as QUANTIZED
from nirbridge.quantization.storage.file import read_quantized

MlirKind = Literal["network", "quantized", "snn-mlir", "other"]


def mlir_kind(text: str) -> MlirKind:
    """The kind of an MLIR text: nirbridge's dialect in real numbers or in a chip's integers, snn-mlir, or another."""
    if "spike.network" in text or "!spike.value<" in text:  # one of the two may be misspelt
        return "quantized" if 'numbers = "int' in text or 'numbers" = "int' in text else "network"
    return "snn-mlir" if "snn." in text else "other"


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
    if mlir_kind(text) == "snn-mlir":
        return read_snn_mlir(text, timing, repairs, subject=subject)
    model = _model(text, subject)
    if isinstance(model, Network):
        return as_requested(model, timing, repairs, subject)
    hint = "read it with nb.load_quantized, or with nirbridge emit"
    raise ModelError.of(subject, "a network in a chip's integers", "one in real numbers is expected", hint)


def load_quantized(path: str | Path, *, max_bytes: int | None = None) -> QuantizedNetwork:
    """The network in integers of a ``.q.npz`` file, or of a ``.mlir`` file of nirbridge's dialect (needs xDSL).

    Raises:
        ToolMissing: xDSL is not installed.
        FileError: the file cannot be read, or is another one; the place of the fault is named.
        ModelError: a text whose operations contradict each other, each place, or a network in real numbers.
    """
    if _ending(path) != MLIR:
        return read_quantized(path, max_bytes=max_bytes or MAX_BYTES)
    subject, text = text_of(path, max_bytes)
    model = _model(text, subject)
    if isinstance(model, QuantizedNetwork):
        return model
    raise ModelError.of(subject, "a network in real numbers", "a chip's integers are expected", "quantize it")


def holds_integers(path: str | Path) -> bool:
    """True for the name of a ``.q.npz`` file, and for a ``.mlir`` file in a chip's integers. Raises FileError."""
    is_quantized = os.fsdecode(path).endswith(QUANTIZED)
    return is_quantized or (_ending(path) == MLIR and mlir_kind(text_of(path, None)[1]) == "quantized")


def _model(text: str, subject: str) -> Network | QuantizedNetwork:
    """The model of a text in the dialect; faults name the file."""
    if mlir_kind(text) == "other":
        limit = "a network of nirbridge's dialect or of snn-mlir"
        found = "another module of MLIR" if text.strip() else "an empty file"
        raise FileError.of(subject, found, limit, "make one with nirbridge lower --until dialect")
    need_xdsl()
    from nirbridge.dialect.module import parse_module
    from nirbridge.dialect.read import module_model

    try:
        return module_model(parse_module(text))
    except NirbridgeError as error:
        raise type(error)(*(replace(each, subject=f"{subject}, {each.subject}") for each in error.problems)) from None


LOADERS: dict[str, Callable[..., Network]] = {MLIR: load_mlir, LAVA_DL: load_lava_dl}
"""The readers of files in the formats of others, by ending."""


def network_loader(path: str | Path) -> Callable[..., Network] | None:
    """The function that reads a file, called with its path, timing, repairs and ``max_bytes=``; None: a NIR file."""
    return LOADERS.get(_ending(path)) or (load_network_file if is_network_file(path) else None)


def source_of(path: str | Path) -> str:
    """The project whose format a ``.mlir`` or ``.net`` file has. Raises FileError."""
    if _ending(path) == LAVA_DL:
        return "lava-dl"
    return "snn-mlir" if mlir_kind(text_of(path, None)[1]) == "snn-mlir" else "the dialect of nirbridge"


def _ending(path: str | Path) -> str:
    return os.path.splitext(os.fsdecode(path))[1]
