from __future__ import annotations

import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nirbridge.errors import FileError, UsageError
from nirbridge.mapping.rates import assumed_rates, read_rates
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity


def network(read_out_drives: bool = False) -> Network:
    hidden = Population("hidden", (4,), neuron("LIF"))
    out = Population("out", (2,), neuron("LI", theta=None))
    edges = [("in", "hidden", (4, 3)), ("hidden", "out", (2, 4))]
    edges += [("out", "hidden", (4, 2))] if read_out_drives else []
    projections = tuple(Projection(a, b, Dense(np.ones(shape))) for a, b, shape in edges)
    timing = Timing(1e-3, "euler", "to-value", ">", "per-second")
    return Network(1e-3, timing, (hidden, out), projections, (Port("in", (3,)),), ())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rates.npz"


def test_assumed_rates_say_what_they_assume() -> None:
    rates, said = assumed_rates(network())
    assert {name: float(rate) for name, rate in rates.items()} == {"in": 0.02, "hidden": 0.02, "out": 0.0}
    assert said == "assumed: 0.02 spikes per neuron and time step, inputs too"


def test_a_read_out_that_drives_others_sends_in_every_step() -> None:
    rates, said = assumed_rates(network(read_out_drives=True), 0.1)
    assert float(rates["out"]) == 1.0
    assert said.endswith("; readouts that drive others send in every time step")


def test_a_readout_that_the_host_reads_sends_nothing() -> None:
    plain = network()
    edges = (*plain.projections, Projection("out", "host", Identity((2,))))
    rates, said = assumed_rates(replace(plain, projections=edges, outputs=(Port("host", (2,)),)), 0.1)
    assert float(rates["out"]) == 0.0
    assert said == "assumed: 0.1 spikes per neuron and time step, inputs too"


def test_given_rates_are_taken_and_the_rest_is_assumed(path: Path) -> None:
    np.savez(path, hidden=np.array([0, 1, 0, 1]), **{"in": np.float32(0.5)})
    rates, said = read_rates(path, network())
    assert rates["hidden"].tolist() == [0, 1, 0, 1]
    assert rates["hidden"].dtype == np.float64
    assert not rates["hidden"].flags.writeable
    assert rates["in"].shape == ()
    assert said == "given by 'rates.npz'; assumed for 'out': 0.02 spikes per neuron and time step"


def test_all_given(path: Path) -> None:
    np.savez_compressed(path, hidden=np.asfortranarray(np.zeros(4)), out=0.0, **{"in": np.zeros(3, bool)})
    assert read_rates(path, network())[1] == "given by 'rates.npz'"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"hiden": 0.1}, "array 'hiden': no population or input of that name; did you mean 'hidden'?"),
        ({"zzz": 0.1}, "array 'zzz': no population or input of that name; known: 'in', 'hidden', 'out'"),
        (
            {"hidden": np.zeros(5)},
            "array 'hidden': shape (5,), 'hidden' has shape (4,); give one number, or one per neuron",
        ),
        (
            {"in": [0.1, np.nan, np.inf]},
            "array 'in': 2 values not finite, rates are numbers; save plain numbers with numpy.savez",
        ),
        (
            {"in": -0.5},
            "array 'in': a rate of -0.5, rates are 0 or more spikes per time step; save plain numbers with numpy.savez",
        ),
        (
            {"hidden": 20.0},
            "array 'hidden': a rate of 20, a neuron of 'hidden' fires at most 1 times per time step;"
            " divide rates per second by time steps per second",
        ),
        (
            {"hidden": 1j},
            "array 'hidden': not an array of plain numbers, rates are real numbers;"
            " save plain numbers with numpy.savez",
        ),
        (
            {"hidden": "often"},
            "array 'hidden': not an array of plain numbers, rates are real numbers;"
            " save plain numbers with numpy.savez",
        ),
    ],
)
def test_wrong_arrays_are_refused(path: Path, arrays: dict[str, object], message: str) -> None:
    np.savez(path, **arrays)
    with pytest.raises(UsageError, match="^" + re.escape("rates file 'rates.npz', " + message) + "$"):
        read_rates(path, network())


