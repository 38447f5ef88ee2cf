"""Every row of the table of docs/quantization.md, on every chip: refused by each command, or run and equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import IllegalMapping, ModelError
from nirbridge.mapping.checker import check
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Identity
from nirbridge.pipeline import MapOptions, check_fit, map_network, quantize_network, verify_network
from nirbridge.quantization import QuantizationOptions
from tests.quantization.nets import layer, lif

CHIPS = ("loihi1", "loihi2", "crossbar256")
WEIGHTS = [[0.75, -0.5, 0.375], [0.5, 0.25, -0.75]]
QUICK = MapOptions(method="sequential", effort="fast")


def cells(**options: object) -> Network:
    """A layer as a model says it: without the steps of delay that hops take."""
    made = layer(WEIGHTS, lif(**{"a_mem": 0.75, "theta": 0.5, **options}))
    none = freeze(np.int64(0))
    return replace(made, projections=tuple(replace(p, delay_steps=none) for p in made.projections))


def threshold(**options: object) -> Network:
    return cells(**{"kind": "Threshold", "a_mem": 0.0, "theta": 0.3, "reset": "none", **options})


def read_out_that_feeds() -> Network:
    base = cells(a_mem=0.5)
    read = Population("read", (2,), lif(kind="LI", theta=None, a_mem=0.5))
    out = replace(base.projections[-1], source="p")
    links = (*base.projections[:-1], Projection("p", "read", Identity((2,))), Projection("read", "p2", Identity((2,))))
    more = (read, replace(base.populations[0], name="p2"))
    return replace(base, populations=(*base.populations, *more), projections=(*links, out))


BY_NEURON = {"a_mem": np.array([0.5, 0.75]), "theta": np.array([0.5, 0.625])}
# network, what loihi1, loihi2 and crossbar256 say: None runs, else part of the refusal
ROWS: dict[str, tuple[Callable[[], Network], tuple[str | None, ...]]] = {
    "soft reset": (lambda: cells(reset="subtract"), ("a soft reset", None, None)),
    "no reset": (lambda: cells(reset="none"), ("no reset", None, None)),
    "several spikes": (
        lambda: cells(reset="subtract", max_spikes=3),
        ("up to 3 spikes", None, "up to 3 spikes"),
    ),
    "refractory 63": (lambda: cells(refractory_steps=63), (None, None, None)),
    "refractory 64": (lambda: cells(refractory_steps=64), ("a refractory time of 64", None, None)),
    "by neuron": (lambda: cells(**BY_NEURON), (None, None, None)),
    "at least, with decay": (lambda: cells(compare=">="), (None, None, None)),
    "Threshold": (threshold, (None, None, None)),
    "Threshold that subtracts": (lambda: threshold(reset="subtract"), (None, None, None)),
    "Threshold, at least": (lambda: threshold(compare=">="), (None, None, None)),
    "negative threshold": (lambda: threshold(theta=-0.5, bias=-1.0), ("a threshold below", None, None)),
    "floor": (lambda: cells(v_min=-0.25), ("membrane floor", None, "membrane floor")),
    "Threshold with a floor": (lambda: threshold(v_min=-0.5), (None, None, None)),
    "readout feeds": (read_out_that_feeds, ("membrane of a readout",) * 3),
    "current for ever": (lambda: cells(kind="CubaLIF", a_syn=1.0), ("never decays",) * 3),
    "negative decay": (lambda: cells(a_mem=-0.5), ("multiplied by -0.5",) * 3),
}
TABLE = [(row, chip) for row in ROWS for chip in CHIPS]


@pytest.mark.parametrize(("row", "name"), TABLE)
def test_every_row_of_the_page(row: str, name: str) -> None:
    make, expected = ROWS[row]
    network, chip, said = make(), read_chip(name), expected[CHIPS.index(name)]
    if said is None:
        check_fit(network, chip, QUICK)
        mapped = map_network(network, chip, QUICK)
        assert not mapped.placement_only
        found = verify_network(network, chip, steps=60, seed=3)
        assert found.holds
        assert found.recordings["fixed"].arrays["p", "s"].any()
        population = quantize_network(network, chip).population("p")
        plain = name == "loihi1" and row not in ("refractory 63", "by neuron")
        assert population.process == ("lif" if plain else "custom")
        assert name != "loihi1" or population.neuron.reset == "zero"
        return
    for stage in (check_fit, map_network, quantize_network):
        with pytest.raises(ModelError, match=said):
            stage(network, chip) if stage is quantize_network else stage(network, chip, QUICK)  # type: ignore[operator]
    placed = map_network(network, chip, replace(QUICK, placement_only=True))
    assert placed.placement_only
    with pytest.raises(IllegalMapping, match=said):
        check.check_mapping(replace(placed, placement_only=False))


@pytest.mark.parametrize("reset", ["none", "subtract", "to-value"])
def test_a_threshold_on_loihi1_is_the_reference(reset: str) -> None:
    """The weights are multiples of 1/8 and the emulated memory is below a unit: every spike is the reference's."""
    found = verify_network(threshold(reset=reset), read_chip("loihi1"), steps=200, seed=1)
    assert found.holds
    assert found.pairs[0].comparison.equal
    assert 50 < int(found.recordings["reference"].arrays["p", "s"].sum()) < 350


