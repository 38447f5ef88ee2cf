"""SNNAX modules against their own spikes."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import ModelError, UsageError
from nirbridge.testing import Example, check_conformance
from tests.stack.needs import needs

pytestmark = [needs("snnax", "jax"), pytest.mark.filterwarnings("ignore")]
# the package 0.0.1 lacks files that it imports, none of which its neurons use
for missing in ("snnax.snn.init", "snnax.functional.functional", "snnax.functional.loss"):
    sys.modules.setdefault(missing, ModuleType(missing))


def dyadic(module: Any) -> Any:
    """The module with weights and biases on a grid."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)

    def drawn(path: Any, leaf: Any) -> Any:
        if eqx.is_array(leaf) and getattr(path[-1], "name", "") in ("weight", "bias"):
            return jnp.asarray(rng.integers(-100, 300, leaf.shape) / 1024, jnp.float32)
        return leaf

    return jax.tree_util.tree_map_with_path(drawn, module)


def outputs(module: Any, x: Any, state: Any = None) -> Any:
    """``[steps, batch, ...]``: each sample by itself, as SNNAX does it."""
    import jax

    key, found = jax.random.PRNGKey(0), []
    for sample in range(x.shape[1]):
        start = module.init_state(x.shape[2:], key) if state is None else state
        found.append(np.asarray(module(start, x[:, sample], key)[1][0]))
    return np.stack(found, axis=1)


def sequential(*layers: Any, **options: Any) -> Any:
    """A chain as ``snnax.snn.Sequential`` would make it, whose constructor fails in 0.0.1."""
    from snnax.snn import GraphStructure, StatefulModel

    count = len(layers)
    chain = GraphStructure(count, [[0], *([] for _ in layers[1:])], [count - 1], [[], *([k] for k in range(count - 1))])
    return StatefulModel(chain, list(layers), **options)


def spikes(*shape: int) -> Any:
    return (np.random.default_rng(1).random(shape) < 0.4).astype(np.float32)


def assert_same(module: Any, x: Any, state: Any = None, *, exact: bool = True) -> Any:
    expected, network = outputs(module, x, state), nb.load(module, sample=x[0, 0])
    found = nb.simulate(network, x)["output"]
    assert found.shape == expected.shape
    assert np.array_equal(found, expected) if exact else np.allclose(found, expected, rtol=0, atol=1e-5)
    assert expected.any()
    return network


def linear(a: int, b: int, **options: Any) -> Any:
    import equinox as eqx
    import jax

    return eqx.nn.Linear(a, b, key=jax.random.PRNGKey(a + b), **options)


def test_its_importer_conforms() -> None:
    from snnax import snn

    module = dyadic(sequential(linear(6, 5), snn.SimpleLIF([0.5], threshold=0.25)))
    check_conformance("importers", "snnax", (), example=Example(module, np.zeros(6, np.float32)))


def test_neurons_in_a_row_bit_for_bit() -> None:
    """Dyadic decays; a stateless layer after another one, and biases before synaptic currents."""
    from snnax import snn

    module = dyadic(
        sequential(
            *(linear(12, 16), snn.SimpleLIF([0.5], threshold=0.25), linear(16, 14), linear(14, 14, use_bias=False)),
            *(snn.LIF([0.5, 0.75], threshold=0.25), linear(14, 12), snn.LIFSoftReset([0.75, 0.5], threshold=0.25)),
            *(linear(12, 8), snn.LIF([0.5, 0.5], threshold=0.125, reset_val=0.0625)),
        )
    )
    network = assert_same(module, spikes(100, 3, 12))
    assert [int(p.delay_steps) for p in network.projections] == [1, 4, 3, 3, 0]


@pytest.mark.parametrize("soft", [False, True])
def test_trained_decays(soft: bool) -> None:
    """Decays as users have them, one of each neuron or one for all: the same spikes."""
    import jax.numpy as jnp
    from snnax import snn

    layer = (snn.LIFSoftReset if soft else snn.LIF)([0.95, 0.85], threshold=0.1, shape=(16,))
    decays = jnp.asarray(np.stack([np.linspace(0.4, 1.0, 16), np.linspace(0.45, 0.99, 16)]), jnp.float32)
    object.__setattr__(layer.decay_constants, "data", decays)
    module = sequential(linear(12, 16), layer, linear(16, 9), snn.SimpleLIF([0.9], threshold=0.05, reset_val=-3.0))
    assert_same(module, 2 * spikes(100, 4, 12))


def test_images() -> None:
    import equinox as eqx
    import jax
    from snnax import snn

    key = jax.random.PRNGKey(0)
    module = sequential(
        eqx.nn.Conv2d(2, 4, 3, stride=2, padding=1, key=key),
        snn.SimpleLIF([0.5], threshold=0.25),
        eqx.nn.AvgPool2d(2, 2),
        snn.Flatten(),
        linear(16, 6),
        snn.LIF([0.5, 0.5], threshold=0.125),
    )
    assert_same(dyadic(module), spikes(60, 2, 2, 8, 8))


def test_the_last_layer_may_have_a_state_of_its_own_form() -> None:
    import jax
    import jax.numpy as jnp
    from snnax import snn

    x = spikes(80, 2, 12)
    module = dyadic(sequential(linear(12, 8), snn.IAF([0.5, 0.5], leak=0.125, threshold=0.25)))
    assert_same(module, x)
    for last, exact in ((snn.LI(0.9), False), (snn.SimpleIAF(leak=0.125, threshold=1.0, reset_val=1.0), True)):
        module = dyadic(sequential(linear(12, 8), last))
        start = module.init_state((12,), jax.random.PRNGKey(0))
        start[-1] = jnp.zeros(8)  # init_state of snnax 0.0.1 gives a list, which their call does not take
        assert_same(module, x, start, exact=exact)


def test_what_cannot_be_imported_is_named() -> None:
    import jax.numpy as jnp
    from snnax import snn
    from snnax.snn.architecture import GraphStructure, StatefulModel, delayed_forward_fn

    def start(shape: Any, key: Any, *args: Any) -> Any:
        return jnp.ones(shape)

    module = sequential(
        linear(4, 5), snn.LIF([0.9, 0.9], init_fn=start), snn.IAF([0.5, 0.5]), snn.AdaptiveLIF([0.9, 0.9])
    )
    with pytest.raises(ModelError) as caught:
        nb.load(module, sample=np.zeros(4))
    text = str(caught.value)
    assert "layer '1' (LIF): init_fn gives an initial state" in text
    assert "layer '2' (IAF): the layer after it receives its state, not its spikes" in text
    assert "layer '3' (AdaptiveLIF): an adaptation" in text
    layers = [linear(4, 5), snn.LIF([0.9, 0.9])]
    with pytest.raises(ModelError, match="a forward_fn of its own"):
        nb.load(sequential(*layers, forward_fn=delayed_forward_fn), sample=np.zeros(4))
    loop = GraphStructure(2, [[0], []], [1], [[], [0, 1]])
    with pytest.raises(ModelError, match="its layers are no chain"):
        nb.load(StatefulModel(loop, layers), sample=np.zeros(4))
    with pytest.raises(ModelError, match=r"layer '0' \(Linear\): weights of shape"):
        nb.load(sequential(*layers), sample=np.zeros(3))
    with pytest.raises(UsageError, match="with neurons"):
        nb.load(sequential(linear(4, 5)), sample=np.zeros(4))
