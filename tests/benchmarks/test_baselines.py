"""The baseline rules behave as the tools that they represent."""

from __future__ import annotations


def outcomes(graph: object) -> dict[str, tuple[int | None, str]]:
    from benchmarks.baselines import BASELINES
    from nirbridge.chips import read_chip
    from nirbridge.network.nir.from_nir import from_nir

    network, chip = from_nir(graph), read_chip("loihi1")
    found = {name: rule(network, chip) for name, rule in BASELINES.items()}
    return {name: (outcome.cores, outcome.reason) for name, outcome in found.items()}


def test_a_layer_never_shares_a_core() -> None:
    from benchmarks import nets

    found = outcomes(nets.mlp())
    assert found["layer-per-core"] == (2, "")
    assert found["nengo-loihi rule"] == (2, "")
    assert found["round-robin"] == (1, "")
    assert found["random"] == (1, "")


def test_even_splits_fail_on_the_output_axons_of_dense_layers() -> None:
    from benchmarks import nets

    found = outcomes(nets.dense_stack(1500, 2))
    # 750 sources on each of two cores, 22 pieces of the target: one output axon for each pair
    assert found["nengo-loihi rule"] == (None, "lif_1: a piece with 16,500 output axons, a core holds 4,096")
    assert found["layer-per-core"][0] == 28
    assert found["round-robin"][0] == 20


def test_a_neuron_that_fits_no_core_is_a_reason() -> None:
    from benchmarks import nets

    found = outcomes(nets.feedforward((5000,), [nets.Dense(3)]))
    assert set(found.values()) == {(None, "lif_1: no split fits")}
