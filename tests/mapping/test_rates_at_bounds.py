"""Spike rates at their bounds: numbers read and listed, the largest rate, the words of each refusal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import FileError, UsageError
from nirbridge.files.npy import MEMBERS_MAX
from nirbridge.mapping import rates
from nirbridge.mapping.rates import ASSUMED_RATE, PROBLEMS_MAX, assumed_rates, read_rates
from nirbridge.network.model import Network, Population, Port
from nirbridge.network.neurons import neuron
from tests.mapping.test_rates import HEADER, member, network, npy, saved


def refused(path: Path, net: Network | None = None) -> list[str]:
    """What load_rates says, without the name of the file."""
    with pytest.raises((UsageError, FileError)) as caught:
        read_rates(path, net or network())
    return [re.sub("^rates file '[^']*'(, |: )", "", str(p)) for p in caught.value.problems]


def write(path: Path, arrays: dict[str, Any]) -> None:
    np.savez(path, **arrays)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rates.npz"


def test_the_numbers_of_the_module() -> None:
    assert (ASSUMED_RATE, MEMBERS_MAX, PROBLEMS_MAX) == (0.02, 100_000, 20)


def ports(count: int) -> Network:
    return replace(network(), inputs=tuple(Port(f"i{k}", (1,)) for k in range(count)), projections=(), populations=())


@pytest.mark.parametrize("missing", [0, 1, 5, 6, 7])
def test_five_of_the_assumed_are_named_and_the_others_counted(path: Path, missing: int) -> None:
    write(path, {f"i{k}": 0.5 for k in range(missing, 8)})
    found, said = read_rates(path, ports(8), 0.125)
    names = ", ".join(f"'i{k}'" for k in range(min(missing, 5)))
    rest = {6: " and 1 more", 7: " and 2 more"}.get(missing, "")
    tail = f"; assumed for {names}{rest}: 0.125 spikes per neuron and time step" if missing else ""
    assert said == "given by 'rates.npz'" + tail
    assert [float(found[f"i{k}"]) for k in range(8)] == [0.125] * missing + [0.5] * (8 - missing)


@pytest.mark.parametrize("wrong", [19, 20, 21, 22])
def test_twenty_problems_are_listed_and_the_others_counted(path: Path, wrong: int) -> None:
    write(path, {"hidden": 0.0} | {f"zzz{i:02}": 0.0 for i in range(wrong)})
    found = refused(path)
    listed = [f"array 'zzz{i:02}'" for i in range(min(wrong, 20))]
    assert [text.partition(":")[0] for text in found[:20]] == listed
    assert found[20:] == ([f"{wrong - 20} more problems like these"] if wrong > 20 else [])


@pytest.mark.parametrize("known", [8, 9])
def test_eight_known_names_are_given_where_none_is_near(path: Path, known: int) -> None:
    np.savez(path, something=0.0)
    names = ", ".join(f"'i{k}'" for k in range(8))
    assert refused(path, ports(known)) == [f"array 'something': no population or input of that name; known: {names}"]


def test_a_name_is_near_where_half_of_it_is_the_same(path: Path) -> None:
    np.savez(path, hidzzz=0.0, hizzzz=0.0)
    near, far = refused(path)
    assert near.endswith("did you mean 'hidden'?")
    assert far.endswith("known: 'in', 'hidden', 'out'")


def test_at_most_so_many_arrays_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MEMBERS_MAX", 2)
    np.savez(path, hidden=0.5, out=0.0)
    assert float(read_rates(path, network())[0]["hidden"]) == 0.5
    np.savez(path, hidden=0.5, out=0.0, third=1.0)
    assert refused(path) == ["3 arrays, at most 2 are read"]


def test_arrays_that_are_there_twice_are_said_and_the_first_is_taken(path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        member(path, "hidden.npy", saved(0.1), times=3)
    assert refused(path) == ["array 'hidden': occurs twice; keep one of them"] * 2


@pytest.mark.parametrize(
    ("error", "said"),
    [(EOFError(), "EOFError"), (RuntimeError("no such compression"), "no such compression"), (OSError("x"), "x")],
)
def test_what_the_archive_raises_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fails(*_: object) -> None:
        raise error

    np.savez(path, hidden=0.5)
    monkeypatch.setattr(rates, "open_member", fails)
    assert refused(path) == [f"cannot be read ('{said}'); write it with numpy.savez"]


def test_places_with_no_file(tmp_path: Path) -> None:
    step = "rates are a .npz file of numpy; give the path of one"
    assert refused(tmp_path) == [f"not a regular file, {step}"]
    assert refused(tmp_path / "none.npz") == [f"no such file, {step}"]


@pytest.mark.parametrize(
    ("array", "values", "said"),
    [
        ("hidden", [0, 1, 0, 1.0], None),
        ("hidden", [0, 1, 0, 1.5], "a rate of 1.5, a neuron of 'hidden' fires at most 1 times per time step; "),
        ("many", [3.0, 0.5], None),
        ("many", [3.5, 0.5], "a rate of 3.5, a neuron of 'many' fires at most 3 times per time step; "),
        ("out", [7.0, 0.0], None),  # what a read-out sends is no spike
        ("in", [9.0, 0.0, 0.0], None),
        ("in", [0.0, -0.25, 0.0], "a rate of -0.25, rates are 0 or more spikes per time step; "),
        ("in", [0.0, np.nan, -1.0], "1 value not finite, rates are numbers; "),
        ("in", [-np.inf, np.nan, np.inf], "3 values not finite, rates are numbers; "),
        ("none", np.zeros((2, 0)), None),
        ("nobody", np.zeros(0), None),
    ],
)
def test_values_of_rates(path: Path, array: str, values: object, said: str | None) -> None:
    net = network()
    more = (Population("many", (2,), neuron("LIF", max_spikes=3)), Population("nobody", (0,), neuron("LIF")))
    net = replace(net, populations=(*net.populations, *more), inputs=(*net.inputs, Port("none", (2, 0))))
    write(path, {array: values})
    if said is None:
        found = read_rates(path, net)[0][array]
        assert found.tolist() == np.asarray(values, dtype=np.float64).tolist()
        return
    tail = (
        "divide rates per second by time steps per second"
        if "times per time step" in said
        else "save plain numbers with numpy.savez"
    )
    assert refused(path, net) == [f"array '{array}': {said}{tail}"]


@pytest.mark.parametrize(("length", "whole"), [(31, False), (32, True), (33, True)])
def test_an_array_is_read_to_its_end_and_not_beyond(path: Path, length: int, whole: bool) -> None:
    data = (np.arange(4) / 4).tobytes() + b"\x7f"
    member(path, "hidden.npy", npy(HEADER, data[:length]))
    if whole:
        assert read_rates(path, network())[0]["hidden"].tolist() == [0, 0.25, 0.5, 0.75]
    else:
        assert refused(path) == ["cannot be read ('an array ends early'); write it with numpy.savez"]


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }", [[1, 2], [3, 4]]),
        ("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }", [[1, 3], [2, 4]]),
        ("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2)}  ", [[1, 3], [2, 4]]),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", 1),
    ],
)
def test_shapes_and_orders_of_headers(path: Path, header: str, taken: object) -> None:
    net = replace(ports(0), inputs=(Port("in", (2, 2)),))
    member(path, "in.npy", npy(header, np.array([1.0, 2, 3, 4]).tobytes()))
    assert read_rates(path, net)[0]["in"].tolist() == taken


def test_only_versions_that_numpy_writes_for_plain_arrays(path: Path) -> None:
    for version in (b"\x01\x00", b"\x02\x00", b"\x01\x01"):
        member(path, "hidden.npy", npy(HEADER, bytes(32), version))
        if version == b"\x01\x00":
            assert read_rates(path, network())[0]["hidden"].tolist() == [0, 0, 0, 0]
        else:
            said = "array 'hidden': not an array of plain numbers, rates are real numbers; "
            assert refused(path) == [said + "save plain numbers with numpy.savez"]


def test_an_assumed_rate_of_our_own() -> None:
    found, said = assumed_rates(network(read_out_drives=True), 0.5)
    assert {name: float(rate) for name, rate in found.items()} == {"in": 0.5, "hidden": 0.5, "out": 1.0}
    tail = "; readouts that drive others send in every time step"
    assert said == f"assumed: 0.5 spikes per neuron and time step, inputs too{tail}"
    assert all(not rate.flags.writeable for rate in found.values())
