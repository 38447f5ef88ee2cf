"""Emitted modules in the hands of a user: training, state dicts, copies, other types and batches, hostile names."""

from __future__ import annotations

import copy
import io
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.emitters.modules.emit import NORSE, SNNTORCH, SPIKINGJELLY, TORCH, TorchOptions
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape
from nirbridge.simulators.simulate import simulate
from tests.emitters.modules.held import TIMING
from tests.emitters.modules.loaded import loaded, ran
from tests.emitters.modules.mixed import NAMES, grid

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("snntorch", reason="snntorch is not installed")
pytest.importorskip("norse", reason="norse is not installed")
pytest.importorskip("spikingjelly", reason="spikingjelly is not installed")

EMITTERS = [TORCH, SNNTORCH, NORSE, SPIKINGJELLY]
by_framework = pytest.mark.parametrize("emitter", EMITTERS, ids=lambda e: e.name)


def network(names: tuple[str, ...] = ("in", "conv", "hidden", "out"), *, each: bool = True) -> Network:
    """A convolution, a recurrent layer with drive; thresholds per neuron where ``each`` asks for them."""
    rng, (given, first, second, out) = np.random.default_rng(3), names
    kernel = Conv(grid(rng, 2, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (1, 4, 4))
    thresholds = np.array([0.5, 1.0, 0.75]) if each else 0.75
    a = Population(first, (2, 4, 4), neuron("LIF", a_mem=0.75, g_mem=0.25, theta=0.5))
    b = Population(second, (3,), neuron("LIF", a_mem=0.5, g_mem=1.0, theta=thresholds, bias=0.125))
    edges = (
        Projection(given, first, kernel),
        Projection(first, second, Chain((Reshape((2, 4, 4), (32,)), Dense(grid(rng, 3, 32)))), freeze(grid(rng, 3))),
        Projection(second, second, Dense(grid(rng, 3, 3)), delay_steps=freeze(np.int64(1)), is_back=True),
        Projection(second, out, Identity((3,))),
    )
    return Network(1e-3, TIMING, (a, b), edges, (Port(given, (1, 4, 4)),), (Port(out, (3,)),))


def spikes(batch: int = 2) -> Any:
    return (np.random.default_rng(1).random((8, batch, 1, 4, 4)) < 0.5).astype(np.float32)


def reference(x: Any) -> Any:
    (found,) = simulate(network(), {"in": x}, backend="numpy").recording.arrays.values()
    assert found.any()
    return found


@by_framework
def test_one_step_of_training_changes_every_weight(emitter: Any) -> None:
    module, x = loaded(emitter.emit(network())).train(), torch.from_numpy(spikes())
    before = {name: value.detach().clone() for name, value in module.named_parameters() if value.requires_grad}
    assert {name.rpartition(".")[2] for name in before} >= {"weight", "bias"}
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], 0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (module(x).sum(0) - 3.0).square().sum().backward()
        optimizer.step()
    changed = {name for name, value in module.named_parameters() if name in before and not value.equal(before[name])}
    assert changed == set(before)
    assert all(value.isfinite().all() for value in module.state_dict().values())


@by_framework
def test_state_dicts_and_copies_hold_everything(emitter: Any) -> None:
    program, x = emitter.emit(network()), torch.from_numpy(spikes())
    module = loaded(program)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.25)
        trained = module(x)
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        fresh = loaded(program)
        fresh.load_state_dict(torch.load(file))
        assert not loaded(program)(x).equal(trained)
        assert fresh(x).equal(trained)
        assert copy.deepcopy(module)(x).equal(trained)
        assert module(x).equal(trained)  # nothing of a run is left over


@by_framework
def test_types_and_batches(emitter: Any) -> None:
    module = loaded(emitter.emit(network()))
    for batch in (5, 1, 0):
        assert ran(module, network(), {"in": spikes(batch)})["out"].shape == (8, batch, 3)
    if emitter is not SNNTORCH:  # whose spikes are float32
        found = ran(module.double(), network(), {"in": spikes()}, np.float64)["out"]
        assert found.dtype == np.float64
        assert np.array_equal(found, reference(spikes()))


@by_framework
def test_names_of_any_kind(emitter: Any) -> None:
    for k in range(0, len(NAMES) - 3, 4):
        named = network(NAMES[k : k + 4])
        found = ran(loaded(emitter.emit(named)), named, {NAMES[k]: spikes()})[NAMES[k + 3]]
        assert np.array_equal(found, reference(spikes()))


@by_framework
def test_one_value_of_a_layer_and_no_projection(emitter: Any) -> None:
    """A population without an input, and one of shape ()."""
    plain = network(each=False)
    silent = Population("silent", (3,), neuron("LIF", a_mem=0.5, g_mem=0.5, theta=1.0))
    wired = replace(plain, populations=(*plain.populations, silent))
    more = Projection("silent", "hidden", Dense(np.ones((3, 3), np.float32)))
    wired = replace(wired, projections=(*plain.projections[:3], more, plain.projections[3]))
    x = {"in": spikes()}
    (wanted,) = simulate(wired, x, backend="numpy").recording.arrays.values()
    assert np.array_equal(ran(loaded(emitter.emit(wired)), wired, x)["out"], wanted)


@pytest.mark.parametrize(("name", "slope"), [("fast-sigmoid", 25.0), ("atan", 2.0), ("sigmoid", 25.0), ("atan", 7.0)])
def test_surrogates_are_those_of_snntorch(name: Any, slope: float) -> None:
    """Below, at and above the threshold."""
    from snntorch import surrogate

    from nirbridge.emitters.surrogates import SURROGATES

    module = loaded(TORCH.emit(network(), TorchOptions(name, slope)))
    code = sys.modules[type(module).__module__]
    assert {p.slope for p in module.modules() if isinstance(p, code.Population)} == {slope}
    u = torch.tensor([-1.5, -0.25, 0.0, 0.01, 0.3, 2.0], requires_grad=True)
    expected = getattr(surrogate, name.replace("-", "_"))(slope)(u)
    (wanted,) = torch.autograd.grad(expected.sum(), u)
    theta = torch.tensor(0.5, requires_grad=True)
    found = code.Spike.apply(((u + 0.5) > theta).float(), u + 0.5, theta, True, 1, slope)
    of_u, of_theta = torch.autograd.grad(found.sum(), (u, theta))
    assert torch.allclose(of_u, wanted, rtol=1e-5)
    assert torch.allclose(of_theta, -wanted.sum(), rtol=1e-5)
    assert SURROGATES[name].slope == (2.0 if name == "atan" else 25.0)


@pytest.mark.parametrize("slope", [0.0, -1.0, float("nan"), float("inf"), 10**400, True, "25"])
def test_slopes_that_are_none(slope: Any) -> None:
    with pytest.raises(UsageError, match=r"slope .*, a slope is a finite number above 0; --slope 25"):
        TORCH.emit(network(), TorchOptions(slope=slope))
