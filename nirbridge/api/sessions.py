"""``nirbridge.open``: a model on one back end, ready to be run again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from nirbridge import pipeline, plugins
from nirbridge._types import Progress
from nirbridge.api.arguments import Count, Natural, checked, shows_progress
from nirbridge.api.models import network_of
from nirbridge.api.runs import Probes, emit, probes_of, run, simulate
from nirbridge.api.stages import AxesLike
from nirbridge.benchmarking.model import STEPS
from nirbridge.emitters.artifact import Artifact
from nirbridge.errors import ModelError, NirbridgeError, UsageError, did_you_mean, instance_of, quoted
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.report.bench import run_text
from nirbridge.report.lines import repr_line
from nirbridge.simulators.backends import auto_backend
from nirbridge.simulators.types import Recording


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Session:
    """A model that is open on one back end: result of ``nirbridge.open``, and a context manager.

    ``model``: what it runs. ``backend``: name of a simulator or an emitter; ``why``: how it was chosen. ``program``: of
    an emitter; None for a simulator. ``base``: the simulator that runs streams, and what a measured choice refuses or
    fails at, so that neither results nor errors depend on the choice; None for a back end that was named.

    Example:
        >>> with nb.open("model.nir", backend="numpy") as session:
        ...     session.run(np.ones((25, 64)))["output"].shape
        (25, 10)
    """

    model: Model
    backend: str
    why: str
    program: Artifact | None = None
    base: str | None = None

    def __repr__(self) -> str:
        return repr_line(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held between runs."""

    def run(
        self,
        inputs: object,
        *,
        steps: Natural | None = None,
        axes: AxesLike | None = None,
        record: Probes | None = None,
    ) -> Recording:
        """One run from the initial state; arguments, recording and errors as of ``nirbridge.simulate``."""
        options: dict[str, Any] = {"steps": steps, "axes": axes}
        streams = any(map(callable, inputs.values() if isinstance(inputs, Mapping) else (inputs,)))
        if self.base is None or not streams:  # a function may give its time steps only once
            try:
                return self._run(inputs, record, options)
            except NirbridgeError:
                if self.base is None:
                    raise
        return simulate(self.model, inputs, backend=self.base, record=record, **options)

    def _run(self, inputs: object, record: Probes | None, options: Mapping[str, Any]) -> Recording:
        if self.program is None:
            return simulate(self.model, inputs, backend=self.backend, record=record, **options)
        texts = [f"{p.node}:{','.join(p.variables)}" for p in probes_of(record) or ()]
        return run(self.program, inputs, record=texts, **options)


@checked
@shows_progress
def open(
    model: object,
    *,
    backend: str = "auto",
    sample: object = None,
    batch: Count = 1,
    steps: Count = STEPS,
    progress: Progress | bool = True,
) -> Session:
    """Open a model on a back end, which is named or chosen by measurement.

    ``best`` tries the back ends that have the reference's bits on any input: of a network in real numbers the
    simulators that add in the reference's order; of integers all simulators and emitters. Each runs random spikes in
    a process of its own. The choice is kept in the cache folder by machine, tools, model and batch;
    ``nirbridge.bench`` with ``best`` and data of your own replaces it.

    Args:
        model: a ``QuantizedNetwork``, a ``MappedNetwork``, or a model as ``load`` takes it.
        backend: the name of a simulator or an emitter, whose program is made once; ``auto``: as of ``simulate``;
            ``best``: the fastest, measured.
        sample: of a module, as ``load`` takes it.
        batch: samples of a run, and
        steps: time steps of a run, for which ``best`` is chosen; a run may have others.
        progress: True: shown, as of ``map``; False: not; else called with a stage and the completed fraction
            while a choice is measured.

    Raises:
        UsageError: an unknown back end, or one that does not take such a model.
        ModelError: what the named emitter cannot compute.

    Example:
        >>> nb.open("model.nir", backend="numpy").why
        'named'
    """
    assert callable(progress)
    ready = model if isinstance(model, QuantizedNetwork | MappedNetwork) else network_of(model, sample)
    if backend == "auto":
        return _opened(ready, _auto(ready), "as of simulate")
    if backend != "best":
        return _opened(ready, backend, "named")
    whole = integers_of(ready) if isinstance(ready, MappedNetwork) else ready
    base = "fixed" if isinstance(whole, QuantizedNetwork) else "reference"
    try:
        choice = pipeline.best_backend(whole, batch, progress)
    except ModelError as error:  # too slow here for the trial, or a run says what is wrong with the model
        return _opened(whole, _auto(whole), f"as of simulate, not measured: {error.problems[0]}", base)
    return _opened(whole, next(iter(choice.runs(steps))), run_text(choice, steps), base)


def _auto(model: Model) -> str:
    """The simulator that ``simulate`` takes by itself."""
    return {QuantizedNetwork: "fixed", MappedNetwork: "mapped"}.get(type(model)) or auto_backend("numpy")


def _opened(model: Model, backend: str, why: str, base: str | None = None) -> Session:
    """The model on a back end of that name: of a simulator, else of an emitter."""
    simulators, emitters = plugins.names("simulators"), plugins.names("emitters")
    if backend in simulators:
        simulator: Any = plugins.get("simulators", backend)
        hint = getattr(simulator, "hint", "")
        instance_of(model, simulator.takes, f"model of backend {quoted(backend)}", hint)
        return Session(model, backend, why, None, base)
    if backend not in emitters:
        names = [*simulators, *emitters]
        hint = did_you_mean(backend, names) or "choose one of them"
        raise UsageError.of(f"backend {quoted(backend)}", "unknown", f"there are {', '.join(names)}", hint)
    return Session(model, backend, why, emit(model, backend), base)
