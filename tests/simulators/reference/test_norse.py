"""Norse 1.1.0 compared with the simulator: same weights, same inputs, 64 neurons x 2000 time steps.

Norse writes v + dt / tau * (v_leak - v + x) where the simulator writes a v + g x + b: equal numbers, rounded
elsewhere. So spikes are compared in float32, where they must be identical, and voltages also in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.network.model import Network
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.packages import package
from tests.simulators.reference.frameworks import (
    NAME,
    NEURONS,
    PRE,
    array,
    dense,
    feedback,
    grid_weights,
    network_of,
    norse_record,
    ordered_currents,
    random_spikes,
    random_weights,
    run_norse,
)

torch = pytest.importorskip("torch", reason="torch is not installed")
norse = package("norse.torch")

VOLTS = {"float32": 2e-6, "float64": 1e-14}
DT = 2.0**-10


def ours(network: Network, inputs: Array, dtype: str = "float32", spiking: bool = True) -> tuple[Array, Array]:
    wanted = ("s", "v") if spiking else ("v",)
    run = simulate(network, inputs, record=[Probe(NAME, wanted)], dtype=dtype, backend="reference")  # type: ignore[arg-type]
    arrays = run.recording.arrays
    return arrays.get((NAME, "s"), np.empty(0)), arrays[NAME, "v"]


def is_lively(spikes: Array) -> bool:
    return spikes.shape == (2000, NEURONS) and 0.01 < spikes.mean() < 0.9


def number(value: float) -> Any:
    return torch.as_tensor(value)


def parameters(kind: str, **values: float) -> Any:
    return getattr(norse, kind)(**{name: number(value) for name, value in values.items()})


def driven(module: Any, weight: Array, dtype: str, spiking: bool = True) -> tuple[tuple[Array, Array], ...]:
    spikes = random_spikes(4)
    currents = ordered_currents(spikes, weight).astype(dtype)
    network = network_of(norse_record(module), dense(weight))
    return run_norse(module, currents), ours(network, spikes, dtype, spiking)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("leak", [0.0, -0.25])
def test_lif_box_cell(dtype: str, leak: float) -> None:
    p = parameters("LIFBoxParameters", tau_mem_inv=128.0, v_leak=leak, v_th=0.5, v_reset=leak / 2)
    (s, v), (k, ours_v) = driven(norse.LIFBoxCell(p, dt=DT), grid_weights((NEURONS, PRE), 0.3, 1), dtype)
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    np.testing.assert_allclose(ours_v, v, rtol=0, atol=VOLTS[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("leak", [0.0, -0.25])
def test_lif_cell(dtype: str, leak: float) -> None:
    p = parameters("LIFParameters", tau_syn_inv=256.0, tau_mem_inv=128.0, v_leak=leak, v_th=0.5, v_reset=leak / 2)
    (s, v), (k, ours_v) = driven(norse.LIFCell(p, dt=DT), grid_weights((NEURONS, PRE), 0.1, 1), dtype)
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    np.testing.assert_allclose(ours_v, v, rtol=0, atol=VOLTS[dtype])


@pytest.mark.parametrize("kind", ["LIFBox", "LIF"])
def test_the_defaults_on_random_weights(kind: str) -> None:
    """dt = 1e-3, tau_mem = 1e-2, tau_syn = 5e-3: no number is a power of two."""
    module = getattr(norse, f"{kind}Cell")(getattr(norse, f"{kind}Parameters")())
    (s, v), (k, ours_v) = driven(
        module, random_weights((NEURONS, PRE), 0.6 if kind == "LIFBox" else 0.15, 2), "float32"
    )
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    np.testing.assert_allclose(ours_v, v, rtol=0, atol=VOLTS["float32"])


def test_lif_recurrent_cell() -> None:
    """The recurrent edge has a delay of one step and no autapses: the module zeroes the diagonal itself."""
    weight, recurrent = grid_weights((NEURONS, PRE), 0.1, 1), grid_weights((NEURONS, NEURONS), 0.02, 2)
    p = parameters("LIFParameters", tau_syn_inv=256.0, tau_mem_inv=128.0, v_th=0.5)
    module = norse.LIFRecurrentCell(
        PRE, NEURONS, p, dt=DT, input_weights=torch.from_numpy(weight), recurrent_weights=torch.from_numpy(recurrent)
    )
    spikes = random_spikes(4)
    s, v = run_norse(module, spikes.astype(np.float32))
    own = array(module.recurrent_weights)
    assert not own.diagonal().any()
    k, ours_v = ours(network_of(norse_record(module), dense(weight), feedback(dense(own))), spikes)
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    np.testing.assert_allclose(ours_v, v, rtol=0, atol=VOLTS["float32"])


@pytest.mark.parametrize("reset", [0.0, 0.25])
def test_iaf_cell_is_the_same_to_the_bit_on_any_weights(reset: float) -> None:
    module = norse.IAFCell(parameters("IAFParameters", v_th=1.0, v_reset=reset))
    (s, v), (k, ours_v) = driven(module, random_weights((NEURONS, PRE), 0.1, 3), "float32")
    assert is_lively(k)
    np.testing.assert_array_equal(k, s)
    np.testing.assert_array_equal(ours_v, v)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("leak", [0.0, -0.25])
def test_li(dtype: str, leak: float) -> None:
    """A read-out never fires, so voltages are all there is to compare."""
    p = parameters("LIParameters", tau_syn_inv=256.0, tau_mem_inv=128.0, v_leak=leak)
    weight = grid_weights((NEURONS, PRE), 0.1, 1)
    (out, _), (_, ours_v) = driven(norse.LICell(p=p, dt=DT), weight, dtype, spiking=False)
    assert np.ptp(out) > 1
    np.testing.assert_allclose(ours_v, out, rtol=0, atol=VOLTS[dtype])
