"""Sinabs 3.1.3: every supported layer compared with the simulator, 3 seeds, 100 time steps, a batch of 4."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.errors import UnequalImport
from nirbridge.importers.frameworks import sinabs as reader
from nirbridge.verification.self_check import self_check
from tests.importers.lowering.one_population import BATCH, NEURONS, STEPS, is_lively, measure, refusal
from tests.packages import package
from tests.simulators.reference.frameworks import grid_weights

torch = pytest.importorskip("torch", reason="torch is not installed")
layers = package("sinabs.layers")
activation = package("sinabs.activation")

Case = tuple[Callable[[], Any], Any, dict[str, Any]]


def spread(low: float, high: float) -> Any:
    return torch.linspace(low, high, NEURONS)


def plain(**options: Any) -> Any:
    return layers.LIF(20.0, norm_input=False, **options)


def feedback(*, bias: bool = False, scale: float = 0.1) -> Any:
    layer = torch.nn.Linear(NEURONS, NEURONS, bias=bias)
    layer.weight.data = torch.from_numpy(grid_weights((NEURONS, NEURONS), scale, 3))
    if bias:
        layer.bias.data = torch.from_numpy(grid_weights((NEURONS,), 0.3, 4))
    return layer


def recurrent(bias: bool = False, tau_syn: float | None = None, **options: Any) -> Any:
    return layers.LIFRecurrent(20.0, feedback(bias=bias), tau_syn, **options)


def batch_first(module: Any, currents: Array) -> Array:
    with torch.no_grad():
        return module(torch.from_numpy(currents).transpose(0, 1)).transpose(0, 1).numpy()


def squeezed(module: Any, currents: Array) -> Array:
    x = torch.from_numpy(currents).transpose(0, 1)
    with torch.no_grad():
        return module(x.flatten(0, 1)).unflatten(0, x.shape[:2]).transpose(0, 1).numpy()


CASES: dict[str, Case] = {
    "LIF, norm_input": (lambda: layers.LIF(20.0), batch_first, {"scale": 2}),
    "LIF": (plain, batch_first, {}),
    "LIF, tau_syn": (lambda: plain(tau_syn=10.0), batch_first, {"scale": 0.05}),
    "LIF, per neuron": (
        lambda: layers.LIF(spread(5, 40), spread(3, 20), spike_threshold=spread(0.4, 2)), batch_first, {}),
    "LIF, per channel": (
        lambda: plain(spike_threshold=torch.tensor([0.5, 1]).reshape(2, 1, 1)), batch_first, {"shape": (2, 2, 4)}),
    "LIF, SingleSpike": (lambda: plain(spike_fn=activation.SingleSpike), batch_first, {"scale": 0.1}),
    "LIF, MaxSpike": (lambda: plain(spike_fn=activation.MaxSpike(2)), batch_first, {}),
    "LIF, subtract": (lambda: plain(reset_fn=activation.MembraneSubtract(0.7)), batch_first, {}),
    "LIF, reset": (lambda: plain(reset_fn=activation.MembraneReset()), batch_first, {}),
    "LIF, reset to a value": (lambda: plain(reset_fn=activation.MembraneReset(0.125)), batch_first, {}),
    "LIF, train_alphas": (lambda: plain(tau_syn=10.0, train_alphas=True), batch_first, {"scale": 0.05}),
    "LIFSqueeze": (lambda: layers.LIFSqueeze(batch_size=BATCH, tau_mem=20.0), squeezed, {"scale": 2}),
    "IAF": (lambda: layers.IAF(), batch_first, {}),
    "IAF, tau_syn": (lambda: layers.IAF(tau_syn=5.0), batch_first, {"scale": 0.1}),
    "IAFSqueeze": (lambda: layers.IAFSqueeze(num_timesteps=STEPS), squeezed, {}),
    "LIFRecurrent": (lambda: recurrent(norm_input=False), batch_first, {"scale": 0.1}),
    "LIFRecurrent, bias": (lambda: recurrent(True, norm_input=False), batch_first, {"scale": 0.1}),
    "LIFRecurrent, bias, tau_syn": (lambda: recurrent(True, 5.0), batch_first, {"scale": 0.5}),
    "LIFRecurrent, bias, reset to a value": (
        lambda: recurrent(True, norm_input=False, reset_fn=activation.MembraneReset(0.125)), batch_first,
        {"scale": 0.1}),
    "IAFRecurrent, bias": (
        lambda: layers.IAFRecurrent(feedback(bias=True, scale=0.02)), batch_first, {"scale": 0.05}),
}  # fmt: skip


def both(case: Case) -> tuple[Array, Array]:
    make, run, options = case
    return measure(make, reader.neuron_specs(), run, **options)


@pytest.mark.parametrize("name", CASES)
def test_every_output_spike_is_that_of_the_layer(name: str) -> None:
    theirs, mine = both(CASES[name])
    assert is_lively(theirs)
    np.testing.assert_array_equal(mine, theirs)


def test_several_spikes_a_step_are_seen() -> None:
    theirs, _ = both(CASES["LIF"])
    assert theirs.max() > 2


def test_a_read_out_has_the_potential_of_the_layer_to_the_bit() -> None:
    theirs, mine = both((lambda: layers.ExpLeak(20.0), batch_first, {}))
    assert np.ptp(theirs) > 1
    np.testing.assert_array_equal(mine, theirs)


def test_a_reset_value_is_added_in_every_step() -> None:
    """What ``MembraneReset(value)`` of sinabs 3.1.3 does, and why it is read as a drive."""
    module = plain(reset_fn=activation.MembraneReset(0.125))
    with torch.no_grad():
        module(torch.zeros(1, 2, NEURONS))
    decay = float(module.alpha_mem_calculated.detach())
    assert module.v_mem[0, 0].item() == pytest.approx(0.125 + decay * 0.125)


refusal_of = partial(refusal, reader.neuron_specs())


def test_everything_wrong_with_a_layer_is_said_at_once() -> None:
    wrong = layers.IAF(min_v_mem=-1.0, spike_threshold=torch.tensor(-1.0), spike_fn=torch.relu, reset_fn=torch.neg)
    text = refusal_of(wrong)
    assert len(text.splitlines()) == 3
    assert "spike_threshold is not above 0" in text
    assert "spike_fn is relu" in text
    assert "reset_fn is" in text


def test_a_recurrence_that_is_not_one_linear_layer_is_refused() -> None:
    connect = torch.nn.Sequential(torch.nn.Linear(NEURONS, 4), torch.nn.Linear(4, NEURONS))
    assert "rec_connect is Sequential" in refusal_of(layers.LIFRecurrent(20.0, connect))


def test_hardware_parts_are_not_imported() -> None:
    reader.neuron_specs()
    assert "samna" not in sys.modules


def test_a_bare_layer_of_ambiguous_axes_is_equal_and_a_wrong_one_still_refused() -> None:
    """On the first input, 20 time steps of 4 neurons cannot be told from some others; on the second they can."""
    module, sample = layers.IAF(), torch.zeros(1, 20, 4)
    graph = reader.from_sinabs(module, sample)
    assert '"outcome": "identical"' in graph.metadata["nirbridge:self_check"]
    for name in graph.nodes:
        if hasattr(graph.nodes[name], "v_threshold"):
            graph.nodes[name].v_threshold = graph.nodes[name].v_threshold * 2
    with pytest.raises(UnequalImport):
        self_check(module, sample, graph, reader.neuron_specs(), 2)
