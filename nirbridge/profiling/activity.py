"""The user's data, and what a run on it does: spikes, potentials and decisions, counted block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nirbridge._types import Progress, Shape
from nirbridge.arrays import Array
from nirbridge.comparison.distances import checked_labels
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import FixedSimulator
from nirbridge.simulators.inputs import open_inputs
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe, SimulationResult, SimulationState

BLOCK_BYTES = 128 * 2**20
"""Recorded arrays of one block of samples and time steps."""
SAMPLES = 128
BYTES = 32
"""Of a neuron in a time step: its spike, and its current and potential as the integer simulator holds them."""
OnBlock = Callable[[Mapping[str, Array], Mapping[str, Array]], None]
"""Gets the sent values of a block, and by population its updated neurons, all ``[time steps, samples, neurons]``."""
Spikes = Mapping[str, Array]
"""Sent values of a block by name of an input or population that fires: ``[time steps, samples, neurons]``, flat."""


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """Counts of one run over all samples.

    ``counts``: by input and firing population, the time steps in which each neuron or element sends anything, over the
    run and all samples [flat].
    ``active``: by firing population, activations that are not 0 in the time steps of the model. ``updates``: by
    population, changes of potentials in these time steps, the first one of each neuron included. ``totals``: by output,
    its values summed over these time steps [samples, values]. ``steps``: time steps of a sample; ``run_steps``: those
    of its run. ``graded``: inputs with values other than 0 and 1.
    """

    samples: int
    steps: int
    run_steps: int
    counts: Mapping[str, Array]
    active: Mapping[str, int]
    updates: Mapping[str, int]
    totals: Mapping[str, Array]
    graded: frozenset[str]

    def per_inference(self, name: str) -> float:
        """Spikes of a node in a sample, on average."""
        return float(self.counts[name].sum()) / self.samples

    def rates(self, shapes: Mapping[str, Shape]) -> dict[str, Array]:
        """Spikes of each neuron per time step of its run, in the shape of its node."""
        events = self.samples * self.run_steps
        return {name: (count / events).reshape(shapes[name]) for name, count in self.counts.items() if name in shapes}


class Node(Protocol):
    """An input, a population or an output."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def shape(self) -> Shape:
        """Sizes of its axes."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Runner:
    """A simulator seen from here: nodes with their latency, and a function that runs a block from a state."""

    inputs: Sequence[Node]
    populations: Sequence[Any]
    outputs: Sequence[Node]
    latency: Mapping[str, int]
    probes: tuple[Probe, ...]
    run: Callable[..., SimulationResult]
    potentials: bool
    marks_updates: bool = False


def measure_reference(
    network: Network,
    inputs: Spikes,
    *,
    potentials: bool,
    progress: Progress,
    on_block: OnBlock | None = None,
) -> Activity:
    """Counts of the network in real numbers.

    Args:
        network: the model.
        inputs: by name, ``[steps, samples, *shape]``.
        potentials: count membrane updates, too.
        progress: called with a stage and the completed fraction.
        on_block: gets the sent values of every block, for models of cost.

    Raises:
        UsageError: inputs that do not fit.
    """
    runner = _Runner(
        network.inputs,
        network.populations,
        network.outputs,
        {},
        _probes(network.populations, network.outputs, potentials),
        lambda block, **options: simulate(network, block, **options),
        potentials,
    )
    return _measure(runner, inputs, 0, on_block, lambda done: progress("reference", done))


def measure_integers(
    quantized: QuantizedNetwork,
    inputs: Spikes,
    *,
    potentials: bool,
    progress: Progress,
    on_block: OnBlock | None = None,
    marks_updates: bool = False,
) -> Activity:
    """Counts of the network in integers, over the longer run of the hardware; see ``measure_reference``.

    ``marks_updates``: tell ``on_block`` which neurons are active: those with a potential, a current or a constant
    drive. The others keep their state, which is all 0 (M. Davies et al. 2018, table 2: inactive neurons).
    """
    simulator = FixedSimulator(quantized)
    runner = _Runner(
        quantized.inputs,
        quantized.populations,
        quantized.outputs,
        quantized.latency,
        _probes(quantized.populations, quantized.outputs, potentials, marks_updates=marks_updates),
        simulator.run,
        potentials,
        marks_updates,
    )
    late = max(quantized.latency.values(), default=0)
    return _measure(runner, inputs, late, on_block, lambda done: progress("integers", done))


def _probes(
    populations: Sequence[Any], outputs: Sequence[Node], potentials: bool, *, marks_updates: bool = False
) -> tuple[Probe, ...]:
    found = []
    for p in populations:
        variables = (("s",) if p.neuron.fires else ()) + (("v",) if potentials or marks_updates else ())
        variables += ("u",) if marks_updates else ()
        found += [Probe(p.name, variables)] if variables else []
    return (*found, *(Probe(port.name, ("s",)) for port in outputs))


def _measure(
    runner: _Runner,
    inputs: Spikes,
    late: int,
    on_block: OnBlock | None,
    progress: Callable[[float], None],
) -> Activity:
    steps, samples = next(iter(inputs.values())).shape[:2] if inputs else (0, 1)
    counter = _Counter(runner, samples, steps)
    total, done = samples * (steps + late), 0
    for first, last, length in _blocks(runner, samples, steps + late):
        state: SimulationState | None = None
        counter.begin(first, last)
        for start in range(0, steps + late, length):
            stop = min(start + length, steps + late)
            part = {name: _cut(a, start, stop, first, last) for name, a in inputs.items()}
            result = runner.run(part, steps=stop - start, state=state, record=runner.probes)
            state = result.state
            updated = counter.updated(result.recording.arrays)
            sent = counter.take(part, result.recording.arrays, start)
            if on_block is not None:
                on_block(sent, updated)
            done += (last - first) * (stop - start)
            progress(done / total)
    return counter.finish(steps + late)


def _blocks(runner: _Runner, samples: int, steps: int) -> Iterator[tuple[int, int, int]]:
    """First and last sample of each block, and its time steps per part."""
    nodes = (*runner.inputs, *runner.populations)
    per_step = BYTES * sum(int(np.prod(node.shape)) for node in nodes)
    wide = max(1, min(SAMPLES, samples, BLOCK_BYTES // max(1, per_step * min(steps, 64))))
    length = max(1, min(steps, BLOCK_BYTES // max(1, per_step * wide)))
    return ((first, min(first + wide, samples), length) for first in range(0, samples, wide))


def _cut(array: Array, start: int, stop: int, first: int, last: int) -> Array:
    """Time steps from start to stop of some samples; zeros after the end of the data."""
    part = array[start:stop, first:last]
    silent = stop - start - len(part)
    return np.concatenate([part, np.zeros((silent, *part.shape[1:]), part.dtype)]) if silent > 0 else part


class _Counter:
    """Sums over blocks; potentials are compared across the ends of blocks, too."""

    def __init__(self, runner: _Runner, samples: int, steps: int) -> None:
        self.of, self.samples, self.steps = runner, samples, steps
        firing = [p for p in runner.populations if p.neuron.fires]
        self.counts = {n.name: np.zeros(int(np.prod(n.shape)), np.int64) for n in (*runner.inputs, *firing)}
        self.active = {p.name: 0 for p in firing}
        self.updates = {p.name: 0 for p in runner.populations if runner.potentials}
        self.totals = {o.name: np.zeros((samples, int(np.prod(o.shape)))) for o in runner.outputs}
        self.graded: set[str] = set()
        self.window, self.before, self.last = (0, samples), dict[str, Array](), dict[str, Array]()

    def begin(self, first: int, last: int) -> None:
        """Another block of samples."""
        self.window, self.before, self.last = (first, last), {}, {}

    def updated(self, arrays: Mapping[tuple[str, str], Array]) -> dict[str, Array]:
        """By population, neurons with a potential, a current, a drive or an adaptation; none where none are marked."""
        found: dict[str, Array] = {}
        for p in self.of.populations if self.of.marks_updates else ():
            v, u = _flat(arrays[p.name, "v"]), _flat(arrays[p.name, "u"])
            start = np.broadcast_to(np.asarray(p.neuron.v_init), p.shape).reshape(-1)
            before = self.last.get(p.name, np.broadcast_to(start, v.shape[1:]))
            drive = np.broadcast_to(np.asarray(p.neuron.bias), p.shape).reshape(-1)
            found[p.name] = (np.concatenate([before[None], v[:-1]]) != 0) | (u != 0) | (drive != 0)
            found[p.name] |= p.neuron.adaptation is not None  # its b is not recorded
            self.last[p.name] = v[-1].copy()
        return found

    def take(self, inputs: Spikes, arrays: Mapping[tuple[str, str], Array], start: int) -> Spikes:
        """Count a part of a block; the sent values of all nodes, flat."""
        sent: dict[str, Array] = {}
        for port in self.of.inputs:
            values = _flat(inputs[port.name])
            if port.name not in self.graded and not bool(np.all((values == 0) | (values == 1))):
                self.graded.add(port.name)
            sent[port.name] = values != 0
            self.counts[port.name] += np.count_nonzero(values, axis=(0, 1))
        for (name, variable), array in arrays.items():
            values = _flat(array)
            low, high = self._model_steps(name, start, len(values))
            if variable in ("u", "v"):
                self._potentials(name, values[low:high] if variable == "v" else values[:0])
            elif name in self.totals:
                first, last = self.window
                self.totals[name][first:last] += values[low:high].sum(axis=0, dtype=np.float64)
            else:
                sent[name] = values
                self.counts[name] += np.count_nonzero(values, axis=(0, 1))
                self.active[name] += int(np.count_nonzero(values[low:high]))
        return sent

    def _model_steps(self, name: str, start: int, length: int) -> tuple[int, int]:
        """The part of a stretch that lies within the time steps of the model, which begin at the node's latency."""
        late = self.of.latency.get(name, 0)
        low = min(max(late - start, 0), length)
        return low, max(low, min(late + self.steps - start, length))

    def _potentials(self, name: str, values: Array) -> None:
        if not len(values) or name not in self.updates:
            return
        before = self.before.get(name)
        changed = values[0].size if before is None else np.count_nonzero(values[0] != before)
        self.updates[name] += int(changed) + int(np.count_nonzero(values[1:] != values[:-1]))
        self.before[name] = values[-1].copy()

    def finish(self, run_steps: int) -> Activity:
        """The counts of all blocks."""
        counted = self.counts, self.active, self.updates, self.totals
        return Activity(self.samples, self.steps, run_steps, *counted, frozenset(self.graded))


