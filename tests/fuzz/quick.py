"""Every target briefly, in one process: the corpus and seeded recipes (``python -m tests.fuzz.quick 120``)."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.campaign import Session, Tally, count
from tests.fuzz.choices import recipe
from tests.fuzz.guided import kept
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.traps import TRAPS, trap
from tests.fuzz.watch import SECONDS


def ran(target: Target, recipes: list[bytes]) -> Tally:
    """The tally of one target in this process."""
    tally = Tally(target.name)
    with tempfile.TemporaryDirectory(prefix="nirbridge-fuzz-") as folder:
        session = Session(target, Path(folder))
        session.watch.counting(target.first)
        session.watch.seconds = SECONDS if target.first else 0.3  # of a trap
        for index, data in enumerate(recipes):
            count(tally, index, session.run(data))
        os.chdir("/")
    return tally


def main() -> None:
    """Prints the tallies as JSON; the traps come last, under a limit of memory."""
    warnings.simplefilter("ignore")
    inputs = int(sys.argv[1])
    found = [ran(t, kept(name) + [recipe(name, 0, k) for k in range(inputs)]) for name, t in TARGETS.items()]
    with tempfile.TemporaryDirectory(prefix="nirbridge-fuzz-") as folder:
        Session(trap("exception"), Path(folder)).watch.limit_memory()
        os.chdir("/")
    found += [ran(trap(name), [b"1"]) for name in TRAPS if name != "crash"]
    print(json.dumps([asdict(tally) for tally in found]))


if __name__ == "__main__":
    main()
