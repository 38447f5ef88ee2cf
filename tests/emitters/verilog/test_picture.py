"""Pictures of circuits: well-formed, complete, with names as text only, and the same bytes twice."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np
import pytest

from nirbridge.emitters.verilog.boards import DEVICES, Resources, read_board
from nirbridge.emitters.verilog.emit import VERILOG
from nirbridge.emitters.verilog.lanes import chosen, expected
from nirbridge.emitters.verilog.picture import GRIDS, NAME_MAX, TILE, floor_plan, picture
from nirbridge.emitters.verilog.plan import Circuit
from nirbridge.emitters.verilog.synthesis import Placed, Synthesis
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from tests.emitters.hand_made import dense, neuron, population, projection, quantized, random_network

SVG = "{http://www.w3.org/2000/svg}"
BOARD = read_board("ecp5-25k")
HOSTILE = '</text><script>&"\n\x1b[0m\u202e'


def looped(prefix: str = "") -> QuantizedNetwork:
    """An input, a hidden population that hears itself and the output, and skips: every kind of wire."""
    rng = np.random.default_rng(0)
    a, b, c = (f"{prefix}{name}" for name in "abc")
    populations = [population(b, (6,), neuron()), population(c, (3,), neuron(du=2000))]
    pairs = [(a, b, 6, 4), (b, b, 6, 6), (c, b, 6, 3), (b, c, 3, 6), (a, c, 3, 4)]
    projections = [
        projection(source, target, dense(rng, post, pre), delay_steps=1 + k)
        for k, (source, target, post, pre) in enumerate(pairs)
    ]
    return quantized([FixedInput(a, (4,))], populations, projections, [b, c])


def drawn(q: QuantizedNetwork) -> tuple[Circuit, str]:
    plan = chosen(q, "auto", BOARD, 0.0, 0.3)
    return plan, picture(plan, [*expected(plan, BOARD, 0.3).values()])


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def ends_of(path: str) -> tuple[float, float]:
    """Where a wire starts and where it ends, across."""
    start = float(path[1:].split()[0])
    return start, float(path.rpartition("H")[2])


@pytest.mark.parametrize("q", [looped(), *map(random_network, range(6))])
def test_every_stream_core_and_walk_is_in_it(q: QuantizedNetwork) -> None:
    plan, svg = drawn(q)
    said = texts(svg)
    for s in (*plan.inputs, *(core.stream for core in plan.cores)):
        assert f"{s.id} '{s.name}'" in said
    for walk in (w for core in plan.cores for w in core.walks):
        assert sum(line.startswith(f"{walk.id} ") for line in said) == 1
        assert any(f"of {walk.form.weights.shape[1]} x {walk.weight_bits} bit" in line for line in said)
    assert [core.id for core in plan.outputs] == [line for line in said if line in {c.id for c in plan.cores}]
    wires = [e for e in ElementTree.fromstring(svg).iter(f"{SVG}path") if e.get("class", "").startswith("wire")]
    assert len(wires) == sum(len(core.walks) for core in plan.cores) + len(plan.outputs)


def boxes(svg: str) -> Iterator[tuple[float, float, float, float]]:
    for e in ElementTree.fromstring(svg).iter(f"{SVG}rect"):
        if e.get("class", "").startswith("box"):
            x, y, width, height = (float(e.get(key, "")) for key in ("x", "y", "width", "height"))
            yield x, y, x + width, y + height


@pytest.mark.parametrize("q", [looped("a name of some length: "), *map(random_network, range(6))])
def test_boxes_are_apart_and_within_the_picture(q: QuantizedNetwork) -> None:
    _, svg = drawn(q)
    root = ElementTree.fromstring(svg)
    found = [*boxes(svg)]
    for k, (x0, y0, x1, y1) in enumerate(found):
        assert 0 < x0 < x1 < float(root.get("width", ""))
        assert 0 < y0 < y1 < float(root.get("height", ""))
        assert all(x1 < a0 or a1 < x0 or y1 < b0 or b1 < y0 for a0, b0, a1, b1 in found[:k])


def test_walks_go_on_but_for_those_of_a_loop_which_have_a_queue() -> None:
    plan, svg = drawn(looped())
    for e in ElementTree.fromstring(svg).iter(f"{SVG}path"):
        if e.get("class", "").startswith("wire"):
            start, end = ends_of(e.get("d", ""))
            assert (end < start) == (e.get("class") == "wire back")
    # b hears itself and c, c hears b: three walks on a cycle
    assert sum("queue of" in line for line in texts(svg)) == 3
    assert [f"delay {k}" in " ".join(texts(svg)) for k in range(1, 6)] == [True] * 5
    assert "wire back" in svg
    costs = expected(plan, BOARD, 0.3)
    assert f"set by {max(costs, key=lambda core: costs[core].cycles)}" in texts(svg)[0]


def test_a_name_is_text_and_cut() -> None:
    _, svg = drawn(looped(HOSTILE + 100 * "x"))
    assert {e.tag.removeprefix(SVG) for e in ElementTree.fromstring(svg).iter()} == {
        "svg",
        "style",
        "rect",
        "path",
        "text",
    }
    assert svg.isprintable() or set(filter(lambda c: not c.isprintable(), svg)) == {"\n"}
    named = next(line for line in texts(svg) if line.startswith("in0 "))
    assert named.startswith("in0 '</text><script>&\"\\n\\x1b[0m\\u202e")
    assert "…" in named
    assert len(named) < 3 * NAME_MAX


def test_the_same_network_gives_the_same_bytes_in_every_emitted_folder() -> None:
    program = VERILOG.emit(looped())
    assert program.files["circuit.svg"] == VERILOG.emit(looped()).files["circuit.svg"]
    assert program.files["circuit.svg"].decode() == drawn(looped())[1]
    for word in ("href", "url(", "@import", "<script"):
        assert word not in program.files["circuit.svg"].decode()


# -- floor plan ----------------------------------------------------------------------------------------------------


PLACED = (
    *(Placed(x, y, "TRELLIS_COMB", "p0_core", 8) for x in range(2, 6) for y in (3, 4)),
    Placed(5, 4, "TRELLIS_FF", "p10_core", 9),
    Placed(7, 4, "DP16KD", "p10_core", 1),
    Placed(8, 4, "TRELLIS_COMB", "s0_queue", 2),
    Placed(0, 9, "TRELLIS_IO", "", 1),
)


def synthesis(placed: tuple[Placed, ...]) -> Synthesis:
    some = Resources(64, 9, 1, 0)
    return Synthesis("<board>", "ecp5 25k", some, some, 71.5, 50.0, (), placed, None, 0.0)


def test_tiles_have_the_colour_of_the_core_that_fills_most_of_them() -> None:
    svg = floor_plan(synthesis(PLACED))
    assert svg == floor_plan(synthesis(PLACED))
    paths = [(e.get("class"), e.get("d")) for e in ElementTree.fromstring(svg).iter(f"{SVG}path")]
    t = TILE
    row = f"M{2 * t} {3 * t}h{4 * t}v{t}h{-4 * t}zM{2 * t} {4 * t}h{3 * t}v{t}h{-3 * t}z"
    assert ("c0", row) in paths
    assert ("c1", f"M{5 * t} {4 * t}h{t}v{t}h{-t}zM{7 * t} {4 * t}h{t}v{t}h{-t}z") in paths
    assert ("block", f"M{7 * t} {4 * t}h{t}v{t}h{-t}z") in paths
    assert texts(svg) == [
        "<board> (ecp5 25k): 71.5 MHz",
        "p0: 64 LUTs",
        "p10: 1 block RAM",
        "queues: 2 LUTs",
        "others: 1 cell",
        "block RAM or multiplier",
    ]


def test_every_device_has_a_grid() -> None:
    assert {*GRIDS} == {f"{family} {device}" for family, devices in DEVICES.items() for device in devices}
