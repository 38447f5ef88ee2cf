"""The networks of the page of programs, each with one sample of spikes.

Weights of `net_a` and `recurrent` are on a grid of 2^-10, where float32 sums are exact in any order. The digits models
see images of scikit-learn's test set one after the other; the CNN of NIR's paper a blob that moves, its network for
Braille reading spikes from a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

import nirbridge as nb
from benchmarks import sim_nets
from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Projection

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "nir_paper"
IMAGES = 8
BRAILLE = "03_rnn/braille_noDelay_bias_zero.nir"


class Case(NamedTuple):
    """A network, its input ``[steps, *shape]``, a sentence, and the NIR file of just this network, if any."""

    network: Network
    spikes: Array
    text: str
    file: Path | None = None


def _digits(name: str) -> Case:
    from examples.digits import test_spikes

    file = ROOT / "examples" / "models" / f"{name}.nir"
    network = nb.load(file)
    spikes, _ = test_spikes()
    one_after_the_other = spikes[:, :IMAGES].swapaxes(0, 1).reshape(-1, *network.inputs[0].shape)
    return Case(network, one_after_the_other, f"trained; {IMAGES} test images, one after the other", file)


def _cnn_sinabs() -> Case:
    net = sim_nets.net_b(DATA / "02_cnn" / "cnn_sinabs.nir")
    spikes = sim_nets.moving_blob(net, 0.02, batch=1)
    return Case(net.network, spikes, "trained; weights rounded to multiples of 2^-10; a blob that moves")


def _braille() -> Case:
    file = DATA / BRAILLE
    if not file.is_file():
        raise FileNotFoundError(file)
    network = nb.load(file)
    spikes = (np.random.default_rng(0).random((256, *network.inputs[0].shape)) < 0.1).astype(np.uint8)
    return Case(network, spikes, "trained, recurrent; random spikes", file)


def _net_a() -> Case:
    net = sim_nets.net_a()
    return Case(net.network, sim_nets.bernoulli(net, 0.1, batch=1), "784-1000-10 LIF; random spikes")


def delayed(seed: int = 3) -> Case:
    """Network C with delays: 1 to 8 time steps among the neurons, by source, and 3 to the outputs."""
    net = sim_nets.net_c()

    def later(p: Projection) -> Projection:
        if p.is_back:
            return replace(p, delay_steps=freeze(np.random.default_rng(seed).integers(1, 9, 140)))
        return replace(p, delay_steps=freeze(np.int64(3))) if p.target == "out" else p

    network = replace(net.network, projections=tuple(map(later, net.network.projections)))
    text = "12-140-10 CubaLIF, recurrent with delays of 1 to 8 time steps; random spikes"
    return Case(network, sim_nets.bernoulli(net, 0.1, batch=1), text)


CASES: Mapping[str, Callable[[], Case]] = MappingProxyType(
    {
        "digits_mlp": lambda: _digits("digits_mlp"),
        "digits_cnn": lambda: _digits("digits_cnn"),
        "cnn_sinabs": _cnn_sinabs,
        "braille": _braille,
        "recurrent": delayed,
        "net_a": _net_a,
    }
)
"""Name -> the network with its input."""
