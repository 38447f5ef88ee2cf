"""Map a model file onto a chip, and print the cores with the proved lower bound.

python examples/map_a_model.py [MODEL.nir] [CHIP]
"""

from __future__ import annotations

import sys
from pathlib import Path

from nirbridge.chips import read_chip
from nirbridge.errors import NirbridgeError
from nirbridge.pipeline import load_network, map_network

MODEL = Path(__file__).parent / "models" / "digits_cnn.nir"


def main(model: str | Path = MODEL, chip_name: str = "loihi2") -> None:
    network, chip = load_network(model), read_chip(chip_name)
    mapped = map_network(network, chip)
    report = mapped.partition.report
    print(f"{network.neurons} neurons on {report.cores} of {chip.mesh.cores} cores of {chip.name}")
    print(f"any map needs at least {report.cores_lower_bound}: {report.status}")
    for block, core in zip(mapped.partition.blocks, mapped.cores, strict=True):
        slices = ", ".join(f"{s.population} {list(s.box)}" for s in block.slices)
        print(f"  core ({core.x}, {core.y}, {core.core}) of chip {core.chip}: {slices}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except NirbridgeError as error:
        sys.exit(f"{error}")
