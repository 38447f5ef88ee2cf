"""Writers of event files that share nothing with nirbridge's: AEDAT 2 by struct, AEDAT 4 by the FlatBuffers library."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import flatbuffers
import numpy as np
import pyarrow

Event = tuple[int, int, int, int]
"""x, y, t, p"""


def random_events(seed: int, n: int, width: int, height: int, end: int) -> list[Event]:
    rng = np.random.default_rng(seed)
    columns = (rng.integers(0, top, n).tolist() for top in (width, height, end, 2))
    return list(zip(*columns, strict=True))


def table(events: Sequence[Event], kind: str = "<i8") -> np.ndarray:
    return np.array(events, [("x", "<i2"), ("y", "<u2"), ("t", kind), ("p", "|u1")])


def dvs128(x: int, y: int, p: int) -> int:
    return y << 8 | x << 1 | p


def davis(x: int, y: int, p: int) -> int:
    return y << 22 | x << 12 | p << 11


def aedat2(pairs: Iterable[tuple[int, int]], chip: str | None = "ch.unizh.ini.jaer.chip.retina.DVS128") -> bytes:
    """A file of addresses and times."""
    head = "#!AER-DAT2.0\r\n# This is a raw AE data file\r\n" + ("" if chip is None else f"# AEChip: {chip}\r\n")
    return head.encode() + b"".join(struct.pack(">Ii", address, t) for address, t in pairs)


def aedat4(
    events: Sequence[Event],
    packing: str | None = None,
    size: tuple[int, int] = (34, 34),
    *,
    per_packet: int = 7,
    text: str | None = None,
    others: bool = False,
    end: int = -1,
) -> bytes:
    """A file with one stream of events, number 1; ``others``: packets of another stream between its own."""
    sizes = "".join(f'<attr key="size{k}" type="int">{n}</attr>' for k, n in zip("XY", size, strict=True))
    node = '<node name="{}"><attr key="typeIdentifier">{}</attr>{}</node>'.format
    streams = node(0, "FRME", "") + node(1, "EVTS", f'<node name="info">{sizes}</node>')
    xml = f'<dv version="2.0"><node name="outInfo">{streams}</node></dv>' if text is None else text
    head = flatbuffers.Builder(0)
    place = head.CreateString(xml)
    head.StartObject(3)
    head.PrependInt32Slot(0, (None, "lz4", "", "zstd").index(packing), 0)
    head.PrependInt64Slot(1, end, -1)
    head.PrependUOffsetTRelativeSlot(2, place, 0)
    head.FinishSizePrefixed(head.EndObject(), b"IOHE")
    out = b"#!AER-DAT4.0\r\n" + bytes(head.Output())
    for start in range(0, len(events), per_packet):
        out += _packet(1, packed(events_packet(events[start : start + per_packet]), packing))
        out += _packet(0, b"\xff" * 5) if others else b""
    return out


def _packet(stream: int, body: bytes) -> bytes:
    return struct.pack("<ii", stream, len(body)) + body


def packed(body: bytes, packing: str | None) -> bytes:
    if packing is None:
        return body
    out = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(out, packing) as stream:
        stream.write(body)
    return out.getvalue().to_pybytes()


def events_packet(events: Sequence[Event]) -> bytes:
    builder = flatbuffers.Builder(0)
    builder.StartVector(16, len(events), 8)
    for x, y, t, p in reversed(events):
        builder.Prep(8, 16)
        builder.Pad(3)
        builder.PrependBool(bool(p))
        builder.PrependInt16(y)
        builder.PrependInt16(x)
        builder.PrependInt64(t)
    vector = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, vector, 0)
    builder.FinishSizePrefixed(builder.EndObject(), b"EVTS")
    return bytes(builder.Output())
