"""No partitioner yields an illegal map, none is worse than the simpler ones, and refusals are correct."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from nirbridge.chips import cores_of
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit
from nirbridge.mapping.checker import check
from nirbridge.network.model import Network
from nirbridge.partitioner import Partition, PartitionOptions, partition
from nirbridge.pipeline import place_partition
from nirbridge.testing import chips, networks
from tests.cases import cases
from tests.partitioner.brute_force import fewest_cores

# shrinking is quick, explaining a failure by running it hundreds of times more is not
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def cores_or_none(network: Network, chip: Chip, method: str) -> Partition | None:
    try:
        return partition(network, chip, PartitionOptions(method=method))
    except DoesNotFit:
        return None


def outcome(network: Network, chip: Chip, method: str) -> Partition | str:
    try:
        return partition(network, chip, PartitionOptions(method=method, seed=3))
    except DoesNotFit as error:
        return str(error)


@settings(max_examples=cases(120, 500), suppress_health_check=HEALTH, phases=PHASES)
@given(networks(max_populations=4), chips())
def test_every_map_is_legal_and_no_method_is_worse_than_the_one_before(network: Network, chip: Chip) -> None:
    found = [cores_or_none(network, chip, method) for method in ("sequential", "packed", "cp-sat")]
    sizes = [p.report.cores for p in found if p is not None]
    assert sizes == sorted(sizes, reverse=True)
    assert [p is None for p in found] == sorted((p is None for p in found), reverse=True)
    for result in found:
        if result is not None:
            assert result.report.cores_lower_bound <= result.report.cores
            cores = cores_of(chip, 1)[: result.report.cores]
            placed = place_partition(network, chip, result, cores=cores)
            assert not list(check.diagnose_mapping(placed, placement_only=True))  # no chip runs all of these neurons


@settings(max_examples=cases(50, 150), suppress_health_check=HEALTH, phases=PHASES)
@given(networks(max_populations=2), chips(words=False))
def test_refusals_are_real_and_optimal_is_optimal(network: Network, chip: Chip) -> None:
    assume(network.neurons <= 6)
    available = len(cores_of(chip, 1))
    best = fewest_cores(network, chip, min(available, network.neurons))
    if best is None:
        with pytest.raises(DoesNotFit) as caught:
            partition(network, chip)
        assert "not proved" not in str(caught.value)
    else:
        found = partition(network, chip).report
        assert (found.cores, found.status) == (best, "optimal")


@pytest.mark.parametrize("method", ["sequential", "packed", "cp-sat"])
@settings(max_examples=20)
@given(network=networks(max_populations=3), chip=chips())
def test_the_same_input_gives_the_same_partition(method: str, network: Network, chip: Chip) -> None:
    assert outcome(network, chip, method) == outcome(network, chip, method)
