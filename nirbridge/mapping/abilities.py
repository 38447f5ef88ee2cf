"""Features of neurons and synapses that a map needs and a chip lacks. Limits of cores are counted elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, quoted
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.network.model import Network, Projection
from nirbridge.partitioner.cost.resources import delay_on_chip_steps
from nirbridge.quantization.legality import feature_problems


def unsupported_features(
    record: MapRecord, network: Network, chip: Chip, *, placement_only: bool
) -> Iterator[Diagnostic]:
    """Delays and weight widths beyond those of the chip; and, unless only the placement counts, what it cannot run."""
    yield from _delays(network, chip)
    illegal = [*_weight_bits(record, chip)]
    yield from illegal
    if placement_only:
        return
    default = chip.synapses.weight_bits_default
    same = not illegal and len(record.projections) == len(network.projections)
    widths = (
        {id(q): p.weight_bits for p, q in zip(record.projections, network.projections, strict=False)} if same else {}
    )
    yield from feature_problems(network, chip, lambda q: widths.get(id(q), default))


def placement_only_problem(record: MapRecord, hint: str) -> list[Diagnostic]:
    """The problem of a map marked ``placement_only`` where one that runs is needed."""
    if not record.placement_only:
        return []
    found, limit = "is marked placement_only", "such a map cannot be quantized, run or emitted"
    return [Diagnostic("map", found, limit, hint, MappingProxyType({"placement_only": True}))]


def _thing(k: int, p: Projection) -> str:
    return f"projection {k} ({quoted(p.source)} -> {quoted(p.target)})"


def _delays(network: Network, chip: Chip) -> Iterator[Diagnostic]:
    most = chip.core.delay_steps
    for k, p in enumerate(network.projections):
        steps = delay_on_chip_steps(p)
        if most is not None and steps > most:
            limit = f"a {quoted(chip.name)} synapse delays by at most {most:,}"
            ids = MappingProxyType({"projection": k})
            yield Diagnostic(_thing(k, p), f"a delay of {steps:,} time steps", limit, "shorten the delay", ids)


def _weight_bits(record: MapRecord, chip: Chip) -> Iterator[Diagnostic]:
    legal = chip.synapses.weight_bits
    for k, p in enumerate(record.projections):
        if p.weight_bits not in legal:
            subject = f"projection {k} ({quoted(p.source)} -> {quoted(p.target)})"
            limit = f"a {quoted(chip.name)} stores {', '.join(map(str, legal))}"
            ids = MappingProxyType({"projection": k})
            yield Diagnostic(subject, f"{p.weight_bits} weight bits", limit, "choose one of these", ids)
