"""The choice of a back end by measurement, kept in the cache folder by machine, model and batch.

A choice must not change a result. ``nirbridge.open`` therefore takes only back ends that keep a state and have the
reference's bits on any input, wherever they run: of real numbers the simulators that add in the reference's order, of
integers all, whose sums have no order. A kept choice that is wrong, or was put there by another program, costs time and
nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard

from nirbridge import plugins as registry
from nirbridge.benchmarking.model import Bench, Choice, Numbers
from nirbridge.errors import FileError
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.json_text import parse_json
from nirbridge.files.regular import open_file, read_own, read_up_to
from nirbridge.files.scratch import cache_folder
from nirbridge.network.model import Network
from nirbridge.pipeline.bench_worker import contenders
from nirbridge.pipeline.doctor import host_facts, tool_marks
from nirbridge.program.step import step_program
from nirbridge.program.text import program_text
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.backends import EXACT

FOLDER = "choices"
_BYTES_MAX = 2**18
_PROCESSOR = ("model name", "CPU implementer", "CPU part", "uarch")
"""What ``/proc/cpuinfo`` calls the model of a processor."""
RunModel = Network | QuantizedNetwork


def exact_names(model: RunModel) -> tuple[str, ...]:
    """The back ends that ``nirbridge.open`` may choose: they have the reference's bits, and keep a state."""
    if isinstance(model, Network):
        return EXACT
    ready = (c for c in contenders((), integers=True)[0] if c.model == "quantized")
    kinds = {"simulator": "simulators", "program": "emitters"}
    return tuple(c.name for c in ready if getattr(registry.get(kinds[c.kind], c.name), "session", None) is not None)


def choices_of(bench: Bench, models: Mapping[str, Any], requested: Collection[str]) -> Iterator[Choice]:
    """The choice for each kind of numbers that ran and each batch.

    Args:
        bench: what was measured.
        models: the ``network`` and its integers (``quantized``), as far as they are there.
        requested: the only back ends that ran; empty: all. A choice is kept, so that ``nirbridge.open`` finds it, where
            all that it may choose ran.
    """
    kinds: tuple[tuple[Numbers, str], ...] = (("float32", "network"), ("integers", "quantized"))
    for numbers, name in kinds:
        rows = [row for row in bench.rows if row.numbers == numbers]
        allowed = exact_names(models[name]) if name in models else ()
        ran = rows and (name in models if numbers == "float32" else bench.chip is not None)
        for batch in bench.batches if ran else ():
            timed = [row for row in bench.timed(batch) if row.numbers == numbers]
            times = {row.backend: row.us_per_step[batch] for row in timed}
            exact = [row for row in timed if row.backend in allowed and not row.reason]  # else a readout differs
            beyond = {row.backend: row.us_per_run[batch] for row in exact}
            others = {row.backend: row.status for row in rows if row.backend not in times}
            choice = Choice(numbers, batch, MappingProxyType(times), MappingProxyType(beyond), MappingProxyType(others))
            is_whole = beyond and (not requested or set(allowed) <= set(requested))
            yield replace(choice, is_kept=True) if is_whole and _keep(models[name], choice) else choice


def kept_choice(model: RunModel, batch: int) -> Choice | None:
    """The kept choice for a model on this machine; None where there is none that can be used."""
    key = _key(model, batch)
    try:
        with open_file(_place(key), follow=False) as file:
            document = parse_json(read_up_to(file, _BYTES_MAX), "kept choice", bytes_max=_BYTES_MAX)
    except (OSError, FileError):
        return None
    if not isinstance(document, dict) or document.get("key") != key:
        return None
    times, beyond = document.get("us_per_step"), document.get("us_per_run")
    names = set(exact_names(model))
    if not _are_times(times, names) or not _are_times(beyond, names) or not times or times.keys() != beyond.keys():
        return None
    numbers = "float32" if isinstance(model, Network) else "integers"
    ordered = dict(sorted(times.items(), key=lambda item: item[1]))
    return Choice(numbers, batch, MappingProxyType(ordered), MappingProxyType(beyond), is_kept=True)


def _are_times(value: Any, names: Set[str]) -> TypeGuard[dict[str, float]]:
    """Whether a value of a file is microseconds by back end."""
    return (
        isinstance(value, dict) and value.keys() <= names and all(type(t) is float and t >= 0 for t in value.values())
    )


def _keep(model: RunModel, choice: Choice) -> bool:
    """Write a choice; False where the cache folder cannot be written, and it is measured again next time."""
    key = _key(model, choice.batch)
    place, names = _place(key), choice.us_per_run
    times = {"us_per_step": {name: choice.us_per_step[name] for name in names}, "us_per_run": dict(names)}
    content = json.dumps({"key": key, **times}, sort_keys=True, indent=2) + "\n"
    with suppress(OSError, FileError):
        place.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_bytes(place, content.encode(), subject="kept choice", follow=False)
        return True
    return False


def _place(key: Mapping[str, Any]) -> Path:
    return cache_folder() / FOLDER / f"{hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]}.json"


def _key(model: RunModel, batch: int) -> dict[str, Any]:
    """What a choice depends on, as plain JSON: the machine, the tools, the model's step program and the batch."""
    text, _ = program_text(step_program(model))
    return {
        "schema": 1,
        "model": hashlib.sha256(text.encode()).hexdigest(),
        "batch": batch,
        "back ends": sorted(exact_names(model)),
        "host": host_facts(),
        "processor": _lines("/proc/cpuinfo", _PROCESSOR) or [platform.processor()],
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "graphics": [
            line
            for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
            for line in _lines(path, ("Model",))
        ],
        "tools": tool_marks() | _plugins(),
    }


def _plugins() -> dict[str, str]:
    """Version by distribution that brings back ends."""
    found: dict[str, str] = {}
    for plugin in registry.installed_plugins():
        with suppress(PackageNotFoundError):
            found[plugin.distribution] = version(plugin.distribution)
    return found


def _lines(path: str | Path, names: Iterable[str]) -> list[str]:
    """The different values of these names in a file of the system, which has a ``name: value`` on each line."""
    try:
        text = read_own(path).decode("utf-8", "replace")
    except OSError:
        return []
    pairs = (line.partition(":") for line in text.splitlines())
    return sorted({" ".join(value.split()) for name, _, value in pairs if name.strip() in names})
