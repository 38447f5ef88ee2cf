"""Random networks on random chips and maps, in every simulator: ``python -m tests.fuzz.networks --networks 1000``.

Fixed and mapped have to be equal in every bit, the reference within the bound that ``verify`` states, and the network
the same again after it was a NIR graph. ``--in-lava N`` runs N of the networks in Lava too, several in one program.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from nirbridge.chips import from_record, load_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.importers import load, save
from nirbridge.network import Network, differences, from_nir, to_nir
from nirbridge.passes import balance_delays
from nirbridge.pipeline import MapOptions, map_retimed, quantize_plan, verify_network
from nirbridge.quantization.quantize import Options, quantize
from nirbridge.simulators.verify import Verification, verify
from nirbridge.testing import networks

STRETCH = 100
"""Networks that hypothesis draws with one seed."""
FAILURES_KEPT = 20


@dataclass(slots=True)
class Found:
    """``compared``: networks that ran in every way; ``refused``: why the others did not."""

    compared: int = 0
    spiking: int = 0
    in_lava: int = 0
    spikes: int = 0
    cores_most: int = 0
    failed: int = 0
    cpu_s: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def fail(self, where: str, said: object) -> None:
        """Notes a failure."""
        self.failed += 1
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(f"{where}: {said}"[:500])


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A network and all that decides how it runs."""

    network: Network
    chip: Chip
    options: MapOptions
    bits: int | None
    batch: int | None
    seed: int


def cases(count: int, seed: int) -> Iterator[Case]:
    """Networks that are likely to be accepted, from as many seeds as it takes."""
    stretch = 0
    while count > 0:
        for network, number in _drawn(min(STRETCH, count), seed * 1_000_000 + stretch):
            yield _case(network, number)
            count -= 1
        stretch += 1


def _drawn(count: int, seed: int) -> list[tuple[Network, int]]:
    out: list[tuple[Network, int]] = []

    @seeded(seed)
    @settings(
        max_examples=count, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=HealthCheck
    )
    @given(networks(), st.integers(0, 2**32 - 1))
    def collect(network: Network, number: int) -> None:
        out.append((network, number))

    collect()
    return out[:count]


def _case(network: Network, number: int) -> Case:
    from tests.simulators.test_mapped import at_rest

    rng = np.random.default_rng(number)
    name = ("loihi2", "loihi2", "loihi1")[rng.integers(3)]
    record: dict[str, Any] = {k: dict(v) if hasattr(v, "items") else v for k, v in load_chip(name).record.items()}
    record["core"] |= {"neurons": int(rng.choice([1, 3, 8, 20, 50]))}
    if rng.random() < 0.3:
        record["synapses"] |= {"run_targets_max": int(rng.integers(1, 64)), "run_free": bool(rng.integers(2))}
    options = MapOptions(
        method=("sequential", "packed", "packed", "cp-sat")[rng.integers(4)] if rng.random() < 0.2 else "sequential",
        effort="fast",
        seed=int(rng.integers(100)),
        relays=False,
    )
    bits = (None, None, 4, 8)[rng.integers(4)]
    chosen = at_rest(network, number % 2**16) if rng.random() < 0.9 else network
    return Case(chosen, from_record(record), options, bits, (None, 2)[rng.integers(2)], number)


def inputs(network: Network, steps: int, batch: int | None, seed: int) -> dict[str, Any]:
    """Spikes, 4 in 10."""
    rng = np.random.default_rng(seed)
    lead = (steps,) if batch is None else (steps, batch)
    return {p.name: (rng.random((*lead, *p.shape)) < 0.4).astype(np.uint8) for p in network.inputs}


def compare(case: Case, steps: int = 12) -> Verification:
    """All ways but Lava. Raises ModelError or DoesNotFit for what the chip cannot do."""
    chip = case.chip
    retimed = balance_delays(
        case.network, delay_steps_max=chip.core.delay_steps, graded_spikes=chip.neuron.graded_spikes
    )
    quantized = quantize(retimed, chip, Options(weight_bits=case.bits))
    widest = max((p.weight_bits for p in quantized.projections), default=case.bits)
    mapped = map_retimed(retimed, chip, replace(case.options, weight_bits=widest))
    given_ = inputs(case.network, steps, case.batch, case.seed)
    return verify(retimed.reference, quantized, given_, steps=steps, mapping=mapped)


