"""One source, many array libraries: the bit-exact oracle of the semantics text, section 7, and the order of sums."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from nirbridge.arrays import Array, freeze
from nirbridge.errors import UsageError
from nirbridge.network.graph import in_causal_order
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Sparse, SumPool
from nirbridge.simulators.simulate import Probe, simulate
from tests.simulators.reference.oracle import Slow

LIBRARIES = ("array_api_strict", "torch", "jax")
TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")


def needs(library: str) -> None:
    modules = {"torch": ("torch", "array_api_compat")}.get(library, (library,))
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} is not installed")


def mixed_network(weights: str) -> Network:
    """A conv, a pool and a dense layer, a sparse recurrent one with delays, refractory steps and several spikes.

    ``grid``: weights on 2**-10 and dt/tau = 1/8, so that every float32 sum is exact in any order; ``decimal``: ties.
    """
    rng = np.random.default_rng(5)

    def some(*shape: int) -> Array:
        whole = rng.integers(-300, 600, shape)
        return freeze(whole * 2.0**-10 if weights == "grid" else np.round(whole / 40) * 0.05)

    decay = 0.875
    conv = Conv(some(4, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 6, 6))
    flat = Chain((SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (4, 6, 6)), Reshape((4, 3, 3), (36,)), Dense(some(20, 36))))
    mask = rng.random((20, 20)) < 0.3
    rows, columns = np.nonzero(mask)
    indptr = freeze(np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=20)))))
    back = Sparse(indptr, freeze(columns), some(len(columns)), (20,), (20,))
    a = neuron("LIF", a_mem=decay, g_mem=0.125, theta=0.25, v_reset=-0.125, refractory_steps=2)
    b = neuron(
        "CubaLIF",
        a_mem=decay,
        g_mem=0.5,
        a_syn=decay,
        g_syn=0.5,
        theta=0.5,
        reset="subtract",
        max_spikes=3,
        compare=">=",
    )
    c = neuron("LI", a_mem=decay, g_mem=0.125, theta=None, bias=0.0625)
    populations = (Population("a", (4, 6, 6), a), Population("b", (20,), b), Population("c", (3,), c))
    late = freeze(rng.integers(0, 4, (4, 6, 6)), np.int64)
    two = freeze(rng.integers(0, 3, 20), np.int64)
    projections = (
        Projection("in", "a", conv),
        Projection("a", "b", flat, bias=some(20), delay_steps=late, target_delay_steps=two),
        Projection("b", "b", back, delay_steps=freeze(np.int64(2)), is_back=True),
        Projection("b", "c", Dense(some(3, 20))),
        Projection("b", "out", Identity((20,))),
        Projection("c", "read", Identity((3,))),
    )
    outputs = (Port("out", (20,)), Port("read", (3,)))
    return in_causal_order(Network(1e-3, TIMING, populations, projections, (Port("in", (2, 6, 6)),), outputs))


def spikes(steps: int = 25) -> Array:
    return np.random.default_rng(9).random((steps, 2, 2, 6, 6)) < 0.2


EVERYTHING = [Probe("*", ("s", "v", "u", "i")), Probe("b", ("count",))]


@pytest.mark.parametrize("weights", ["grid", "decimal"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_bits_of_numpy(library: str, dtype: str, weights: str) -> None:
    needs(library)
    if library == "jax" and dtype == "float64":
        pytest.skip("jax has 64 bits only where its environment says so")
    network, inputs = mixed_network(weights), spikes()
    first = simulate(network, inputs[:11], record=EVERYTHING, dtype=dtype, library=library)
    second = simulate(network, inputs[11:], record=EVERYTHING, dtype=dtype, library=library, state=first.state)
    whole = simulate(network, inputs, record=EVERYTHING, dtype=dtype, backend="reference")
    for key, wanted in whole.recording.arrays.items():
        parts = first.recording.arrays[key], second.recording.arrays[key]
        found = parts[0] + parts[1] if key[1] == "count" else np.concatenate(parts)
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted), key
    assert whole.recording.arrays["b", "s"].max() == 3
    assert 100 < whole.recording.arrays["a", "s"].sum() < whole.recording.arrays["a", "s"].size / 3


@pytest.mark.parametrize("weights", ["grid", "decimal"])
def test_numpy_gives_the_bits_of_the_slow_one(weights: str) -> None:
    network, inputs = mixed_network(weights), spikes(12)[:, 0]
    slow = Slow(network).run({"in": inputs})
    record = [Probe("*", ("s", "v", "u", "i"))]
    found = simulate(network, inputs, record=record, backend="reference").recording.arrays
    for (node, variable), values in found.items():
        assert np.array_equal(values, slow[node, variable if (node, variable) in slow else "s"]), (node, variable)


def test_on_grid_weights_float32_is_exact() -> None:
    """No sum of the oracle rounds: float64 gives the same currents, so a differing bit is never rounding."""
    network, inputs = mixed_network("grid"), spikes(6)
    narrow, wide = (
        simulate(network, inputs, record=[Probe("a", ("i",))], dtype=d).recording.arrays["a", "i"]
        for d in ("float32", "float64")
    )
    assert np.array_equal(narrow, wide)
    assert np.unique(narrow).size > 50


def test_cuda_gives_the_bits_of_numpy() -> None:
    needs("torch")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    network, inputs = mixed_network("decimal"), spikes()
    found = simulate(network, inputs, record=EVERYTHING, library="torch", device="cuda").recording.arrays
    for key, wanted in simulate(network, inputs, record=EVERYTHING).recording.arrays.items():
        assert np.array_equal(found[key], wanted), key


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"library": "numpi"},
            "^array library 'numpi': unknown, there are numpy, torch, cupy, jax, dpnp, array_api_strict",
        ),
        ({"dtype": "float16"}, r"^dtype 'float16': unknown, there are float32 and float64; did you mean 'float64'\?$"),
        ({"device": "cuda"}, "^device 'cuda': numpy runs on 'cpu'; choose torch, jax, cupy or dpnp$"),
        ({"backend": "referense"}, "^backend 'referense': unknown, there are auto, "),
    ],
)
def test_what_does_not_exist_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(mixed_network("grid"), spikes(2), **options)  # type: ignore[arg-type]


def test_a_library_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "array_api_strict", None)
    with pytest.raises(
        UsageError, match="^array library 'array_api_strict': is not installed; pip install array-api-strict$"
    ):
        simulate(mixed_network("grid"), spikes(2), library="array_api_strict")
