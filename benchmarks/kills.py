"""Kill commands at random moments, and check the files and processes that remain.

python -m benchmarks.kills [--kills 500] [--seed 0] [--jobs 1] [--commands map,run] [--signals SIGINT] [-o FILE.jsonl]

A trial starts a command, sends SIGKILL, SIGTERM or SIGINT to it after a random fraction of its run time, and then
requires: the process ends within 5 s; its inputs are unchanged; each result is either the previous one, or complete
(the same bytes as without a kill), or absent; there is no traceback (except from Python's own start, before the first
line of nirbridge) and no "bug of nirbridge"; no process, shared memory, unfinished file or temporary folder remains.
Leftovers that a killed process could not remove, but the next run of the same command does, are counted separately. In
half of the trials an older result exists. Trial ``i`` of a seed always has the same command, signal, fraction and older
result. ``-o`` receives a line per finished trial, and trials that it already contains are not run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path("/dev/shm")
MARK = "NIRBRIDGE_KILLED_TRIAL"
HANG_SECONDS = 5.0
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENTRY = "import sys; sys.argv[0] = 'nirbridge'; from nirbridge.cli.main import main; main()"
"""What the console script runs."""
MODULE = "net.py:spiking --sample-shape 1,20"
COMMANDS = {
    "map": ("map cnn.nir --chip chip.toml -o out.map.json --report report", ("out.map.json", "report")),
    "quantize": ("quantize cnn.nir --chip loihi2 --calibrate in.npy -o out.q.npz", ("out.q.npz",)),
    "simulate": ("simulate cnn.nir --input in.npy --record *:s,v -o out.npz", ("out.npz",)),
    "emit": ("emit cnn.nir --to lava --chip loihi2 -o made", ("made",)),
    "run": ("run program --input small.npy -o out.npz", ("out.npz",)),
    "verify": ("verify small.nir --chip loihi2 --to lava --steps 10", ()),
    "import": ("import net.py:net --from torch --calibrate flat.npy --sample-shape 20 -o out.nir", ("out.nir",)),
    "map_module": (f"map {MODULE} --chip loihi2 --effort fast -o out.map.json", ("out.map.json",)),
    "simulate_module": (f"simulate {MODULE} --input small.npy -o out.npz", ("out.npz",)),
    "sweep": ("sweep sweep.toml -o out.csv", ("out.csv",)),
    "report": ("report cnn.nir -o out.html", ("out.html",)),
    "lower": ("lower small.nir -o out.mlir", ("out.mlir",)),
    "bench": ("bench small.nir --backend reference --backend fast --steps 5", ()),
}
"""Command line, and what it writes."""
ALLOWED = {signal.SIGKILL: (-9, 0), signal.SIGTERM: (-15, 0), signal.SIGINT: (130, -2, 0)}
"""Exit codes. 0: the command was done; -2: the signal came before Python itself handles it."""
NET = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 10))
import snntorch
spiking = torch.nn.Sequential(torch.nn.Linear(20, 30), snntorch.Leaky(beta=0.9, init_hidden=True))
"""
SWEEP = """
models = ["small.nir"]
chips = ["loihi1", "loihi2"]
effort = "fast"
"""
SMALL = "20 dense30 lif dense10 lif"


@dataclass(frozen=True, slots=True)
class Trial:
    """One kill."""

    number: int
    command: str
    signal: int
    share: float
    old: bool


@dataclass(slots=True)
class Outcome:
    """What came of it: ``faults`` are wrong, ``swept`` was left and went with the next run of the same command."""

    trial: Trial
    after_seconds: float
    end_seconds: float
    code: int
    faults: list[str] = field(default_factory=list)
    swept: list[str] = field(default_factory=list)


