"""Spikes in and out of an open model as bytes, bits or events, time step by time step; the deadlines that it met."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal

import numpy as np

from nirbridge.api.sessions import Session
from nirbridge.arrays import Array
from nirbridge.errors import FileError, ModelError, counted, quoted

Form = Literal["bytes", "bits", "events"]
LINE_MAX = 40
"""Bytes of a line: two numbers of 18 digits each fit."""
IDLE_MAX = 1_000_000
"""Time steps that one line may skip: more are a slip, or a peer that keeps the processor busy."""


@dataclass(slots=True)
class Deadlines:
    """How many time steps took longer than ``period_s``, from the whole frame to the output; seconds."""

    period_s: float
    steps: int = 0
    missed: int = 0
    worst_s: float = 0.0
    total_s: float = 0.0

    @property
    def mean_s(self) -> float:
        """Of a time step; 0 of none."""
        return self.total_s / max(self.steps, 1)

    def add(self, seconds: float) -> bool:
        """Count a time step; True where it met its deadline."""
        is_met = seconds <= self.period_s
        self.steps, self.missed = self.steps + 1, self.missed + (not is_met)
        self.worst_s, self.total_s = max(self.worst_s, seconds), self.total_s + seconds
        return is_met


def stream(
    session: Session,
    source: BinaryIO,
    sink: BinaryIO,
    form: Form,
    period_s: float,
    *,
    is_paced: bool = False,
    after: Callable[[int, float, bool], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Deadlines:
    """Run the time steps that a source gives, each written and flushed before the next is read.

    Args:
        session: the open model, one sample; a frame has its inputs in their order.
        source: frames, until its end.
        sink: gets the frames of the outputs.
        form: of both; see docs/stream.md.
        period_s: between two deadlines.
        is_paced: time step k begins ``k * period_s`` after the first one, and not before; its deadline is the
            beginning of the next, so that a late input misses it, too. Else each has ``period_s`` from its frame.
        after: called with the time step, its seconds, and whether it met its deadline.
        clock: seconds.
        sleep: waits for some.

    Raises:
        FileError: a frame that ends early, an address that there is not, a time before the last one.
        ModelError: outputs that the form does not hold.
    """
    kept, begin = Deadlines(period_s), 0.0
    sizes = {p.name: p.size for p in session.inputs}
    for step, flat in enumerate(READERS[form](source, sizes)):
        start = clock()
        if is_paced:
            begin = begin if step else start
            sleep(max(begin + step * period_s - start, 0.0))
            start = begin + step * period_s
        parts = np.split(flat, np.cumsum(list(sizes.values()))[:-1])
        outputs = session.step({p.name: x.reshape(p.shape) for p, x in zip(session.inputs, parts, strict=True)})
        sink.write(WRITERS[form](step, outputs))
        sink.flush()
        seconds = clock() - start
        is_met = kept.add(seconds)
        if after is not None:
            after(step, seconds, is_met)
    return kept


# -- frames in -----------------------------------------------------------------------------------------------------


def _whole_frames(source: BinaryIO, size: int) -> Iterator[bytes]:
    """Frames of ``size`` bytes, of which no more than one is held. Raises FileError for a part of one."""
    number = 0
    while frame := source.read(size):
        while len(frame) < size and (more := source.read(size - len(frame))):
            frame += more
        if len(frame) < size:
            found = f"time step {number:,} ends after {counted(len(frame), 'byte')}"
            raise FileError.of("stream", found, f"a frame has {counted(size, 'byte')}", "send whole frames")
        yield frame
        number += 1


def _byte_frames(source: BinaryIO, sizes: Mapping[str, int]) -> Iterator[Array]:
    for frame in _whole_frames(source, sum(sizes.values())):
        yield np.frombuffer(frame, np.uint8)


def _bit_frames(source: BinaryIO, sizes: Mapping[str, int]) -> Iterator[Array]:
    """Eight elements a byte, the first one in its highest bit; each input begins a byte."""
    widths = [-(-size // 8) for size in sizes.values()]
    for number, frame in enumerate(_whole_frames(source, sum(widths))):
        rows = np.split(np.unpackbits(np.frombuffer(frame, np.uint8)), 8 * np.cumsum(widths)[:-1])
        for (name, size), row in zip(sizes.items(), rows, strict=True):
            if row[size:].any():
                found = f"time step {number:,} has a bit after the last of input {quoted(name)}"
                raise FileError.of("stream", found, f"it has {counted(size, 'element')}", "fill with zeros")
        yield np.concatenate([row[:size] for size, row in zip(sizes.values(), rows, strict=True)])


def _event_frames(source: BinaryIO, sizes: Mapping[str, int]) -> Iterator[Array]:
    """Lines ``t address``, sorted by time; a line ``t`` says that all before that time step has been sent."""
    size = sum(sizes.values())
    now, is_open, number, counts = 0, False, 0, np.zeros(size, np.int64)
    while line := source.readline(LINE_MAX + 1):
        number += 1
        at, address = _event(line, number, now, size)
        while now < at:
            yield counts
            now, is_open, counts = now + 1, False, np.zeros(size, np.int64)
        if address is not None:
            counts[address] += 1
            is_open = True
    if is_open:
        yield counts


def _event(line: bytes, number: int, now: int, size: int) -> tuple[int, int | None]:
    """The time step and the address of a line. Raises FileError."""
    subject, words = f"stream, line {number:,}", line.split()
    if not line.endswith(b"\n"):
        found = "is longer" if len(line) > LINE_MAX else "has no end"
        raise FileError.of(subject, found, f"a line has up to {LINE_MAX} bytes and an end", "write 't address'")
    if len(words) not in (1, 2) or not all(word.isdigit() and len(word) <= 18 for word in words):
        text = line.decode("ascii", "backslashreplace").strip()
        raise FileError.of(subject, quoted(text), "a line is 't address' or 't', two whole numbers", "write it so")
    at, *address = map(int, words)
    if at < now:
        raise FileError.of(subject, f"time step {at:,}", f"time is at {now:,}", "sort the events by time")
    if at - now > IDLE_MAX:
        found, limit = f"time step {at:,}, {at - now:,} after the last one", f"a line skips up to {IDLE_MAX:,}"
        raise FileError.of(subject, found, limit, "write a line 't' in between")
    if address and address[0] >= size:
        limit = f"the inputs have the addresses 0 to {size - 1:,}"
        raise FileError.of(subject, f"address {address[0]:,}", limit, "correct the address")
    return at, address[0] if address else None


READERS: Mapping[Form, Callable[[BinaryIO, Mapping[str, int]], Iterator[Array]]] = {
    "bytes": _byte_frames,
    "bits": _bit_frames,
    "events": _event_frames,
}


# -- frames out ----------------------------------------------------------------------------------------------------


def _bytes_of(step: int, outputs: Mapping[str, Array]) -> bytes:
    """Each output in its own type, little-endian: spikes of one byte, potentials of four or eight."""
    return b"".join(np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<")).tobytes() for a in outputs.values())


def _bits_of(step: int, outputs: Mapping[str, Array]) -> bytes:
    _check_spikes(outputs, "bits", most=1)
    return b"".join(np.packbits(np.asarray(a, bool).reshape(-1)).tobytes() for a in outputs.values())


def _events_of(step: int, outputs: Mapping[str, Array]) -> bytes:
    """A line for each spike, of several in a time step one each; then a line with the next time step."""
    _check_spikes(outputs, "events", most=255)
    flat = np.concatenate([a.reshape(-1) for a in outputs.values()]).astype(np.int64)
    lines = [f"{step} {address}\n" for address in np.repeat(np.arange(flat.size), flat)]
    return "".join([*lines, f"{step + 1}\n"]).encode("ascii")


def _check_spikes(outputs: Mapping[str, Array], form: Form, most: int) -> None:
    for name, values in outputs.items():
        if values.dtype.kind == "f" or (values.size and not (values.min() >= 0 and values.max() <= most)):
            found = "sends potentials" if values.dtype.kind == "f" else f"sends more than {counted(most, 'spike')}"
            limit = f"--format {form} holds spikes" + (", one per time step" if most == 1 else "")
            raise ModelError.of(f"output {quoted(name)}", found, limit, "use --format bytes")


WRITERS: Mapping[Form, Callable[[int, Mapping[str, Array]], bytes]] = {
    "bytes": _bytes_of,
    "bits": _bits_of,
    "events": _events_of,
}
