"""``nirbridge.open``: a model on one back end, whose time goes on from call to call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from nirbridge import pipeline, plugins
from nirbridge._types import Progress
from nirbridge.api.arguments import Count, Natural, checked, kind_of, plain_arrays, shows_progress
from nirbridge.api.models import FilePath, network_of
from nirbridge.api.runs import Probes, emit, probes_of
from nirbridge.api.stages import AxesLike
from nirbridge.arrays import Array
from nirbridge.benchmarking.model import STEPS
from nirbridge.emitters.artifact import Artifact, artifact_kind, read_artifact
from nirbridge.errors import NirbridgeError, UsageError, counted, did_you_mean, instance_of, quoted
from nirbridge.events.model import BinnedEvents
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.report.bench import run_text
from nirbridge.report.lines import repr_line
from nirbridge.simulators.backends import auto_backend
from nirbridge.simulators.checks import check_finite_state
from nirbridge.simulators.continued import Continued, Runner
from nirbridge.simulators.state_file import read_state, write_state
from nirbridge.simulators.steps import read_step
from nirbridge.simulators.types import Recording, SimulationState


class Session:
    """A model that is open on one back end, and the state of its run: result of ``nirbridge.open``.

    Each ``step`` and ``run`` begins at the time step where the one before ended; ``reset`` goes back to the initial
    state. Integers count hardware time steps: an output shows what an input had ``latency`` time steps before.

    ``model``: what it runs; None: of an emitted program that was given. ``backend``: name of a simulator or an emitter;
    ``why``: how it was chosen. ``program``: of an emitter; None for a simulator. ``inputs``: each with ``name`` and
    ``shape``. It is a context manager, which closes the session at its end.

    Example:
        >>> with nb.open("model.nir", backend="numpy") as session:
        ...     first = session.run(np.ones((25, 64)))["output"]
        ...     session.step(np.ones(64))["output"].shape, session.state().step
        ((10,), 26)
    """

    __slots__ = ("_batch", "_prepared", "_runner", "_samples", "_state", "backend", "inputs", "model", "program", "why")

    def __init__(
        self,
        prepared: Continued,
        backend: str,
        why: str,
        *,
        model: Model | None = None,
        program: Artifact | None = None,
        batch: int | None = None,
    ) -> None:
        self._prepared: Continued | None = prepared
        self.inputs = prepared.signature.inputs
        self.model, self.backend, self.why, self.program = model, backend, why, program
        self._batch, self._samples = batch, batch
        self._runner: Runner | None = None
        self._state: SimulationState | None = None

    def __repr__(self) -> str:
        return repr_line(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it: the run and the prepared model are dropped."""
        self.reset()
        self._prepared = None

    def step(self, inputs: object = None) -> dict[str, Array]:
        """Run one time step.

        Args:
            inputs: by input name or one alone: ``[*shape]``, or ``[batch, *shape]``; nothing for a model without input.

        Returns:
            By output name what it sends in this time step (the potential of a readout), with a batch axis where the
            inputs have one, or the session has several samples.

        Raises:
            UsageError: inputs that do not fit; no time step was run.
        """
        data: Any = inputs if type(inputs) is np.ndarray else {} if inputs is None else _plain_step(inputs)
        values, size = read_step(self.inputs, data, self._samples)
        found = (self._runner or self._started(size or 1)).step(values)
        return dict(found) if size is not None else {name: array[0] for name, array in found.items()}

    def run(
        self,
        inputs: object,
        *,
        steps: Natural | None = None,
        axes: AxesLike | None = None,
        record: Probes | None = None,
    ) -> Recording:
        """Run several time steps; arguments, recording and errors as of ``nirbridge.simulate`` with ``drain=False``."""
        model, data = self._model, plain_arrays(inputs)
        given = pipeline.read_inputs(self.model or model.signature, data, axes=axes, steps=steps)
        started = self._runner is not None or self._state is not None
        self._check_batch(given.inputs)
        result = model.run(given.inputs, steps=steps, state=self.state() if started else None, record=probes_of(record))
        self._runner, self._state = None, result.state
        self._samples = result.recording.meta.get("batch") or 1
        return pipeline.with_reading(result.recording, given)

    def state(self) -> SimulationState:
        """The state after the last time step, with a batch axis; nothing changes it any more.

        ``resume`` of a session with the same model takes it, on any back end with the same kind of numbers.
        """
        if self._runner is not None:
            self._state = self._runner.state()
        return self._model.blank(self._samples or 1) if self._state is None else self._state

    def resume(self, state: SimulationState | FilePath) -> None:
        """Go on from a state of this model, or from the path of one that ``save`` wrote.

        Raises:
            UsageError: a state of another form, batch or type, with NaN or infinity, or with integers that no run
                reaches. A state that is no file does not say which weights it is of.
            FileError: a file that holds no state of this model.
        """
        if isinstance(state, str | os.PathLike):
            state = read_state(Path(state), self._source)
        wanted = instance_of(state, SimulationState, "argument 'state' of Session.resume()")
        samples = _samples_of(wanted, self._model.blank(1))
        check_finite_state(wanted)
        if self._batch not in (None, samples):
            found, limit = f"of {samples:,} samples", f"this session has {self._batch:,}"
            raise UsageError.of("state", found, limit, "open the model with the batch of the state")
        self._runner, self._state, self._samples = self._model.runner(samples, wanted), None, samples

    def save(self, path: FilePath) -> None:
        """Write the state as an ``.npz`` file, whole or not at all. Raises FileError."""
        write_state(Path(path), self.state(), self._source)

    def reset(self) -> None:
        """Go back to the initial state; the next inputs may have another batch, unless ``open`` was given one."""
        self._runner, self._state, self._samples = None, None, self._batch

    def _started(self, samples: int) -> Runner:
        self._runner, self._samples = self._model.runner(samples, self._state), samples
        return self._runner

    def _check_batch(self, inputs: Any) -> None:
        """Raises UsageError for arrays of another batch than that of the session."""
        by_name = inputs if isinstance(inputs, Mapping) else {p.name: inputs for p in self.inputs[:1]}
        for port in self.inputs:
            shape: tuple[int, ...] = getattr(by_name.get(port.name), "shape", ())
            axes = len(shape) - len(port.shape)
            found = 1 if axes == 1 else next(iter(shape[1:2]), None) if axes == 2 else None
            if None not in (found, self._samples) and found != self._samples:
                limit = f"the run of this session has {self._samples:,}"
                hint = "reset() the session, or open another one"
                raise UsageError.of(f"input {quoted(port.name)}", f"a batch of {found:,}", limit, hint)

    @property
    def _model(self) -> Continued:
        """The prepared model. Raises UsageError after the end of the block."""
        if self._prepared is None:
            raise UsageError.of("session", "is closed", "its block has ended", "open the model again")
        return self._prepared

    @property
    def _source(self) -> Network | QuantizedNetwork | None:
        """What its states are states of, as far as it is known."""
        return self.model if isinstance(self.model, Network) else getattr(self._model, "quantized", None)


