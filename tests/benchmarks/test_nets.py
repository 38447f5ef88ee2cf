"""The networks of the mapping suite have the published sizes and take no memory for weights."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import nir
import numpy as np
import pytest


def synapses(graph: nir.NIRGraph) -> int:
    """Synapses of dense layers and of convolutions without padding."""
    total = 0
    for node in graph.nodes.values():
        if isinstance(node, nir.Linear):
            total += node.weight.size
        if isinstance(node, nir.Conv2d):
            rows, columns = (
                (n + 2 * p - k) // s + 1
                for n, p, k, s in zip(node.input_shape, node.padding, node.weight.shape[2:], node.stride, strict=True)
            )
            total += node.weight.size * rows * columns
    return total


def arrays() -> dict[str, np.ndarray]:
    from benchmarks import dvs_gesture

    generator = np.random.default_rng(3)
    return {name: generator.integers(-9, 9, shape).astype(np.float32) for name, shape in dvs_gesture.SHAPES.items()}


def wheel(path: Path, content: dict[str, np.ndarray]) -> Path:
    from benchmarks import dvs_gesture

    with zipfile.ZipFile(path, "w") as archive, archive.open(dvs_gesture.MEMBER, "w") as member:
        np.savez(member, **content)
    return path


def test_published_neuron_counts() -> None:
    from benchmarks import nets

    for entry in nets.SUITE:
        graph = entry.build()
        neurons = [n for n in graph.nodes.values() if isinstance(n, nir.LIF)]
        assert (entry.name, sum(math.prod(n.tau.shape) for n in neurons)) == (entry.name, entry.neurons)
        uniform = [n.tau.base is not None and n.tau.strides == (0,) * n.tau.ndim for n in neurons]
        assert all(uniform) or entry.name == "heterogeneous-256"


def test_published_synapse_counts() -> None:
    from benchmarks import nets

    assert synapses(nets.mlp()) == 101_632
    assert synapses(nets.dvs_gesture_shapes()) == 3_564_441
    assert synapses(nets.vgg11()) == pytest.approx(171.8e6, rel=1e-3)
    assert synapses(nets.alexnet()) == pytest.approx(1.136e9, rel=1e-3)
    assert synapses(nets.pilotnet()) == pytest.approx(26.9e6, rel=1e-2)
    assert synapses(nets.mobilenet()) == pytest.approx(186e6, rel=1e-2)


def test_synth_is_seeded() -> None:
    from benchmarks import nets

    widths = [
        [n.weight.shape[0] for n in nets.synth(9, seed).nodes.values() if hasattr(n, "weight")] for seed in (1, 1, 2)
    ]
    assert widths[0] == widths[1] != widths[2]


def test_dvs_gesture_keeps_every_weight(tmp_path: Path) -> None:
    from benchmarks import dvs_gesture

    content = arrays()
    graph = dvs_gesture.build(dvs_gesture.read_weights(wheel(tmp_path / "sanafe-0.whl", content)))
    assert synapses(graph) == 3_564_441
    conv = graph.nodes["conv3"].weight
    assert conv[5, 4, 2, 1] == content["conv3"][2, 1, 4, 5]
    dense = graph.nodes["dense1"].weight.reshape(11, 11, 9, 9)
    column, channel, row, out = 7, 10, 2, 3
    assert dense[out, channel, row, column] == content["dense1"].reshape(9, 11, 9, 11)[column, channel, row, out]


def test_dvs_gesture_refuses_other_files(tmp_path: Path) -> None:
    from benchmarks import dvs_gesture

    content = {**arrays(), "conv1": np.zeros((5, 5, 1, 16), np.float32)}
    with pytest.raises(
        dvs_gesture.WeightsError, match=r"^a.whl: conv1 has shape \(5, 5, 1, 16\), expected \(3, 3, 1, 16\)"
    ):
        dvs_gesture.read_weights(wheel(tmp_path / "a.whl", content))
    (tmp_path / "b.whl").write_text("no archive")
    with pytest.raises(dvs_gesture.WeightsError, match=r"^b.whl: no readable .*; is it a wheel of 'sanafe'\?$"):
        dvs_gesture.read_weights(tmp_path / "b.whl")
