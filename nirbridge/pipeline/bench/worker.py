"""The process of one back end: it gets a model and inputs as files, and writes what it finds, stage by stage."""

from __future__ import annotations

import copyreg
import json
import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge import plugins as registry
from nirbridge.arrays import Array
from nirbridge.benchmarking.measure import BenchPlan, Runnable, measure
from nirbridge.emitters.own_time import listen_to_times
from nirbridge.errors import Bug, ModelError, NirbridgeError, ToolMissing
from nirbridge.files.atomic import atomic_write_bytes, create_file
from nirbridge.files.regular import open_file
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.pipeline.bench.contenders import Contender
from nirbridge.simulators.types import Probe, Recording

INPUTS, EXPECTED, RESULT = "inputs.pickle", "expected.pickle", "result.json"
"""Files of a folder that is shared by the back ends of one kind of numbers, and the file of each one's result."""
COMMAND = (
    "import json, sys; task = json.load(open(sys.argv[1])); sys.path[:] = task['path'];"
    " from nirbridge.pipeline.bench.worker import work; work(task)"
)
"""The program of the process, which finds the modules that its parent finds."""


@dataclass(frozen=True, slots=True)
class Task:
    """Arguments of a benchmark process; ``shared``: folder of model, inputs and reference, ``result``: its own file."""

    contender: dict[str, Any]
    shared: str
    result: str
    steps: int
    batches: tuple[int, ...]
    repeats: int
    path: tuple[str, ...]


def write_shared(folder: Path, inputs: Mapping[str, Array], models: Mapping[str, object]) -> None:
    """Write inputs and models for the processes of one benchmark, which alone read them."""
    _write(dict(inputs), folder / INPUTS)
    for name, model in models.items():
        _write(model, folder / f"{name}.pickle")


def _write(value: object, path: Path) -> None:
    with create_file(path) as file:
        pickler = pickle.Pickler(file, 5)
        pickler.dispatch_table = copyreg.dispatch_table | {MappingProxyType: _plain_mapping}  # type: ignore[assignment]
        pickler.dump(value)


def _read(path: Path) -> Any:
    with open_file(path, follow=False) as file:
        return pickle.load(file)


def _plain_mapping(mapping: Mapping[Any, Any]) -> tuple[Any, tuple[dict[Any, Any]]]:
    return _read_only, (dict(mapping),)


def _read_only(mapping: dict[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(mapping)


def work(document: Mapping[str, Any]) -> None:
    """Measure the back end of a task; whatever happens is in its result."""
    task = Task(**document)
    row: dict[str, Any] = {}

    def save(columns: Mapping[str, Any]) -> None:
        row.update(columns)
        atomic_write_bytes(task.result, json.dumps(row).encode(), subject="result")

    try:
        _measure(task, Contender(**task.contender), save)
    except ToolMissing as error:
        problem = error.problems[0]
        save({"status": "absent", "reason": problem.found, "hint": problem.hint})
    except ModuleNotFoundError as error:
        save({"status": "absent", "reason": f"the module {error.name} is not installed", "hint": "install it"})
    except NirbridgeError as error:
        is_fault = isinstance(error, Bug) or (isinstance(error, ModelError) and row.get("is_running", False))
        save({"status": "failed" if is_fault else "refused", "reason": "; ".join(map(str, error.problems[:3]))})
    except Exception as error:  # of a library or a plugin: no back end ends the others
        save({"status": "failed", "reason": f"{type(error).__name__}: {error}"})


def _measure(task: Task, contender: Contender, save: Any) -> None:
    shared = Path(task.shared)
    model = _read(shared / f"{contender.model}.pickle")
    run, records = (_program if contender.kind == "program" else _simulator)(contender, model, save)
    network = integers_of(model) if isinstance(model, MappedNetwork) else model
    plan = BenchPlan(
        name=contender.name,
        base=contender.base,
        inputs=_read(shared / INPUTS),
        steps=task.steps,
        batches=tuple(task.batches),
        repeats=task.repeats,
        every=_every(network, records),
        outputs=tuple(port.name for port in network.outputs),
        expected=None if contender.is_base else partial(_read, shared / EXPECTED),
        is_program=contender.kind == "program",
    )
    recording = measure(run, plan, save)
    if contender.is_base:
        _write(dict(recording.arrays), shared / EXPECTED)


def _every(network: Any, records: Sequence[str]) -> list[Probe]:
    """Spikes of every population that fires, where the back end records them, and the input of every output."""
    firing = [p.name for p in network.populations if p.neuron.fires] if "s" in records else []
    return [Probe(name, ("s",)) for name in dict.fromkeys([*firing, *(port.name for port in network.outputs)])]


def _simulator(contender: Contender, model: Any, save: Any) -> tuple[Runnable, Sequence[str]]:
    del save
    if contender.library != "numpy":
        return partial(_in_library, contender.library, model), ("s",)
    return partial(registry.get("simulators", contender.target), model), ("s",)


def _in_library(library: str, network: Network, inputs: Mapping[str, Array], **options: Any) -> Recording:
    from nirbridge.simulators.simulate import simulate

    return simulate(network, inputs, backend="reference", library=library, **options).recording


def _program(contender: Contender, model: Any, save: Any) -> tuple[Runnable, Sequence[str]]:
    emitter: Any = registry.get("emitters", contender.target)
    with listen_to_times() as reported:
        start = time.perf_counter()
        artifact = emitter.emit(model)
        seconds = time.perf_counter() - start
    if reported.compilation:
        save({"compile_s": sum(reported.compilation)})
        seconds -= sum(reported.compilation)
    size = sum(map(len, artifact.files.values()))
    alone = bool(getattr(emitter, "one_sample_at_a_time", False))
    save({"build_s": seconds, "artifact_bytes": size, "one_sample_at_a_time": alone, "is_running": True})
    return partial(emitter.run, artifact), emitter.records
