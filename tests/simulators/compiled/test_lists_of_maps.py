"""Compiled lists of the spikes of feature maps, pooled or not, in bytes and bits, against windows counted singly."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")

from nirbridge.network.operators import SumPool
from nirbridge.simulators.compiled.feature_map import EventSource, FeatureMapLayout, PackedSpikes
from nirbridge.simulators.compiled.kernels.conv_layer import list_steps

RNG = np.random.default_rng(0)
FLOAT = np.dtype(np.float32)
NONE = ((0, 0), (0, 0))


def pool(kernel: Any, stride: Any, padding: Any, shape: Any) -> SumPool:
    return SumPool(kernel, stride, padding, shape, 0.25)


CASES: list[tuple[tuple[int, ...], SumPool | None]] = [
    ((8, 4, 8), None), ((3, 5, 4), None), ((16, 9), None), ((8, 70), None), ((20, 3, 5), None), ((9, 2, 33), None),
    *((shape, pool((2, 2), (2, 2), NONE, shape)) for shape in ((8, 4, 8), (16, 4, 16), (32, 2, 4), (8, 5, 16),
                                                              (5, 4, 6), (8, 6, 7))),
    ((8, 4, 8), pool((3, 2), (2, 1), ((1, 0), (0, 1)), (8, 4, 8))),
    ((5, 6, 5), pool((3, 3), (1, 2), ((2, 2), (1, 0)), (5, 6, 5))),
    ((3, 4, 4), pool((1, 1), (2, 3), NONE, (3, 4, 4))), ((4, 4, 6), pool((4, 2), (3, 2), ((3, 1), (0, 0)), (4, 4, 6))),
    ((12, 4, 5), pool((3, 2), (1, 2), ((1, 1), (0, 1)), (12, 4, 5))),
    ((20, 4, 4), pool((2, 2), (1, 1), ((3, 3), (1, 4)), (20, 4, 4))),
    ((5, 11), pool((3,), (2,), ((1, 2),), (5, 11))), ((16, 8), pool((2,), (2,), ((0, 0),), (16, 8))),
]  # fmt: skip


def counted(x: np.ndarray, op: SumPool | None) -> np.ndarray:
    """Spikes in each window of one map, window by window."""
    if op is None:
        return x.astype(int)
    out = np.zeros(op.output_shape, int)
    for place in product(*map(range, op.output_shape)):
        for tap in product(*map(range, op.kernel)):
            zipped = zip(place[1:], op.stride, tap, op.padding, strict=True)
            at = [p * s + t - low for p, s, t, (low, _) in zipped]
            if all(0 <= a < n for a, n in zip(at, x.shape[1:], strict=True)):
                out[place] += int(x[(place[0], *at)])
    return out


@pytest.mark.parametrize(("shape", "op"), CASES, ids=lambda x: str(x) if isinstance(x, tuple) else None)
@pytest.mark.parametrize("share", [0.03, 0.5, 1.0])
def test_every_step_lists_what_its_windows_count(shape: tuple[int, ...], op: SumPool | None, share: float) -> None:
    """By channel, then by place; named by their place in memory, with the factor; from bytes and from bits."""
    before, behind = FeatureMapLayout(shape), FeatureMapLayout(shape if op is None else op.output_shape)
    x = (RNG.random((3, 2, *shape)) < share).astype(np.uint8)
    x[1, 0] = 0
    rows = before.rows(x, 2)
    names = np.zeros(int(np.prod(behind.shape)), int)
    names[behind.names()[::-1]] = np.arange(behind.size)[::-1]  # the filling is named 0, too: the first one counts
    names[0] = 0
    given: list[Any] = [before.view(rows, (3, 2))] if op is None else [x, before.view(rows, (3, 2))]
    if before.size % 64 == 0:
        given.append(PackedSpikes(np.packbits(rows.reshape(-1), bitorder="little"), (3, 2), before))
    for spikes in given:
        source = EventSource(shape, op, behind.shape, FLOAT)
        made, usual = source.of(spikes)
        assert not usual
        indptr, idx = np.zeros(7, np.int64), np.zeros(6 * behind.size + 1, np.uint32)
        val = np.zeros(len(idx), np.float32)
        list_steps(made, source.scratch(), 2, indptr, idx, val)
        assert indptr[0] == 0
        for item, own in enumerate(x.reshape(6, *shape)):
            counts = counted(own, op).reshape(-1)
            sends = np.flatnonzero(counts)
            part = slice(indptr[item], indptr[item + 1])
            assert idx[part].tolist() == names[sends].tolist()
            if op is not None:
                assert val[part].tolist() == (0.25 * counts[sends]).tolist()
