"""Networks that are large in one respect: many paths, deep chains, long delays; linear work, or a refusal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import StringIO
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError, NirbridgeError
from nirbridge.network import from_nir
from nirbridge.network.equality import same_network
from nirbridge.network.model import Network, Timing
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.passes.retiming.delay_lines import RELAYS_MAX
from nirbridge.passes.retiming.retime import Retime
from nirbridge.report.inspect import ROWS_SHOWN, inspect_graph, inspect_text
from nirbridge.simulators.reference.state import HELD_MAX
from nirbridge.simulators.simulate import simulate

from .graphs import graph_of, lif, out, port

nir = pytest.importorskip("nir")


def all_to_all(count: int) -> Any:
    nodes = {"in": port(1), "out": out(1), **{f"p{k}": lif(1) for k in range(count)}}
    edges = [("in", f"p{k}") for k in range(count)]
    edges += [(f"p{j}", f"p{k}") for j in range(count) for k in range(count)]
    return graph_of(nodes, [*edges, ("p0", "out")], dt=1e-3)


def ladder(levels: int) -> Any:
    nodes: dict[str, Any] = {"in": port(2), "out": out(2), "l": lif(2)}
    edges, before = [], ["in"]
    for level in range(levels):
        now = [f"a{level}", f"b{level}"]
        nodes |= {name: nir.Linear(np.eye(2) + level) for name in now}
        edges += [(a, b) for a in before for b in now]
        before = now
    return graph_of(nodes, [*edges, *((a, "l") for a in before), ("l", "out")], dt=1e-3)


def deep(count: int) -> Any:
    nodes = {"in": port(1), "out": out(1), **{f"l{k}": lif(1) for k in range(count)}}
    names = ["in", *(f"l{k}" for k in range(count)), "out"]
    return graph_of(nodes, list(pairwise(names)), dt=1e-3)


def test_many_populations_that_hear_each_other_are_no_paths_that_multiply() -> None:
    network = from_nir(all_to_all(110))
    assert len(network.projections) == 110 * 110 + 110 + 1


def test_paths_that_multiply_are_refused() -> None:
    with pytest.raises(ModelError, match="16,385 paths of linear nodes between neurons, at most 10,000"):
        from_nir(ladder(14))
    assert len(from_nir(ladder(4)).projections) == 2**4 + 1
    with pytest.raises(ModelError, match="at most 16"):
        from_nir(ladder(4), max_projections=16)


def calls_of(work: Callable[[], object]) -> int:
    """Calls of functions, Python's and others: the same on every machine."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_work_on_a_chain_grows_with_its_length() -> None:
    def work(count: int) -> None:
        network = from_nir(deep(count))
        assert same_network(from_nir(to_nir(network)), network)
        inspect_graph(deep(count), Timing())
        Retime(delay_steps_max=10).retimed(network)

    work(5)  # imports
    assert calls_of(lambda: work(200)) < 6 * calls_of(lambda: work(50))  # 16 times where it is quadratic


def test_tables_for_a_terminal_show_the_first_rows() -> None:
    from rich.console import Console

    console = Console(width=200, record=True, file=StringIO())
    document = inspect_graph(deep(ROWS_SHOWN + 50), Timing())
    console.print(inspect_text(document))
    text = console.export_text()
    assert "… and 222 more nodes (--verbose shows more)" in text
    assert "… and 238 more populations (--verbose shows more)" in text
    console.print(inspect_text(document, verbose=True))
    text = console.export_text()
    assert "… and 52 more nodes (all in --json)" in text
    assert "… and 51 more projections (all in --json)" in text


def delayed(seconds: Any, dt: float = 1e-3) -> Network:
    nodes = {
        "in": port(2), "w": nir.Linear(np.eye(2)), "a": lif(2), "late": nir.Delay(np.array(seconds)),
        "m": nir.Linear(np.eye(2)), "b": lif(2), "out": out(2),
    }  # fmt: skip
    edges = [("in", "w"), ("w", "a"), ("a", "late"), ("late", "m"), ("m", "b"), ("b", "out")]
    return from_nir(graph_of(nodes, edges, dt=dt))


def refused(work: Any) -> str:
    with pytest.raises(NirbridgeError) as caught:
        work()
    return str(caught.value)


@pytest.mark.parametrize("seconds", [[100.0, 100.0], [0.0, 100.0], [1e6, 1e6], [0.0, 1e6]])
def test_relays_of_a_long_delay_are_counted_before_they_are_made(seconds: list[float]) -> None:
    text = refused(lambda: Retime(delay_steps_max=62).retimed(delayed(seconds)))
    assert "node 'late' (Delay)" in text
    assert f"a delay of {round(max(seconds) * 1000):,} time steps takes" in text  # not that of the chip, less a hop
    assert f"at most {RELAYS_MAX:,} are made" in text
    assert "in seconds" in text


def test_a_delay_of_some_relays_is_made() -> None:
    made = Retime(delay_steps_max=62).retimed(delayed([0.4, 0.4]))
    assert sum(p.neuron.kind == "relay" for p in made.network.populations) == 6


@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_past_steps_that_a_run_holds_are_counted_first(backend: str) -> None:
    network = delayed([1e6, 0.0])
    text = refused(lambda: simulate(network, np.ones((3, 2)), backend=backend))
    assert "node 'late' (Delay)" in text
    assert "1,000,000,000 time steps" in text
    assert f"at most {HELD_MAX:,} are held" in text
    assert "in seconds" in text
    assert simulate(delayed([1.0, 0.0]), np.ones((3, 2)), backend=backend).state.step == 3
    assert "held (batch 20,000)" in refused(
        lambda: simulate(delayed([1.0, 0.0]), np.ones((1, 20_000, 2)), backend=backend)
    )
