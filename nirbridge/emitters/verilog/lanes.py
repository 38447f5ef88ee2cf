"""How many sums and neurons of a core stand side by side: cycles of a time step against cells, by a model of both.

Cycles: a hit is one, a step of neurons is one; cores work at the same time, the slowest sets the pace. Cells: a few
constants (``CELLS``) and what memories take; what a circuit really takes is what the tools say (``--synthesize``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nirbridge.emitters.verilog.boards import Board, Resources
from nirbridge.emitters.verilog.plan import LANES_MAX, Circuit, Core, Lanes, Walk, Window, circuit
from nirbridge.errors import UsageError
from nirbridge.quantization.model import QuantizedNetwork


@dataclass(frozen=True, slots=True)
class Cells:
    """LUTs of an ECP5 by what they are for, measured on the digits networks and Braille's.

    ``core``, ``walk``, ``window``: of the state machines of each. ``of_sum``: of a bit of the sums side by side,
    ``of_choice``: more of it where one of more than 16 parts is chosen. ``of_bit``: of a stored bit that is in no
    memory block. ``of_neuron``: of a bit of the states and the drive of a neuron, in two stages.
    ``share``: of a device's cells that may be used. ``gain``: wider words are worth it where a time step takes at most
    this share of the cycles before.
    """

    core: float = 210.0
    walk: float = 70.0
    window: float = 140.0
    of_sum: float = 3.4
    of_choice: float = 3.5
    of_bit: float = 0.15
    of_neuron: float = 2.3
    share: float = 0.5
    gain: float = 0.97


CELLS = Cells()
ICE40 = 1.3
"""Logic cells of an iCE40 for a LUT of an ECP5, whose carry chains and wide functions do more."""
RAM = {"ecp5": (36, 512), "ice40": (16, 256)}
"""Bits of a word and words of a memory block, at its widest."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the model says: cycles in which hits are added and neurons computed, LUTs, memory blocks."""

    adding: float
    neurons: float
    luts: int
    block_rams: int

    @property
    def cycles(self) -> int:
        """Cycles of a time step."""
        return math.ceil(self.adding + self.neurons)


def expected(core: Core, board: Board, activity: float, lanes: tuple[int, int] | None = None) -> Expected:
    """The cost of a core where the share ``activity`` of sources and neurons sends; ``lanes``: others than its own."""
    sums, neurons = lanes or (core.stream.layout.lanes, core.neurons)
    layout = core.stream.layout
    words = layout.rows * layout.columns * -(-layout.channels // sums)
    adding = sum(activity * math.prod(w.source.shape) * max(1.0, _hits(w, core, sums)) for w in core.walks)
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
    """Hits of a token on average, where words have so many sums."""
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
    """Widens the slowest core as long as that pays and fits, or until the rate is reached."""
    enough = board.mhz * 1e6 / rate if rate else 0.0
    costs = {c.id: {x: expected(c, board, activity, x) for x in _choices(c)} for c in least.cores}
    lanes: dict[str, tuple[int, int]] = {}
    while True:
        now = {core: costs[core][lanes.get(core, (1, 1))] for core in costs}
        slowest = max(now, key=lambda core: now[core].cycles)
        if now[slowest].cycles <= enough:
            break
        others = [x for core, x in now.items() if core != slowest]
        better = [
            (x, cost)
            for x, cost in costs[slowest].items()
            if cost.cycles <= CELLS.gain * now[slowest].cycles and _fits([*others, cost], board.resources)
        ]
        if not better:
            break
        lanes[slowest] = max(better, key=lambda b: _worth(b[1], now[slowest]))[0]
    return {c.population.name: lanes.get(c.id, (1, 1)) for c in least.cores}


def _worth(new: Expected, old: Expected) -> float:
    """Logarithm of the cycles saved, by what it costs."""
    return math.log(old.cycles / new.cycles) / max(16, new.luts - old.luts)


def _fits(costs: list[Expected], resources: Resources) -> bool:
    luts, rams = sum(c.luts for c in costs), sum(c.block_rams for c in costs)
    return luts <= CELLS.share * resources.luts and rams <= 0.9 * resources.block_rams
