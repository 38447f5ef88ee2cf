"""Design a chip for a model: how many cores does it take if a core holds more, or less?

    python examples/own_chip.py

A chip is a TOML file; its record is plain data, so a variant is a copy with other numbers.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from nirbridge.chips import Chip, chip_from_dict, read_chip
from nirbridge.errors import DoesNotFit
from nirbridge.network.model import Network
from nirbridge.pipeline import load_network, map_network

HERE = Path(__file__).parent


def variant(chip: Chip, table: str, **numbers: int) -> Chip:
    """The chip with other numbers in one table of its file, checked as a file is."""
    record: dict[str, Any] = copy.deepcopy(dict(chip.record))
    record[table] = {**record[table], **numbers}
    return chip_from_dict(record)


def cores(network: Network, chip: Chip) -> str:
    """Cores and status in words, or the first reason why it does not fit."""
    try:
        report = map_network(network, chip).partition.report
    except DoesNotFit as error:
        return f"does not fit: {error.problems[0]}"
    return f"{report.cores} cores, {report.status} (at least {report.cores_lower_bound})"


def main() -> None:
    network = load_network(HERE / "models" / "digits_cnn.nir")
    chip = read_chip(HERE / "chips" / "my_chip.toml")
    for neurons, words in ((128, 4096), (256, 4096), (128, 8192), (256, 8192)):
        other = variant(variant(chip, "core", neurons=neurons), "synapses", words=words)
        print(f"{neurons} neurons and {words} words per core: {cores(network, other)}")


if __name__ == "__main__":
    main()
