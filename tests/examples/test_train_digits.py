"""The trained models of the repository: readable, of the stated accuracy, with the same spikes as snnTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NEURONS = {"mlp": [(64,), (10,)], "cnn": [(8, 8, 8), (16, 4, 4), (10,)]}
INPUTS = {"mlp": (64,), "cnn": (1, 8, 8)}
models = pytest.mark.parametrize("model", ["mlp", "cnn"])


@pytest.fixture(autouse=True)
def _examples_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def committed(model: str) -> nir.NIRGraph:
    return nir.read(EXAMPLES / "models" / f"digits_{model}.nir")


def chain(graph: nir.NIRGraph) -> list[Any]:
    """The nodes of a graph without branches, in order."""
    following = dict(graph.edges)
    name, nodes = "input", []
    while name != "output":
        nodes.append(graph.nodes[name])
        name = following[name]
    return nodes


def linear(node: nir.NIRNode, x: np.ndarray) -> np.ndarray:
    """One linear node on ``x [batch, *shape]``, written without any of nirbridge's code."""
    if isinstance(node, nir.Linear):
        return x @ node.weight.T
    if isinstance(node, nir.Conv2d):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.einsum("bchwij,ocij->bohw", windows, node.weight)
    if isinstance(node, nir.AvgPool2d):
        b, c, h, w = x.shape
        return x.reshape(b, c, h // 2, 2, w // 2, 2).sum(axis=(3, 5)) / np.float32(4)
    assert isinstance(node, nir.Flatten)
    return x.reshape(len(x), -1)


def spike_counts(graph: nir.NIRGraph, spikes: np.ndarray) -> np.ndarray:
    """Output spikes ``[batch, 10]`` of the Euler rule, ``v += dt/tau (v_leak - v + r x)`` in float32."""
    dt = graph.metadata["nirbridge:dt"]
    nodes, state, counts = chain(graph), {}, 0
    for step in spikes.reshape(*spikes.shape[:2], *graph.nodes["input"].input_type["input"]):
        x = step.astype(np.float32)
        for i, node in enumerate(nodes[1:]):
            if not isinstance(node, nir.LIF):
                x = linear(node, x)
                continue
            decay, gain = np.float32(1 - dt / node.tau), np.float32(dt / node.tau * node.r)
            v = decay * state.get(i, np.zeros_like(x)) + gain * x
            x = (v > node.v_threshold).astype(np.float32)
            state[i] = np.where(x > 0, np.float32(0), v)
        counts = counts + x
    return np.asarray(counts)


@models
def test_committed_file(model: str) -> None:
    path = EXAMPLES / "models" / f"digits_{model}.nir"
    graph = nir.read(path)
    neurons = [n for n in chain(graph) if isinstance(n, nir.LIF)]
    assert path.stat().st_size < 200_000
    assert [n.tau.shape for n in neurons] == NEURONS[model]
    assert tuple(graph.nodes["input"].input_type["input"]) == INPUTS[model]
    assert graph.metadata["accuracy"] > 0.9
    assert graph.metadata["nirbridge:dt"] == 1e-4
    assert graph.metadata["nirbridge:reset"] == "to-value"
    for n in neurons:
        np.testing.assert_array_equal(1e-4 / n.tau, 0.125)
        np.testing.assert_array_equal(1e-4 / n.tau * n.r, 1.0)
        np.testing.assert_array_equal(n.v_reset, 0.0)


@models
def test_weights_are_eight_bit_integers_times_a_step(model: str) -> None:
    weights = [n.weight for n in chain(committed(model)) if hasattr(n, "weight")]
    for w in weights:
        scaled = w.astype(np.float64) * 64
        np.testing.assert_array_equal(scaled, np.rint(scaled))
        assert scaled.min() >= -128
        assert scaled.max() <= 127


@models
def test_stored_accuracy_is_what_the_file_reaches(model: str) -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn's digits")
    import digits

    graph = committed(model)
    spikes, labels = digits.test_spikes()
    counts = spike_counts(graph, spikes)
    assert np.mean(counts.argmax(1) == labels) == graph.metadata["accuracy"]


def load_weights(net: Any, graph: nir.NIRGraph) -> None:
    import torch

    weights = [n.weight for n in chain(graph) if hasattr(n, "weight")]
    with torch.no_grad():
        for parameter, weight in zip(net.parameters(), weights, strict=True):
            parameter.copy_(torch.from_numpy(weight))


@models
def test_file_spikes_as_snntorch_does(model: str) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("snntorch", reason="needs snntorch")
    import digits
    import train_digits

    graph, net = committed(model), train_digits.build(model)
    load_weights(net, graph)
    spikes, _ = digits.test_spikes()
    with torch.no_grad():
        expected = train_digits.spike_counts(net, spikes, INPUTS[model]).numpy()
    np.testing.assert_array_equal(spike_counts(graph, spikes), expected)


@pytest.mark.slow
@models
def test_training_writes_what_it_measured(model: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("snntorch", reason="needs snntorch")
    import digits
    import train_digits

    net, path, measured = train_digits.train_and_save(model, tmp_path, epochs=2)
    graph = nir.read(path)
    spikes, _ = digits.test_spikes()
    with torch.no_grad():
        expected = train_digits.spike_counts(net, spikes, INPUTS[model]).numpy()
    np.testing.assert_array_equal(spike_counts(graph, spikes), expected)
    assert graph.metadata["accuracy"] == measured
    assert graph.metadata["steps"] == digits.STEPS
