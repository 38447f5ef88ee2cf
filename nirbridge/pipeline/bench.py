"""The back ends of a benchmark one after the other, each in a process that is ended where it takes too long."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge._types import Progress, no_progress
from nirbridge._version import __version__
from nirbridge.arrays import Array
from nirbridge.benchmarking.measure import given_inputs, padded, random_inputs
from nirbridge.benchmarking.model import BATCHES, LIMIT_S, RATE, REPEATS, STEPS, Bench, BenchRow, Choice
from nirbridge.chips.model import Chip
from nirbridge.emitters.lava.runtime.supervision import run_supervised, start_guard
from nirbridge.errors import DoesNotFit, FileError, ModelError, NirbridgeError, UsageError, counted
from nirbridge.files.atomic import write_new
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.files.regular import read_own
from nirbridge.network import Network, check_network
from nirbridge.pipeline.bench_worker import COMMAND, RESULT, Contender, Task, contenders, write_shared
from nirbridge.pipeline.choice import RunModel, choices_of, exact_names, kept_choice
from nirbridge.pipeline.fit import retime
from nirbridge.pipeline.verify import map_to_verify
from nirbridge.quantization import QuantizationOptions, QuantizedNetwork, quantize
from nirbridge.simulators.checks import versions

CHOICE_LIMIT_S = 30.0
"""Seconds of one back end where a choice is measured for a run that waits for it."""
_LOG_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Options of a benchmark; None: the defaults of ``nirbridge.benchmarking.model``.

    ``backends``: names; none: all. ``steps``: time steps of a run. ``batches``: samples of a run. ``rate`` and
    ``seed``: of random inputs. ``repeats``: runs of which the fastest counts. ``limit_s``: seconds of one back end.
    ``best``: choose a back end for each batch, and keep the choice where all that can be chosen ran.
    """

    backends: tuple[str, ...] = ()
    steps: int | None = None
    batches: tuple[int, ...] = ()
    rate: float | None = None
    seed: int = 0
    repeats: int | None = None
    limit_s: float | None = None
    model: str = ""
    best: bool = False
    progress: Progress = no_progress


def bench_network(
    network: RunModel, inputs: Any = None, chip: Chip | None = None, options: BenchOptions | None = None
) -> Bench:
    """Run a network on every back end with the same input, compare the spikes, and time those that are equal.

    Args:
        network: what to run; of integers, those alone run.
        inputs: by name or one alone; None: random spikes.
        chip: whose integers run too; None: real numbers alone.
        options: see ``BenchOptions``.

    Raises:
        UsageError: inputs or options that make no sense.
        ModelError: the reference cannot run the network, or not within the time limit.
    """
    settings = options or BenchOptions()
    _check(settings, inputs)
    on_chip = network.chip if isinstance(network, QuantizedNetwork) else None if chip is None else chip.name
    batches = tuple(dict.fromkeys(settings.batches or BATCHES)) if network.inputs else (1,)
    ready, left_out = contenders(settings.backends, integers=on_chip is not None)
    if isinstance(network, Network):
        check_network(network)
    else:
        ready = [contender for contender in ready if contender.model == "quantized"]
    arrays, steps, told = _inputs(network, inputs, settings, max(batches))
    models, refusals, latency = _models(network, chip, ready, settings.progress)
    rows: list[BenchRow] = []
    for numbers, longer in (("float32", 0), ("integers", latency)):
        group = [contender for contender in ready if contender.numbers == numbers]
        setting = _Setting(arrays, steps + longer, batches, settings, (len(rows), len(ready)))
        rows += _group(group, models, refusals, setting)
    bench = Bench(
        model=settings.model,
        inputs=told,
        steps=steps,
        batches=batches,
        rows=(*rows, *left_out),
        chip=on_chip,
        latency=latency,
        meta=MappingProxyType(_meta(network)),
    )
    if not settings.best:
        return bench
    return replace(bench, choices=tuple(choices_of(bench, models, settings.backends)))


