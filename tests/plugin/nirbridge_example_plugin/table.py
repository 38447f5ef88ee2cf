"""An emitter that writes which core has which neurons, and a simulator that does everything twice."""

from __future__ import annotations

import math
from typing import Any

from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.simulate import Recording, simulate


def emit(quantized: QuantizedNetwork, mapped: MappedNetwork) -> Artifact:
    """One line for each slice of each core."""
    lines = ["core,population,neurons"]
    for number, block in enumerate(mapped.partition.blocks):
        for s in block.slices:
            neurons = math.prod(stop - start for start, stop in s.box)
            lines.append(f"{number},{s.population},{neurons}")
    text = "\n".join(lines) + "\n"
    return make_artifact({"cores.csv": text.encode()}, {"chip": quantized.chip})


def simulate_twice(network: Network, inputs: Any, *, steps: Any, record: Any, progress: Any) -> Recording:
    """The second of two equal runs."""
    for _ in range(2):
        found = simulate(network, inputs, steps=steps, record=record, progress=progress).recording
    return found
