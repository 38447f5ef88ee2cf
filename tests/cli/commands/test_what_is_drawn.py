"""Node, sample and latency of the pictures of compare and verify; options of a verification."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge.cli.commands import simulate, verify
from nirbridge.errors import UsageError
from nirbridge.report.plots import recordings as pictures
from nirbridge.report.plots import style as files
from nirbridge.simulators.given import Given
from nirbridge.simulators.types import Recording
from tests.partitioner.nets import network_of


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is drawn: the two recordings, the node, options, and where it goes."""
    saved: list[Any] = []
    monkeypatch.setattr(pictures, "plot_difference", lambda *args, **options: (args, options))
    monkeypatch.setattr(files, "save_picture", lambda figure, path: saved.append((*figure, path)))
    return saved


def row(node: str, *, equal: bool = True, spikes: Any = "some", latency: int = 0, sample: Any = None) -> Any:
    return SimpleNamespace(node=node, equal=equal, spikes=spikes, latency_steps=latency, first_sample=sample)


def found(*rows: Any) -> Any:
    return SimpleNamespace(rows=rows)


SAME, LATE, DIFFERS = row("a"), row("b", latency=3), row("c", equal=False, latency=2)
VALUES = row("v", equal=False, spikes=None, latency=9)


@pytest.mark.parametrize(
    ("rows", "node", "chosen", "latency"),
    [
        ((SAME, LATE), None, "a", 0),
        ((VALUES, LATE, SAME), None, "b", 3),
        ((SAME, DIFFERS, LATE), None, "c", 2),
        ((SAME, DIFFERS, LATE), "b", "b", 3),
        ((SAME,), "z", "z", 0),
        ((VALUES,), "v", "v", 0),
    ],
)
def test_the_first_node_that_differs_is_drawn(
    rows: Any, node: Any, chosen: str, latency: int, drawn: list[Any]
) -> None:
    pair: Any = ("A", "B")
    files.save_picture(pictures.plot_rows(found(*rows), pair, node), "p.png")
    assert drawn == [(("A", "B", chosen), {"latency": latency, "sample": 0, "names": ("A", "B"), "ax": None}, "p.png")]


def test_without_spikes_there_is_no_node_to_choose(drawn: list[Any]) -> None:
    pair: Any = ("A", "B")
    for rows in ((), (VALUES,)):
        with pytest.raises(UsageError) as caught:
            pictures.plot_rows(found(*rows), pair, None)
        assert (
            str(caught.value) == "comparison: no node has spikes to compare, a raster is of spikes; record 's' in both"
        )
    assert drawn == []


def verification(*pairs: Any) -> Any:
    names = {name for pair in pairs for name in (pair.a, pair.b)}
    return SimpleNamespace(pairs=pairs, recordings={name: Recording({}, {"of": name}) for name in names})


def pair(a: str, b: str, *rows: Any, required: bool = True) -> Any:
    return SimpleNamespace(a=a, b=b, required=required, comparison=found(*rows))


BROKEN = row("c", equal=False, latency=2, sample=1)
NOT_REQUIRED = pair("reference", "fixed", SAME, DIFFERS, required=False)


@pytest.mark.parametrize(
    ("pairs", "node", "wanted"),
    [
        ((NOT_REQUIRED, pair("fixed", "mapped", SAME)), None, ("reference", "fixed", "c", 2, 0)),
        ((NOT_REQUIRED, pair("fixed", "lava", VALUES)), None, ("reference", "fixed", "c", 2, 0)),
        ((NOT_REQUIRED, pair("fixed", "mapped", SAME, BROKEN)), None, ("fixed", "mapped", "c", 2, 1)),
        ((NOT_REQUIRED, pair("fixed", "mapped", SAME, DIFFERS)), None, ("fixed", "mapped", "c", 2, 0)),
        ((NOT_REQUIRED, pair("fixed", "mapped", SAME, BROKEN)), "a", ("fixed", "mapped", "a", 0, 0)),
        ((NOT_REQUIRED, pair("x", "y", SAME, BROKEN), pair("x", "z", BROKEN)), "q", ("x", "y", "q", 0, 0)),
        ((pair("x", "y", VALUES, LATE, SAME),), None, ("x", "y", "b", 3, 0)),
    ],
)
def test_the_first_broken_promise_is_drawn(pairs: Any, node: Any, wanted: Any, drawn: list[Any]) -> None:
    verify._draw(verification(*pairs), "p.png", node)
    ((a, b, chosen), options, path) = drawn[0]
    assert (a.meta["of"], b.meta["of"], chosen, options["latency"], options["sample"]) == wanted
    assert (options["names"], path, len(drawn)) == (wanted[:2], "p.png", 1)


# -- how a verification is asked for -----------------------------------------------------------------------------------

ASKED: dict[str, Any] = {"bits": (), "calibrate": None, "axes": None, "graded": (), "method": "range"}
ASKED |= {"percentile": 99.9, "tight": False, "per_core": False, "target": None, "steps": 5}


