"""AEDAT 2: lines of a header, then an address and a time in microseconds per event, 32 bits each, big-endian.

The address is laid out by the chip that the header names: DVS128 (y in bits 8 to 14, x in 1 to 7, polarity in 0, an
external event in 15), or one of the DAVIS family (y in bits 22 to 30, x in 12 to 21, polarity in 11, an external event
in 10, a sample of a frame in 31). Format: iniVation, "AEDAT 2.0". Row 0 is the lower edge of the picture.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import IO

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import FileError, quoted
from nirbridge.events.model import Events, checked_events

SIGNATURE = b"#!AER-DAT2."
DVS128_SIDE = 128
_HEADER_MAX = 2**22
_LINE = re.compile(rb"#[^\x00-\x08\x0b\x0c\x0e-\x1f\n\r]*\r?\n")
_CHIP = re.compile(rb"# *AEChip: *([\w.$-]{1,200})")
_DVS128, _DAVIS = ((1, 7), (8, 7), (0, 1)), ((12, 10), (22, 9), (11, 1))
"""The lowest bit of x, y and the polarity in an address, and how many bits each has."""
_DAVIS_SIZES = MappingProxyType(
    {"240": (240, 180), "346": (346, 260), "640": (640, 480), "128": (128, 128), "208": (208, 192)}
)
DAVIS_MAX = (1024, 512)
TIME_MAX = 2**31


def read_aedat2(data: bytes, subject: str) -> Events:
    """The events of polarity of a file's content. Raises FileError; UsageError for times before 0."""
    start, header = _header(data)
    body = len(data) - start
    if body % 8:
        limit = "an event has 8 bytes"
        raise FileError.of(subject, f"{body:,} bytes of events", limit, "it is cut off or damaged: copy it again")
    table = np.frombuffer(data, ">u4", offset=start).reshape(-1, 2).astype(np.int64)
    address, t = table[:, 0], table[:, 1]
    t = np.where(t >= TIME_MAX, t - 2 * TIME_MAX, t)  # times are signed
    chip = _CHIP.search(header)
    name = "" if chip is None else chip[1].decode("ascii").rpartition(".")[2]
    if "dvs128" in name.lower() or (not name and not (address >> 16).any()):
        places, external, size, frames = _DVS128, 15, (DVS128_SIDE, DVS128_SIDE), 0
    elif "davis" in name.lower():
        size = next((size for digits, size in _DAVIS_SIZES.items() if digits in name), None)
        places, external, frames = _DAVIS, 10, int((address >> 31).sum())
    else:
        found = f"is of the chip {quoted(name)}" if name else "names no chip (AEChip), its addresses have over 16 bits"
        hint = "convert it to columns x, y, t, p in a .npz file"
        raise FileError.of(subject, found, "DVS128 and DAVIS are read", hint)
    kept = (address >> 31 | address >> external & 1) == 0
    x, y, p = (address[kept] >> place & 2**bits - 1 for place, bits in places)
    left_out = {"samples of frames": frames, "external events": int(len(t) - kept.sum()) - frames}
    events = Events("AEDAT 2", t[kept], x, y, p, origin="first", sensor=size, left_out=left_out)
    return checked_events(events, subject)


def _header(data: bytes) -> tuple[int, bytes]:
    """The length of the header, and its text. A first address may begin with the byte of '#', but is no line."""
    end = 0
    while end < _HEADER_MAX and (line := _LINE.match(data, end)):
        end = line.end()
    return end, data[:end]


def write_aedat2(table: Array, size: tuple[int, int], file: IO[bytes]) -> None:
    """Write events of at most 1024 x 512 places, with the addresses of a DVS128 where they fit into its 128 x 128."""
    x, y, t, p = (table[name] for name in "xytp")
    is_small = max(size) <= DVS128_SIDE
    chip = "ch.unizh.ini.jaer.chip.retina.DVS128" if is_small else "eu.seebetter.ini.chips.davis.Davis640"
    address = (y << 8 | x << 1 | p) if is_small else (y << 22 | x << 12 | p << 11)
    lines = ("#!AER-DAT2.0", "# Data format is int32 address, int32 timestamp (8 bytes total), repeated for each event")
    lines += ("# Timestamps tick is 1 us", f"# AEChip: {chip}")
    file.write("".join(f"{line}\r\n" for line in lines).encode("ascii"))
    file.write(np.stack([address, t], axis=1).astype(">u4").tobytes())
