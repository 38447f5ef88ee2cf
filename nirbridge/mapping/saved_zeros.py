"""Zeros left out of a saved map: the synapses that remain, and a check that integers match them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nirbridge.chips import chip_from_dict
from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, counted, quoted
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.mapping.synapses import describe_operator
from nirbridge.mapping.zeros import MapFacts, lost_weights, stored_operators
from nirbridge.network.model import Network
from nirbridge.network.operators import Operator
from nirbridge.passes.retiming.retime import without_hops

if TYPE_CHECKING:
    from nirbridge.quantization.model import QuantizedNetwork


def stored_of_record(
    record: MapRecord, network: Network, chip: Chip, integers: QuantizedNetwork | None = None
) -> dict[int, Operator]:
    """The synapses that the cores of a saved map hold of the projections whose zeros it leaves out.

    ``network``: what was mapped. Decided anew on its integers, or those given; the checker compares the outcome with
    the file's.
    """
    marked = {k for k, p in enumerate(record.projections) if p.zeros is not None}
    if not marked:
        return {}
    facts = MapFacts(record.weight_bits, record.latency, record.early_spikes, not record.placement_only)
    return {k: v for k, v in stored_operators(network, chip, facts, integers).items() if k in marked}


def unstored_problems(quantized: QuantizedNetwork, record: MapRecord) -> Iterator[Diagnostic]:
    """Weights of these integers that are not 0 where the map left out a zero."""
    marked = [k for k, p in enumerate(record.projections) if p.zeros is not None]
    if not marked:
        return
    network, stored = quantized.network, {}
    if network is not None:
        whole = replace(record, latency=quantized.latency, early_spikes=quantized.early)
        made_of = partial(stored_of_record, whole, without_hops(network), chip_from_dict(record.chip))
        stored = made_of()
        if unlike := _unlike(record, marked, stored):
            # a map that was made for these integers left out their zeros
            stored |= {k: v for k, v in made_of(integers=quantized).items() if k in unlike}
    lost = {} if network is None else lost_weights(network, stored, quantized)
    unlike = _unlike(record, marked, stored)
    for k in marked:
        p, known = record.projections[k], k not in unlike
        if known and k not in lost:
            continue
        found = f"has {counted(lost[k], 'weight')} that the map left out as 0" if known else "has zeros left out"
        limit = "" if known else "the map does not tell which of these integers it left out"
        hint = "map the model with --keep-zeros"
        yield Diagnostic(f"projection {quoted(p.source)} -> {quoted(p.target)}", found, limit, hint)


def _unlike(record: MapRecord, marked: list[int], stored: Mapping[int, Operator]) -> list[int]:
    """Projections whose stored synapses are not those of the map."""
    return [k for k in marked if k not in stored or describe_operator(stored[k]) != record.projections[k].operator]
