"""Complete reports of handmade results: every number, heading and remark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from nirbridge.chips import read_chip
from nirbridge.chips.model import Chip, CoreId, Mesh
from nirbridge.mapping.cost import costs
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import Block, BlockId, Slice
from nirbridge.report import tables
from nirbridge.report.chips import _figure, chip_table, chips_table
from nirbridge.report.compare import compare_document, compare_text, verify_document, verify_text
from nirbridge.report.inspect import ROWS_SHOWN, _more, inspect_text, name_text
from nirbridge.report.map_brief import brief_text, share_style
from nirbridge.report.map_facts import ResourceRow, figure_with_prefix, rate_text
from nirbridge.report.map_text import map_text, mesh_text, shade
from nirbridge.report.quantize import quantize_document, quantize_text
from nirbridge.verification.verify import ComparedPair
from tests.mapping.tables import table
from tests.report.results_by_hand import COMPARED, OTHER, REAL, SAME, comparison, printed, quantized, verified
from tests.report.test_map_report import USED, made

WHOLE = Path(__file__).parent / "whole"
EARLY = (
    ComparedPair("reference", "retimed", False, comparison(OTHER)),
    ComparedPair("retimed", "fixed", False, comparison(SAME)),
    ComparedPair("fixed", "mapped", True, comparison(SAME)),
)
LAYER = {"early_spikes": {"fc\n": 1200, "n": 3}, "pairs": EARLY}


def small_chip() -> Chip:
    """12 cores with one dead, on boards of up to 4; two more are dead on further chips."""
    chip = read_chip("loihi1")
    dead = (CoreId(0, 2, 1, 1), CoreId(1, 0, 0, 0), CoreId(3, 0, 0, 0))
    limits = replace(chip.core, neurons=200, output_axons=None)
    return replace(chip, mesh=Mesh(3, 2, 2, 4), dead_cores=dead, core=limits)


def uneven(**changes: Any) -> MappedNetwork:
    """Four blocks of different sizes on two chips, each fullest in its own way."""
    cuts = ((0, 100), (100, 101), (101, 103), (103, 106)), ((106, 110),), ((110, 210),), ((210, 400),)
    used = (
        {"neurons": 106, "synapse_words": 16384, "threshold_profiles": 8},
        {"neurons": 4, "output_axons": 5000, "synapse_words": 12288},
        {"input_axons": 4096, "synapse_words": 3},
        {"neurons": 190, "synapse_words": 15565},
    )
    blocks = tuple(
        Block(BlockId(b), tuple(Slice("hidden", (box,)) for box in own), MappingProxyType(USED | used[b]))
        for b, own in enumerate(cuts)
    )
    cores = (CoreId(0, 0, 0, 0), CoreId(1, 1, 0, 1), CoreId(0, 2, 1, 0), CoreId(0, 0, 0, 1))
    axons = table([(0, 2.0, [0, 1, 2]), (1, 3.0, [2, 3]), (2, 0.5, [0]), (3, 1.0, [3])])
    chip = small_chip()
    mapped = made(4, chip=chip)
    paid = costs(axons, cores, chip, [106, 4, 100, 190], chips=2)
    own = {"chips": 2, "cores": cores, "axons": axons, "costs": paid}
    return replace(mapped, partition=replace(mapped.partition, blocks=blocks), **(own | changes))


def node(name: str) -> dict[str, Any]:
    values = {"window": None, "weights": None, "parameters": {"tau": [1e-3, 2e-3], "v_leak": [0.0, 0.0]}}
    return {"name": name, "type": "LIF", "input_shape": [1200], "output_shape": [], "feeds": ["b"] * 5, **values}


def population(name: str, **changes: Any) -> dict[str, Any]:
    own = {"name": name, "kind": "LIF", "shape": [2, 34], "neurons": 1068, "threshold": [0.5, 1.0]}
    own |= {"membrane_decay": [0.9, 0.9], "synaptic_decay": None, "compare": ">", "reset": "to-value"}
    own |= {"max_spikes": 1, "refractory_steps": [0, 0]}
    return own | changes


def projection(**changes: Any) -> dict[str, Any]:
    own = {"source": "a", "target": "b", "synapses": 1234, "delay_steps": [0, 3], "bias": True, "closes_cycle": True}
    conv = {"type": "Conv", "kernel": [3, 5], "stride": [1, 2], "groups": 2}
    dense = {"type": "Dense", "input_shape": [4], "output_shape": [2, 3]}
    return {**own, "operator": [conv, {"type": "Delayed"}, dense], **changes}


def inspected() -> dict[str, Any]:
    one = {"type": "Conv", "kernel": [3], "stride": [1], "groups": 1}
    silent = {"compare": None, "reset": None, "threshold": None, "synaptic_decay": [0.5, 0.75]}
    timing = {"dt": 1e-3, "integrator": "euler", "reset": "to-value", "compare": ">", "if_gain": "per-second"}
    return {
        "nodes": [node("a"), node("x" * 61)],
        "outputs": [],
        "populations": [population(" b"), population("b", compare=">=", max_spikes=3), population("c", **silent)],
        "projections": [projection(), projection(synapses=None, bias=False, delay_steps=[1, 1], operator=[one])],
        "totals": {"neurons": 2136, "synapses": None, "weights": 1500, "parameters": 2500},
        "timing": timing,
        "dt_from": "stored",
        "nir_version": "1.0.8",
        "exporter": ("Sinabs", "likely"),
        "assumed": ["one"],
        "notes": [],
        "faults": ["two", "node 'a' (LIF): three", "node 'b': three"],
    }


def brief(mapped: MappedNetwork, title: str) -> str:
    return tables.captured([brief_text(mapped, title)], 80, fit=True)


def interrupted() -> MappedNetwork:
    mapped = made(3)
    report = replace(mapped.partition.report, interrupted=True, status="feasible")
    return replace(mapped, partition=replace(mapped.partition, report=report))


TEXTS: dict[str, Callable[[], str]] = {
    "chips.txt": lambda: printed(
        chips_table([read_chip(name) for name in ("crossbar256", "halapoint", "loihi1", "loihi2")])
    ),
    "chip.txt": lambda: printed(chip_table(small_chip()), 220),
    "compared.txt": lambda: printed(compare_text(COMPARED)),
    "compared-same.txt": lambda: printed(compare_text(comparison(SAME))),
    "compared-spikes-same.txt": lambda: printed(compare_text(comparison(SAME, REAL))),
    "verified.txt": lambda: printed(verify_text(verified())),
    "verified-early.txt": lambda: printed(verify_text(verified(**LAYER))),
    "quantized.txt": lambda: printed(quantize_text(quantized(proved=True))),
    "quantized-measured.txt": lambda: printed(quantize_text(quantized(proved=False))),
    "map.txt": lambda: map_text(uneven(), title="m\n.nir", width=110),
    "map-coloured.txt": lambda: map_text(uneven(), width=110, color=True).replace("\x1b", "ESC"),
    "map-brief.txt": lambda: brief(uneven(), "m\n.nir"),
    "map-brief-many.txt": lambda: brief(made(30), "m.nir"),
    "map-brief-placement-only.txt": lambda: brief(uneven(placement_only=True), "m.nir"),
    "map-brief-interrupted.txt": lambda: brief(interrupted(), "m.nir"),
    "map-many.txt": lambda: map_text(made(30), width=110),
    "map-placement-only.txt": lambda: map_text(uneven(placement_only=True), width=110),
    "inspected.txt": lambda: printed(inspect_text(inspected())),
}
DOCUMENTS: dict[str, Callable[[], Any]] = {
    "compared.json": lambda: compare_document(COMPARED, "a", "b"),
    "verified.json": lambda: verify_document(verified()),
    "quantized.json": lambda: quantize_document(quantized(proved=True), "digest"),
}


@pytest.mark.parametrize(
    ("text", "value", "gone"),
    [
        (compare_text, COMPARED, ["- van Rossum: ", "- a note"]),
        (verify_text, verified(), ["- a note"]),
        (quantize_text, quantized(proved=True), ["- fc: emulated", "- lost: v saturates", "- a note"]),
        (inspect_text, inspected(), ["assumed", "- one"]),
    ],
)
def test_notes_are_left_out_on_request(text: Callable[..., Any], value: Any, gone: list[str]) -> None:
    """The table and what was found stay, line by line."""
    loud, quiet = (printed(text(value, notes=notes)).splitlines() for notes in (True, False))
    left_out = [line for line in loud if line and line not in quiet]
    assert len(left_out) == len(gone)
    assert all(line.startswith(start) for line, start in zip(left_out, gone, strict=True))
    assert [line for line in quiet if line] == [line for line in loud if line and line not in left_out]


@pytest.mark.parametrize("name", TEXTS)
def test_the_whole_text(name: str) -> None:
    assert TEXTS[name]().rstrip("\n") == (WHOLE / name).read_text(encoding="utf-8").rstrip("\n")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_whole_document(name: str) -> None:
    text = json.dumps(DOCUMENTS[name](), indent=1, allow_nan=False)
    assert json.loads(text) == json.loads((WHOLE / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("share", "style"), [(None, ""), (0.749, ""), (0.75, "green"), (0.949, "green"), (0.95, "yellow"), (2.0, "yellow")]
)
def test_fuller_resources_are_coloured(share: float | None, style: str) -> None:
    assert share_style(share) == style


@pytest.mark.parametrize(
    ("share", "sign"),
    [(-1, "░"), (0, "░"), (0.2501, "▒"), (0.5, "▒"), (0.5001, "▓"), (0.75, "▓"), (0.7501, "█"), (9, "█")],
)
def test_a_shade_ends_at_each_quarter(share: float, sign: str) -> None:
    assert shade(share) == sign


@pytest.mark.parametrize(("value", "text"), [(1e3, "1,000"), (999.9, "999.9"), (999.96, "1000"), (0.12345, "0.1235")])
def test_spikes_from_a_thousand_on_are_whole(value: float, text: str) -> None:
    assert rate_text(value) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [(1.0, "1 x"), (1e3, "1 kx"), (999.0, "999 x"), (1e-3, "1 mx"), (1e9, "1 Gx"), (1e-15, "1 fx"), (9e-16, "9e-16 x")],
)
def test_a_prefix_begins_at_its_size(value: float, said: str) -> None:
    assert figure_with_prefix(value, "x") == said
    assert figure_with_prefix(-value, "x", approximate=True) == f"~-{said}"


@pytest.mark.parametrize(
    ("value", "shown"), [(2e3, ("2000", "s")), (1.0, ("1", "s")), (1e-3, ("1", "ms")), (0.0, ("0", "s"))]
)
def test_figures_of_chips_have_the_prefix_of_their_size(value: float, shown: tuple[str, str]) -> None:
    assert _figure(value, "s") == shown


def test_without_a_limit_there_is_no_share() -> None:
    row = ResourceRow("neurons", 5, 3, "0", None, False)
    assert (row.share, replace(row, limit=4).share, replace(row, limit=0).share) == (None, 0.75, None)


@pytest.mark.parametrize("name", ["", " a", "a ", "a\n", "x" * 61])
def test_names_that_are_not_plain_are_quoted(name: str) -> None:
    assert name_text(name).startswith("'")
    assert name_text("x" * 60) == "x" * 60


@pytest.mark.parametrize(("count", "more"), [(200, None), (201, "1 more"), (1300, "1,100 more")])
def test_rows_from_the_201st_on_are_counted(count: int, more: str | None) -> None:
    found = [str(part) for part in _more(count, ROWS_SHOWN, "nodes")]
    assert found == ([] if more is None else [f"… and {more} nodes (all in --json)"])


@pytest.mark.parametrize(("chips", "more"), [(4, ""), (5, "… and 1 more chips in use"), (17, "… and 13")])
def test_chips_from_the_fifth_on_are_counted(chips: int, more: str) -> None:
    chip = replace(read_chip("loihi1"), dead_cores=())
    mapped = made(chips, chip=chip, chips=chips, cores=tuple(CoreId(c, 0, 0, 0) for c in range(chips)))
    lines = mesh_text(mapped).split("\n")
    assert [line for line in lines if line.startswith("chip")] == [f"chip {c}" for c in range(4)]
    assert [line[: len(more)] for line in lines if "more chips" in line] == ([more] if more else [])
    assert "x masked out" not in lines[-1]


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (39, None),  # eight tiles of four cores with seven gaps
        (38, "(1 x 4 of 8 x 4 tiles; on other tiles: none in use)"),
        (1, "(1 x 4 of 8 x 4 tiles; on other tiles: none in use)"),
    ],
)
def test_columns_are_left_out_where_there_is_no_room(width: int, said: str | None) -> None:
    lines = mesh_text(made(1), width).split("\n")
    assert len(lines) == (5 if said is None else 6)
    assert said is None or lines[4] == said
    assert lines[0] == ("█··· " + " ".join(["····"] * 7) if said is None else "█···")


@pytest.mark.parametrize("rows", [16, 17])
def test_rows_from_the_17th_on_are_left_out(rows: int) -> None:
    chip = replace(read_chip("loihi1"), mesh=Mesh(1, rows, 1, 1))
    lines = mesh_text(made(2, chip=chip, cores=(CoreId(0, 0, 0, 0), CoreId(0, 0, rows - 1, 0)))).split("\n")
    hidden = ["(1 x 16 of 1 x 17 tiles; on other tiles: 1 core in use)"]
    assert lines[16:-1] == (hidden if rows == 17 else [])


@pytest.mark.parametrize("kind", ["energy_breakdown_j", "time_breakdown_s"])
def test_a_breakdown_of_nothing_is_left_out(kind: str) -> None:
    mapped = made(1)
    for parts, there in (({}, False), ({"spikes": 0.0}, False), ({"spikes": 1e-30}, True)):
        shown = replace(mapped, costs=replace(mapped.costs, **{kind: MappingProxyType(parts)}))
        heading = "energy per time step" if kind.startswith("energy") else "duration of a time step"
        assert (f"\n{heading}\n" in map_text(shown)) == there
