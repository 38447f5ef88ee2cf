"""Coverage-guided fuzzing of the same targets: ``python -m tests.fuzz.guided --only nir`` (the extra ``fuzz``).

Atheris changes the bytes of recipes and keeps those that reach new lines of nirbridge. ``--keep`` puts what it kept
into ``tests/fuzz/corpus``, from which later runs start, and which the default tests read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.campaign import ROOT, Tally, row
from tests.fuzz.choices import RECIPE_BYTES, recipe
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
KEPT_MOST = 60
"""Recipes of a target that the corpus holds."""
RANDOM = 200
"""Random recipes that a guided run starts from, besides those of the corpus."""
SECONDS = 1200
"""Wall time after which a guided run is ended: a fault of the tools, or a hang that no signal ends."""


def kept(name: str) -> list[bytes]:
    """The recipes of the corpus."""
    path = CORPUS / f"{name}.txt"
    return [bytes.fromhex(line) for line in path.read_text("ascii").split()] if path.is_file() else []


def guided(name: str, inputs: int, seed: int, *, keep: bool = False) -> Tally:
    """The tally of a guided run; failures carry their recipes."""
    with tempfile.TemporaryDirectory(prefix="nirbridge-fuzz-") as folder:
        corpus, result = Path(folder, "corpus"), Path(folder, "result")
        corpus.mkdir()
        for at, data in enumerate(kept(name)):
            (corpus / f"kept{at}").write_bytes(data)
        for at in range(RANDOM):
            (corpus / f"random{at}").write_bytes(recipe(f"{name} corpus", seed, at))
        options = [f"-runs={inputs}", f"-max_len={RECIPE_BYTES}", "-len_control=0", "-timeout=60", f"-seed={seed + 1}"]
        code, said = _run(name, [*options, "-rss_limit_mb=0", str(corpus)], result)
        lines = [json.loads(line) for line in result.read_text("utf-8").splitlines()] if result.is_file() else []
        tally = Tally(**lines[-1]["tally"]) if lines else Tally(name)
        tally.failures = [(0, f"recipe {line['recipe']}: {line['said']}") for line in lines if line["said"]][:20]
        if code:
            tally.fail(tally.inputs, f"the process ended with {code}: {said[-300:]}")
        if keep and not code:
            _keep(name, corpus)
    return tally


def _run(name: str, options: list[str], result: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.fuzz.guided_child", name, str(result), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return -1, f"no end within {SECONDS} s"
    return done.returncode, done.stderr


def _keep(name: str, corpus: Path) -> None:
    """Recipes that reached something new, into the folder of the corpus: an even sample of them, short ones first."""
    found = sorted({p.read_bytes() for p in corpus.iterdir()} - {b""}, key=lambda data: (len(data), data))
    CORPUS.mkdir(exist_ok=True)
    spread = found[:: max(1, -(-len(found) // KEPT_MOST))]
    (CORPUS / f"{name}.txt").write_text("".join(f"{data.hex()}\n" for data in spread), encoding="ascii")
    print(f"{name}: {len(found)} recipes reached something new, {len(spread)} are kept")


def main() -> int:
    """Runs what is asked for and prints a row for each target; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=2000, metavar="N", help="inputs of each target")
    parser.add_argument("--only", action="append", choices=list(TARGETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="write the corpus")
    parser.add_argument("--json", type=Path, help="write the tallies there")
    asked = parser.parse_args()
    tallies = []
    for name in asked.only or TARGETS:
        tallies.append(guided(name, asked.each, asked.seed, keep=asked.keep))
        print(row(tallies[-1]), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(t) for t in tallies], indent=1) + "\n", encoding="utf-8")
    return 1 if any(t.failed for t in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
