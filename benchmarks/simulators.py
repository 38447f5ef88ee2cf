"""nirbridge's simulators compared with snnTorch, Norse, spikingjelly, plain torch and brian2 on `sim_nets`.

python -m benchmarks.simulators [--nets A,B,C,D] [--rounds 5] [--densities 2,5,10] [--brian2 PYTHON] [-o FILE.json]

One thread; process CPU time; median over rounds, in a single process; microseconds per time step (of the whole batch).
Each network and batch gets two tables. **Single runs in turn**: each simulator runs once, then the next, so that each
finds the caches as the others left them. **Runs back to back**: each simulator in turn repeats its run for
``TURN_SECONDS``, and the mean is used. Spikes are compared in the same run: they must be identical unless
``sim_rivals.SAME`` gives a reason, and the number of differing cells is always shown.
"""

from __future__ import annotations

import os

for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"  # before numpy and torch are imported

import argparse  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from dataclasses import asdict, dataclass, field, replace  # noqa: E402
from importlib.metadata import PackageNotFoundError, version  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

from benchmarks import sim_nets, sim_rivals, sim_threads  # noqa: E402
from benchmarks.sim_brian2 import Brian2  # noqa: E402
from nirbridge.arrays import Array  # noqa: E402

OURS = "nirbridge"
WHOLE = "nirbridge, preparation included"
AGAIN = "nirbridge, simulate() again"
PLAIN = "nirbridge, without numba"
SINGLE, BACK_TO_BACK = "single runs in turn", "runs back to back"
BESIDE_BRIAN2 = "nirbridge, in turn with brian2"
FLOORS = {
    ("A", 1): 20.0,
    ("A", 128): 3.5,
    ("B", 1): 12.0,
    ("B", 32): 7.0,
    ("C", 1): 100.0,
    ("C", 64): 6.0,
    ("D", 1): 3.0,
}
"""How many times faster than a rival nirbridge must be at the density that `marked` names."""
FRAMEWORKS = ("snnTorch", "Norse", "spikingjelly")
FLOOR_RIVALS = {
    ("A", 1): FRAMEWORKS,
    ("A", 128): FRAMEWORKS,
    ("B", 1): ("torch layer-wise",),
    ("B", 32): (*FRAMEWORKS, "torch layer-wise"),
    ("C", 1): FRAMEWORKS,
    ("C", 64): FRAMEWORKS,
    ("D", 1): ("brian2 C++",),
}
"""Whom a floor is stated against: its fastest."""
BATCHES = {"A": (1, 128), "B": (1, 32), "C": (1, 64), "D": (1,)}
D_RIVAL_STEPS = 20
TURN_SECONDS = 0.02
"""CPU time of a turn, at least one run: so that nobody is measured on what the others left in the caches."""
PLAIN_CELLS_MAX = 20_000_000  # steps x batch x neurons that plain NumPy is run on


@dataclass(frozen=True, slots=True)
class Case:
    """One net at one batch and input density; ``density`` is None where there is no input."""

    net: str
    batch: int
    density: float | None


@dataclass(slots=True)
class Row:
    """What one simulator did on a case; ``differing`` cells of the output against nirbridge."""

    case: Case
    simulator: str
    us_per_step: dict[str, float]  # by form
    rounds: int
    differing: int | None = None
    why: str = ""


@dataclass(slots=True)
class Report:
    """All rows, the facts about the spikes, and what could not run."""

    rows: list[Row] = field(default_factory=list)
    rates: dict[Case, dict[str, float]] = field(default_factory=dict)
    choices: dict[str, object] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


def marked(net: str) -> float | None:
    """The density at which the floors are stated."""
    return {"A": 0.1, "B": 0.02, "C": 0.1, "D": None}[net]


def turn(run: Callable[[], object]) -> float:
    """Process CPU seconds per run of one turn."""
    runs, start = 0, time.process_time()
    while runs == 0 or time.process_time() - start < TURN_SECONDS:
        run()
        runs += 1
    return (time.process_time() - start) / runs


def once(run: Callable[[], object]) -> float:
    """Process CPU seconds of one run."""
    start = time.process_time()
    run()
    return time.process_time() - start


def ours(net: sim_nets.Net, spikes: Array | None, backend: str, anew: bool = False) -> Callable[[], Array]:
    """A run of a prepared network (``anew``: with the preparation): output spikes ``[steps, batch, outputs]``."""
    from nirbridge.simulators.simulate import prepare_simulator

    inputs, steps = ({}, net.steps) if spikes is None else (spikes, None)
    ready = prepare_simulator(net.network, backend=backend)

    def run() -> Array:
        simulator = prepare_simulator(net.network, backend=backend) if anew else ready
        result = simulator.run(inputs, steps=steps)
        return result.recording.arrays["output", "s"].reshape(net.steps, -1, net.network.outputs[0].size)

    return run


