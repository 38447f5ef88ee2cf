"""Pages of reports that tests look at: small maps, a long name, eight chips, a network with everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge import pipeline
from nirbridge.chips import read_chip
from nirbridge.chips.model import CoreId, Mesh
from nirbridge.mapping.cost import costs
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense
from nirbridge.partitioner.model import Block, BlockId, Partition, Slice, SolveReport
from nirbridge.report.html.page import ReportSources
from tests.mapping.tables import table

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "examples/models/digits_cnn.nir"
TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
NAMES = ("<script>alert(1)</script>", '"\'&quot;\' onclick="x"', "n" * 1000, "]]>-->\x1b\n\u202e${x}`", "名前")
"""Names as a file may have them."""


def chain(names: Sequence[str], size: int = 100) -> Network:
    """An input, populations in a row, one of them recurrent, an output."""
    populations = tuple(Population(name, (size,), neuron("LIF")) for name in names)
    weight = np.broadcast_to(np.float32(1), (size, size))
    ends = [("in", names[0]), *pairwise(names), (names[-1], "out")]
    edges = [Projection(a, b, Dense(weight)) for a, b in ends]
    edges.append(Projection(names[0], names[0], Dense(weight), delay_steps=np.int64(2), is_back=True))
    return Network(1e-3, TIMING, populations, tuple(edges), (Port("in", (size,)),), (Port("out", (size,)),))


def cores_in_order(mesh: Mesh, blocks: int, chips: int) -> tuple[CoreId, ...]:
    """Cores for a number of blocks, chip by chip and tile by tile."""
    per_chip = -(-blocks // chips)
    places = [divmod(b, per_chip) for b in range(blocks)]
    return tuple(
        CoreId(
            c,
            k // mesh.cores_per_tile % mesh.width_tiles,
            k // mesh.cores_per_tile // mesh.width_tiles,
            k % mesh.cores_per_tile,
        )
        for c, k in places
    )


@cache
def placed(names: tuple[str, ...], blocks: int, chip_name: str = "loihi2", chips: int = 1) -> MappedNetwork:
    """``blocks`` cores, each of 100 neurons of a population, that send to the next two and the first of their chip."""
    chip = read_chip(chip_name)
    mesh = chip.mesh
    sizes = [len(range(k, blocks, len(names))) for k in range(len(names))]
    network = chain(names)
    populations = tuple(replace(p, shape=(100 * n,)) for p, n in zip(network.populations, sizes, strict=True))
    network = replace(network, populations=populations)
    used = {"neurons": 100, "input_axons": 50, "output_axons": 100, "synapse_words": 24_500, "decay_profiles": 1}
    own = tuple(
        Block(
            BlockId(b),
            (Slice(names[b % len(names)], ((100 * (b // len(names)), 100 * (b // len(names)) + 100),)),),
            MappingProxyType({**used, "input_axons": 50 + b % 40, "threshold_profiles": 1}),
        )
        for b in range(blocks)
    )
    proof = SolveReport(
        "cp-sat",
        "feasible",
        blocks,
        blocks - 1,
        blocks - 1,
        {"synapse_words": blocks - 1},
        "synapse_words",
        0,
        "OR-Tools 9",
        0.0,
    )
    cores, per_chip = cores_in_order(mesh, blocks, chips), -(-blocks // chips)
    to = [sorted({(b + 1) % blocks, (b + 2) % blocks, b - b % per_chip}) for b in range(blocks)]
    axons = table([(b, 1.0 + b % 7, targets) for b, targets in enumerate(to)])
    senders = np.array([b % len(names) + 1 for b in range(blocks)], np.int64)
    axons = replace(axons, names=("host", *names), source_name=senders)
    paid = costs(axons, cores, chip, [100] * blocks, chips=chips)
    return MappedNetwork(network, chip, chips, Partition(own, 8, proof), cores, axons, paid, "cores", "assumed: 0.02")


@cache
def everything() -> ReportSources:
    """The digits CNN on loihi1 with 4 bits: map, quantized network and verification."""
    network, chip = pipeline.load_network(MODEL), pipeline.load_chip("loihi1")
    mapped = pipeline.map_network(network, chip, pipeline.MapOptions(effort="fast"))
    plan = pipeline.quantize_plan(network, {"weight_bits": 4}, None, {"method": "range", "percentile": 99.9})
    quantized = pipeline.quantize_network(network, chip, *plan)
    verification = pipeline.verify_network(network, chip, steps=30, weight_bits=4)
    return ReportSources("digits_cnn.nir", network, mapped, None, quantized, verification)


def hostile(blocks: int = 10) -> ReportSources:
    """A map whose every name is one that a page must not run."""
    mapped = placed(NAMES, blocks)
    return ReportSources(NAMES[0], mapped.network, mapped)


class Reader(HTMLParser):
    """Tags, attributes, text and ids of a page; an unclosed or crossing tag is an error."""

    EMPTY = frozenset({"meta", "br", "input", "col"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.words: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())