def best_backend(model: RunModel, batch: int, progress: Progress) -> Choice:
    """The kept choice for a model on this machine, or one that is measured on random spikes and kept.

    Raises:
        ModelError: no back end runs the model in time.
    """
    batch = batch if model.inputs else 1
    kept = kept_choice(model, batch)
    if kept is not None:
        return kept
    limits = {"backends": exact_names(model), "batches": (batch,), "limit_s": CHOICE_LIMIT_S}
    (choice,) = bench_network(model, options=BenchOptions(**limits, best=True, progress=progress)).choices
    if not choice.us_per_run:
        limit = f"each has {CHOICE_LIMIT_S:g} s"
        raise ModelError.of("model", "no back end has run it", limit, "nirbridge bench shows what each says")
    return choice


def backend_names() -> tuple[str, ...]:
    """Names of all back ends that a benchmark knows; each once."""
    ready, left_out = contenders((), integers=True)
    return tuple(dict.fromkeys([*(c.name for c in ready), *(row.backend for row in left_out)]))


def _check(settings: BenchOptions, inputs: Any) -> None:
    if inputs is not None and settings.rate is not None:
        raise UsageError.of("rate", "given with data", "it is of random inputs", "leave one of the two out")
    if any(batch < 1 for batch in settings.batches):
        raise UsageError.of("batches", "0 samples or fewer", "a run takes at least 1", "give 1 or more")
    if settings.limit_s is not None and not settings.limit_s > 0:
        raise UsageError.of("time limit", f"{settings.limit_s:g} s", "more than 0 seconds", "120 is the default")


def _inputs(network: Any, inputs: Any, settings: BenchOptions, samples: int) -> tuple[dict[str, Array], int, str]:
    if inputs is not None:
        return given_inputs(network, inputs, settings.steps, samples)
    steps = settings.steps or STEPS
    rate = RATE if settings.rate is None else settings.rate
    arrays, told = random_inputs(network, steps, samples, rate, settings.seed)
    return arrays, steps, told


Models = dict[str, Any]
Refusals = dict[str, str]