def test_every_problem_is_listed_up_to_twenty(path: Path) -> None:
    np.savez(path, **{f"n{i}": 0.0 for i in range(25)})
    with pytest.raises(UsageError) as caught:
        read_rates(path, network())
    assert len(caught.value.problems) == 21
    assert str(caught.value.problems[-1]) == "rates file 'rates.npz': 5 more problems like these"


def member(path: Path, name: str, content: bytes, times: int = 1) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for _ in range(times):
            archive.writestr(name, content)


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


def saved(values: object) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(values))
    return buffer.getvalue()


HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (4,)}"


@pytest.mark.parametrize("data", [b"", b"short"])
def test_an_array_that_ends_early_is_a_damaged_file(path: Path, data: bytes) -> None:
    member(path, "hidden.npy", npy(HEADER, data))
    message = "rates file 'rates.npz': cannot be read ('an array ends early'); write it with numpy.savez"
    with pytest.raises(FileError, match="^" + re.escape(message) + "$"):
        read_rates(path, network())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no numpy array",
        npy("{'descr': '<f8'}"),
        npy("__import__('os')"),
        npy("(" * 9000),
        npy(HEADER)[:20],
        npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-4,), }"),
        b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little") + bytes(1000),
    ],
)
def test_whatever_is_no_array_of_numbers_is_one_clear_error(path: Path, content: bytes) -> None:
    member(path, "hidden.npy", content)
    with pytest.raises(UsageError, match=r"^rates file 'rates.npz', array 'hidden': not an array of plain numbers, "):
        read_rates(path, network())


@pytest.mark.parametrize("kind", ["?", "i1", "u1", "<i2", ">i4", "u8", "f2", "f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_type_and_order_that_numpy_writes(path: Path, kind: str, order: str) -> None:
    values = np.array([[0, 1, 0], [1, 1, 0]]).astype(kind, order=order)
    net = network()
    np.savez(path, **{"in": values})
    wide = Network(net.dt, net.timing, net.populations, (), (Port("in", (2, 3)),), ())
    assert read_rates(path, wide)[0]["in"].tolist() == [[0, 1, 0], [1, 1, 0]]


def test_pickles_are_never_loaded(path: Path, tmp_path: Path) -> None:
    np.savez(path, hidden=np.array([{}], dtype=object))
    with pytest.raises(UsageError, match="not an array of plain numbers, rates are real numbers"):
        read_rates(path, network())


def test_a_bomb_is_refused_by_its_header(path: Path) -> None:
    huge = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (400000000,)}", bytes(50_000_000))
    member(path, "hidden.npy", huge)
    assert path.stat().st_size < 100_000
    with pytest.raises(UsageError, match=r"shape \(400000000,\), 'hidden' has shape \(4,\)"):
        read_rates(path, network())


def test_an_array_given_twice_is_refused(path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        member(path, "hidden.npy", saved(0.1), times=2)
    with pytest.raises(UsageError, match="occurs twice; keep one of them$"):
        read_rates(path, network())


def test_files_that_are_none(path: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="^rates file 'rates.npz': no such file, rates are a .npz file of numpy;"):
        read_rates(path, network())
    with pytest.raises(FileError, match="not a regular file"):
        read_rates(tmp_path, network())
    path.write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(FileError, match="cannot be read"):
        read_rates(path, network())


def test_hostile_names_are_shown_escaped(path: Path) -> None:
    member(path, "a\x1b[31m\nerror: x.npy", saved(0.1))
    with pytest.raises(UsageError) as caught:
        read_rates(path, network())
    assert "array 'a\\x1b[31m\\nerror: x'" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_name_longer_than_files_have() -> None:
    with pytest.raises(FileError, match="no such file"):
        read_rates("x" * 300 + ".npz", network())
