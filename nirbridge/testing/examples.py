"""Small networks, chips and models that the conformance suite runs.

Weights and decays are dyadic and runs are short, so every sum is exact in float32: any order of summation and any
fused operation gives the same bits, and a bit that differs is a different meaning.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.load import chip_from_dict
from nirbridge.chips.model import Chip
from nirbridge.errors import Bug
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.network.model import Network
from nirbridge.plugins import find_chip
from nirbridge.quantization.model import QuantizedNetwork

if TYPE_CHECKING:
    import nir

DT = 1e-3
STEPS = 16
RATE = 0.3
SEED = 0


def example_inputs(model: Model, samples: int | None = None) -> dict[str, Array]:
    """Random spikes for every input of a model, the same on every call; ``samples``: with a batch axis of that size."""
    rng = np.random.default_rng(SEED)
    batch = () if samples is None else (samples,)
    ports = model.network.inputs if isinstance(model, MappedNetwork) else model.inputs
    return {port.name: (rng.random((STEPS, *batch, *port.shape)) < RATE).astype(np.uint8) for port in ports}


@functools.cache
def example_networks() -> tuple[Network, ...]:
    """Three networks: dense with a delayed skip path, convolution and pooling with a readout, recurrence.

    Names need quoting.
    """
    from nirbridge.network.nir.from_nir import from_nir

    return tuple(from_nir(graph) for graph in (_dense(), _convolution(), _recurrence()))


@functools.cache
def example_chips() -> tuple[Chip, ...]:
    """Loihi 2, and one of its kind with a few small cores, which every example network fills several of."""
    base: Any = find_chip("loihi2").record
    small = {**base, "name": "small_loihi2", "core": {**base["core"], "neurons": 6}}
    return (find_chip("loihi2"), chip_from_dict(small))


def example_models(kind: type, networks: Sequence[Network] | None = None) -> tuple[Model, ...]:
    """The example networks as models of a type: themselves, quantized, or mapped for the small chip."""
    return tuple(_model(kind, network) for network in (networks or example_networks()))


@functools.cache
def _model(kind: type, network: Network) -> Model:
    from nirbridge.pipeline import MapOptions, map_network, quantize_network

    chip = example_chips()[-1]
    if kind is Network:
        return network
    if kind is QuantizedNetwork:
        return quantize_network(network, chip)
    if kind is MappedNetwork:
        return map_network(network, chip, MapOptions(effort="fast"))
    raise Bug.of("examples", f"no model is of type {kind.__name__}", "", "please report it")


def _dense() -> nir.NIRGraph:
    import nir

    nodes = {
        "in": nir.Input({"input": np.array([6])}),
        "w 1": nir.Affine(_grid((8, 6), 1), _grid((8,), 2)),
        "it's 1": _lif((8,)),
        "w2": nir.Linear(_grid((3, 8), 3)),
        "skip": nir.Delay(2 * DT * np.ones(6)),
        "w3": nir.Linear(_grid((3, 6), 4)),
        "n2": _lif((3,)),
        "out": nir.Output({"output": np.array([3])}),
    }
    edges = [("in", "w 1"), ("w 1", "it's 1"), ("it's 1", "w2"), ("w2", "n2"), ("in", "skip"), ("skip", "w3")]
    return _graph(nodes, [*edges, ("w3", "n2"), ("n2", "out")])


def _convolution() -> nir.NIRGraph:
    import nir

    nodes = {
        "in": nir.Input({"input": np.array([2, 7, 7])}),
        "conv": nir.Conv2d((7, 7), _grid((3, 2, 3, 3), 5), 2, 0, 1, 1, np.zeros(3)),
        "map": _lif((3, 3, 3)),
        "pool": nir.SumPool2d(np.array([2, 2]), np.array([1, 1]), np.array([0, 0])),
        "flat": nir.Flatten({"input": np.array([3, 2, 2])}, 0, -1),
        "w": nir.Linear(_grid((4, 12), 6)),
        "read": nir.LI(2 * DT * np.ones(4), np.ones(4), np.zeros(4)),
        "out": nir.Output({"output": np.array([4])}),
    }
    return _graph(nodes, list(itertools.pairwise(nodes)))


def _recurrence() -> nir.NIRGraph:
    import nir

    nodes = {
        "in": nir.Input({"input": np.array([4])}),
        "w": nir.Linear(_grid((7, 4), 7)),
        "loop": _lif((7,)),
        "back": nir.Linear(_grid((7, 7), 8)),
        "late": nir.Delay(DT * np.ones(7)),
        "out": nir.Output({"output": np.array([7])}),
    }
    edges = [("in", "w"), ("w", "loop"), ("loop", "late"), ("late", "back"), ("back", "loop"), ("loop", "out")]
    return _graph(nodes, edges)


def _graph(nodes: dict[str, Any], edges: list[tuple[str, str]]) -> nir.NIRGraph:
    import nir

    return nir.NIRGraph(nodes, edges, metadata={"nirbridge:dt": DT}, type_check=False)


def _lif(shape: tuple[int, ...]) -> Any:
    import nir

    ones = np.ones(shape)
    return nir.LIF(2 * DT * ones, ones, 0 * ones, ones / 2, 0 * ones)


def _grid(shape: tuple[int, ...], seed: int) -> Array:
    """Multiples of 1/8 from -1/2 to 1."""
    return np.random.default_rng(seed).integers(-4, 8, shape, endpoint=True) / 8