def _plain_step(inputs: object) -> Any:
    """The inputs of a time step as ``plain_arrays``. Raises UsageError for events of several ones."""
    for each in inputs.values() if isinstance(inputs, Mapping) else (inputs,):
        if isinstance(each, BinnedEvents):
            found, limit = f"events of {counted(len(each.array), 'time step')}", "step() takes one"
            raise UsageError.of("input", found, limit, "give them to run()")
    return plain_arrays(inputs)


def _samples_of(state: SimulationState, blank: SimulationState) -> int:
    """The batch of a state of the form of ``blank``; 1 of one of another form, or without arrays."""
    key = next(iter(blank.arrays), ("", ""))
    axes = getattr(state.arrays.get(key), "shape", ())
    return max((1, *axes[int(key[1].startswith("past")) :][:1]))


# -- open ----------------------------------------------------------------------------------------------------------
# The back end of a session: named, that of ``simulate``, or measured.


@checked
@shows_progress
def open(
    model: object,
    *,
    backend: str = "auto",
    sample: object = None,
    batch: Count | None = None,
    steps: Count = STEPS,
    options: object = None,
    progress: Progress | bool = True,
) -> Session:
    """Open a model on a back end, which is named or chosen by measurement, to run it on in time.

    ``best`` tries the back ends that have the reference's bits on any input and keep a state: of a network in real
    numbers the simulators that add in the reference's order; of integers the simulator and the emitters. Each runs
    random spikes in a process of its own. The choice is kept in the cache folder by machine, tools, model and batch;
    ``nirbridge.bench`` with ``best`` and data of your own replaces it.

    Args:
        model: a ``QuantizedNetwork`` or its file, a ``MappedNetwork``, an emitted program or its folder, or a model
            as ``load`` takes it.
        backend: the name of a simulator or an emitter, whose program is made and prepared once; ``auto``: as of
            ``simulate``; ``best``: the fastest, measured. A program has its own.
        sample: of a module, as ``load`` takes it.
        batch: samples that run side by side; None: as many as the first inputs have (for ``best``: 1).
        steps: time steps of a run for which ``best`` is chosen; a run may have others.
        options: of an emitter: its own, as of ``emit``.
        progress: True: shown, as of ``map``; False: not; else called with a stage and the completed fraction
            while a choice is measured.

    Raises:
        UsageError: an unknown back end, or one that does not take such a model or keeps no state.
        ModelError: what the named emitter cannot compute.
        FileError: a folder without a program.

    Example:
        >>> nb.open("model.nir", backend="numpy").why
        'named'
    """
    assert callable(progress)
    program = _program(model)
    if program is not None:
        return _of_program(program, backend, batch)
    if isinstance(model, str | os.PathLike) and pipeline.holds_integers(os.fspath(model)):
        model = pipeline.load_quantized(os.fspath(model))
    ready = model if isinstance(model, QuantizedNetwork | MappedNetwork) else network_of(model, sample)
    if backend == "auto":
        return _opened(ready, _auto(ready), "as of simulate", batch, options)
    if backend == "best" and options is not None:
        raise UsageError.of("argument 'options'", kind_of(options), "they are of one emitter", "name a backend")
    if backend != "best":
        return _opened(ready, backend, "named", batch, options)
    whole = integers_of(ready) if isinstance(ready, MappedNetwork) else ready
    try:
        choice = pipeline.best_backend(whole, batch or 1, progress)
        return _opened(whole, next(iter(choice.runs(steps))), run_text(choice, steps), batch)
    except NirbridgeError as error:  # too slow here for the trial, or not there any more
        return _opened(whole, _auto(whole), f"as of simulate, not measured: {error.problems[0]}", batch)


