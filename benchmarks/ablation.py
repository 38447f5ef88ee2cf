"""Each search, each stage of placement and each bound left out in turn: cores, bounds, hops and CPU seconds by class.

``python -m benchmarks.mapping --ablate [--jobs 2] [--only CLASS] [-o FILE.json]``; ``mapping_page`` takes the file.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import nets
from benchmarks.chains import chain
from benchmarks.reservoirs import reservoir, sources
from benchmarks.rivals.networks import case
from nirbridge.chips import Chip, read_chip
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.operators import Dense
from nirbridge.pipeline import MapOptions, map_network

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
Made = tuple[Network, Chip, int]
"""A network, a chip and how many of them."""


def heads(count: int, chip: str, neurons: int) -> Made:
    """A layer of ``count`` independent dense heads whose neurons are shuffled."""
    rng, size = np.random.default_rng(0), neurons // count
    weights = np.zeros((neurons, neurons))
    for k in range(count):
        own = slice(k * size, (k + 1) * size)
        weights[own, own] = rng.uniform(0.3, 1.0, (size, size))
    weights = weights[rng.permutation(neurons)][:, rng.permutation(neurons)]
    population = Population("p", (neurons,), neuron("LIF"))
    ends = ((Projection("in", "p", Dense(weights)),), (Port("in", (neurons,)),), ())
    return Network(1e-3, TIMING, (population,), *ends), read_chip(chip), 1


def _published(name: str, chip: str) -> Made:
    entry = next(entry for entry in nets.SUITE if entry.name == name)
    on = read_chip(chip)
    return from_nir(entry.build()), on, min(entry.chips, on.mesh.chips_max)


def _generated(seed: int) -> Made:
    own = case(seed)
    return own.network, own.chip, 1


def classes() -> dict[str, dict[str, Callable[[], Made]]]:
    """The networks of each class, by name."""
    published = ("lenet5", "shd-1024", "dense-1500x2", "synth-64")
    return {
        "published": {name: partial(_published, name, "loihi1") for name in published},
        "mixed": {"mixed-32": partial(_published, "mixed-32", "loihi1")},
        "shared kernels": {"small vgg": partial(_small_vgg)},
        "crossbar": {"nir-cnn": partial(_published, "nir-cnn", "crossbar256")},
        "profiles": {"heterogeneous-256": partial(_published, "heterogeneous-256", "loihi1")},
        "heads": {
            f"{count} on {chip}": partial(heads, count, chip, size)
            for chip, size in (("loihi1", 1024), ("loihi2", 1000))
            for count in (2, 4, 8)
        },
        "reservoirs": {kind: partial(_reservoir, kind) for kind in ("ring", "grid")},
        "chains": {f"chain-{seed}": partial(_chain, seed) for seed in (0, 2, 4, 5, 6)},
        "generated": {f"{seed}": partial(_generated, seed) for seed in range(400, 424)},
    }


def _small_vgg() -> Made:
    """The first five convolutions of VGG11 for CIFAR-10, on a board whose chips store like kernels once."""
    layers: list[nets.Layer] = [nets.Conv(64, padding=1), nets.Pool(), nets.Conv(128, padding=1), nets.Pool()]
    layers += [nets.Conv(256, padding=1), nets.Conv(256, padding=1), nets.Pool(), nets.Conv(512, padding=1)]
    return from_nir(nets.feedforward((3, 32, 32), layers)), read_chip("loihi2"), 8


def _reservoir(kind: str) -> Made:
    return reservoir(sources(kind, 10_000)), read_chip("loihi2"), 1


def _chain(seed: int) -> Made:
    return from_nir(chain(seed)), read_chip("loihi1"), 1


@dataclass(frozen=True, slots=True)
class Switch:
    """What is left out: an attribute of a module (or an entry of a mapping there) and what takes its place."""

    module: str
    name: str
    other: Any
    key: str = ""

    def off(self) -> Any:
        """A context without it."""
        module = importlib.import_module(self.module)
        if self.key:
            return patch.dict(getattr(module, self.name), {self.key: self.other})
        return patch.object(module, self.name, self.other)


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _none_found(*_: Any, **__: Any) -> float:
    return 0.0


def switches() -> dict[str, Switch | None]:
    """Everything that can be left out, by name; the first leaves out nothing."""
    from nirbridge.mapping.placement.tree_moves import NO_TREES
    from nirbridge.partitioner.searches import SEARCHES

    searches = "nirbridge.partitioner.searches"
    partition, place = "nirbridge.partitioner.partition", "nirbridge.mapping.placement.place"
    slices = "nirbridge.mapping.placement.slice_moves"
    return {
        "nothing": None,
        **{f"search: {key}": Switch(searches, "SEARCHES", _nothing, key) for key in SEARCHES if key != "patterns"},
        "search: orders": Switch(partition, "ordered_blocks", _nothing),
        "search: populations near each other": Switch(partition, "nearer_populations", _nothing),
        "placement: trees": Switch(place, "EFFORTS", NO_TREES, "default"),
        "placement: slices": Switch(slices, "EFFORTS", NO_TREES, "default"),
        "bound: tiles": Switch("nirbridge.mapping.traffic_bound", "tile_bound", _none_found),
        "bound: spread": Switch("nirbridge.partitioner.search.bounds", "_spread_bounds", lambda *_: {}),
    }


def measured(make: Callable[[], Made], left_out: str) -> tuple[int, int, float, float, float] | str:
    """Cores, their bound, hops, the bound on these, and CPU seconds; or why there is no map."""
    (network, chip, chips), switch = make(), switches()[left_out]
    options = MapOptions(chips=chips, retime="never", relays=False, placement_only=True)
    with ExitStack() as stack:
        if switch is not None:
            stack.enter_context(switch.off())
        start = time.process_time()
        try:
            found = map_network(network, chip, options)
        except Exception as error:  # a search left out may leave no map: that is a result
            return str(error).splitlines()[0]
        spent = time.process_time() - start
    report, costs = found.partition.report, found.costs
    return (
        report.cores,
        report.cores_lower_bound,
        costs.multicast_hops_per_step,
        costs.traffic_lower_bound,
        spent,
    )


def ablated(jobs: int, only: str, tell: Callable[[str], None]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows: one for each switch and class in which it changes more than the time."""
    found = [*_ablated(jobs, only, tell)]
    whole = {row["class"]: row for row in found if row["left out"] == "nothing"}
    rows = []
    for row in found:
        same = all(row[key] == whole[row["class"]][key] for key in row if key not in ("left out", "CPU s"))
        if not same or row is whole[row["class"]]:
            rows.append(tuple(f"{value}" for value in row.values()))
    return tuple(found[0]), rows


