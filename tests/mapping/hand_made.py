"""Small handmade maps, with counts by brute force: loops over single synapses, no shared code."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.chips import chip_from_dict, read_chip
from nirbridge.chips.model import Chip, CoreId
from nirbridge.mapping.model import MapCosts, MappedNetwork
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Scale, Sparse, SumPool
from nirbridge.partitioner.cost.axons import HOST, AxonTable
from nirbridge.partitioner.cost.resources import run_words
from nirbridge.partitioner.model import Block, BlockId, Partition, Slice, SolveReport

TIMING = Timing(1e-4, "euler", "to-value", ">", "per-second")


def chip_with(base: str = "loihi1", **changed: Any) -> Chip:
    """A built-in chip with some numbers changed: ``chip_with(core={'neurons': 4})``."""
    record = {key: dict(v) if isinstance(v, Mapping) else v for key, v in read_chip(base).record.items()}
    for table, values in changed.items():
        record[table] = record[table] | values if isinstance(values, dict) else values
    return chip_from_dict(record)


def network_of(
    populations: Iterable[Population],
    projections: Iterable[Projection],
    inputs: Iterable[Port] = (),
    outputs: Iterable[Port] = (),
) -> Network:
    return Network(1e-4, TIMING, tuple(populations), tuple(projections), tuple(inputs), tuple(outputs))


def population(name: str, *shape: int, **neuron_fields: Any) -> Population:
    return Population(name, shape, neuron("LIF", **neuron_fields))


# -- synapses by brute force: {(target index tuple, source index tuple): bag of paths} ----------------------------


def paths(operator: Operator, salt: int = 0) -> dict[tuple[int, int], Counter[tuple[object, ...]]]:
    """(flat target, flat source) -> the weights along each path, by name, from the definition of each operator."""
    if isinstance(operator, Chain):
        so_far = paths(operator.parts[0], 0)
        for i, part in enumerate(operator.parts[1:], start=1):
            so_far = _product(paths(part, i), so_far)
        return so_far
    return {pair: Counter([(() if label is None else ((salt, label),))]) for pair, label in _leaf(operator).items()}


def _product(second: dict[Any, Any], first: dict[Any, Any]) -> dict[tuple[int, int], Counter[tuple[object, ...]]]:
    into: dict[int, list[tuple[int, Any]]] = defaultdict(list)
    for (middle, source), bag in first.items():
        into[middle].append((source, bag))
    result: dict[tuple[int, int], Counter[tuple[object, ...]]] = defaultdict(Counter)
    for (target, middle), outer in second.items():
        for source, inner in into[middle]:
            for a, b in itertools.product(outer.elements(), inner.elements()):
                result[target, source][tuple(sorted(a + b, key=str))] += 1
    return dict(result)


def _leaf(op: Operator) -> dict[tuple[int, int], object]:
    if isinstance(op, Dense):
        post, pre = op.weight.shape
        return {(t, s): (t, s) for t in range(post) for s in range(pre)}
    if isinstance(op, Sparse):
        rows = range(len(op.indptr) - 1)
        return {(t, int(op.indices[k])): k for t in rows for k in range(op.indptr[t], op.indptr[t + 1])}
    if isinstance(op, (Conv, SumPool)):
        return _window(op)
    size = int(np.prod(op.input_shape))
    labels = [float(x) for x in op.scale.ravel()] if isinstance(op, Scale) else [None] * size
    return {(i, i): labels[i] for i in range(size)}


def _window(op: Conv | SumPool) -> dict[tuple[int, int], object]:
    found: dict[tuple[int, int], object] = {}
    spatial = op.input_shape[1:]
    for out in itertools.product(*map(range, op.output_shape)):
        if isinstance(op, Conv):
            per_group = op.weight.shape[1]
            group = out[0] // (op.weight.shape[0] // op.groups)
            channels = [(group * per_group + i, i) for i in range(per_group)]
        else:
            channels = [(out[0], None)]
        for offset in itertools.product(*map(range, op.kernel)):
            at = [
                y * s - lo + k * d
                for y, s, (lo, _), k, d in zip(out[1:], op.stride, op.padding, offset, op.dilation, strict=True)
            ]
            if not all(0 <= x < n for x, n in zip(at, spatial, strict=True)):
                continue
            for channel, i in channels:
                target = int(np.ravel_multi_index(out, op.output_shape))
                source = int(np.ravel_multi_index((channel, *at), op.input_shape))
                # a pool has one weight, its factor: no label
                found[target, source] = (offset, i, out[0]) if isinstance(op, Conv) else None
    return found


# -- a map with true numbers -------------------------------------------------------------------------------------


def numbering(slices: Sequence[Slice], shapes: Mapping[str, tuple[int, ...]]) -> dict[tuple[str, int], int]:
    """(population, flat neuron) -> its number in the core: slices in order, channels last within one."""
    found: dict[tuple[str, int], int] = {}
    for s in slices:
        axes = [range(a, b) for a, b in s.box]
        for index in itertools.product(*(axes[1:] + axes[:1])):
            flat = int(np.ravel_multi_index(index[-1:] + index[:-1], shapes[s.population]))
            found[s.population, flat] = len(found)
    return found


def made(
    network: Network,
    chip: Chip,
    blocks: Sequence[Sequence[Slice]],
) -> MappedNetwork:
    """The map with these blocks, every number counted by brute force, every rate 1 spike per step."""
    weight_bits = chip.synapses.weight_bits_default
    shapes = {p.name: p.shape for p in network.populations}
    numbers = [numbering(slices, shapes) for slices in blocks]
    cores = [CoreId(0, i % chip.mesh.width_tiles, i // chip.mesh.width_tiles, 0) for i in range(len(blocks))]
    pairs = [paths(p.operator) for p in network.projections]
    synapses = [
        {b: _into(p, of, numbers[b]) for b in range(len(blocks))}
        for p, of in zip(network.projections, pairs, strict=True)
    ]
    axons = _axon_table(network, numbers, synapses)
    used = [_used(network, chip, b, numbers, synapses, weight_bits, blocks[b]) for b in range(len(blocks))]
    partition = Partition(
        tuple(Block(BlockId(b), tuple(s), used[b]) for b, s in enumerate(blocks)),
        weight_bits,
        SolveReport("by hand", "feasible", len(blocks), 1, 1, {"one core": 1}, "one core", 7, "none", 0.0),
    )
    return MappedNetwork(network, chip, 1, partition, tuple(cores), axons, _costs(axons), "cores", "1 spike per step")


def _into(
    p: Projection, pairs: Mapping[tuple[int, int], Any], numbers: Mapping[tuple[str, int], int]
) -> dict[int, list[tuple[int, object]]]:
    """Source neuron -> its (number of the target in the block, label of the weight), ascending."""
    lists: dict[int, list[tuple[int, object]]] = defaultdict(list)
    for (target, source), bag in pairs.items():
        if (p.target, target) in numbers:
            lists[source].append((numbers[p.target, target], frozenset(bag.items())))
    return {source: sorted(targets, key=lambda t: t[0]) for source, targets in sorted(lists.items())}


def _used(
    network: Network, chip: Chip, b: int, numbers: list[Any], synapses: list[Any], weight_bits: int, block: Any
) -> dict[str, int]:
    ends = np.cumsum([np.prod([stop - start for start, stop in s.box], dtype=int) for s in block])
    slice_of = {number: int(np.searchsorted(ends, number, side="right")) for number in range(len(numbers[b]))}
    sources = {(p.source, s) for p, lists in zip(network.projections, synapses, strict=True) for s in lists[b]}
    pairs = {
        (p.source, s, target)
        for p, lists in zip(network.projections, synapses, strict=True)
        for target in lists
        for s in lists[target]
        if (p.source, s) in numbers[b]
    }
    here = [(p, lists[b]) for p, lists in zip(network.projections, synapses, strict=True)]
    words = sum(_words(p, lists, chip, weight_bits, slice_of) for p, lists in here)
    cells = {p.name: (p.neuron, p.shape) for p in network.populations}
    decay, theta = set(), set()
    for name, flat in numbers[b]:
        cell, shape = cells[name]
        at = [
            None if a is None else float(np.broadcast_to(a, shape).ravel()[flat])
            for a in (cell.a_syn, cell.a_mem, cell.refractory_steps, cell.theta)
        ]
        decay.add(tuple(at[:3]))
        theta |= set() if at[3] is None else {at[3]}
    return {
        "neurons": len(numbers[b]),
        "input_axons": len(sources),
        "output_axons": len(pairs),
        "synapse_words": words,
        "decay_profiles": len(decay),
        "threshold_profiles": len(theta),
    }


def _words(
    p: Projection, lists: Mapping[int, list[tuple[int, object]]], chip: Chip, bits: int, slice_of: Mapping[int, int]
) -> int:
    """Whole lists or lists cut where a slice ends: the less of the two."""
    cut: dict[object, list[tuple[int, object]]] = defaultdict(list)
    for source, targets in lists.items():
        for number, label in targets:
            cut[source, slice_of[number]].append((number, label))
    whole = {(source, 0): targets for source, targets in lists.items()}
    return min(_stored(p, whole, chip, bits), _stored(p, cut, chip, bits))


def _stored(p: Projection, lists: Mapping[Any, list[tuple[int, object]]], chip: Chip, bits: int) -> int:
    fmt = chip.synapses
    delayed = p.max_delay_steps > (1 if p.is_back else 0)
    stored: dict[object, int] = {}
    for (source, part), targets in lists.items():
        positions = [number for number, _ in targets]
        stretches: list[int] = []
        for i, number in enumerate(positions):
            if i and positions[i - 1] == number - 1:
                stretches[-1] += 1
            else:
                stretches.append(1)
        words = sum(run_words(n, fmt, bits, delayed=delayed) for n in stretches)
        if fmt.index_bits is not None:
            words = min(words, run_words(len(positions), fmt, bits, delayed=delayed, sparse=True))
        if _has(p.operator, Dense, Sparse):  # zeros may lie between the targets
            words = min(words, run_words(positions[-1] - positions[0] + 1, fmt, bits, delayed=delayed))
        shape = p.operator.input_shape
        channel = source // int(np.prod(shape[1:])) if len(shape) > 1 else 0
        relative = tuple((number - positions[0], label) for number, label in targets)
        shared = fmt.shared_kernels and not _has(p.operator, Dense)
        stored[(channel, relative) if shared else (source, part)] = words
    return sum(stored.values())


def _has(operator: Operator, *kinds: type[Operator]) -> bool:
    return any(isinstance(part, kinds) for part in (operator.parts if isinstance(operator, Chain) else (operator,)))


def _axon_table(network: Network, numbers: list[Any], synapses: list[Any]) -> AxonTable:
    """One group per source neuron: the simplest table there is."""
    names = tuple(dict.fromkeys(p.source for p in network.projections))
    on_chip = {p.name for p in network.populations}
    fan: dict[tuple[int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for p, lists in zip(network.projections, synapses, strict=True):
        for b, of_block in lists.items():
            for source, targets in of_block.items():
                fan[names.index(p.source), source][b] += len(targets)
    groups = [(name, source, sorted(targets.items())) for (name, source), targets in sorted(fan.items())]
    home = {key: b for b, n in enumerate(numbers) for key in n}
    source_block = [home[names[n], s] if names[n] in on_chip else HOST for n, s, _ in groups]
    flat = [entry for _, _, targets in groups for entry in targets]
    ptr = np.concatenate(([0], np.cumsum([len(t) for _, _, t in groups]))).astype(np.int64)
    count = np.array([n for _, n in flat], dtype=np.int64)
    return AxonTable(
        names=names,
        source_name=np.array([n for n, _, _ in groups], dtype=np.int64),
        source_block=np.array(source_block, dtype=np.int64),
        neurons=np.ones(len(groups), dtype=np.int64),
        spikes_per_step=np.ones(len(groups)),
        target_ptr=ptr,
        targets=np.array([b for b, _ in flat], dtype=np.int64),
        synapses=count,
        synaptic_ops_per_step=count.astype(float),
    )


def _costs(axons: AxonTable) -> MapCosts:
    away = 0
    for g in range(len(axons.neurons)):
        targets = axons.targets[axons.target_ptr[g] : axons.target_ptr[g + 1]]
        away += int(np.count_nonzero(targets != axons.source_block[g]))
    return MapCosts(float(away), 0.0, 0.0, 0.0, 3.0, None, {"spikes": 1.0, "hops": 2.0}, {}, 0.0)


# -- three nets --------------------------------------------------------------------------------------------------


def dense_net() -> Network:
    """Input of 6, a recurrent layer of 5, a read-out of 3."""
    return network_of(
        [population("fc1", 5), replace(population("out", 3), neuron=neuron("LI", a_mem=0.9, theta=None))],
        [
            Projection("in", "fc1", Dense(np.ones((5, 6)))),
            Projection("fc1", "fc1", Dense(np.ones((5, 5))), delay_steps=np.array(1), is_back=True),
            Projection("fc1", "out", Dense(np.ones((3, 5)))),
        ],
        [Port("in", (6,))],
    )


def conv_net() -> Network:
    """Input of 2 x 4 x 5, a convolution to 3 x 4 x 5, then a pool and a convolution to 4 x 2 x 2."""
    pooled = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (3, 4, 5))
    return network_of(
        [population("c1", 3, 4, 5), population("c2", 4, 2, 2)],
        [
            Projection("in", "c1", Conv(np.ones((3, 2, 3, 3)), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 4, 5))),
            Projection(
                "c1",
                "c2",
                Chain((pooled, Conv(np.ones((4, 3, 3, 3)), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (3, 2, 2)))),
            ),
        ],
        [Port("in", (2, 4, 5))],
    )
