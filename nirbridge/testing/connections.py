"""Ways between the populations of the random graphs of ``strategies``: joins, loops, longer cycles, parallel readouts.

``maker`` is the graph in the making; its ``points`` are nodes that may feed others, with the shape of their outputs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nirbridge._types import Shape

DT = 1e-3
LONGEST = 4
"""Most populations of a cycle."""


def join(maker: Any, source: str, source_shape: Shape, target: str, shape: Shape) -> None:
    """An edge where both have one shape, else a dense layer, where the target is flat."""
    if source_shape == shape:
        if (source, target) not in maker.edges:  # NIR allows an edge once
            maker.edges.append((source, target))
    elif len(shape) == 1:
        maker.edges.append((_dense(maker, source, source_shape, shape), target))


def loop(maker: Any, name: str, shape: Shape) -> None:
    """A population onto itself."""
    import nir

    if len(shape) > 1:
        maker.edges.append((name, name))
        return
    end = name
    if maker.chance(0.4):
        end = maker.add(nir.Delay(np.full(shape, maker.pick(3) * DT)), end)
    weight = maker.grid((math.prod(shape), math.prod(shape)))
    node = nir.Linear(weight) if maker.chance(0.5) else nir.Affine(weight, maker.grid(shape))
    maker.edges.append((maker.add(node, end), name))


def cycle(maker: Any, first: int) -> None:
    """A cycle over two to four of the flat populations, each way of it delayed or not; none where there are fewer."""
    import nir

    flat = [p for p in maker.points[first:] if len(p[1]) == 1 and not isinstance(maker.nodes[p[0]], nir.NIRGraph)]
    if len(flat) < 2:
        return
    count = min(len(flat), 2 + maker.pick(LONGEST - 1))
    populations = [flat[i] for i in maker.rng.permutation(len(flat))[:count]]
    for (source, source_shape), (target, shape) in zip(populations, [*populations[1:], populations[0]], strict=True):
        maker.edges.append((_dense(maker, _delayed(maker, source, source_shape), source_shape, shape), target))


def read_out_again(maker: Any, output: str, shape: Shape, first: int) -> None:
    """One or two ways more into a flat output, from the last population or any other, delayed or not."""
    if len(shape) > 1:
        return
    for _ in range(1 + maker.pick(2)):
        others = maker.points[first:]
        source, source_shape = others[-1] if maker.chance(0.6) else others[maker.pick(len(others))]
        end = _delayed(maker, source, source_shape) if maker.chance(0.7) else source
        maker.edges.append((_dense(maker, end, source_shape, shape), output))


def _delayed(maker: Any, source: str, shape: Shape) -> str:
    """Behind a delay of 0 to 3 steps, the same for all elements or one for each; or the source itself."""
    import nir

    if maker.chance(0.3):
        return source
    uneven = maker.chance(0.3)
    steps = maker.rng.integers(0, 4, size=shape) if uneven else np.full(shape, maker.pick(4))
    return maker.add(nir.Delay(steps * DT), source)


def _dense(maker: Any, source: str, source_shape: Shape, shape: Shape) -> str:
    import nir

    end = source
    if len(source_shape) > 1:
        end = maker.add(nir.Flatten({"input": np.array(source_shape)}, 0, -1), end)
    return maker.add(nir.Linear(maker.grid((math.prod(shape), math.prod(source_shape)))), end)
