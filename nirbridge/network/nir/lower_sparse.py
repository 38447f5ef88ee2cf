"""Groups of nodes that ``raise_sparse`` wrote for one sparse matrix between images, read as one step again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.network.apply import apply
from nirbridge.network.nir.lower_linear import LinearStep, is_pattern
from nirbridge.network.nir.raise_sparse import NODES
from nirbridge.network.nir.timing import PREFIX, Metadata
from nirbridge.network.operators import Identity, Operator, Sparse

_QUIET = "Flatten"
"""Kind of the steps that are left of a group: they change nothing, and are not reported as unused."""
_AGREES = 1e-6
_SEED = 20_261_122


def merge_groups(
    steps: Mapping[str, LinearStep], edges: Sequence[tuple[str, str]], metadata: Mapping[str, Metadata]
) -> dict[str, LinearStep]:
    """The steps, of each group the first as the whole matrix and the others without effect.

    Nodes that compute anything else than the stored matrix (a tool has changed them) mean what they plainly are.
    """
    merged = dict(steps)
    for name in (n for n in steps if NODES in metadata[n]):
        names = _members(name, metadata[name], edges)
        group = [steps[n] for n in names if n in steps]
        matrix = _matrix(group, metadata[name]) if group and len(group) == len(names) else None
        if matrix is None:
            continue
        merged[name] = replace(steps[name], operator=matrix)
        for n in names[1:]:
            merged[n] = replace(steps[n], kind=_QUIET, operator=Identity(matrix.output_shape))
    return merged


def _members(name: str, stored: Metadata, edges: Sequence[tuple[str, str]]) -> list[str]:
    """Names of the nodes of the group that starts at ``name``; empty where there is none."""
    count = np.asarray(stored[NODES])
    if count.size != 1 or count.dtype.kind not in "iu" or not 1 <= int(count.item()) <= 3:
        return []
    names = [name]
    while len(names) < int(count.item()):
        after = [b for a, b in edges if a == names[-1]]
        if len(after) != 1 or sum(b == after[0] for _, b in edges) != 1:
            return []
        names += after
    return names


def _matrix(group: Sequence[LinearStep], stored: Metadata) -> Sparse | None:
    """The matrix of a group; None where its nodes compute something else."""
    is_plain = all(s.bias is None and s.stored_bias is None for s in group[:-1])
    if not is_plain or any(s.delay is not None for s in group):
        return None
    source, target = group[0].operator.input_shape, group[-1].operator.output_shape
    indptr, indices, data = (np.asarray(stored.get(PREFIX + key, ())) for key in ("indptr", "indices", "data"))
    if not is_pattern(indptr, indices, math.prod(target), math.prod(source)):
        return None
    if data.shape != indices.shape or data.dtype.kind != "f" or not bool(np.all(np.isfinite(data))):
        return None
    matrix = Sparse(freeze(indptr, np.int64), freeze(indices, np.int64), freeze(data), source, target)
    return matrix if _computes([s.operator for s in group], matrix) else None


def _computes(parts: Sequence[Operator], matrix: Sparse) -> bool:
    """True if the parts and the matrix agree on random numbers."""
    plain = np.random.default_rng(_SEED).normal(size=matrix.input_shape)
    wanted = np.asarray(apply(matrix, plain))
    for part in parts:
        plain = apply(part, plain)
    return bool(np.allclose(plain, wanted, rtol=_AGREES, atol=_AGREES * float(np.abs(wanted).max(initial=0.0))))
