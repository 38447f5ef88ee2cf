"""Runs of a model, by a simulator or as an emitted program, held to the reference; programs held to their protocol."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import MANIFEST, Artifact, read_json
from nirbridge.errors import FileError, ModelError
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.network.model import Network
from nirbridge.simulators.types import Probe, Recording
from nirbridge.testing.examples import STEPS, example_inputs
from nirbridge.testing.faults import FAILED, Faults, fingerprint

Run = Callable[..., Any]
"""``(inputs, *, steps, record) -> Recording``, the model bound."""


def expected(model: Model, inputs: Mapping[str, Array], **options: Any) -> Recording:
    """The expected recording: of the reference backend, or of the reference of the fixed-point simulator."""
    from nirbridge.mapping.integers import integers_of
    from nirbridge.simulators.fixed.simulate import simulate_fixed
    from nirbridge.simulators.simulate import simulate

    if isinstance(model, Network):
        return simulate(model, inputs, backend="reference", **options).recording
    quantized = integers_of(model) if isinstance(model, MappedNetwork) else model
    return simulate_fixed(quantized, inputs, backend="reference", **options).recording


def probes(model: Model, variables: Sequence[str]) -> list[Probe]:
    """Every variable that each population has, and what every output receives."""
    source = model.network if isinstance(model, MappedNetwork) else model
    requests = []
    for p in source.populations:
        recorded = tuple(v for v in variables if v != "s" or p.neuron.fires)
        requests += [Probe(p.name, recorded)] if recorded else []
    return [*requests, *(Probe(port.name, ("s",)) for port in source.outputs)]


def check_runs(faults: Faults, run: Run, model: Model, variables: Sequence[str], *, brief: bool = False) -> None:
    """Default and requested recordings, a batch, more steps than inputs; twice the same; inputs unchanged.

    ``brief``: one run alone, for programs that take seconds to start.
    """
    every = probes(model, variables)
    single, batch = example_inputs(model), example_inputs(model, samples=2)
    cases: dict[str, tuple[Mapping[str, Array], dict[str, Any]]] = {
        "a run with probes": (single, {"record": every}),
        "a run without probes": (single, {}),
        "a run of a batch": (batch, {"record": every}),
        "a run beyond its inputs": (single, {"record": every, "steps": STEPS + 3}),
        "a run with counts, every second time step": (single, {"record": _thinned(model)}),
    }
    for case, (inputs, options) in list(cases.items())[: 1 if brief else None]:
        before = fingerprint(inputs)
        recording = faults.call(case, partial(run, inputs, **options))
        faults.equal(case, recording, expected(model, inputs, **options))
        faults.unchanged("an input", before, inputs)
    if not brief:
        _check_again(faults, run, single, every)


def _thinned(model: Model) -> list[Probe]:
    source = model.network if isinstance(model, MappedNetwork) else model
    first = next(p for p in source.populations if p.neuron.fires)
    return [Probe(first.name, ("s",), every=2), Probe(first.name, ("count",))]


def _check_again(faults: Faults, run: Run, inputs: Mapping[str, Array], every: list[Probe]) -> None:
    first, second = (faults.call("a run", partial(run, inputs, record=every)) for _ in range(2))
    if not (isinstance(first, Recording) and isinstance(second, Recording)):
        return
    faults.repeatable("the recording", first.arrays, second.arrays)
    meta = dict(first.meta)
    faults.call("meta as JSON", lambda: json.dumps(meta))
    missing = [key for key in ("dt", "steps", "backend", "batch") if key not in meta]
    if missing:
        faults.add(f"meta lacks {', '.join(missing)}", "meta says dt, steps, batch and backend of the run")


def check_refusals(faults: Faults, run: Run, model: Model) -> None:
    """Wrong inputs, steps and probes have to be refused."""
    good = example_inputs(model)
    name, values = next(iter(good.items()))
    wrong: dict[str, tuple[Any, dict[str, Any]]] = {
        "inputs of another shape": ({**good, name: values[:, :1, ...].repeat(99, axis=1)}, {}),
        "inputs that are no array": ({**good, name: "spikes"}, {}),
        "an input that the model does not have": ({**good, "no such input": values}, {}),
        "no inputs": ({}, {}),
        "0 steps": (good, {"steps": 0}),
        "a probe of a node that the model does not have": (good, {"record": [Probe("no such node", ("s",))]}),
        "a probe of an unknown variable": (good, {"record": [Probe("*", ("voltage",))]}),
    }
    for case, (inputs, options) in wrong.items():
        faults.refuses(case, partial(run, inputs, **options))


# -- programs ------------------------------------------------------------------------------------------------------
# Checks of emitted programs against their Protocol: files, manifest, digest, and results.

README = "README.md"


def check_programs(faults: Faults, emitter: Any, name: str, models: Sequence[Model], *, run: bool) -> None:
    """The programs of models of one type, of which the target may refuse some with a ModelError, but not all."""
    held = [model for model in models if not _is_refused(emitter, model)]
    if not held:
        faults.add("refuses every example network with a ModelError", "a target takes one of them at least")
    for number, model in enumerate(held):
        check_program(faults, emitter, name, model, run=run, refuse=number == 0)


def _is_refused(emitter: Any, model: Model) -> bool:
    try:
        emitter.emit(model)
    except ModelError:
        return True
    except Exception:  # a fault, which the check of the program says
        return False
    return False


def check_program(faults: Faults, emitter: Any, name: str, model: Model, *, run: bool, refuse: bool) -> None:
    """The program of one model; ``refuse``: also wrong arguments of ``run``."""
    before = fingerprint(model)
    program = faults.call("emit", partial(emitter.emit, model))
    faults.unchanged("the model", before, model)
    if not faults.is_a("emit", program, Artifact):
        return
    _check_files(faults, program, name)
    again = faults.call("emit with default options", lambda: emitter.emit(model, emitter.options()))
    if again is not FAILED and again.digest != program.digest:
        faults.add("the program differs from one call to the next", "the same model gives the same bytes")
    if run and emitter.records:
        bound = partial(emitter.run, program)
        check_runs(faults, bound, model, emitter.records, brief=not refuse)
        if refuse:
            check_refusals(faults, bound, model)
    elif run:
        faults.refuses(
            "run, which cannot run a program (records is empty)", partial(emitter.run, program, example_inputs(model))
        )


def _check_files(faults: Faults, program: Artifact, name: str) -> None:
    if README not in program.files:
        faults.add(f"the program has no {README}", "a program says what it is and how it is run")
    try:
        manifest = read_json(program, MANIFEST)
    except FileError:
        faults.add(f"the program has no readable {MANIFEST}", "emitters.artifact.make_artifact makes one")
        return
    kind = manifest.get("kind") if isinstance(manifest, Mapping) else None
    if kind != name:
        faults.add(f"the manifest says kind {kind!r}", f"the registered name, {name!r}, so that the program can be run")
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in program.files.items() if path != MANIFEST}
    if not isinstance(manifest, Mapping) or manifest.get("files") != digests:
        faults.add("the manifest has other digests than the files", "the manifest names every file with its SHA-256")
