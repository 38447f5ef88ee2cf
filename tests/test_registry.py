"""Plugins through fake entry points; packages like tests/plugin are created in a temporary folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nirbridge import plugins as registry
from nirbridge.chips import read_chip
from nirbridge.errors import Bug, ChipError, UsageError
from nirbridge.partitioner.partition import PACKED
from nirbridge.plugins import BUILTIN, LoadedPlugin, Plugin

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "chips" / "my_chip.toml"
CHIPS, PARTITIONERS = {"my_chip": "fake_plugin:data/my_chip.toml"}, {"other": "fake_plugin:partition"}
MINE = Plugin(chips=CHIPS, partitioners=PARTITIONERS)
BROKEN = LoadedPlugin("broken-dist", None, "ImportError: no module named gone")


class Distribution(metadata.Distribution):
    """A distribution that is only a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: 1\n" if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


def entry_point(value: str, distribution: str) -> metadata.EntryPoint:
    point = metadata.EntryPoint("any", value, registry.GROUP)
    vars(point).update(dist=Distribution(distribution))
    return point


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the package ``fake_plugin`` with the given ``__init__.py``."""

    def make(source: str) -> None:
        folder = tmp_path / "fake_plugin"
        (folder / "data").mkdir(parents=True)
        (folder / "__init__.py").write_text(source)
        (folder / "data" / "my_chip.toml").write_text(EXAMPLE.read_text())
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "fake_plugin", raising=False)

    yield make  # type: ignore[misc]
    sys.modules.pop("fake_plugin", None)


GOOD = f"""
from nirbridge.plugins import Plugin
PLUGIN = Plugin(chips={CHIPS!r}, partitioners={PARTITIONERS!r})
NOT_A_PLUGIN = 3
def partition(): return "partitioned"
"""


def test_an_installed_plugin(package: Callable[[str], None]) -> None:
    package(GOOD)
    (plugin,) = registry.installed_plugins([entry_point("fake_plugin:PLUGIN", "fake-dist")])
    assert plugin == LoadedPlugin("fake-dist", MINE)
    assert registry.chip_names((plugin,)) == ("crossbar256", "halapoint", "loihi1", "loihi2", "my_chip")
    assert registry.find_chip("my_chip", (plugin,)) == read_chip(EXAMPLE)
    assert registry.get("partitioners", "other", (plugin,))() == "partitioned"


def test_the_entry_points_of_the_environment_are_used(
    package: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    package(GOOD)
    asked = []

    def entry_points(*, group: str) -> list[metadata.EntryPoint]:
        asked.append(group)
        return [entry_point("fake_plugin:PLUGIN", "fake-dist")]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    assert registry.find_chip("my_chip").name == "my_chip"
    assert asked == ["nirbridge.plugins"]


def test_entry_points_are_read_once_until_a_folder_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: asked.append(group) or [])
    monkeypatch.syspath_prepend(str(tmp_path))
    for reads, change in ((1, None), (2, 1), (3, 2), (4, "")):
        if isinstance(change, int):
            os.utime(tmp_path, ns=(change, change))
        if change == "":
            monkeypatch.syspath_prepend(str(tmp_path / "absent"))
        assert registry.installed_plugins() == registry.installed_plugins() == ()
        assert asked == [registry.GROUP] * reads


def test_built_in_names_need_no_plugin() -> None:
    assert registry.find_chip("loihi1", ()) == read_chip("loihi1")
    assert registry.get("partitioners", "packed", ()) is PACKED


def test_a_path_asks_no_plugin() -> None:
    assert registry.find_chip(str(EXAMPLE), (BROKEN,)).name == "my_chip"


def test_a_clash_names_both_distributions() -> None:
    plugins = (LoadedPlugin("first-dist", MINE), LoadedPlugin("second-dist", MINE))
    with pytest.raises(UsageError) as caught:
        registry.find_chip("my_chip", plugins)
    assert str(caught.value) == (
        "chip 'my_chip': defined by first-dist and by second-dist, a name has one owner; uninstall all but one of "
        "first-dist, second-dist"
    )
    with pytest.raises(UsageError, match="^partitioner 'other': defined by first-dist and by second-dist"):
        registry.get("partitioners", "other", plugins)
    assert registry.find_chip("loihi1", plugins).name == "loihi1"


def test_a_clash_with_a_built_in_name() -> None:
    plugins = (LoadedPlugin("some-dist", Plugin(chips={"loihi1": "x:y"}, partitioners={"packed": "x:y"})),)
    with pytest.raises(UsageError, match="^chip 'loihi1': defined by nirbridge and by some-dist"):
        registry.find_chip("loihi1", plugins)
    with pytest.raises(UsageError, match="^partitioner 'packed': defined by nirbridge and by some-dist"):
        registry.get("partitioners", "packed", plugins)
    assert registry.find_chip("loihi2", plugins).name == "loihi2"


def test_a_broken_plugin_matters_only_for_unknown_names(package: Callable[[str], None]) -> None:
    package("raise RuntimeError('half installed')")
    (broken,) = registry.installed_plugins([entry_point("fake_plugin:PLUGIN", "fake-dist")])
    assert broken == LoadedPlugin("fake-dist", None, "RuntimeError: half installed")
    assert registry.find_chip("loihi1", (broken,)).name == "loihi1"
    assert registry.chip_names((broken,)) == ("crossbar256", "halapoint", "loihi1", "loihi2")
    with pytest.raises(UsageError) as caught:
        registry.find_chip("my_chip", (broken,))
    assert str(caught.value) == (
        "chip 'my_chip': unknown; plugins that cannot be loaded: fake-dist (RuntimeError: half installed)"
    )


def test_what_is_no_plugin(package: Callable[[str], None]) -> None:
    package(GOOD)
    (loaded,) = registry.installed_plugins([entry_point("fake_plugin:NOT_A_PLUGIN", "fake-dist")])
    assert loaded == LoadedPlugin("fake-dist", None, "fake_plugin:NOT_A_PLUGIN is an int, not a nirbridge Plugin")


def test_unknown_names_without_trouble() -> None:
    with pytest.raises(
        ChipError, match=r"^chip 'my_chp': unknown, known chips: .*, my_chip; did you mean 'my_chip'\?$"
    ):
        registry.find_chip("my_chp", (LoadedPlugin("d", MINE),))
    with pytest.raises(
        UsageError,
        match=r"^partitioner 'oter': unknown, known partitioners: cp-sat, other, packed, sequential; "
        r"did you mean 'other'\?$",
    ):
        registry.get("partitioners", "oter", (LoadedPlugin("d", MINE),))


@pytest.mark.parametrize("where", ["no_such_module:x", "os.path:no_such_name", "", "os.path"])
def test_an_object_that_can_not_be_imported(where: str) -> None:
    plugins = (LoadedPlugin("d", Plugin(partitioners={"p": where})),)
    with pytest.raises(UsageError, match=r"^partitioner 'p': '.*' cannot be imported \("):
        registry.get("partitioners", "p", plugins)


def test_what_a_plugin_raises_by_mistake_is_said_to_be_its_own(package: Callable[[str], None]) -> None:
    package(GOOD.replace('return "partitioned"', "return 1 / 0"))
    (plugin,) = registry.installed_plugins([entry_point("fake_plugin:PLUGIN", "fake-dist")])
    with pytest.raises(Bug) as caught:
        registry.get("partitioners", "other", (plugin,))()
    assert str(caught.value) == (
        "partitioner 'other' of fake-dist: ZeroDivisionError: division by zero; please report it to its authors"
    )


def test_a_chip_whose_package_is_gone() -> None:
    plugins = (LoadedPlugin("d", Plugin(chips={"c": "no_such_package:c.toml"})),)
    with pytest.raises(UsageError, match=r"^chip 'c': its package 'no_such_package' cannot be imported"):
        registry.find_chip("c", plugins)


def test_a_chip_whose_file_is_gone() -> None:
    plugins = (LoadedPlugin("d", Plugin(chips={"c": "nirbridge.chips:data/gone.toml"})),)
    with pytest.raises(ChipError, match=r"^chip file '.*gone\.toml': no such file"):
        registry.find_chip("c", plugins)


@pytest.mark.parametrize("table", [3, ["x"], {"x": 3}, {3: "json:loads"}, None])
def test_a_plugin_whose_names_are_no_table_of_text_is_named_not_raised(table: Any) -> None:
    point: Any = SimpleNamespace(name="p", value="p", dist=None, load=lambda: Plugin(emitters=table))
    [found] = registry.installed_plugins([point])
    assert found.plugin is None
    assert "emitters are not names with text" in found.trouble
    known = f"emitter 'y': unknown, known emitters: {', '.join(sorted(BUILTIN.emitters))}"
    with pytest.raises(UsageError, match=f"{known}; plugins that cannot be loaded: p"):
        registry.get("emitters", "y", (found,))


@pytest.mark.parametrize("where", ["..json:x", "json:loads\n", "\ud800:x"])
def test_a_place_that_is_none_is_told_in_one_line(where: str) -> None:
    known = (LoadedPlugin("p", Plugin(emitters={"x": where})),)
    with pytest.raises(UsageError) as caught:
        registry.get("emitters", "x", known)
    assert str(caught.value).isprintable()
