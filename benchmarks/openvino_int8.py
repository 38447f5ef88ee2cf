"""Float32 and int8 in OpenVINO beside each other: accuracy, size and time; a table of docs/openvino.md.

    python -m benchmarks.openvino_int8 [--only NAME ...] [--rounds 7] [--json build/openvino_int8.json]

Needs openvino, nncf and scikit-learn. Calibrated on training samples alone, measured on others. Times are CPU time of
one thread, medians of rounds in which every program has its turn of 0.1 s. Float32 gives the reference's spikes, or it
is an error.
"""

from __future__ import annotations

import os

for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"  # before numpy is imported

import argparse  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import statistics  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import numpy as np  # noqa: E402

import nirbridge as nb  # noqa: E402
from benchmarks import sim_nets  # noqa: E402
from nirbridge.arrays import Array, freeze  # noqa: E402
from nirbridge.emitters.openvino.emit import OPENVINO, OpenvinoOptions  # noqa: E402
from nirbridge.network.model import Network, Population, Port, Projection  # noqa: E402
from nirbridge.network.neurons import neuron  # noqa: E402
from nirbridge.network.operators import Dense, Identity  # noqa: E402
from nirbridge.simulators.simulate import prepare_simulator  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
TURN_S, BATCHES, ENCODINGS, CALIBRATION = 0.1, (1, 32), 5, 300
MAX_DROP = 0.005
"""Of mixed precision: half a point of the accuracy on the calibration data."""
OURS = "nirbridge"


class Case(NamedTuple):
    """A network with samples ``[steps, samples, *shape]`` to calibrate and to test; labels: None where it has none."""

    network: Network
    calibration: tuple[Array, Array | None]
    test: tuple[Array, Array | None]


def digits(name: str) -> Case:
    """300 training images in one encoding, and all 597 test images in five."""
    from examples.digits import STEPS, TEST_SEED, encode, load

    network = nb.load(ROOT / "examples" / "models" / f"{name}.nir")
    images, labels, others, other_labels = load()
    spikes = encode(images[:CALIBRATION], STEPS, np.random.default_rng(7))
    tests = [encode(others, STEPS, np.random.default_rng(TEST_SEED + k)) for k in range(ENCODINGS)]
    shaped = [x.reshape(*x.shape[:2], *network.inputs[0].shape) for x in (spikes, np.concatenate(tests, axis=1))]
    return Case(network, (shaped[0], labels[:CALIBRATION]), (shaped[1], np.tile(other_labels, ENCODINGS)))


