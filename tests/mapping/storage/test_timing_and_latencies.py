"""Timing and latencies in a map: each value alone, and full messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nirbridge.errors import FileError
from nirbridge.mapping.storage.consistency import latency_problems, requested_timing, timing_mismatches, timing_of
from nirbridge.network.model import Timing

STORED = {"dt": 1e-3, "integrator": "euler", "reset": "to-value", "compare": ">", "if_gain": "per-second"}
OTHER = {"dt": 2e-3, "integrator": "zoh", "reset": "subtract", "compare": ">=", "if_gain": "per-step"}
CHOICES = {"integrator": "euler, zoh, exponential", "reset": "to-value, subtract, none", "compare": ">, >="}
CHOICES |= {"if_gain": "per-second, per-step"}


def record(**changed: Any) -> Any:
    return SimpleNamespace(raw={"timing": STORED | changed})


def read_as(**changed: Any) -> Any:
    return SimpleNamespace(timing=Timing(**STORED | changed))


@pytest.mark.parametrize("dt", [0, 0.0, -1e-3, float("inf"), float("nan")])
def test_a_step_is_a_finite_time_above_zero(dt: float) -> None:
    with pytest.raises(FileError) as caught:
        timing_of(record(dt=dt))
    assert [str(p) for p in caught.value.problems] == [
        f"map: timing.dt: is {dt}, expected a number of seconds above 0; map the model again"
    ]


@pytest.mark.parametrize("key", [*CHOICES])
def test_each_choice_that_is_none(key: str) -> None:
    with pytest.raises(FileError) as caught:
        timing_of(record(**{key: "x"}))
    message = f"map: timing.{key}: is 'x', expected one of {CHOICES[key]}; map the model again"
    assert [str(p) for p in caught.value.problems] == [message]


def test_every_wrong_value_at_once_and_none() -> None:
    with pytest.raises(FileError) as caught:
        timing_of(record(**dict.fromkeys(CHOICES, "x"), dt=-1))
    assert [p.subject for p in caught.value.problems] == [f"map: timing.{key}" for key in ("dt", *CHOICES)]
    assert timing_of(record()) == Timing(**STORED)
    assert timing_of(record(**OTHER)) == Timing(**OTHER)


@pytest.mark.parametrize("key", ["dt", *CHOICES])
def test_another_timing_than_the_model_was_read_with(key: str) -> None:
    (problem,) = timing_mismatches(record(**{key: OTHER[key]}), read_as())
    shown = [str(value) if key == "dt" else f"'{value}'" for value in (OTHER[key], STORED[key])]
    step = "leave out the option, or map the model again"
    assert str(problem) == f"timing.{key}: {shown[0]} in the map, {shown[1]} as the model was read; {step}"
    assert dict(problem.ids) == {"key": key}
    assert list(timing_mismatches(record(), read_as())) == []
    assert [p.ids["key"] for p in timing_mismatches(record(**OTHER), read_as())] == ["dt", *CHOICES]


@pytest.mark.parametrize("key", ["dt", *CHOICES])
def test_the_choice_of_a_map_is_asked_for_where_the_model_was_read_otherwise(key: str) -> None:
    found = requested_timing(record(**{key: OTHER[key]}), read_as(), Timing())
    assert found == Timing(**{key: OTHER[key]})
    mine = Timing(**{key: STORED[key]})
    assert requested_timing(record(**{key: OTHER[key]}), read_as(), mine) == mine
    assert requested_timing(record(), read_as(), mine) == mine
    assert requested_timing(record(), read_as(), Timing()) == Timing()


# -- latencies ----------------------------------------------------------------------------------------------------


def way(source: str, target: str, delay: int = 0, is_back: bool = False) -> Any:
    return SimpleNamespace(
        source=source, target=target, delay_steps=delay, max_delay_steps=delay, is_back=is_back
    )  # a map has the one name, a model the other


def named(text: str) -> list[Any]:
    return [SimpleNamespace(name=name) for name in text.split()]


def found(latency: dict[str, int] | None, mapped: list[Any], model: list[Any], **more: str) -> list[tuple[str, dict]]:
    """in -> a -> b -> out, with what the compiler put in between under ``relays``."""
    populations = named("a b " + more.get("relays", ""))
    stored = {"inputs": named("in"), "outputs": named("out"), "populations": populations, "projections": mapped}
    own = {"inputs": named("in"), "populations": named("a b " + more.get("own", "")), "projections": model}
    record: Any = SimpleNamespace(**stored, latency=latency)
    network: Any = SimpleNamespace(**own)
    problems = latency_problems(record, network)
    return [(str(p).removesuffix("; map the model again"), dict(p.ids)) for p in problems]


LATENCY = {"in": 0, "a": 1, "b": 3, "out": 3}
MODEL = [way("in", "a"), way("a", "b"), way("b", "out"), way("b", "a", 4)]
MAPPED = [way("in", "a"), way("a", "b", 1), way("b", "out"), way("b", "a", 2, is_back=True)]
RELAYED = [way("in", "a"), way("a", "r"), way("r", "b"), way("b", "out"), way("b", "a", 2, is_back=True)]
CIRCLE = [way("in", "a"), way("a", "b", 1), way("b", "out"), way("r", "s", 1), way("s", "r", 1), way("s", "a", 2)]


def ends(source: str, target: str) -> dict[str, str]:
    return {"source": source, "target": target}


LIMIT = "by the delays of the model and the latencies"


@pytest.mark.parametrize(
    ("latency", "mapped", "relays", "problems"),
    [
        (None, [], "", []),
        (LATENCY, MAPPED, "", []),
        (LATENCY, RELAYED, "r", []),
        (
            {"in": 0, "b": 3},
            MAPPED,
            "",
            [(f"retimed.latency of '{n}': is not in the map", {"name": n}) for n in ("a", "out")],
        ),
        (
            LATENCY | {"in": 1},
            MAPPED,
            "",
            [
                ("retimed.latency of 'in': is 1, 0 of an input", {"name": "in"}),
                (f"'in' -> 'a': a spike takes 1 time step, 0 {LIMIT}", ends("in", "a")),
            ],
        ),
        (LATENCY, MAPPED[1:], "", [(f"'in' -> 'a': there is no path, 1 {LIMIT}", ends("in", "a"))]),
        (
            LATENCY | {"b": 4, "out": 4},
            MAPPED,
            "",
            [
                (f"'a' -> 'b': a spike takes 2 time steps, 3 {LIMIT}", ends("a", "b")),
                (f"'b' -> 'a': a spike takes 2 time steps, 1 {LIMIT}", ends("b", "a")),
            ],
        ),
        (LATENCY, [*MAPPED, way("a", "b", 0), way("a", "b", 1)], "", []),
        (
            LATENCY,
            [*MAPPED, way("a", "b", 2)],
            "",
            [(f"'a' -> 'b': a spike takes 3 time steps, 2 {LIMIT}", ends("a", "b"))],
        ),
        (
            LATENCY,
            [RELAYED[0], way("a", "r", 1), *RELAYED[2:]],
            "r",
            [(f"'a' -> 'b': a spike takes 3 time steps, 2 {LIMIT}", ends("a", "b"))],
        ),
        (LATENCY, CIRCLE, "r s", [(f"'b' -> 'a': there is no path, 2 {LIMIT}", ends("b", "a"))]),
        (
            LATENCY,
            [*MAPPED[:2], way("b", "out", 1), MAPPED[3]],
            "",
            [(f"'b' -> 'out': a spike takes 1 time step, 0 {LIMIT}", ends("b", "out"))],
        ),
    ],
)
def test_the_delays_of_a_map_and_its_latencies(
    latency: dict[str, int] | None, mapped: list[Any], relays: str, problems: list[tuple[str, dict[str, str]]]
) -> None:
    full = latency if latency is None else latency | dict.fromkeys(relays.split(), 2)
    assert found(full, mapped, MODEL, relays=relays) == problems


def test_the_longest_way_of_the_model_is_the_one_that_counts() -> None:
    more = [way("a", "b", 1), way("a", "b", 0)]
    assert found(LATENCY, MAPPED, [*MODEL, *more]) == [
        (f"'a' -> 'b': a spike takes 2 time steps, 3 {LIMIT}", ends("a", "b"))
    ]
    assert found(LATENCY, MAPPED, [*MODEL, way("a", "z"), way("z", "a")], own="z") == []


def test_relays_one_after_the_other_and_a_relay_with_no_input() -> None:
    chain = [way("in", "a"), way("a", "r", 1), way("r", "s", 2), way("s", "b", 3), *RELAYED[3:]]
    latency = LATENCY | {"r": 0, "s": 0, "b": 10, "out": 10}
    own = [*MODEL[:3], way("b", "a", 11)]
    assert found(latency, chain, own, relays="r s") == []
    alone = [*MAPPED, way("r", "b", 5)]
    assert found(LATENCY | {"r": 0}, alone, MODEL, relays="r") == []
