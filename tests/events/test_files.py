"""Files of events: AEDAT 2 and 4 and columns, of writers of others; round trips; damaged and hostile files."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge import pipeline
from nirbridge.cli.main import run as cli
from nirbridge.errors import FileError, NirbridgeError, ToolMissing, UsageError
from nirbridge.events import aedat4 as aedat4_reader
from nirbridge.events.model import EventOptions, bin_events
from tests.events.test_binning import counted
from tests.events.writers import aedat2, aedat4, davis, dvs128, events_packet, random_events, table

SHAPE = (2, 34, 34)
EVENTS = random_events(5, 400, 34, 34, 50_000)


def read(path: Path, data: bytes) -> Any:
    path.write_bytes(data)
    return pipeline.load_data(path)


def quads(events: Any) -> list[tuple[int, ...]]:
    return list(zip(*(np.asarray(c).tolist() for c in (events.x, events.y, events.t, events.p)), strict=True))


@pytest.mark.parametrize("packing", [None, "lz4", "zstd"])
def test_aedat_4_of_the_flatbuffers_library(tmp_path: Path, packing: str | None) -> None:
    found = read(tmp_path / "a.aedat4", aedat4(EVENTS, packing, others=True))
    assert quads(found) == EVENTS
    assert (found.sensor, found.origin) == ((34, 34), "first")
    assert pipeline.kind_of_file(tmp_path / "a.aedat4") == "events"


@pytest.mark.parametrize(
    ("chip", "address", "size"),
    [
        ("ch.unizh.ini.jaer.chip.retina.DVS128", dvs128, (128, 128)),
        (None, dvs128, (128, 128)),
        ("eu.seebetter.ini.chips.davis.DAVIS240C", davis, (240, 180)),
        ("eu.seebetter.ini.chips.davis.Davis346blue", davis, (346, 260)),
    ],
)
def test_aedat_2_of_a_writer_by_struct(tmp_path: Path, chip: str | None, address: Any, size: tuple[int, int]) -> None:
    found = read(tmp_path / "a.aedat", aedat2([(address(x, y, p), t) for x, y, t, p in EVENTS], chip))
    assert quads(found) == EVENTS
    assert found.sensor == size
    assert not any(found.left_out.values())


def test_other_samples_of_aedat_2_are_counted(tmp_path: Path) -> None:
    pairs = [(davis(3, 4, 1), 5), (1 << 31 | davis(1, 1, 0), 6), (davis(1, 1, 0) | 1 << 10, 7)]
    found = read(tmp_path / "a.aedat", aedat2(pairs, "eu.seebetter.ini.chips.davis.DAVIS240C"))
    assert quads(found) == [(3, 4, 5, 1)]
    assert dict(found.left_out) == {"samples of frames": 1, "external events": 1}
    text = bin_events(found, (2, 180, 240), 1e-3, EventOptions()).text
    assert text.endswith(", samples of frames left out: 1, external events left out: 1")
    outside = read(tmp_path / "b.aedat", aedat2([(dvs128(1, 2, 1) | 1 << 15, 3), (dvs128(1, 2, 1), 4)]))
    assert (quads(outside), outside.left_out["external events"]) == ([(1, 2, 4, 1)], 1)


def test_a_first_address_that_begins_as_a_line_does_is_an_event(tmp_path: Path) -> None:
    pairs = [(davis(5, 141, 0), 9), (davis(6, 140, 1), 10)]
    assert pairs[0][0] >> 24 == ord("#")
    found = read(tmp_path / "a.aedat", aedat2(pairs, "eu.seebetter.ini.chips.davis.DAVIS240C"))
    assert quads(found) == [(5, 141, 9, 0), (6, 140, 10, 1)]


def test_columns_in_npy_and_npz(tmp_path: Path) -> None:
    array = table(EVENTS)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", **{name: array[name] for name in "xytp"})  # pyright: ignore[reportArgumentType]
    padded = np.zeros(
        len(array), np.dtype({"names": list("tpyxw"), "formats": [">f8", "|b1", ">i4", "i1", "<f4"]}, align=True)
    )
    for name in "xytp":
        padded[name] = array[name]
    np.save(tmp_path / "b.npy", padded)
    for name in ("a.npy", "a.npz", "b.npy"):
        assert pipeline.kind_of_file(tmp_path / name) == "events"
        columns = pipeline.load_data(tmp_path / name)
        assert set(columns) == set("xytp")
        for column in "xytp":
            np.testing.assert_array_equal(columns[column], array[column])


def test_every_file_gives_the_count_of_a_dict(tmp_path: Path, tiny_events: Any) -> None:
    network, array = tiny_events
    events = [tuple(map(int, row)) for row in array]
    np.save(tmp_path / "a.npy", array)
    (tmp_path / "a.aedat4").write_bytes(aedat4(events))  # pyright: ignore[reportArgumentType]
    (tmp_path / "a.aedat").write_bytes(aedat2([(dvs128(x, y, p), t) for x, y, t, p in events]))
    expected = counted(events, 100, (2, 3, 4))  # pyright: ignore[reportArgumentType]
    for name in ("a.npy", "a.aedat", "a.aedat4"):
        found = nb.read_events(tmp_path / name, network, origin="zero")
        np.testing.assert_array_equal(found.array, expected)
        assert found.text.startswith(f"300 events in {len(expected)} time steps of 0.0001 s, ")


@pytest.mark.parametrize("bin_us", [1000, 1230, 3333])
def test_a_large_sensor_whose_clock_goes_back(tmp_path: Path, bin_us: int) -> None:
    events = random_events(6, 300, 1280, 720, 5000)
    data = read(tmp_path / "a.aedat4", aedat4(events, "zstd", (1280, 720), others=True))
    found = bin_events(data, (2, 720, 1280), None, EventOptions(bin=bin_us / 10**6, origin="zero"))
    np.testing.assert_array_equal(found.array, counted(events, Fraction(bin_us), (2, 720, 1280)))
    back = sum(two[2] < one[2] for one, two in itertools.pairwise(events))
    assert found.text.endswith(f", the clock goes back {back} times, packets of other streams left out: 43")


# -- written -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npy", ".aedat", ".aedat4"])
def test_spikes_written_as_events_come_back(tmp_path: Path, tiny_events: Any, suffix: str) -> None:
    network, array = tiny_events
    run = nb.simulate(network, nb.read_events(array, network, clip=True), record=["input:s"])
    nb.save(run, tmp_path / f"a{suffix}")
    again = nb.read_events(tmp_path / f"a{suffix}", network, origin="zero", steps=len(run["input"]))
    np.testing.assert_array_equal(again.array, run["input"])
    first = (tmp_path / f"a{suffix}").read_bytes()
    nb.save(run, tmp_path / f"b{suffix}")
    assert (tmp_path / f"b{suffix}").read_bytes() == first


@pytest.mark.parametrize("shape", [(5,), (3, 4), (1, 3, 4), (2, 3, 4)])
@pytest.mark.parametrize("suffix", [".npy", ".aedat2", ".aedat4"])
def test_several_spikes_of_any_sensor_are_several_events(
    tmp_path: Path, tiny_events: Any, shape: tuple[int, ...], suffix: str
) -> None:
    run = nb.simulate(*tiny_events)
    spikes = np.random.default_rng(0).integers(0, 3, (6, *shape), np.int16)
    nb.save(replace(run, arrays={("a", "s"): spikes}), tmp_path / f"a{suffix}")
    data = pipeline.load_data(tmp_path / f"a{suffix}")
    columns = data if isinstance(data, dict) else {name: getattr(data, name) for name in "xytp"}
    expected = np.zeros((6, 2, *(1, *shape)[-2:]), np.int16)
    grid = spikes.reshape(6, -1, *expected.shape[2:])
    expected[:, -grid.shape[1] :] = grid  # one channel is ON
    found = np.zeros_like(expected)
    np.add.at(found, tuple(np.asarray(columns[name], int) // (100 if name == "t" else 1) for name in "tpyx"), 1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("suffix", [".npy", ".aedat", ".aedat4"])
def test_spikes_of_one_axis_come_back_with_sensor_and_merge(tmp_path: Path, suffix: str) -> None:
    network = pipeline.network_of_shapes("8 dense8 lif")
    spikes = (np.random.default_rng(0).random((30, 8)) < 0.3).astype(np.uint8)
    run = replace(nb.simulate(network, spikes), arrays={("a", "s"): spikes[:, None]})
    nb.save(run, tmp_path / f"a{suffix}")
    again: Any = nb.read_events(tmp_path / f"a{suffix}", network, sensor=(8, 1), merge=True, origin="zero", steps=30)
    np.testing.assert_array_equal(again.array.reshape(30, 8), spikes)


def test_what_events_cannot_hold_is_refused_and_leaves_no_file(tmp_path: Path, tiny_events: Any) -> None:
    network, array = tiny_events
    two = nb.simulate(network, array, record=["*:s"])
    batch = nb.simulate(network, np.ones((3, 2, 2, 3, 4), np.uint8))
    short = replace(two, meta={**two.meta, "dt": 1e-7}, arrays={("output", "s"): two["output"]})
    for run, says in (
        (two, "spikes of 2 nodes are recorded"),
        (batch, "2 samples of node 'output'"),
        (short, "time steps of 1e-07 s"),
    ):
        with pytest.raises(UsageError, match=says):
            nb.save(run, tmp_path / "a.aedat4")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("record", "says"),
    [("*:s", "spikes of 2 nodes are recorded"), ("lif:v", "spikes of 0 nodes"), ("output:s", "whole microseconds")],
)
def test_a_place_that_cannot_hold_the_recording_is_refused_before_the_run(
    tmp_path: Path,
    tiny_events: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    record: str,
    says: str,
) -> None:
    network, array = tiny_events
    np.save(tmp_path / "a.npy", array)
    nb.save(network, tmp_path / "n.nir")
    nb.save(nb.emit(nb.quantize(network, "loihi1"), "onnx"), tmp_path / "program")
    lengths: list[Any] = []

    def noted(function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            lengths.append(options["steps"])
            ran = function(*args, **options)
            return replace(ran, meta={**ran.meta, "dt": 1e-7}) if record == "output:s" else ran

        return call

    for name in ("simulate_network", "run_emitted"):
        monkeypatch.setattr(pipeline, name, noted(getattr(pipeline, name)))
    for command in (["simulate", "n.nir"], ["run", "program"]):
        paths = [str(tmp_path / name) for name in (command[1], "a.npy", "out.aedat4")]
        line = [command[0], paths[0], "--input", paths[1], "-o", paths[2], "--events", "clip", "--record", record]
        assert cli(line) == 2
        assert says in capsys.readouterr().err
    assert lengths == [1, 1]
    assert not (tmp_path / "out.aedat4").exists()


# -- hostile -------------------------------------------------------------------------------------------------------

GOOD4 = aedat4(EVENTS[:20])


def test_every_cut_of_a_file_is_refused_or_shorter(tmp_path: Path) -> None:
    """A file that ends within a packet or its header is refused; one that ends between packets has fewer events."""
    whole = 0
    for end in range(len(GOOD4)):
        try:
            found = read(tmp_path / "a.aedat4", GOOD4[:end])
        except NirbridgeError:
            continue
        whole += 1
        assert quads(found) == EVENTS[: len(found)]
    assert whole == 3  # no packet, one, two


HEADER = struct.unpack_from("<I", GOOD4, 14)[0] + 18
HOSTILE = (
    (GOOD4[:HEADER] + struct.pack("<ii", 1, 2**31 - 1), "a packet lies beyond the end"),
    (GOOD4[:HEADER] + struct.pack("<ii", 1, -5), "a packet lies beyond the end"),
    (aedat4(EVENTS, end=2**62), "its table of packets lies outside the file"),
    (aedat4(EVENTS, text="<!DOCTYPE x [<!ENTITY a 'b'>]><dv>&a;</dv>"), "defines entities"),
    (aedat4(EVENTS, text="<dv>" * 50), "is damaged or cut off"),
    (GOOD4[:14] + struct.pack("<I", 2**32 - 1) + GOOD4[18:], "no header of AEDAT 4"),
    (b"#!AER-DAT3.1\r\n#!END-HEADER\r\n", "is AEDAT 3.1, AEDAT 2 and 4 are read"),
    (aedat2([(0, 1)])[:-3], "5 bytes of events, an event has 8 bytes"),
    (aedat2([(0, 1)], "com.example.Camera9"), "is of the chip 'Camera9', DVS128 and DAVIS are read"),
    (aedat2([(1 << 20, 1)], None), "names no chip"),
)


@pytest.mark.parametrize(("data", "says"), HOSTILE)
def test_hostile_files_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(FileError, match=says) as caught:
        read(tmp_path / "a.aedat4", data)
    assert str(caught.value).startswith("file 'a.aedat4': ")
    assert len(caught.value.problems) == 1


def test_negative_times_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="^file 'a.aedat': t is -7 at event 1"):
        read(tmp_path / "a.aedat", aedat2([(0, 1), (0, -7)]))


def test_a_vector_longer_than_its_packet_is_refused(tmp_path: Path) -> None:
    packet = bytearray(events_packet(EVENTS[:2]))
    at = packet.index(struct.pack("<I", 2), 12)
    packet[at : at + 4] = struct.pack("<I", 2**31)
    data = GOOD4[:HEADER] + struct.pack("<ii", 1, len(packet)) + bytes(packet)
    with pytest.raises(FileError, match="a packet declares more events than it holds"):
        read(tmp_path / "a.aedat4", data)


def test_a_packet_that_unpacks_to_much_is_refused(tmp_path: Path) -> None:
    bomb = aedat4([(0, 0, 0, 0)] * 200_000, "zstd", per_packet=200_000)
    assert len(bomb) < 2000
    (tmp_path / "a.aedat4").write_bytes(bomb)
    with pytest.raises(FileError, match="its packets unpack to more than is read; raise --max-bytes"):
        pipeline.load_data(tmp_path / "a.aedat4", max_bytes=100_000)


def test_two_sensors_are_refused(tmp_path: Path) -> None:
    node = '<node name="{}"><attr key="typeIdentifier">EVTS</attr></node>'.format
    two = aedat4(EVENTS[:3], text=f"<dv>{node(1)}{node(2)}</dv>")
    packet = events_packet(EVENTS[:3])
    with pytest.raises(FileError, match="has events of 2 sensors"):
        read(tmp_path / "a.aedat4", two + struct.pack("<ii", 2, len(packet)) + packet)


def test_a_packed_file_without_pyarrow_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aedat4_reader.importlib.util, "find_spec", lambda name: None)
    assert quads(read(tmp_path / "a.aedat4", aedat4(EVENTS))) == EVENTS
    with pytest.raises(ToolMissing, match="it is packed with lz4, and pyarrow is not installed"):
        read(tmp_path / "a.aedat4", aedat4(EVENTS, "lz4"))


def test_a_structured_array_of_other_fields_is_refused(tmp_path: Path, tiny_events: Any) -> None:
    for kind, says in (("<c16", "no plain numbers"), ("<M8[s]", "not an array of plain numbers")):
        np.save(tmp_path / "a.npy", np.zeros(2, [("x", "<i2"), ("t", kind)]))
        with pytest.raises(FileError, match=says):
            pipeline.load_data(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", table(EVENTS))
    data = (tmp_path / "a.npy").read_bytes()
    with pytest.raises(FileError, match=f"^file 'a.npy': ends early, its header declares {len(EVENTS) * 13:,} bytes"):
        read(tmp_path / "a.npy", data[:-1])
    with pytest.raises(FileError, match="ends early"):
        read(tmp_path / "a.npy", data.replace(b"(400,), }      ", b"(9000000,), }  "))
    with pytest.raises(UsageError, match="outside the sensor of 4 x 3"):
        nb.read_events({n: table(EVENTS)[n] for n in "xytp"}, tiny_events[0])
