"""The cheapest tiling of a plane into rectangles, by cuts from edge to edge of what earlier cuts left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nirbridge.arrays import Array

NEVER = 2**60
"""Price of a box that may not be used."""
NESTED_MAX = 600
"""Positions of a plane up to which cuts are nested to any depth; larger ones are cut into bands, these into boxes."""

Prices = Mapping[tuple[int, int], Array]
"""(height, width) -> int64 [rows, columns]: the price of the box that begins there."""
Rectangle = tuple[int, int, int, int]
"""Row, column, height, width."""


def cheapest(prices: Prices, height: int, width: int) -> tuple[int, list[Rectangle]] | None:
    """Least sum of prices of rectangles that tile a plane, and these; None: no tiling has a price.

    Exact over tilings by nested cuts, or, in a large plane, over bands of rows or of columns.
    """
    if height * width <= NESTED_MAX:
        found = _nested(prices, height, width)
        return found if found[0] < NEVER else None
    total, boxes = _banded(prices, height, width)
    turned = {(w, h): a.T for (h, w), a in prices.items()}
    other, columns = _banded(turned, width, height)
    if other < total:
        total, boxes = other, [(r, c, h, w) for c, r, w, h in columns]
    return (total, boxes) if total < NEVER else None


def _nested(prices: Prices, height: int, width: int) -> tuple[int, list[Rectangle]]:
    least: dict[tuple[int, int], Array] = {}
    cut: dict[tuple[int, int], Array] = {}
    for h in range(1, height + 1):
        for w in range(1, width + 1):
            least[h, w], cut[h, w] = _best_cut(prices, least, h, w, (height, width))
    boxes = list(_cut_up(cut, (0, 0, height, width))) if least[height, width][0, 0] < NEVER else []
    return int(least[height, width][0, 0]), boxes


def _best_cut(
    prices: Prices, least: Mapping[tuple[int, int], Array], h: int, w: int, plane: tuple[int, int]
) -> tuple[Array, Array]:
    """Least price of every part of this size, and where it is cut: 0 not at all, k after row k, -k after column k."""
    rows, columns = plane[0] - h + 1, plane[1] - w + 1
    best = prices[h, w].copy() if (h, w) in prices else np.full((rows, columns), NEVER)
    cut = np.zeros((rows, columns), np.int16)
    for k in range(1, h):
        both = least[k, w][:rows] + least[h - k, w][k:]
        better = both < best
        best[better], cut[better] = both[better], k
    for k in range(1, w):
        both = least[h, k][:, :columns] + least[h, w - k][:, k:]
        better = both < best
        best[better], cut[better] = both[better], -k
    return best, cut


def _cut_up(cut: Mapping[tuple[int, int], Array], part: Rectangle) -> Iterator[Rectangle]:
    parts = [part]
    while parts:
        r, c, h, w = parts.pop()
        k = int(cut[h, w][r, c])
        if k > 0:
            parts += [(r + k, c, h - k, w), (r, c, k, w)]
        elif k < 0:
            parts += [(r, c - k, h, w + k), (r, c, h, -k)]
        else:
            yield r, c, h, w


def _banded(prices: Prices, height: int, width: int) -> tuple[int, list[Rectangle]]:
    """Bands of whole rows, each cut into boxes of its height."""
    bands = {h: _columns(prices, h, height, width) for h in sorted({h for h, _ in prices})}
    least, last = np.full(height + 1, NEVER), np.zeros(height + 1, np.int64)
    least[0] = 0
    for row in range(1, height + 1):
        for h, (totals, _) in bands.items():
            if h <= row and least[row - h] + totals[row - h] < least[row]:
                least[row], last[row] = least[row - h] + totals[row - h], h
    boxes: list[Rectangle] = []
    row = height if least[height] < NEVER else 0
    while row:
        h = int(last[row])
        row, column = row - h, width
        while column:
            w = int(bands[h][1][row, column])
            column -= w
            boxes.append((row, column, h, w))
    return int(least[height]), boxes[::-1]


def _columns(prices: Prices, h: int, height: int, width: int) -> tuple[Array, Array]:
    """Of each band of ``h`` rows the least price, and the width of the last box up to each column."""
    rows = height - h + 1
    least, last = np.full((rows, width + 1), NEVER), np.zeros((rows, width + 1), np.int64)
    least[:, 0] = 0
    widths = sorted(w for size, w in prices if size == h)
    for column in range(1, width + 1):
        for w in widths:
            if w > column:
                break
            total = least[:, column - w] + prices[h, w][:, column - w]
            better = total < least[:, column]
            least[better, column], last[better, column] = total[better], w
    return least[:, width], last
