"""Search of weight widths per layer: the smallest loss of a measured score within a limit of synaptic memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nirbridge._types import Progress
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, NirbridgeError
from nirbridge.network.model import Network
from nirbridge.quantization.memory import projection_bits
from nirbridge.quantization.model import QuantizedNetwork

Widths = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class WidthChoice:
    """Widths by target population, their memory and score; ``tried``: (widths, memory, score) of each round."""

    weight_bits: Widths
    synapse_bits: int
    score: float
    tried: tuple[tuple[Widths, int, float], ...]


def memory_of(quantized: QuantizedNetwork, chip: Chip) -> int:
    """Bits of synaptic memory of all projections, by the chip's own encoding (see ``memory.projection_bits``)."""
    return sum(projection_bits(p, chip) for p in quantized.projections)


def choose_widths(
    network: Network,
    chip: Chip,
    limit_bits: int,
    make: Callable[[Widths], QuantizedNetwork],
    score: Callable[[QuantizedNetwork], float],
    progress: Progress | None = None,
    asked: Widths | None = None,
) -> WidthChoice:
    """Greedy and deterministic: from the widest weights down, one layer at a time, until the memory is small enough.

    In each round every layer is tried one width narrower; taken is the one that loses least score per bit of memory
    saved (ties: the first in the network's order). The chip's widths are tried; one that cannot be quantized or has no
    mixed sign (1 bit) is skipped.

    Args:
        network: the retimed network.
        chip: whose widths and encoding are used.
        limit_bits: synaptic memory that may be taken, in bits.
        make: quantizes with widths by target population; raises NirbridgeError where that fails.
        score: higher is better (accuracy, or minus the spikes changed).
        progress: called with a stage and None.
        asked: widths by target population that are kept, and under ``'*'`` the widest of the others.

    Raises:
        DoesNotFit: even the narrowest widths that can be quantized need more.
    """
    layers = [p.name for p in network.populations if any(q.target == p.name for q in network.projections)]
    given = asked or {}
    widest = given.get("*", max(w for w in chip.synapses.weight_bits if w <= 8))
    widths = {name: given.get(name, widest) for name in layers}
    now = make(widths)
    tried = [(dict(widths), memory_of(now, chip), score(now))]
    while tried[-1][1] > limit_bits:
        steps = [_narrower(now, widths, name, chip, make) for name in layers if name not in given]
        scored = [(s[0], memory_of(s[1], chip), score(s[1]), s[1]) for s in steps if s is not None]
        if not scored:
            found, limit = f"{tried[-1][1]:,} bits at the narrowest weights", f"{limit_bits:,} bits are allowed"
            found += ", and those that were requested" if given else ""
            raise DoesNotFit.of("synaptic memory", found, limit, "allow more, or make the layers smaller")
        _, memory, best = tried[-1]
        widths, bits, found, now = min(scored, key=lambda s: ((best - s[2]) / (memory - s[1]), s[1]))
        tried.append((widths, bits, found))
        if progress is not None:
            progress(f"mixed precision: {bits:,} bits", None)
    return WidthChoice(widths, tried[-1][1], tried[-1][2], tuple(tried))


def _narrower(
    now: QuantizedNetwork, widths: Widths, name: str, chip: Chip, make: Callable[[Widths], QuantizedNetwork]
) -> tuple[dict[str, int], QuantizedNetwork] | None:
    """The widest narrower weights of a layer that save memory and can be had; None: there are none."""
    incoming = [p for p in now.projections if p.target == name]
    needed = sum(projection_bits(p, chip) for p in incoming)
    for width in sorted((w for w in chip.synapses.weight_bits if 1 < w < widths[name]), reverse=True):
        if sum(projection_bits(p, chip, width) for p in incoming) >= needed:
            continue
        changed = {**widths, name: width}
        try:
            return changed, make(changed)
        except NirbridgeError:
            continue
    return None
