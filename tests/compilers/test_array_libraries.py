"""Array libraries of other environments: dpnp (SYCL), CuPy, JAX and torch, whichever is there, bit for bit."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import Array
from nirbridge.errors import UsageError
from nirbridge.network.model import Network
from nirbridge.program.evaluate import ProgramEvaluator
from nirbridge.program.step import step_program
from nirbridge.simulators.reference.array_namespace import ArrayNamespace, array_namespace
from nirbridge.simulators.reference.sums import accumulate
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.emitters.oracles import ORACLES, drawn, side_by_side
from tests.program.test_whole_networks import assert_the_same
from tests.simulators.reference.test_libraries import mixed_network
from tests.stack.needs import needs
from tests.stack.trained import DIGITS

DEVICES = {"dpnp": "cpu", "cupy": "cuda", "jax": "cpu", "torch": "cpu"}
MARKS = {
    "dpnp": needs("dpnp", where="sycl"),
    "cupy": (),
    "jax": needs("jax"),
    "torch": needs("torch", "array_api_compat", where="compilers"),
}
"""``make test-sycl`` sets up dpnp; there and in the other environments an absent library is an error."""
ALL = [Probe("*", ("s", "u", "v"))]


@pytest.fixture(params=[pytest.param(name, marks=MARKS[name]) for name in DEVICES])
def space(request: pytest.FixtureRequest) -> ArrayNamespace:
    if request.param == "cupy":
        pytest.importorskip("cupy", reason="CuPy is not installed")
        runtime = importlib.import_module("cupy.cuda.runtime")
        try:
            runtime.getDeviceCount()
        except runtime.CUDARuntimeError as error:
            pytest.skip(f"CuPy finds no card: {error}")
    return array_namespace(request.param, "float32", DEVICES[request.param])


def check(network: Network, space: ArrayNamespace, record: Sequence[Probe] = ALL) -> Mapping[Any, Array]:
    """The reference on the library and the interpreter of terms on it have the bits of NumPy, which are returned."""
    rng = np.random.default_rng(7)
    x = {p.name: (rng.random((24, 3, *p.shape)) < 0.3).astype(np.float32) for p in network.inputs}
    expected = simulate(network, x, record=record, backend="numpy").recording.arrays
    options: Any = {"backend": "reference", "library": space.library, "device": DEVICES[space.library]}
    assert_the_same(dict(expected), dict(simulate(network, x, record=record, **options).recording.arrays))
    xp = space.xp
    types: Any = {"real": space.dtype, "int": xp.int32, "count": xp.int32, "bool": xp.bool}
    made = ProgramEvaluator(step_program(network), xp, types, lambda operator, kind: accumulate(operator, space))
    run = made.run({name: space.array(values) for name, values in x.items()}, made.first(3))
    assert_the_same(dict(expected), {key: space.numpy(values) for key, values in run.arrays.items()})
    assert sum(int(expected[p.name, "s"].any()) for p in network.populations if p.neuron.fires) > 0
    return expected


@pytest.mark.parametrize("make", ORACLES)
def test_the_dyadic_oracle(space: ArrayNamespace, make: Any) -> None:
    check(make(np.random.default_rng(3)), space)


def test_twenty_networks(space: ArrayNamespace) -> None:
    check(side_by_side([drawn(seed) for seed in range(20)]), space)


def test_sums_that_round_have_the_order_of_the_reference(space: ArrayNamespace) -> None:
    expected = check(mixed_network("decimal"), space)
    assert expected["b", "s"].max() == 3


@pytest.mark.parametrize("name", DIGITS)
def test_digits(space: ArrayNamespace, name: str, root: Path) -> None:
    check(nb.load(root / "examples/models" / f"{name}.nir"), space)


def test_bench_measures_the_reference_on_the_library(space: ArrayNamespace) -> None:
    name = f"reference/{space.library}"
    result = nb.bench(ORACLES[0](np.random.default_rng(3)), backends=[name], steps=8, batches=[1], repeats=1)
    assert {row.backend: row.status for row in result.rows}[name] == "equal"


@needs("dpnp", where="sycl")
@pytest.mark.parametrize("device", ["gpu:99", "nothing"])
def test_a_device_that_sycl_lacks_is_named(device: str) -> None:
    with pytest.raises(UsageError, match=f"^device '{device}': SYCL has none; for the CPU set OCL_ICD_FILENAMES="):
        array_namespace("dpnp", "float32", device)