def _program(model: object) -> Artifact | None:
    """An emitted program, given or in a folder; None of another model. Raises FileError for a damaged one."""
    if isinstance(model, Artifact):
        return model
    if isinstance(model, str | os.PathLike) and os.path.isdir(model):
        return read_artifact(os.fspath(model))
    return None


def _of_program(program: Artifact, backend: str, batch: int | None) -> Session:
    kind = artifact_kind(program)
    if backend not in ("auto", kind):
        limit = f"the program is one of {quoted(kind)}"
        raise UsageError.of(f"backend {quoted(backend)}", "does not apply here", limit, "leave it out")
    prepared = _session_of(plugins.get("emitters", kind), kind)(program)
    return Session(prepared, kind, "that of the program", program=program, batch=batch)


def _auto(model: Model) -> str:
    """The simulator that ``simulate`` takes by itself."""
    return {QuantizedNetwork: "fixed", MappedNetwork: "mapped"}.get(type(model)) or auto_backend("numpy")


def _opened(model: Model, backend: str, why: str, batch: int | None, options: object = None) -> Session:
    """The model on a back end of that name: of a simulator, else of an emitter."""
    simulators, emitters = plugins.names("simulators"), plugins.names("emitters")
    if backend not in (*simulators, *emitters):
        names = [*simulators, *emitters]
        hint = did_you_mean(backend, names) or "choose one of them"
        raise UsageError.of(f"backend {quoted(backend)}", "unknown", f"there are {', '.join(names)}", hint)
    emits = backend not in simulators
    if options is not None and not emits:
        raise UsageError.of("argument 'options'", kind_of(options), "a simulator has none", "leave it out")
    back_end: Any = plugins.get("emitters", backend) if emits else plugins.get("simulators", backend)
    instance_of(model, back_end.takes, f"model of backend {quoted(backend)}", getattr(back_end, "hint", ""))
    prepare = _session_of(back_end, backend)
    if emits and isinstance(model, Network) and pipeline.default_chip(backend, options) is not None:
        hint = "quantize the network for a chip"
        instance_of(model, (QuantizedNetwork, MappedNetwork), f"model of backend {quoted(backend)}", hint)
    program = emit(model, backend, options=options) if emits else None
    return Session(prepare(program or model), backend, why, model=model, program=program, batch=batch)


def _session_of(back_end: Any, name: str) -> Any:
    """The function that prepares a model or a program on a back end. Raises UsageError where it keeps no state."""
    prepare = getattr(back_end, "session", None)
    if prepare is None or getattr(back_end, "chooses", False):
        found, hint = "keeps no state from one run to the next", "name another one, or use simulate() or run()"
        raise UsageError.of(f"backend {quoted(name)}", found, "sessions run on in time", hint)
    return prepare
