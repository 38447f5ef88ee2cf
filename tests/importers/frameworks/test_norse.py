"""Norse 1.1.0: every supported cell compared with the simulator, over 3 seeds, 100 time steps, a batch of 4."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.importers.frameworks import norse as reader
from nirbridge.importers.neuron_specs import neuron_spec_of
from nirbridge.network import from_nir
from tests.importers.lowering.one_population import NEURONS, is_lively, measure, refusal
from tests.packages import package
from tests.simulators.reference.frameworks import grid_weights

torch = pytest.importorskip("torch", reason="torch is not installed")
norse = package("norse.torch")

WIDE = 12
VOLTS = 1e-5
"""Norse adds dv to v, the simulator a v + g x + b: a read-out of range 20 differs by a few units of its last place."""


def number(value: float) -> Any:
    return torch.as_tensor(value)


def spread(low: float, high: float) -> Any:
    return torch.linspace(low, high, NEURONS)


def own_weights(seed: int = 5) -> dict[str, Any]:
    return {
        "input_weights": torch.from_numpy(grid_weights((NEURONS, WIDE), 0.2, seed)),
        "recurrent_weights": torch.from_numpy(grid_weights((NEURONS, NEURONS), 0.1, seed + 1)),
    }


def per_neuron() -> Any:
    return norse.LIFParameters(
        tau_mem_inv=spread(60, 300),
        tau_syn_inv=spread(100, 400),
        v_th=spread(0.2, 1),
        v_leak=spread(-0.2, 0.1),
        v_reset=spread(-0.3, 0.1),
    )


def refractory(steps: float) -> Any:
    return norse.LIFRefracParameters(rho_reset=number(steps))


def adapted_box() -> Any:
    return norse.LIFBoxCell(norse.LIFBoxParameters(v_leak=number(0.1), reset_method=norse.reset_subtract))


def takes_off(amount: Any) -> Any:
    parameters = norse.LIFBoxParameters(v_th=number(0.53), reset_method=lambda z, v, v_reset, v_th: v - z * amount)
    return norse.LIFBoxCell(parameters)


def shifted_refractory() -> Any:
    lif = norse.LIFParameters(v_leak=number(0.1), v_reset=number(-0.1))
    return norse.LIFRefracCell(norse.LIFRefracParameters(lif, rho_reset=number(2.5)))


def channels() -> Any:
    return norse.LIFCell(norse.LIFParameters(v_th=torch.linspace(0.2, 1, 2).reshape(2, 1, 1)))


def stepped(module: Any, currents: Array) -> Array:
    state, out = None, []
    with torch.no_grad():
        for current in torch.from_numpy(currents):
            value, state = module(current, state)
            out.append(value)
    return torch.stack(out).numpy()


def at_once(module: Any, currents: Array) -> Array:
    with torch.no_grad():
        return module(torch.from_numpy(currents))[0].numpy()


SPIKING: dict[str, tuple[Callable[[], Any], Any, dict[str, Any]]] = {
    "LIFCell": (lambda: norse.LIFCell(), stepped, {}),
    "LIFCell, per neuron": (lambda: norse.LIFCell(per_neuron(), dt=5e-4), stepped, {"dt": 5e-4}),
    "LIFCell, per channel": (channels, stepped, {"shape": (2, 2, 4)}),
    "LIF": (lambda: norse.LIF(), at_once, {}),
    "LIFBoxCell": (lambda: norse.LIFBoxCell(), stepped, {"scale": 0.6}),
    "LIFBoxCell, reset_subtract": (adapted_box, stepped, {"scale": 0.6}),
    "LIFBoxCell, resets by 0.75": (lambda: takes_off(0.75), stepped, {"scale": 0.6}),
    "LIFBoxCell, resets by an amount per neuron": (lambda: takes_off(spread(0.25, 1.0)), stepped, {"scale": 0.6}),
    "LIFBoxCell, never resets": (lambda: takes_off(0.0), stepped, {"scale": 0.3}),
    "LIFRecurrentCell": (lambda: norse.LIFRecurrentCell(WIDE, NEURONS, **own_weights()), stepped, {"width": WIDE}),
    "LIFRecurrent": (
        lambda: norse.LIFRecurrent(WIDE, NEURONS, autapses=True, **own_weights()), at_once, {"width": WIDE}),
    "LIFRefracCell": (lambda: norse.LIFRefracCell(refractory(3)), stepped, {}),
    "LIFRefracCell, rho 2.5": (shifted_refractory, stepped, {}),
    "LIFRefracRecurrentCell": (
        lambda: norse.LIFRefracRecurrentCell(WIDE, NEURONS, refractory(2), **own_weights()), stepped, {"width": WIDE}),
    "LIFRefracRecurrent": (
        lambda: norse.LIFRefracRecurrent(WIDE, NEURONS, refractory(2), **own_weights()), at_once, {"width": WIDE}),
    "IAFCell": (lambda: norse.IAFCell(norse.IAFParameters(v_reset=number(0.25))), stepped, {"scale": 0.1}),
    "IAF": (lambda: norse.IAF(), at_once, {"scale": 0.1}),
}  # fmt: skip
READING: dict[str, tuple[Callable[[], Any], Any, dict[str, Any]]] = {
    "LICell": (lambda: norse.LICell(norse.LIParameters(v_leak=number(0.2))), stepped, {}),
    "LI": (lambda: norse.LI(), at_once, {}),
    "LIBoxCell": (lambda: norse.LIBoxCell(), stepped, {}),
    "LILinearCell": (lambda: norse.LILinearCell(WIDE, NEURONS), stepped, {"width": WIDE}),
}


def both(case: tuple[Callable[[], Any], Any, dict[str, Any]]) -> tuple[Array, Array]:
    make, run, options = case
    return measure(make, reader.neuron_specs(), run, **options)


@pytest.mark.parametrize("name", SPIKING)
def test_every_output_spike_is_that_of_the_module(name: str) -> None:
    theirs, mine = both(SPIKING[name])
    assert is_lively(theirs)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", READING)
def test_a_read_out_has_the_potential_of_the_module(name: str) -> None:
    theirs, mine = both(READING[name])
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=VOLTS)


@pytest.mark.parametrize("method", reader.METHODS)
def test_surrogates_change_nothing(method: str) -> None:
    theirs, mine = both((lambda: norse.LIFCell(norse.LIFParameters(method=method)), stepped, {}))
    np.testing.assert_array_equal(mine, theirs)


refusal_of = partial(refusal, reader.neuron_specs())


def test_everything_wrong_with_a_module_is_said_at_once() -> None:
    text = refusal_of(norse.LIFCell(norse.LIFParameters(method="adjoint", v_th=torch.ones(3)), dt=2e-3))
    assert len(text.splitlines()) == 3
    assert "dt = 0.002 s" in text
    assert "v_th has shape (3,)" in text
    assert "'adjoint'" in text


@pytest.mark.parametrize("name", [name for _, _, names in reader._REFUSED for name in names])
def test_every_other_class_of_norse_is_refused_by_name(name: str) -> None:
    assert getattr(norse, name) in reader.neuron_specs()


def test_a_refusal_says_the_reason() -> None:
    assert "LIFAdExCell: an exponential or adaptive membrane" in refusal_of(norse.LIFAdExCell())
    for method in (lambda z, v, r, th: v - 0.5 * z * v, lambda z, v, r, th: v - z * r, lambda z, v: v):
        box = norse.LIFBoxCell(norse.LIFBoxParameters(reset_method=method))
        assert "reset_method is a custom function" in refusal_of(box)


def test_a_subclass_that_does_something_else_is_refused() -> None:
    class Own(norse.LIFCell):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, state: Any = None) -> Any:
            return super().forward(-x, state)

    form = neuron_spec_of(Own(), reader.neuron_specs())
    assert form is not None
    with pytest.raises(ModelError, match="defines forward of LIFCell anew"):
        form.read(Own(), (3,), 1e-3)


class Cartpole(torch.nn.Module):
    """Norse's own policy: the spikes of the cell, which its state holds too, pass through a dropout."""

    def __init__(self, cell: Any, rate: Any) -> None:
        super().__init__()

        self.lif, self.rate = cell, rate
        self.fc, self.readout = torch.nn.Linear(8, 2, bias=False), norse.LICell()

    def forward(self, x: Any, state: Any = None) -> Any:
        s1, s2 = state if state is not None else (None, None)
        z, s1 = self.lif(x, s1)
        y, s2 = self.readout(self.fc(self.rate(z)), s2)
        return y, (s1, s2)


@pytest.mark.parametrize("rate", [torch.nn.Dropout(0.5), torch.nn.Dropout(0.5, inplace=True), torch.Tensor.contiguous])
@pytest.mark.parametrize("make", [norse.LIFRecurrentCell, norse.LIFRefracRecurrentCell])
def test_a_dropout_in_eval_mode_is_the_spikes_themselves(make: Any, rate: Any) -> None:
    torch.manual_seed(3)
    graph = reader.from_norse(Cartpole(make(4, 8), rate), torch.zeros(1, 4))
    assert '"outcome": "identical"' in graph.metadata["nirbridge:self_check"]
    assert len(from_nir(graph).populations) == 2
