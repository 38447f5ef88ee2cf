"""Eleven planted faults, each in a copy of the tree: whether the campaign finds it, and after how many inputs.

``python -m tests.fuzz.planted`` prints a row for each; ``--only NAME`` takes one. A fault is a piece of text that
stands once in a file of nirbridge, and what stands there instead.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INPUTS, NETWORKS = 6000, 600


@dataclass(frozen=True, slots=True)
class Fault:
    """``by``: the target of the campaign that is to find it, or ``networks``."""

    name: str
    by: str
    file: str
    right: str
    wrong: str


FAULTS = (
    Fault(
        "runs of a chip have any length",
        "chip",
        "chips/schema.py",
        "RUN_TARGETS_MAX = 4096\n",
        "RUN_TARGETS_MAX = 10**12\n",
    ),
    Fault(
        "values that lie in another file are read",
        "nir",
        "importers/nirfile/hdf5/scan.py",
        "    if plist.get_external_count():\n",
        "    if plist.get_external_count() > 1:\n",
    ),
    Fault(
        "a text of no size is read for ever",
        "nir",
        "importers/nirfile/hdf5/items.py",
        "        at = start + -(-size // 8) * 8\n",
        "        at = start + -(-size // 8) * 8 if size else at\n",
    ),
    Fault(
        "bytes that are no UTF-8 leave as they are",
        "chip",
        "chips/load.py",
        '    try:\n        record = tomllib.loads(data.decode("utf-8"))\n',
        '    text = data.decode("utf-8")\n    try:\n        record = tomllib.loads(text)\n',
    ),
    Fault(
        "a shape of any size is filled with zeros",
        "options",
        "cli/commands/import_.py",
        "math.prod(shape) > 10**8",
        "math.prod(shape) < 1",
    ),
    Fault(
        "outputs keep their unfinished form",
        "commands",
        "files/atomic.py",
        "            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)\n",
        "            os.link(part, name + '.part', src_dir_fd=folder, dst_dir_fd=folder)\n"
        "            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)\n",
    ),
    Fault(
        "a synapse may come from beyond the source",
        "network",
        "network/check.py",
        "    if count and not 0 <= int(part.indices.min()) <= int(part.indices.max()) < columns:\n",
        "    if count and not 0 <= int(part.indices.min()):\n",
    ),
    Fault(
        "slots count within a slice, not within a core",
        "networks",
        "simulators/mapped/tables.py",
        "            owner[piece.population][1, piece.neurons] = np.arange(piece.start, piece.stop)\n",
        "            owner[piece.population][1, piece.neurons] = np.arange(len(piece.neurons))\n",
    ),
    Fault(
        "strides of convolutions change places",
        "networks",
        "simulators/mapped/tables.py",
        "place[axis] * operator.stride[axis]",
        "place[axis] * operator.stride[-1 - axis]",
    ),
    Fault(
        "delays of 2 and more are one time step short",
        "networks",
        "simulators/mapped/tables.py",
        "    return own[source] + late[target]\n",
        "    return own[source] + late[target] - (own[source] > 1)\n",
    ),
    Fault(
        "membranes do not saturate",
        "networks",
        "simulators/mapped/core.py",
        "np.clip(_decayed(self.v, self.dv) + self.u + self.bias, -most, most)",
        "np.clip(_decayed(self.v, self.dv) + self.u + self.bias, -(most << 9), most << 9)",
    ),
)


def planted(fault: Fault, folder: Path) -> None:
    """A copy of the tree with the fault in it."""
    for name in ("nirbridge", "tests", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "nirbridge" / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.right) != 1:
        raise SystemExit(f"{fault.name}: the text to change stands {text.count(fault.right)} times in {fault.file}")
    path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")


def hunted(fault: Fault) -> tuple[int, str]:
    """(inputs that it took, what was said); 0: the campaign did not find it."""
    with tempfile.TemporaryDirectory(prefix="nirbridge-planted-") as name:
        folder = Path(name)
        planted(fault, folder)
        result = folder / "found.json"
        if fault.by == "networks":
            command = ["tests.fuzz.networks", "--networks", str(NETWORKS), "--until-failure"]
        else:
            command = ["tests.fuzz.campaign", "--only", fault.by, "--inputs", str(INPUTS), "--until-failure"]
        environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-m", *command, "--json", str(result)], cwd=folder, env=environment, capture_output=True
        )
        if not result.is_file():
            raise SystemExit(f"{fault.name}: {done.stderr.decode('utf-8', 'replace')[-500:]}")
        return _first(json.loads(result.read_text("utf-8")))


def _first(found: dict[str, object] | list[dict[str, object]]) -> tuple[int, str]:
    tally = found[0] if isinstance(found, list) else found
    failures = tally["failures"]
    if not isinstance(failures, list) or not failures:
        return 0, ""
    if isinstance(failures[0], list):
        return failures[0][0] + 1, failures[0][1]
    return int(str(tally["cases"])), str(failures[0])


def main() -> int:
    """Hunts for every fault; 1 where one is not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[fault.name for fault in FAULTS], action="append")
    missed = 0
    for fault in FAULTS:
        if fault.name not in (parser.parse_args().only or [fault.name]):
            continue
        took, said = hunted(fault)
        missed += not took
        shown = re.sub(r"/\S*/", "", said)[:110]
        print(
            f"{fault.name}: " + (f"found by {fault.by} at input {took}: {shown}" if took else "NOT FOUND"), flush=True
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
