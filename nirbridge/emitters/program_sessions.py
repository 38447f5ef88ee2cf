"""Programs that run on from a state, on a tool that keeps them loaded: the form ``Continued`` of sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.ports import PROGRAM_FIELDS
from nirbridge.emitters.program_runs import Ran, ReadProgram, read_program
from nirbridge.emitters.real_recordings import real_channels
from nirbridge.emitters.script_runs import sample_count, variable_names
from nirbridge.simulators.checks import check_limits, check_state
from nirbridge.simulators.continued import RunByRun, Runner
from nirbridge.simulators.fixed.host_io import fixed_channels, integer_values
from nirbridge.simulators.fixed.runs import state_limits
from nirbridge.simulators.inputs import Input, check_finite
from nirbridge.simulators.recording import copied_source
from nirbridge.simulators.types import Key, Probe, SimulationResult, SimulationState

_FIELDS = {**PROGRAM_FIELDS, "states": list[dict[str, Any]]}


class LoadedProgram(Protocol):
    """A program that a tool has loaded. A state of the tool is what it takes and gives; no call changes it."""

    def enter(self, arrays: Mapping[str, Array], batch: int) -> Any:
        """The tool's state of arrays by id: ``[batch, *shape]``, of a past ``[depth, batch, *shape]``, oldest first."""
        ...

    def leave(self, state: Any) -> Mapping[str, Array]:
        """The arrays of a state of the tool, as of ``enter`` up to their types, elements flat or not."""
        ...

    def advance(
        self, state: Any, values: Mapping[str, Array], names: Sequence[str], steps: int
    ) -> tuple[Mapping[str, Array], Any]:
        """Run time steps.

        Args:
            state: of the tool.
            values: by id of an input, ``[steps, batch, *shape]`` in the type of its port.
            names: of further variables of populations, sorted.
            steps: number of time steps.

        Returns:
            By id of an output, and by name, ``[steps, batch, …]``; and the state after the last time step.
        """
        ...


class ProgramSession:
    """A program on a tool, prepared once; see ``Continued``."""

    def __init__(self, artifact: Artifact, tool: LoadedProgram) -> None:
        self.program: ReadProgram = read_program(artifact, _FIELDS)
        self.tool = tool
        self.signature = self.program.signature
        self.quantized = self.program.quantized
        self._limits = {} if self.quantized is None else state_limits(self.quantized)
        self._integers = {} if self.quantized is None else {p.name: p for p in self.quantized.inputs}
        self._states = [s for s in self.program.facts["states"] if s["id"]]
        self._ports = [(p["name"], p["id"], p["dtype"]) for p in self.program.facts["inputs"]]
        self._named = {p.name: p for p in self.signature.inputs}

    def blank(self, batch: int) -> SimulationState:
        """The initial state."""
        arrays = {}
        for s in self.program.facts["states"]:
            depth = (s["depth"],) if s["depth"] else ()
            start = np.asarray(s["start"], s["dtype"])
            arrays[s["name"], s["part"]] = freeze(np.broadcast_to(start, (*depth, batch, *s["shape"])))
        return SimulationState(0, arrays)

    def run(
        self,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        state: SimulationState | None = None,
        record: Sequence[Probe] | None = None,
    ) -> SimulationResult:
        """See ``Continued``."""
        ended: list[SimulationState] = []

        def execute(facts: Any, values: Mapping[str, Array], keys: set[Key], count: int) -> Ran:
            names = variable_names(facts, keys)
            batch = sample_count(values)
            given = {key: np.ascontiguousarray(values[name], kind) for name, key, kind in self._ports}
            first = self.entered(batch, state)
            found, last = self.tool.advance(first, given, sorted(set(names.values())), count)
            ended.append(self.left(last, batch, count + (0 if state is None else state.step)))
            outputs = {p["name"]: np.asarray(found[p["id"]]) for p in facts["outputs"]}
            return {key: np.asarray(found[name]) for key, name in names.items()}, outputs

        recording = self.program.record(inputs, steps, record, execute, state)
        return SimulationResult(recording, ended[0])

    def runner(self, batch: int, state: SimulationState | None = None) -> Runner:
        """See ``Continued``; step by step as ``run`` where the host adds up the outputs of integers."""
        adds = self.quantized is not None and any(
            copied_source(self.signature, p.name) is None for p in self.signature.outputs
        )
        return RunByRun(self, self.begun(batch, state)) if adds else ProgramRunner(self, batch, state)

    def entered(self, batch: int, state: SimulationState | None) -> Any:
        """The tool's state of a state, else of the initial one. Raises as ``begun``."""
        arrays = self.begun(batch, state).arrays
        return self.tool.enter({s["id"]: arrays[s["name"], s["part"]] for s in self._states}, batch)

    def begun(self, batch: int, state: SimulationState | None) -> SimulationState:
        """A state, else the initial one. Raises UsageError for another form, or integers that no run reaches."""
        blank = self.blank(batch)
        if state is None:
            return blank
        check_state(state, blank)
        check_limits(state, self._limits)
        return state

    def left(self, last: Any, batch: int, step: int) -> SimulationState:
        """A state of the tool in the form of the simulators; what no time step reads has its initial value."""
        blank, found = self.blank(batch), self.tool.leave(last)
        arrays = dict(blank.arrays)
        for s in self._states:
            key = s["name"], s["part"]
            arrays[key] = freeze(np.asarray(found[s["id"]], s["dtype"]).reshape(arrays[key].shape))
        return SimulationState(step, arrays)

    def given(self, values: Mapping[str, Array], step: int) -> dict[str, Array]:
        """The inputs of one time step, by id. Raises UsageError for values that an input does not take."""
        found = {}
        for name, key, kind in self._ports:
            rows = np.asarray(values[name])[None]
            if name in self._integers:
                rows = integer_values(self._integers[name], rows, step).reshape(rows.shape)
            else:
                check_finite(self._named[name], rows, kind, step)
            found[key] = np.ascontiguousarray(rows, kind)
        return found

    def shown(self) -> list[tuple[str, str, str]]:
        """Name, id, and type in recordings of each output."""
        facts = self.program.facts
        if self.quantized is None:
            channels = real_channels(self.signature, facts, None, dtype=facts["numbers"])
        else:
            channels = fixed_channels(self.quantized, self.signature, None)
        ids = {p["name"]: p["id"] for p in facts["outputs"]}
        return [(c.node, ids[c.node], c.dtype) for c in channels]


class ProgramRunner:
    """A run of a program in single time steps; its state stays the tool's until it is read. See ``Runner``."""

    def __init__(self, of: ProgramSession, batch: int, state: SimulationState | None) -> None:
        self._of, self._batch, self._step = of, batch, 0 if state is None else state.step
        self._state, self._shown = of.entered(batch, state), of.shown()

    def step(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """See ``Runner``."""
        given = self._of.given(values, self._step)
        found, self._state = self._of.tool.advance(self._state, given, (), 1)
        self._step += 1
        return {name: found[key][0].astype(kind) for name, key, kind in self._shown}

    def state(self) -> SimulationState:
        """See ``Runner``."""
        return self._of.left(self._state, self._batch, self._step)