def test_graded_inputs_are_there_on_loihi2_only() -> None:
    options = QuantizationOptions(graded={"in": (1.0, 8)})
    quantize_network(cells(), read_chip("loihi2"), options)
    for name in ("loihi1", "crossbar256"):
        with pytest.raises(ModelError, match="graded values"):
            quantize_network(cells(), read_chip(name), options)


def lacking(**changes: object) -> Chip:
    """loihi2 without something; a decay that is too fast shows on a chip of slower ones."""
    chip = read_chip("loihi2")
    parts = {key: changes.pop(key) for key in ("neuron", "numbers", "synapses") if key in changes}
    assert not changes
    return replace(chip, **{key: replace(getattr(chip, key), **own) for key, own in parts.items()})  # type: ignore[arg-type]


ODD_CHIPS = {
    "no synaptic current": (
        lacking(neuron={"synaptic_current": False}),
        lambda: cells(kind="CubaLIF", a_syn=0.5),
        "a decaying synaptic current, neurons of chip 'loihi2' have none; choose a chip that can",
    ),
    "slow decays": (lacking(numbers={"dv_max": 1023}), lambda: cells(a_mem=0.5), "keep 0.750244 or more"),
    "slow currents": (lacking(numbers={"du_max": 255}), cells, "its current is multiplied by 0 per"),
    "wide weights": (
        lacking(synapses={"weight_bits": (8, 16), "weight_bits_default": 16}),
        cells,
        "weights of 16 bits, more than 8 bits",
    ),
    "one bit": (
        lacking(synapses={"weight_bits": (1, 8), "weight_bits_default": 1}),
        cells,
        "weights of both signs, 1 bit with both signs holds -256 and 0",
    ),
}


@pytest.mark.parametrize("name", list(ODD_CHIPS))
def test_what_other_chips_lack_is_one_notion_too(name: str) -> None:
    chip, make, said = ODD_CHIPS[name]
    for stage in (check_fit, map_network, quantize_network):
        with pytest.raises(ModelError, match=said):
            stage(make(), chip)  # type: ignore[operator]


def test_every_problem_of_every_population_is_listed() -> None:
    base = cells(reset="subtract", refractory_steps=100)
    with pytest.raises(ModelError) as caught:
        check_fit(base, read_chip("loihi1"))
    assert [p.ids["rule"] for p in caught.value.problems] == ["reset", "refractory"]


def test_widths_are_judged_as_requested() -> None:
    """1 bit with both signs is no remedy for what does not fit, and no map of it is promised."""
    with pytest.raises(ModelError, match="give 2 bits or more"):
        map_network(cells(), read_chip("loihi1"), replace(QUICK, weight_bits=1))
    map_network(cells(), read_chip("loihi1"), replace(QUICK, weight_bits=2))
