"""Check from shapes alone whether networks fit a chip, before any weight is trained.

    python examples/shapes_before_training.py

The weights are one value seen through a zero-stride view, so even a very large layer takes no memory.
"""

from __future__ import annotations

import itertools

import nir
import numpy as np

from nirbridge.chips import read_chip
from nirbridge.errors import DoesNotFit
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.pipeline import map_network


def lif(neurons: int) -> nir.LIF:
    """Neurons with some time constant; its value does not affect whether a network fits."""
    tau, one, zero = (np.broadcast_to(value, (neurons,)) for value in (1e-3, 1.0, 0.0))
    return nir.LIF(tau=tau, r=one, v_leak=zero, v_threshold=one, v_reset=zero)


def multilayer(*widths: int) -> nir.NIRGraph:
    """Input, then dense layers of spiking neurons."""
    nodes: list[nir.NIRNode] = [nir.Input({"input": np.array([widths[0]])})]
    for before, neurons in itertools.pairwise(widths):
        nodes += [nir.Linear(weight=np.broadcast_to(np.float32(1), (neurons, before))), lif(neurons)]
    return nir.NIRGraph.from_list(*nodes, nir.Output({"output": np.array([widths[-1]])}))


def main() -> None:
    chip = read_chip("loihi1")
    for widths in ((2312, 128, 10), (2312, 512, 512, 10), (4900, 128, 10)):
        print(" -> ".join(str(n) for n in widths))
        try:
            report = map_network(from_nir(multilayer(*widths)), chip).partition.report
        except DoesNotFit as error:
            print("".join(f"  no: {problem}\n" for problem in error.problems), end="")
        else:
            print(f"  yes: {report.cores} of {chip.mesh.cores} cores, {report.status}")


if __name__ == "__main__":
    main()
