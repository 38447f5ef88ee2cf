"""Archive members with compression that numpy does not use are refused before they are unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import FileError
from nirbridge.files.npy import load_npz
from nirbridge.mapping.rates import read_rates
from nirbridge.quantization.storage.file import read_quantized as load_quantized
from tests.fuzz import models
from tests.fuzz.archives import npy, npz


def rates(path: Path) -> Any:
    return read_rates(path, models.network())


@pytest.mark.parametrize("read", [load_npz, rates, load_quantized])
@pytest.mark.parametrize("how", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_lzma_and_bzip2(read: Callable[[Path], Any], how: int, tmp_path: Path) -> None:
    data = npz([("in.npy", npy(np.zeros(5)))], how)
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(FileError, match="a member is neither stored nor deflated"):
        read(tmp_path / "a.npz")


def test_a_text_longer_than_numpy_has_texts(tmp_path: Path) -> None:
    header = "{'descr': '<U999999999', 'fortran_order': False, 'shape': (), }"
    (tmp_path / "a.npz").write_bytes(npz([("meta.npy", npy(np.zeros(1), header))]))
    with pytest.raises(FileError, match="not an array of plain numbers"):
        load_npz(tmp_path / "a.npz", text="meta")
