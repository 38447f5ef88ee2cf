"""Spyx modules against their own spikes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import ModelError, UsageError
from nirbridge.testing import Example, check_conformance
from tests.stack.needs import needs

pytestmark = [needs("spyx", "jax"), pytest.mark.filterwarnings("ignore")]
STEPS = 100


def dyadic(module: Any, seed: int = 0) -> Any:
    """The module with kernels, biases and recurrent weights on a grid: every sum is exact in float32."""
    import jax.numpy as jnp
    from flax import nnx

    rng = np.random.default_rng(seed)
    state = nnx.state(module, nnx.Param)
    for path, leaf in state.flat_state():
        if path[-1] in ("kernel", "recurrent_w", "bias"):
            leaf.set_value(jnp.asarray(rng.integers(-120, 240, leaf.get_value().shape) / 1024, jnp.float32))
    nnx.update(module, state)
    return module


def outputs(module: Any, x: Any) -> Any:
    import jax.numpy as jnp
    import spyx

    return np.asarray(spyx.nn.run(module, jnp.asarray(x))[0])


def spikes(*shape: int) -> Any:
    return (np.random.default_rng(1).random(shape) < 0.3).astype(np.float32)


def assert_same(module: Any, x: Any, *, exact: bool = True) -> Any:
    expected = outputs(module, x)
    network = nb.load(module, sample=x[0, 0])
    given = np.moveaxis(x, -1, 2) if x.ndim == 5 else x
    found = nb.simulate(network, given)["output"]
    expected = np.moveaxis(expected, -1, 2) if expected.ndim == 5 else expected
    assert found.shape == expected.shape
    if exact:
        assert np.array_equal(found, expected)
    else:
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert expected.any()
    return network


def test_all_neurons_in_a_row_bit_for_bit() -> None:
    from flax import nnx
    from spyx import nn

    r = nnx.Rngs(0)
    module = nn.Sequential(
        *(nnx.Linear(20, 16, rngs=r), nn.IF((16,)), nnx.Linear(16, 16, use_bias=False, rngs=r)),
        *(nn.LIF((16,), beta=0.5, rngs=r), nnx.Linear(16, 16, rngs=r), nn.CuBaLIF((16,), 0.5, 0.75, rngs=r)),
        *(nn.ActivityRegularization((16,)), nnx.Linear(16, 12, rngs=r), nn.RIF((12,), rngs=r)),
        *(nnx.Linear(12, 12, rngs=r), nn.RLIF((12,), beta=0.25, rngs=r), nnx.Linear(12, 12, rngs=r)),
        *(nn.RCuBaLIF((12,), 0.25, 0.5, rngs=r), nnx.Linear(12, 9, rngs=r), nn.PSU_LIF((9,), beta=0.5, rngs=r)),
    )
    network = assert_same(dyadic(module), spikes(STEPS, 2, 20))
    assert [p.neuron.kind for p in network.populations] == ["IF", "LIF", "CubaLIF", "IF", "LIF", "CubaLIF", "LIF"]


def test_its_importer_conforms() -> None:
    from flax import nnx
    from spyx import nn

    module = nn.Sequential(nnx.Linear(6, 5, rngs=nnx.Rngs(0)), nn.LIF((5,), beta=0.5, rngs=nnx.Rngs(0)))
    check_conformance("importers", "spyx", (), example=Example(dyadic(module), np.zeros(6, np.float32)))


@pytest.mark.parametrize("name", ["LIF", "RLIF", "CuBaLIF", "RCuBaLIF", "PSU_LIF", "LI"])
def test_trained_decays_per_neuron(name: str) -> None:
    """Decays as Spyx draws them, some of them cut to 0 and 1: the same spikes, though sums are not exact."""
    import jax.numpy as jnp
    from flax import nnx
    from spyx import nn

    r = nnx.Rngs(3)
    layer = getattr(nn, name)((16,), rngs=r)
    layer.beta.set_value(jnp.asarray(np.linspace(-0.2, 1.2, 16), jnp.float32))
    module = nn.Sequential(nnx.Linear(20, 16, rngs=r), layer)
    assert_same(module, 3 * spikes(STEPS, 8, 20), exact=name != "LI")


def test_images_are_turned() -> None:
    from flax import nnx
    from spyx import nn

    r = nnx.Rngs(0)
    module = nn.Sequential(
        *(
            nnx.Conv(2, 4, (3, 3), strides=2, padding="SAME", rngs=r),
            nn.IF((5, 5, 4)),
            nn.SumPool((2, 2), (2, 2), "VALID"),
        ),
        *(nn.LIF((2, 2, 4), beta=0.5, rngs=r), nn.Flatten(), nnx.Linear(16, 6, rngs=r), nn.IF((6,))),
    )
    x = spikes(60, 2, 9, 9, 2)
    assert_same(dyadic(module), x)
    images = nn.Sequential(*module.layers[:4])
    network = assert_same(dyadic(images), x)
    assert network.inputs[0].shape == (2, 9, 9)
    assert any("channels, rows, columns" in note for note in network.notes)


def test_what_cannot_be_imported_is_named() -> None:
    from flax import nnx
    from spyx import axn, nn

    r = nnx.Rngs(0)
    soft = axn.custom(fwd=lambda x: 1 / (1 + 2.7**-x))
    module = nn.Sequential(
        *(
            nnx.Linear(4, 5, rngs=r),
            nn.LIF((5,), activation=soft, rngs=r),
            nn.IF((5,), threshold=-1),
            nn.ALIF((5,), rngs=r),
        ),
    )
    with pytest.raises(ModelError) as caught:
        nb.load(module, sample=np.zeros(4))
    text = str(caught.value)
    assert "layer '1' (LIF): its spike function is not a step at the threshold" in text
    assert "layer '2' (IF): a threshold below 0" in text
    assert "layer '3' (ALIF): a threshold that adapts to spikes" in text
    for layers, message in (
        ([nnx.Linear(3, 5, rngs=r), nn.IF((5,))], "layer '0' (Linear): it takes 3 values"),
        ([nnx.Linear(4, 5, rngs=r), nn.IF((6,))], "layer '1' (IF): its shape is (6,)"),
        ([nnx.Linear(4, 5, rngs=r), nn.IF((5,)), nnx.relu], "layer '2' (custom_jvp): it is no layer"),
        ([nnx.Linear(4, 5, rngs=r), nnx.Dropout(0.5), nn.IF((5,))], "layer '1' (Dropout): random values"),
    ):
        with pytest.raises(ModelError) as caught:
            nb.load(nn.Sequential(*layers), sample=np.zeros(4))
        assert message in str(caught.value)
    with pytest.raises(UsageError, match=r"a spyx.nn.Sequential with neurons"):
        nb.load(nn.Sequential(nnx.Linear(4, 5, rngs=r)), sample=np.zeros(4))
    with pytest.raises(UsageError, match="sample: shape"):
        nb.load(nn.Sequential(nn.Flatten(), nnx.Linear(4, 5, rngs=r), nn.IF((5,))), sample=np.zeros(4))
    with pytest.raises(ModelError, match="output: flattened images"):
        nb.load(nn.Sequential(nn.IF((2, 2, 3)), nn.Flatten()), sample=np.zeros((2, 2, 3)), framework="spyx")


def test_the_command_imports_it(tmp_path: Any) -> None:
    from nirbridge.cli.main import run

    (tmp_path / "mine.py").write_text(
        "from flax import nnx\nfrom spyx import nn\nr = nnx.Rngs(0)\n"
        "net = nn.Sequential(nnx.Linear(4, 5, rngs=r), nn.LIF((5,), beta=0.5, rngs=r))\n"
    )
    command = [
        "import",
        f"{tmp_path}/mine.py:net",
        "--sample-shape",
        "4",
        "-o",
        f"{tmp_path}/out.nir",
        "--from",
        "spyx",
    ]
    assert run(command) == 0
    assert nb.load(tmp_path / "out.nir").populations[0].neuron.kind == "LIF"
