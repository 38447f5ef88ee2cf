"""Run fuzz targets, each in a separate process with limits: ``python -m tests.fuzz.campaign --inputs 20000``.

A child writes down which input it is at before it reads it, so that a crash or a hang in compiled code is known by
target, seed and index; the same three give the same bytes again (``--only TARGET --start INDEX --inputs 1``).
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.choices import Choices, recipe
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.traps import trap
from tests.fuzz.watch import Outcome, Watch

PATIENCE = 300.0
"""Seconds without a new input after which a child is ended; CPU time ends a slow input long before."""
WARM, FAILURES_KEPT = 20, 20
COUNTERS = struct.Struct("<4q")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Tally:
    """What one target did."""

    target: str
    inputs: int = 0
    first: int = 0
    accepted: int = 0
    slowest_s: float = 0.0
    most_bytes: int = 0
    cpu_s: float = 0.0
    failed: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    coverage: dict[str, tuple[int, int]] = field(default_factory=dict)

    def fail(self, index: int, text: str) -> None:
        """Notes a failure: one of each text, and not more than someone would read."""
        self.failed += 1
        known = {said.split(":")[0] + said.split(":")[1] if said.count(":") else said for _, said in self.failures}
        short = text.split(":")[0] + text.split(":")[1] if text.count(":") else text
        if short not in known and len(self.failures) < FAILURES_KEPT:
            self.failures.append((index, text))

    def add(self, other: Tally) -> None:
        """Counts another stretch of the same target."""
        for name in ("inputs", "first", "accepted", "cpu_s", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest_s, self.most_bytes = max(self.slowest_s, other.slowest_s), max(self.most_bytes, other.most_bytes)
        self.failures = [*self.failures, *other.failures][:FAILURES_KEPT]
        for name, (hit, lines) in other.coverage.items():
            self.coverage[name] = max(self.coverage.get(name, (0, lines)), (hit, lines))


# -- one input -------------------------------------------------------------------------------------------------------


class Session:
    """A folder with good files and decoys, and one target that reads in it."""

    def __init__(self, target: Target, folder: Path) -> None:
        from tests.fuzz import models
        from tests.fuzz.archives import npy, npz

        if "numba" not in sys.modules or sys.modules["numba"]:
            models.sweep()  # whose maps take compiled loops
        sys.modules["numba"] = None  # type: ignore[assignment]  # it would compile, and write its cache beside the sources
        sys.dont_write_bytecode = True  # nor is that of a module which a reader imports a file that the reader writes
        self.target, self.folder = target, folder
        (folder / "decoy.h5").write_bytes(models.nir_images()[0])
        good = {"a.nir": models.nir_images()[0], "a.map.json": models.map_text().encode()}
        if target.writes:
            good["in.npz"] = npz([(f"{name}.npy", npy(a)) for name, a in models.inputs().items()])
            good["r.npz"] = npz([(f"{name}.npy", npy(a)) for name, a in models.recording_arrays().items()])
            for name, data in good.items():
                (folder / name).write_bytes(data)
        os.chdir(folder)
        models.recording_arrays(), models.program_files(), models.chip_text(), models.mlir_text()
        self.watch = Watch(folder)

    def run(self, data: bytes) -> Outcome:
        """The outcome of one recipe."""
        try:
            made = self.target.make(Choices(data))
        except Exception as error:  # a fault of these tools, which is told but is no fault of the reader
            return Outcome(False, f"the input was not made: {type(error).__name__}: {error}")
        if self.target.file:
            path = self.folder / self.target.file
            path.write_bytes(made)
            made = path
        return self.watch.run(lambda: self.target.read(made), writes_allowed=self.target.writes)


# -- the child -------------------------------------------------------------------------------------------------------


def child(asked: argparse.Namespace) -> Tally:
    """Runs the inputs of a target that are requested."""
    name, seed, start, measure = asked.child, asked.seed, asked.start, asked.coverage
    target = TARGETS[name] if name in TARGETS else trap(name)
    tracer = _tracer(target) if measure else None
    warnings.simplefilter("ignore")
    tally = Tally(name)
    with tempfile.TemporaryDirectory(prefix="nirbridge-fuzz-") as folder, _mapped(asked.status) as at:
        session = Session(target, Path(folder))
        for index in range(WARM if name in TARGETS else 0):  # imports and caches are no cost of an input
            session.run(recipe(f"{name} warm", seed, index))
        session.watch.limit_memory()
        session.watch.counting(target.first)
        for index in range(start, start + asked.inputs):
            at[:] = COUNTERS.pack(index, tally.inputs, tally.first, tally.accepted)
            outcome = session.run(recipe(name, seed, index))
            count(tally, index, outcome)
            if outcome.failure:  # known even if a later input ends the process
                print(json.dumps([index, outcome.failure]), flush=True)
                if asked.until_failure:
                    break
        os.chdir("/")
    tally.coverage = _covered(tracer, target) if tracer else {}
    return tally


def count(tally: Tally, index: int, outcome: Outcome) -> None:
    """Counts one input."""
    tally.inputs += 1
    tally.first += outcome.first or outcome.accepted
    tally.accepted += outcome.accepted
    tally.cpu_s += outcome.seconds
    tally.slowest_s, tally.most_bytes = max(tally.slowest_s, outcome.seconds), max(tally.most_bytes, outcome.bytes)
    if outcome.failure:
        tally.fail(index, outcome.failure)


def _mapped(status: Path) -> mmap.mmap:
    with status.open("r+b") as file:
        return mmap.mmap(file.fileno(), COUNTERS.size)


def _tracer(target: Target) -> Any:
    import coverage

    tracer = coverage.Coverage(data_file=None, include=[str(ROOT / "nirbridge" / name) for name in target.sources])
    tracer.start()
    return tracer


def _covered(tracer: Any, target: Target) -> dict[str, tuple[int, int]]:
    tracer.stop()
    found = {}
    for name in target.sources:
        _, lines, _, missing, _ = tracer.analysis2(str(ROOT / "nirbridge" / name))
        found[name] = (len(lines) - len(missing), len(lines))
    return found


# -- the parent ------------------------------------------------------------------------------------------------------


def campaign(
    name: str, seed: int, start: int, count: int, *, measure: bool = False, until_failure: bool = False
) -> Tally:
    """All inputs of a target; a child that dies or stands still is a failure of its input, and the next one goes on."""
    total, at, stop = Tally(name), start, start + count
    while at < stop:
        with tempfile.TemporaryDirectory(prefix="nirbridge-fuzz-") as folder:
            status, result = Path(folder, "status"), Path(folder, "result")
            status.write_bytes(COUNTERS.pack(-1, 0, 0, 0))
            command = [sys.executable, "-m", "tests.fuzz.campaign", "--child", name, "--seed", str(seed)]
            command += ["--start", str(at), "--inputs", str(stop - at), "--status", str(status)]
            command += ["--coverage"] if measure else []
            ended = _watched([*command, *(["--until-failure"] if until_failure else [])], status, result)
            reached, *counts = COUNTERS.unpack(status.read_bytes())
            lines = [json.loads(line) for line in result.read_text().splitlines()]
            if not ended and lines:
                total.add(Tally(**lines[-1]))
                return total
            if reached < 0 and ended.startswith("hang"):
                total.fail(at, f"{ended}, before the first input was counted")
                return total
            if reached < 0:
                raise RuntimeError(f"{name} does not start: {ended}")
        total.add(Tally(name, counts[0] + 1, *counts[1:]))
        for index, text in [*lines, (reached, ended or "the process ended without a word")]:
            total.fail(index, text)
        at = stop if until_failure else reached + 1
    return total


def _watched(command: list[str], status: Path, result: Path) -> str:
    """Why a child did not end well; empty where it did."""
    with result.open("wb") as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err)
        last, since = b"", time.monotonic()
        while process.poll() is None:
            time.sleep(0.05)
            now = status.read_bytes()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE + 120 * (COUNTERS.unpack(now)[0] < 0):
                process.kill()
                process.wait()
                return f"hang: no end within {PATIENCE:g} s"
        err.seek(0)
        text = err.read().decode("utf-8", "replace").strip().splitlines()
    return f"crash: exit code {process.returncode}: {text[-1] if text else ''}" if process.returncode else ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, help="of all targets together")
    parser.add_argument("--each", type=int, metavar="N", help="inputs of each target, instead")
    parser.add_argument("--only", action="append", choices=list(TARGETS), help="a target; then --inputs are its own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--coverage", action="store_true", help="measure the lines of the readers that were run")
    parser.add_argument("--until-failure", action="store_true", help="stop at the first failure of a target")
    parser.add_argument("--json", type=Path, help="write the tallies there")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--status", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Runs what is asked for and prints a row for each target; 1 where anything failed."""
    asked = _arguments()
    if asked.child:
        print(json.dumps(asdict(child(asked))), flush=True)
        return 0
    shares = sum(t.share for t in TARGETS.values())
    tallies = []
    for name in asked.only or TARGETS:
        number = asked.each or (asked.inputs if asked.only else max(1, asked.inputs * TARGETS[name].share // shares))
        options = {"measure": asked.coverage, "until_failure": asked.until_failure}
        tallies.append(campaign(name, asked.seed, asked.start, number, **options))
        print(row(tallies[-1]), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(t) for t in tallies], indent=1) + "\n", encoding="utf-8")
    return 1 if any(t.failed for t in tallies) else 0


def row(t: Tally) -> str:
    """A tally in a line, and a line for each kind of failure."""
    hit, lines = (sum(pair[k] for pair in t.coverage.values()) for k in (0, 1))
    covered = f", {hit / lines:.0%} of {lines:,} lines" if lines else ""
    count = max(1, t.inputs)
    said = (
        f"{t.target:<12} {t.inputs:>8,} inputs, {t.first / count:4.0%} past the first check, {t.accepted / count:4.0%} "
        f"accepted, slowest {t.slowest_s:.2f} s, most {t.most_bytes / 2**20:.0f} MB{covered}, {t.cpu_s:.0f} CPU s, "
        f"{t.failed:,} failed"
    )
    return "\n".join([said, *(f"    input {index}: {text}" for index, text in t.failures)])


if __name__ == "__main__":
    sys.exit(main())
