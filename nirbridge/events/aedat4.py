"""AEDAT 4: a header, then packets of streams; header and packets are FlatBuffers, packed with LZ4, Zstandard or not.

The header names the streams in XML; a packet of events is a vector of 16 bytes each: time in microseconds, x, y,
polarity. Format: iniVation, "AEDAT 4.0". Row 0 is the upper edge of the picture. FlatBuffers are read here, where every
offset is checked; packed files need pyarrow (the extra ``sweep``).
"""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO
from xml.etree import ElementTree

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import FileError, ToolMissing, quoted
from nirbridge.events.model import Events, checked_events
from nirbridge.files.regular import read_up_to

SIGNATURE = b"#!AER-DAT4.0\r\n"
EVENT = np.dtype([("t", "<i8"), ("x", "<i2"), ("y", "<i2"), ("p", "|u1"), ("_", "V3")])
_PACKINGS = (None, "lz4", "lz4", "zstd", "zstd")
_INFO_MAX = 2**20
_EVENTS = "EVTS"
_PACKET_EVENTS = 10_000


@dataclass(frozen=True, slots=True)
class _Header:
    """``streams``: the sensor's size, or None, by the number of each stream of events."""

    packing: str | None
    end: int
    streams: dict[int, tuple[int, int] | None]


def read_aedat4(data: bytes, subject: str, max_bytes: int) -> Events:
    """The events of a file's content.

    Raises:
        FileError: damaged, of several sensors, or unpacked larger than ``max_bytes``.
        ToolMissing: packed, and pyarrow is not installed.
    """
    try:
        header, start = _header_of(data)
        parts: dict[int, list[Array]] = {}
        left, others = max_bytes, 0
        for number, body in _packets(data, start, header.end):
            others += number not in header.streams
            if number in header.streams:
                unpacked = _unpacked(body, header.packing, left, subject)
                left -= len(unpacked)
                parts.setdefault(number, []).append(_events_of(unpacked))
    except (struct.error, ValueError, OSError, ElementTree.ParseError, LookupError, ArithmeticError) as error:
        reason = quoted(" ".join(str(error).split()), 120)
        raise FileError.of(subject, f"is damaged or cut off ({reason})", "", "copy it again") from None
    if len(parts) > 1:
        found = f"has events of {len(parts)} sensors"
        raise FileError.of(subject, found, "one is read", "save the events of each sensor on its own")
    number = next(iter(parts or header.streams), -1)
    table = np.concatenate([*parts.get(number, []), np.zeros(0, EVENT)])
    size = header.streams.get(number)
    found = Events("AEDAT 4", table["t"], table["x"], table["y"], table["p"], origin="first", sensor=size)
    return replace(checked_events(found, subject), left_out={"packets of other streams": others})


def _header_of(data: bytes) -> tuple[_Header, int]:
    """The header, and where the packets begin."""
    size = _u32(data, len(SIGNATURE))
    start = len(SIGNATURE) + 4
    table = data[start : start + size]
    if len(table) != size or table[4:8] != b"IOHE":
        raise ValueError("no header of AEDAT 4")
    root = _u32(table, 0)
    compression, position, info = (_field(table, root, k) for k in range(3))
    kind = struct.unpack_from("<i", table, compression)[0] if compression else 0
    end = struct.unpack_from("<q", table, position)[0] if position else -1
    if not 0 <= kind < len(_PACKINGS):
        raise ValueError(f"compression {kind} is not known")
    if end >= 0 and not start + size <= end <= len(data):
        raise ValueError("its table of packets lies outside the file")
    return _Header(_PACKINGS[kind], len(data) if end < 0 else end, _streams(_text(table, info))), start + size


def _streams(text: str) -> dict[int, tuple[int, int] | None]:
    """The streams of events by number, from the XML of the header."""
    if len(text) > _INFO_MAX or "<!" in text:
        raise ValueError("its description is too long, or defines entities")
    found: dict[int, tuple[int, int] | None] = {}
    for node in ElementTree.fromstring(text).iter("node") if text else ():
        values = {a.get("key"): a.text or "" for a in node.findall("attr")}
        if values.get("typeIdentifier") == _EVENTS and node.get("name", "").isdecimal():
            info = next((n for n in node.findall("node") if n.get("name") == "info"), ())
            sizes = {a.get("key"): a.text or "" for a in info}
            pair = [int(sizes.get(key, "0")[:9]) for key in ("sizeX", "sizeY")]
            found[int(node.get("name", "")[:9])] = (pair[0], pair[1]) if min(pair) > 0 else None
    return found


