"""``nirbridge stream``: the spikes of ``simulate``, in every form; odd frames; sockets; deadlines."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.api import sessions
from nirbridge.api.streams import Deadlines, stream
from nirbridge.cli.main import run
from nirbridge.errors import FileError, ModelError
from nirbridge.network.model import Port

MODEL = "examples/models/digits_mlp.nir"
SPIKES = (np.random.default_rng(0).random((30, 64)) < 0.3).astype(np.uint8)


def expected(root: Path) -> Any:
    return nb.simulate(root / MODEL, SPIKES)["output"]


def events(spikes: Any) -> bytes:
    return "".join(f"{t} {a}\n" for t, a in np.argwhere(spikes)).encode()


def streamed(root: Path, data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-m", "nirbridge", "stream", str(root / MODEL), *arguments]
    return subprocess.run(line, input=data, capture_output=True, check=False)


def test_bytes_bits_and_events_have_the_spikes_of_simulate(root: Path) -> None:
    wanted = expected(root)
    assert wanted.any()
    found = streamed(root, SPIKES.tobytes())
    assert (found.returncode, found.stdout) == (0, wanted.tobytes())
    assert found.stderr.startswith(b"30 time steps, ")
    bits = streamed(root, np.packbits(SPIKES, axis=1).tobytes(), "--format", "bits", "--backend", "numpy").stdout
    assert bits == np.packbits(wanted, axis=1).tobytes()
    lines = streamed(root, events(SPIKES), "--format", "events").stdout.decode().splitlines()
    assert [tuple(map(int, line.split())) for line in lines if " " in line] == list(map(tuple, np.argwhere(wanted)))
    assert [line for line in lines if " " not in line] == [str(t + 1) for t in range(30)]


def test_models_of_every_form_have_the_numbers_of_simulate(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quantized, sink = nb.quantize(root / MODEL, "loihi2"), io.BytesIO()
    quantized.save(tmp_path / "m.q.npz")
    nb.emit(root / MODEL, "onnx").save(tmp_path / "reals")
    nb.emit(quantized, "onnx").save(tmp_path / "integers")
    nb.map(root / MODEL, "loihi2").save(tmp_path / "m.map.json")
    reals, integers = (nb.simulate(m, SPIKES, drain=False)["output"] for m in (root / MODEL, quantized))
    assert not np.array_equal(reals, integers)
    monkeypatch.setattr("nirbridge.cli.stream._ends", lambda _: nullcontext((io.BytesIO(SPIKES.tobytes()), sink)))
    monkeypatch.chdir(tmp_path)
    model, on_chip = str(root / MODEL), [str(root / MODEL), "--chip", "loihi2"]
    for arguments, wanted in (
        (["m.q.npz"], integers), (["integers"], integers), (["reals"], reals), ([model, "--backend", "event"], reals),
        (on_chip, integers), ([*on_chip, "--backend", "mapped"], integers),
        ([*on_chip, "--map", "m.map.json"], integers),
    ):  # fmt: skip
        assert run(["stream", *arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().err)["period_s"] == quantized.dt
        assert sink.getvalue() == wanted.tobytes(), arguments
        sink.seek(sink.truncate(0))
    for arguments, message in (
        (["m.q.npz", "--chip", "loihi2", "--dt", "1"], "--chip: does not apply here, programs and quantized networks"),
        ([str(tmp_path)], "is not a program of nirbridge; make one with nirbridge emit"),
        ([model, "--map", "m.map.json"], "--map: does not apply here, it belongs to --chip; leave it out"),
        ([*on_chip, "--backend", "numpy"], "model of backend 'numpy': is of type QuantizedNetwork, expected Network"),
        ([model, "--backend", "fixed"], "expected QuantizedNetwork; quantize the network for a chip"),
        ([model, "--backend", "c"], "expected QuantizedNetwork or MappedNetwork; quantize the network for a chip"),
        ([model, "--chip", "loihi1", "--map", "m.map.json"], "chip: the map is of 'loihi2', the integers are of"),
    ):
        assert run(["stream", *arguments, "--json"]) in (1, 2)
        out, err = capsys.readouterr()
        assert (out, message in err) == ("", True)
        assert json.loads(err.splitlines()[-1])["error"]["problems"]


def test_a_socket_of_this_machine(root: Path, tmp_path: Path) -> None:
    for place in ("0", str(tmp_path / "s")):
        line = [sys.executable, "-m", "nirbridge", "stream", str(root / MODEL), "--listen", place, "--json"]
        with subprocess.Popen(line, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            where = process.stderr.readline().decode().split()[-1]
            family, address = (socket.AF_INET, ("127.0.0.1", int(where.rpartition(":")[2]))) if place == "0" else (
                socket.AF_UNIX, where)  # fmt: skip
            with socket.socket(family) as peer:
                peer.connect(address)
                for spikes, wanted in zip(SPIKES, expected(root), strict=True):  # an answer before the next frame
                    peer.sendall(spikes.tobytes()[:5])
                    peer.sendall(spikes.tobytes()[5:])
                    assert peer.recv(100) == wanted.tobytes()
                peer.shutdown(socket.SHUT_WR)
                assert json.loads(process.stderr.read())["steps"] == 30
            assert process.wait(60) == 0
        assert not Path(place).exists()


def test_a_place_that_is_taken(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert run(["stream", str(root / MODEL), "--listen", str(tmp_path / "file")]) == 2
    assert "Address already in use; choose a free port or path" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"
    for place in ("70000", "localhost:80", "0.0.0.0:4001", "-1", "²", ""):
        assert run(["stream", str(root / MODEL), "--listen", place]) == 2
        assert capsys.readouterr().err.startswith(f"error: --listen '{place}': ")
    for period in ("0", "-1", "nan", "inf"):
        assert run(["stream", str(root / MODEL), "--period", period]) == 2


@pytest.mark.parametrize(
    ("form", "data", "message"),
    [
        ("bytes", bytes(70), "stream: time step 1 ends after 6 bytes, a frame has 64 bytes; send whole frames"),
        ("bits", bytes(9), "stream: time step 1 ends after 1 byte, a frame has 8 bytes"),
        ("events", b"3 1\n2 1\n", "stream, line 2: time step 2, time is at 3; sort the events by time"),
        ("events", b"3 64\n", "stream, line 1: address 64, the inputs have the addresses 0 to 63"),
        ("events", b"3 6", "stream, line 1: has no end"),
        ("events", b"3 " + b"0" * 1000, "stream, line 1: is longer, a line has up to 40 bytes"),
        ("events", b"-1 3\n", "stream, line 1: '-1 3', a line is 't address' or 't'"),
        ("events", b"\n", "stream, line 1: '', a line is"),
        ("events", b"1 2 3\n", "stream, line 1: '1 2 3', a line is"),
        ("events", b"9" * 18 + b"\n", "after the last one, a line skips up to 1,000,000"),
    ],
)
def test_odd_input(form: Any, data: bytes, message: str, root: Path) -> None:
    session = nb.open(root / MODEL, backend="numpy")
    with pytest.raises(FileError) as error:
        stream(session, io.BytesIO(data), io.BytesIO(), form, 1.0)
    assert message in str(error.value)


def test_a_bit_after_the_last_element() -> None:
    with pytest.raises(FileError, match="time step 0 has a bit after the last of input 'a', it has 3 elements"):
        stream(Echo([3]), io.BytesIO(b"\x10"), io.BytesIO(), "bits", 1.0)


class Echo(sessions.Session):
    """Outputs are the inputs 'a', 'b' … of these shapes, or fixed values."""

    def __init__(self, *shapes: Any, fixed: Any = None) -> None:
        self.inputs = tuple(Port(name, tuple(shape)) for name, shape in zip("abc", shapes, strict=False))
        self.fixed = fixed

    def step(self, inputs: Any = None) -> Any:
        return inputs if self.fixed is None else {"out": self.fixed}


def test_several_ports_and_several_spikes() -> None:
    session = Echo([2, 2], [], [3])
    out = io.BytesIO()
    stream(session, io.BytesIO(b"\x60\x80\xa0"), out, "bits", 1.0)
    assert out.getvalue() == b"\x60\x80\xa0"
    out = io.BytesIO()
    stream(session, io.BytesIO(b"0 4\n0 4\n0 1\n2\n3 7\n"), out, "events", 1.0)
    assert out.getvalue() == b"0 1\n0 4\n0 4\n1\n2\n3\n3 7\n4\n"


@pytest.mark.parametrize(
    ("values", "form", "message"),
    [
        (np.array([0.5], np.float32), "events", "output 'out': sends potentials, --format events holds spikes"),
        (np.array([2], np.uint8), "bits", "output 'out': sends more than 1 spike, --format bits holds spikes, one per"),
    ],
)
def test_outputs_that_a_form_does_not_hold(values: Any, form: Any, message: str) -> None:
    source = io.BytesIO(b"\x00" if form == "bits" else b"0 0\n")
    with pytest.raises(ModelError, match=message):
        stream(Echo([1], fixed=values), source, io.BytesIO(), form, 1.0)
    out = io.BytesIO()
    stream(Echo([1], fixed=values), io.BytesIO(b"\x00"), out, "bytes", 1.0)
    assert out.getvalue() == values.tobytes()


def test_deadlines_by_a_clock_of_the_test() -> None:
    """Each time step has a period from its frame; paced ones from the first one on, so that a late one catches up."""
    for is_paced, missed, slept in ((False, [1], []), (True, [1, 2], [0.0, 0.75, 0.0, 0.0])):
        ticks, now, sleeps, found = [0.25, 2.5, 0.25, 0.25], [0.0], [], []

        def sleep(seconds: float, now: Any = now, sleeps: Any = sleeps) -> None:
            now[0] += seconds
            sleeps.append(seconds)

        def step(inputs: Any, now: Any = now, ticks: Any = ticks) -> Any:
            now[0] += ticks.pop(0)
            return inputs

        session = Echo([1])
        object.__setattr__(session, "step", step)
        kept = stream(
            session, io.BytesIO(bytes(4)), io.BytesIO(), "bytes", 1.0, is_paced=is_paced,
            after=lambda k, seconds, is_met, found=found: found.append((k, is_met)),
            clock=lambda now=now: now[0], sleep=sleep,
        )  # fmt: skip
        assert [k for k, is_met in found if not is_met] == missed
        assert sleeps == slept
        assert (kept.steps, kept.missed) == (4, len(missed))
    assert Deadlines(1.0).mean_s == 0


def test_a_reader_that_goes_and_an_interrupt(root: Path) -> None:
    line = [sys.executable, "-m", "nirbridge", "stream", str(root / MODEL)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(bytes(64))
        process.stdin.flush()
        assert process.stdout.read(10) == bytes(10)
        process.stdout.close()
        process.stdin.write(bytes(64))
        process.stdin.flush()
        assert process.wait(60) == 141
        process.stdin.close()
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(bytes(64))
        process.stdin.flush()
        assert process.stdout.read(10) == bytes(10)
        process.send_signal(2)
        assert process.wait(60) == 130


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)])
def test_a_signal_removes_the_socket(number: int, code: int, root: Path, tmp_path: Path) -> None:
    place = tmp_path / "s"
    line = [sys.executable, "-m", "nirbridge", "stream", str(root / MODEL), "--listen", str(place)]
    with subprocess.Popen(line, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"listening at ")
        assert place.exists()
        process.send_signal(number)
        assert process.wait(60) == code
    assert not place.exists()
