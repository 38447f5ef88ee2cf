"""The mapping suite as NIR graphs: shapes of published networks, without nirbridge.

Weights and neuron parameters are zero-stride arrays (one value, any shape), so that a network of 268 million neurons
costs no memory. Sizes are those of the networks' papers; every spatial layer, pools too, is followed by neurons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import nir
import numpy as np

from nirbridge._types import Shape

DT_S = 1e-4
TIMING = {
    "nirbridge:dt": DT_S,
    "nirbridge:integrator": "euler",
    "nirbridge:reset": "to-value",
    "nirbridge:compare": ">",
}


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution and its neurons; ``groups`` 0 stands for a depthwise one."""

    channels: int
    kernel: int = 3
    stride: int = 1
    padding: int = 0
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Pool:
    """A sum pool and its neurons."""

    kernel: int = 2
    stride: int = 2


@dataclass(frozen=True, slots=True)
class Dense:
    """All to all, and its neurons."""

    neurons: int


Layer = Conv | Pool | Dense


def uniform(value: float, shape: Shape, dtype: type = np.float64) -> np.ndarray:
    """An array of one value that takes the memory of one element."""
    return np.broadcast_to(dtype(value), shape)


def lif(shape: Shape) -> nir.LIF:
    """Leaky neurons with dt / tau = 1/8 and unit gain."""
    zero = uniform(0.0, shape)
    tau, r = uniform(8 * DT_S, shape), uniform(8.0, shape)
    return nir.LIF(tau=tau, r=r, v_leak=zero, v_threshold=uniform(1.0, shape), v_reset=zero)


def linear(post: int, pre: int) -> nir.Linear:
    """A dense layer of shapes alone."""
    return nir.Linear(weight=uniform(0.25, (post, pre), np.float32))


def feedforward(input_shape: Shape, layers: Iterable[Layer]) -> nir.NIRGraph:
    """Input -> (linear node -> LIF) for each layer -> output."""
    nodes: dict[str, nir.NIRNode] = {"input": _input(input_shape)}
    shape = input_shape
    for i, layer in enumerate(layers, start=1):
        if isinstance(layer, Dense) and len(shape) > 1:
            nodes[f"flatten_{i}"] = nir.Flatten({"input": np.array(shape)}, start_dim=0, end_dim=-1)
        node, shape = _lower(layer, shape)
        nodes[f"{type(layer).__name__.lower()}_{i}"] = node
        nodes[f"lif_{i}"] = lif(shape)
    nodes["output"] = nir.Output({"output": np.array(shape)})
    return _graph(nodes, list(pairwise(nodes)))