def _models(
    network: RunModel, chip: Chip | None, ready: Sequence[Contender], progress: Progress
) -> tuple[Models, Refusals, int]:
    """The network, its integers and its map, as far as they are needed and can be made; why not; and the latency."""
    if isinstance(network, QuantizedNetwork):
        return {"quantized": network}, {}, max(network.latency.values(), default=0)
    models: Models = {"network": network}
    needed = {contender.model for contender in ready}
    if chip is None or needed <= {"network"}:
        return models, {}, 0
    try:
        retimed = retime(network, chip)
        quantized = quantize(retimed, chip, QuantizationOptions(progress=progress))
    except ModelError as error:
        reason = "; ".join(map(str, error.problems[:3]))
        return models, {"quantized": reason, "mapped": reason}, 0
    models["quantized"], refusals = quantized, {}
    if "mapped" in needed:
        try:
            mapped, _ = map_to_verify(retimed, chip, quantized, progress, needed=True)
            models["mapped"] = replace(mapped, quantized=quantized)
        except (DoesNotFit, ModelError) as error:
            refusals["mapped"] = "; ".join(map(str, error.problems[:3]))
    return models, refusals, max(quantized.latency.values(), default=0)


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the back ends of one kind of numbers share; ``place``: how many were measured before, and of how many."""

    arrays: Mapping[str, Array]
    steps: int
    batches: tuple[int, ...]
    options: BenchOptions
    place: tuple[int, int]


def _group(group: Sequence[Contender], models: Models, refusals: Refusals, setting: _Setting) -> list[BenchRow]:
    """The rows of the back ends of one kind of numbers, the first of which is what the others are compared with."""
    if not group:
        return []
    rows: list[BenchRow] = []
    with ExitStack() as stack:
        shared = stack.enter_context(start_guard())[1]
        arrays = {name: padded(array, setting.steps) for name, array in setting.arrays.items()}
        write_shared(shared, arrays, {name: models[name] for name in {c.model for c in group} & models.keys()})
        for contender in group:
            before, count = setting.place
            setting.options.progress(f"bench {contender.name}", (before + len(rows)) / count)
            if contender.model in refusals:
                rows.append(contender.row("refused", refusals[contender.model]))
            elif rows and rows[0].status != "equal":
                rows.append(contender.row("refused", f"nothing to compare with: {rows[0].reason}"))
            else:
                rows.append(_measured(contender, shared, setting))
            if contender.is_base and contender.numbers == "float32":
                _need(rows[0])
    return rows


def _need(reference: BenchRow) -> None:
    """Raises ModelError where the reference itself has no result."""
    if reference.status != "equal":
        hint = "give fewer steps, a smaller batch, or more time" if reference.status == "time limit" else ""
        limit = "every back end is compared with it"
        raise ModelError.of("the reference", reference.reason or reference.status, limit, hint)


def _measured(contender: Contender, shared: Path, setting: _Setting) -> BenchRow:
    """One back end in a process of its own, of which nothing is left."""
    options = setting.options
    limit = LIMIT_S if options.limit_s is None else options.limit_s
    with start_guard() as (guarding, scratch):
        result = scratch / RESULT
        repeats = options.repeats or REPEATS
        task = Task(
            asdict(contender), str(shared), str(result), setting.steps, setting.batches, repeats, tuple(sys.path)
        )
        write_new(scratch / "task.json", json.dumps(asdict(task)).encode())
        command = [sys.executable, "-c", COMMAND, str(scratch / "task.json")]
        try:
            end = run_supervised(guarding, command, scratch, limit, limit, 1, None)
        except NirbridgeError as error:
            return contender.row("failed", str(error))
        return _row(contender, end, result, scratch / "log", limit)


def _row(contender: Contender, end: Mapping[str, Any], result: Path, log: Path, limit: float) -> BenchRow:
    """The row of a process that has ended, whichever way."""
    try:
        columns = parse_json(read_own(result), "result of a process", bytes_max=ANSWER_BYTES_MAX)
    except (OSError, FileError):
        columns = {}
    columns.pop("is_running", None)
    times, beyond = (
        {int(batch): time for batch, time in columns.pop(name, {}).items()} for name in ("us_per_step", "us_per_run")
    )
    if end["why"] in ("seconds", "quiet"):
        columns |= {"status": "time limit", "reason": f"did not end within {limit:g} s"}
    elif end["code"] != 0 or "status" not in columns:
        code = end["code"]
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        columns |= {"status": "failed", "reason": f"its process {how}{_last_words(log)}"}
    if columns["status"] not in ("equal", "time limit"):
        times, beyond = {}, {}
    times = {"us_per_step": MappingProxyType(times), "us_per_run": MappingProxyType(beyond)}
    return replace(contender.row("failed"), **columns, **times)


def _last_words(log: Path) -> str:
    """The end of the log of a process, on one line."""
    try:
        text = read_own(log).decode("utf-8", "replace")[-_LOG_CHARACTERS:]
    except OSError:
        return ""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return f"; its log ends with: {words}" if words else ""


def _meta(network: RunModel) -> dict[str, Any]:
    """Versions and machine, on which every time depends, and how the network was read."""
    threads = os.environ.get("OMP_NUM_THREADS")
    machine = f"{platform.system()} {platform.machine()}, {counted(os.cpu_count() or 1, 'processor')}"
    return {
        "schema": 1,
        "nirbridge": __version__,
        "versions": versions("numpy"),
        "machine": machine,
        "omp_num_threads": threads,
        "assumed": list(network.assumed) if isinstance(network, Network) else [],
        "notes": list(network.notes),
    }
