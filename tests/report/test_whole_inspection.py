"""The complete document of a NIR file: every node, population and projection with its numbers."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.network import Timing
from nirbridge.network.operators import Dense, Reshape, Sparse
from nirbridge.report import inspect as inspect_document
from nirbridge.report import network_facts
from nirbridge.report.inspect import inspect_graph
from tests.network.graphs import graph_of, lif, out, port

WHOLE = Path(__file__).parent / "whole" / "inspected.json"


def graph() -> nir.NIRGraph:
    """A grouped convolution, a pool, dense layers, scales, delays, a loop, a read-out, and dead parts."""
    conv = nir.Conv2d((6, 5), np.ones((4, 1, 3, 2)), (2, 1), (1, 0), 1, 2, np.ones(4))
    pool = nir.SumPool2d(kernel_size=np.array([2, 2]), stride=np.array([1, 2]), padding=np.array([0, 0]))
    average = nir.AvgPool2d(kernel_size=np.array([1, 2]), stride=np.array([1, 1]), padding=np.array([0, 0]))
    many = np.linspace(1.0, 2.0, 3)
    cuba = nir.CubaLIF(many * 1e-3, many * 2e-3, many, np.zeros(3), many, w_in=many)
    nodes = {
        "in": port(2, 6, 5),
        "c10": conv,
        "c2": lif(4, 3, 4, tau=2e-4),
        "pool": pool,
        "average": average,
        "flat": nir.Flatten({"input": np.array([4, 2, 1])}, 0, -1),
        "fc": nir.Affine(np.ones((3, 8)), np.ones(3)),
        "cuba": cuba,
        "loop": nir.Linear(np.eye(3)),
        "wait": nir.Delay(np.array([1e-4, 2e-4, 3e-4])),
        "scale": nir.Scale(many),
        "li": nir.LI(np.full(3, 1e-3), np.ones(3), np.zeros(3)),
        "out": out(3),
        "lone": lif(3),
        "lost": lif(3),
        "to lost": nir.Linear(np.ones((3, 3))),
    }
    nodes["cuba"].metadata = {"nirbridge:refractory_steps": 2, "nirbridge:max_spikes": 3, "nirbridge:compare": ">="}
    chain = ["in", "c10", "c2", "pool", "average", "flat", "fc", "cuba", "wait", "scale", "li", "out"]
    edges = [*pairwise(chain), ("cuba", "loop"), ("loop", "cuba")]
    edges += [("cuba", "to lost"), ("to lost", "lost"), ("lone", "cuba")]
    return graph_of(nodes, edges, dt=1e-4)


def test_the_whole_document() -> None:
    found = json.loads(json.dumps(inspect_graph(graph(), Timing())))
    assert found == json.loads(WHOLE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("part", "more"),
    [
        (Dense(freeze(np.ones((2, 3)))), {"weights": 6}),
        (Sparse(freeze([0, 1, 3]), freeze([0, 1, 2]), freeze([1.0, 2, 3]), (3,), (2,)), {"weights": 3}),
        (Reshape((3,), (1, 3)), {}),
    ],
)
def test_parts_of_an_operator(part: Any, more: dict[str, int]) -> None:
    shapes = {"input_shape": list(part.input_shape), "output_shape": list(part.output_shape)}
    assert network_facts._part(part) == {"type": type(part).__name__, **shapes, **more}


def test_synapses_that_can_not_be_counted_leave_the_total_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those onto outputs are no synapses, so one that cannot be counted there changes nothing."""
    own = network_facts._synapses
    for target, total in (("cuba", None), ("out", 1)):
        monkeypatch.setattr(network_facts, "_synapses", lambda p, at=target: None if p.target == at else own(p))
        found = inspect_graph(graph(), Timing())
        counts = [p["synapses"] for p in found["projections"] if p["target"] != "out"]
        assert found["totals"]["synapses"] == (None if total is None else sum(counts))


def test_numbers_that_a_file_stores_are_counted_once() -> None:
    nodes, none = graph().nodes, frozenset()
    assert inspect_document._stored(nodes, {"Linear": ("weight",)}, none) == 9 + 9
    fields = {"Linear": ("weight", "none"), "Affine": ("bias", "weight")}
    assert inspect_document._stored(nodes, fields, none) == 18 + 3 + 24
    assert inspect_document._stored({}, {"Linear": ("weight",)}, none) == 0
