"""Ctrl-C during a search: the best map so far where it is wanted, else KeyboardInterrupt."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import nirbridge as nb
from nirbridge.cli.main import run
from nirbridge.errors import DoesNotFit
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.search import balancing, methods
from nirbridge.partitioner.search.column_generation import SearchBudget
from nirbridge.partitioner.search.interruption import SearchInterrupted, finished, interrupted
from nirbridge.partitioner.search.slicing import capacity
from nirbridge.partitioner.searches import SEARCHES, Problem
from nirbridge.pipeline import MapOptions, map_network
from tests.partitioner.cases import LOIHI, chip
from tests.partitioner.nets import network_of

MODULE = import_module("nirbridge.partitioner.partition")
NET = "1x8x8 conv16k5p2 lif conv20k1 lif conv18k5p2 lif conv24k1 lif"
ON = chip(core={"neurons": 256}, words=4096)


def stop(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_the_better_blocks_travel_with_the_exception() -> None:
    one, two = (((),), ((), ()))
    assert interrupted(KeyboardInterrupt(), None).blocks is None
    assert interrupted(KeyboardInterrupt(), two).blocks == two
    assert interrupted(SearchInterrupted(one), two).blocks == one
    assert interrupted(SearchInterrupted(two), one).blocks == one
    assert isinstance(interrupted(KeyboardInterrupt(), None), KeyboardInterrupt)


@pytest.mark.parametrize("where", ["packed", "streams", "filled", "patterns"])
def test_a_search_that_is_interrupted_gives_the_best_so_far(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = network_of(NET)
    free = partition(net, ON, PartitionOptions(method="sequential"))
    if where == "packed":
        monkeypatch.setattr(MODULE, where, stop)
    else:
        monkeypatch.setitem(SEARCHES, where, stop)
    monkeypatch.setattr(MODULE, "any_map_bounds", lambda *_: {"neurons": 1})
    quick = PartitionOptions(effort="fast")
    with pytest.raises(KeyboardInterrupt):
        partition(net, ON, quick)
    report = partition(net, ON, replace(quick, keep_best=True)).report
    assert report.interrupted
    assert report.status == "feasible"
    assert report.cores <= free.report.cores
    assert not free.report.interrupted


def test_without_a_map_there_is_nothing_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "sequential", stop)
    with pytest.raises(KeyboardInterrupt):
        partition(network_of(NET), ON, PartitionOptions(keep_best=True))


def test_a_map_of_too_many_cores_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network_of(NET)
    few = replace(ON, mesh=replace(ON.mesh, width_tiles=1, height_tiles=1, cores_per_tile=20))
    monkeypatch.setattr(MODULE, "packed", stop)
    assert partition(net, ON, PartitionOptions(method="sequential")).report.cores > 20
    with pytest.raises(KeyboardInterrupt):
        partition(net, few, PartitionOptions(keep_best=True))


def test_fillings_keep_what_was_found_before_the_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = cost_model(network_of(NET), ON, 8)
    whole = balancing.balanced(sizes, capacity(ON), {}, 0, balancing.BalanceBudget(10**8, 0), 0)
    monkeypatch.setattr(balancing, "_refilled", stop)
    with pytest.raises(SearchInterrupted) as stopped:
        balancing.balanced(sizes, capacity(ON), {}, 0, balancing.BalanceBudget(10**8, 1), 0)
    assert stopped.value.blocks == whole


@pytest.mark.parametrize("name", ["generate", "dive"])
def test_patterns_keep_what_was_found_before_the_interrupt(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = cost_model(network_of(NET), ON, 8)
    blocks, tilings = methods.sequential(sizes, capacity(ON))
    monkeypatch.setattr(methods.master, name, stop)
    least = dict.fromkeys(sizes.shapes, 1)
    with pytest.raises(SearchInterrupted) as stopped:
        methods.fewest_cores(sizes, capacity(ON), blocks, tilings, least, 1, SearchBudget(), 0, lambda *_: None)
    assert stopped.value.blocks == blocks


def test_a_map_is_marked_wherever_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(SEARCHES, "streams", stop)
    monkeypatch.setattr(MODULE, "any_map_bounds", lambda *_: {"neurons": 1})
    file, out = tmp_path / "net.net.npz", tmp_path / "m.map.json"
    nb.save(network_of(NET), file)
    before = signal.getsignal(signal.SIGINT)
    assert run(["map", str(file), "--chip", "loihi1", "--placement-only", "-o", str(out)]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    shown = capsys.readouterr()
    assert "SEARCH INTERRUPTED, the best map so far" in " ".join(shown.out.split())
    assert shown.err.endswith("nirbridge: interrupted: this is the best map so far\n")
    assert json.loads(out.read_text())["proof"]["interrupted"] is True
    assert run(["show", str(out)]) == 0
    assert "SEARCH INTERRUPTED" in capsys.readouterr().out
    mapped = map_network(network_of(NET), LOIHI, MapOptions(keep_best=True, placement_only=True))
    assert "search interrupted" in repr(mapped)
    with pytest.raises(KeyboardInterrupt):
        map_network(network_of(NET), LOIHI, MapOptions(placement_only=True))


@pytest.mark.parametrize(("effort", "seeds"), [("default", 0), ("max", 8)])
def test_more_seeds_where_the_cores_do_not_suffice(effort: str, seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    net = network_of(NET)
    few = replace(ON, mesh=replace(ON.mesh, width_tiles=1, height_tiles=1, cores_per_tile=20, chips_max=1))
    asked: list[tuple[int, int]] = []

    def tried(problem: Problem, _: Any) -> None:
        asked.append((problem.lower, problem.seed))

    monkeypatch.setattr(MODULE, "any_map_bounds", lambda *_: {"neurons": 1})
    for name in SEARCHES:
        monkeypatch.setitem(SEARCHES, name, tried if name == "filled" else lambda *_: None)
    with pytest.raises(DoesNotFit, match="not proved impossible") as refused:
        partition(net, few, PartitionOptions(effort=effort))
    assert asked == [(1, 0), *((20, seed) for seed in range(1, seeds + 1))]
    assert ("--effort max" in str(refused.value)) is (effort == "default")


@pytest.mark.parametrize("objective", ["cores", "traffic"])
@pytest.mark.parametrize("name", ["place_partition", "with_moved_neurons", "check", "second"])
def test_ctrl_c_after_the_search_keeps_its_map(name: str, objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "with_moved_neurons" and objective == "cores":
        pytest.skip("no neurons are moved")
    module = import_module("nirbridge.pipeline.map")
    attribute = {"check": "check_mapping", "second": "costs"}.get(name, name)
    work, calls = getattr(module, attribute), []

    def once(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return work(*args, **kwargs)

    monkeypatch.setattr(module, attribute, once)
    monkeypatch.setattr(MODULE, "any_map_bounds", lambda *_: {"neurons": 1})
    options = MapOptions(placement_only=True, method="packed", objective=objective, effort="fast")
    with pytest.raises(KeyboardInterrupt):
        map_network(network_of(NET), LOIHI, options)
    calls.clear()
    kept = map_network(network_of(NET), LOIHI, replace(options, keep_best=True))
    assert calls
    assert kept.partition.report.interrupted


def test_ctrl_c_while_other_partitions_are_tried_keeps_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    module, calls = import_module("nirbridge.partitioner"), []
    work = module.partition

    def second(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return work(*args)

    monkeypatch.setattr("nirbridge.plugins.get", lambda *_: second)
    options = MapOptions(placement_only=True, method="sequential", objective="latency", keep_best=True)
    assert map_network(network_of(NET), LOIHI, options).partition.report.interrupted
    assert len(calls) == 2


def test_ctrl_c_while_the_bound_on_hops_is_searched_gives_a_quick_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module, asked = import_module("nirbridge.pipeline.map"), list[bool]()
    bound = module.traffic_lower_bound

    def long(*args: Any, quick: bool, **kwargs: Any) -> float:
        asked.append(quick)
        if len(asked) < 3:
            raise KeyboardInterrupt
        return bound(*args, quick=quick, **kwargs)

    monkeypatch.setattr(module, "traffic_lower_bound", long)
    monkeypatch.setattr("nirbridge.pipeline.map.TIGHT_MAX", 1)
    options = MapOptions(placement_only=True, method="packed", effort="fast", bound="tight", keep_best=True)
    kept = map_network(network_of(NET), LOIHI, options)
    assert kept.partition.report.interrupted
    assert asked == [False, True, True]  # a second Ctrl-C ends nothing
    assert 0.0 < kept.costs.traffic_lower_bound <= kept.costs.multicast_hops_per_step


def test_what_ends_a_search_is_done_once_more() -> None:
    calls: list[int] = []

    def work(given: int) -> int:
        calls.append(given)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return given

    assert finished(True, work, 3) == (3, True)
    assert finished(True, work, 4) == (4, False)
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        finished(False, work, 3)
