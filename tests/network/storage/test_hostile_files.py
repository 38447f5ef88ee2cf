"""Malicious network files: each is refused with one FileError, even if its digest is correct, or the network runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nirbridge.errors import FileError
from nirbridge.network.storage.file import FORMAT, network_to_dict, read_network, write_network
from nirbridge.report.inspect import inspect_network, inspect_text
from nirbridge.simulators.simulate import simulate
from tests.cases import cases
from tests.network.storage.nets import small
from tests.record_files import VALUES, changed_array, damaged, places, with_value, written

NETWORK = small()
RECORD, ARRAYS = network_to_dict(NETWORK)
PLACES = places(json.loads(json.dumps(RECORD)))
MORE: list[Any] = [{"array": "a0", "shape": [2**20, 2**20]}, {"array": "a0", "shape": [3]}, {"array": "a0", "shape": 3}]


def refused_or_sound(path: Path) -> None:
    """A file is refused, or its network is shown and runs."""
    try:
        network = read_network(path)
    except FileError as error:
        problems = error.problems
    else:
        inspect_text(inspect_network(network))
        with np.errstate(all="ignore"):
            simulate(network, {p.name: np.ones((3, *p.shape), np.uint8) for p in network.inputs}, backend="reference")
        return
    assert [p.subject.partition(", array ")[0] for p in problems] == ["file 'a.net.npz'"]


@settings(max_examples=cases(100, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), st.sampled_from([*VALUES, *MORE]))
def test_any_value_in_any_place_is_refused_or_sound(tmp_path: Path, place: tuple[Any, ...], value: Any) -> None:
    refused_or_sound(written(tmp_path / "a.net.npz", FORMAT, with_value(RECORD, place, value), ARRAYS))


@settings(max_examples=cases(100, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(ARRAYS)), st.integers(0, 11), st.integers(0, 2**32 - 1))
def test_any_array_in_any_place_is_refused_or_sound(tmp_path: Path, name: str, kind: int, seed: int) -> None:
    with np.errstate(invalid="ignore"):
        changed = changed_array(ARRAYS[name], kind, seed)
    refused_or_sound(written(tmp_path / "a.net.npz", FORMAT, RECORD, {**ARRAYS, name: changed}))


@settings(max_examples=cases(50, 150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.booleans())
def test_damaged_and_cut_files_are_refused(tmp_path: Path, where: float, byte: int, cut: bool) -> None:
    path = tmp_path / "a.net.npz"
    write_network(NETWORK, path)
    path.write_bytes(damaged(path.read_bytes(), where, byte, cut=cut))
    refused_or_sound(path)
