"""Wrong arguments of every function, one at a time: each raises an error of the project that names its subject."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.api.stages import MapKeywords
from nirbridge.pipeline import network_of_shapes

JUNK: tuple[Any, ...] = (
    object(),
    None,
    True,
    -1,
    3.5,
    float("nan"),
    10**30,
    "",
    "nonsense\n",
    b"\0",
    [],
    [object()],
    {},
    {"a": object()},
    {1: 2},
    (1, "a", None),
    set(),
    print,
    int,
    np.zeros((0,)),
    np.array([object()]),
    ValueError("x"),
)


@pytest.fixture(scope="module")
def at_hand() -> dict[str, Any]:
    """Right values of the arguments that a function needs."""
    network = network_of_shapes("4 dense3 lif dense2 lif")
    x = np.zeros((4, 2, 4), np.uint8)
    run = nb.simulate(network, x)
    return {
        "model": network,
        "chip": "loihi1",
        "inputs": x,
        "passes": "eliminate-dead",
        "a": run,
        "b": run,
        "program": nb.emit(network, chip="loihi1"),
    }


def _functions() -> Iterator[str]:
    for name in vars(nb)["__all__"]:
        if inspect.isfunction(getattr(nb, name)):
            yield name


def _arguments() -> Iterator[tuple[str, str]]:
    for name in _functions():
        for parameter in inspect.signature(getattr(nb, name)).parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD:
                if parameter.name != "sample":  # read for modules only, see below
                    yield name, parameter.name
            elif name in ("map", "check_fit"):
                yield from ((name, key) for key in get_type_hints(MapKeywords))


def _right(name: str, at_hand: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Right values for all that the function needs."""
    known = {**at_hand, "value": at_hand["model"], "path": str(folder / "out.nir")}
    needed = [p.name for p in inspect.signature(getattr(nb, name)).parameters.values() if p.default is p.empty]
    return {key: known[key] for key in needed if key in known}


@pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
@pytest.mark.parametrize(("name", "argument"), list(_arguments()))
def test_junk_is_answered_in_the_form_of_the_project(
    name: str, argument: str, at_hand: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "run":
        monkeypatch.setattr("nirbridge.pipeline.emit.run_program", _no_program)
    if name == "bench":
        monkeypatch.setattr("nirbridge.pipeline.bench._measured", lambda contender, *_: contender.row("equal"))
    junks = [x for x in JUNK if argument != "progress" or not callable(x)]  # what a callback raises is its own
    refused = [error for error in (_error(name, argument, junk, at_hand, tmp_path) for junk in junks) if error]
    for error in refused:
        assert not isinstance(error, nb.errors.Bug)
        assert all(d.subject and d.found for d in error.problems)
        assert "\n" not in str(error.problems[0])
    assert len(refused) >= 3, "this argument takes nearly anything"


def _error(name: str, argument: str, junk: Any, at_hand: dict[str, Any], folder: Path) -> Any:
    """The error of the project that a wrong value gives; None: it was taken. Other exceptions go through."""
    try:
        getattr(nb, name)(**{**_right(name, at_hand, folder), argument: junk})
    except nb.errors.NirbridgeError as error:
        return error
    return None


def _no_program(*given: Any, **options: Any) -> Any:
    raise nb.errors.UsageError.of("program", "not run here")


@pytest.mark.parametrize("name", list(_functions()))
def test_unknown_and_missing_arguments_are_named(name: str) -> None:
    function: Callable[..., Any] = getattr(nb, name)
    needed = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind < 4]
    if needed:
        with pytest.raises(nb.errors.UsageError, match=f"'{needed[0]}' is missing, it takes"):
            function()
    with pytest.raises(nb.errors.UsageError):
        function(*range(40))
    if name != "load":
        parameters = inspect.signature(function).parameters
        known = next(iter(parameters))
        misspelt = next(f"{known}{end}" for end in "xy" if f"{known}{end}" not in parameters)
        with pytest.raises(nb.errors.UsageError, match=f"no argument '{misspelt}'.*did you mean '{known}'"):
            function(**{misspelt: 1})


def test_suggestions() -> None:
    network = network_of_shapes("4 dense3 lif")
    with pytest.raises(nb.errors.UsageError, match="did you mean 'traffic'"):
        nb.map(network, "loihi1", objective="trafic")  # pyright: ignore[reportArgumentType]
    with pytest.raises(nb.errors.UsageError, match="effort: 'fats', it takes 'fast', 'default', 'max'"):
        nb.map(network, "loihi1", nb.MapOptions(effort="fats"))
    with pytest.raises(nb.errors.ChipError, match="loihi2"):
        nb.map(network, "loihi22")
    with pytest.raises(nb.errors.UsageError, match="did you mean 'objective'"):
        nb.map(network, "loihi1", objectiv="cores")  # pyright: ignore[reportCallIssue]


def test_an_option_of_the_command_line_is_named_as_the_argument_that_was_given() -> None:
    network, data = network_of_shapes("4 dense3 lif"), np.zeros((2, 1, 4))
    text = "7, loihi1 stores 1, 2, 3, 4, 5, 6, 8; choose one of these"
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: nb.map(network, "loihi1", weight_bits=7), f"nirbridge.map(), weight_bits: {text}"),
        (lambda: nb.map(network, "loihi1", nb.MapOptions(weight_bits=7)), f"nirbridge.map(), weight_bits: {text}"),
        (lambda: nb.profile(network, "loihi1", data, bits=7), f"nirbridge.profile(), bits: {text}"),
        (lambda: nb.profile(network, "loihi1", data, weight_bits=7), f"nirbridge.profile(), weight_bits: {text}"),
    ]
    for call, wanted in calls:
        with pytest.raises(nb.errors.UsageError) as error:
            call()
        assert str(error.value) == wanted
    with pytest.raises(nb.errors.UsageError) as error:
        nb.map(network, "loihi1", pins={"no": (0,)})
    assert str(error.value).startswith("nirbridge.map(), pins: no population 'no'")
    (failed,) = nb.profile(network, "loihi1", data, bits=[7, 8]).failed
    assert failed.reason == f"bits: {text}"


def test_a_problem_of_no_option_stays_as_it_is() -> None:
    with pytest.raises(nb.errors.UsageError) as error:
        nb.profile(network_of_shapes("4 dense3 lif"), "loihi1", np.zeros((2, 1, 4)), samples=2)
    assert str(error.value) == "samples: 2, the data have 1; give at most 1, or leave it out"