def _packets(data: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The stream and the content of each packet."""
    while start < end:
        number, size = struct.unpack_from("<ii", data, start)
        start += 8
        if size < 0 or start + size > end:
            raise ValueError("a packet lies beyond the end")
        yield number, data[start : start + size]
        start += size


def _unpacked(body: bytes, packing: str | None, left: int, subject: str) -> bytes:
    """The content of a packet, unpacked to at most ``left`` bytes."""
    if packing is not None:
        if importlib.util.find_spec("pyarrow") is None:
            found, hint = "pyarrow is not installed", 'pip install "nirbridge[sweep]", or save it without compression'
            raise ToolMissing.of(subject, f"it is packed with {packing}, and {found}", "", hint)
        import pyarrow

        with pyarrow.CompressedInputStream(pyarrow.BufferReader(body), packing) as stream:
            body = read_up_to(stream, left)
    if len(body) > left:
        raise FileError.of(subject, "its packets unpack to more than is read", "", "raise --max-bytes")
    return body


def _events_of(packet: bytes) -> Array:
    """The events of one unpacked packet."""
    size = _u32(packet, 0)
    table = packet[4 : 4 + size]
    if len(table) != size or table[4:8] != _EVENTS.encode():
        raise ValueError("a packet of events has another form")
    vector = _field(table, _u32(table, 0), 0)
    if not vector:
        return np.zeros(0, EVENT)
    first = vector + _u32(table, vector)
    count = _u32(table, first)
    if first + 4 + count * EVENT.itemsize > size:
        raise ValueError("a packet declares more events than it holds")
    return np.frombuffer(table, EVENT, count, first + 4)


# -- FlatBuffers ---------------------------------------------------------------------------------------------------


def _u32(data: bytes, at: int) -> int:
    return struct.unpack_from("<I", data, at)[0]


def _field(data: bytes, table: int, index: int) -> int:
    """Where a field of a table lies; 0: it is not stored."""
    places = table - struct.unpack_from("<i", data, table)[0]
    if places < 0:
        raise ValueError("a table lies outside its buffer")
    size = struct.unpack_from("<H", data, places)[0]
    at = 4 + 2 * index
    offset = struct.unpack_from("<H", data, places + at)[0] if at + 2 <= size else 0
    return table + offset if offset else 0


def _text(data: bytes, at: int) -> str:
    if not at:
        return ""
    start = at + _u32(data, at)
    size = _u32(data, start)
    text = data[start + 4 : start + 4 + size]
    if len(text) != size:
        raise ValueError("a text lies outside its buffer")
    return text.decode("utf-8")


# -- writer --------------------------------------------------------------------------------------------------------


def write_aedat4(table: Array, size: tuple[int, int], file: IO[bytes]) -> None:
    """Write the events as one stream, not packed."""
    attr = '<attr key="{}" type="{}">{}</attr>'.format
    info = attr("sizeX", "int", size[0]) + attr("sizeY", "int", size[1])
    stream = attr("compression", "string", "NONE") + attr("typeIdentifier", "string", _EVENTS)
    stream += f'<node name="info" path="/outInfo/0/info/">{info}</node>'
    node = f'<node name="outInfo" path="/outInfo/"><node name="0" path="/outInfo/0/">{stream}</node></node>'
    text = f'<dv version="2.0">{node}</dv>'.encode()
    # a root table with one field, 0 and 1 (compression, position of the table of packets) left at their defaults
    vtable = struct.pack("<5H", 10, 8, 0, 0, 4)
    body = struct.pack("<i", 12) + struct.pack("<I", 4)
    header = struct.pack("<I4s", 20, b"IOHE") + vtable + b"\0\0" + body + struct.pack("<I", len(text)) + text + b"\0"
    header += b"\0" * (-len(header) % 4)
    file.write(SIGNATURE + struct.pack("<I", len(header)) + header)
    rows = np.zeros(len(table), EVENT)
    for name in "txyp":
        rows[name] = table[name]
    for start in range(0, len(rows), _PACKET_EVENTS):
        part = rows[start : start + _PACKET_EVENTS]
        # with the length before the buffer, the events begin at a multiple of 8, as their times of 64 bits require
        packet = struct.pack("<I4s3HH", 16, _EVENTS.encode(), 6, 8, 4, 0) + struct.pack("<iI", 8, 4)
        packet += struct.pack("<I", len(part)) + part.tobytes()
        file.write(struct.pack("<ii", 0, len(packet) + 4) + struct.pack("<I", len(packet)) + packet)
