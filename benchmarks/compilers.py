"""Every compiler and simulator on the same networks, equal first, then timed in one run; writes docs/compilers.md.

    python -m benchmarks.compilers [--only NET ...] [--backend NAME ...] [--limit SECONDS] [--no-facts]
                                   [--json build/compilers.json] [-o docs/compilers.md]

Runs in an environment that has all of them: ``pip install --constraint constraints.txt torch`` and then
``".[test,jax,iree,openvino,tvm,triton,tinygrad]"``; a row says what is not there. Each back end runs in a process of
its own, on one core, as in ``nirbridge bench``. A further run adds to the JSON file: a time is the least of all runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import nirbridge as nb
from benchmarks import sim_nets
from benchmarks.compilers_facts import FACTS
from benchmarks.compilers_page import ROWS, page
from nirbridge import plugins as registry
from nirbridge.arrays import Array
from nirbridge.benchmarking.measure import BenchPlan
from nirbridge.benchmarking.measure import measure as measure_one
from nirbridge.benchmarking.model import REPEATS
from nirbridge.emitters.own_time import listen_to_times
from nirbridge.errors import NirbridgeError
from nirbridge.network.model import Network
from nirbridge.pipeline.bench import backend_names
from nirbridge.simulators.types import Probe

BATCHES = (1, 32)
IMAGES = 4
"""Of a sample, 25 time steps each."""
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any], tuple[int, ...]]] = {
    "iree --cpu host": ("iree", {"cpu": "host"}, (1,)),
    "iree --cpu host --batch 32": ("iree", {"cpu": "host", "batch": 32}, (32,)),
    "inductor": ("inductor", {"package": True}, BATCHES),
    "inductor --unroll 8": ("inductor", {"package": True, "unroll": 8}, BATCHES),
    "triton --form mega": ("triton", {"form": "mega"}, BATCHES),
}
"""Emitters with options, and the batches that they take."""
MODELS = Path("examples/models")
CHIP = "loihi2"
FACTS_OF, FACTS_S = "digits_cnn", 600


def _digits(name: str) -> tuple[Network, Array]:
    from examples.digits import test_spikes

    network = nb.load(MODELS / f"{name}.nir")
    spikes = test_spikes()[0][:, : IMAGES * max(BATCHES)]
    one_after_the_other = spikes.reshape(len(spikes), IMAGES, max(BATCHES), -1).swapaxes(0, 1)
    return network, one_after_the_other.reshape(-1, max(BATCHES), *network.inputs[0].shape)


def _net_a() -> tuple[Network, Array]:
    net = sim_nets.net_a()
    return net.network, sim_nets.bernoulli(net, 0.1, max(BATCHES))


NETS: Mapping[str, Callable[[], tuple[Network, Array]]] = {
    "digits_mlp": lambda: _digits("digits_mlp"),
    "digits_cnn": lambda: _digits("digits_cnn"),
    "net_a": _net_a,
}


def measure(name: str, backends: Sequence[str], limit: float) -> Iterator[dict[str, Any]]:
    """The rows of a network, as plain JSON."""
    network, spikes = NETS[name]()
    plain = [backend for backend in backends if backend not in VARIANTS]
    settings: Any = {"chip": CHIP, "batches": BATCHES, "limit_s": limit, "progress": _shown}
    found = nb.bench(network, spikes, backends=plain, **settings).document() if plain else {"rows": ()}  # none: all
    for row in found["rows"]:
        if (row["backend"], row["numbers"]) in ROWS:
            yield row
    for backend in backends:
        if backend in VARIANTS:
            _shown(f"bench {backend}", 1.0)
            yield variant(backend, network, spikes)


def _shown(stage: str, done: float | None) -> None:
    print(stage if done is None else f"{done:.0%} {stage}", file=sys.stderr, flush=True)


def variant(backend: str, network: Network, spikes: Array) -> dict[str, Any]:
    """The row of an emitter with options, whose programs run in processes of their own: measured as ``bench`` does."""
    name, options, batches = VARIANTS[backend]
    row = {"backend": backend, "numbers": "float32", "status": "failed", "reason": "", "us_per_step": {}}
    inputs = {network.inputs[0].name: spikes}
    every = [Probe(p.name, ("s",)) for p in (*network.populations, *network.outputs)]
    expected = nb.simulate(network, inputs, backend="reference", record=every).arrays
    outputs = tuple(p.name for p in network.outputs)
    plan = BenchPlan(name, "reference", inputs, len(spikes), batches, REPEATS, every, outputs, lambda: expected, True)
    target: Any = registry.get("emitters", name)
    try:
        with listen_to_times() as reported:
            made = target.emit(network, target.options(**options))
        size = sum(map(len, made.files.values()))
        row |= {"artifact_bytes": size, "compile_s": sum(reported.compilation) or None}
        measure_one(partial(target.run, made), plan, row.update)
    except NirbridgeError as error:
        row["reason"] = str(error.problems[0])
    return row


def merged(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """A new row with the least times of both, where both are equal."""
    if old is None or {old["status"], new["status"]} != {"equal"}:
        return dict(new)
    times = {batch: min(us, old["us_per_step"].get(batch, us)) for batch, us in new["us_per_step"].items()}
    return {**new, "us_per_step": times}


def facts(name: str) -> str:
    """The sentence of ``compilers_facts``, or the last line of its failure."""
    words = [sys.executable, "-m", "benchmarks.compilers_facts", name, str(MODELS / f"{FACTS_OF}.nir")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=FACTS_S, check=False)
    lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    return ("not measured: " if done.returncode else "") + lines[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, writes JSON and the page. 1 where a back end differs or fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(NETS), default=list(NETS))
    parser.add_argument("--backend", nargs="+", default=[])
    parser.add_argument("--limit", type=float, default=600.0, help="of one back end on one network")
    parser.add_argument("--no-facts", action="store_true")
    parser.add_argument("--json", type=Path, default=Path("build/compilers.json"))
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/compilers.md"))
    options = parser.parse_args(arguments)
    chosen = options.backend or [*backend_names(), *VARIANTS]
    wanted = [name for name in dict.fromkeys(name for name, _ in ROWS) if name in chosen]
    records = json.loads(options.json.read_text()) if options.json.is_file() else {"rows": {}, "facts": {}}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    faults = 0
    for name in options.only:
        kept = records["rows"].setdefault(name, {})
        for row in measure(name, wanted, options.limit):
            key = f"{row['backend']}, {row['numbers']}"
            kept[key] = merged(kept.get(key), row)
            faults += row["status"] in ("differs", "failed")
            print(name, key, row["status"], row["reason"], row["us_per_step"], flush=True)
        options.json.write_text(json.dumps(records, indent=1) + "\n")
    for name in () if options.no_facts else [n for n in wanted if n in FACTS]:
        records["facts"][name] = facts(name)
        print(name, records["facts"][name], flush=True)
    options.json.write_text(json.dumps(records, indent=1) + "\n")
    options.output.write_text(page(records, list(NETS), BATCHES), encoding="utf-8")
    return int(faults > 0)


if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # children, too: every tool then starts one thread
    sys.exit(main())
