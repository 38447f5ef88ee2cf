"""Datasets of tonic by name: tonic itself where it is installed, else a module in its place; nothing is downloaded."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import ToolMissing, UsageError
from tests.events.test_binning import counted
from tests.events.writers import random_events, table


class Fake:
    """A dataset as tonic has them: it looks for its data in the folder, and downloads them where there are none."""

    sensor_size = (4, 3, 2)

    def __init__(self, save_to: str, train: bool = True, seed: int = 0) -> None:
        self.train, self.seed = train, seed
        if not (Path(save_to) / type(self).__name__).exists():
            self.download()

    def download(self) -> None:
        raise AssertionError("it would download")

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return table(random_events(index + 10 * self.seed, 40 + index, 4, 3, 1500)), index + (0 if self.train else 1)


class Sounds(Fake):
    sensor_size = (24, 1, 1)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        columns = np.zeros(3, [("t", "<i8"), ("x", "<i8"), ("p", "<i8")])
        columns["x"], columns["t"], columns["p"] = [23, 0, 1], [0, 150, 199], 1
        return columns, 7


@pytest.fixture
def datasets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    module = types.ModuleType("tonic.datasets")
    vars(module).update(Fake=Fake, Sounds=Sounds, helper=len)
    monkeypatch.setitem(sys.modules, "tonic", types.ModuleType("tonic"))
    monkeypatch.setitem(sys.modules, "tonic.datasets", module)
    for name in ("Fake", "Sounds"):
        (tmp_path / "data" / name).mkdir(parents=True)
    return tmp_path / "data"


def test_a_sample_by_name(datasets: Path, tiny_events: Any) -> None:
    found = nb.read_events(f"tonic:Fake?folder={datasets}&index=2&seed=1", tiny_events[0])
    expected = counted(random_events(12, 42, 4, 3, 1500), 100, (2, 3, 4))  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(found.array, expected)


def test_several_samples_with_their_classes(datasets: Path, tiny_events: Any) -> None:
    found = nb.read_events(f"tonic:Fake?folder={datasets}&index=1-3&train=false", tiny_events[0])
    assert found["labels"].tolist() == [2, 3, 4]
    array = found["input"].array
    assert array.shape[1] == 3
    for k in range(3):
        one = nb.read_events(f"tonic:Fake?folder={datasets}&index={k + 1}", tiny_events[0]).array
        np.testing.assert_array_equal(array[: len(one), k], one)
        assert not array[len(one) :, k].any()
    clipped = nb.read_events(f"tonic:Fake?folder={datasets}&index=1-3", tiny_events[0], clip=True)
    assert nb.profile(tiny_events[0], "loihi1", clipped, progress=False).points


def test_sounds_have_no_polarity(datasets: Path, tiny_events: Any) -> None:
    found = nb.read_events(f"tonic:Sounds?folder={datasets}", tiny_events[0])
    assert found.array.reshape(2, 24).nonzero()[1].tolist() == [23, 0, 1]


def test_what_is_missing_is_refused(datasets: Path, tiny_events: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny_events[0]
    cases = (
        ("tonic:Fake?folder=nowhere", "its data are not in 'nowhere', nirbridge downloads no data; download it once"),
        (f"tonic:Fake?folder={datasets}&index=5", "has 5 samples, index 5 was requested"),
        (f"tonic:Fake?folder={datasets}&index=-1", "index='-1', a number, or a range as 0-7"),
        (f"tonic:Fake?folder={datasets}&colour=red", "tonic cannot open it"),
        ("tonic:Fale", "tonic has no dataset 'Fale'; did you mean 'Fake'"),
        ("tonic:helper", "tonic has no dataset 'helper'"),
        ("tonic:__name__", "tonic has no dataset '__name__'"),
    )
    for text, says in cases:
        with pytest.raises(UsageError, match=says):
            nb.read_events(text, network)
    monkeypatch.setitem(sys.modules, "tonic.datasets", None)
    with pytest.raises(ToolMissing, match="tonic cannot be imported .*; pip install tonic"):
        nb.read_events("tonic:Fake", network)