def _ablated(jobs: int, only: str, tell: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """A row for each switch and class; sums over the networks that have a map with nothing left out."""
    chosen = {name: own for name, own in classes().items() if only in name}
    base: dict[tuple[str, str], Any] = {}
    with ProcessPoolExecutor(jobs) as pool:
        for left_out in switches():
            asked = {
                (group, name): pool.submit(measured, make, left_out)
                for group, own in chosen.items()
                for name, make in own.items()
            }
            found = {key: future.result() for key, future in asked.items()}
            base = base or {key: own for key, own in found.items() if not isinstance(own, str)}
            for group in chosen:
                keys = [key for key in base if key[0] == group]
                yield _row(left_out, group, [base[key] for key in keys], [found[key] for key in keys])
            tell(left_out)


def _row(left_out: str, group: str, before: Sequence[Any], found: Sequence[Any]) -> dict[str, Any]:
    maps = [own for own in found if not isinstance(own, str)]
    ratios = [own[2] / was[2] for was, own in zip(before, found, strict=True) if not isinstance(own, str) and was[2]]
    gaps = [own[2] / own[3] for own in maps if own[3]]
    return {
        "left out": left_out,
        "class": group,
        "networks": len(maps),
        "without a map": len(found) - len(maps),
        "cores": sum(own[0] for own in maps),
        "bounds": sum(own[1] for own in maps),
        "hops": round(float(np.mean(ratios)), 3) if ratios else 1.0,
        "hops over bound": round(float(np.mean(gaps)), 3) if gaps else 1.0,
        "CPU s": round(sum(own[4] for own in maps), 1),
    }
