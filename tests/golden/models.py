"""Six models and three chips whose results are pinned: two trained ones of ``examples``, four of drawn weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.network.model import Network
from nirbridge.pipeline import load_network, network_of_shapes

ROOT = Path(__file__).resolve().parents[2]
FILES = ("digits_cnn", "digits_mlp")
SHAPES = {
    "deep": "1x8x8 conv4k3p1 if avgpool2 conv6k3 lif flatten dense10 li",
    "recurrent": "40 dense60 lif:rec dense30 cubalif dense8 lif",
    "sequence": "3x32 conv6k5s2p2 lif conv6k3 lif flatten dense12 if",
    "wide": "96 dense300 if dense64 threshold dense6 li",
}
MODELS = (*FILES, *SHAPES)
CHIPS = {"loihi1": "loihi1", "loihi2": "loihi2", "my_chip": str(ROOT / "examples" / "chips" / "my_chip.toml")}
STEPS, RATE = 24, 0.4


def network_of(name: str) -> Network:
    """The network of a model: read from its file, or of shapes with weights drawn by its position."""
    if name in FILES:
        return load_network(model_file(name))
    network = network_of_shapes(SHAPES[name])
    rng = np.random.default_rng(MODELS.index(name))
    return replace(network, projections=tuple(_drawn(p, network, rng) for p in network.projections))


def model_file(name: str) -> Path:
    """The file of a model of ``FILES``."""
    return ROOT / "examples" / "models" / f"{name}.nir"


def inputs_of(network: Network) -> dict[str, Any]:
    """Spikes that are the same in every run: steps, two samples."""
    rng = np.random.default_rng(7)
    return {p.name: (rng.random((STEPS, 2, *p.shape)) < RATE).astype(np.uint8) for p in network.inputs}


def _drawn(projection: Any, network: Network, rng: np.random.Generator) -> Any:
    gains = {p.name: float(np.max(p.neuron.g_mem * p.neuron.g_syn)) for p in network.populations}
    operator = _with_weights(projection.operator, 1.0 / gains.get(projection.target, 1.0), rng)
    return replace(projection, operator=operator)


def _with_weights(operator: Any, size: float, rng: np.random.Generator) -> Any:
    """The operator with other weights, of which a fifth of the inputs reaches the threshold now and then."""
    if hasattr(operator, "parts"):
        return replace(operator, parts=tuple(_with_weights(part, size, rng) for part in operator.parts))
    weight = getattr(operator, "weight", None)
    if weight is None:
        return operator
    fan_in = np.prod(weight.shape[1:])
    return replace(operator, weight=freeze(rng.normal(0.4, 1.0, weight.shape) * size * 2 / np.sqrt(fan_in)))
