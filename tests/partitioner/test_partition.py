"""Known optima on loihi1, options, and refusals with their exact words."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip, without_cores
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, UsageError
from nirbridge.mapping.checker import check
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Sparse
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.cost.resources import exceeded, limits
from nirbridge.partitioner.model import Partition
from nirbridge.pipeline import MapOptions, map_network
from tests.partitioner.nets import DENSE_KILLERS, DVS_GESTURE, NMNIST, network_of

LOIHI1 = read_chip("loihi1")


@cache
def nmnist_on(chip: str) -> Partition:
    """The network of NMNIST by the default method."""
    return partition(network_of(NMNIST), read_chip(chip))


@pytest.mark.parametrize("name", sorted(DENSE_KILLERS))
def test_dense_layers_meet_the_bound_of_any_map(name: str) -> None:
    text, chips, cores = DENSE_KILLERS[name]
    mapped = map_network(network_of(text), LOIHI1, MapOptions(chips=chips))
    report = mapped.partition.report
    assert (report.cores, report.cores_lower_bound, report.status) == (cores, cores, "optimal")
    assert not list(check.diagnose_mapping(mapped))


def test_dvs_gesture_takes_30_cores_of_loihi1() -> None:
    report = partition(network_of(DVS_GESTURE), LOIHI1).report
    assert (report.cores, report.cores_lower_bound) == (30, 29)


@pytest.mark.parametrize(("chip", "cores", "status"), [("loihi1", 11, "feasible"), ("loihi2", 2, "optimal")])
def test_the_nmnist_network_on_loihi(chip: str, cores: int, status: str) -> None:
    report = nmnist_on(chip).report
    assert (report.cores, report.status) == (cores, status)


def test_the_most_effort_proves_that_no_slices_take_fewer_cores() -> None:
    report = partition(network_of(NMNIST), LOIHI1, PartitionOptions(effort="max")).report
    assert (report.cores, report.status) == (11, "optimal-sliced")


def test_methods_in_their_order() -> None:
    network = network_of(NMNIST)
    cores = [partition(network, LOIHI1, PartitionOptions(method=m)).report.cores for m in ("sequential", "packed")]
    cores.append(nmnist_on("loihi1").report.cores)
    assert cores == sorted(cores, reverse=True)
    assert cores[0] > cores[2]


def test_a_map_never_overfills_and_reports_what_it_uses() -> None:
    found = partition(network_of(DVS_GESTURE), LOIHI1, PartitionOptions(method="packed"))
    assert all(not exceeded(b.used, limits(LOIHI1)) for b in found.blocks)
    assert sum(b.used["neurons"] for b in found.blocks) == network_of(DVS_GESTURE).neurons


def test_fewer_bits_take_fewer_cores() -> None:
    network = network_of("784 dense2000 lif dense10 lif")
    eight, four = (partition(network, LOIHI1, PartitionOptions(weight_bits=b)).report.cores for b in (8, 4))
    assert four < eight


def test_shared_kernels_need_fewer_words() -> None:
    network = network_of(NMNIST)
    shared = replace(LOIHI1, synapses=replace(LOIHI1.synapses, shared_kernels=True))
    assert partition(network, shared).report.cores <= nmnist_on("loihi1").report.cores


def test_populations_of_different_groups_never_share_a_core() -> None:
    network = network_of("64 dense10 lif dense10 lif dense10 lif")
    names = [p.name for p in network.populations]
    found = partition(network, LOIHI1, PartitionOptions(groups={names[1]: 1}))
    assert found.report.cores == 2
    together = [{s.population for s in b.slices} for b in found.blocks]
    assert [populations for populations in together if names[1] in populations] == [{names[1]}]


def test_a_single_neuron_too_heavy() -> None:
    with pytest.raises(DoesNotFit) as caught:
        partition(network_of("5000 dense10 lif"), LOIHI1)
    assert str(caught.value).startswith(
        "population '2_lif', neuron (5): 5,000 input axons for one neuron, a loihi1 core holds 4,096; give the layer"
    )
    assert caught.value.problems[0].ids["resource"] == "input_axons"


def test_two_million_dense_inputs_are_refused_at_once() -> None:
    with pytest.raises(DoesNotFit, match="2,000,000 input axons for one neuron, a loihi1 core holds 4,096"):
        partition(network_of("2000000 dense4096 lif"), LOIHI1)


def test_words_of_dense_layers_that_hold_far_fewer_neurons_than_a_core_add_up() -> None:
    report = partition(
        network_of("512 dense4096 lif dense4096 lif dense10 lif"), read_chip("loihi2"), PartitionOptions(chips=2)
    ).report
    # 62 targets of 8 bits and a header of 10 bits fill 8 words of 64 bits: no list of a source takes fewer per target
    words = (512 * 4096 + 4096 * 4096 + 4096 * 10) * 8 / 62
    assert report.cores_lower_bound >= words / 24576 > 99 > report.bounds["population"]


def test_too_many_cores_names_the_limit_that_proves_it() -> None:
    with pytest.raises(DoesNotFit) as caught:
        partition(network_of("784 dense4096 lif dense4096 lif dense20 lif"), LOIHI1)
    problem = caught.value.problems[0]
    assert problem.ids["reasons"] == ("synapse_words",)
    assert problem.ids["found"] > 128
    assert str(problem).startswith("network of 8,212 neurons: at least 204 cores in any map (population '2_lif' alone ")
    assert str(problem).endswith("1 x loihi1 has 128; use at least --chips 2")


def small_chip(**limits_of_a_core: int) -> Chip:
    mesh = replace(LOIHI1.mesh, width_tiles=1, height_tiles=1, cores_per_tile=2)
    return replace(LOIHI1, core=replace(LOIHI1.core, **limits_of_a_core), mesh=mesh)


def test_a_bound_that_two_limits_prove_together_names_both() -> None:
    chip = small_chip(neurons=3, output_axons=5)
    with pytest.raises(DoesNotFit) as caught:
        partition(network_of("2 dense5 lif:rec"), chip)
    assert set(caught.value.problems[0].ids["reasons"]) == {"neurons", "output_axons"}
    for reason in ("neurons", "output_axons"):
        partition(network_of("2 dense5 lif:rec"), replace(chip, core=replace(chip.core, **{reason: 100})))


def three_pairs() -> Network:
    """Three populations of two neurons, each with two inputs of its own."""
    weight = np.ones((2, 2), np.float32)
    names = ("a", "b", "c")
    return Network(
        1e-4,
        Timing(1e-4, "euler", "to-value", ">", "per-second"),
        tuple(Population(n, (2,), neuron("LIF")) for n in names),
        tuple(Projection(f"in {n}", n, Dense(weight)) for n in names),
        tuple(Port(f"in {n}", (2,)) for n in names),
        (),
    )


def every_pair_of_four() -> Network:
    """Six neurons, each with another two of four inputs: three of them share three inputs at most."""
    ends = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    rows = Sparse(
        freeze(np.arange(0, 13, 2)), freeze(np.array(ends).reshape(-1)), freeze(np.ones(12, np.float32)), (4,), (6,)
    )
    cells = (Population("a", (6,), neuron("LIF", a_mem=0.5)),)
    return Network(1.0, Timing(1.0), cells, (Projection("in", "a", rows),), (Port("in", (4,)),), ())


def test_neurons_that_share_no_core_are_a_bound() -> None:
    with pytest.raises(
        DoesNotFit, match=r"^network of 6 neurons: at least 3 cores in any map .*limit per core of 3 input"
    ):
        partition(three_pairs(), small_chip(input_axons=3))
    assert partition(three_pairs(), small_chip(input_axons=4)).report.status == "optimal"


def test_a_tiny_network_is_ruled_out_by_the_solver() -> None:
    """No two of its neurons need a core each, and yet two cores do not hold all six."""
    with pytest.raises(DoesNotFit) as caught:
        partition(every_pair_of_four(), small_chip(input_axons=3))
    assert str(caught.value) == (
        "network of 6 neurons: no map onto 2 cores exists (proved by CP-SAT, neuron by neuron), "
        "3 input axons per core rule it out; use more chips (--chips), or another chip"
    )
    assert partition(every_pair_of_four(), small_chip(input_axons=4)).report.status == "optimal"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            PartitionOptions(method="best"),
            r"^--method: best, there are sequential, packed, cp-sat; choose one of these$",
        ),
        (
            PartitionOptions(weight_bits=7),
            r"^--bits: 7, loihi1 stores 1, 2, 3, 4, 5, 6, 8; choose one of these$",
        ),
        (PartitionOptions(chips=0), r"^--chips: 0, a board of loihi1 has 1 to 32; choose a number in that range$"),
        (PartitionOptions(effort="huge"), r"^--effort: huge, there are fast, default, max; choose one of these$"),
    ],
)
def test_options_that_make_no_sense(options: PartitionOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        partition(network_of("4 dense2 lif"), LOIHI1, options)


def test_every_core_masked_out_is_said() -> None:
    chip = without_cores(LOIHI1, range(128))
    with pytest.raises(
        DoesNotFit, match=r"^1 x loihi1: no core is left, every one is masked out; name fewer cores, or"
    ):
        partition(network_of("4 dense2 lif"), chip)
