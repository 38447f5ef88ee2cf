"""Gradients of modules for JAX: those of the torch module of the same network, on 20 networks."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.emitters.jax.emit import JAX, JaxOptions
from nirbridge.emitters.modules.emit import TORCH, TorchOptions
from nirbridge.emitters.modules.frameworks.torch import TORCH as TORCH_FRAMEWORK
from nirbridge.emitters.modules.plan import PlannedSynapse
from nirbridge.emitters.modules.planning import module_plan
from nirbridge.emitters.surrogates import SURROGATES
from nirbridge.network.model import Network
from tests.emitters.modules.loaded import loaded, random_inputs
from tests.emitters.oracles import drawn
from tests.stack.needs import needs
from tests.stack.test_jax import imported

pytestmark = needs("jax", "torch")
NAMES = list(SURROGATES)
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""Of the largest gradient of an array."""
CANCELLING = {"float32": 1e-3, "float64": 1e-10}
"""Of one number for all neurons: a sum over these, samples and time steps, whose terms cancel."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(20))
def test_gradients_are_those_of_the_torch_module(seed: int, dtype: Any, tmp_path: Path) -> None:
    """Of the input, of weights and biases, and of the numbers of neurons, for a random cotangent."""
    import jax
    import torch

    network, surrogate, slope = drawn(seed), NAMES[seed % 3], (None, 5.0)[seed % 2]
    program = JAX.emit(network, JaxOptions(dtype=dtype, stablehlo=False, surrogate=surrogate, slope=slope))
    module = loaded(TORCH.emit(network, TorchOptions(surrogate, slope)), dtype=getattr(torch, dtype))
    x = random_inputs(network, seed, 24, 3)["in"].astype(dtype)
    cotangent = np.random.default_rng(seed).normal(size=(24, 3, *network.outputs[0].shape)).astype(dtype)
    with jax.enable_x64(dtype == "float64"):
        code = imported(program, tmp_path)
        of_torch, of_jax = by_torch(module, x, cotangent), by_jax(code, x, cotangent)
    pairs = dict(matching(network, module, of_torch, of_jax))
    assert set(pairs) == set(of_jax) - {key for key in of_jax if key.endswith(("_init", ".factor"))}
    for key, (found, expected) in pairs.items():
        assert found.shape == expected.shape, key
        bound = (TOLERANCE if key in ("in", *code.LEARNED) else CANCELLING)[dtype]
        assert np.abs(found - expected).max() <= bound * np.abs(expected).max(), key
    assert np.abs(of_jax["in"]).max() > 0


def test_the_example_of_the_page_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "jax.md").read_text(encoding="utf-8")
    code = page.partition("## Training")[2].partition("```python no-run\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    exec(code, {"__name__": "docs"})  # it asserts its accuracy
    monkeypatch.delitem(sys.modules, "network")


@pytest.mark.parametrize("surrogate", NAMES)
def test_stablehlo_keeps_no_derivative(surrogate: Any, tmp_path: Path) -> None:
    """A program for any surrogate lowers to the same operations."""
    import jax

    network = drawn(0)
    module = imported(JAX.emit(network, JaxOptions(stablehlo=False, surrogate=surrogate)), tmp_path / surrogate)
    weights = module.load_weights()
    x = {"in0": random_inputs(network, 0)["in"].astype(np.float32)}
    text = jax.jit(module.run).lower(weights, x, module.initial_state(weights, (2,))).as_text()
    assert "stablehlo.while" in text
    assert not {"cosh", "custom", "power", "3.14159"} & set(re.findall(r"[a-z]+|3\.14159", text))


def by_torch(module: Any, x: Array, cotangent: Array) -> dict[str, Array]:
    """Gradients by parameter, and of the input as ``in``."""
    import torch

    for parameter in module.parameters():
        parameter.requires_grad_()
    given = torch.from_numpy(x).requires_grad_()
    module(given).backward(torch.from_numpy(cotangent))
    found = {name: p.grad.numpy() for name, p in module.named_parameters() if p.grad is not None}
    assert given.grad is not None
    return {**found, "in": given.grad.numpy()}


def by_jax(module: Any, x: Array, cotangent: Array) -> dict[str, Array]:
    """Gradients of every array of real numbers by key, and of the input as ``in``."""
    import jax
    import jax.numpy as jnp

    weights = module.load_weights()
    learned = {key: a for key, a in weights.items() if jnp.issubdtype(a.dtype, jnp.floating)}
    assert set(module.LEARNED) <= set(learned)

    def run(learned: Any, given: Any) -> Any:
        chosen = {**weights, **learned}
        return module.run(chosen, {"in0": given}, module.initial_state(chosen, (3,)))[0]["out0"]

    _, back = jax.vjp(jax.jit(run), learned, jnp.asarray(x))
    grads, of_input = back(jnp.asarray(cotangent))
    return {key: np.asarray(a) for key, a in {**grads, "in": of_input}.items()}


def matching(
    network: Network, module: Any, of_torch: dict[str, Array], of_jax: dict[str, Array]
) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """Gradients by key, of JAX and of torch in JAX's layout."""
    plan = module_plan(network, TORCH_FRAMEWORK)
    yield "in", (of_jax["in"], of_torch["in"])
    for k, synapse in enumerate(plan.synapses):
        for key in (key for key in of_jax if key.split(".")[0] == f"c{k}" and not key.endswith(".factor")):
            yield key, _of_projection(key, of_jax[key], synapse, module, of_torch)
    for k, p in enumerate(plan.network.populations):
        for key, found in of_jax.items():
            owner, _, name = key.partition(".")
            if owner == f"p{k}" and not name.endswith("_init"):
                expected = of_torch[f"{plan.ids[p.name]}.{name}"]
                yield key, (found, expected if found.shape else expected.sum())


def _of_projection(
    key: str, found: Array, synapse: PlannedSynapse, module: Any, of_torch: dict[str, Array]
) -> tuple[Array, Array]:
    """Of a weight, scale or bias ``c0.weight`` or ``c0.2.weight``, whose number is that of its part."""
    _, *number, word = key.split(".")
    layer = synapse.parts[int(number[0]) if number else 0]
    if word == "scale":
        return found, of_torch[layer]
    if word == "bias":
        last = synapse.bias or f"{synapse.parts[-1]}.bias"
        expected = of_torch[last]
        return found.reshape(*expected.shape, -1).sum(-1), expected  # torch has one per channel
    expected = of_torch[f"{layer}.weight"]
    if hasattr(getattr(module, layer), "sources"):  # a list of synapses, and their sum past its end
        sources = getattr(module, layer).sources.numpy()
        padded = np.concatenate([found, np.zeros((1, found.shape[1]), found.dtype)])
        found = padded[sources, np.arange(found.shape[1])]
        return found, np.where(sources < len(padded) - 1, expected, 0)
    return (found.T if found.ndim == 2 else found), expected
