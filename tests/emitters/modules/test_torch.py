"""Modules of PyTorch alone: all that the reference simulates, bit by bit where sums are exact, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.emitters.modules.emit import TORCH
from nirbridge.errors import ModelError, UnequalImport, UsageError
from nirbridge.importers import from_torch
from nirbridge.importers.emitted import network_of
from nirbridge.network import from_nir
from nirbridge.network.equality import network_differences
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Scale, SumPool
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from nirbridge.testing import check_conformance, networks, nir_graphs
from tests.cases import cases
from tests.emitters.modules.loaded import expected, loaded, ran, random_inputs
from tests.emitters.oracles import ORACLES, dense, lif, recurrent, whole

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


def sample(network: Network) -> Any:
    found = tuple(torch.zeros(3, 2, *p.shape) for p in network.inputs)
    return found if len(found) > 1 else found[0]


@pytest.mark.parametrize("make", ORACLES)
def test_every_bit_of_the_dyadic_oracle(make: Any) -> None:
    for seed in range(2):
        network = make(np.random.default_rng(seed))
        x = random_inputs(network, seed + 10, 24, 3)
        reference = expected(network, x)
        module = loaded(TORCH.emit(network))
        for name, values in ran(module, network, x).items():
            assert np.array_equal(values, reference[name]), name
        assert all(values.any() for values in reference.values())
        assert network_differences(network_of(loaded(TORCH.emit(network), dtype=torch.float64)), network) == ()


def test_a_pool_padded_by_more_than_half_of_its_window() -> None:
    pool = SumPool((2, 1), (2, 2), ((2, 2), (3, 3)), (2, 8, 8), 0.25)
    first = Population("a", pool.output_shape, lif())
    network = whole((first,), (Projection("in", "a", pool),), "a", pool.input_shape)
    x, module = random_inputs(network, 0), loaded(TORCH.emit(network))
    assert np.array_equal(ran(module, network, x)["out"], expected(network, x)["out"])
    assert network_differences(network_of(loaded(TORCH.emit(network), dtype=torch.float64)), network) == ()


def test_a_run_in_a_process_of_its_own_records_spikes_and_potentials() -> None:
    network = recurrent(np.random.default_rng(0))
    x = random_inputs(network, 1, 24, 3)
    record = [Probe("*", ("s", "v"))]
    reference = simulate(network, x, record=record, backend="numpy").recording.arrays
    found = TORCH.run(TORCH.emit(network), x, record=record).arrays
    assert set(found) == set(reference)
    for key, array in reference.items():
        assert found[key].dtype == array.dtype, key
        assert np.array_equal(found[key], array), key


@settings(max_examples=cases(12, 25), deadline=None, phases=PHASES)
@given(nir_graphs(max_populations=3), st.integers(0, 1000))
def test_random_networks_out_and_back(graph: Any, seed: int) -> None:
    """Weights and biases lie on a grid, and so all sums are exact in float64, of readouts alone they are not."""
    network = from_nir(graph)
    module, x = loaded(TORCH.emit(network), dtype=torch.float64), random_inputs(network, seed)
    sums = {p.name for p in network.populations if not p.neuron.fires}
    reference = expected(network, x, "float64")
    if not any(p.source in sums and p.target not in reference for p in network.projections):
        for name, values in ran(module, network, x, np.float64).items():
            assert np.allclose(values, reference[name], rtol=1e-12, atol=1e-12), name
    assert network_differences(network_of(module), network) == ()


@settings(max_examples=cases(12, 25), deadline=None, phases=PHASES)
@given(networks(max_populations=3))
def test_odd_networks_come_back_bit_for_bit(network: Network) -> None:
    assert network_differences(network_of(loaded(TORCH.emit(network), dtype=torch.float64)), network) == ()


def test_a_scale_of_values_without_axes() -> None:
    scale = Projection("in", "a", Scale(freeze(np.array(0.5))))
    network = whole((Population("a", (), lif()),), (scale,), "a", ())
    assert network_differences(network_of(loaded(TORCH.emit(network), dtype=torch.float64)), network) == ()


def test_load_reads_a_module_without_calibration_and_checks_it() -> None:
    network = recurrent(np.random.default_rng(3))
    module = loaded(TORCH.emit(network))
    graph = from_torch(module, sample(network))
    assert "identical on" in graph.metadata["nirbridge:self_check"]
    assert network_differences(nb.load(module, sample=sample(network)), network) == ()
    assert nb.load(module, sample=sample(network), dt=2e-3).dt == 2e-3


def test_another_forward_is_an_unequal_import() -> None:
    """The stated structure is not believed."""
    network = dense(np.random.default_rng(3))
    program = TORCH.emit(network)
    text = program.files["model.py"].decode()
    changed = text.replace("spk_a, state_a = self.a(cur_a, state_a)", "spk_a, state_a = self.a(cur_a * 2, state_a)")
    assert changed != text
    module = loaded(replace(program, files={**program.files, "model.py": changed.encode()}))
    with pytest.raises(UnequalImport, match="the import must compute the same"):
        from_torch(module, sample(network))


def test_a_missing_member_is_said() -> None:
    module = loaded(TORCH.emit(dense(np.random.default_rng(3))))
    del module.in_a
    with pytest.raises(ModelError, match="its members are not those that its attribute 'nirbridge' states"):
        network_of(module)


def test_training_changes_what_is_imported() -> None:
    network = dense(np.random.default_rng(1))
    module = loaded(TORCH.emit(network)).train()
    trained = [p for p in module.parameters() if p.requires_grad]
    x = torch.from_numpy(random_inputs(network, 1, 20, 8)["in"]).float()
    optimizer = torch.optim.SGD(trained, lr=0.1)
    module(x).sum().backward()
    assert all(bool(p.grad.abs().sum() > 0) for p in trained if p.grad is not None)
    assert module.in_a.weight.grad is not None
    optimizer.step()
    found = nb.load(module.eval(), sample=x)
    assert not np.array_equal(found.projections[0].operator.weight, network.projections[0].operator.weight)
    assert np.array_equal(found.projections[0].operator.weight, module.in_a.weight.detach().numpy())


def test_thresholds_and_decays_learn_where_asked() -> None:
    network = dense(np.random.default_rng(1))
    module = loaded(TORCH.emit(network))
    for name in ("theta", "a_mem"):
        getattr(module.a, name).requires_grad_()
    x = torch.from_numpy(random_inputs(network, 1, 20, 8)["in"]).float()
    module(x).sum().backward()
    assert module.a.theta.grad.item() < 0 != module.a.a_mem.grad.item()


def test_no_input_is_refused() -> None:
    network = replace(dense(np.random.default_rng(0)), inputs=(), projections=())
    with pytest.raises(ModelError, match="network: has no input"):
        TORCH.emit(network)


def test_variables_that_it_does_not_record() -> None:
    network = dense(np.random.default_rng(0))
    with pytest.raises(UsageError, match="variable u; a program records s and v"):
        TORCH.run(TORCH.emit(network), random_inputs(network, 0), record=[Probe("a", ("u",))])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch", "snntorch"])
def test_programs_keep_to_the_protocol_of_emitters(name: str) -> None:
    check_conformance("emitters", name, ())


def test_a_chip_is_refused() -> None:
    with pytest.raises(UsageError, match="emitter 'torch': given with --chip, it takes Network; leave them out"):
        nb.emit(dense(np.random.default_rng(0)), "torch", chip="loihi2")
