"""A sparse reservoir built in Python, saved as a network file, loaded, run and mapped.

python examples/sparse_reservoir.py [NEURONS] [CHIP]

No matrix is ever dense: the same lines serve 100,000 neurons.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.errors import NirbridgeError
from nirbridge.network import neuron, sparse_operator
from nirbridge.network.model import Network, Population, Port, Projection, Timing

FAN_IN, CHANNELS = 30, 64


def reservoir(neurons: int, seed: int = 0) -> Network:
    """Neurons with ``FAN_IN`` random synapses each, driven by every input channel in turn, read out by ten units."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(neurons), FAN_IN)
    columns = rng.integers(0, neurons, neurons * FAN_IN)
    weights = rng.normal(0.0, 0.2, neurons * FAN_IN).astype(np.float32)
    loop = sparse.coo_array((weights, (rows, columns)), shape=(neurons, neurons))
    drive = sparse.coo_array((np.ones(neurons), (np.arange(neurons), np.arange(neurons) % CHANNELS)))
    chosen = sparse.random_array((10, neurons), density=0.1, rng=rng)
    one = freeze(np.int64(1))
    return Network(
        dt=1e-3,
        timing=Timing(1e-3, "euler", "to-value", ">", "per-second"),
        populations=(
            Population("reservoir", (neurons,), neuron("LIF", a_mem=0.9)),
            Population("readout", (10,), neuron("LIF", a_mem=0.9)),
        ),
        projections=(
            Projection("in", "reservoir", sparse_operator(drive)),
            Projection("reservoir", "reservoir", sparse_operator(loop), delay_steps=one, is_back=True),
            Projection("reservoir", "readout", sparse_operator(chosen)),
            Projection("readout", "out", sparse_operator(sparse.eye_array(10))),
        ),
        inputs=(Port("in", (CHANNELS,)),),
        outputs=(Port("out", (10,)),),
    )


def main(neurons: int | str = 2000, chip: str = "loihi2") -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reservoir.net.npz"
        nb.save(reservoir(int(neurons)), path)
        network = nb.load(path)
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, {network.neurons:,} neurons")
    spikes = (np.random.default_rng(1).random((20, CHANNELS)) < 0.2).astype(np.uint8)
    recording = nb.simulate(network, spikes, record="reservoir:s")
    print(f"{int(recording['reservoir'].sum()):,} spikes of the reservoir in 20 time steps")
    mapped = nb.map(network, chip, effort="fast")
    report = mapped.partition.report
    print(f"cores of {chip}: {report.cores}, lower bound {report.cores_lower_bound}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except NirbridgeError as error:
        sys.exit(f"{error}")