def wrong(found: Verification) -> list[str]:
    """What is not as promised: bits that differ from the integers', a population outside its bound."""
    said = [f"{x.population} is outside its bound at {x.broken}" for x in found.layers if not x.holds]
    fixed = found.recordings["fixed"].arrays
    for way in found.recordings.keys() - {"fixed", "reference"}:
        other = found.recordings[way].arrays
        keys = [key for key, array in fixed.items() if array.dtype.kind in "iu"]
        said += [f"{way} lacks {key}" for key in keys if key not in other]
        said += [
            f"{way} differs in {key}" for key in keys if key in other and not np.array_equal(other[key], fixed[key])
        ]
    said += [f"{p.a} and {p.b} differ" for p in found.pairs if p.promised and not p.comparison.equal]
    return said


def comes_back(network: Network, folder: Path | None) -> tuple[str, ...]:
    """What a NIR graph (a file where there is a folder) does not keep."""
    graph = to_nir(network)
    if folder is not None:
        save(graph, folder / "a.nir")
        graph = load(folder / "a.nir")
    return differences(from_nir(graph), network)


def campaign(count: int, seed: int, in_lava: int = 0, group: int = 10) -> Found:
    """Until ``count`` networks were compared, and ``in_lava`` of them in Lava."""
    found, start = Found(), time.process_time()
    waiting: list[Case] = []
    with tempfile.TemporaryDirectory(prefix="nirbridge-fuzz-") as folder:
        for number, case in enumerate(cases(100 * count, seed)):
            if found.compared >= count and found.in_lava >= in_lava:
                break
            _one(case, found, Path(folder) if number % 10 == 0 else None)
            if found.in_lava < in_lava and _suits(case):
                waiting.append(case)
            if len(waiting) == min(group, in_lava - found.in_lava) > 0:
                _together(waiting, found)
                waiting.clear()
            if found.compared % 500 == 0 and found.compared:
                print(f"{found.compared:,} compared, {found.failed} failed", flush=True)
    found.cpu_s = time.process_time() - start
    return found


def _one(case: Case, found: Found, folder: Path | None) -> None:
    where = f"network of seed {case.seed}"
    try:
        back = comes_back(case.network, folder)
        result = compare(case)
    except (ModelError, DoesNotFit) as error:
        found.refused[f"{type(error).__name__}: {error.problems[0].limit or error.problems[0].found}"[:90]] += 1
        return
    except Exception as error:
        found.fail(where, f"{type(error).__name__}: {error}")
        return
    for said in [*back, *wrong(result)]:
        found.fail(where, said)
    sent = [a.sum(dtype=np.int64) for (_, v), a in result.recordings["fixed"].arrays.items() if v == "s"]
    found.compared += 1
    found.spikes += int(sum(sent))
    found.spiking += sum(sent) > 0
    found.cores_most = max(found.cores_most, int(result.recordings["mapped"].meta["cores"]))


def _suits(case: Case) -> bool:
    """True if the network runs on the chip that groups share, and sends spikes there."""
    try:
        result = compare(replace(case, chip=_shared_chip(), bits=None))
    except (ModelError, DoesNotFit):
        return False
    return any(a.any() for (_, v), a in result.recordings["fixed"].arrays.items() if v == "s")


def _shared_chip() -> Chip:
    from tests.simulators.test_mapped import small_chip

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
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found = campaign(asked.networks, asked.seed, asked.in_lava)
    print(
        f"{found.compared:,} networks compared ({found.spiking:,} with spikes, {found.spikes:,} spikes; up to "
        f"{found.cores_most} cores), {found.in_lava:,} in Lava, {sum(found.refused.values()):,} refused, "
        f"{found.failed:,} failed, {found.cpu_s:.0f} CPU s"
    )
    print("\n".join([f"  refused {n}: {why}" for why, n in found.refused.most_common(6)] + found.failures))
    if asked.json:
        asked.json.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
