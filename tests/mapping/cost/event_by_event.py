"""The rival of the cost model: one time step, spike by spike, with a queue in every core. Shares no code with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.operators import Chain, Conv, Dense, SumPool
from tests.mapping.hand_made import numbering, paths


class Step:
    """Energy and time of one time step of a map, in which ``fired`` send and all but ``idle`` are updated."""

    def __init__(self, mapped: MappedNetwork, fired: set[tuple[str, int]], idle: frozenset[tuple[str, int]]) -> None:
        self.chip, self.mapped = mapped.chip, mapped
        self.energy: dict[str, float] = defaultdict(float)
        self.queues: dict[int, list[tuple[float, float]]] = defaultdict(list)
        self.links: dict[Any, int] = defaultdict(int)
        self.end = 0.0
        self.fan = fan_out(mapped)
        shapes = {p.name: p.shape for p in mapped.network.populations}
        for b, block in enumerate(mapped.partition.blocks):
            clock = 0.0
            order = sorted((n, key) for key, n in numbering(block.slices, shapes).items())
            for _, (name, place) in order:
                at = mapped.partition.orders.get(name)
                key = (name, place if at is None else at[place])
                clock += self.pay("neuron_access", 1)
                clock += 0.0 if key in idle else self.pay("neuron_update", 1)
                if key in fired:
                    clock += self.pay("spike", 1)
                    for target, synapses in sorted(self.fan.get(key, {}).items()):
                        clock += self.pay("axon_out", 1)
                        self.send(clock, b, target, synapses)
            self.end = max(self.end, clock)
        for name, place in fired:
            if name in {port.name for port in mapped.network.inputs}:
                for target, synapses in self.fan.get((name, place), {}).items():
                    self.send(0.0, None, target, synapses)
        for queue in self.queues.values():
            free = 0.0
            for arrival, service in sorted(queue):
                free = max(free, arrival) + service
            self.end = max(self.end, free)
        loads = [n * self.link_seconds(along, crossing=crossing) for (along, crossing, *_), n in self.links.items()]
        tiles = {(core.chip, core.x, core.y) for core in mapped.cores}
        self.time = max(self.end, *loads, 0.0) + (self.chip.time.barrier(len(tiles)) or 0.0)

    def figure(self, name: str, unit: str) -> float:
        part = self.chip.energy if unit == "j" else self.chip.time
        return getattr(part, f"{name}_{unit}", None) or 0.0

    def pay(self, name: str, times: float) -> float:
        self.energy[name] += times * self.figure(name, "j")
        return times * self.figure(name, "s")

    def link_seconds(self, along: str, *, crossing: bool) -> float:
        between = self.chip.board.link_s if crossing else None
        return self.figure("hop_" + along, "s") if between is None else between

    def send(self, clock: float, source: int | None, target: int, synapses: Mapping[str, int]) -> None:
        x, y = (0, 0) if source is None else self.place(source)
        to_x, to_y = self.place(target)
        while (x, y) != (to_x, to_y):
            along = "x" if x != to_x else "y"
            next_x, next_y = (x + (1 if to_x > x else -1), y) if along == "x" else (x, y + (1 if to_y > y else -1))
            width, height = self.chip.mesh.width_tiles, self.chip.mesh.height_tiles
            crossing = (x // width, y // height) != (next_x // width, next_y // height)
            self.links[along, crossing, x, y, next_x, next_y] += 1
            if crossing and self.chip.board.link_j is not None:
                self.energy["crossing"] += self.chip.board.link_j
            else:
                self.energy["hop_" + along] += self.figure("hop_" + along, "j")
            clock += self.link_seconds(along, crossing=crossing)
            x, y = next_x, next_y
        service = self.pay("axon_in", 1)
        for kind, count in synapses.items():
            name = {"dense": "synaptic_op", "sparse": "synaptic_op_sparse", "convolution": "synaptic_op_convolution"}[
                kind
            ]
            service += self.pay(name, count)
        self.queues[target].append((clock, service))

    def place(self, block: int) -> tuple[int, int]:
        core, mesh = self.mapped.cores[block], self.chip.mesh
        column, row = (self.chip.board.places or [(c, 0) for c in range(mesh.chips_max)])[core.chip]
        return column * mesh.width_tiles + core.x, row * mesh.height_tiles + core.y


def fan_out(mapped: MappedNetwork) -> dict[tuple[str, int], dict[int, dict[str, int]]]:
    """Of each source: target block -> kind of synapse -> synapses."""
    shapes = {p.name: p.shape for p in mapped.network.populations}
    home = {}
    for b, block in enumerate(mapped.partition.blocks):
        for name, place in numbering(block.slices, shapes):
            order = mapped.partition.orders.get(name)
            home[name, place if order is None else order[place]] = b
    fan: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for p in mapped.stored_network.projections:
        parts = p.operator.parts if isinstance(p.operator, Chain) else (p.operator,)
        kind = "dense" if any(isinstance(part, Dense) for part in parts) else "sparse"
        if mapped.chip.synapses.shared_kernels and all(isinstance(part, Conv | SumPool) for part in parts):
            kind = "convolution"
        for target, source in paths(p.operator):
            if (p.target, target) in home:
                fan[p.source, source][home[p.target, target]][kind] += 1
    return fan


def sets(spikes: Mapping[str, np.ndarray[Any, Any]], step: int, *, present: bool = True) -> set[tuple[str, int]]:
    """The elements that are marked (or not) in one time step."""
    return {(n, int(i)) for n, a in spikes.items() for i in np.flatnonzero((a[step].ravel() != 0) == present)}