def again(net: sim_nets.Net, spikes: Array | None) -> Callable[[], Array]:
    """The whole of ``simulate``, with what it kept of the network since the last call."""
    from nirbridge.simulators.simulate import simulate

    inputs, steps = ({}, net.steps) if spikes is None else (spikes, None)

    def run() -> Array:
        found = simulate(net.network, inputs, steps=steps).recording.arrays["output", "s"]
        return found.reshape(net.steps, -1, net.network.outputs[0].size)

    return run


def rival(build: Callable[[], sim_rivals.Run], spikes: Array, steps: int) -> Callable[[], Array]:
    """One run of a framework without gradients on a tensor made beforehand."""
    import torch

    function = build()
    x = torch.from_numpy(spikes.astype(np.float32))

    def run() -> Array:
        with torch.inference_mode():
            return function(x).numpy().reshape(steps, x.shape[1], -1)

    return run


def rates_of(net: sim_nets.Net, spikes: Array | None) -> dict[str, float]:
    """Spikes per neuron, step and sample of every population."""
    from nirbridge.simulators.simulate import Probe, simulate

    inputs, steps = ({}, net.steps) if spikes is None else (spikes, None)
    record = [Probe(p.name, ("count",)) for p in net.network.populations]
    arrays = simulate(net.network, inputs, steps=steps, record=record).recording.arrays
    return {r.node: float(arrays[r.node, "count"].mean()) / net.steps for r in record}


def contestants(net: sim_nets.Net, case: Case, spikes: Array | None, report: Report) -> dict[str, Callable[[], Array]]:
    """Everything that runs on this case; a missing framework is named in the report."""
    found = {OURS: ours(net, spikes, "auto"), WHOLE: ours(net, spikes, "auto", anew=True), AGAIN: again(net, spikes)}
    if net.steps * case.batch * net.network.neurons <= PLAIN_CELLS_MAX:
        found[PLAIN] = ours(net, spikes, "numpy")
    steps = D_RIVAL_STEPS if net.name == "D" else net.steps
    values = np.zeros((steps, 1), np.uint8) if spikes is None else spikes
    if case.batch == 1 and spikes is not None:
        values = values[:, None]
    for name, build in sim_rivals.builders(net).items():
        try:
            found[name] = rival(build, values, steps)
        except ImportError as error:
            note = f"{name}: {error}"
            if note not in report.skipped:
                report.skipped.append(note)
    return found


def measure(net: sim_nets.Net, case: Case, spikes: Array | None, rounds: int, report: Report) -> None:
    """Runs everyone in turn, once to warm up and then ``rounds`` times, and compares spikes."""
    runs = contestants(net, case, spikes, report)
    outputs = {name: np.asarray(run()) for name, run in runs.items()}
    seconds = {name: {SINGLE: [], BACK_TO_BACK: []} for name in runs}
    for _ in range(rounds):
        for form, clock in ((SINGLE, once), (BACK_TO_BACK, turn)):
            for name, run in runs.items():
                seconds[name][form].append(clock(run))
    for name, output in outputs.items():
        us = {form: statistics.median(times) / len(output) * 1e6 for form, times in seconds[name].items()}
        differing = int((outputs[OURS][: len(output)] != output).sum())
        why = "" if name.startswith(OURS) else sim_rivals.SAME[net.name, name]
        report.rows.append(Row(case, name, us, rounds, differing, why))
    report.rates[case] = rates_of(net, spikes)


def check_spikes(report: Report) -> None:
    """Identical spikes wherever the model is the same.

    Raises:
        AssertionError: they are not.
    """
    wrong = [r for r in report.rows if r.differing and not r.why]
    if wrong:
        raise AssertionError("; ".join(f"{r.case} {r.simulator}: {r.differing} cells differ" for r in wrong))


def run_all(nets: Sequence[str], densities: Sequence[float], rounds: int, brian2: str | None) -> Report:
    """Every chosen net at every density; nets without an input once."""
    report = Report()
    for name in nets:
        try:
            net = getattr(sim_nets, f"net_{name.lower()}")()
        except FileNotFoundError as error:
            report.skipped.append(f"net B: {error} is not there")
            continue
        maker = sim_nets.moving_blob if name == "B" else sim_nets.bernoulli
        for batch in BATCHES[name]:
            for density in densities if name != "D" else [None]:
                case = Case(name, batch, density)
                spikes = None if density is None else maker(net, density, batch)
                few = rounds if batch == 1 else min(rounds, 3)
                measure(net, case, spikes, few, report)
                print(f"{case} done", file=sys.stderr)
        report.choices[name] = _choices(net)
        if name == "D":
            _brian2(net, rounds, brian2, report)
    return report


def _choices(net: sim_nets.Net) -> object:
    """What the simulator says it chose, for a short run."""
    from nirbridge.simulators.simulate import simulate

    shape = net.network.inputs[0].shape if net.network.inputs else None
    inputs = {} if shape is None else np.zeros((2, *shape), np.uint8)
    return dict(simulate(net.network, inputs, steps=2 if shape is None else None).recording.meta)


