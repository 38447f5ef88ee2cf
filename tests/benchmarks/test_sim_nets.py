from __future__ import annotations

import numpy as np
import pytest

from benchmarks import sim_nets, sim_rivals, simulators
from nirbridge.network.check import check_network


def is_on_grid(values: np.ndarray, bits: int) -> bool:
    scaled = values.astype(np.float64) * 2**bits
    return bool((scaled == np.round(scaled)).all())


@pytest.mark.parametrize("make", [sim_nets.net_a, sim_nets.net_c])
def test_dense_nets_are_well_formed_and_on_the_grid(make: type) -> None:
    net = make()
    check_network(net.network)
    assert all(is_on_grid(w, 10) for w in net.weights.values())


def test_the_random_network_has_distinct_sources_on_a_grid() -> None:
    net = sim_nets.net_d(neurons=1000, steps=10)
    check_network(net.network)
    rows = net.weights["indices"].reshape(1000, 10)
    assert (np.diff(rows, axis=1) > 0).all()
    assert is_on_grid(net.weights["data"], 14)


def test_repeated_sources_move_on() -> None:
    found = sim_nets._without_repeats(np.array([[0, 0, 0], [4, 4, 4]]), 5)
    assert found.tolist() == [[0, 1, 2], [0, 1, 4]]


def test_the_blob_has_the_mean_density_and_moves(shared_data: object) -> None:
    net = sim_nets.net_b()
    check_network(net.network)
    spikes = sim_nets.moving_blob(net, 0.02, batch=1)
    assert spikes.shape == (300, 2, 34, 34)
    assert spikes.mean() == pytest.approx(0.02, rel=0.03)
    early, late = spikes[:10].sum((0, 1)), spikes[50:60].sum((0, 1))
    rows = np.arange(34)[:, None]
    assert (early * rows).sum() / early.sum() != pytest.approx((late * rows).sum() / late.sum(), abs=1)


def test_spikes_of_the_same_model_must_be_identical() -> None:
    case = simulators.Case("A", 1, 0.1)
    rows = [
        simulators.Row(case, "Norse", {}, 1, 4, why="rounds elsewhere"),
        simulators.Row(case, "snnTorch", {}, 1, 0),
    ]
    report = simulators.Report(rows)
    simulators.check_spikes(report)
    report.rows[1].differing = 1
    with pytest.raises(AssertionError, match="snnTorch: 1 cells differ$"):
        simulators.check_spikes(report)


def test_tables_of_both_forms_mark_the_density_of_the_floor() -> None:
    cases = [simulators.Case("A", 1, d) for d in (0.05, 0.1)]
    times = {simulators.OURS: (4.0, 2.0), "Norse": (30.0, 30.0), "snnTorch": (50.0, 50.0), "torch layer-wise": (5, 5)}
    forms = simulators.SINGLE, simulators.BACK_TO_BACK
    rows = [
        simulators.Row(case, name, dict(zip(forms, us, strict=True)), 1, int(name == "Norse"), "why")
        for case in cases
        for name, us in times.items()
    ]
    report = simulators.Report(rows, rates={case: {"out": 0.125} for case in cases})
    table = (
        "Net A, batch 1, {}, us per step\n\n"
        "|  | 5 % | 10 % * |\n| --- | --- | --- |\n"
        "| nirbridge | {} | {} |\n| Norse | 30 (1 differ) | 30 (1 differ) |\n| snnTorch | 50 | 50 |\n"
        "| torch layer-wise | 5 | 5 |\n| best framework / nirbridge | **{}x** | **{}x** |\n"
        "| floor |  | 20x |\n| rate of out | 12 % | 12 % |"
    )
    single, back = table.format(forms[0], 4, 4, 7.5, 7.5), table.format(forms[1], 2, 2, 15, 15)
    assert simulators.markdown(report) == f"{single}\n\n{back}"


def test_every_rival_says_whether_it_is_the_same_model() -> None:
    for make in (sim_nets.net_a, sim_nets.net_c):
        net = make()
        assert {(net.name, name) for name in sim_rivals.builders(net)} <= set(sim_rivals.SAME)
