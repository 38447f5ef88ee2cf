"""Modules of snnTorch: the spikes of the reference, the same network when imported again, refusals by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import nirbridge as nb
from benchmarks import equivalence_models, equivalence_models_snntorch
from benchmarks.equivalence_measure import _imported
from benchmarks.equivalence_model import Model, fill, quiet, spikes
from nirbridge.arrays import freeze
from nirbridge.emitters.modules.emit import SNNTORCH, TORCH
from nirbridge.emitters.modules.frameworks.snntorch import SNNTORCH as FRAMEWORK
from nirbridge.emitters.modules.planning import module_plan
from nirbridge.errors import ModelError
from nirbridge.network import from_nir
from nirbridge.network.equality import network_differences
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.operators import Dense, Identity
from nirbridge.testing import nir_graphs
from tests.emitters.modules.loaded import expected, loaded, normal, ran, random_inputs
from tests.emitters.oracles import dense, grid, lif

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
ROWS = [m for m in equivalence_models.models() if m.is_exact and not m.is_refused]
QUICK = {"Leaky, subtract, late (the default)", "Synaptic, zero, early, alpha per neuron", "RLeaky, zero, late"}
QUICK |= {
    "two inputs, two outputs",
    "loop over time, feedback from the layer above",
    "Upsample, nearest, in front of neurons",
}


def trained(model: Model) -> Network:
    """The network of a row of the equivalence page, with the weights of its first seed."""
    with quiet(), torch.no_grad():
        torch.manual_seed(0)
        module = model.make().eval()
        fill(module, model.scale, 0, grid=True)
        return from_nir(_imported(model, module))


def back(module: Any, network: Network) -> Network:
    samples = tuple(torch.zeros(3, 2, *p.shape) for p in network.inputs)
    with quiet():
        return nb.load(module, sample=samples if len(samples) > 1 else samples[0])


def refused(network: Network, emitter: Any) -> tuple[Any, ...]:
    try:
        emitter.emit(network)
    except ModelError as error:
        return error.problems
    return ()


def held_exactly(network: Network) -> bool:
    """True where nothing was moved or rounded, and no bias joins another one."""
    plan = module_plan(network, FRAMEWORK)
    biases = [p.target for p in network.projections if p.bias is not None]
    singles = (p.neuron for p in network.populations)
    floats = all(np.array_equal(v, v.astype(np.float32)) for n in singles for v in (n.a_mem, n.a_syn))
    return floats and len(set(biases)) == len(biases) and not any(n.held.notes for n in plan.neurons)


def out_and_back(network: Network, inputs: dict[str, Any], emitter: Any) -> None:
    """The module and the network that is imported from it send what the reference sends."""
    module, reference = loaded(emitter.emit(network)), expected(network, inputs)
    found = back(module, network)
    again = expected(found, inputs)
    silent = {p.name for p in network.populations if not p.neuron.fires}
    potentials = {p.target for p in network.projections if p.source in silent}
    for name, values in ran(module, network, inputs).items():
        if name in potentials:
            span = float(np.ptp(reference[name]))
            assert np.abs(values - reference[name]).max() <= 1e-6 * span
            assert np.abs(again[name] - reference[name]).max() <= 1e-6 * span
            continue
        assert np.array_equal(values, reference[name]), name
        assert np.array_equal(again[name], reference[name]), name
    if emitter is TORCH:
        assert network_differences(found, network) == ()
    elif held_exactly(network):
        assert network_differences(normal(found), normal(network)) == ()


def case(model: Model) -> tuple[Network, dict[str, Any]]:
    network = trained(model)
    return network, {p.name: values for p, values in zip(network.inputs, spikes(model, 0), strict=True)}


@pytest.mark.parametrize("model", [m for m in ROWS if m.name in QUICK], ids=lambda m: m.name)
def test_rows_of_the_equivalence_page_out_and_back(model: Model) -> None:
    out_and_back(*case(model), SNNTORCH)


@pytest.mark.slow
@pytest.mark.parametrize("emitter", [SNNTORCH, TORCH], ids=["snntorch", "torch"])
@pytest.mark.parametrize("model", ROWS, ids=lambda m: f"{m.framework}: {m.name}")
def test_every_exact_row_out_and_back(model: Model, emitter: Any) -> None:
    network, inputs = case(model)
    refusals = refused(network, emitter)
    if not refusals:
        out_and_back(network, inputs, emitter)
        return
    assert emitter is SNNTORCH
    assert model.framework != "snnTorch"
    assert all("snntorch" in problem.limit and problem.hint for problem in refusals)


def test_every_class_of_snntorch_goes_out_as_itself() -> None:
    """The inverse of its importer: nothing is moved, but for a gain of Lapicque and resets that forget (beta of 0)."""
    rows = (*equivalence_models_snntorch.leaky_models(), *equivalence_models_snntorch.current_models())
    exact = [m for m in rows if m.is_exact and "Lapicque" not in m.name and "beta = 0" not in m.name]
    assert len(exact) > 20
    for model in exact:
        plan = module_plan(trained(model), FRAMEWORK)
        assert [n.held.notes for n in plan.neurons] == [()] * len(plan.neurons), model.name


@settings(max_examples=12, deadline=None, phases=PHASES)
@given(nir_graphs(max_populations=3), st.integers(0, 1000))
def test_random_networks_are_held_or_refused(graph: Any, seed: int) -> None:
    network = from_nir(graph)
    refusals = refused(network, SNNTORCH)
    if refusals:
        assert all(problem.limit and problem.hint for problem in refusals)
        return
    program = SNNTORCH.emit(network)
    x, reads = random_inputs(network, seed), {p.name for p in network.populations if not p.neuron.fires}
    reference = expected(network, x)
    for name, values in ran(loaded(program), network, x).items():
        if not any(p.target == name and p.source in reads for p in network.projections):
            assert np.array_equal(values, reference[name]), name


def changed(**options: Any) -> Network:
    network = dense(np.random.default_rng(0))
    populations = tuple(replace(p, neuron=lif(**options)) if p.name == "a" else p for p in network.populations)
    return replace(network, populations=populations)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"max_spikes": 3}, "3 spikes in a time step"),
        ({"v_min": -1.0}, "a membrane floor"),
        ({"a_mem": 1.5}, "a decay outside of 0 to 1"),
        ({"v_reset": -0.25}, "a reset to another value than its first potential"),
        ({"refractory_steps": 2}, "a rest of 2 time steps after a spike"),
        ({"refractory_steps": np.arange(12) % 2}, "a rest of 0 to 1 time steps after a spike"),
        ({"theta": -1.0}, "a threshold below 0 with a reset"),
        ({"a_syn": 0.5, "bias": 0.25}, "a bias after a current of its own"),
        ({"a_syn": 0.5, "i_init": 0.25}, "a current that does not start at 0"),
        ({"a_syn": 0.5, "reset": "subtract", "reset_amount": 0.5}, "a reset by another amount than threshold / decay"),
        ({"theta": None, "v_init": 1.0}, "a potential that does not start at 0"),
    ],
)
def test_refusals_by_name(options: dict[str, Any], found: str) -> None:
    with pytest.raises(ModelError) as caught:
        SNNTORCH.emit(changed(**options))
    problem = next(p for p in caught.value.problems if found in p.found)
    assert problem.subject == "population 'a'"
    assert problem.limit == "no class of snntorch computes it"
    assert problem.hint == "emit --to torch, which holds every neuron"


def test_delays_are_refused_by_name() -> None:
    network = dense(np.random.default_rng(0))
    rng, each = np.random.default_rng(1), freeze(np.arange(1, 13))
    one, two = (freeze(np.int64(n)) for n in (1, 2))
    cases = {
        "a delay of 2 time steps": Projection("a", "b", Dense(grid(rng, 5, 12)), delay_steps=two),
        "a delay of 1 time step after an input": Projection("in", "a", Dense(grid(rng, 12, 9)), delay_steps=one),
        "its synapses have different delays": Projection("a", "a", Dense(grid(rng, 12, 12)), delay_steps=each),
    }
    for found, extra in cases.items():
        with pytest.raises(ModelError, match=f"{found}, a module of snntorch reads the spikes"):
            SNNTORCH.emit(replace(network, projections=(*network.projections, extra)))


def test_a_delay_of_one_step_forward_and_two_equal_outputs() -> None:
    network = dense(np.random.default_rng(0))
    late = Projection("a", "b", Dense(grid(np.random.default_rng(5), 5, 12)), delay_steps=freeze(np.int64(1)))
    twice = Projection("b", "again", Identity((5,)))
    network = replace(
        network, projections=(*network.projections, late, twice), outputs=(*network.outputs, Port("again", (5,)))
    )
    out_and_back(network, random_inputs(network, 0, 30, 3), SNNTORCH)


@pytest.mark.parametrize(
    "options",
    [
        {"theta": 1 / 16, "compare": ">="},
        {"v_reset": -1 / 4, "v_init": -1 / 4},
        {"bias": 1 / 64},
        {"reset": "subtract", "reset_amount": 1 / 8},
        {"reset": "subtract", "reset_amount": np.arange(12) / 64, "a_mem": 0.0},
        {"refractory_steps": 1},
        {"a_syn": 0.5, "refractory_steps": 1},
        {"a_syn": 0.5},
        {"reset": "none", "v_init": 1 / 8, "theta": -1 / 4},
        {"g_mem": np.arange(1, 13) / 16},
    ],
)
def test_rewritten_neurons_on_the_dyadic_oracle(options: dict[str, Any]) -> None:
    """Exact sums: what is moved in front of a neuron changes no spike, neither in the module nor in its import."""
    network = changed(**options)
    x = random_inputs(network, 3, 24, 3)
    module, reference = loaded(SNNTORCH.emit(network)), expected(network, x)
    assert reference["out"].any()
    assert np.array_equal(ran(module, network, x)["out"], reference["out"])
    assert np.array_equal(expected(back(module, network), x)["out"], reference["out"])


def test_names_and_time_step_come_back() -> None:
    network = replace(dense(np.random.default_rng(0)), dt=3e-4)
    names = {"a": "a.1", "b": "it's 2", "in": "é", "out": "層"}
    renamed = replace(
        network,
        populations=tuple(replace(p, name=names[p.name]) for p in network.populations),
        inputs=(Port("é", network.inputs[0].shape),),
        outputs=(Port("層", network.outputs[0].shape),),
        projections=tuple(replace(p, source=names[p.source], target=names[p.target]) for p in network.projections),
    )
    found = back(loaded(SNNTORCH.emit(renamed)), renamed)
    assert [p.name for p in found.populations] == ["a.1", "it's 2"]
    assert (found.inputs[0].name, found.outputs[0].name, found.dt) == ("é", "層", 3e-4)


def test_a_module_trains() -> None:
    network = dense(np.random.default_rng(1))
    module = loaded(SNNTORCH.emit(network)).train()
    x = torch.from_numpy(random_inputs(network, 1, 20, 8)["in"]).float()
    module(x).sum().backward()
    assert all(bool(p.grad.abs().sum() > 0) for p in module.parameters())


def test_the_same_network_gives_the_same_bytes() -> None:
    network = dense(np.random.default_rng(1))
    assert SNNTORCH.emit(network).digest == SNNTORCH.emit(network).digest
