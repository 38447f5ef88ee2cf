"""The engine: a network in chunks of time steps, layer by layer outside of cycles, else step by step.

The meaning of a time step is in semantics.py and sums.py; the engine moves arrays and is the same for every backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array, all_finite, freeze, kept
from nirbridge.network.graph import PopulationGroup, population_groups
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import first_state
from nirbridge.simulators.checks import check_limits, check_state
from nirbridge.simulators.recording import copied_source
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import Accumulate, Backend, Layer, LayerOutput, Loop, ReferenceNeurons
from nirbridge.simulators.reference.state import Delay, RunStart, SpikeHistory, check_history, run_start
from nirbridge.simulators.reference.sums import accumulate
from nirbridge.simulators.types import SimulationState

Wanted = Mapping[str, frozenset[str]]


def reference_backend(space: ArrayNamespace) -> Backend:
    """The reference backend on an array library."""
    return Backend(
        space=space,
        accumulate=lambda projection: accumulate(projection.operator, space),
        neurons=lambda population: ReferenceNeurons(population, space),
        take_input=space.array,
    )


@dataclass(frozen=True, slots=True, eq=False)
class PreparedProjection:
    """A projection made ready; ``target_delay`` is its delay per target element, None where there is none.

    ``add_up`` is None where a layer or a loop does the sums.
    """

    index: int
    source: str
    shape: tuple[int, ...]
    add_up: Accumulate | None
    bias: Any
    delay: Delay
    target_delay: Delay | None


class Engine:
    """A network prepared for one backend; it holds no state of a run, so that several runs may share it."""

    def __init__(self, network: Network, parts: Backend) -> None:
        self.network, self.parts = network, parts
        self.groups: Sequence[PopulationGroup] = population_groups(network)
        self.loops: dict[str, Loop] = {}
        self.layers: dict[str, Layer] = {}
        self.wires: dict[str, list[PreparedProjection]] = {p.name: [] for p in (*network.populations, *network.outputs)}
        incoming: dict[str, list[Projection]] = {name: [] for name in self.wires}
        for projection in network.projections:
            incoming[projection.target].append(projection)
        alone = {g.populations[0].name: g for g in self.groups if len(g.populations) == 1}
        for index, p in enumerate(network.projections):
            done = p.target in alone and self._in_one_go(p, alone[p.target], incoming[p.target])
            self.wires[p.target].append(self._wire(index, p, None if done else parts.accumulate(p)))
        rest = (p for p in network.populations if p.name not in self.loops and p.name not in self.layers)
        self.neurons = {p.name: parts.neurons(p) for p in rest}
        self.depths = {p.name: 0 for p in (*network.inputs, *network.populations)}
        for projection in network.projections:
            depth = int(projection.delay_steps.max())
            self.depths[projection.source] = max(self.depths[projection.source], depth)
        passed = (p.name for p in network.outputs if copied_source(network, p.name) is not None)
        self.copied = {name for name in passed if self.wires[name][0].target_delay is None}
        self.limits = {(p.name, "refractory"): (0, int(p.neuron.refractory_steps.max())) for p in network.populations}
        self._blank: dict[int, SimulationState] = {}
        self._begun: dict[int, RunStart] = {}

    def _wire(self, index: int, p: Projection, add_up: Accumulate | None) -> PreparedProjection:
        space = self.parts.space
        bias = None if p.bias is None else space.array(p.bias)
        target_delay = Delay(p.target_delay_steps, space) if p.target_delay_steps.any() else None
        shape, delay = p.operator.output_shape, Delay(p.delay_steps, space)
        return PreparedProjection(index, p.source, shape, add_up, bias, delay, target_delay)

    def _in_one_go(self, p: Projection, group: PopulationGroup, incoming: Sequence[Projection]) -> bool:
        """True where a layer or a loop of the backend computes this projection together with its target's neurons."""
        population, sources = group.populations[0], [q.source for q in incoming]
        if not group.has_cycle:
            layer = self.parts.layer(population, p) if len(incoming) == 1 and not p.target_delay_steps.any() else None
            self.layers.update({} if layer is None else {p.target: layer})
            return layer is not None
        later_sources = len(sources) - sources.index(p.target) - 1
        if p.source != p.target or sources.count(p.target) != 1 or later_sources > 1:
            return False
        loop = self.parts.loop(population, p)
        self.loops.update({} if loop is None else {p.target: loop})
        return loop is not None

    def start(self, batch: int, state: SimulationState | None) -> EngineRun:
        """A run from the initial state or a given one. Raises UsageError for a state of another network or batch."""
        if state is not None:
            check_state(state, self.blank(batch))
            check_limits(state, self.limits)
        return EngineRun(self, batch, state)

    def blank(self, batch: int) -> SimulationState:
        """The initial state; those of the last batch sizes are cached."""
        return kept(self._blank, batch, lambda: self._made_blank(batch))

    def begin(self, batch: int, state: SimulationState | None) -> RunStart:
        """A state in the backend's arrays; the initial one is cached, because it is never modified."""
        late = (w.index for wires in self.wires.values() for w in wires if w.target_delay is not None)
        if state is not None:
            return run_start(self.network, self.parts, state, late, False)
        return kept(self._begun, batch, lambda: run_start(self.network, self.parts, self.blank(batch), late, True))

    def _made_blank(self, batch: int) -> SimulationState:
        space, arrays = self.parts.space, {}
        for p in self.network.populations:
            for name, value in first_state(p.neuron).items():
                first = value if name == "refractory" else np.asarray(value, space.float_name)
                arrays[p.name, name] = _batched(first, batch, p.shape)
        check_history((*self.network.inputs, *self.network.populations), self.network.projections, batch)
        shapes = {p.name: p.shape for p in (*self.network.inputs, *self.network.populations)}
        silent = np.zeros((), space.float_name)
        for name, depth in self.depths.items():
            if depth:
                arrays[name, "past"] = _batched(silent, depth, (batch, *shapes[name]))
        for wires in self.wires.values():
            for wire in (w for w in wires if w.target_delay is not None):
                name = self.network.projections[wire.index].target, f"past of projection {wire.index}"
                depth = wire.target_delay.longest if wire.target_delay else 0
                arrays[name] = _batched(silent, depth, (batch, *wire.shape))
        return SimulationState(0, arrays)