def _flat(array: Array) -> Array:
    return np.asarray(array).reshape(*array.shape[:2], -1)


# -- data ----------------------------------------------------------------------------------------------------------
# The user's data: inputs by name with samples, and labels that fit.


LABELS = "labels"


@dataclass(frozen=True, slots=True, eq=False)
class ProfileData:
    """Inputs ``[steps, samples, *shape]`` by name, the class of each sample, and where the data are from.

    ``output``: the output that decides; None: no output has two classes.
    """

    inputs: Mapping[str, Array]
    steps: int
    samples: int
    labels: Array | None
    output: str | None
    origin: str


def profile_data(
    network: Network,
    arrays: Any,
    labels: Any = None,
    *,
    steps: int | None = None,
    samples: int | None = None,
    origin: str = "the data",
) -> ProfileData:
    """The data of a profile.

    Args:
        network: the model.
        arrays: inputs by name or one alone, ``[steps, *shape]`` or ``[steps, samples, *shape]``; ``labels`` may be
            among arrays by name.
        labels: the class of each sample; None: those among the arrays, if any.
        steps: time steps of a sample; shorter inputs are followed by zeros. None: as many as the inputs have.
        samples: use the first samples only; None: all.
        origin: the data in words.

    Raises:
        UsageError: arrays that do not fit the network, no time steps, more samples than the data have, labels that do
            not fit the samples or the output.
    """
    if isinstance(arrays, Mapping) and all(p.name != LABELS for p in network.inputs):
        arrays = dict(arrays)
        inside = arrays.pop(LABELS, None)
        labels = inside if labels is None else labels
        if len(arrays) == len(network.inputs) == 1:
            arrays = {network.inputs[0].name: next(iter(arrays.values()))}
    opened = open_inputs(network, arrays, steps, 0, "float64")
    streams = [quoted(name) for name, value in opened.values.items() if callable(value)]
    if streams:
        raise UsageError.of(f"input {streams[0]}", "is a function", "a profile takes arrays", "give an array")
    inputs = {name: np.asarray(value) for name, value in opened.values.items()}
    batched = opened.batch is not None
    inputs = {name: _of_length((a if batched else a[:, None])[:, :samples], opened.steps) for name, a in inputs.items()}
    given = opened.batch or 1
    if samples is not None and samples > given:
        hint = f"give at most {given:,}, or leave it out"
        raise UsageError.of("samples", f"{samples:,}", f"the data have {given:,}", hint)
    count = given if samples is None else samples
    output = next((port.name for port in network.outputs if port.size > 1), None)
    classes = None if labels is None else _labels(network, labels, given, output)
    used = None if classes is None else classes[:count]
    return ProfileData(inputs, opened.steps, count, used, output, origin)


def _of_length(array: Array, steps: int) -> Array:
    """The first time steps, with zeros after the end of the data."""
    missing = steps - len(array)
    if missing <= 0:
        return array[:steps]
    return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])


def _labels(network: Network, labels: Any, samples: int, output: str | None) -> Array:
    classes = checked_labels(labels).reshape(-1)
    if output is None:
        found = "no output has two values or more"
        raise UsageError.of("labels", found, "decisions are those of the largest output", "leave them out")
    if classes.size != samples:
        found = f"{counted(classes.size, 'label')} for {counted(samples, 'sample')}"
        raise UsageError.of("labels", found, "one for each sample", "give the class of each sample of the data")
    size = next(port.size for port in network.outputs if port.name == output)
    if classes.size and (classes.min() < 0 or classes.max() >= size):
        wrong = classes.min() if classes.min() < 0 else classes.max()
        limit = f"output {quoted(output)} has classes 0 to {size - 1:,}"
        raise UsageError.of("labels", f"a label of {wrong}", limit, "give the index of the correct neuron")
    return classes