def as_they_are(network: Any, arrays: Any, **options: Any) -> Given:
    """Stands for ``read_inputs``."""
    return Given(arrays, options.get("labels"), "")


def test_options_that_choose_the_integers_go_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "quantize_plan", lambda *args: args)
    monkeypatch.setattr(pipeline, "load_data", lambda path, max_bytes: ("read", path, max_bytes))
    monkeypatch.setattr(pipeline, "read_inputs", as_they_are)
    network = network_of("4 dense3 lif")
    options = dict(ASKED)
    plain = verify._quantization(network, 7, print, options)
    assert options == {"per_core": False, "target": None, "steps": 5}
    asked = {"weight_bits": None, "graded": {}, "progress": print}
    plan = {"method": "range", "percentile": 99.9, "tight": False, "progress": print}
    assert plain == (network, asked, None, plan)
    options = ASKED | {"bits": ("6", "2_lif=4"), "calibrate": "d.npz", "graded": ("in=2.5:3",)}
    _, asked, data, _ = verify._quantization(network, 7, print, options)
    assert (asked["graded"], data) == ({"in": (2.5, 3)}, ("read", "d.npz", 7))
    every = verify._quantization(network, 7, print, ASKED | {"bits": ("6",)})[1]["weight_bits"]
    assert (every, asked["weight_bits"] != every) == (6, True)


def test_a_verification_is_run_with_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("load_network", "load_chip", "load_npy"):
        monkeypatch.setattr(pipeline, name, lambda *args, _name=name, **options: (_name, *args, options))
    monkeypatch.setattr(pipeline, "verify_network", lambda *args, **options: (args, options))
    monkeypatch.setattr(pipeline, "load_data", lambda path, max_bytes: ("read", path, max_bytes))
    monkeypatch.setattr(pipeline, "read_inputs", as_they_are)
    monkeypatch.setattr(verify, "_quantization", lambda network, most, progress, options: ("q", most))
    reading = {"timing": "t", "max_bytes": 7, "repairs": ("r",)}
    network = ("load_network", "m", "t", {"max_bytes": 7, "repairs": ("r",), "rewrite": None})
    more = {"per_core": True, "target": "lava", "steps": 5}
    unread = {"calibrate": None, "axes": None}
    made: Any = verify.run("m", "c", None, None, **reading, **more, **unread)
    assert made[0] == (network, ("load_chip", "c", {}), None)
    read = {"labels": None, "quantization": ("q", 7), "input_said": "as given"}
    assert {k: v for k, v in made[1].items() if k != "progress"} == {**read, **more, **unread}
    made = verify.run("m", "c", "i.npy", "l.npy", **reading, per_core=False, target=None, steps=5, **unread)
    assert (made[0][2], made[1]["labels"]) == (("read", "i.npy", 7), ("load_npy", "l.npy", {}))
    with pytest.raises(
        UsageError, match="^--per-core: given without --to, it applies to the emitted program; add --to lava$"
    ):
        verify.run("m", "c", None, None, **reading, per_core=True, target=None)


@pytest.mark.parametrize(
    ("changes", "on_chip"),
    [
        ({}, False),
        ({"backend": "fixed"}, True),
        ({"backend": "mapped"}, True),
        ({"chip": "c"}, True),
        ({"map_file": "m"}, True),
        ({"keep_early_spikes": True}, True),
        ({"device": "cuda:0"}, False),
        ({"library": "jax", "device": "cuda"}, False),
    ],
)
def test_integers_are_run_where_one_of_their_options_is_given(
    changes: dict[str, Any], on_chip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of("4 dense3 lif")
    monkeypatch.setattr(pipeline, "load_network", lambda *args, **options: network)
    monkeypatch.setattr(pipeline, "load_data", lambda path, max_bytes: np.zeros(1))
    monkeypatch.setattr(pipeline, "with_reading", lambda recording, given: recording)
    for name in ("simulate_network", "simulate_on_chip"):
        monkeypatch.setattr(pipeline, name, lambda *args, _name=name, **options: (_name, options))
    own: dict[str, Any] = {"timing": None, "max_bytes": 7, "repairs": (), "steps": 4, "record": (), "every": 1}
    own |= {"axes": None, "dtype": "float32", "backend": "auto", "library": None, "device": "cpu"}
    name, options = simulate.run("m", "i", "o.npz", **(own | changes))  # type: ignore[misc]
    assert name == ("simulate_on_chip" if on_chip else "simulate_network")
    assert (options["steps"], options["record"]) == (4, None)
    if on_chip:
        given = own | {"chip": None, "map_file": None, "keep_early_spikes": False} | changes
        kept = ("backend", "chip", "map_file", "keep_early_spikes")
        assert {k: options[k] for k in kept} == {k: given[k] for k in kept}
    else:
        library = {"cpu": "numpy", "cuda:0": "torch", "cuda": "jax"}[options["device"]]
        assert (options["library"], options["dtype"], options["backend"]) == (library, "float32", "auto")
