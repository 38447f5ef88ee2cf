"""Preparation of a network, part by part: notes, delays, rates, copies, options."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import Bug, Diagnostic, NirbridgeError, UsageError
from nirbridge.mapping.rates import assumed_rates
from nirbridge.network.model import Network, Projection
from nirbridge.network.operators import Identity
from nirbridge.passes import RelayProjection, ReplicateSource, Retime
from nirbridge.pipeline import MapOptions, fit
from tests.partitioner.nets import network_of
from tests.pipeline.test_retimed_maps import skip


def refused(call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(NirbridgeError) as caught:
        call(*args)
    return str(caught.value)


@pytest.mark.parametrize(("count", "more"), [(0, []), (1, []), (3, []), (4, ["and 1 more reasons"])])
def test_three_reasons_are_shown(count: int, more: list[str]) -> None:
    problems = [Diagnostic(f"p{k}", "a") for k in range(count)]
    assert fit._shown("why", problems) == [*(f"why: p{k}: a" for k in range(min(3, count))), *more]
    assert fit._shown("why", problems * 600)[3:] == ([f"and {600 * count - 3:,} more reasons"] if count else [])


def test_a_placement_is_offered_after_the_next_step() -> None:
    way_out = "give --placement-only for a placement that cannot be executed"
    assert str(fit.with_placement_hint(Diagnostic("a", "b"))) == f"a: b; {way_out}"
    assert str(fit.with_placement_hint(Diagnostic("a", "b", "c", "d"))) == f"a: b, c; d, or {way_out}"


def test_copies_have_what_their_population_has() -> None:
    assert fit._with_copies({"a": 1, "b": 2}, {"c": "a", "d": "z", "e": "a"}) == {"a": 1, "b": 2, "c": 1, "e": 1}


def edge(own: Any, late: Any = 0) -> Projection:
    delays = {"delay_steps": freeze(np.array(own)), "target_delay_steps": freeze(np.array(late))}
    return replace(Projection("a", "b", Identity((2,))), **delays)


@pytest.mark.parametrize(
    ("own", "late", "form"),
    [
        (3, 0, (3, 0)),
        (3, 2, (5, 0)),
        ([3, 3], [2, 2], (5, 0)),
        ([3, 4], [2, 2], ([5, 6], 0)),
        ([3, 3], [2, 1], (3, [2, 1])),
        (3, [], (3, [])),
    ],
)
def test_delays_that_all_targets_share_count_with_the_source(own: Any, late: Any, form: Any) -> None:
    assert fit._delays(edge(own, late)) == form


def test_a_map_sees_delays_operators_and_shapes() -> None:
    network = skip()
    first = network.projections[0]

    def with_first(**changes: Any) -> object:
        return fit._wiring(replace(network, projections=(replace(first, **changes), *network.projections[1:])))

    assert fit._wiring(network) == fit._wiring(replace(network, notes=("a",))) == with_first()
    assert fit._wiring(network) == with_first(bias=freeze(np.ones(2)))
    steps = freeze(np.array([1, 2]))
    other = copy.copy(first.operator)
    for changes in ({"delay_steps": steps}, {"target_delay_steps": steps}, {"is_back": True}, {"operator": other}):
        assert fit._wiring(network) != with_first(**changes)
    assert fit._wiring(network) != fit._wiring(replace(network, populations=network.populations[1:]))


def test_rates_of_what_retiming_put_in() -> None:
    """A relay sends what its source sends, 0 where that is not known; a neuron without inputs always fires."""
    before = skip()
    named = [replace(before.populations[0], name=name) for name in ("r", "r2", "s", "t")]
    ways = [("a", "r"), ("c", "r"), ("r", "r2"), ("?", "t")]
    after = replace(
        before,
        populations=(*before.populations, *named),
        projections=(*before.projections, *(Projection(x, y, Identity((2,))) for x, y in ways)),
    )
    given = {"a": freeze(0.25), "b": freeze(0.5)}
    found = fit.with_rates_of_added(before, after, (given, "measured"))
    assert found is not None
    assert {name: float(rate) for name, rate in found[0].items()} == {
        **{"a": 0.25, "b": 0.5},
        **{"r": 0.25, "r2": 0.25, "s": 1.0, "t": 0.0},
    }
    assert found[1] == "measured; relays send what they pass on, a neuron without inputs fires in every step"
    assert fit.with_rates_of_added(before, before, None) is None
    assert fit.with_rates_of_added(before, before, (given, "m")) == (given, "m")
    assumed = fit.with_rates_of_added(before, after, None)
    assert assumed is not None
    rates, said = assumed_rates(before)
    assert (assumed[1].startswith(said), set(assumed[0])) == (True, {*rates, "r", "r2", "s", "t"})


def test_copies_are_made_in_the_given_order_and_said() -> None:
    network = network_of("10 dense8 lif dense12 lif dense3 lif")
    first, second, _ = (p.name for p in network.populations)
    split, of = fit._split(network, {first: 2, second: 2})
    assert set(of.values()) == {first, second}
    assert {name for name, source in of.items() if source == first}.isdisjoint({p.name for p in network.populations})
    assert split.notes == tuple(
        f"population '{name}' is mapped as 2 copies, each feeding a part of its targets" for name in (first, second)
    )
    assert fit.replicate_sources(network, {}) == network


def twice(network: Network) -> Network:
    """The network with every population twice, which no network may have."""
    return replace(network, populations=network.populations * 2)


@pytest.mark.parametrize("kind", [ReplicateSource, RelayProjection, Retime])
def test_passes_of_a_stage_are_verified_as_those_on_request(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    network, chip = network_of("2x64x64 if sumpool16 flatten dense10 lif"), read_chip("loihi1")
    if kind is Retime:
        retimed = Retime.retimed
        monkeypatch.setattr(
            Retime, "retimed", lambda *args: replace(made := retimed(*args), network=twice(made.network))
        )
    else:
        monkeypatch.setattr(kind, "__call__", lambda rewrite, network: twice(network))
    few_axons = replace(chip, core=replace(chip.core, input_axons=200))
    stage: Any = {
        ReplicateSource: lambda: fit.replicate_sources(network, {network.populations[0].name: 2}),
        RelayProjection: lambda: fit.fit_to_chip(network, few_axons),
        Retime: lambda: fit.retime(network, chip),
    }[kind]
    with pytest.raises(Bug, match=f"^pass .*'{kind.pass_name}': the network that it returned has"):
        stage()


def test_an_option_of_a_few_words() -> None:
    fit._one_of("--retime", "never", ("auto", "never"))
    assert refused(fit._one_of, "--x", "c", ("a", "b")) == "--x: 'c', there are a, b; choose one of these"
    bad = MapOptions(retime="now")
    with pytest.raises(UsageError, match="^--retime: 'now', there are auto, always, never; choose one of these$"):
        fit.prepare_network(skip(), read_chip("loihi1"), bad)