def _batched(value: Array, count: int, shape: tuple[int, ...]) -> Array:
    return freeze(np.broadcast_to(value, (count, *shape)))


class EngineRun:
    """One run: its state and the spike history of each source. Chunks follow each other in time."""

    def __init__(self, engine: Engine, batch: int, state: SimulationState | None) -> None:
        self.engine, self.batch = engine, batch
        start, space = engine.begin(batch, state), engine.parts.space
        self.step, self.states = start.step, dict(start.states)
        self.trails = {name: SpikeHistory(space, past) for name, past in start.past.items()}
        self.late = {index: SpikeHistory(space, past) for index, past in start.late.items()}

    def chunk(self, inputs: Mapping[str, Array], steps: int, requested: Wanted) -> dict[tuple[str, str], Any]:
        """Run the time steps of ``inputs`` (``[steps, batch, *shape]`` each) and return the requested variables."""
        out: dict[tuple[str, str], Any] = {}
        for name, values in inputs.items():
            spikes = self.engine.parts.take_input(values)
            self.trails[name].add(spikes)
            out[name, "s"] = spikes
        for group in self.engine.groups:
            self._run_group(group, steps, requested, out)
        for port in self.engine.network.outputs:
            if requested.get(port.name):
                out[port.name, "s"] = out[port.name, "v"] = self._shown(port, steps)
            else:
                self._keep_up(port.name, steps)
        for trail in (*self.trails.values(), *self.late.values()):
            trail.close()
        self.step += steps
        return {key: values for key, values in out.items() if key[1] in requested.get(key[0], ())}

    def _run_group(
        self, group: PopulationGroup, steps: int, requested: Wanted, out: dict[tuple[str, str], Any]
    ) -> None:
        first, engine = group.populations[0], self.engine
        pieces: dict[tuple[str, str], list[Any]] = {}
        if first.name in engine.loops:
            self._store(first, self._run_loop(group, steps, requested), requested, pieces)
        elif first.name in engine.layers:
            self._store(first, self._run_layer(first, steps, requested), requested, pieces)
        else:
            stretch = 1 if group.has_cycle else steps
            outer = self._from_outside(group, steps) if group.has_cycle else {}
            for start in range(0, steps, stretch):
                for p in group.populations:
                    drive = self._drive(p.name, p.shape, start, start + stretch, outer)
                    variables = requested.get(p.name, frozenset())
                    output = engine.neurons[p.name].run(drive, self.states[p.name], variables)
                    self._store(p, output, requested, pieces)
        concat = engine.parts.space.xp.concat
        out.update({key: v[0] if len(v) == 1 else concat(v, axis=0) for key, v in pieces.items()})

    def _run_layer(self, p: Population, steps: int, requested: Wanted) -> LayerOutput:
        (wire,) = self.engine.wires[p.name]
        spikes = self.trails[wire.source].window(0, steps, wire.delay)
        return self.engine.layers[p.name].run(spikes, self.states[p.name], requested.get(p.name, frozenset()))

    def _run_loop(self, group: PopulationGroup, steps: int, requested: Wanted) -> LayerOutput:
        p = group.populations[0]
        outer, before, after, loop_wire = self._from_outside(group, steps), None, None, None
        for wire in self.engine.wires[p.name]:
            if wire.source == p.name:
                loop_wire = wire
            elif loop_wire is not None:
                after = outer[wire.index]
            else:
                before = outer[wire.index] if before is None else before + outer[wire.index]
        past = self.trails[p.name].window(0, 1, loop_wire.delay)[0, ...] if loop_wire is not None else None
        loop = self.engine.loops[p.name]
        return loop.run(steps, (before, after), past, self.states[p.name], requested.get(p.name, frozenset()))

    def _store(
        self, p: Population, output: LayerOutput, requested: Wanted, pieces: dict[tuple[str, str], list[Any]]
    ) -> None:
        """Take over the state and the spikes of a population, and append its recorded variables."""
        self.states[p.name] = dict(output.state)
        self.trails[p.name].add(output.sent)
        for variable, values in {"s": output.sent, **output.traces}.items():
            if variable in requested.get(p.name, ()):
                pieces.setdefault((p.name, variable), []).append(values)

    def _shown(self, port: Port, steps: int) -> Any:
        """The input of an output port; copied values keep their type."""
        if port.name not in self.engine.copied:
            return self._drive(port.name, port.shape, 0, steps)
        wire = self.engine.wires[port.name][0]
        sent = self.trails[wire.source].window(0, steps, wire.delay)
        return self.engine.parts.space.reshape(sent, (steps, self.batch, *port.shape))

    def _from_outside(self, group: PopulationGroup, steps: int) -> dict[int, Any]:
        """Currents from outside of the group, for all time steps at once."""
        names = {p.name for p in group.populations}
        return {
            w.index: self._current(w, 0, steps) for n in names for w in self.engine.wires[n] if w.source not in names
        }

    def _drive(
        self, target: str, shape: tuple[int, ...], start: int, stop: int, ready: Mapping[int, Any] | None = None
    ) -> Any:
        """The summed input of a target, projections in the network's order: ``[steps, batch, *shape]``."""
        total = None
        for wire in self.engine.wires[target]:
            precomputed = None if ready is None else ready.get(wire.index)
            current = self._current(wire, start, stop) if precomputed is None else precomputed[start:stop, ...]
            total = current if total is None else total + current
        return self.engine.parts.space.full((stop - start, self.batch, *shape), 0.0) if total is None else total

    def _current(self, wire: PreparedProjection, start: int, stop: int) -> Any:
        space = self.engine.parts.space
        spikes = self.trails[wire.source].window(start, stop, wire.delay)
        items = space.reshape(spikes, ((stop - start) * self.batch, *spikes.shape[2:]))
        assert wire.add_up is not None  # else its layer computes the sums
        current = space.reshape(wire.add_up(items), (stop - start, self.batch, *wire.shape))
        if wire.target_delay is not None:
            trail = self.late[wire.index]
            trail.add(current)
            current = trail.window(start, stop, wire.target_delay)
        return current if wire.bias is None else current + wire.bias

    def _keep_up(self, target: str, steps: int) -> None:
        """Advance the delays of an output that is not recorded: delayed values are part of the state."""
        for wire in self.engine.wires[target]:
            if wire.target_delay is not None:
                self._current(wire, 0, steps)

    def not_finite(self) -> set[str]:
        """The nodes whose state holds a value that is not finite."""
        numpy, late = self.engine.parts.space.numpy, self.engine.network.projections
        arrays = [(name, value) for name, parts in self.states.items() for value in parts.values()]
        arrays += [(name, trail.past) for name, trail in self.trails.items() if trail.depth]
        arrays += [(late[index].target, trail.past) for index, trail in self.late.items()]
        return {name for name, value in arrays if not all_finite(numpy(value))}

    def state(self) -> SimulationState:
        """The state after the last time step."""
        space = self.engine.parts.space
        arrays: dict[tuple[str, str], Array] = {}
        blank = self.engine.blank(self.batch).arrays
        for name, parts in self.states.items():
            for part, value in parts.items():
                kind = np.int64 if part == "refractory" else space.float_name
                same = value is blank.get((name, part))  # read-only already
                arrays[name, part] = value if same else freeze(space.numpy(value), kind)
        for name, trail in self.trails.items():
            if trail.depth:
                arrays[name, "past"] = freeze(space.numpy(trail.past), space.float_name)
        for index, trail in self.late.items():
            target = self.engine.network.projections[index].target
            arrays[target, f"past of projection {index}"] = freeze(space.numpy(trail.past))
        return SimulationState(self.step, arrays)
