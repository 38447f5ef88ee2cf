"""Files of verifications: round trips, odd numbers, malicious files, and the commands that write and read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge import pipeline
from nirbridge.cli.main import run
from nirbridge.comparison.types import Comparison
from nirbridge.errors import FileError
from nirbridge.report.compare import verify_document, verify_text
from nirbridge.simulators.types import Recording
from nirbridge.verification.storage import FORMAT, read_verification, verification_to_dict, write_verification
from nirbridge.verification.verify import Verification
from tests.fuzz import models
from tests.record_files import VALUES, changed_array, damaged, places, with_value, written
from tests.report.results_by_hand import printed, verified

MODEL = Path(__file__).resolve().parents[2] / "examples/models/digits_mlp.nir"
RECORD, ARRAYS = models.verification()
PLACES = places(json.loads(json.dumps(RECORD)))


def by_hand(**changes: Any) -> Verification:
    """The verification by hand, with a recording of every way that it compares."""
    ways = ("reference", "fixed", "mapped", "lava")
    spikes = {("fc\n", "s"): np.eye(3, dtype=np.uint8), ("a/b", "v"): np.array([[1.5, np.inf]], np.float32)}
    return verified(recordings={way: Recording(spikes, {"steps": 3, "batch": None}) for way in ways}, **changes)


def test_a_verification_comes_back_as_it_was(tmp_path: Path) -> None:
    before = by_hand()
    digest = write_verification(before, tmp_path / "v.npz")
    after = read_verification(tmp_path / "v.npz")
    assert printed(verify_text(after)) == printed(verify_text(before))
    assert verify_document(after) == verify_document(before)
    assert after.pairs[0].comparison == before.pairs[0].comparison
    for way, recording in before.recordings.items():
        assert dict(after.recordings[way].meta) == dict(recording.meta)
        assert list(after.recordings[way].arrays) == list(recording.arrays)
        for key, array in recording.arrays.items():
            read = after.recordings[way].arrays[key]
            assert (read.dtype, read.tobytes()) == (array.dtype, array.tobytes())
            assert not read.flags.writeable
    assert write_verification(after, tmp_path / "again.npz") == digest
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "v.npz").read_bytes()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 0.1, -0.0])
def test_numbers_that_json_lacks_come_back(value: float, tmp_path: Path) -> None:
    before = by_hand()
    pair = before.pairs[2]
    row = replace(pair.comparison.rows[0], first_values=(value, 1.0), largest_difference=value)
    rows = Comparison((row,), (), (), 10.0, ())
    layers = (replace(before.layers[0], bound=value, seen=value),)
    before = replace(before, pairs=(replace(pair, comparison=rows),), layers=layers)
    write_verification(before, tmp_path / "v.npz")
    after = read_verification(tmp_path / "v.npz")
    [read] = after.pairs[0].comparison.rows
    numbers = read.first_values[0], read.largest_difference, after.layers[0].bound, after.layers[0].seen
    assert list(map(repr, numbers)) == [repr(value)] * 4
    assert read.first_values[1] == 1.0


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"pairs": ()}, "verification: compares nothing"),
        ({"recordings": {}}, "way 'reference': is compared, but was not recorded"),
        ({"early_spikes": {"fc": 1}}, "verification: counts early spikes without the run that has them"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(changes: dict[str, Any], found: str, tmp_path: Path) -> None:
    write_verification(replace(by_hand(), **changes), tmp_path / "v.npz")
    with pytest.raises(FileError, match=found):
        read_verification(tmp_path / "v.npz")


def test_two_numbers_are_no_difference(tmp_path: Path) -> None:
    place = ("pairs", 1, "comparison", "rows", 3, "largest_difference")
    path = written(tmp_path / "v.npz", FORMAT, with_value(RECORD, place, [1.0, 2.0]), ARRAYS)
    with pytest.raises(FileError, match="ComparisonRow.largest_difference is of another type"):
        read_verification(path)


@pytest.mark.parametrize(
    "decisions",
    [
        {"samples": 3, "alike": 2, "right_a": 1, "right_b": None},
        {"samples": 3, "alike": 4, "right_a": None, "right_b": None},
    ],
)
def test_half_an_accuracy_and_more_decisions_than_samples_are_refused(decisions: Any, tmp_path: Path) -> None:
    place = ("pairs", 1, "comparison", "rows", 3, "decisions")
    path = written(tmp_path / "v.npz", FORMAT, with_value(RECORD, place, decisions), ARRAYS)
    with pytest.raises(FileError, match="decisions that are not of its samples, an accuracy is of both, or of none"):
        read_verification(path)


def test_an_equal_row_has_no_first_difference(tmp_path: Path) -> None:
    before = by_hand()
    row = replace(before.pairs[2].comparison.rows[0], equal=True, first_step=3)
    pair = replace(before.pairs[2], comparison=Comparison((row,), (("x", "s"),), (), 10.0, ()))
    write_verification(replace(before, pairs=(pair,)), tmp_path / "v.npz")
    with pytest.raises(FileError, match="is equal, with a first difference"):
        read_verification(tmp_path / "v.npz")


def test_distances_whose_squares_overflow_are_shown(tmp_path: Path) -> None:
    record = json.loads(json.dumps(RECORD))
    for pair in record["pairs"]:
        for row in pair["comparison"]["rows"]:
            if row["spikes"] is not None:
                row["spikes"]["van_rossum"] = 1e300
    after = read_verification(written(tmp_path / "v.npz", FORMAT, record, ARRAYS))
    assert any(pair.comparison.spikes is not None for pair in after.pairs)
    assert verify_document(after)["pairs"][0]["spikes"] is None or after.summary()


def refused_or_sound(path: Path) -> None:
    """A file is refused, or its content is shown."""
    try:
        verification = read_verification(path)
    except FileError as error:
        problems = error.problems
    else:
        verify_text(verification)
        verify_document(verification)
        return
    assert [p.subject.partition(", array ")[0] for p in problems] == ["file 'v.npz'"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from(VALUES))
def test_any_value_in_any_place_is_refused_or_sound(tmp_path: Path, place: tuple[Any, ...], value: Any) -> None:
    refused_or_sound(written(tmp_path / "v.npz", FORMAT, with_value(RECORD, place, value), ARRAYS))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(sorted(ARRAYS)), st.integers(0, 11), st.integers(0, 2**32 - 1))
def test_any_array_in_any_place_is_refused_or_sound(tmp_path: Path, name: str, kind: int, seed: int) -> None:
    with np.errstate(invalid="ignore"):
        changed = changed_array(ARRAYS[name], kind, seed)
    refused_or_sound(written(tmp_path / "v.npz", FORMAT, RECORD, {**ARRAYS, name: changed}))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.booleans())
def test_damaged_and_cut_files_are_refused(tmp_path: Path, where: float, byte: int, cut: bool) -> None:
    path = tmp_path / "v.npz"
    write_verification(by_hand(), path)
    path.write_bytes(damaged(path.read_bytes(), where, byte, cut=cut))
    refused_or_sound(path)


def test_another_kind_of_file_is_named(tmp_path: Path) -> None:
    network = pipeline.load_network(MODEL)
    pipeline.write_network(network, tmp_path / "a.net.npz")
    with pytest.raises(FileError, match="is not a verification"):
        read_verification(tmp_path / "a.net.npz")


def test_the_command_keeps_a_verification_that_show_and_diff_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / f"{seed}.npz") for seed in (0, 1)]
    for seed, path in enumerate(paths):
        args = ["verify", str(MODEL), "--chip", "loihi2", "--steps", "8", "--seed", str(seed), "-o", path]
        assert run(args) == 0
    verified_text = capsys.readouterr().out
    assert run(["show", paths[0]]) == 0
    assert capsys.readouterr().out in verified_text
    assert run(["show", paths[1], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["kind"], shown["holds"], shown["chip"]) == ("verification", True, "loihi2")
    assert run(["diff", paths[0], paths[0]]) == 0
    assert run(["diff", *paths]) == 1
    assert "input_said: " in capsys.readouterr().out


def test_the_front_door_saves_and_loads(tmp_path: Path) -> None:
    before = by_hand()
    before.save(tmp_path / "v.npz")
    after = nb.load_verification(tmp_path / "v.npz")
    assert isinstance(after, Verification)
    assert verification_to_dict(after)[0] == verification_to_dict(before)[0]
    with pytest.raises(nb.errors.UsageError, match="a verification is saved as .npz"):
        before.save(tmp_path / "v.map.json")
