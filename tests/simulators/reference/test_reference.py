"""The reference simulator against a slow scalar one, divided runs, and the three published traces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import Array, freeze
from nirbridge.network.graph import in_causal_order
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.passes.relay_pools import RelayPools
from nirbridge.pipeline import load_network
from nirbridge.simulators.simulate import Probe, simulate
from nirbridge.testing import networks
from tests.cases import cases
from tests.simulators.reference.oracle import Slow

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
BACKEND = st.sampled_from(["reference", "auto"])
EVERYTHING = [Probe("*", ("s", "v", "u", "i"))]


def decimal(rng: np.random.Generator, *shape: int) -> Array:
    """Multiples of 0.05, which float32 does not hold exactly: ties everywhere, so that the order of a sum shows."""
    return freeze(rng.integers(-8, 13, size=shape) * 0.05)


def one_layer(operator: Operator, **options: object) -> Network:
    settings = {"a_mem": 0.9, "theta": 0.5, "reset": "subtract", **options}
    source, shape = Port("in", operator.input_shape), operator.output_shape
    layer = Population("layer", shape, neuron("LIF", **settings))
    out = Port("out", shape)
    from nirbridge.network.operators import Identity

    wires = (Projection("in", "layer", operator), Projection("layer", "out", Identity(shape)))
    return Network(1e-3, TIMING, (layer,), wires, (source,), (out,))


def spikes(rng: np.random.Generator, network: Network, steps: int, *, graded: bool) -> dict[str, Array]:
    out = {}
    for port in network.inputs:
        some = rng.random((steps, *port.shape)) < 0.4
        out[port.name] = some * rng.integers(-3, 6, some.shape) * 0.3 if graded else some
    return out


def assert_same_bits(
    network: Network, inputs: dict[str, Array], dtype: str, backends: tuple[str, ...] = ("reference",)
) -> int:
    """The slow simulator and these backends give the same; returns the number of spikes."""
    network = in_causal_order(network)
    with np.errstate(all="ignore"):
        slow = Slow(network, getattr(np, dtype)).run(inputs)
    found: Mapping[tuple[str, str], Array] = {}
    for backend in backends:
        found = simulate(network, inputs, record=EVERYTHING, dtype=dtype, backend=backend).recording.arrays
        assert {n for n, _ in found} == {n.name for n in (*network.populations, *network.outputs)}
        for (node, variable), values in found.items():
            wanted = slow[node, "s" if node in {p.name for p in network.outputs} else variable]
            assert np.array_equal(values, wanted), (backend, node, variable)
    return sum(int(v.sum()) for (_, variable), v in found.items() if variable == "s" and v.dtype.kind == "u")


OPERATORS = ("dense", "sparse", "conv", "conv grouped", "conv 1d", "pool", "scale", "chain")


def operator_of(kind: str, rng: np.random.Generator) -> Operator:
    if kind == "dense":
        return Dense(decimal(rng, 23, 40))
    if kind == "sparse":
        weight = decimal(rng, 23, 40) * (rng.random((23, 40)) < 0.5)
        rows, columns = np.nonzero(weight)
        indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=23))))
        return Sparse(freeze(indptr), freeze(columns), freeze(weight[rows, columns]), (5, 8), (23,))
    if kind == "conv":
        return Conv(decimal(rng, 5, 3, 3, 2), (2, 1), ((1, 0), (0, 2)), (1, 2), 1, (3, 6, 5))
    if kind == "conv grouped":
        return Conv(decimal(rng, 6, 2, 2, 3), (1, 1), ((0, 1), (1, 1)), (1, 1), 2, (4, 4, 5))
    if kind == "conv 1d":
        return Conv(decimal(rng, 4, 3, 4), (2,), ((3, 1),), (2,), 1, (3, 12))
    if kind == "pool":
        return SumPool((2, 3), (2, 2), ((0, 1), (1, 1)), (3, 5, 6), 1 / 6)
    if kind == "scale":
        return Scale(decimal(rng, 3, 4))
    conv = operator_of("conv", rng)
    pool = SumPool((2, 2), (1, 1), ((0, 0), (0, 0)), conv.output_shape, 0.3)
    size = int(np.prod(pool.output_shape))
    return Chain((conv, pool, Reshape(pool.output_shape, (size,)), Dense(decimal(rng, 7, size))))


@pytest.mark.parametrize("graded", [False, True], ids=["spikes", "graded"])
@pytest.mark.parametrize("kind", OPERATORS)
def test_sums_have_the_order_of_the_meaning_on_decimal_weights(kind: str, graded: bool) -> None:
    rng = np.random.default_rng(OPERATORS.index(kind))
    network = one_layer(operator_of(kind, rng))
    sent = assert_same_bits(network, spikes(rng, network, 12, graded=graded), "float32", ("reference", "auto"))
    assert sent > (0 if graded else 10)


def test_blas_would_fail_the_order_test() -> None:
    """The weights of the order test can tell orders apart: numpy's own product differs on them."""
    rng = np.random.default_rng(3)
    weight = np.asarray(decimal(rng, 200, 784), np.float32)
    x = (rng.random((64, 784)) < 0.4).astype(np.float32)
    slow = np.zeros((64, 200), np.float32)
    for source in range(784):
        slow += x[:, source, None] * weight[:, source]
    assert (x @ weight.T != slow).mean() > 0.05


