"""Compiled lists of spiking sources, for every length up to several words and every offset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")

from nirbridge.simulators.compiled.events import Signal, events_of, side_by_side, take_input
from nirbridge.simulators.compiled.kernels.events import ROOM, count_kernel, list_row, list_spikes, sparse_kernel
from nirbridge.simulators.compiled.kernels.jit import copy, jitted, list_values, value_of

RNG = np.random.default_rng(0)
LENGTHS = [*range(1, 20), 55, 63, 64, 65, 71, 72, 73, 127, 128, 129, 130, 200]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 1.0])
def test_every_row_lists_its_own_senders(share: float) -> None:
    for n in LENGTHS:
        x = (RNG.random((5, n)) < share).astype(np.uint8) * RNG.integers(1, 200, (5, n)).astype(np.uint8)
        indptr, idx = np.full(6, -1, np.int64), np.full(np.count_nonzero(x) + ROOM, 7, np.uint32)
        list_spikes(x.reshape(-1), (1, n, n), indptr, idx)
        rows, columns = np.nonzero(x)
        assert indptr.tolist() == [0, *np.cumsum(np.bincount(rows, minlength=5)).tolist()]
        assert idx[: indptr[-1]].tolist() == columns.tolist()
        val = np.zeros(len(idx), np.float32)
        value_of(x.reshape(-1), n, indptr, idx, val)
        assert val[: indptr[-1]].tolist() == x[rows, columns].tolist()
        reals = x * np.float32(-0.5)
        ends, at, values = np.zeros(6, np.int64), np.zeros(len(idx), np.uint32), np.zeros(len(idx), np.float32)
        list_values(reals, ends, at, values)
        assert ends.tolist() == indptr.tolist()
        assert at[: ends[-1]].tolist() == columns.tolist()
        assert values[: ends[-1]].tolist() == reals[rows, columns].tolist()


def test_some_samples_of_every_time_step_are_listed_in_place() -> None:
    for steps, batch, n in ((1, 1, 5), (3, 4, 7), (2, 5, 64), (4, 3, 130)):
        whole = (RNG.random((steps, batch, n)) < 0.3).astype(np.uint8)
        for start in range(batch):
            for stop in range(start + 1, batch + 1):
                part = whole[:, start:stop]
                indptr, idx, _, valued = events_of(Signal(part, lead=2), np.dtype("float32"))
                again = events_of(Signal(part.reshape(-1, n)), np.dtype("float32"))
                assert (indptr.tolist(), valued) == (again[0].tolist(), False)
                assert idx[: indptr[-1]].tolist() == again[1][: indptr[-1]].tolist() == np.nonzero(part)[2].tolist()
                taken = take_input(part, "float32")
                flat, pitch = side_by_side(taken) or ()
                assert np.shares_memory(taken, whole)
                assert np.shares_memory(flat, whole)
                assert (flat.size, pitch) == ((steps - 1) * pitch + part[0].size, batch * n if steps > 1 else part.size)


@pytest.mark.parametrize("values", [
    np.zeros((3, 2, 8), np.uint8)[::-1], np.zeros((3, 2, 8), np.uint8)[:, :, ::2],
    np.zeros((2, 3, 8), np.uint8).swapaxes(0, 1), np.zeros((3, 4, 8), np.uint8)[:, ::2], np.zeros((0, 2, 8), np.uint8),
], ids=["backwards", "other columns", "samples first", "other samples", "no steps"])  # fmt: skip
def test_bytes_that_are_not_side_by_side_are_copied(values: Any) -> None:
    assert side_by_side(values) is None
    assert take_input(values, "float32").flags.c_contiguous


def test_one_frame_for_all_steps_is_read_in_place() -> None:
    frame = (RNG.random((2, 30)) < 0.5).astype(np.uint8)
    taken = take_input(np.broadcast_to(frame, (5, 2, 30)), "float32")
    assert np.shares_memory(taken, frame)
    indptr, idx, _, _ = events_of(Signal(taken, lead=2), np.dtype("float32"))
    assert idx[: indptr[-1]].tolist() == np.nonzero(np.tile(frame, (5, 1)))[1].tolist()


@jitted
def listed(x: Any, start: Any, stop: Any, idx: Any) -> Any:
    return list_row(x, start, stop, idx, 0)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_stretches_of_bytes_from_every_place_to_every_place(share: float) -> None:
    x = (RNG.random(48) < share).astype(np.uint8)
    for start in range(48):
        for stop in range(start, 49):
            idx = np.full(49 + ROOM, 99, np.uint32)
            found = listed(x, start, stop, idx)
            wanted = np.flatnonzero(x[start:stop])
            assert (found, idx[: len(wanted)].tolist()) == (len(wanted), wanted.tolist()), (start, stop)


def test_sparse_sums_and_counts_of_windows() -> None:
    weight = RNG.integers(-9, 9, (6, 7)) * (RNG.random((6, 7)) < 0.5)
    starts = np.concatenate(([0], np.cumsum((weight != 0).sum(axis=0)))).astype(np.int64)
    columns, rows = np.nonzero(weight.T)
    values = weight.T[columns, rows].astype(np.float32)
    x = RNG.integers(0, 3, (4, 7))
    items, sources = np.nonzero(x)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(items, minlength=4)))).astype(np.int64)
    idx, val = sources.astype(np.uint32), x[items, sources].astype(np.float32)
    for valued, factors, wanted in ((True, val, x @ weight.T), (False, np.ones(1, np.float32), (x > 0) @ weight.T)):
        out = np.full((4, 6), 5, np.float32)
        sparse_kernel(valued)(indptr, idx, factors, starts, rows.astype(np.uint16), values, out)
        assert out.tolist() == wanted.tolist()
    window, out = np.array([0, -1, 2, 2, 0, -1, 1]), np.zeros((4, 3), np.uint8)
    count_kernel(indptr, idx, None, window, out)
    sends = x > 0
    assert out.tolist() == [[int(row[window == k].sum()) for k in range(3)] for row in sends]
    to = np.zeros(4)
    copy(to, np.arange(4.0))
    assert to.tolist() == [0, 1, 2, 3]
