"""The ten networks of the profile page, fixed before the first comparison, each with its inputs.

Trained networks where there are any: both digits models on test images of scikit-learn's digits, the CNN of NIR's paper
(Sinabs), its network for Braille reading (snnTorch), and DVS-Gesture with the weights that the installed package
``sanafe`` brings. The others are small networks with one structure each, with weights from a seed. Inputs that are not
data are spikes from a seed, at the rate that is stated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import nir
import numpy as np

import nirbridge as nb
from benchmarks import dvs_gesture

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "nir_paper"
DT = 1e-4
SEED = 7
IMAGES = 4


class Case(NamedTuple):
    """A network, its inputs ``[steps, samples, *shape]``, labels where they are known, and options of the mapping."""

    network: Any
    inputs: np.ndarray
    labels: np.ndarray | None
    text: str
    options: Mapping[str, Any] = MappingProxyType({})


def _spikes(steps: int, samples: int, shape: tuple[int, ...], rate: float) -> np.ndarray:
    return (np.random.default_rng(SEED).random((steps, samples, *shape)) < rate).astype(np.uint8)


def _digits(name: str) -> Case:
    from examples.digits import test_spikes

    network = nb.load(ROOT / "examples" / "models" / f"{name}.nir")
    spikes, labels = test_spikes()
    inputs = spikes[:, :IMAGES].reshape(len(spikes), IMAGES, *network.inputs[0].shape)
    return Case(network, inputs, labels[:IMAGES], f"trained; {IMAGES} test images, 25 time steps")


def _paper(path: str, rate: float, steps: int) -> Case:
    network = nb.load(DATA / path)
    inputs = _spikes(steps, 1, network.inputs[0].shape, rate)
    return Case(network, inputs, None, f"trained; random spikes, {rate:g} per time step, {steps} time steps")


def _dvs_gesture() -> Case:
    spec = find_spec("sanafe")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package sanafe is not installed")
    with np.load(Path(spec.origin).parent / "examples" / "dvs_challenge.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file}
    steps = 10
    shares = arrays["inputs"].reshape(1, 1, 1, 32, 32) / 255
    inputs = (np.random.default_rng(SEED).random((steps, 1, 1, 32, 32)) < shares).astype(np.uint8)
    text = f"trained; the package's frame as rates of spikes, {steps} time steps"
    return Case(nb.load(dvs_gesture.build(arrays)), inputs, None, text)


def _lif(size: int) -> nir.LIF:
    ones = np.ones(size)
    return nir.LIF(tau=10 * DT * ones, r=10 * ones, v_leak=0 * ones, v_threshold=ones, v_reset=0 * ones)


def _linear(post: int, pre: int, seed: int, gain: float = 3.0) -> nir.Linear:
    weight = np.random.default_rng(seed).normal(0.3, 1.0, (post, pre)) * gain / np.sqrt(pre)
    return nir.Linear(weight=weight.astype(np.float32))


def _port(size: int) -> nir.Input:
    return nir.Input({"input": np.array([size])})


def _graph(nodes: dict[str, nir.NIRNode], edges: list[tuple[str, str]] | None = None) -> Any:
    """The network of nodes, one after the other where no edges are given; the last neurons are the output."""
    size = next(node.v_threshold.size for node in reversed(nodes.values()) if isinstance(node, nir.LIF))
    nodes = {**nodes, "output": nir.Output({"output": np.array([size])})}
    metadata = {"nirbridge:dt": DT, "nirbridge:integrator": "euler", "nirbridge:reset": "to-value"}
    metadata |= {"nirbridge:compare": ">"}
    return nb.load(nir.NIRGraph(nodes, edges or list(pairwise(nodes)), metadata=metadata))


def _seeded(network: Any, text: str, steps: int = 20, rate: float = 0.2, **options: Any) -> Case:
    inputs = _spikes(steps, 2, network.inputs[0].shape, rate)
    told = f"{text}; random spikes, {rate:g} per time step, {steps} time steps, 2 samples"
    return Case(network, inputs, None, told, MappingProxyType(options))


def _recurrent() -> Case:
    nodes = {"input": _port(16), "w": _linear(48, 16, 1), "a": _lif(48), "r": _linear(48, 48, 2, 1.5)}
    nodes |= {"v": _linear(8, 48, 3), "b": _lif(8)}
    edges = [("input", "w"), ("w", "a"), ("a", "r"), ("r", "a"), ("a", "v"), ("v", "b"), ("b", "output")]
    return _seeded(_graph(nodes, edges), "48 recurrent neurons, 8 outputs")


def _two_cores() -> Case:
    nodes = {"input": _port(32), "w": _linear(1200, 32, 4), "a": _lif(1200), "v": _linear(10, 1200, 5), "b": _lif(10)}
    return _seeded(_graph(nodes), "1,200 and 10 neurons, dense")


def _four_tiles() -> Case:
    nodes: dict[str, nir.NIRNode] = {"input": _port(32)}
    pre = 32
    for number, size in enumerate((64, 64, 64, 10)):
        nodes |= {f"w{number}": _linear(size, pre, 6 + number), f"p{number}": _lif(size)}
        pre = size
    pins = {f"p{number}": (core,) for number, core in enumerate((0, 5, 37, 78))}
    return _seeded(_graph(nodes), "four dense layers, each on a tile of its own", pins=pins)


def _delayed() -> Case:
    delay = np.random.default_rng(10).integers(0, 6, 40) * DT
    nodes = {"input": _port(24), "w": _linear(40, 24, 11), "a": _lif(40), "d": nir.Delay(delay)}
    nodes |= {"v": _linear(10, 40, 12), "b": _lif(10)}
    return _seeded(_graph(nodes), "delays of 0 to 5 time steps between two dense layers")


def _residual() -> Case:
    nodes = {"input": _port(24), "w1": _linear(32, 24, 13), "a": _lif(32), "w2": _linear(32, 32, 14), "b": _lif(32)}
    nodes |= {"w3": _linear(32, 32, 15), "skip": _linear(32, 32, 16), "c": _lif(32)}
    edges = [("input", "w1"), ("w1", "a"), ("a", "w2"), ("w2", "b"), ("b", "w3"), ("w3", "c"), ("a", "skip")]
    edges += [("skip", "c"), ("c", "output")]
    return _seeded(_graph(nodes, edges), "three dense layers and one around the second")


CASES: Mapping[str, Callable[[], Case]] = MappingProxyType(
    {
        "digits_cnn": lambda: _digits("digits_cnn"),
        "digits_mlp": lambda: _digits("digits_mlp"),
        "cnn_sinabs": lambda: _paper("02_cnn/cnn_sinabs.nir", 0.05, 10),
        "braille": lambda: _paper("03_rnn/braille_noDelay_bias_zero.nir", 0.1, 50),
        "dvs_gesture": _dvs_gesture,
        "recurrent": _recurrent,
        "two_cores": _two_cores,
        "four_tiles": _four_tiles,
        "delayed": _delayed,
        "residual": _residual,
    }
)
"""Name -> the network with its inputs."""