@settings(max_examples=cases(20, 60))
@given(networks(), st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]), st.booleans())
def test_random_networks_agree_with_the_slow_one_bit_for_bit(
    network: Network, seed: int, dtype: str, graded: bool
) -> None:
    rng = np.random.default_rng(seed)
    assert_same_bits(network, spikes(rng, network, 8, graded=graded), dtype)


@settings(max_examples=cases(20, 50))
@given(
    networks(),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.integers(1, 3),
    BACKEND,
)
def test_a_cut_run_is_the_whole_run(network: Network, seed: int, pieces: list[int], every: int, backend: str) -> None:
    rng = np.random.default_rng(seed)
    steps = sum(pieces)
    inputs = {p.name: rng.integers(0, 3, (steps, 2, *p.shape)) for p in network.inputs}
    record = [Probe("*", ("s", "v", "u", "i"), every)]
    whole = simulate(network, inputs, record=record, backend=backend)
    state, parts, start = None, [], 0
    for length in pieces:
        now = {name: values[start : start + length] for name, values in inputs.items()}
        result = simulate(network, now, record=record, state=state, backend=backend)
        state, start = result.state, start + length
        parts.append(result.recording.arrays)
    for key, values in whole.recording.arrays.items():
        joined = np.concatenate([part[key] for part in parts])
        # an input that happens to be all 0 or 1 in a piece is stored in bytes there
        assert np.array_equal(joined.astype(values.dtype), values), key
    assert state is not None
    assert state.step == whole.state.step == steps
    assert state.arrays.keys() == whole.state.arrays.keys()
    for key, values in whole.state.arrays.items():
        assert values.tobytes() == state.arrays[key].tobytes(), key


@settings(max_examples=cases(12, 25))
@given(networks(), st.integers(0, 2**32 - 1))
def test_a_batch_is_its_samples(network: Network, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = {p.name: rng.random((7, 3, *p.shape)) < 0.5 for p in network.inputs}
    record = [Probe("*", ("s", "v", "i")), Probe("*", ("count",))]
    together = simulate(network, inputs, record=record).recording.arrays
    for sample in range(3):
        alone = {name: values[:, sample] for name, values in inputs.items()}
        for key, values in simulate(network, alone, record=record).recording.arrays.items():
            expected = together[key][sample] if key[1] == "count" else together[key][:, sample]
            assert np.array_equal(values, expected), key


@pytest.mark.parametrize(
    ("platform", "integrator", "late", "residual"),
    [("norse", "euler", 0, 1e-6), ("nengo", "zoh", 0, 1e-6), ("lava_cpu_float", "euler", 1, 1e-6)],
)
def test_published_traces_of_one_neuron(
    shared_data: Path, platform: str, integrator: str, late: int, residual: float
) -> None:
    folder = shared_data / "nir_paper" / "01_lif"
    network = load_network(folder / "lif_norse.nir", Timing(integrator=integrator))  # type: ignore[arg-type]
    current, voltage, spike = np.loadtxt(folder / f"lif_{platform}.csv", delimiter=",").T
    (population,) = network.populations
    arrays = simulate(network, current[:, None], record=[Probe(population.name, ("s", "v"))]).recording.arrays
    rest = np.zeros(late)
    shifted = {name: np.concatenate([rest, arrays[population.name, name][: 1000 - late, 0]]) for name in ("s", "v")}
    v = shifted["v"].astype(np.float64)
    scale = (v @ voltage) / (v @ v)
    assert np.abs(scale * v - voltage).max() < residual * np.abs(voltage).max()
    assert np.array_equal(shifted["s"], spike)
    assert spike.sum() == 4


def test_relays_that_send_counts_change_nothing() -> None:
    rng = np.random.default_rng(8)
    pool = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (3, 6, 6))
    network = one_layer(Chain((pool, Reshape((3, 3, 3), (27,)), Dense(decimal(rng, 9, 27)))))
    relayed = RelayPools(graded_spikes=True)(network)
    assert len(relayed.populations) == 2
    inputs = spikes(rng, network, 30, graded=False)
    record = [Probe("layer", ("s", "v", "i"))]
    found, wanted = (simulate(n, inputs, record=record).recording.arrays for n in (relayed, network))
    assert wanted["layer", "s"].sum() > 20
    for key, values in wanted.items():
        assert np.array_equal(found[key], values), key
