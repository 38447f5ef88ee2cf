"""Paths with NUL or an unpaired surrogate are refused by every reader and writer with a file error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge import importers
from nirbridge.chips import read_chip
from nirbridge.emitters import artifact
from nirbridge.emitters.lava.runtime import run as lava
from nirbridge.errors import NirbridgeError
from nirbridge.files import atomic, gate, npy, places
from nirbridge.importers.nirfile import reader as nir_file
from nirbridge.mapping import rates
from nirbridge.mapping.storage import file as map_file
from nirbridge.network import from_nir
from nirbridge.pipeline import recordings
from nirbridge.pipeline.quantize import quantize_network
from nirbridge.quantization.storage import file as quantized_file
from nirbridge.report.plots import style as pictures
from nirbridge.simulators import recording_file
from nirbridge.simulators.simulate import simulate


def graph() -> Any:
    ones = np.ones(2)
    nodes = {
        "input": nir.Input({"input": np.array([2])}),
        "layer": nir.Linear(np.eye(2)),
        "lif": nir.LIF(ones * 5e-3, ones, ones * 0, ones * 0.5, v_reset=ones * 0),
        "output": nir.Output({"output": np.array([2])}),
    }
    return nir.NIRGraph(nodes, list(pairwise(nodes)), metadata={"nirbridge:dt": 1e-3}, type_check=False)


def recording() -> Any:
    return simulate(from_nir(graph()), np.ones((3, 2)), backend="numpy").recording


def quantized() -> Any:
    return quantize_network(from_nir(graph()), read_chip("loihi2"))


FIGURE: Any = None
"""No picture is drawn before its place is known."""
READERS: dict[str, Callable[[str], Any]] = {
    "model": importers.load_nir,
    "model, its digest": nir_file.file_sha256,
    "map": map_file.read_map,
    "recording": recording_file.read_recording,
    "quantized network": quantized_file.read_quantized,
    "array": npy.load_npy,
    "arrays": npy.load_npz,
    "inputs, one": lambda path: recordings.load_inputs(f"{path}.npy"),
    "inputs, several": lambda path: recordings.load_inputs(f"{path}.npz"),
    "rates": lambda path: rates.read_rates(path, from_nir(graph())),
    "chip": lambda path: read_chip(f"{path}.toml"),
    "chip, as a path": lambda path: read_chip(Path(path)),
    "program": lambda path: lava._program(path),
}
WRITERS: dict[str, Callable[[str], Any]] = {
    "model": lambda path: importers.save_nir(graph(), path),
    "map": lambda path: map_file.write_document({}, path),
    "recording": lambda path: recording_file.write_recording(recording(), path),
    "quantized network": lambda path: quantized_file.write_quantized(quantized(), path),
    "picture": lambda path: pictures.save_picture(FIGURE, f"{path}.png"),
    "file": lambda path: atomic.atomic_write_bytes(path, b"", subject="file"),
    "folder": lambda path: atomic.atomic_folder(path, {"a": b""}, subject="folder"),
    "program": lambda path: artifact.write_artifact(artifact.make_artifact({}, {}), path),
    "place": lambda path: places.resolve_output(path, "file"),
    "place of a folder": lambda path: atomic.resolve_folder(path, "folder"),
    "gate, file": lambda path: gate.check_outputs([gate.CommandOutput("-o", path)]),
    "gate, folder": lambda path: gate.check_outputs([gate.CommandOutput("-o", path, "folder")]),
    "gate, report": lambda path: gate.check_outputs([gate.CommandOutput("--report", path, "report", ("a.txt",))]),
}
TEXTS = ("a\0b", "\ud800", "folder\0/a", "folder/\udfff/a")


def cases() -> Iterator[Any]:
    for kind, table in (("read", READERS), ("write", WRITERS)):
        for name, function in table.items():
            yield pytest.param(function, id=f"{kind} {name}")


@pytest.mark.parametrize("function", list(cases()))
def test_a_text_that_is_no_path_is_refused(
    function: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in TEXTS:
        with pytest.raises(NirbridgeError) as caught:
            function(text)
        assert caught.value.exit_code == 2
        assert str(caught.value).isprintable()
    assert not list(tmp_path.iterdir())


def test_inputs_that_are_no_paths_are_left_to_their_readers(tmp_path: Path) -> None:
    output = gate.CommandOutput("-o", str(tmp_path / "out"))
    assert len(gate.check_outputs([output], [gate.CommandInput("MODEL", text) for text in TEXTS])) == 1
