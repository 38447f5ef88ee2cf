"""Features of neurons and synapses that a map needs and a chip lacks. Limits of cores are counted elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, quoted
from nirbridge.mapping.storage.record import MapRecord, ProjectionRecord
from nirbridge.network.model import Network, Projection
from nirbridge.partitioner.cost.resources import delay_on_chip_steps
from nirbridge.quantization.legality import feature_problems


def unsupported_features(
    record: MapRecord, network: Network, chip: Chip, *, placement_only: bool
) -> Iterator[Diagnostic]:
    """Delays and weight widths beyond those of the chip; for more than a placement, all that it cannot run."""
    yield from _delays(network, chip)
    yield from _weight_bits(record, chip)
    if placement_only:
        return
    bits = counted_weight_bits(record, network, chip)
    widths = {id(p): width for p, width in zip(network.projections, bits, strict=True)}
    yield from feature_problems(network, chip, lambda p: widths[id(p)])


def counted_weight_bits(record: MapRecord, network: Network, chip: Chip) -> list[int]:
    """Weight bits per projection to count with: those of the file, or the chip's own where they are not legal."""
    stored = [p.weight_bits for p in record.projections]
    if len(stored) != len(network.projections) or not set(stored) <= set(chip.synapses.weight_bits):
        return [chip.synapses.weight_bits_default] * len(network.projections)
    return stored


def placement_only_problem(record: MapRecord, hint: str) -> list[Diagnostic]:
    """The problem of a map marked ``placement_only`` where one that runs is needed."""
    if not record.placement_only:
        return []
    found, limit = "is marked placement_only", "such a map cannot be quantized, run or emitted"
    return [Diagnostic("map", found, limit, hint, MappingProxyType({"placement_only": True}))]


def _subject(k: int, p: Projection | ProjectionRecord) -> str:
    return f"projection {k} ({quoted(p.source)} -> {quoted(p.target)})"


def _delays(network: Network, chip: Chip) -> Iterator[Diagnostic]:
    longest = chip.core.delay_steps
    for k, p in enumerate(network.projections):
        steps = delay_on_chip_steps(p)
        if longest is not None and steps > longest:
            limit = f"a {quoted(chip.name)} synapse delays by at most {longest:,}"
            ids = MappingProxyType({"projection": k})
            yield Diagnostic(_subject(k, p), f"a delay of {steps:,} time steps", limit, "shorten the delay", ids)


def _weight_bits(record: MapRecord, chip: Chip) -> Iterator[Diagnostic]:
    legal = chip.synapses.weight_bits
    for k, p in enumerate(record.projections):
        if p.weight_bits not in legal:
            limit = f"a {quoted(chip.name)} stores {', '.join(map(str, legal))}"
            ids = MappingProxyType({"projection": k})
            yield Diagnostic(_subject(k, p), f"{p.weight_bits} weight bits", limit, "choose one of these", ids)
