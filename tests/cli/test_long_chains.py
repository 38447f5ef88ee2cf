"""Networks of many layers in series: the work of every command is linear in the number of layers."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np
import pytest

from nirbridge.cli.main import run
from nirbridge.importers.nirfile import reader as nir_file
from nirbridge.importers.nirfile.hdf5.items import hdf5
from nirbridge.importers.nirfile.hdf5.scan import ScannedFile

COMMANDS = {
    "inspect": ["inspect", "{model}"],
    "check": ["check", "{model}", "--chip", "loihi1"],
    "map": ["map", "{model}", "--chip", "loihi1", "--effort", "fast", "-o", "{folder}/a.map.json"],
    "simulate": ["simulate", "{model}", "--input", "{folder}/in.npy", "-o", "{folder}/out.npz"],
    "quantize": ["quantize", "{model}", "--chip", "loihi1", "-o", "{folder}/a.q.npz"],
}


def write_chain(path: Path, layers: int, *, linear: bool = False) -> None:
    """So many neurons in series, as nir itself writes them: every array in a compressed chunk of its own."""
    nodes: dict[str, Any] = {"in": nir.Input({"input": np.array([1])})}
    for k in range(layers):
        nodes[f"l{k}"] = nir.LIF(np.full(1, 1e-3), np.ones(1), np.zeros(1), np.ones(1))
        if linear and k < layers - 1:
            nodes[f"w{k}"] = nir.Linear(np.ones((1, 1)))
    nodes["out"] = nir.Output({"output": np.array([1])})
    names = list(nodes)
    nir.write(path, nir.NIRGraph(nodes, list(pairwise(names)), type_check=False))


def calls_of(arguments: list[str]) -> int:
    """How many functions a command calls, those of numpy and of C included."""
    count = 0

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        assert run(arguments) == 0
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", COMMANDS)
def test_work_grows_as_the_layers_do(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice the layers more, twice the calls more: exactly so, where no layer looks at all others."""
    np.save(tmp_path / "in.npy", np.ones((3, 1)))
    counts = []
    for layers in (20, 20, 40, 80):  # the first run imports and fills caches
        write_chain(tmp_path / "a.nir", layers)
        counts.append(calls_of([a.format(model=tmp_path / "a.nir", folder=tmp_path) for a in COMMANDS[name]]))
        capsys.readouterr()
    _, least, more, most = counts
    assert (most - more) / (more - least) < 2.1, counts


def test_each_object_of_a_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_chain(tmp_path / "a.nir", 5, linear=True)
    with h5py.File(tmp_path / "a.nir") as file:
        names: list[str] = []
        file.visit(names.append)
    opened: Counter[bytes] = Counter()
    low, scan, scans, slots = hdf5(), nir_file.scan_file, list[ScannedFile](), list[int]()
    really = low.h5o.open

    def count(group: Any, name: bytes) -> Any:
        opened[name] += 1
        found = really(group, name)
        if isinstance(found, low.h5d.DatasetID) and found.get_create_plist().get_layout() == low.h5d.CHUNKED:
            slots.append(found.get_access_plist().get_chunk_cache()[0])
        return found

    def spy(*arguments: Any) -> ScannedFile:
        scans.append(scan(*arguments))
        assert not [leaf.path for leaf in leaves(scans[0].root) if leaf.dataset is not None]  # copied, and closed
        return scans[0]

    monkeypatch.setattr(low.h5o, "open", count)
    monkeypatch.setattr(h5py, "Dataset", None)
    monkeypatch.setattr(nir_file, "scan_file", spy)
    nir_file.read_nir(tmp_path / "a.nir")
    assert len(scans) == 1
    assert len(slots) == 5 * 5 + 4 + 1 + 1
    assert max(slots) <= 1  # by default 8,191, which are 64 KiB for each open dataset
    assert opened.pop(b"/") == 1  # for the list of its members
    assert sum(opened.values()) == len(names)


def leaves(branch: Any) -> list[Any]:
    found = []
    for member in branch.members.values():
        found += leaves(member) if hasattr(member, "members") else [member]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("linear", [False, True])
def test_3000_layers_are_inspected_in_5_seconds(tmp_path: Path, *, linear: bool) -> None:
    write_chain(tmp_path / "a.nir", 3000, linear=linear)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "nirbridge", "inspect", str(tmp_path / "a.nir")], check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5
