"""The format of a map file value by value: both sides of every bound, full messages, every field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from nirbridge.chips.model import CoreId
from nirbridge.errors import FileError
from nirbridge.mapping.storage.record import (
    FORM,
    BlockRecord,
    PopulationRecord,
    PortRecord,
    ProjectionRecord,
    RouteRecord,
    SliceRecord,
    form_problems,
    map_from_dict,
)
from tests.mapping.storage.test_file import DOCUMENT

COUNT, NUMBER, AMOUNT = FORM["chips"], FORM["timing"]["dt"], FORM["totals"]["mean_link_load"]
TEXT, ORDER = FORM["objective"], FORM["populations"].of["order"]
WHOLE, TRUTH = "expected a whole number from 0 to 2**53", "expected true or false"
FINITE = "expected a finite number"
FINITE_AMOUNT = FINITE.replace("number", "number >= 0")


@pytest.mark.parametrize(
    ("form", "good", "bad", "expected"),
    [
        (COUNT, [0, 1, 2**53], [-1, 2**53 + 1, True, False, 1.0, "1", None], WHOLE),
        (NUMBER, [0, -1, -0.5, 1e300, 2**60], [True, "1", None, float("nan"), float("inf")], FINITE),
        (AMOUNT, [0, 0.0, 2, 0.5, 1e308], [-1, -0.5, True, "1", None, float("nan")], FINITE_AMOUNT),
        (TEXT, ["", "x"], [1, None, True], "expected a text"),
        (FORM["placement_only"], [True, False, None], [0, 1, "true"], TRUTH),
        (FORM["schema"], [1, 2], [0, 3, True, "1", None], "known: 1, 2"),
        (
            FORM["proof"]["status"],
            ["optimal", "optimal-sliced", "feasible"],
            ["best", True, 1, None],
            "known: optimal, optimal-sliced, feasible",
        ),
        (ORDER, [None, [], [1, 0]], ["", 1, True], "expected a list"),
        (
            FORM["chip"],
            [{"name": ""}, {"name": "x", "b": None, "a": [True]}],
            [1, "", None, True],
            "expected an object",
        ),
        (
            FORM["model"],
            [{"file": "", "sha256": ""}, {"file": "", "sha256": "", "more": 1}],
            [1, ""],
            "expected an object",
        ),
    ],
)
def test_each_simple_form_takes_these_values_and_refuses_those(
    form: Any, good: list[Any], bad: list[Any], expected: str
) -> None:
    assert [list(form_problems(form, value, "w")) for value in good] == [[]] * len(good)
    for value in bad:
        shown = {None: "null", "": "''"}.get(value, repr(value)) if not isinstance(value, float) else str(value)
        assert [str(p) for p in form_problems(form, value, "w")] == [f"w: is {shown}, {expected}"]


@pytest.mark.parametrize(
    ("form", "value", "messages"),
    [
        (ORDER, [0, -1, 2, True], ["w[1]: is -1, " + WHOLE, "w[3]: is True, " + WHOLE]),
        (FORM["proof"]["bounds"], {"b": -1, "a": "x", "c": 3}, [f"w.'a': is 'x', {WHOLE}", f"w.'b': is -1, {WHOLE}"]),
        (FORM["model"], {"sha256": 1}, ["w.file: is missing", "w.sha256: is 1, expected a text"]),
        (
            FORM["inputs"].of,
            {"name": [], "shape": {}},
            ["w.name: is a list, expected a text", "w.shape: is an object, expected a list"],
        ),
        (
            FORM["blocks"].of["slices"].of,
            {"population": "p", "box": [[0, 1], [0], [0, 1, 2], []]},
            [f"w.box[{i}]: has {n} entries, expected 2" for i, n in ((1, 1), (2, 3), (3, 0))],
        ),
        (TEXT, 10**50, [f"w: is {'1' + '0' * 39}, expected a text"]),
        (COUNT, "x" * 40, [f"w: is '{'x' * 40}', {WHOLE}"]),
        (COUNT, "x" * 41, [f"w: is '{'x' * 39}…', {WHOLE}"]),
        (FORM["totals"]["neurons"], {"used": 1, "max": 1, "where_max": 0}, []),
        (FORM["totals"]["neurons"], {"used": 1, "max": 1, "where_max": 0, "limit": 0.5}, [f"w.limit: is 0.5, {WHOLE}"]),
    ],
)
def test_problems_are_listed_with_their_places(form: Any, value: Any, messages: list[str]) -> None:
    assert [str(p) for p in form_problems(form, value, "w")] == messages


def test_the_places_of_a_whole_document_begin_with_no_dot() -> None:
    found = [str(p) for p in form_problems(FORM, DOCUMENT | {"chips": -1, "model": {"file": "x"}}, "")]
    assert found == ["model.sha256: is missing", f"chips: is -1, {WHOLE}"]


@pytest.mark.parametrize("wrong_entries", [99, 100, 101])
def test_the_first_hundred_problems_are_listed(wrong_entries: int) -> None:
    with pytest.raises(FileError) as caught:
        map_from_dict(DOCUMENT | {"notes": [0] * wrong_entries}, "n")
    assert [p.subject for p in caught.value.problems] == [f"n: notes[{i}]" for i in range(min(wrong_entries, 100))]
    route = DOCUMENT["routes"][0] | {"source_input": None}
    with pytest.raises(FileError) as caught:
        map_from_dict(DOCUMENT | {"routes": [route] * wrong_entries})
    assert len(caught.value.problems) == min(wrong_entries, 100)


def test_routes_and_orders_that_make_no_sense_are_listed_together() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["routes"][1] |= {"source_block": None, "source_input": None}
    document["routes"][2] |= {"source_block": 0, "source_input": "in"}
    document["schema"] = 2
    document["populations"][0]["order"] = [0, 2, 1, 3, 3]
    document["populations"][1]["order"] = [0, 2, 1]
    with pytest.raises(FileError) as caught:
        map_from_dict(document)
    assert [str(p) for p in caught.value.problems] == [
        "map: routes[1]: has not exactly one of source_block and source_input",
        "map: routes[2]: has not exactly one of source_block and source_input",
        "map: populations[0].order: names neuron 3 more than once, it names every neuron once; map the model again",
    ]


def test_every_field_of_a_record() -> None:
    record = map_from_dict(DOCUMENT)
    assert (record.model_file, record.model_sha256, record.chips, record.weight_bits) == ("net.nir", "ab" * 32, 1, 8)
    assert (record.inputs, record.outputs) == ((PortRecord("in", (6,)),), ())
    assert record.populations[1] == PopulationRecord("out", (3,), 3, DOCUMENT["populations"][1]["kind"], False)
    used = DOCUMENT["blocks"][1]["used"]
    assert record.blocks[1] == BlockRecord(1, CoreId(0, 1, 0, 0), (SliceRecord("out", ((0, 3),), None),), used)
    dense = {"kind": "Dense", "input_shape": [5], "output_shape": [5]}
    assert record.projections[1] == ProjectionRecord("fc1", "fc1", dense, 1, 8, 25, (), True)
    assert record.routes[0] == RouteRecord(None, "in", 0, 6, 30, 6.0, 0)
    assert record.routes[2] == RouteRecord(0, None, 1, 5, 15, 5.0, 1)
    assert (record.chip, record.totals, record.proof) == tuple(DOCUMENT[key] for key in ("chip", "totals", "proof"))
    assert (record.splits, record.latency, record.placement_only, record.early_spikes) == ((), None, False, ())


def test_the_optional_fields_of_a_record() -> None:
    more = {
        "schema": 2,
        "splits": [{"population": "fc1", "ways": 2}, {"population": "out", "ways": 3}],
        "retimed": {"latency": {"fc1": 1, "out": 2}},
        "placement_only": True,
        "early_spikes": ["fc1", "out"],
    }
    document = copy.deepcopy(DOCUMENT) | more
    document["blocks"][0]["slices"][0]["order"] = [0]
    record = map_from_dict(document)
    assert record.splits == (("fc1", 2), ("out", 3))
    assert record.latency == {"fc1": 1, "out": 2}
    assert (record.placement_only, record.early_spikes) == (True, ("fc1", "out"))
    assert record.blocks[0].slices[0].order == (0,)
    nothing = map_from_dict(
        copy.deepcopy(DOCUMENT) | dict.fromkeys(("splits", "retimed", "placement_only", "early_spikes"))
    )
    assert (nothing.splits, nothing.latency, nothing.placement_only, nothing.early_spikes) == ((), None, False, ())
    for ends in ({"source_block": 0}, {"source_input": "in"}):
        route = {k: v for k, v in DOCUMENT["routes"][0].items() if not k.startswith("source")} | ends
        assert map_from_dict(DOCUMENT | {"routes": [route]}).routes[0].source_block == ends.get("source_block")
