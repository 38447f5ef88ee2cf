"""Readers that violate each rule on purpose, to test that the watch detects them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from nirbridge.errors import FileError
from tests.fuzz.choices import Choices
from tests.fuzz.targets import Target


def _bytes(c: Choices) -> bytes:
    return c.bytes(4)


def _other_exception(path: Path) -> object:
    return {}[path.name]


def _loop(path: Path) -> object:
    while True:
        pass


def _memory(path: Path) -> object:
    try:
        return np.ones(2**28)
    except MemoryError:
        raise FileError.of("file", "is damaged") from None


def _memory_taken_for_damage(path: Path) -> object:
    try:
        np.ones(2**28)
    except MemoryError:
        found = "cannot be read"
    raise FileError.of("file", found)


def _foreign(path: Path) -> object:
    return Path("/etc/hostname").exists() and Path("/etc/passwd").read_bytes()


def _link(path: Path) -> object:
    """Through the HDF5 library, of which Python's audit events tell nothing."""
    with h5py.File("decoy.h5", "r") as file:
        return list(file)


def _write(path: Path) -> object:
    return path.with_name("left.txt").write_text("x")


def _control(path: Path) -> object:
    raise FileError.of("file 'a\nb'", "is damaged")


def _crash(path: Path) -> object:
    os.abort()


TRAPS: dict[str, tuple[Callable[[Path], object], str]] = {
    "exception": (_other_exception, "KeyError"),
    "loop": (_loop, "TooLong"),
    "memory": (_memory, "over 1,073,741,824 bytes"),
    "swallowed": (_memory_taken_for_damage, "over 1,073,741,824 bytes"),
    "foreign": (_foreign, "the foreign file"),
    "link": (_link, "decoy.h5"),
    "write": (_write, "left.txt"),
    "control": (_control, "control characters"),
    "crash": (_crash, "crash"),
}


def trap(name: str) -> Target:
    """A target whose reader does the thing of that name."""
    return Target(name, _bytes, TRAPS[name][0], (), (), 0, "a.bin")
