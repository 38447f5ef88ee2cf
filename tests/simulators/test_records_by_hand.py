"""Contents of a recording, array by array: defaults, types, sources, recorded time steps, refusals in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Identity, Reshape, Scale
from nirbridge.simulators.recording import (
    Channel,
    ChannelRecorder,
    copied_source,
    default_probes,
    output_dtypes,
    recording_channels,
    required_variables,
)
from nirbridge.simulators.simulate import Probe

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
ID = Identity((2, 3))
FLAT = Chain((Reshape((2, 3), (6,)), Identity((6,))))


def net(*wires: tuple[str, str, Any, Any], populations: Any = None, outputs: Any = None) -> Network:
    """Inputs x and y; one (one spike), many (2 ** 15 - 1), more (2 ** 15) and read, which never fires; all (2, 3)."""
    cells = populations or {
        "one": neuron("IF"),
        "many": neuron("IF", max_spikes=2**15 - 1),
        "more": neuron("IF", max_spikes=2**15),
        "read": neuron("LI", a_mem=0.5, theta=None),
    }
    found = tuple(Population(name, (2, 3), own) for name, own in cells.items())
    projections = tuple(Projection(source, target, operator, bias) for source, target, operator, bias in wires)
    shapes = {p.target: p.operator.output_shape for p in projections}
    ports = tuple(Port(name, shapes.get(name, (2, 3))) for name in outputs or ("a", "b"))
    return Network(1e-3, TIMING, found, projections, (Port("x", (2, 3)), Port("y", (2, 3))), ports)


def wire(source: str, target: str, operator: Any = ID, bias: Any = None) -> tuple[str, str, Any, Any]:
    return source, target, operator, bias


SOME = freeze(np.ones((2, 3)))


@pytest.mark.parametrize(("wires", "default", "source", "kind"), [
    ([wire("one", "a")], "s", "one", "uint8"),
    ([wire("many", "a")], "s", "many", "int16"),
    ([wire("more", "a")], "s", "more", "int32"),
    ([wire("read", "a")], "v", "read", "float64"),
    ([wire("x", "a")], "s", "x", "uint8"),
    ([wire("y", "a")], "s", "y", "float64"),
    ([wire("one", "a", FLAT)], "s", "one", "uint8"),
    ([wire("one", "a", Reshape((2, 3), (6,)))], "s", "one", "uint8"),
    ([wire("one", "a", Scale(SOME))], "s", None, "float64"),
    ([wire("one", "a", Chain((ID, Scale(SOME))))], "s", None, "float64"),
    ([wire("one", "a", ID, SOME)], "s", None, "float64"),
    ([wire("read", "a", ID, SOME)], "v", None, "float64"),
    ([wire("one", "a"), wire("many", "a")], "s", None, "float64"),
    ([wire("read", "a"), wire("one", "a")], "s", None, "float64"),
    ([wire("read", "a"), wire("x", "a")], "s", None, "float64"),
    ([wire("read", "a"), wire("read", "a")], "v", None, "float64"),
    ([wire("one", "b")], "s", None, "float64"),
])  # fmt: skip
def test_what_an_output_shows(wires: Any, default: str, source: str | None, kind: str) -> None:
    made = net(*wires)
    assert default_probes(made)[0] == Probe("a", (default,))
    assert copied_source(made, "a") == source
    types = output_dtypes(made, frozenset({"x"}), "float64")
    assert types["a"] == kind
    expected = {"x": "uint8", "y": "float64", "one": "uint8", "many": "int16", "more": "int32", "read": "float64"}
    assert {name: types[name] for name in expected} == expected


WIRED = net(wire("one", "a"), wire("read", "b"))


def found(*records: Probe, network: Network = WIRED) -> list[Channel]:
    return recording_channels(network, records, frozenset({"x"}), "float32")


def test_every_array_of_every_node_in_the_order_asked_for() -> None:
    def one(node: str, variable: str, source: str, kind: str, every: int = 2) -> Channel:
        return Channel(node, variable, source, (2, 3), kind, every)

    assert found(Probe("x", ("v", "s", "count"), 2), Probe("y", ("s",), 2), Probe("one", ("u", "i", "v"), 2)) == [
        one("x", "v", "s", "float32"), one("x", "s", "s", "uint8"), one("x", "count", "s", "int64", 1),
        one("y", "s", "s", "float32"), one("one", "u", "u", "float32"), one("one", "i", "i", "float32"),
        one("one", "v", "v", "float32"),
    ]  # fmt: skip
    assert [(c.node, c.variable, c.dtype) for c in found(Probe("*", ("s", "count")))] == [
        ("one", "s", "uint8"), ("one", "count", "int64"), ("many", "s", "int16"), ("many", "count", "int64"),
        ("more", "s", "int32"), ("more", "count", "int64"), ("a", "s", "uint8"), ("a", "count", "int64"),
        ("b", "s", "float32"),
    ]  # fmt: skip
    assert [(c.node, c.variable) for c in found(Probe("*", ("v", "u")))] == [
        (name, x) for name in ("one", "many", "more", "read") for x in "vu"
    ] + [("a", "v"), ("b", "v")]  # fmt: skip
    assert [(c.node, c.variable) for c in recording_channels(WIRED, None, frozenset(), "float32")] == [
        ("a", "s"),
        ("b", "v"),
    ]


def test_a_node_may_be_called_a_star() -> None:
    starred = net(wire("*", "a"), populations={"p": neuron("IF"), "*": neuron("IF")}, outputs=("a",))
    assert [c.node for c in found(Probe("*", ("s",)), network=starred)] == ["*"]
    with pytest.raises(UsageError, match=r"^record 'zz': .*; known: 'x', 'y', 'p', '\*', 'a'$"):
        found(Probe("zz", ("s",)), network=starred)


def test_the_same_array_may_be_asked_for_twice_but_not_with_other_steps() -> None:
    assert len(found(Probe("one", ("s",), 3), Probe("one", ("s", "s"), 3), Probe("*", ("s",), 3))) == 5
    assert len(found(Probe("one", ("count",), 3), Probe("one", ("count",), 5))) == 1
    with pytest.raises(UsageError) as caught:
        found(Probe("*", ("v",), 3), Probe("one", ("v",), 2))
    assert (
        str(caught.value) == "record 'one', variable v: is requested with different values of 'every'; request it once"
    )


FIRES = "it has v, u and i; record 'v' of it"


@pytest.mark.parametrize(("records", "said"), [
    ([Probe("x", ("u",))], "record 'x', variable u: an input or output has no neurons; record 's' of it"),
    ([Probe("a", ("i",))], "record 'a', variable i: an input or output has no neurons; record 's' of it"),
    ([Probe("y", ("count",))], "record 'y', variable count: it sends values, not spikes; record 's' of it"),
    ([Probe("b", ("count",))], "record 'b', variable count: it sends values, not spikes; record 's' of it"),
    ([Probe("read", ("s",))], f"record 'read', variable s: a readout does not spike, {FIRES}"),
    ([Probe("read", ("v", "count"))], f"record 'read', variable count: a readout does not spike, {FIRES}"),
    ([Probe("one", ("s",), 0)], "record 'one': one step in 0, every is at least 1; correct it"),
    ([Probe("*", ("s",), -1)], "record '*': one step in -1, every is at least 1; correct it"),
    ([Probe("zz", ("q",), 0)], "record 'zz': one step in 0, every is at least 1; correct it\n"
     "record 'zz': no variable 'q', there are s, v, u, i, count; choose one of them\n"
     "record 'zz': no population, input or output of that name; known: 'x', 'y', 'one', 'many', 'more', 'read', "
     "'a', 'b'"),
    ([Probe("one", ("q", "s", "w"))], "record 'one': no variable 'q', there are s, v, u, i, count; choose one of "
     "them\nrecord 'one': no variable 'w', there are s, v, u, i, count; choose one of them"),
    ([Probe("mone", ("s",)), Probe("oe", ("s",))], "record 'mone': no population, input or output of that name; "
     "nearest: 'one', 'more', 'many'\nrecord 'oe': no population, input or output of that name; nearest: 'one', "
     "'more'"),
])  # fmt: skip
def test_refusals_in_their_words(records: list[Probe], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        found(*records)
    assert str(caught.value) == said


def test_of_many_names_the_three_nearest_or_the_first_eight_are_shown() -> None:
    many = net(populations={f"layer{k}": neuron("IF") for k in range(8)}, outputs=("out",))
    for name, said in (("layer", "nearest: 'layer7', 'layer6', 'layer5'"), ("zz", "known: 'x', 'y', 'layer0', ")):
        with pytest.raises(UsageError) as caught:
            found(Probe(name, ("s",)), network=many)
        line = str(caught.value)
        assert said in line
        assert line.count("'layer") == {"layer": 4, "zz": 6}[name]


# -- arrays that are filled ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1, 2, 5])
@pytest.mark.parametrize("cuts", [(9,), (1, 8), (4, 5), (1,) * 9, (2, 3, 4)])
@pytest.mark.parametrize("every", [1, 2, 3, 7, 10])
def test_of_each_stretch_the_last_step_is_kept(first: int, cuts: tuple[int, ...], every: int) -> None:
    """Stretches are counted from step 0 of the network; counts take every step."""
    values = np.random.default_rng(0).integers(0, 2, (9, 2, 2, 3)).astype(np.uint8)
    reals = values.astype(np.float32) * 300
    chosen = [Channel("p", "s", "s", (2, 3), "uint8", every), Channel("p", "v", "v", (2, 3), "float64", 1),
              Channel("p", "count", "s", (2, 3), "int64", 1),
              Channel("q", "count", "s", (2, 3), "int64", 1)]  # fmt: skip
    recorder = ChannelRecorder(chosen, first, 9, 2)
    assert required_variables(chosen) == {"p": {"s", "v"}, "q": {"s"}}
    at = 0
    for steps in cuts:
        part = slice(at, at + steps)
        chunk = {("p", "s"): values[part], ("p", "v"): reals[part], ("q", "s"): reals[part]}
        recorder.take(chunk, steps, np.asarray)
        at += steps
    kept = [t for t in range(9) if (first + t + 1) % every == 0]
    done = recorder.finish(True, {}).arrays
    assert done["p", "s"].tolist() == values[kept].tolist()
    assert done["p", "v"].dtype == np.float64
    assert done["p", "v"].tolist() == reals.tolist()
    assert done["p", "count"].tolist() == values.sum(axis=0, dtype=int).tolist()
    assert done["q", "count"].tolist() == (300 * values.sum(axis=0, dtype=int)).tolist()
    alone = recorder.finish(False, {}).arrays
    assert alone["p", "s"].tolist() == values[kept, 0].tolist()
    assert alone["q", "count"].tolist() == done["q", "count"][0].tolist()
    assert not any(array.flags.writeable for array in (*done.values(), *alone.values()))
