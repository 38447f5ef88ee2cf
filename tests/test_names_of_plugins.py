"""Names of nirbridge and of plugins: order, owners, places and errors, each message in full."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nirbridge import plugins as registry
from nirbridge.errors import Bug, ModelError, NirbridgeError, UsageError
from nirbridge.plugins import BUILTIN, LoadedPlugin, Plugin
from nirbridge.plugins import registry as lookup

ONE = LoadedPlugin(
    "one",
    Plugin(emitters={"z": "json:dumps", "b": "json:loads"}, passes={"p": "json:dumps"}, importers={"i": "json:loads"}),
)
TWO = LoadedPlugin("two", Plugin(emitters={"a": "json:loads", "z": "json:dumps"}, chips={"c": "x:y"}))
GONE = LoadedPlugin("gone", None, "ImportError: no")
LOST = LoadedPlugin("lost", None, "ValueError: a\nb")


def refused(call: Any, *args: Any) -> str:
    with pytest.raises(NirbridgeError) as caught:
        call(*args)
    return str(caught.value)


def test_own_names_come_first_then_those_of_plugins_in_order() -> None:
    assert registry.names("emitters", (TWO, GONE, ONE)) == (*BUILTIN.emitters, "a", "b", "z")
    assert registry.names("passes", (ONE,))[-1] == "p"
    assert registry.names("partitioners", ()) == ("sequential", "packed", "cp-sat")
    assert registry.names("simulators", ())[:1] == ("auto",)
    assert registry.names("simulators", ())[-2:] == ("fixed", "mapped")
    assert registry.names("chips", (TWO,)) == ("crossbar256", "halapoint", "loihi1", "loihi2", "c")
    assert registry.chip_names((TWO,)) == ("c", "crossbar256", "halapoint", "loihi1", "loihi2")


def test_a_kind_in_one_word() -> None:
    assert [lookup._subject(kind, "x") for kind in registry.KINDS] == [
        *("chip 'x'", "importer 'x'", "pass 'x'", "partitioner 'x'", "emitter 'x'", "simulator 'x'"),
    ]


def test_a_name_of_two_owners_names_them_and_one_of_nirbridge_too() -> None:
    both = "defined by one and by two, a name has one owner; uninstall all but one of one, two"
    assert refused(registry.get, "emitters", "z", (ONE, TWO)) == f"emitter 'z': {both}"
    own = LoadedPlugin("own", Plugin(emitters={"lava": "json:dumps"}))
    three = "defined by nirbridge and by own, a name has one owner; uninstall all but one of nirbridge, own"
    assert refused(registry.get, "emitters", "lava", (own,)) == f"emitter 'lava': {three}"
    read: Any = registry.get("importers", "i", (ONE, TWO))
    assert read("[1]") == [1]


def test_an_unknown_name_lists_the_known_ones_and_what_cannot_be_loaded() -> None:
    troubles = "plugins that cannot be loaded: gone (ImportError: no), lost (ValueError: a\\nb)"
    said = refused(registry.get, "emitters", "q", (ONE, GONE, LOST))
    known = f"emitter 'q': unknown, known emitters: {', '.join(sorted([*BUILTIN.emitters, 'b', 'z']))}"
    assert said == f"{known}; {troubles}"
    assert refused(registry.get, "emitters", "q", (ONE,)) == known
    assert refused(registry.find_chip, "q", (ONE, GONE)) == (
        "chip 'q': unknown; plugins that cannot be loaded: gone (ImportError: no)"
    )


@pytest.mark.parametrize("path", ["a.toml", "a/b", "a\\b", Path("loihi1")])
def test_a_path_is_no_name(path: Any) -> None:
    assert refused(registry.find_chip, path, (GONE,)).startswith("chip file '")
    assert "plugins" not in refused(registry.find_chip, path, (GONE,))


def test_places_that_cannot_be_imported() -> None:
    for where, found in (
        ("none:x", "'none:x' cannot be imported ('No module named \\'none\\'')"),
        ("json:none", "'json:none' cannot be imported ('module \\'json\\' has no attribute \\'none\\'')"),
    ):
        known = (LoadedPlugin("d", Plugin(passes={"p": where})),)
        assert refused(registry.get, "passes", "p", known) == f"pass 'p': {found}"


def test_what_plugins_raise() -> None:
    def call(error: Any) -> Any:
        if isinstance(error, Exception):
            raise error
        return error

    guarded = registry.guarded(call, "pass 'p' of d")
    assert guarded(3) == 3
    assert guarded.__name__ == "call"
    assert refused(guarded, ValueError("x")) == "pass 'p' of d: ValueError: x; please report it to its authors"
    for own in (ModelError.of("a", "b"), ModuleNotFoundError("m")):
        with pytest.raises(type(own)):
            guarded(own)
    assert registry.guarded(int, "t") is int
    with pytest.raises(Bug):
        guarded(KeyError("k"))


def test_what_methods_of_plugins_raise() -> None:
    class Kept:
        takes = (int,)

        def run(self, error: Any) -> Any:
            raise error

        def __call__(self, text: str) -> int:
            return int(text)

    kept = registry.guarded(Kept(), "emitter 'e' of d")
    assert kept.takes == (int,)
    assert kept("3") == 3
    said = "emitter 'e' of d: KeyError: 'k'; please report it to its authors"
    assert refused(kept.run, KeyError("k")) == said
    assert refused(kept, "x").startswith("emitter 'e' of d: ValueError: invalid literal for int()")
    with pytest.raises(ModelError):
        kept.run(ModelError.of("a", "b"))
    with pytest.raises(AttributeError):
        _ = kept.other


def test_plugins_are_sorted_by_distribution_then_trouble() -> None:
    def point(name: str, error: str) -> Any:
        def fail() -> None:
            raise ValueError(error)

        return SimpleNamespace(name=name, value="v", dist=None, load=fail)

    found = registry.installed_plugins([point("b", "2"), point("a", "3"), point("b", "1")])
    assert [(p.distribution, p.trouble) for p in found] == [
        ("a", "ValueError: 3"),
        ("b", "ValueError: 1"),
        ("b", "ValueError: 2"),
    ]
    named: Any = SimpleNamespace(name="p", value="v", dist=SimpleNamespace(name="d"), load=lambda: Plugin())
    assert registry.installed_plugins([named]) == (LoadedPlugin("d", Plugin()),)


def test_every_table_that_is_none_is_named() -> None:
    tables: Any = Plugin(chips={"a": 3}, passes={"a": "b"}, simulators=[("a", "b")])  # type: ignore[dict-item, arg-type]
    found: Any = SimpleNamespace(name="p", value="v", dist=None, load=lambda: tables)
    assert registry.installed_plugins([found])[0].trouble == (
        "its chips, simulators are not names with text such as 'module:attribute'"
    )
    assert lookup._is_table({}) is True
    assert lookup._is_table({"a": "b", "c": 1}) is False
    assert lookup._is_table({"a": "b", 1: "c"}) is False


def test_usage_errors_of_names() -> None:
    with pytest.raises(UsageError):
        registry.get("emitters", "q", ())
