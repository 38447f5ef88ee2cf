"""The back ends of a benchmark: which there are, and the process that measures one of them stage by stage."""

from __future__ import annotations

import copyreg
import json
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from nirbridge import plugins as registry
from nirbridge.arrays import Array
from nirbridge.benchmarking.measure import BenchPlan, Runnable, measure
from nirbridge.benchmarking.model import BenchRow
from nirbridge.emitters.own_time import listen_to_times
from nirbridge.errors import Bug, ModelError, NirbridgeError, ToolMissing, UsageError, did_you_mean, quoted
from nirbridge.files.atomic import atomic_write_bytes, create_file
from nirbridge.files.regular import open_file
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.reference.array_namespace import LIBRARIES
from nirbridge.simulators.types import Probe, Recording

ModelKind = Literal["network", "quantized", "mapped"]
KINDS: dict[ModelKind, type] = {"network": Network, "quantized": QuantizedNetwork, "mapped": MappedNetwork}
REFERENCE, FIXED = "reference", "fixed"
"""The simulators that others are compared with: of real numbers, and of integers."""
_NO_BACK_END = ("numpy", "array_api_strict")
"""Libraries that are no back end of their own: the reference's, and one that only checks."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A back end and the kind of model that it gets; ``library``: of arrays, for the reference on another one."""

    name: str
    kind: Literal["simulator", "program"]
    model: ModelKind
    library: str = "numpy"

    @property
    def numbers(self) -> Literal["float32", "integers"]:
        """What it computes in."""
        return "float32" if self.model == "network" else "integers"

    @property
    def target(self) -> str:
        """Its name in the registry."""
        return self.name.partition("/")[0] if self.library != "numpy" else self.name

    @property
    def base(self) -> str:
        """The simulator that it is compared with."""
        return REFERENCE if self.model == "network" else FIXED

    @property
    def is_base(self) -> bool:
        """True for the simulators that others are compared with."""
        return self.kind == "simulator" and self.name == self.base

    def row(self, status: Any, reason: str = "", hint: str = "") -> BenchRow:
        """Its row without a figure."""
        return BenchRow(self.name, self.kind, self.numbers, status, reason, hint)


Found = tuple[list[Contender], list[BenchRow]]


def contenders(chosen: Sequence[str], *, integers: bool) -> Found:
    """What can be measured, each reference first, and rows of what cannot.

    Args:
        chosen: names of back ends; none: all. The references are always among them.
        integers: whether there is a chip, whose integers run too.

    Raises:
        UsageError: a name that no back end has.
    """
    pairs = list(_all(integers=integers))
    names = list(dict.fromkeys(contender.name for contender, _ in pairs))
    problems = [name for name in chosen if name not in names]
    if problems:
        hint = did_you_mean(problems[0], names) or "choose one of them"
        raise UsageError.of(f"back end {quoted(problems[0])}", "unknown", f"there are {', '.join(names)}", hint)
    taken = [(c, row) for c, row in pairs if not chosen or c.name in chosen or (c.is_base and row is None)]
    ready = [contender for contender, row in taken if row is None]
    groups = {c.numbers for c in ready if not chosen or c.name in chosen}
    ready = [c for c in ready if c.numbers in groups]
    ordered = sorted(ready, key=lambda c: (c.numbers != "float32", not c.is_base))
    return ordered, [row for _, row in taken if row is not None]


def _all(*, integers: bool) -> Iterator[tuple[Contender, BenchRow | None]]:
    for name in registry.names("simulators"):
        yield from _of_name("simulators", name, integers=integers)
        if name == REFERENCE:
            libraries = (library for library in LIBRARIES if library not in _NO_BACK_END)
            yield from ((Contender(f"{name}/{lib}", "simulator", "network", lib), None) for lib in libraries)
    for name in registry.names("emitters"):
        yield from _of_name("emitters", name, integers=integers)


def _of_name(kind: str, name: str, *, integers: bool) -> Iterator[tuple[Contender, BenchRow | None]]:
    """A back end in real numbers, in integers, in both, or a row that says why it is in none."""
    what: Any = "simulator" if kind == "simulators" else "program"
    try:
        target: Any = registry.get(kind, name)
    except UsageError as error:
        contender = Contender(name, what, "network")
        yield contender, contender.row("refused", str(error.problems[0]))
        return
    if getattr(target, "chooses", False):
        return  # another name for one of the others
    takes: list[ModelKind] = [model for model, cls in KINDS.items() if cls in target.takes]
    if what == "program" and not target.records:
        contender = Contender(name, what, takes[0])
        yield contender, contender.row("refused", "nothing runs its programs")
        return
    if "network" in takes:
        yield Contender(name, what, "network"), None
    whole: list[ModelKind] = [model for model in takes if model != "network"]
    if not whole:
        return
    contender = Contender(name, what, whole[0])
    if integers:
        yield contender, None
    elif "network" not in takes:
        yield contender, contender.row("refused", "computes in the integers of a chip", "name a chip")


# -- process -------------------------------------------------------------------------------------------------------
# The process of one back end: it gets a model and inputs as files, and writes what it finds, stage by stage.


INPUTS, EXPECTED, RESULT = "inputs.pickle", "expected.pickle", "result.json"
"""Files of a folder that is shared by the back ends of one kind of numbers, and the file of each one's result."""
COMMAND = (
    "import json, sys; task = json.load(open(sys.argv[1])); sys.path[:] = task['path'];"
    " from nirbridge.pipeline.bench_worker import work; work(task)"
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

    device = "cuda" if library == "cupy" else "cpu"
    return simulate(network, inputs, backend="reference", library=library, device=device, **options).recording


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