def breast_cancer(steps: int = 50) -> Case:
    """scikit-learn's breast cancer data: 30 real features as currents, 64 IF neurons, from a trained ReLU network."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.neural_network import MLPClassifier

    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.target))
    scaled = ((data.data - data.data.min(0)) / np.ptp(data.data, axis=0)).astype(np.float32)[order]
    labels, half = data.target[order], len(order) // 2
    ann = MLPClassifier((64,), alpha=0.01, max_iter=2000, random_state=0).fit(scaled[:half], labels[:half])
    hidden = np.maximum(scaled[:half] @ ann.coefs_[0] + ann.intercepts_[0], 0)
    largest, ends = np.percentile(hidden, 99.9), (hidden @ ann.coefs_[1] + ann.intercepts_[1])[:, 0]
    sides = np.array([-1.0, 1.0]) / np.abs(ends).max()
    first = Projection("in", "a", Dense(freeze(ann.coefs_[0].T / largest)), freeze(ann.intercepts_[0] / largest))
    second = Dense(freeze(np.outer(sides, ann.coefs_[1][:, 0] * largest)))
    cell = neuron("IF", a_mem=1.0, g_mem=1.0, theta=1.0, reset="subtract", reset_amount=1.0)
    edges = (first, Projection("a", "b", second, freeze(sides * ann.intercepts_[1])))
    populations = Population("a", (64,), cell), Population("b", (2,), cell)
    edges = (*edges, Projection("b", "out", Identity((2,))))
    network = Network(1e-3, sim_nets.TIMING, populations, edges, (Port("in", (30,)),), (Port("out", (2,)),))
    x = np.broadcast_to(scaled, (steps, *scaled.shape))
    return Case(network, (x[:, :half], labels[:half]), (x[:, half:], labels[half:]))


def net_a() -> Case:
    """784-1000-10 LIF on random spikes, which have no classes."""
    net = sim_nets.net_a()
    calibration, test = (sim_nets.bernoulli(net, 0.1, batch=32, seed=seed) for seed in (1, 0))
    return Case(net.network, (calibration, None), (test, None))


CASES: Mapping[str, Callable[[], Case]] = {
    "digits_mlp": lambda: digits("digits_mlp"),
    "digits_cnn": lambda: digits("digits_cnn"),
    "breast_cancer": breast_cancer,
    "net_a": net_a,
}


def measured(case: Case, rounds: int) -> dict[str, Any]:
    """Size, accuracy, differing outputs and microseconds per time step of each program."""
    with tempfile.TemporaryDirectory() as folder:
        programs = {name: _Program(folder, name, made) for name, made in _emitted(case, Path(folder)).items()}
        x, labels = case.test
        ours = prepare_simulator(case.network)
        (expected,) = ours.run(x).recording.arrays.values()
        record: dict[str, Any] = {OURS: {}}
        for name, program in programs.items():
            found = program.ready(x)()
            right = None if labels is None else float(np.mean(found.sum(axis=0).argmax(axis=-1) == labels))
            differing = float(np.mean(found != expected))
            record[name] = {"bytes": program.bytes, "accuracy": right, "differing": differing, "about": program.about}
        if record["float32"]["differing"]:
            raise AssertionError("float32 does not give the spikes of the reference")
        for batch in BATCHES:
            part = np.ascontiguousarray(x[:, :batch], np.float32)
            calls = {OURS: lambda part=part: ours.run(part)} | {n: p.ready(part) for n, p in programs.items()}
            for name, seconds in _turns(calls, rounds).items():
                record[name][f"us_{batch}"] = 1e6 * seconds / len(part)
    return record


def _emitted(case: Case, folder: Path) -> dict[str, Any]:
    (port,), (x, labels) = case.network.inputs, case.calibration
    np.savez(folder / "data.npz", **{port.name: x}, **({} if labels is None else {"labels": labels}))
    options = {"float32": OpenvinoOptions(), "int8": OpenvinoOptions(int8=str(folder / "data.npz"))}
    if labels is not None:
        options["mixed"] = OpenvinoOptions(int8=str(folder / "data.npz"), max_drop=MAX_DROP)
    return {name: OPENVINO.emit(case.network, chosen) for name, chosen in options.items()}


class _Program:
    """An emitted program whose ``run.py`` is a module of this process."""

    def __init__(self, folder: str, name: str, program: Any) -> None:
        place = Path(folder, name)
        program.save(place)
        spec: Any = importlib.util.spec_from_file_location(f"openvino_{name}", place / "run.py")
        self.run = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.run)
        self.bytes = {file: len(program.files[file]) for file in program.files if file.startswith("model.")}
        self.about = "".join(json.loads(program.files["manifest.json"])["notes"])

    def ready(self, x: Array) -> Callable[[], Array]:
        """A call that computes the first output."""
        given = {"in0": np.asarray(x, np.float32)}
        request = self.run.prepared(given)
        return lambda: np.array(request.infer(given)[0])


def _turns(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of a call."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            count, start = 0, time.process_time()
            while not count or time.process_time() - start < TURN_S:
                call()
                count += 1
            found[name].append((time.process_time() - start) / count)
    return {name: statistics.median(times) for name, times in found.items()}


def table(records: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each program of each network."""
    lines = [
        "| network | | products in int8 | model, bytes | accuracy | outputs changed | us, batch 1 | us, batch 32 |"
    ]
    lines.append("|" + " --- |" * 8)
    for case, record in records.items():
        for name, row in record.items():
            cells = ["", "", "", ""]
            if name != OURS:
                right = "-" if row["accuracy"] is None else f"{row['accuracy']:.2%}"
                sizes = " + ".join(f"{size:,}" for size in row["bytes"].values())
                cells = [row["about"].partition(" product")[0], sizes, right, f"{row['differing']:.2%}"]
            times = [f"{row[f'us_{batch}']:.3g}" for batch in BATCHES]
            lines.append(f"| {' | '.join([case, name, *cells, *times])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=Path("build/openvino_int8.json"))
    options = parser.parse_args()
    records = {name: measured(CASES[name](), options.rounds) for name in options.only}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    print(table(records))


if __name__ == "__main__":
    main()
