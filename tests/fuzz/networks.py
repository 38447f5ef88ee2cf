"""Random networks on random chips and maps, in every simulator: ``python -m tests.fuzz.networks --networks 1000``.

Fixed and mapped have to be equal in every bit, the reference within the bound that ``verify`` states, and the network
the same again after it was a NIR graph. ``--in-lava N`` runs N of the networks in Lava too, several in one program.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.pipeline import quantize_plan, verify_network
from tests.fuzz.random_cases import Case, cases, comes_back, compare, inputs, narrow, wrong

FAILURES_KEPT = 20


@dataclass(slots=True)
class Found:
    """``compared``: cases that ran in every way, ``distinct``: their networks; ``refused``: why others did not run."""

    compared: int = 0
    spiking: int = 0
    in_lava: int = 0
    spikes: int = 0
    cores_most: int = 0
    failed: int = 0
    cpu_s: float = 0.0
    distinct: int = 0
    cases: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def fail(self, where: str, said: object) -> None:
        """Notes a failure."""
        self.failed += 1
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(f"{where}: {said}"[:500])


def campaign(count: int, seed: int, in_lava: int = 0, group: int = 10, *, until_failure: bool = False) -> Found:
    """Until ``count`` networks were compared, and ``in_lava`` of them in Lava; or until something failed."""
    found, start = Found(), time.process_time()
    waiting: list[Case] = []
    known: set[bytes] = set()
    with tempfile.TemporaryDirectory(prefix="nirbridge-fuzz-") as folder:
        for number, case in enumerate(cases(100 * (count + in_lava), seed)):
            if (found.compared >= count and found.in_lava >= in_lava) or (until_failure and found.failed):
                break
            found.cases += 1
            _one(case, found, known, Path(folder) if number % 10 == 0 else None)
            if found.in_lava < in_lava and _suits(case):
                waiting.append(case)
            if len(waiting) == min(group, in_lava - found.in_lava) > 0:
                _together(waiting, found)
                waiting.clear()
            if found.compared % 500 == 0 and found.compared:
                print(f"{found.compared:,} compared, {found.failed} failed", flush=True)
    found.cpu_s = time.process_time() - start
    return found


def _one(case: Case, found: Found, known: set[bytes], folder: Path | None) -> None:
    where = f"network of seed {case.seed}"
    try:
        back = comes_back(case.network, folder)
        result = compare(case)
    except (ModelError, DoesNotFit) as error:
        why = f"{type(error).__name__}: {error.problems[0].limit or error.problems[0].found}"[:90]
        found.refused[why] = found.refused.get(why, 0) + 1
        return
    except Exception as error:
        found.fail(where, f"{type(error).__name__}: {error}")
        return
    for said in [*back, *wrong(result), *(narrow(case) if case.seed % 4 == 0 else ())]:
        found.fail(where, said)
    sent = [a.sum(dtype=np.int64) for (_, v), a in result.recordings["fixed"].arrays.items() if v == "s"]
    known.add(hashlib.sha256(repr(case.network).encode("utf-8", "replace")).digest())
    found.compared, found.distinct = found.compared + 1, len(known)
    found.spikes += int(sum(sent))
    found.spiking += int(sum(sent) > 0)
    found.cores_most = max(found.cores_most, int(result.recordings["mapped"].meta["cores"]))


def _suits(case: Case) -> bool:
    """True if the network runs on the chip that groups share, and sends spikes there."""
    try:
        result = compare(replace(case, chip=_shared_chip(), bits=None))
    except (ModelError, DoesNotFit):
        return False
    return any(a.any() for (_, v), a in result.recordings["fixed"].arrays.items() if v == "s")


def _shared_chip() -> Chip:
    from tests.simulators.mapped.test_mapped import small_chip

    return small_chip(12)


def _together(waiting: list[Case], found: Found) -> None:
    """Several networks side by side as one program: the start of Lava takes the time."""
    from tests.emitters.lava.test_all_ways_equal import side_by_side

    where = f"networks of seeds {', '.join(str(case.seed) for case in waiting)} in Lava"
    network = side_by_side([case.network for case in waiting])
    given_ = inputs(network, 24, None, waiting[0].seed)
    try:
        result = verify_network(
            network, _shared_chip(), given_, target="lava", quantization=quantize_plan(network, {}, None, {})
        )
    except Exception as error:
        found.fail(where, f"{type(error).__name__}: {error}")
    else:
        for said in wrong(result):
            found.fail(where, said)
        missing = {"mapped", "lava"} - result.recordings.keys()
        if missing:
            found.fail(where, f"{missing} did not run: {result.left_out}")
        sent = result.recordings["lava"].arrays
        for k in range(len(waiting)):
            found.in_lava += any(a.any() for (node, v), a in sent.items() if v == "s" and node.startswith(f"{k} "))


def main() -> int:
    """Runs what is asked for and prints what was found; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--in-lava", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--until-failure", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found = campaign(asked.networks, asked.seed, asked.in_lava, until_failure=asked.until_failure)
    print(
        f"{found.compared:,} cases compared ({found.distinct:,} networks, {found.spiking:,} with spikes, "
        f"{found.spikes:,} spikes; up to {found.cores_most} cores), {found.in_lava:,} in Lava, "
        f"{sum(found.refused.values()):,} refused, {found.failed:,} failed, {found.cpu_s:.0f} CPU s"
    )
    print("\n".join([f"  refused {n}: {why}" for why, n in Counter(found.refused).most_common(6)] + found.failures))
    if asked.json:
        asked.json.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