def _lower(layer: Layer, shape: Shape) -> tuple[nir.NIRNode, Shape]:
    if isinstance(layer, Dense):
        return linear(layer.neurons, math.prod(shape)), (layer.neurons,)
    if isinstance(layer, Pool):
        node = nir.SumPool2d(*(np.array([n, n]) for n in (layer.kernel, layer.stride, 0)))
        return node, (shape[0], *_windows(shape, layer.kernel, layer.stride, 0))
    groups = layer.groups or shape[0]
    weight = uniform(0.25, (layer.channels, shape[0] // groups, layer.kernel, layer.kernel), np.float32)
    bias = uniform(0.0, (layer.channels,), np.float32)
    node = nir.Conv2d(shape[1:], weight, layer.stride, layer.padding, 1, groups, bias)
    return node, (layer.channels, *_windows(shape, layer.kernel, layer.stride, layer.padding))


def _windows(shape: Shape, kernel: int, stride: int, padding: int) -> Shape:
    return tuple((n + 2 * padding - kernel) // stride + 1 for n in shape[1:])


def _input(shape: Shape) -> nir.Input:
    return nir.Input({"input": np.array(shape)})


def _graph(nodes: dict[str, nir.NIRNode], edges: list[tuple[str, str]]) -> nir.NIRGraph:
    # nir 1.0.8 takes a grouped convolution's input channels wrongly, so its own type check would refuse those.
    return nir.NIRGraph(nodes, edges, metadata=dict(TIMING), type_check=False)


def dense_stack(neurons: int, populations: int) -> nir.NIRGraph:
    """``populations`` layers of ``neurons``, all to all, the first driven one to one by the input."""
    nodes: dict[str, nir.NIRNode] = {"input": _input((neurons,)), "lif_1": lif((neurons,))}
    for i in range(2, populations + 1):
        nodes[f"dense_{i}"] = linear(neurons, neurons)
        nodes[f"lif_{i}"] = lif((neurons,))
    nodes["output"] = nir.Output({"output": np.array([neurons])})
    return _graph(nodes, list(pairwise(nodes)))


def recurrent(inputs: int, hidden: int, outputs: int) -> nir.NIRGraph:
    """``inputs`` -> ``hidden`` neurons, all to all among themselves -> ``outputs`` (the form of SHD networks)."""
    nodes = {
        "input": _input((inputs,)),
        "dense_1": linear(hidden, inputs),
        "lif_1": lif((hidden,)),
        "dense_2": linear(outputs, hidden),
        "lif_2": lif((outputs,)),
        "output": nir.Output({"output": np.array([outputs])}),
    }
    edges = list(pairwise(nodes))
    nodes["recurrent_1"] = linear(hidden, hidden)
    return _graph(nodes, [*edges, ("lif_1", "recurrent_1"), ("recurrent_1", "lif_1")])


def mlp() -> nir.NIRGraph:
    """784-128-10."""
    return feedforward((784,), [Dense(128), Dense(10)])


def lenet5() -> nir.NIRGraph:
    """LeNet-5 on 28 x 28 with spiking pools."""
    spatial = [Conv(6, 5, padding=2), Pool(), Conv(16, 5), Pool()]
    return feedforward((1, 28, 28), [*spatial, Dense(120), Dense(84), Dense(10)])


def dvs_gesture_shapes() -> nir.NIRGraph:
    """The DVS-Gesture network of ``dvs_gesture.py`` without its weights."""
    spatial = [Conv(16, 3, stride=2), Conv(32), Conv(64), Conv(11)]
    return feedforward((1, 32, 32), [*spatial, Dense(11)])


def pilotnet() -> nir.NIRGraph:
    """PilotNet for 200 x 66 pictures."""
    spatial = [Conv(24, 5, 2), Conv(36, 5, 2), Conv(48, 5, 2), Conv(64), Conv(64)]
    return feedforward((3, 66, 200), [*spatial, Dense(100), Dense(50), Dense(10), Dense(1)])


def vgg11() -> nir.NIRGraph:
    """VGG11 for CIFAR-10 with spiking pools."""
    spatial: list[Layer] = []
    for channels in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        spatial += [*(Conv(c, padding=1) for c in channels), Pool()]
    return feedforward((3, 32, 32), [*spatial, Dense(4096), Dense(4096), Dense(10)])


def alexnet() -> nir.NIRGraph:
    """AlexNet for 227 x 227 pictures with spiking pools, without groups."""
    spatial = [Conv(96, 11, 4), Pool(3), Conv(256, 5, padding=2), Pool(3)]
    spatial += [Conv(384, padding=1), Conv(384, padding=1), Conv(256, padding=1), Pool(3)]
    return feedforward((3, 227, 227), [*spatial, Dense(4096), Dense(4096), Dense(1000)])


def mobilenet(side: int = 128) -> nir.NIRGraph:
    """MobileNet V1 for ``side`` x ``side`` pictures."""
    layers: list[Layer] = [Conv(32, stride=2, padding=1)]
    channels = 32
    for out, stride in [
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ]:
        layers += [Conv(channels, stride=stride, padding=1, groups=0), Conv(out, kernel=1)]
        channels = out
    return feedforward((3, side, side), [*layers, Pool(side // 32, side // 32), Dense(1000)])


def synth(layers: int, seed: int = 0) -> nir.NIRGraph:
    """A chain of 3 x 3 convolutions on 12 x 12 with 4, 8 or 12 channels each, drawn by ``seed``."""
    channels = np.random.default_rng(seed).choice([4, 8, 12], size=layers)
    return feedforward((1, 12, 12), [Conv(int(c), padding=1) for c in channels])


def mixed(layers: int, seed: int = 0) -> nir.NIRGraph:
    """A chain on 12 x 12 of convolutions with kernels 1, 3 and 5 and 4 to 24 channels, drawn by ``seed``."""
    rng = np.random.default_rng(seed)
    drawn = zip(rng.integers(4, 25, size=layers), rng.choice([1, 3, 5], size=layers), strict=True)
    return feedforward((1, 12, 12), [Conv(int(c), int(k), padding=int(k) // 2) for c, k in drawn])


def nir_cnn() -> nir.NIRGraph:
    """The CNN of NIR's paper for NMNIST with spiking pools."""
    spatial = [Conv(16, 5, 2, 1), Conv(16, padding=1), Pool(), Conv(8, padding=1), Pool()]
    return feedforward((2, 34, 34), [*spatial, Dense(256), Dense(10)])


def heterogeneous() -> nir.NIRGraph:
    """100-256-10, each of the 256 with a time constant of its own: decays 100 to 355 of 4096 per time step."""
    graph = feedforward((100,), [Dense(256), Dense(10)])
    ratio = 4096 / np.arange(100.0, 356.0)
    own = graph.nodes["lif_1"]
    graph.nodes["lif_1"] = nir.LIF(tau=ratio * DT_S, r=ratio, v_leak=own.v_leak, v_threshold=own.v_threshold)
    return graph


def layered(side: int) -> nir.NIRGraph:
    """16 convolutional layers of 16 channels, ``side`` x ``side``: side 16 is 65 K neurons, 256 16 M, 1024 268 M."""
    return feedforward((16, side, side), [Conv(16, padding=1)] * 16)


@dataclass(frozen=True, slots=True)
class Entry:
    """A network of the suite: how to build it, its neurons, the cores of loihi1 known to be enough, chips to offer."""

    name: str
    build: Callable[[], nir.NIRGraph]
    neurons: int
    cores_known: int | None = None
    size: str = "small"
    chips: int = 1


SUITE = (
    Entry("mlp-784-128-10", mlp, 138, 1),
    Entry("lenet5", lenet5, 8_094, 8),
    Entry("dvs-gesture", dvs_gesture_shapes, 17_654, 30),
    Entry("shd-256", partial(recurrent, 700, 256, 20), 276, 3),
    Entry("shd-1024", partial(recurrent, 700, 1024, 20), 1_044, 16),
    Entry("dense-1500x2", partial(dense_stack, 1500, 2), 3_000, 20),
    Entry("dense-2000x5", partial(dense_stack, 2000, 5), 10_000, 130, chips=2),
    Entry("synth-8", partial(synth, 8), 6_912),
    Entry("synth-32", partial(synth, 32), 38_016, 38),
    Entry("synth-50", partial(synth, 50), 54_720, 54),
    Entry("synth-64", partial(synth, 64), 76_032, 75),
    Entry("synth-100", partial(synth, 100), 118_656, 117),
    Entry("mixed-32", partial(mixed, 32), 67_248, None, chips=2),
    Entry("mixed-64", partial(mixed, 64), 131_040, None, chips=2),
    Entry("pilotnet", pilotnet, 107_033, None, "large", 4),
    Entry("vgg11", vgg11, 190_986, None, "large", 32),
    Entry("alexnet", alexnet, 781_736, None, "large", 32),
    Entry("mobilenet-128", mobilenet, 1_648_616, None, "large", 32),
    Entry("nir-cnn", nir_cnn, 10_122, None),
    Entry("heterogeneous-256", heterogeneous, 266, None),
    Entry("layered-65k", partial(layered, 16), 65_536, None, "large"),
    Entry("layered-1m", partial(layered, 64), 1_048_576, None, "large", 32),
    Entry("layered-16m", partial(layered, 256), 16_777_216, None, "huge"),
    Entry("layered-268m", partial(layered, 1024), 268_435_456, None, "huge"),
)
