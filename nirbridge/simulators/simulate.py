"""Simulation of a ``Network``: one function, one exact meaning (reference/semantics.py), several backends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network
from nirbridge.network.operators import Operator
from nirbridge.simulators.backends import BACKENDS, auto_backend, backend_named
from nirbridge.simulators.checks import versions
from nirbridge.simulators.continued import RunByRun, Runner
from nirbridge.simulators.crew import Crew
from nirbridge.simulators.inputs import Input, Inputs, check_finite, from_chunks, open_inputs
from nirbridge.simulators.recording import (
    Channel,
    ChannelRecorder,
    copied_source,
    recording_channels,
    required_variables,
)
from nirbridge.simulators.retained import retained
from nirbridge.simulators.steps import ChunkRunner
from nirbridge.simulators.threads import joined_state, run_parts, split_samples, start_parts
from nirbridge.simulators.types import Key, Probe, Recording, SimulationResult, SimulationState

__all__ = [
    "BACKENDS",
    "Probe",
    "Recording",
    "SimulationResult",
    "SimulationState",
    "Simulator",
    "from_chunks",
    "prepare_simulator",
    "simulate",
]

Layout = tuple[list[Channel], dict[str, frozenset[str]], int]
CHUNK_BYTES = 32 * 2**20
CHUNK_STEPS = 4096
CHUNKS_AT_ONCE = 4
"""Threads that each have a whole chunk of memory; where there are more, their chunks are smaller."""
RECORDED_BYTES = 2**37
"""Largest recording that is attempted, so that a typo in ``steps`` raises an error before memory runs out."""


def simulate(
    network: Network,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    state: SimulationState | None = None,
    record: Sequence[Probe] | None = None,
    dtype: str = "float32",
    backend: str = "auto",
    library: str = "numpy",
    device: str = "cpu",
    threads: int = 1,
    progress: Progress | None = None,
) -> SimulationResult:
    """Run a network on inputs.

    Args:
        network: the network to run.
        inputs: by input name (or one alone, where there is one input): an array ``[steps, *shape]`` or
            ``[steps, batch, *shape]`` of numbers or bool, 0/1 are spikes, other values graded currents; or a function
            ``stream(start, stop)`` that returns the requested time steps (``inputs.Stream``, ``from_chunks``) and keeps
            memory small.
        steps: number of time steps; default: the length of the arrays. Shorter arrays are zero-padded.
        state: where an earlier run ended (``SimulationResult.state``); cutting a run changes no bit of its result.
        record: the variables to record; default: ``s`` of each output (``v`` where a readout leads to it).
        dtype: ``float32`` or ``float64``.
        backend: ``auto`` (on numpy ``fast`` where numba is installed, else ``numpy``; on other libraries
            ``reference``) or a name of ``BACKENDS``; all give the same bits except ``dense``, which uses BLAS
            for every dense matrix.
        library: array library of the reference backend: ``numpy``, ``torch``, ``jax``, ``cupy``, ``dpnp``,
            ``array_api_strict``.
        device: ``cpu``, or the name of a device in the array library (``cuda``).
        threads: how many threads share the samples of the batch, on numpy; the result has the same bits for any number.
        progress: called with a stage and the completed fraction.

    Raises:
        UsageError: wrong inputs, state, record or options; all problems are listed.
        ModelError: an invalid network (a dt that is not above 0, weights that are not finite …).
    """
    simulator = retained_simulator(network, dtype=dtype, backend=backend, library=library, device=device)
    return simulator.run(inputs, steps=steps, state=state, record=record, threads=threads, progress=progress)


def retained_simulator(
    network: Network, *, dtype: str = "float32", backend: str = "auto", library: str = "numpy", device: str = "cpu"
) -> Simulator:
    """As ``prepare_simulator``, from the cache where the last call had the same options."""
    name = auto_backend(library) if backend == "auto" else backend
    make = partial(prepare_simulator, dtype=dtype, backend=name, library=library, device=device)
    return retained(network, (name, dtype, library, device), make)


def prepare_simulator(
    network: Network, *, dtype: str = "float32", backend: str = "auto", library: str = "numpy", device: str = "cpu"
) -> Simulator:
    """Prepare a network to be run many times. See ``simulate``."""
    from nirbridge.network.check import check_network
    from nirbridge.network.graph import in_causal_order
    from nirbridge.simulators.checks import check_neurons
    from nirbridge.simulators.reference.array_namespace import array_namespace
    from nirbridge.simulators.reference.engine import Engine

    name = auto_backend(library) if backend == "auto" else backend
    if name not in BACKENDS:
        names = ("auto", *BACKENDS)
        hint = did_you_mean(backend, names) or "choose one of them"
        raise UsageError.of(f"backend {quoted(backend)}", "unknown", f"there are {', '.join(names)}", hint)
    check_network(network)
    check_neurons(network)
    parts = backend_named(name, array_namespace(library, dtype, device))
    return Simulator(Engine(in_causal_order(network), parts), name, device)


class Simulator:
    """A network prepared on a backend; no state of a run is kept."""

    def __init__(self, engine: Any, backend: str, device: str) -> None:
        self._engine, self._backend, self._device = engine, backend, device
        self.signature: Network = engine.network
        self._layout: tuple[Any, Layout | None] = None, None  # of the last run

    def run(
        self,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        state: SimulationState | None = None,
        record: Sequence[Probe] | None = None,
        threads: int = 1,
        progress: Progress | None = None,
    ) -> SimulationResult:
        """Run the network. See ``simulate``."""
        with Crew(threads) as crew:
            return self._run(crew, inputs, steps, state, record, progress)

    def _run(
        self,
        crew: Crew,
        inputs: Mapping[str, Input] | Input,
        steps: int | None,
        state: SimulationState | None,
        record: Sequence[Probe] | None,
        progress: Progress | None,
    ) -> SimulationResult:
        network, space = self._engine.network, self._engine.parts.space
        first = 0 if state is None else state.step
        opened = open_inputs(network, inputs, steps, first, space.float_name, crew)
        batch = 1 if opened.batch is None else opened.batch
        parts = self._parts(opened.batch, crew.count)
        recorded, requested, stretch = self._layout_of(record, opened, batch)
        runs = start_parts(parts, state, self._engine.blank, self._engine.start)
        recorder, beyond = ChannelRecorder(recorded, first, opened.steps, batch), set[str]()
        recorders, states = recorder.split(parts), [SimulationState(0, {}) for _ in parts]

        def advance(part: int, values: Mapping[str, Any], start: int, stop: int) -> None:
            with np.errstate(over="ignore", invalid="ignore"):  # said in meta
                variables = runs[part].chunk(values, stop - start, requested)
            recorders[part].take(variables, stop - start, space.numpy)
            if stop == opened.steps:
                states[part] = runs[part].state()
                beyond.update(runs[part].not_finite())

        stretch = min(CHUNK_STEPS, stretch * min(len(parts), CHUNKS_AT_ONCE))
        run_parts(crew, opened, parts, stretch, Inputs.read_quick, advance, progress)
        last = joined_state(states)
        meta = {**self._meta(opened, first), "not_finite": sorted(beyond)}
        return SimulationResult(recorder.finish(opened.batch is not None, meta), last)

    def blank(self, batch: int) -> SimulationState:
        """See ``Continued``."""
        return self._engine.blank(batch)

    def runner(self, batch: int, state: SimulationState | None = None) -> Runner:
        """See ``Continued``."""
        network, space = self._engine.network, self._engine.parts.space
        run, inputs = self._engine.start(batch, state), {port.name for port in network.inputs}
        if any(copied_source(network, port.name) in inputs for port in network.outputs):
            return RunByRun(self, run.state())  # the type of what an input sends depends on its values
        channels = recording_channels(network, None, frozenset(), space.float_name)
        requested = required_variables(channels)

        def advance(values: Mapping[str, Array]) -> Mapping[Key, Any]:
            for port in network.inputs:
                check_finite(port, values[port.name], space.float_name, run.step)
            with np.errstate(over="ignore", invalid="ignore"):  # as of ``run``
                return run.chunk(values, 1, requested)

        return ChunkRunner(advance, channels, run.state, space.numpy)

    def _parts(self, batch: int | None, threads: int) -> tuple[slice, ...]:
        """The samples of each thread. Raises UsageError, also where a library has threads of its own."""
        library = self._engine.parts.space.library
        if threads != 1 and (self._backend == "dense" or library != "numpy"):
            subject = "backend 'dense'" if library == "numpy" else f"library {quoted(library)}"
            found = f"takes no threads, {threads:,} were requested"
            limit = "its products have threads of their own" if library == "numpy" else "it has threads of its own"
            raise UsageError.of(subject, found, limit, "leave threads out")
        return split_samples(batch, threads)

    def _layout_of(self, record: Sequence[Probe] | None, opened: Inputs, batch: int) -> Layout:
        """Channels of the recording, the variables that they need, and time steps per chunk; kept for the next run."""
        key = None if record is None else tuple(record), opened.binary, opened.steps, batch
        last, layout = self._layout
        if layout is None or last != key:
            recorded = recording_channels(
                self._engine.network, record, opened.binary, self._engine.parts.space.float_name
            )
            _check_size(recorded, opened.steps, batch)
            layout = recorded, required_variables(recorded), self._stretch(batch)
            self._layout = key, layout
        return layout

    def _stretch(self, batch: int) -> int:
        """Time steps per chunk, so that the arrays between two populations stay small.

        A layer takes and returns spikes of a byte each; elsewhere currents are stored in between.
        """
        network, space, layers = self._engine.network, self._engine.parts.space, self._engine.layers
        wide = 4 * (8 if space.float_name == "float64" else 4)
        ports = sum(port.size for port in (*network.inputs, *network.outputs))
        per_step = ports * wide // 4
        per_step += sum(p.size * (2 if p.name in layers and p.neuron.fires else wide) for p in network.populations)
        rest = (_widest(p.operator) for p in network.projections if p.target not in layers)
        per_step += wide * max(rest, default=0)
        return max(1, min(CHUNK_STEPS, CHUNK_BYTES // max(1, per_step * batch)))

    def _meta(self, opened: Inputs, first_step: int) -> dict[str, Any]:
        network, space = self._engine.network, self._engine.parts.space
        return {
            "dt": network.dt,
            "steps": opened.steps,
            "first_step": first_step,
            "batch": opened.batch,
            "backend": self._backend,
            "library": space.library,
            "device": self._device,
            "dtype": space.float_name,
            "versions": versions(space.library),
            "seed": None,
            "latency": {port.name: 0 for port in network.outputs},
            "assumed": list(network.assumed),
            "notes": list(network.notes),
            "v": "after the reset",
            "u": "before the reset",
            "choices": {
                name: [dict(part) for part in log]  # copies: another run may choose anew
                for name, log in self._engine.parts.choices.items()
            },
        }


def _widest(operator: Operator) -> int:
    """Elements of the largest intermediate array of a chain."""
    return max(math.prod(part.output_shape) for part in parts_of(operator))


def _check_size(recorded: Sequence[Any], steps: int, batch: int) -> None:
    total = 0
    for channel in recorded:
        rows = 1 if channel.variable == "count" else -(-steps // channel.every)
        total += rows * batch * math.prod(channel.shape) * np.dtype(channel.dtype).itemsize
    if total > RECORDED_BYTES:
        found = f"{total / 2**30:,.0f} GiB"
        limit = f"at most {RECORDED_BYTES / 2**30:,.0f} GiB"
        raise UsageError.of("the recording", found, limit, "record fewer time steps (every), or only counts")
