"""Modules of Norse and spikingjelly: the classes that hold a neuron, the same spikes, and the way back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

from benchmarks.equivalence_model import Model
from nirbridge.emitters.modules.emit import NORSE, SPIKINGJELLY
from nirbridge.emitters.modules.frameworks import norse, snntorch, spikingjelly
from nirbridge.emitters.modules.frameworks.inverse import factor_of, single_factors_of, time_constant_of
from nirbridge.errors import ModelError
from nirbridge.network.equality import network_differences
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense, Identity
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.emitters.modules.held import NEURONS, TIMING, alone, eighths, random_neuron
from tests.emitters.modules.loaded import expected, loaded, normal, ran
from tests.emitters.modules.test_snntorch import ROWS, back, case, refused

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("norse", reason="norse is not installed")
pytest.importorskip("spikingjelly", reason="spikingjelly is not installed")

EMITTERS: dict[str, Any] = {"norse": NORSE, "spikingjelly": SPIKINGJELLY}
HOLD: dict[str, Any] = {"norse": norse.NORSE.held, "spikingjelly": spikingjelly.SPIKINGJELLY.held}


def class_of(name: str, record: Neuron) -> str:
    """The class that holds a record, or why there is none."""
    try:
        text = HOLD[name](Population("p", (NEURONS,), record), 1e-3).call.text
    except ModelError as error:
        return "; ".join(problem.found for problem in error.problems)
    return text.removeprefix("starting(").removeprefix("registered(").partition("(")[0].rpartition(".")[2]


@pytest.mark.parametrize("name", EMITTERS)
def test_any_neuron_is_held_exactly_or_refused_by_name(name: str) -> None:
    """Inputs and coefficients are eighths; a potential is rounded after some time steps, a spike differs in none."""
    rng, found = np.random.default_rng(3), Counter[str]()
    for number in range(160):
        record = random_neuron(rng)
        network = alone(record)
        problems = refused(network, EMITTERS[name])
        found[class_of(name, record)] += 1
        if problems:
            assert all(problem.subject == "population 'p'" and problem.hint for problem in problems)
            continue
        artifact = EMITTERS[name].emit(network)
        module, x = loaded(artifact), eighths(np.random.default_rng(number), network)
        wanted = simulate(network, x).recording.arrays
        (key,) = wanted
        said = (number, [(f.name, getattr(record, f.name)) for f in fields(record)], artifact.files["model.py"])
        far = 0.0 if record.fires else 1e-6
        assert np.allclose(ran(module, network, x)["out"], wanted[key], rtol=0, atol=far), said
        if number % 8 == 0:
            again = back(module, network)
            (read,) = simulate(again, {again.inputs[0].name: x["in"]}).recording.arrays.values()
            assert np.allclose(read, wanted[key], rtol=0, atol=far), said
    classes = {"norse": norse._PARAMETERS, "spikingjelly": ("IFNode", "LIFNode", "KLIFNode", "CUBALIFNode")}[name]
    assert set(classes) <= set(found)


@pytest.mark.parametrize("dt", [1e-3, 1e-4, 5e-4, 3.7e-4])
def test_decays_of_norse_are_those_of_the_network(dt: float) -> None:
    """To the bit where dt times a number is the share, else to the last bit of float64."""
    for tau in np.linspace(2, 50, 97) * dt:
        share = dt / tau
        held = norse.hold(Population("p", (2,), neuron("LIF", a_mem=1 - share, g_mem=share)), dt)
        assert abs(held.neuron.g_mem - share) <= np.spacing(share)
        assert np.float32(held.neuron.a_mem) == np.float32(1 - share)
        assert held.outside.gain is None


@pytest.mark.parametrize("gain", ["share", "one"])
def test_time_constants_of_spikingjelly_are_exact(gain: str) -> None:
    for decay in (0.9, 0.95, np.exp(-0.1), 1 - 1e-4 / 3e-3, 0.5, 1 - 2.0**-20):
        record = neuron("LIF", a_mem=decay, g_mem=1 - decay if gain == "share" else 1.0, compare=">=")
        held = spikingjelly.hold(Population("p", (2,), record), 1e-3)
        assert held.call.text.startswith("neuron.LIFNode(")
        assert ("decay_input" in held.call.text) == (gain == "one")
        assert abs(held.neuron.a_mem - decay) <= (0 if gain == "one" else np.spacing(decay))


def test_a_decay_that_no_time_constant_gives_is_a_number_of_its_own() -> None:
    record = neuron("LIF", a_mem=1e-9, g_mem=1.0, compare=">=")
    assert class_of("spikingjelly", record) == "CUBALIFNode"
    assert class_of("spikingjelly", neuron("LIF", a_mem=0.0, compare=">=")) == "CUBALIFNode"


def test_inverses() -> None:
    assert factor_of(0.1, 1e-3) * 1e-3 == 0.1
    factors, products = single_factors_of(np.array([0.125, 0.1, 0.3]), 1e-3)
    assert factors.dtype == np.float32
    assert np.array_equal(np.float32(1e-3) * factors, products.astype(np.float32))
    assert np.allclose(products, [0.125, 0.1, 0.3], rtol=1e-7)
    assert time_constant_of(0.875, 0.125) == 8.0


def test_the_classes_say_what_they_cannot() -> None:
    every = {
        "up to 3 spikes per time step": {"max_spikes": 3},
        "its synaptic current does not start at 0": {"i_init": 0.5, "a_syn": 0.5},
        "its membrane does not leak": {"a_mem": 1.0, "a_syn": 0.5},
        "a membrane floor": {"v_min": 0.0},
        "its reset subtracts": {"reset": "subtract", "a_syn": 0.5},
        "it does not reset": {"reset": "none", "a_mem": 1.0},
        "its initial potential is neither v_reset nor 0": {"a_mem": 1.0, "v_init": 0.5},
        "its initial potentials differ between neurons": {"refractory_steps": 1, "v_init": [0.0, 0.25, 0.5]},
        "its constant drive is not that of a leak towards its initial potential": {"a_syn": 0.5, "v_init": 0.25},
    }
    for text, changes in every.items():
        assert class_of("norse", neuron("LIF", **{"a_mem": 0.5, "g_mem": 0.5, **changes})) == text
    every = {
        "up to 3 spikes per time step": {"max_spikes": 3},
        "a refractory time": {"refractory_steps": 1},
        "a synaptic current that does not start at 0": {"i_init": 0.5, "a_syn": 0.5},
        "initial potentials that differ between neurons": {"v_init": [0.0, 0.25, 0.5]},
        "a constant drive after its synaptic current": {"a_syn": 0.5, "bias": 0.5},
    }
    for text, changes in every.items():
        assert class_of("spikingjelly", neuron("LIF", **{"a_mem": 0.5, "g_mem": 0.5, **changes})) == text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Odd(Neuron):
    """A neuron with a field that no framework knows."""

    oddity: float = 0.0


@pytest.mark.parametrize("framework", [norse.NORSE, spikingjelly.SPIKINGJELLY, snntorch.SNNTORCH], ids=lambda f: f.name)
def test_a_new_field_of_the_neuron_is_refused_by_name(framework: Any) -> None:
    plain = neuron("LIF", a_mem=0.5, g_mem=0.5, max_spikes=3)
    values = {f.name: getattr(plain, f.name) for f in fields(plain)}
    problems = []
    for oddity in (0.0, 0.5):
        with pytest.raises(ModelError) as caught:
            framework.held(Population("p", (3,), Odd(**values, oddity=oddity)), 1e-3)
        problems.append([str(problem) for problem in caught.value.problems])
    wanted = f"population 'p': its field 'oddity', no class of {framework.name} computes it; emit --to torch, which"
    assert len(problems[0]) == 1
    assert problems[1] == [f"{wanted} holds every neuron", *problems[0]]


TIES = {("norse", "AdaptiveAvgPool2d that enlarges"): 1}
"""Outputs, of 193,600, where a potential that is 0 but for a rounding meets an input of just the threshold: Norse's sum
is rounded up."""


def same(network: Network, again: Network) -> bool:
    """Equal in every bit, but for words and for numbers that decide nothing."""
    return network_differences(normal(_without_inert(again)), normal(_without_inert(network))) == ()


def _without_inert(network: Network) -> Network:
    populations = []
    for p in network.populations:
        n = p.neuron
        zero = np.zeros(())
        inert: dict[str, Any] = {"v_reset": zero} if n.reset != "to-value" else {"reset_amount": zero}
        if not (np.any(n.a_mem) or np.any(n.refractory_steps)):  # no potential is left to reset
            inert = {"reset": "none", "reset_amount": zero, "v_reset": zero}
        populations.append(replace(p, neuron=replace(n, **inert)))
    return replace(network, populations=tuple(populations))


def moves_nothing(name: str, network: Network) -> bool:
    """True where every class computes the record itself, and no number or bias is stored in another way."""
    biases = [p.target for p in network.projections if p.bias is not None]
    for p in network.populations:
        held = HOLD[name](p, network.dt)
        outside = (held.outside.gain, held.outside.offset, held.outside.back)
        names = ("a_mem", "g_mem", "bias", "a_syn", "theta", "v_init")
        pairs = [(getattr(held.neuron, f), getattr(p.neuron, f)) for f in names]
        if held.notes or any(a is not None for a in outside) or not all(np.array_equal(a, b) for a, b in pairs):
            return False
    return len(set(biases)) == len(biases)


def out_and_back(name: str, model: Model) -> bool:
    """The module and the import of it send the spikes of the reference; False for a refusal by name."""
    network, x = case(model)
    problems = refused(network, EMITTERS[name])
    if problems:
        assert all(problem.subject and problem.limit and problem.hint for problem in problems)
        return False
    module, wanted = loaded(EMITTERS[name].emit(network)), expected(network, x)
    again = back(module, network)
    ties = TIES.get((name, model.name), 0)
    for found, apart in ((ran(module, network, x), ties), (expected(again, x), 0)):
        for port, values in found.items():
            far = 0.0 if model.kind == "spikes" else 1e-6 * float(np.ptp(wanted[port]))
            distance = np.abs(values.astype(np.float32) - wanted[port].astype(np.float32))
            assert np.count_nonzero(distance > far) == apart, port
    assert same(network, again) or not moves_nothing(name, network)
    return True


QUICK = (
    *(("norse", row) for row in ("LIFBoxCell, reset_subtract, v_leak", "LIFRefracCell, 3 steps", "RLeaky, zero, late")),
    *(("spikingjelly", row) for row in ("KLIFNode", "CUBALIFNode", "residual", "two inputs, two outputs")),
    *(("spikingjelly", row) for row in ("loop over time, returns the membrane", "IFNode, v_reset=None (subtract)")),
)


@pytest.mark.parametrize(("name", "row"), QUICK)
def test_rows_of_the_equivalence_page_out_and_back(name: str, row: str) -> None:
    assert out_and_back(name, next(model for model in ROWS if model.name == row))


@pytest.mark.slow
@pytest.mark.parametrize("name", EMITTERS)
@pytest.mark.parametrize("framework", sorted({model.framework for model in ROWS}))
def test_every_exact_row_out_and_back(name: str, framework: str) -> None:
    """All rows of a framework into its own classes, most of those with the same comparison into others."""
    rows = [model for model in ROWS if model.framework == framework]
    held = [model.name for model in rows if out_and_back(name, model)]
    assert held == [model.name for model in rows] or framework.lower() != name


def test_comparisons_and_amounts_are_the_networks_own() -> None:
    """Norse compares and spikingjelly subtracts in one way; arguments of the classes change the other of both."""
    for compare in (">", ">="):
        record = neuron("LIF", a_mem=0.875, g_mem=0.125, compare=compare, reset="subtract", reset_amount=1.5)
        network = alone(record)
        again = back(loaded(NORSE.emit(network)), network).populations[0].neuron
        assert (again.reset, float(again.reset_amount)) == ("subtract", 1.5)
        assert again.compare == ">"
        read = back(loaded(SPIKINGJELLY.emit(network)), network).populations[0].neuron
        assert (read.compare, float(read.reset_amount)) == (compare, 1.0)


@pytest.mark.parametrize("name", EMITTERS)
def test_runs_in_a_process_of_their_own(name: str) -> None:
    """Spikes of every population, as the reference records them."""
    hidden, last = (Population(p, (4,), neuron("LIF", a_mem=0.5, g_mem=0.5, theta=0.25)) for p in ("hidden", "last"))
    weight = np.eye(4, dtype=np.float32)
    edges = (
        Projection("in", "hidden", Dense(weight)),
        Projection("hidden", "last", Dense(weight)),
        Projection("last", "out", Identity((4,))),
    )
    network = Network(1e-3, TIMING, (hidden, last), edges, (Port("in", (4,)),), (Port("out", (4,)),))
    x = eighths(np.random.default_rng(0), network)["in"]
    record = [Probe("*", ("s",))]
    found = EMITTERS[name].run(EMITTERS[name].emit(network), x, record=record).arrays
    wanted = simulate(network, x, record=record).recording.arrays
    assert wanted["last", "s"].any()
    assert set(found) == set(wanted)
    assert all(np.array_equal(found[key], array) for key, array in wanted.items())
