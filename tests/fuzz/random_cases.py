"""Random cases: network, chip, cores, widths and input; and every simulator for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from nirbridge.arrays import freeze
from nirbridge.chips import chip_from_dict, core_at, read_chip
from nirbridge.chips.model import Chip
from nirbridge.importers import load_nir, save_nir
from nirbridge.mapping.checker import check
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network import Network, Population, Projection, from_nir, network_differences, to_nir
from nirbridge.passes import Retime, RetimedNetwork
from nirbridge.pipeline import MapOptions, map_retimed, place_partition
from nirbridge.pipeline.fit import prepare_retimed
from nirbridge.pipeline.partitioning import partitions
from nirbridge.quantization.model import FixedNeuron, QuantizedNetwork
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.mapped.simulate import simulate_mapped
from nirbridge.testing import networks
from nirbridge.verification.verify import Verification, all_probes, verify

STRETCH = 100
"""Networks that hypothesis draws with one seed."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A network and all that decides how it runs."""

    network: Network
    chip: Chip
    options: MapOptions
    bits: int | None
    batch: int | None
    seed: int


def cases(count: int, seed: int) -> Iterator[Case]:
    """Networks that are likely to be accepted; what is drawn of each besides is never the same twice."""
    for at in range(count):
        if at % STRETCH == 0:
            drawn = _drawn(seed * 1_000_000 + at // STRETCH)
        yield _case(drawn[at % len(drawn)], seed * 100_000_000 + at)


def _drawn(seed: int) -> list[Network]:
    out: list[Network] = []

    @seeded(seed)
    @settings(
        max_examples=STRETCH, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=HealthCheck
    )
    @given(networks())
    def collect(network: Network) -> None:
        out.append(network)

    collect()
    return out


def _case(network: Network, number: int) -> Case:
    from tests.simulators.mapped.test_mapped import at_rest

    rng = np.random.default_rng(number)
    name = ("loihi2", "loihi2", "loihi1")[rng.integers(3)]
    record: dict[str, Any] = {k: dict(v) if hasattr(v, "items") else v for k, v in read_chip(name).record.items()}
    record["core"] |= {"neurons": int(rng.choice([1, 3, 8, 20, 50]))}
    if rng.random() < 0.3:
        record["synapses"] |= {"run_targets_max": int(rng.integers(1, 64)), "run_free": bool(rng.integers(2))}
    options = MapOptions(
        method=("sequential", "packed", "packed", "cp-sat")[rng.integers(4)] if rng.random() < 0.2 else "sequential",
        effort="fast",
        seed=int(rng.integers(100)),
        relays=False,
    )
    bits = (None, None, 4, 8)[rng.integers(4)]
    chosen = at_rest(network, number % 2**16) if rng.random() < 0.9 else network
    chosen = replace(
        chosen,
        populations=tuple(map(_with_a_reset_that_chips_have, chosen.populations)),
        projections=tuple(map(_without_a_bias_of_zeros, chosen.projections)),
    )
    return Case(chosen, chip_from_dict(record), options, bits, (None, 2)[rng.integers(2)], number)


def _with_a_reset_that_chips_have(population: Population) -> Population:
    """No integers have several spikes per time step and a reset to another value than 0."""
    n = population.neuron
    if n.max_spikes == 1 or n.reset != "to-value":
        return population
    return replace(population, neuron=replace(n, v_reset=freeze(np.float64(0))))


def _without_a_bias_of_zeros(projection: Projection) -> Projection:
    """No bias, as a graph is read: ``at_rest`` rounds some to 0, which would come back as none."""
    has_bias = projection.bias is not None and bool(np.any(projection.bias))
    return projection if has_bias else replace(projection, bias=None)


def inputs(network: Network, steps: int, batch: int | None, seed: int) -> dict[str, Any]:
    """Spikes, 4 in 10."""
    rng = np.random.default_rng(seed)
    lead = (steps,) if batch is None else (steps, batch)
    return {p.name: (rng.random((*lead, *p.shape)) < 0.4).astype(np.uint8) for p in network.inputs}


def made(case: Case) -> tuple[RetimedNetwork, QuantizedNetwork, MappedNetwork]:
    """The network in integers and on cores. Raises ModelError or DoesNotFit for what the chip cannot do."""
    chip = case.chip
    most, graded = chip.core.delay_steps, chip.neuron.graded_spikes
    retimed = Retime(delay_steps_max=most, graded_spikes=graded).retimed(case.network)
    quantized = quantize(retimed, chip, QuantizationOptions(weight_bits=case.bits))
    widest = max((p.weight_bits for p in quantized.projections), default=case.bits)
    return retimed, quantized, _mapped(retimed, case, replace(case.options, weight_bits=widest))


def compare(case: Case, steps: int = 12) -> Verification:
    """All ways but Lava. Raises as ``made`` does."""
    retimed, quantized, mapped = made(case)
    given_ = inputs(case.network, steps, case.batch, case.seed)
    return verify(retimed.reference, quantized, given_, steps=steps, mapping=mapped)


def narrow(case: Case) -> list[str]:
    """What differs between fixed and mapped where states are as narrow as thresholds let them be.

    Membranes saturate and currents wrap then, which the scales of ``quantize`` keep them from.
    """
    _, quantized, mapped = made(case)
    rng = np.random.default_rng(case.seed)
    cells = tuple(replace(p, neuron=_narrowed(p.neuron, rng)) for p in quantized.populations)
    odd, given_ = replace(quantized, populations=cells), inputs(case.network, 30, None, case.seed)
    fixed = simulate_fixed(odd, given_, record=all_probes(odd), backend=("reference", "auto")[case.seed % 2]).recording
    other = simulate_mapped(odd, mapped, given_, record=all_probes(odd)).arrays
    return [f"mapped differs in {key}, narrow" for key, a in fixed.arrays.items() if not np.array_equal(a, other[key])]


def _narrowed(neuron: FixedNeuron, rng: np.random.Generator) -> FixedNeuron:
    most = max(int(np.max(np.abs(x))) for x in (neuron.fires_above, neuron.v_init, neuron.spike_size) if x is not None)
    bits = max(8, most.bit_length() + 1 + int(rng.integers(2)))
    least = max(8, int(np.max(np.abs(neuron.u_init))).bit_length() + 2)
    v_bits, u_bits = min(neuron.v_bits, bits), min(neuron.u_bits, max(least, bits - int(rng.integers(3))))
    return replace(neuron, v_bits=v_bits, u_bits=u_bits)


def _mapped(retimed: RetimedNetwork, case: Case, options: MapOptions) -> MappedNetwork:
    """The blocks on cores drawn at random: quicker than to place them, and odder maps; 1 in 8 is placed."""
    if case.seed % 8 == 0:
        return map_retimed(retimed, case.chip, options)
    ready = prepare_retimed(retimed, case.chip, options)
    partition = partitions(ready, case.chip, options, retimed.reference)[0]
    drawn = np.random.default_rng(case.seed).permutation(case.chip.mesh.cores)[: len(partition.blocks)]
    cores = tuple(core_at(case.chip, int(k), 0) for k in drawn)
    placed = place_partition(ready.network, case.chip, partition, options, cores, ready.stored)
    mapped = replace(placed, latency=ready.latency)
    check.check_mapping(mapped)
    return mapped


def wrong(found: Verification) -> list[str]:
    """What is not as required: bits that differ from the integers', a population outside its bound."""
    said = [f"{x.population} is outside its bound at {x.broken}" for x in found.layers if not x.holds]
    fixed = found.recordings["fixed"].arrays
    for way in found.recordings.keys() - {"fixed", "reference"}:
        other = found.recordings[way].arrays
        keys = [key for key, array in fixed.items() if array.dtype.kind in "iu"]
        said += [f"{way} lacks {key}" for key in keys if key not in other]
        said += [
            f"{way} differs in {key}" for key in keys if key in other and not np.array_equal(other[key], fixed[key])
        ]
    said += [f"{p.a} and {p.b} differ" for p in found.pairs if p.required and not p.comparison.equal]
    return said


def comes_back(network: Network, folder: Path | None) -> tuple[str, ...]:
    """What a NIR graph (a file where there is a folder) does not keep."""
    graph = to_nir(network)
    if folder is not None:
        save_nir(graph, folder / "a.nir")
        graph = load_nir(folder / "a.nir")
    return network_differences(from_nir(graph), network)
