"""Forms of the MLIR dialect, timed: time batching, fusion and events beside the plain program; writes docs/stack.md.

    python -m benchmarks.stack [--only NAME ...] [--batch 1 2 4 8 32] [--rounds 5] [--limit SECONDS]
                               [--json build/stack.json] [-o docs/stack.md]

Runs in the environment of ``make test-stack``, with Debian's mlir-22-tools. Rows that the JSON file has are not
measured again, so that the benchmark can be run in parts (``--limit``). Every program's spikes are those of the
reference, or it is not timed. CPU time of one thread, the least of several rounds in which every program has its turn.
"""

from __future__ import annotations

import os

for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"  # before numpy is imported

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Mapping, Sequence  # noqa: E402
from dataclasses import replace  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from benchmarks.stack_compilers import COMPILERS, Call  # noqa: E402
from benchmarks.stack_nets import HELD_OUT, TUNED, spikes  # noqa: E402
from benchmarks.stack_page import page  # noqa: E402
from nirbridge.arrays import Array  # noqa: E402
from nirbridge.dialect.lower import dialect_module  # noqa: E402
from nirbridge.dialect.lowering.program import LoweredProgram, lowered  # noqa: E402
from nirbridge.dialect.passes.forms import Forms, apply_forms, choose_forms  # noqa: E402
from nirbridge.network.model import Network  # noqa: E402
from nirbridge.network.operators import Dense  # noqa: E402
from nirbridge.simulators.simulate import simulate  # noqa: E402
from nirbridge.simulators.types import Probe  # noqa: E402

STEPS, RATES, RATE = 32, (0.01, 0.05, 0.3), 0.05
PLAIN = Forms(fused=False)
KEPT = Path("build/stack")


class Differs(Exception):
    """A program whose spikes are not those of the reference."""


def variants(network: Network, chosen: Forms, compiler: str, rate: float) -> dict[str, Forms]:
    """Forms by name: the plain program, each form by itself, those chosen, and those without each of them."""
    inputs = {p.name for p in network.inputs}
    first = frozenset(k for k, p in enumerate(network.projections) if p.source in inputs)
    products = frozenset(k for k, p in enumerate(network.projections) if _has_product(p.operator))
    found = {"plain": PLAIN}
    if rate == RATE:
        found |= {"fusion": replace(PLAIN, fused=True), "time batching": replace(PLAIN, batched=first)}
    if compiler == "loops":
        found["events"] = replace(PLAIN, events=products)
    found["chosen"] = chosen
    for name, off in (("fusion", {"fused": False}), ("time batching", {"batched": frozenset()}),
                      ("events", {"events": frozenset()})):  # fmt: skip
        without = replace(chosen, **off)
        if without != chosen:
            found[f"chosen without {name}"] = without
    return found


def _has_product(operator: Any) -> bool:
    parts = getattr(operator, "operators", (operator,))
    return any(isinstance(part, Dense) for part in parts)


def program(network: Network, forms: Forms, batch: int) -> LoweredProgram:
    """The program in some forms."""
    return lowered(apply_forms(dialect_module(network), forms), batch=batch)


def activity(network: Network, given: Mapping[str, Array]) -> dict[str, float]:
    """Share of active elements per time step of every source."""
    probes = [Probe(p.name, ("s",)) for p in network.populations]
    arrays = simulate(network, given, record=probes).recording.arrays
    rates = {p.node: float((arrays[p.node, "s"] != 0).mean()) for p in probes}
    return rates | {name: float((array != 0).mean()) for name, array in given.items()}


def row(name: str, network: Network, batch: int, rate: float, compiler: str, rounds: int) -> dict[str, Any]:
    """Microseconds per time step of every variant, and which forms were chosen."""
    given = spikes(network, rate, batch, STEPS)
    expected = reference(network, given)
    rates = activity(network, given)
    chosen = choose_forms(dialect_module(network), batch=batch, activity=rates, compiler=compiler)  # type: ignore[arg-type]
    named = variants(network, chosen, compiler, rate)
    calls: dict[Forms, Call] = {}
    for label, forms in named.items():
        if forms not in calls:
            call = COMPILERS[compiler](program(network, forms, batch), given, batch, KEPT)
            calls[forms] = checked(call, expected, f"{name}, {label}")
    times = measured(calls, rounds)
    us = {label: times[forms] / STEPS * 1e6 for label, forms in named.items()}
    facts = {"batched": sorted(chosen.batched), "fused": chosen.fused, "events": sorted(chosen.events)}
    counted = int(expected.sum())
    return {
        "net": name,
        "batch": batch,
        "rate": rate,
        "compiler": compiler,
        "us": us,
        "forms": facts,
        "spikes": counted,
    }


def reference(network: Network, given: Mapping[str, Array]) -> Array:
    """The spikes of the first output."""
    name = network.outputs[0].name
    return simulate(network, given).recording.arrays[name, "s"]


def checked(call: Call, expected: Array, name: str) -> Call:
    """The call, whose spikes are the expected ones. Raises Differs."""
    found = np.asarray(call()).reshape(expected.shape)
    if not np.array_equal(found, expected):
        first = np.argwhere(found != expected)[0].tolist()
        raise Differs(f"{name}: {int((found != expected).sum())} of {expected.size} values differ, first at {first}")
    return call


def measured(calls: Mapping[Any, Call], rounds: int) -> dict[Any, float]:
    """The least CPU seconds of one run of each, in turn."""
    times: dict[Any, float] = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for key, call in calls.items():
            start = time.process_time()
            call()
            times[key] = min(times[key], time.process_time() - start)
    return times


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, writes JSON and the page. 1 where spikes differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*TUNED, *HELD_OUT], default=[*TUNED, *HELD_OUT])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 2, 4, 8, 32])
    parser.add_argument("--compiler", nargs="+", choices=list(COMPILERS), default=list(COMPILERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=float("inf"), help="begin no row after this many seconds")
    parser.add_argument("--json", type=Path, default=Path("build/stack.json"))
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/stack.md"))
    options = parser.parse_args(arguments)
    records = json.loads(options.json.read_text()) if options.json.is_file() else {}
    end, failed = time.monotonic() + options.limit, 0
    for key, make in _rows(options):
        if key in records or time.monotonic() > end:
            continue
        try:
            records[key] = make()
        except (Differs, FileNotFoundError) as error:
            print(f"{key}: {error}", file=sys.stderr)
            failed += isinstance(error, Differs)
            continue
        print(key, {label: round(us, 1) for label, us in records[key]["us"].items()}, flush=True)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(records, indent=1) + "\n")
    if records:
        options.output.write_text(page(list(records.values())), encoding="utf-8")
    return int(failed > 0)


def _rows(options: argparse.Namespace) -> Any:
    """(key, function that measures it) of every row."""
    for name in options.only:
        for batch in options.batch:
            network = {**TUNED, **HELD_OUT}[name]
            for compiler in options.compiler:
                for rate in RATES if compiler == "loops" else (RATE,):
                    settings = (batch, rate, compiler, options.rounds)
                    yield f"{name}/{batch}/{rate}/{compiler}", lambda n=name, m=network, s=settings: row(n, m(), *s)


if __name__ == "__main__":
    sys.exit(main())