def _brian2(net: sim_nets.Net, rounds: int, python: str | None, report: Report) -> None:
    """brian2's compiled program and ours in turn: the loop's own time, which its program writes down."""
    if python is None:
        report.skipped.append("brian2 C++: no --brian2 PYTHON (an environment of its own: it needs numpy below 2)")
        return
    program = Brian2.build(net, python)
    case, run = Case("D", 1, None), ours(net, None, "auto")
    mine: dict[str, list[float]] = {SINGLE: [], BACK_TO_BACK: []}
    theirs: list[float] = []
    for _ in range(rounds):
        theirs.append(program.run())
        mine[SINGLE].append(once(run))
        mine[BACK_TO_BACK].append(turn(run))
    spikes = run().reshape(net.steps, -1)
    differing = int((program.spikes(spikes.shape) != spikes).sum())
    loop = dict.fromkeys(mine, statistics.median(theirs) / net.steps * 1e6)
    own = {form: statistics.median(times) / net.steps * 1e6 for form, times in mine.items()}
    report.rows.append(Row(case, "brian2 C++", loop, rounds, differing))
    report.rows.append(Row(case, BESIDE_BRIAN2, own, rounds, 0))


def markdown(report: Report) -> str:
    """A table per net and batch; the column at which floors are stated is marked with *."""
    parts = []
    for net, batch in dict.fromkeys((r.case.net, r.case.batch) for r in report.rows):
        rows = [r for r in report.rows if (r.case.net, r.case.batch) == (net, batch)]
        for form in (SINGLE, BACK_TO_BACK):
            title = f"Net {net}, batch {batch}, {form}, us per step"
            parts.append(f"{title}\n\n" + _table(net, batch, form, rows, report.rates))
    return "\n\n".join([*parts, *(f"Not run: {note}." for note in report.skipped)])


def _table(net: str, batch: int, form: str, rows: list[Row], rates: dict[Case, dict[str, float]]) -> str:
    cases = list(dict.fromkeys(r.case for r in rows))
    head = ["", *("no input" if c.density is None else f"{100 * c.density:g} %" for c in cases)]
    head = [h + (" *" if k and net != "D" and cases[k - 1].density == marked(net) else "") for k, h in enumerate(head)]
    lines = [head, ["---"] * len(head)]
    for name in dict.fromkeys(r.simulator for r in rows):
        lines.append([name, *(_cell(rows, name, form, c) for c in cases)])
    names = FLOOR_RIVALS[net, batch]
    whom = {FRAMEWORKS: "best framework", (*FRAMEWORKS, "torch layer-wise"): "best of all"}.get(names, names[0])
    lines.append([f"{whom} / {OURS}", *(_ratio(rows, form, c, names) for c in cases)])
    lines.append(["floor", *(f"{FLOORS[net, batch]:g}x" if c.density == marked(net) else "" for c in cases)])
    for population in dict.fromkeys(name for c in cases for name in rates[c]):
        lines.append([f"rate of {population}", *(f"{100 * rates[c].get(population, 0):.2g} %" for c in cases)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(rows: list[Row], name: str, form: str, case: Case) -> str:
    """Microseconds, and in brackets the differing output cells where there are any."""
    for r in rows:
        if (r.simulator, r.case) == (name, case):
            return f"{r.us_per_step[form]:.3g}" + (f" ({r.differing} differ)" if r.differing else "")
    return "-"


def _ratio(rows: list[Row], form: str, case: Case, names: tuple[str, ...]) -> str:
    ratio = ratio_of(rows, form, case, names)
    return "-" if ratio is None else f"**{ratio:.3g}x**"


def ratio_of(rows: Sequence[Row], form: str, case: Case, names: tuple[str, ...]) -> float | None:
    """How many times as long as nirbridge the fastest of the named rivals took; None where none ran."""
    times = {r.simulator: r.us_per_step[form] for r in rows if r.case == case}
    mine = times.get(BESIDE_BRIAN2 if names == ("brian2 C++",) else OURS)
    rivals = [times[name] for name in names if name in times]
    return min(rivals) / mine if mine and rivals else None


def versions() -> dict[str, str]:
    """Of everything that takes part."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("numpy", "numba", "torch", "snntorch", "norse", "spikingjelly"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def main() -> None:
    """Parses the command line, measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default="A,B,C,D")
    parser.add_argument("--densities", default="2,5,10,20,40", help="of the input, in percent")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--brian2", metavar="PYTHON", help="interpreter of an environment with brian2")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/simulators.json"))
    parser.add_argument("--threads", action="store_true", help="two threads against one, and nothing else")
    options = parser.parse_args()
    if options.threads:
        print(sim_threads.table(4 * options.rounds))
        return
    warnings.filterwarnings("ignore")  # of the frameworks
    _one_torch_thread()
    densities = [float(d) / 100 for d in options.densities.split(",")]
    report = run_all(options.nets.split(","), densities, options.rounds, options.brian2)
    print(markdown(report))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rates = {str(case): values for case, values in report.rates.items()}
    document = {"versions": versions(), **asdict(replace(report, rates={})), "rates": rates}
    options.output.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    check_spikes(report)


def _one_torch_thread() -> None:
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


if __name__ == "__main__":
    main()