def trials(count: int, seed: int, names: Sequence[str], signals: Sequence[signal.Signals] = SIGNALS) -> Iterator[Trial]:
    """The same for the same arguments; commands and signals take turns."""
    chance = random.Random(seed)
    for i in range(count):
        name, number = names[i % len(names)], signals[i // len(names) % len(signals)]
        yield Trial(i, name, int(number), chance.random(), chance.random() < 0.5)


# -- the place ---------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """The inputs of every command."""
    import numpy as np

    from nirbridge import pipeline

    shutil.copy(ROOT / "examples/models/digits_cnn.nir", folder / "cnn.nir")
    shutil.copy(ROOT / "examples/chips/my_chip.toml", folder / "chip.toml")
    (folder / "net.py").write_text(NET)
    (folder / "sweep.toml").write_text(SWEEP)
    noise = np.random.default_rng(0)
    shape = pipeline.load_network(folder / "cnn.nir").inputs[0].shape
    np.save(folder / "in.npy", (noise.random((30, 4, *shape)) < 0.2).astype(np.uint8))
    np.save(folder / "small.npy", (noise.random((10, 20)) < 0.3).astype(np.uint8))
    np.save(folder / "flat.npy", noise.random((50, 20)).astype(np.float32))
    from nirbridge.importers import save_nir
    from nirbridge.importers.shapes import graph_of_shapes

    save_nir(graph_of_shapes(SMALL), folder / "small.nir")
    network, chip = pipeline.load_network(folder / "small.nir"), pipeline.load_chip("loihi2")
    pipeline.write_program(pipeline.emit_with("lava", network, chip), folder / "program")


def content(path: Path) -> dict[str, str]:
    """Digests of all files in a folder, or of a file; ``None`` is not in it, so absent is empty."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def start(folder: Path, temporary: Path, name: str, mark: str) -> subprocess.Popen[bytes]:
    """The command in a session of its own; what it says goes to a file, so that no pipe can keep it."""
    said = open(temporary.with_suffix(".said"), "wb")  # noqa: SIM115
    with said:
        return subprocess.Popen(
            [sys.executable, "-c", ENTRY, *COMMANDS[name][0].split()],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(temporary), MARK: mark, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def marked(mark: str) -> list[int]:
    """Processes of a trial, zombies left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment.split(b"\0") and state not in "ZX":
            found.append(int(entry.name))
    return found


# -- a trial -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Folder of the inputs, their digests, results and seconds of each command that was left alone."""

    inputs: Path
    digests: dict[str, str]
    results: dict[str, dict[str, dict[str, str]]]
    seconds: dict[str, float]


def measured(base: Path, names: Sequence[str]) -> Place:
    """Runs every command twice undisturbed: the first fills the caches of compiled code."""
    inputs = base / "inputs"
    inputs.mkdir()
    prepare(inputs)
    results, seconds = {}, {}
    for name in names:
        for _ in range(2):
            with OwnFolder(base, inputs) as (folder, temporary):
                before = time.monotonic()
                code = start(folder, temporary, name, "undisturbed").wait()
                seconds[name] = time.monotonic() - before
                assert code == 0, f"{name}: {temporary.with_suffix('.said').read_text()}"
                results[name] = {each: content(folder / each) for each in COMMANDS[name][1]}
    return Place(inputs, content(inputs), results, seconds)


class OwnFolder:
    """A copy of the inputs and an empty folder for temporary files, both removed at the end."""

    def __init__(self, base: Path, inputs: Path) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="k", dir=base))
        self.inputs = inputs

    def __enter__(self) -> tuple[Path, Path]:
        folder, temporary = self.base / "w", self.base / "t"
        shutil.copytree(self.inputs, folder)
        temporary.mkdir()
        return folder, temporary

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.base, ignore_errors=True)


