"""Runs of IREE programs in a process of their own: of the module that a program has, or of one for the request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.iree.program import COMPILED, TEMPLATES, program_facts, program_files, stored_model
from nirbridge.emitters.iree.tool import HINT, TOOL, compiled, has_compiler, need
from nirbridge.emitters.lava.runtime.run import RunLimits
from nirbridge.emitters.program_runs import Ran, record_program
from nirbridge.emitters.program_sessions import ProgramSession
from nirbridge.emitters.script_runs import run_script, sample_count, variable_names
from nirbridge.emitters.served_programs import ServedProgram
from nirbridge.errors import ModelError, ToolMissing, UsageError, quoted
from nirbridge.files.regular import template_bytes
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Key, Probe, Recording

LIMITS = RunLimits(start_s=120.0, process_s=0.0, step_s=5.0)
"""When a run is ended."""
BATCH_MAX = 64
"""More samples than this run in groups of it."""
STEPS_MAX = 1000
"""More time steps than this run in parts of it, where a module takes a fixed number."""
NO_DEVICE = "no Vulkan device is found"
"""What ``run.py`` says then."""
_KEPT = 8
Files = Mapping[str, bytes]


def run_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    limits: RunLimits = LIMITS,
    progress: Progress = no_progress,
) -> Recording:
    """Runs a program on inputs; arguments and errors as of ``ScriptTool.run_program``.

    Where the program's own module takes another batch, or does not return what is recorded, one that does is compiled
    and kept for later runs of this process. Without IREE's compiler the samples run in groups of the module's batch.

    Raises:
        ToolMissing: IREE's runtime is not installed, or its compiler where it is needed; no Vulkan device is found.
    """
    need("runtime")
    return record_program(artifact, inputs, steps, record, partial(_ran, artifact, limits, progress))


def _ran(
    artifact: Artifact,
    limits: RunLimits,
    progress: Progress,
    facts: Any,
    values: Mapping[str, Array],
    keys: set[Key],
    steps: int,
) -> Ran:
    names = variable_names(facts, keys)
    files = fitting(artifact, sample_count(values), steps, frozenset(keys), set(names.values()))
    with _devices_named():
        return run_script(files, facts, values, names, steps, limits=limits, progress=progress, tool=TOOL)


@contextmanager
def _devices_named() -> Iterator[None]:
    """Raises ToolMissing in place of the log of a run that found no device."""
    try:
        yield
    except ModelError as error:
        if NO_DEVICE not in str(error.problems[0].ids.get("log", "")):
            raise
        limit = "a program for vulkan-spirv runs on one, such as Mesa's lavapipe on the processor"
        raise ToolMissing.of("emitter 'iree'", NO_DEVICE, limit, "apt install mesa-vulkan-drivers") from None


def fitting(artifact: Artifact, samples: int, steps: int, keys: frozenset[Key], names: set[str]) -> Files:
    """The files of a program whose module takes these samples and returns what is recorded."""
    module = program_facts(artifact)["module"]
    returns = names <= set(module["results"])
    has_tool = has_compiler() and stored_model(artifact.files) is not None
    batch, length = min(samples, BATCH_MAX), min(steps, STEPS_MAX)
    fits = module["batch"] == batch and module["steps"] in (None, length)
    if COMPILED in artifact.files and returns and (fits or not has_tool):
        return artifact.files
    if COMPILED in artifact.files and not has_tool:
        limit = f"its module returns {', '.join(module['results'])}"
        found = f"has no {', '.join(quoted(name) for name in sorted(names - set(module['results'])))}"
        raise UsageError.of("program of emitter 'iree'", found, limit, HINT)
    need("compiler")
    return _compiled(artifact, batch, length if module["steps"] else 1, keys)


@lru_cache(maxsize=_KEPT)
def _compiled(artifact: Artifact, batch: int, steps: int, keys: frozenset[Key]) -> Files:
    """The program anew for a batch and recorded variables. An artifact is told by its identity."""
    facts = program_facts(artifact)
    model = stored_model(artifact.files)
    if model is None:
        raise UsageError.of("program of emitter 'iree'", "has no network to compile", "", "emit it with its module")
    options = {**facts["options"], "batch": batch, "steps": steps}
    files = program_files(model, options, records=sorted(keys))
    return {**files, COMPILED: compiled(files)}


# -- sessions ------------------------------------------------------------------------------------------------------


def open_program(artifact: Artifact) -> ProgramSession:
    """A program whose modules stay loaded, each in a process of its own, and that runs on from states.

    A module is of one batch and one choice of recorded variables: another one is compiled when it is first needed.

    Raises:
        ToolMissing: IREE's runtime is not installed.
        UsageError: a module from StableHLO, which takes a fixed number of time steps.
    """
    need("runtime")
    if program_facts(artifact)["options"].get("source") != "linalg":
        found, limit = "is made from StableHLO", "its module takes a fixed number of time steps"
        raise UsageError.of("program of emitter 'iree'", found, limit, "emit it from linalg to run it on from a state")
    return ProgramSession(artifact, _Modules(artifact))


class _State(NamedTuple):
    """Arrays, or a state of the process that has it."""

    batch: int
    arrays: Mapping[str, Array]
    process: ServedProgram | None = None
    held: Any = None


class _Modules:
    """See ``LoadedProgram``; a process for each module."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        nodes = program_facts(artifact)["nodes"]
        self._keys = {name: (n["name"], variable) for n in nodes for variable, name in n["variables"].items()}
        self._served = lru_cache(maxsize=_KEPT)(self._started)

    def _started(self, batch: int, names: tuple[str, ...]) -> ServedProgram:
        keys = frozenset(self._keys[name] for name in names)
        files = fitting(self._artifact, batch, 1, keys, set(names))
        served = template_bytes(TEMPLATES / "served.py.txt")
        with _devices_named():
            return ServedProgram({**files, "served.py": served}, LIMITS, TOOL)

    def enter(self, arrays: Mapping[str, Array], batch: int) -> _State:
        """See ``LoadedProgram``."""
        return _State(batch, arrays)

    def leave(self, state: _State) -> Mapping[str, Array]:
        """See ``LoadedProgram``."""
        return state.arrays if state.process is None else state.process.leave(state.held)

    def advance(
        self, state: _State, values: Mapping[str, Array], names: Sequence[str], steps: int
    ) -> tuple[Mapping[str, Array], _State]:
        """See ``LoadedProgram``."""
        served = self._served(state.batch, tuple(names))
        held = state.held if state.process is served else served.enter(self.leave(state), state.batch)
        found, after = served.advance(held, values, names, steps)
        return found, _State(state.batch, {}, served, after)
