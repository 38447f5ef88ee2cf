"""Values that the scan copies itself equal those read by the HDF5 library."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from nirbridge.importers.nirfile.hdf5.items import Leaf
from nirbridge.importers.nirfile.hdf5.scan import ScanLimits, scan_file

TYPES = ("<f4", ">f4", "<f8", ">f8", "<f2", "|i1", "|u1", "<i2", ">i4", "<u8", ">i8")
WAYS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "gzip": {"chunks": (3, 4), "compression": "gzip"},
    "shuffled": {"chunks": (3, 4), "compression": "gzip", "shuffle": True},
    "summed": {"chunks": (3, 4), "compression": "gzip", "fletcher32": True},
    "lzf": {"chunks": (3, 4), "compression": "lzf"},
    "unpacked chunk": {"chunks": (3, 4)},
    "four chunks": {"chunks": (2, 2), "compression": "gzip"},
    "larger chunk": {"chunks": (4, 4), "compression": "gzip", "maxshape": (None, None)},
}
COPIED = {"contiguous", "gzip"}


def leaf_of(file: Any, path: Path, name: str) -> Leaf:
    with path.open("rb") as raw:
        found = scan_file(file, raw.fileno(), ScanLimits(10**6, 100, 100))
    assert not found.problems
    leaf = found.root.leaf(name)
    assert leaf is not None
    return leaf


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("way", WAYS)
def test_numbers(way: str, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    values = np.random.default_rng(3).integers(0, 120, (3, 4)).astype(dtype)
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=values, dtype=dtype, **WAYS[way])
    with h5py.File(path) as file:
        leaf = leaf_of(file, path, "a")
        assert (leaf.stored is not None) is (way in COPIED)
        found = leaf.values()
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert found.flags.writeable
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("count", [0, 1, 128, 129])
def test_only_small_datasets_are_copied(count: int, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(count, dtype=np.float64)
    with h5py.File(path) as file:
        leaf = leaf_of(file, path, "a")
        assert (leaf.stored is None, leaf.dataset is None) == ((False, True) if 0 < count <= 128 else (True, False))
        np.testing.assert_array_equal(leaf.values(), np.arange(count))


def test_scalars_unwritten_values_and_odd_types_are_as_the_library_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    odd = h5py.h5t.STD_I32LE.copy()
    odd.set_precision(12)
    odd.set_offset(4)
    with h5py.File(path, "w") as file:
        file["scalar"] = 2.5
        file.create_dataset("unwritten", (3,), "f4", fillvalue=7.0)
        h5py.h5d.create(file.id, b"odd", odd, h5py.h5s.create_simple((2,))).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.array([5, -3], np.int32)
        )
        file["truth"] = np.array([True, False])
    with h5py.File(path) as file:
        for name in file:
            leaf = leaf_of(file, path, name)
            assert (leaf.stored is not None) is (name == "scalar")
            np.testing.assert_array_equal(leaf.values(), file[name][()])
            assert leaf.values().shape == file[name].shape


def chunk(path: Path, packed: bytes, mask: int = 0) -> None:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("a", (4,), "f8", chunks=(4,), compression="gzip")
        made.id.write_direct_chunk((0,), packed, filter_mask=mask)


def test_a_chunk_that_is_not_whole_is_left_to_the_library(tmp_path: Path) -> None:
    path, values = tmp_path / "a.h5", np.arange(4.0)
    whole = zlib.compress(values.tobytes())
    for packed, mask, is_copied in (
        (whole, 0, True),
        (whole + b"more", 0, True),  # as the library: what lies after the end of the stream is nothing
        (whole[:-1], 0, False),  # its checksum is cut
        (values.tobytes(), 1, False),  # stored without the filter
        (zlib.compress(values[:3].tobytes()), 0, False),  # too short
    ):
        chunk(path, packed, mask)
        with h5py.File(path) as file:
            leaf = leaf_of(file, path, "a")
            assert (leaf.stored is not None) is is_copied
            try:
                expected: Any = file["a"][()]
            except OSError:
                expected = None
            if expected is None:
                with pytest.raises(OSError, match="."):
                    leaf.values()
            elif packed != zlib.compress(values[:3].tobytes()):
                np.testing.assert_array_equal(leaf.values(), expected)


@pytest.mark.parametrize(
    "packed", [zlib.compress(bytes(33)), b"no stream" * 3, zlib.compress(bytes(32))[:-4] + b"xxxx"]
)
def test_a_chunk_that_unpacks_to_more_or_is_damaged_is_refused(packed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    chunk(path, packed)
    with h5py.File(path) as file, path.open("rb") as raw:
        found = scan_file(file, raw.fileno(), ScanLimits(10**6, 100, 100))
    assert len(found.problems) == 1
    assert not found.root.members