def run_trial(trial: Trial, base: Path, place: Place) -> Outcome:
    """Starts, kills and looks."""
    mark = f"{os.getpid()}.{trial.number}"
    with OwnFolder(base, place.inputs) as (folder, temporary):
        old = _put_old(folder, trial)
        process = start(folder, temporary, trial.command, mark)
        after = trial.share * place.seconds[trial.command]
        time.sleep(after)
        process.send_signal(trial.signal)
        sent = time.monotonic()
        outcome = Outcome(trial, after, 0.0, 0)
        try:
            outcome.code = process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            outcome.faults.append(f"hung over {HANG_SECONDS:.0f} s")
            os.killpg(process.pid, signal.SIGKILL)
            outcome.code = process.wait()
        outcome.end_seconds = time.monotonic() - sent
        outcome.faults += _processes(mark)
        outcome.faults += _judged(trial, folder, temporary, outcome.code, place, old)
        _sweeps(trial, folder, temporary, process.pid, outcome)
    return outcome


def _put_old(folder: Path, trial: Trial) -> dict[str, dict[str, str]]:
    """An old result in place of each new one: for folders one that may be replaced."""
    if not trial.old:
        return {}
    for name in COMMANDS[trial.command][1]:
        if name == "made":
            shutil.copytree(folder / "program", folder / name)
        elif name == "report":
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(b"old")
    return {name: content(folder / name) for name in COMMANDS[trial.command][1]}


def _processes(mark: str) -> list[str]:
    until = time.monotonic() + HANG_SECONDS
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return [f"{len(left)} processes left after {HANG_SECONDS:.0f} s"] if left else []


def _judged(
    trial: Trial, folder: Path, temporary: Path, code: int, place: Place, old: dict[str, dict[str, str]]
) -> Iterator[str]:
    said = temporary.with_suffix(".said").read_text(errors="replace")
    if not _is_pythons_own(code, said):
        for word in ("Traceback", "bug of nirbridge"):
            if word in said:
                yield f"{word}: {said[-600:]}"
        if code not in ALLOWED[signal.Signals(trial.signal)]:
            yield f"exit code {code}: {said[-600:]}"
    now = content(folder)
    changed = [name for name, digest in place.digests.items() if now.get(name) != digest]
    if changed:
        yield f"inputs changed: {', '.join(changed)}"
    for name in COMMANDS[trial.command][1]:
        found = content(folder / name)
        whole = place.results[trial.command][name]
        if name == "report":  # two files, each whole or absent
            ok = all(whole.get(each) == digest for each, digest in found.items()) or _is_early_report(trial, folder)
        else:
            ok = found in (whole, old.get(name, {})) or _is_early_map(trial, folder)
        if not ok or (code == 0 and found != whole):
            yield f"{name} is half-written"


def _is_early_map(trial: Trial, folder: Path) -> bool:
    """Whether Ctrl-C ended a search, whose best map so far was written and is legal."""
    if trial.signal != signal.SIGINT or trial.command != "map" or not (folder / "out.map.json").is_file():
        return False
    words = [sys.executable, "-c", ENTRY, *["check", "cnn.nir", "--map", "out.map.json"]]
    place = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, cwd=folder, env=place, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def _is_early_report(trial: Trial, folder: Path) -> bool:
    """Whether the files of a report are those of the map that such a search left, each whole or absent."""
    if not _is_early_map(trial, folder):
        return False
    cores = len(json.loads((folder / "out.map.json").read_text())["blocks"])
    text, page = folder / "report" / "map.txt", folder / "report" / "map.html"
    told = not text.is_file() or re.search(rf"^cores +{cores} of .* used$", text.read_text(), re.MULTILINE)
    return bool(told) and (not page.is_file() or page.read_text().rstrip().endswith("</html>"))


def _is_pythons_own(code: int, said: str) -> bool:
    """Whether Ctrl-C came before Python was at the first line of nirbridge's command line."""
    return code in (1, -2) and "KeyboardInterrupt" in said and "nirbridge/cli" not in said


