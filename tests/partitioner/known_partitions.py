"""Stored partitions of small networks: slices, use of each core, bounds and refusals.

``python -m tests.partitioner.known_partitions`` writes them again, after a change of the search that is meant.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nirbridge.errors import NirbridgeError
from nirbridge.partitioner import PartitionOptions, partition
from tests.partitioner.cases import chip
from tests.partitioner.nets import network_of

KNOWN = Path(__file__).parent / "known" / "partitions.json"
NETWORKS = {
    "dense": "40 dense30 lif dense20 lif dense7 lif",
    "conv": "2x10x10 conv4k3 lif conv6k3s2 lif flatten dense10 lif",
    "pool": "1x12x12 conv5k3p1 if sumpool2 conv4k3p1 if sumpool2 flatten dense9 if",
    "back": "20 dense33 lif:rec dense5 lif",
    "one": "60 lif dense9 lif",
    "wide": "2x6x20 conv8k3p1 lif conv8k3p1 lif",
    "tiny": "3 lif dense2 lif",
}
CHIPS = {
    "words": chip(core={"neurons": 40, "input_axons": 190, "output_axons": 90}, words=65),
    "axons": chip(core={"neurons": 25, "input_axons": 60, "output_axons": 45}, words=400),
    "runs": chip(
        core={"neurons": 64, "input_axons": 200, "output_axons": 300}, words=190, run_free=False, run_targets_max=4
    ),
    "shared": chip(core={"neurons": 50, "input_axons": 190, "output_axons": 200}, words=65, shared_kernels=True),
    "few": chip(core={"neurons": 2, "input_axons": 3, "output_axons": 9}, words=9),
}
METHODS = ("sequential", "packed", "cp-sat")
OPTIONS = {
    "seed 5": PartitionOptions(seed=5),
    "fast": PartitionOptions(effort="fast"),
    "4 bits": PartitionOptions(weight_bits=4, method="packed"),
    "spread": PartitionOptions(spread=2, method="sequential"),
    "two chips": PartitionOptions(chips=2),
}
CASES = {f"{n}, {c}, {m}": (n, c, PartitionOptions(method=m)) for n in NETWORKS for c in CHIPS for m in METHODS} | {
    f"{n}, {c}, {o}": (n, c, own) for n, c in (("conv", "words"), ("dense", "runs")) for o, own in OPTIONS.items()
}


def outcome(name: str) -> Any:
    """The partition of a case, or why there is none."""
    network, on, options = CASES[name]
    try:
        found = partition(network_of(NETWORKS[network]), CHIPS[on], options)
    except NirbridgeError as error:
        return str(error).split("\n")
    report = found.report
    solved = {
        "cores": [report.cores, report.cores_lower_bound, report.cores_lower_bound_sliced],
        "status": report.status,
        "binding": report.binding,
        "bounds": dict(report.bounds),
        "bits": found.weight_bits,
    }
    if options.method == "cp-sat":  # of partitions of one size the solver may choose another in its next version
        return solved
    return solved | {
        "blocks": [[[piece.population, *map(list, piece.box)] for piece in block.slices] for block in found.blocks],
        "used": [list(block.used.values()) for block in found.blocks],
    }


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(outcome(name))}" for name in CASES)
    KNOWN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
