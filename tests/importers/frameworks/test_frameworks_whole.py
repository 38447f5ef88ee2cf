"""Complete models of Norse, sinabs, spikingjelly and rockpool through ``from_*``, compared with the models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.importers import from_norse, from_rockpool, from_sinabs, from_spikingjelly
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.simulators.simulate import simulate
from tests.packages import package
from tests.simulators.reference.frameworks import grid_weights

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn

STEPS, BATCH, SEEDS = 100, 4, range(3)
Make = Callable[[], Any]
pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's


def on_grid(module: Any, scale: float) -> Any:
    """Weights on a 2^-10 grid, with a spread that falls with the number of inputs."""
    weights = {"weight", "input_weights", "recurrent_weights", "w_rec"}
    for seed, (name, parameter) in enumerate(module.named_parameters()):
        if name.split(".")[-1] in weights and parameter.ndim > 1:
            spread = 2.45 * scale / np.sqrt(parameter[0].numel())
            parameter.data = torch.from_numpy(grid_weights(tuple(parameter.shape), spread, seed))
        elif name.endswith("bias") and parameter.ndim:
            parameter.data = torch.from_numpy(grid_weights(tuple(parameter.shape), 0.05, seed))
    return module


def check(make: Make, importer: Any, run: Callable[[Any, Any], Any], shape: tuple[int, ...], scale: float) -> None:
    """One network for all seeds, which draw inputs: the weights are the same in every module, its states are not."""
    network = from_nir(importer(on_grid(make(), scale).eval(), torch.zeros(1, *shape)))
    for seed in SEEDS:
        module = on_grid(make(), scale).eval()
        inputs = (np.random.default_rng(seed).random((STEPS, BATCH, *shape)) < 0.3).astype(np.float32)
        with torch.no_grad():
            theirs: Array = run(module, torch.from_numpy(inputs)).numpy()
        recorded = simulate(network, inputs.astype(np.uint8), backend="reference").recording.arrays
        mine = next(iter(recorded.values()))  # states that a model returns beside may be outputs too
        assert 0.01 < (theirs > 0).mean() < 0.99
        np.testing.assert_array_equal(mine.astype(np.float32), theirs)


# --- Norse ----------------------------------------------------------------------------------------------------------


def norse_steps(module: Any, inputs: Any) -> Any:
    state, out = None, []
    for x in inputs:
        y, state = module(x, state)
        out.append(y)
    return torch.stack(out)


def norse_models() -> dict[str, tuple[Make, Any, tuple[int, ...]]]:
    norse = package("norse.torch")
    from benchmarks.equivalence_models_norse import Loop, Residual

    chain = norse.SequentialState
    whole = lambda module, inputs: module(inputs)[0]  # noqa: E731
    return {
        "dense": (lambda: chain(nn.Linear(10, 12), norse.LIFCell(), nn.Linear(12, 6), norse.LIFBoxCell()),
                  norse_steps, (10,)),
        "conv": (lambda: chain(nn.Conv2d(1, 3, 3), norse.LIFBoxCell(), nn.AvgPool2d(2), nn.Flatten(),
                               nn.Linear(27, 5), norse.IAFCell()), norse_steps, (1, 8, 8)),
        "recurrent": (lambda: chain(nn.Linear(10, 8), norse.LIFRecurrentCell(8, 12), nn.Linear(12, 4),
                                    norse.LIFCell()), norse_steps, (10,)),
        "residual": (Residual, norse_steps, (12,)),
        "sequence": (lambda: chain(norse.Lift(nn.Conv2d(1, 3, 3)), norse.LIF(), nn.Flatten(2),
                                   norse.LIFRecurrent(108, 6)), whole, (1, 8, 8)),
        "lift": (lambda: chain(norse.Lift(nn.Linear(10, 8)), norse.Lift(norse.LIFBoxCell()),
                               norse.Lift(nn.Linear(8, 6)), norse.IAF()), whole, (10,)),
        "lifted chain": (lambda: norse.Lift(chain(nn.Linear(10, 8), norse.LIFCell(), nn.Linear(8, 6),
                                                  norse.LIFCell())), whole, (10,)),
        "loop": (Loop, lambda module, inputs: module(inputs), (12,)),
        "dt": (lambda: chain(nn.Linear(10, 8), norse.LIFCell(dt=5e-4)), norse_steps, (10,)),
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["dense", "conv", "recurrent", "residual", "sequence", "lift", "lifted chain", "loop", "dt"]
)
def test_norse(name: str) -> None:
    make, run, shape = norse_models()[name]
    check(make, from_norse, run, shape, 2)


def test_states_of_recurrent_cells_are_no_outputs() -> None:
    """Their states hold the spikes once more; those are not what the model gives."""
    make, _, shape = norse_models()["recurrent"]
    network = from_nir(from_norse(make(), torch.zeros(1, *shape)))
    assert [(p.name, p.shape) for p in network.outputs] == [("output", (4,))]


def test_norse_refusals_are_all_in_one_error() -> None:
    norse = package("norse.torch")
    model = norse.SequentialState(
        nn.Linear(4, 3), norse.LIFCell(dt=5e-4), norse.LIFBoxCell(), norse.LIFAdExCell(), nn.ReLU()
    )
    with pytest.raises(ModelError) as error:
        from_norse(model, torch.zeros(1, 4))
    text = str(error.value)
    assert "'2' (LIFBoxCell): it was made with dt = 0.001 s" in text
    assert "'3' (LIFAdExCell): an exponential or adaptive" in text
    assert "'4'" in text
    with pytest.raises(ModelError, match="is fed back to the input through a cache"):
        from_norse(norse.RecurrentSequential(nn.Linear(4, 4), norse.LIFCell()), torch.zeros(1, 4))


# --- sinabs ---------------------------------------------------------------------------------------------------------


def sinabs_models() -> dict[str, tuple[Make, Any, tuple[int, ...]]]:
    layers, network = package("sinabs.layers"), package("sinabs.network")

    def at_rest(module: Any) -> None:
        for layer in module.modules():
            if isinstance(layer, layers.StatefulLayer):
                layer.reset_states()

    def squeezed(module: Any, inputs: Any) -> Any:
        at_rest(module)
        return module(inputs.transpose(0, 1).flatten(0, 1)).unflatten(0, (BATCH, STEPS)).transpose(0, 1)

    def batch_first(module: Any, inputs: Any) -> Any:
        at_rest(module)
        return module(inputs.transpose(0, 1)).transpose(0, 1)

    def iaf() -> Any:
        return layers.IAFSqueeze(batch_size=BATCH)

    return {
        "dense": (lambda: nn.Sequential(nn.Linear(10, 12), layers.LIFSqueeze(batch_size=BATCH, tau_mem=10.0),
                                        nn.Linear(12, 6), iaf()), squeezed, (10,)),
        "conv": (lambda: network.Network(spiking_model=nn.Sequential(
            nn.Conv2d(1, 3, 3), iaf(), layers.SumPool2d(2), nn.Flatten(), nn.Linear(27, 5), iaf())),
            squeezed, (1, 8, 8)),
        "time": (lambda: nn.Sequential(nn.Linear(10, 12), layers.LIF(10.0, 5.0), nn.Linear(12, 6),
                                       layers.LIFRecurrent(10.0, nn.Linear(6, 6))), batch_first, (10,)),
        "repeat": (lambda: nn.Sequential(layers.Repeat(nn.Conv2d(1, 3, 3)), layers.IAF(), nn.Flatten(2),
                                         nn.Linear(108, 6), layers.IAF()), batch_first, (1, 8, 8)),
    }  # fmt: skip


@pytest.mark.parametrize(("name", "scale"), [("dense", 2), ("conv", 0.3), ("time", 2), ("repeat", 0.3)])
def test_sinabs(name: str, scale: float) -> None:
    make, run, shape = sinabs_models()[name]
    check(make, from_sinabs, run, shape, scale)


# --- spikingjelly ---------------------------------------------------------------------------------------------------


def jelly_models() -> dict[str, tuple[Make, Any, tuple[int, ...]]]:
    layer, neuron, functional = (
        package(f"spikingjelly.activation_based.{n}") for n in ("layer", "neuron", "functional")
    )

    def stepped(module: Any, inputs: Any) -> Any:
        functional.reset_net(module)
        return torch.stack([module(x) for x in inputs])

    def at_once(module: Any, inputs: Any) -> Any:
        functional.reset_net(module)
        return module(inputs)

    def conv() -> Any:
        return nn.Sequential(layer.Conv2d(1, 3, 3), layer.BatchNorm2d(3), neuron.IFNode(), layer.AvgPool2d(2),
                             layer.Flatten(), layer.Linear(27, 5), neuron.LIFNode(decay_input=False))  # fmt: skip

    def several() -> Any:
        module = conv()
        functional.set_step_mode(module, "m")
        return module

    return {
        "dense": (lambda: nn.Sequential(layer.Linear(10, 12), neuron.LIFNode(), layer.Linear(12, 6),
                                        neuron.IFNode(v_reset=None)), stepped, (10,)),
        "conv": (conv, stepped, (1, 8, 8)),
        "several steps": (several, at_once, (1, 8, 8)),
        "containers": (lambda: nn.Sequential(
            layer.SeqToANNContainer(nn.Conv2d(1, 3, 3)), neuron.IFNode(step_mode="m"),
            layer.SeqToANNContainer(nn.Flatten(), nn.Linear(108, 6)),
            neuron.IFNode(step_mode="m")), at_once, (1, 8, 8)),
        "recurrent": (lambda: nn.Sequential(
            layer.Linear(10, 12), layer.LinearRecurrentContainer(neuron.LIFNode(), 12, 12), layer.Linear(12, 6),
            layer.ElementWiseRecurrentContainer(neuron.IFNode(), lambda y, x: x + y)), stepped, (10,)),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["dense", "conv", "several steps", "containers", "recurrent"])
def test_spikingjelly(name: str) -> None:
    make, run, shape = jelly_models()[name]
    check(make, from_spikingjelly, run, shape, 1)


# --- rockpool -------------------------------------------------------------------------------------------------------


def rockpool_models() -> dict[str, Make]:
    modules, combinators = package("rockpool.nn.modules.torch"), package("rockpool.nn.combinators")

    def linear(pre: int, post: int, **options: Any) -> Any:
        return modules.LinearTorch((pre, post), weight=torch.from_numpy(grid_weights((pre, post), 0.1, 1)), **options)

    def lif(size: int, **options: Any) -> Any:
        return modules.LIFTorch(size, **options)

    feedback = torch.from_numpy(grid_weights((12, 12), 0.02, 2))
    return {
        "dense": lambda: combinators.Sequential(linear(10, 12), lif(12), linear(12, 6), modules.LIFNeuronTorch(6)),
        "recurrent": lambda: combinators.Sequential(
            linear(10, 12), lif(12, has_rec=True, w_rec=feedback), linear(12, 6), modules.LIFBitshiftTorch(6)
        ),
        "residual": lambda: combinators.Sequential(
            linear(10, 12), lif(12), combinators.Residual(linear(12, 12), lif(12)), linear(12, 6), lif(6)
        ),
    }


@pytest.mark.parametrize("name", ["dense", "recurrent", "residual"])
def test_rockpool(name: str) -> None:
    def run(module: Any, inputs: Any) -> Any:
        module.reset_state()
        return module(inputs.transpose(0, 1).contiguous())[0].transpose(0, 1)

    make = rockpool_models()[name]
    for seed in SEEDS:
        module = make()
        network = from_nir(from_rockpool(module, torch.zeros(1, 10)))
        inputs = (np.random.default_rng(seed).random((STEPS, BATCH, 10)) < 0.1).astype(np.float32)
        with torch.no_grad():
            theirs = run(module, torch.from_numpy(inputs)).numpy()
        (mine,) = simulate(network, inputs.astype(np.uint8), backend="reference").recording.arrays.values()
        assert 0.01 < (theirs > 0).mean() < 0.99
        np.testing.assert_array_equal(mine.astype(np.float32), theirs)