def _left(trial: Trial, folder: Path, temporary: Path, pid: int) -> list[str]:
    known = {p.name for p in temporary.parent.joinpath("w").iterdir()} & set(COMMANDS[trial.command][1])
    strange = [p.name for p in folder.iterdir() if p.name.startswith(".") and p.name not in known]
    shared = [p.name for p in SHARED.iterdir() if f".{pid}." in p.name and "nirb." in p.name]
    return [*strange, *(p.name for p in temporary.iterdir()), *shared]


def _sweeps(trial: Trial, folder: Path, temporary: Path, pid: int, outcome: Outcome) -> None:
    """What is left must go with the next run of the same command."""
    left = _left(trial, folder, temporary, pid)
    if not left:
        return
    start(folder, temporary, trial.command, "again").wait()
    still = _left(trial, folder, temporary, pid)
    outcome.swept += [name for name in left if name not in still]
    outcome.faults += [f"left behind: {name}" for name in still]


# -- the campaign ------------------------------------------------------------------------------------------------


def campaign(
    count: int,
    seed: int = 0,
    jobs: int = 1,
    names: Sequence[str] = tuple(COMMANDS),
    signals: Sequence[signal.Signals] = SIGNALS,
    done: Sequence[Outcome] = (),
    tell: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """All trials, in order, those that are ``done`` taken as they are; ``tell`` gets each other one as it ends."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script; children would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    base = Path(tempfile.mkdtemp(prefix="nk"))  # short: the names of Lava's sockets have to fit
    try:
        place = measured(base, names)
        crowd = max(1.0, jobs / len(os.sched_getaffinity(0)))  # trials share the cores: each takes longer than alone
        place = replace(place, seconds={name: crowd * seconds for name, seconds in place.seconds.items()})
        known = {outcome.trial: outcome for outcome in done}

        def run(trial: Trial) -> Outcome:
            if trial in known:
                return known[trial]
            outcome = run_trial(trial, base, place)
            tell(outcome)
            return outcome

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(run, trials(count, seed, names, signals)))
    finally:
        shutil.rmtree(base, ignore_errors=True)


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each command and signal."""
    lines = ["| command | signal | kills | done before | longest end, s | swept by the next run | faults |"]
    lines.append("|---|---|---|---|---|---|---|")
    groups: dict[tuple[str, int], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.trial.command, outcome.trial.signal), []).append(outcome)
    for (name, number), found in sorted(groups.items()):
        done = sum(o.code == 0 for o in found)
        longest = max(o.end_seconds for o in found)
        swept, faults = sum(bool(o.swept) for o in found), sum(bool(o.faults) for o in found)
        text = (
            f"| {name} | {signal.Signals(number).name} | {len(found)} | {done} | {longest:.2f} | {swept} | {faults} |"
        )
        lines.append(text)
    return "\n".join(lines)


def main() -> int:
    """Prints a table and every fault; exit code 1 where there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--signals", default=",".join(number.name for number in SIGNALS))
    parser.add_argument("-o", "--output")
    chosen = parser.parse_args()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts background jobs: trials would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signals = [signal.Signals[name] for name in chosen.signals.split(",")]
    file = Path(chosen.output or os.devnull)
    lines = file.read_text().splitlines() if file.is_file() else []
    done = [Outcome(**(fields | {"trial": Trial(**fields["trial"])})) for fields in map(json.loads, lines)]

    def tell(outcome: Outcome) -> None:
        with file.open("a") as out:
            out.write(json.dumps(asdict(outcome)) + "\n")

    names = chosen.commands.split(",")
    outcomes = campaign(chosen.kills, chosen.seed, chosen.jobs, names, signals, done, tell)
    print(table(outcomes))
    print(dict(Counter(o.code for o in outcomes)))
    for outcome in outcomes:
        if outcome.faults or outcome.swept:
            print(outcome.trial, f"{outcome.after_seconds:.2f} s", outcome.code, outcome.faults, outcome.swept)
    return int(any(o.faults for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
