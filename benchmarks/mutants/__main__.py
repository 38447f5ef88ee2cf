"""Plant a random sample of mutants and list those that no test detects.

``python -m benchmarks.mutants collect`` runs the suite once under coverage (twice its usual time), then
``python -m benchmarks.mutants --seed 1 --count 100`` judges a sample. The same seed gives the same sample of a tree.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

from benchmarks.mutants.contexts import CONTEXT, DURATIONS
from benchmarks.mutants.sites import Mutant, is_python, mutants
from benchmarks.mutants.work import Copy, Outcome, preload

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutants"
LEFT_OUT = {"nirbridge/testing/strategies.py"}
"""Helpers of tests."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.mutants", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("run", "collect"), default="run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=[""], help="files whose paths begin so")
    parser.add_argument("--tests", nargs="*", default=[], help="collect: only these, beside what is there")
    parser.add_argument("--skip", type=int, default=0, help="mutants of the sample that were judged before")
    parser.add_argument("--budget", type=float, default=90.0, help="CPU seconds of tests that a mutant has to survive")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="data of collect, and the copy")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    return collect(asked.folder, asked.tests) if asked.command == "collect" else run(asked)


def collect(folder: Path, tests: list[str]) -> int:
    """Which tests run which lines, and how long each takes. ``tests``: some files more, for a tree that is the same."""
    name = f"coverage{len(list(folder.glob('coverage*.data')))}.data"
    settings, durations = folder / "coverage.rc", folder / name.replace("coverage", "durations").replace("data", "json")
    settings.write_text(
        "[run]\nsource = nirbridge\ncore = ctrace\nparallel = true\npatch = subprocess\n"
        f"context = ${{{CONTEXT}-}}\ndata_file = {folder / name}\n"  # processes that a test starts belong to it
    )
    own = {**os.environ, DURATIONS: str(durations), "PYTHONPATH": str(ROOT)}
    own.setdefault("NIRBRIDGE_CACHE", str(ROOT / ".venv" / "cache"))  # Lava's own environment
    coverage = [sys.executable, "-m", "coverage"]
    command = [*coverage, "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-p", "benchmarks.mutants.contexts"]
    done = subprocess.run([*command, "-p", "no:cacheprovider", *tests], cwd=ROOT, env=own, check=False)
    subprocess.run([*coverage, "combine", f"--rcfile={settings}"], cwd=ROOT, env=own, check=True)
    return done.returncode


def run(asked: argparse.Namespace) -> int:
    """Judges a sample; 1 if a mutant survived."""
    copy = Copy(ROOT, asked.folder, asked.budget)
    chosen = list(sample(copy.tree, asked.seed, asked.count, tuple(asked.only)))[asked.skip :]
    preload()
    outcomes = []
    for at, mutant in enumerate(chosen, 1):
        outcome = judged(copy, mutant)
        outcomes.append(outcome)
        print(
            f"{at:4} {time.strftime('%H:%M')} {outcome.status:9} {outcome.seconds:6.1f} s {outcome.tests:5} tests",
            end=" ",
        )
        print(f"{mutant.path}:{mutant.line} {mutant.kind}; {outcome.by}")
        if outcome.status in ("survived", "untested"):
            print(diff(copy.tree, mutant))
        sys.stdout.flush()
    return summed_up(outcomes)


def sample(root: Path, seed: int, count: int, only: tuple[str, ...]) -> Iterator[Mutant]:
    """Mutants of different places, every place of the package equally likely."""
    files = sorted(p.relative_to(root).as_posix() for p in (root / "nirbridge").rglob("*.py"))
    places = [m for path in files if path.startswith(only) and path not in LEFT_OUT for m in mutants(root, path)]
    draw = random.Random(seed)
    draw.shuffle(places)
    for place in places:
        mutant = draw.choice(place)
        if count and is_python(mutant.apply((root / mutant.path).read_bytes())):
            count -= 1
            yield mutant


def judged(copy: Copy, mutant: Mutant) -> Outcome:
    """As ``Copy.judge``; a test that fails without the mutant, too, has killed nothing."""
    without = frozenset[str]()
    while True:
        outcome = copy.judge(mutant, without)
        if "::" not in outcome.by or copy.is_right(outcome.by):
            return outcome
        without |= {outcome.by}


def diff(root: Path, mutant: Mutant) -> str:
    """The change as a diff without context."""
    source = (root / mutant.path).read_bytes()
    both = [text.decode().splitlines() for text in (source, mutant.apply(source))]
    lines = list(unified_diff(*both, n=0, lineterm=""))[2:]
    return "\n".join(f"        {line}" for line in lines)


def summed_up(outcomes: list[Outcome]) -> int:
    """Prints the figures."""
    number = {s: sum(o.status == s for o in outcomes) for s in ("killed", "timeout", "survived", "untested")}
    print(f"{len(outcomes)} mutants: " + ", ".join(f"{n} {s}" for s, n in number.items()))
    return int(number["survived"] + number["untested"] > 0)


if __name__ == "__main__":
    sys.exit(main())
