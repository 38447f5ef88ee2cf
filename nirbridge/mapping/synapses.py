"""Every synapse of a projection, listed from the definition of the operator, for the checker.

Nothing here is shared with the partitioner, which works with closed forms. The synapses into a set of target neurons
are listed one by one (``SynapseList``); only where a dense part makes every source reach every target are they kept as
two sets (``AllToAllSynapses``). Indices are flat, row-major, as the shapes of operators and populations are.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from nirbridge.arrays import Array
from nirbridge.network.operators import (
    Chain,
    Conv,
    Dense,
    Identity,
    Operator,
    Reshape,
    Scale,
    Sparse,
    SumPool,
)

_TARGETS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class SynapseList:
    """One entry per synapse: ``row`` (index into the requested targets), flat ``source`` index, ``tap``.

    ``tap`` (uint64) stands for the weight: equal for two synapses whose weights are the same by structure (same kernel
    element and output channel along every path, where a chain has several; the factor of a pool is one weight), else
    different but for the chance of 2**-64. No pair (row, source) occurs twice; rows ascend.
    """

    row: Array
    source: Array
    tap: Array


@dataclass(frozen=True, slots=True, eq=False)
class AllToAllSynapses:
    """Each of ``sources`` (flat, ascending) reaches each of ``rows`` (ascending); no two weights are shared."""

    rows: Array
    sources: Array


@dataclass(frozen=True, slots=True, eq=False)
class ExpandedOperator:
    """An operator prepared for expansion: its parts after the last dense one, and the sources that reach that one."""

    parts: tuple[Operator, ...]
    dense_sources: Array | None


def expand_operator(operator: Operator) -> ExpandedOperator:
    """Prepare an operator; for a chain with a dense part, find the sources that reach it, once."""
    parts = operator.parts if isinstance(operator, Chain) else (operator,)
    dense = [i for i, part in enumerate(parts) if isinstance(part, Dense)]
    if not dense:
        return ExpandedOperator(parts, None)
    last = dense[-1]
    return ExpandedOperator(parts[last + 1 :], _reached_inputs(parts[: last + 1]))


def synapses_into(ready: ExpandedOperator, targets: Array) -> SynapseList | AllToAllSynapses:
    """The synapses into ``targets`` (flat indices of the operator's output, distinct, in any order)."""
    rows = np.arange(len(targets), dtype=np.int64)
    if ready.dense_sources is not None and not ready.parts:
        return AllToAllSynapses(rows if len(ready.dense_sources) else rows[:0], ready.dense_sources)
    listing = _through(ready.parts, SynapseList(rows, targets.astype(np.int64), np.ones(len(targets), np.uint64)))
    if ready.dense_sources is None:
        return listing
    return AllToAllSynapses(np.unique(listing.row) if len(ready.dense_sources) else rows[:0], ready.dense_sources)


def describe_operator(operator: Operator) -> dict[str, Any]:
    """An operator without its weights: ``kind``, shapes, and the parameters that decide which pairs are connected.

    Of a ``Sparse`` operator the pattern is given as a SHA-256 over indptr and indices, as little-endian int64.
    """
    description: dict[str, Any] = {
        "kind": type(operator).__name__,
        "input_shape": list(operator.input_shape),
        "output_shape": list(operator.output_shape),
    }
    if isinstance(operator, Chain):
        description["parts"] = [describe_operator(part) for part in operator.parts]
    if isinstance(operator, (Conv, SumPool)):
        description |= {
            "kernel": list(operator.kernel),
            "stride": list(operator.stride),
            "padding": [list(p) for p in operator.padding],
            "dilation": list(operator.dilation),
        }
    if isinstance(operator, Conv):
        description["groups"] = operator.groups
    if isinstance(operator, Sparse):
        pattern = hashlib.sha256(operator.indptr.astype("<i8").tobytes())
        pattern.update(operator.indices.astype("<i8").tobytes())
        description |= {"nonzero": int(operator.indptr[-1]), "pattern_sha256": pattern.hexdigest()}
    return description


def synapse_count(operator: Operator) -> int:
    """Number of synapses of an operator: pairs (source, target) with a path, zero weights included.

    Windows are counted axis by axis; only chains that reshape between windows, or hold a sparse part, are listed.
    """
    parts = operator.parts if isinstance(operator, Chain) else (operator,)
    if all(isinstance(part, (Conv, SumPool, Identity, Scale)) for part in parts):
        return _separable_count(parts)
    ready, n = expand_operator(operator), math.prod(operator.output_shape)
    total = 0
    for start in range(0, n, _TARGETS_AT_ONCE):
        found = synapses_into(ready, np.arange(start, min(start + _TARGETS_AT_ONCE, n), dtype=np.int64))
        total += len(found.row) if isinstance(found, SynapseList) else len(found.rows) * len(found.sources)
    return total


def _separable_count(parts: tuple[Operator, ...]) -> int:
    """Pairs of a chain of windows: the product over channel and spatial axes of the pairs of that axis."""
    windows = [part for part in parts if isinstance(part, (Conv, SumPool))]
    if not windows:
        return math.prod(parts[0].input_shape)
    pairs = 1
    for axis in range(len(windows[0].input_shape)):
        reach = _axis_pairs(windows[0], axis)
        for part in windows[1:]:
            reach = _ones(sparse.csr_array(_axis_pairs(part, axis) @ reach))
        pairs *= len(reach.indices)
    return pairs


def _ones(paths: sparse.csr_array) -> sparse.csr_array:
    """1 wherever there is a path: several make one synapse."""
    return sparse.csr_array((np.ones(len(paths.indices), np.int64), paths.indices, paths.indptr), shape=paths.shape)


def _axis_pairs(part: Conv | SumPool, axis: int) -> sparse.csr_array:
    """[outputs, inputs] of one axis of a window: 1 where they are connected."""
    n_out, n_in = part.output_shape[axis], part.input_shape[axis]
    if axis == 0:
        groups = part.groups if isinstance(part, Conv) else n_in
        block = np.ones((n_out // groups, n_in // groups), np.int64)
        return sparse.csr_array(sparse.block_diag([block] * groups, dtype=np.int64))
    a, taps = axis - 1, part.kernel[axis - 1]
    out = np.repeat(np.arange(n_out), taps)
    inputs = out * part.stride[a] - part.padding[a][0] + np.tile(np.arange(taps), n_out) * part.dilation[a]
    inside = (inputs >= 0) & (inputs < n_in)
    ones = np.ones(int(inside.sum()), np.int64)
    return sparse.csr_array((ones, (out[inside], inputs[inside])), shape=(n_out, n_in))


def _reached_inputs(parts: tuple[Operator, ...]) -> Array:
    """Inputs of ``parts[0]`` with a path to some output of ``parts[-1]``, ascending."""
    needed = np.arange(math.prod(parts[-1].output_shape), dtype=np.int64)
    for part in reversed(parts):
        if isinstance(part, Dense):
            needed = np.arange(part.weight.shape[1] if len(needed) else 0, dtype=np.int64)
            continue
        found = np.zeros(math.prod(part.input_shape), dtype=bool)
        for start in range(0, len(needed), _TARGETS_AT_ONCE):
            found[_listing(part, needed[start : start + _TARGETS_AT_ONCE], 0).source] = True
        needed = np.flatnonzero(found)
    return needed


def _through(parts: tuple[Operator, ...], listing: SynapseList) -> SynapseList:
    """Follows a listing back through ``parts``, the last first; its sources become inputs of ``parts[0]``."""
    one_to_one = True
    for salt, part in reversed(tuple(enumerate(parts))):
        middle, where = np.unique(listing.source, return_inverse=True)
        listing = _joined(listing, where, _listing(part, middle, salt), len(middle))
        if isinstance(part, (Identity, Scale, Reshape)):
            continue
        if not one_to_one:
            listing = _merged(listing, math.prod(part.input_shape))
        one_to_one = False
    return listing


def _joined(listing: SynapseList, where: Array, inner: SynapseList, middles: int) -> SynapseList:
    """Replaces the source of each entry, at ``where`` among the middles, by all that ``inner`` lists for it."""
    starts = np.searchsorted(inner.row, np.arange(middles + 1))
    counts = np.diff(starts)[where]
    entry = np.repeat(np.arange(len(where)), counts)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
    picked = starts[where][entry] + within
    return SynapseList(listing.row[entry], inner.source[picked], listing.tap[entry] * inner.tap[picked])


def _merged(listing: SynapseList, sources: int) -> SynapseList:
    """Several paths between one pair become one synapse; its tap is the sum of theirs, modulo 2**64."""
    if len(listing.row) == 0:
        return listing
    key = listing.row * sources + listing.source
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    return SynapseList(key[first] // sources, key[first] % sources, np.add.reduceat(listing.tap[order], first))


# -- one operator at a time --------------------------------------------------------------------------------------


def _listing(part: Operator, targets: Array, salt: int) -> SynapseList:
    if isinstance(part, (Identity, Reshape)):
        return SynapseList(np.arange(len(targets)), targets, np.ones(len(targets), np.uint64))
    if isinstance(part, Scale):
        values = part.scale[np.unravel_index(targets, part.scale.shape)] + 0.0  # makes -0.0 and 0.0 one weight
        return SynapseList(
            np.arange(len(targets)), targets, _hash(salt, np.ascontiguousarray(values, np.float64).view("u8"))
        )
    if isinstance(part, Sparse):
        return _sparse(part, targets, salt)
    if isinstance(part, Conv):
        return _conv(part, targets, salt)
    if isinstance(part, SumPool):
        return _pool(part, targets)
    raise TypeError(f"no listing of a {type(part).__name__}")


def _sparse(part: Sparse, targets: Array, salt: int) -> SynapseList:
    begin = part.indptr[targets].astype(np.int64)
    counts = part.indptr[targets + 1].astype(np.int64) - begin
    row = np.repeat(np.arange(len(targets)), counts)
    picked = begin[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return SynapseList(row, part.indices[picked].astype(np.int64), _hash(salt, picked.astype(np.uint64)))


def _conv(part: Conv, targets: Array, salt: int) -> SynapseList:
    """y[o, p] = sum over i, k of weight[o, i, k] * x[group(o) * channels + i, p * stride - before + k * dilation]."""
    channels_out, channels = part.weight.shape[:2]
    channel, row, kernel_index, place = _window(part, targets)
    per_channel = math.prod(part.input_shape[1:])
    kernel = math.prod(part.kernel)
    row, kernel_index, place = (np.repeat(a, channels) for a in (row, kernel_index, place))
    within_group = np.tile(np.arange(channels), len(row) // channels if channels else 0)
    out = channel[row]
    source_channel = out // (channels_out // part.groups) * channels + within_group
    weight = (out * channels + within_group) * kernel + kernel_index
    return SynapseList(row, source_channel * per_channel + place, _hash(salt, weight.astype(np.uint64)))


def _pool(part: SumPool, targets: Array) -> SynapseList:
    """Every weight of a pool is its one factor, so every tap is 1."""
    channel, row, _, place = _window(part, targets)
    per_channel = math.prod(part.input_shape[1:])
    return SynapseList(row, channel[row] * per_channel + place, np.ones(len(row), np.uint64))


def _window(part: Conv | SumPool, targets: Array) -> tuple[Array, Array, Array, Array]:
    """Channel of each target; then target, kernel element and place in a channel of each hit inside the input."""
    channel, *at = np.unravel_index(targets, part.output_shape)
    spatial = part.input_shape[1:]
    row, kernel_index, place = [], [], []
    for k, offsets in enumerate(itertools.product(*(range(n) for n in part.kernel))):
        inside = np.ones(len(targets), dtype=bool)
        flat = np.zeros(len(targets), dtype=np.int64)
        for axis, offset in enumerate(offsets):
            x = at[axis] * part.stride[axis] - part.padding[axis][0] + offset * part.dilation[axis]
            inside &= (x >= 0) & (x < spatial[axis])
            flat = flat * spatial[axis] + x
        hit = np.flatnonzero(inside)
        row.append(hit)
        kernel_index.append(np.full(len(hit), k))
        place.append(flat[hit])
    rows = np.concatenate(row)
    order = np.argsort(rows, kind="stable")
    return channel, rows[order], np.concatenate(kernel_index)[order], np.concatenate(place)[order]


def _hash(salt: int, values: Array) -> Array:
    """Odd 64-bit numbers, one for each distinct value (the finaliser of splitmix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        x = values + np.uint64((0x9E3779B97F4A7C15 * (salt + 1)) % 2**64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))) | np.uint64(1)
