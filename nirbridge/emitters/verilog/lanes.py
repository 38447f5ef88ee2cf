"""How many sums and neurons of a core stand side by side: cycles of a time step against cells, by a model of both.

Cycles: a hit is one, a step of neurons is one; cores work at the same time, the slowest sets the pace, and a core that
sends waits until its targets have added. Cells: a few
constants (``CELLS``) and what memories take; what a circuit really takes is what the tools say (``--synthesize``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from nirbridge.emitters.verilog.boards import Board
from nirbridge.emitters.verilog.plan import LANES_MAX, Circuit, Core, Lanes, Walk, Window, circuit
from nirbridge.errors import UsageError
from nirbridge.quantization.model import QuantizedNetwork


@dataclass(frozen=True, slots=True)
class Cells:
    """LUTs of an ECP5 by what they are for, measured on the digits networks and Braille's.

    ``core``, ``walk``, ``window``: of the state machines of each. ``of_sum``: of a bit of the sums side by side,
    ``of_choice``: more of it where one of more than 16 parts is chosen. ``of_bit``: of a stored bit that is in no
    memory block. ``of_neuron``: of a bit of the states and the drive of a neuron, in two stages.
    ``share``, ``rams``: of a device's cells and memory blocks that may be used. ``gain``: wider words are
    worth it where a time step takes at most this share of the cycles before.
    """

    core: float = 210.0
    walk: float = 70.0
    window: float = 140.0
    of_sum: float = 3.4
    of_choice: float = 3.5
    of_bit: float = 0.15
    of_neuron: float = 2.3
    share: float = 0.5
    rams: float = 0.9
    gain: float = 0.97


CELLS = Cells()
ICE40 = 1.3
"""Logic cells of an iCE40 for a LUT of an ECP5, whose carry chains and wide functions do more."""
RAM = {"ecp5": (36, 512), "ice40": (16, 256)}
"""Bits of a word and words of a memory block, at its widest."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the model says of a core.

    ``adding``, ``neurons``: cycles of a time step in which hits are added, and neurons computed. ``waits``: cycles
    that a target takes for what the core sends, while it can take nothing itself. ``luts``, ``block_rams``: cells.
    """

    adding: float
    neurons: float
    luts: int
    block_rams: int
    waits: float = 0.0

    @property
    def cycles(self) -> int:
        """Cycles of a time step."""
        return math.ceil(self.adding + max(self.neurons, self.waits))


def expected(plan: Circuit, board: Board, activity: float, lanes: Lanes | None = None) -> dict[str, Expected]:
    """The cost of every core, by id, where the share ``activity`` of all sources and neurons sends in a time step.

    ``lanes``: others than those of the circuit, by id.
    """
    lanes = lanes or {c.id: (c.stream.layout.lanes, c.neurons) for c in plan.cores}
    alone = {c.id: _alone(c, board, activity, lanes[c.id]) for c in plan.cores}
    waits = dict.fromkeys(alone, 0.0)
    for core in plan.cores:
        for w in core.walks:
            if w.source.id in waits:
                waits[w.source.id] = max(waits[w.source.id], _added(w, core, activity, lanes[core.id][0]))
    return {name: replace(cost, waits=waits[name]) for name, cost in alone.items()}


def _added(w: Walk, core: Core, activity: float, sums: int) -> float:
    """Cycles that the tokens of a walk take."""
    return activity * math.prod(w.source.shape) * max(1.0, _hits(w, core, sums))


def _alone(core: Core, board: Board, activity: float, lanes: tuple[int, int]) -> Expected:
    """The cost of a core that waits for no other."""
    sums, neurons = lanes
    layout = core.stream.layout
    words = layout.rows * layout.columns * -(-layout.channels // sums)
    adding = sum(_added(w, core, activity, sums) for w in core.walks)
    steps = words * (sums // neurons)
    sent = core.population.size * (activity if core.population.neuron.fires else 1.0)
    stored = [(sums * s.bits, words * core.slots) for s in core.sums]
    stored += [(neurons * sum(f.bits for f in core.neuron.states), steps)]
    stored += [(sums * w.weight_bits, math.ceil(w.form.weights.size / sums)) for w in core.walks]
    blocks = [_blocks(width, depth, board.family) for width, depth in stored]
    bits = sum(f.bits for f in (*core.neuron.states, core.neuron.drive))
    luts = CELLS.core + CELLS.of_neuron * bits * neurons * core.neuron.latency
    luts += sum(CELLS.window if isinstance(w.form, Window) else CELLS.walk for w in core.walks)
    luts += sum(s.bits for s in core.sums) * sums * (CELLS.of_sum + CELLS.of_choice * (sums // neurons > 16))
    luts += sum(CELLS.of_bit * width * depth for (width, depth), n in zip(stored, blocks, strict=True) if not n)
    scale = ICE40 if board.family == "ice40" else 1.0
    return Expected(adding, max(steps, sent) + core.neuron.latency + 6, round(luts * scale), sum(blocks))


def _hits(w: Walk, core: Core, sums: int) -> float:
    """Hits of a token on average, for words of ``sums`` sums."""
    layout, form = core.stream.layout, w.form
    own = layout.words_of_place
    new = -(-layout.channels // sums)
    if isinstance(form, Window):
        places = float(form.rows[:, 0].mean() * form.columns[:, 0].mean())
        return places * math.ceil(form.words * new / own)
    if form.count is None:
        return layout.words * new / own
    return max(1.0, float(form.count.sum() / math.prod(w.source.shape)) * new / own)


def _blocks(width: int, depth: int, family: str) -> int:
    """Memory blocks; small memories are made of cells."""
    if width * depth < 1024 or depth <= 16:
        return 0
    wide, deep = RAM[family]
    shapes = [(wide >> k, deep << k) for k in range(4)]
    return min(-(-width // w) * -(-depth // d) for w, d in shapes)


def _choices(core: Core) -> Iterator[tuple[int, int]]:
    """Sums and neurons side by side, as far as they divide the channels of a place well."""
    channels = core.stream.layout.channels
    seen = {-(-channels // parts) for parts in range(1, 9)} | {1 << k for k in range(8) if 1 << k <= channels}
    for sums in sorted(x for x in seen if x <= 128):
        yield from ((sums, neurons) for neurons in (1, 2, 4, 8) if sums % neurons == 0)


def chosen(quantized: QuantizedNetwork, lanes: str, board: Board, rate: float, activity: float) -> Circuit:
    """The circuit of a network on a board.

    Args:
        quantized: the network.
        lanes: "auto", or the sums of a word of every core.
        board: whose cells and clock count.
        rate: time steps a second that are enough; 0: as many as fit.
        activity: share of all sources that send in a time step.

    Raises:
        UsageError: another text.
        ModelError: what a circuit cannot hold.
    """
    if lanes != "auto" and not (lanes.isascii() and lanes.isdigit() and 1 <= int(lanes) <= LANES_MAX):
        limit, hint = f"auto, or a whole number from 1 to {LANES_MAX:,}", "leave it out: auto"
        raise UsageError.of("option lanes", f"{lanes[:40]!r}", limit, hint)
    least = circuit(quantized, {p.name: (1, 1) for p in quantized.populations})
    if lanes != "auto":
        sums = {c.population.name: min(int(lanes), c.stream.layout.channels) for c in least.cores}
        return circuit(quantized, {name: (n, 1) for name, n in sums.items()}, least)
    return circuit(quantized, _fastest(least, board, rate, activity), least)


def _fastest(least: Circuit, board: Board, rate: float, activity: float) -> Lanes:
    """Widens the core that gains most for its cells, as long as that pays and fits, or until the rate is reached."""
    enough, choices = board.mhz * 1e6 / rate if rate else 0.0, {c.id: list(_choices(c)) for c in least.cores}
    lanes: dict[str, tuple[int, int]] = {c.id: (1, 1) for c in least.cores}
    now = expected(least, board, activity, lanes)
    rams = max(CELLS.rams * board.resources.block_rams, sum(c.block_rams for c in now.values()))
    while max(c.cycles for c in now.values()) > enough:
        tried = [lanes | {core: x} for core in _in_the_way(least, now) for x in choices[core]]
        costs = [(x, expected(least, board, activity, x)) for x in tried]
        better = [
            (_worth(new, now), x, new)
            for x, new in costs
            if _fits(new, CELLS.share * board.resources.luts, rams) and _pace(new) <= CELLS.gain * _pace(now)
        ]
        if not better:
            break
        _, lanes, now = max(better, key=lambda found: found[0])
    return {c.population.name: lanes[c.id] for c in least.cores}


def _in_the_way(plan: Circuit, costs: Mapping[str, Expected]) -> list[str]:
    """The slowest core, and those that it waits for."""
    slowest = max(costs, key=lambda core: costs[core].cycles)
    return [slowest, *(c.id for c in plan.cores if c.id != slowest and any(w.source.id == slowest for w in c.walks))]


def _worth(new: Mapping[str, Expected], old: Mapping[str, Expected]) -> float:
    """Logarithm of the cycles saved, by what it costs."""
    more = sum(c.luts for c in new.values()) - sum(c.luts for c in old.values())
    return math.log(_pace(old) / _pace(new)) / max(16, more)


def _pace(costs: Mapping[str, Expected]) -> float:
    """Cycles of the slowest core, and a little of the others, so that two that are alike can become faster in turn."""
    return sum(c.cycles**8.0 for c in costs.values()) ** (1 / 8)


def _fits(costs: Mapping[str, Expected], luts: float, rams: float) -> bool:
    return sum(c.luts for c in costs.values()) <= luts and sum(c.block_rams for c in costs.values()) <= rams
