"""Functions that run a model (simulate, emit, run, verify), and the comparison of recordings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from nirbridge import pipeline, plugins
from nirbridge._types import Progress
from nirbridge.api.arguments import Count, Natural, checked, kind_of, plain_arrays, shows_progress
from nirbridge.api.models import ChipLike, FilePath, network_of
from nirbridge.api.models import chip as find_chip
from nirbridge.api.stages import AxesLike, calibration_arrays
from nirbridge.comparison.types import Comparison
from nirbridge.emitters.artifact import Artifact
from nirbridge.errors import UsageError, quoted
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Key, Probe, Recording
from nirbridge.sweeps.tasks import simulate_samples
from nirbridge.verification.verify import Verification


@checked
@shows_progress
def simulate(
    model: object,
    inputs: object,
    *,
    sample: object = None,
    backend: str = "auto",
    chip: ChipLike | None = None,
    steps: Natural | None = None,
    axes: AxesLike | None = None,
    record: Probes | None = None,
    keep_early_spikes: bool = False,
    drain: bool = True,
    threads: Count = 1,
    jobs: Count = 1,
    scheduler: str | None = None,
    progress: Progress | bool = True,
) -> Recording:
    """Simulate a model on inputs, time step by time step.

    Args:
        model: a ``QuantizedNetwork`` (its integers run), a ``MappedNetwork`` (its integers, core by core), or a model
            as ``load`` takes it (its exact meaning in real numbers).
        inputs: by name or one alone: arrays or tensors with the axes ``axes``, then the shape of the input.
        sample: of a module, as ``load`` takes it.
        backend: how to compute; ``best``: the fastest in a short trial among those with the reference's bits, named in
            the recording; ``fixed`` and ``mapped`` run a network in the integers of ``chip``.
        chip: by name, path or value, for ``fixed`` and ``mapped``.
        steps: time steps; None: as many as the inputs have.
        axes: of the arrays, as ``sample,time``; None: the order of the imported module, else ``time,sample``.
        record: probes, or texts such as ``l1:s,v`` and ``*:s``; None: the outputs.
        keep_early_spikes: populations that cannot wait for their first time step start at once, in integers.
        drain: integers run on until the last output is there, and each node is recorded from its latency on; False:
            the time steps of the hardware.
        threads: how many threads share the samples of a batch, at most one per sample; the result has the same bits
            for any number.
        jobs: how many processes share the samples, for backends that run in one thread; the same bits, too (extra
            ``sweep``).
        scheduler: address of a Dask scheduler, whose workers share the samples (extra ``dask``); it is trusted
            with code.
        progress: True: shown, as of ``map``; False: not; else called with a stage and the completed fraction of it.

    Raises:
        UsageError: inputs, probes or options that do not fit the model.
        ModelError: what the chip cannot do.
        DoesNotFit: no map for ``mapped``.

    Example:
        >>> run = nb.simulate("model.nir", np.ones((25, 8, 64)))
        >>> run["output"].shape
        (25, 8, 10)
    """
    ready = model if isinstance(model, QuantizedNetwork | MappedNetwork) else network_of(model, sample)
    given = pipeline.read_inputs(ready, plain_arrays(inputs), axes=axes, steps=steps)
    on_chip = {"chip": None if chip is None else find_chip(chip), "keep_early_spikes": keep_early_spikes}
    options: dict[str, Any] = {"steps": steps, "record": probes_of(record), "threads": threads}
    if jobs != 1 or scheduler is not None:
        refuse_choice(backend)
        part = partial(simulated, ready, backend, on_chip, drain, options)
        shared = {"steps": steps, "jobs": jobs, "scheduler": scheduler, "progress": progress}
        return pipeline.with_reading(simulate_samples(part, ready, given.inputs, **shared), given)
    options["progress"] = progress
    return pipeline.with_reading(simulated(ready, backend, on_chip, drain, options, given.inputs), given)


@checked
@shows_progress
def emit(
    model: object,
    target: str = "lava",
    *,
    chip: ChipLike | None = None,
    sample: object = None,
    weight_bits: int | None = None,
    graded: Mapping[str, tuple[float, int]] | None = None,
    per_core: bool = False,
    floating: bool = False,
    keep_early_spikes: bool = False,
    options: object = None,
    progress: Progress | bool = True,
) -> Artifact:
    """A program for another tool, as files in memory; ``save(folder)`` writes them.

    Args:
        model: a ``QuantizedNetwork``, a ``MappedNetwork`` (a process for each slice of the map), or a model as ``load``
            takes it, which is quantized for ``chip`` first.
        target: the name of an emitter; ``nirbridge emit --help`` lists them.
        chip: by name, path or value; None: that of the model, ``loihi2`` where it has none, and real numbers for a
            target that computes in them.
        sample: of a module, as ``load`` takes it.
        weight_bits: of all weights; None: as many as the chip takes by default.
        graded: by input, the largest value and the bits of its integers.
        per_core: map the model, and emit a process for each core and population.
        floating: models of Lava in floating point.
        keep_early_spikes: populations that cannot wait for their first time step start at once.
        options: the emitter's own, an instance of its ``options``; None: its defaults.
        progress: True: shown, as of ``map``; False: not; else called with a stage and the completed fraction of it.

    Raises:
        ModelError: what the chip or the tool cannot do.
        DoesNotFit: ``per_core``, and the model does not fit.
        UsageError: no emitter of that name, or options that do not fit the model.

    Example:
        >>> program = nb.emit("model.nir", "lava", chip="loihi2")
        >>> program.save("program")
    """
    emitter_options = _own_options(target, options, floating=floating)
    if isinstance(model, QuantizedNetwork | MappedNetwork):
        arguments = {"chip": chip, "weight_bits": weight_bits, "graded": graded, "per_core": per_core or None}
        arguments["keep_early_spikes"] = keep_early_spikes or None
        return _emit_integers(
            model, target, emitter_options, [name for name, value in arguments.items() if value is not None]
        )
    name = chip or pipeline.default_chip(target, emitter_options)
    network, on = network_of(model, sample), None if name is None else find_chip(name)
    shared: dict[str, Any] = {"weight_bits": weight_bits, "keep_early_spikes": keep_early_spikes, "progress": progress}
    return pipeline.emit_with(target, network, on, emitter_options, graded=graded, per_core=per_core, **shared)


@checked
@shows_progress
def run(
    program: Artifact | FilePath,
    inputs: object,
    *,
    steps: Natural | None = None,
    axes: AxesLike | None = None,
    record: Sequence[str] = (),
    drain: bool = True,
    progress: Progress | bool = True,
) -> Recording:
    """Run an emitted program in its tool, supervised.

    Args:
        program: as ``emit`` gives it, or the folder where it was saved.
        inputs: as of ``simulate``.
        steps: time steps; None: as many as the inputs have.
        axes: as of ``simulate``; None: those of the network that the program was made of, as far as it knows them.
        record: texts such as ``l1:s,u,v``; none: the outputs.
        drain: as of ``simulate``; an input that is a function runs as with False.
        progress: True: shown, as of ``map``; False: not; else called with a stage and the completed fraction of it.

    Raises:
        UsageError: inputs that do not fit, or the tool is not installed.
        FileError: the folder holds no program.
        ModelError: the program failed.

    Example:
        >>> nb.emit("model.nir", chip="loihi2").save("program")
        >>> nb.run("program", np.ones((25, 1, 64)))  # doctest: +SKIP
    """
    place, arrays = program if isinstance(program, Artifact) else os.fspath(program), plain_arrays(inputs)
    options: dict[str, Any] = {"steps": steps, "record": tuple(record), "progress": progress}
    return pipeline.run_emitted(place, arrays, axes=axes, drain=drain, **options)


@checked
@shows_progress
def verify(
    model: object,
    chip: ChipLike,
    inputs: object = None,
    *,
    target: str | None = None,
    dtype: Literal["integers", "float32", "float64"] | None = None,
    sample: object = None,
    steps: Natural | None = None,
    labels: object = None,
    axes: AxesLike | None = None,
    calibrate: object = None,
    weight_bits: int | Mapping[str, int] | None = None,
    method: Literal["range", "percentile", "error"] = "range",
    percentile: float = 99.9,
    tight: bool = False,
    graded: Mapping[str, tuple[float, int]] | None = None,
    map_file: FilePath | None = None,
    per_core: bool = False,
    keep_early_spikes: bool = False,
    seed: Natural = 0,
    prove: bool = False,
    progress: Progress | bool = True,
) -> Verification:
    """The model in real numbers, in integers, on the cores of its map, and as a program, on the same inputs, compared.

    Args:
        model: as ``load`` takes it.
        chip: by name, path or value.
        inputs: as of ``simulate``; None: random spikes.
        target: the tool whose program runs too; None: no program.
        dtype: the numbers of its program, ``integers``, ``float32`` or ``float64``; None: as of ``emit``.
        sample: of a module, as ``load`` takes it.
        steps: time steps; None: as many as the inputs have, or 100.
        labels: the class of each sample, for accuracy.
        axes: of ``inputs`` and ``calibrate``, as of ``simulate``.
        calibrate: as of ``quantize``.
        weight_bits: as of ``quantize``.
        method: as of ``quantize``.
        percentile: as of ``quantize``.
        tight: as of ``quantize``.
        graded: as of ``quantize``.
        map_file: a saved map of the model; None: it is mapped here.
        per_core: the program has a process for each core and population.
        keep_early_spikes: populations that cannot wait for their first time step start at once.
        seed: of random inputs.
        prove: decide, too, whether the program's neurons are their rule for every input (``target="verilog"``).
        progress: True: shown, as of ``map``; False: not; else called with a stage and the completed fraction of it.

    Raises:
        ModelError: what the chip or the tool cannot do, or a program that failed.
        IllegalMapping: the saved map is not of this model.
        UsageError: inputs or options that do not fit, or the tool is not installed.

    Example:
        >>> nb.verify("model.nir", "loihi2", np.ones((25, 1, 64))).holds
        True
    """
    assert callable(progress)
    network = network_of(model, sample)
    graded = MappingProxyType(dict(graded or {}))
    numbers = {"weight_bits": weight_bits, "graded": graded, "progress": progress}
    plan = {"method": method, "percentile": percentile, "tight": tight, "progress": progress}
    given = pipeline.read_inputs(network, plain_arrays(inputs), axes=axes, labels=plain_arrays(labels), steps=steps)
    return pipeline.verify_network(
        network,
        find_chip(chip),
        given.inputs,
        target=target,
        dtype=dtype,
        steps=steps,
        labels=given.labels,
        input_said=f"as given, {given.reading}" if given.reading else "as given",
        map_file=None if map_file is None else os.fspath(map_file),
        quantization=pipeline.quantize_plan(network, numbers, calibration_arrays(network, calibrate, axes), plan),
        per_core=per_core,
        keep_early_spikes=keep_early_spikes,
        seed=seed,
        prove=prove,
        progress=progress,
    )


def _own_options(target: str, options: object, *, floating: bool) -> object:
    """The options of the emitter itself; ``floating`` is one of Lava's."""
    if not floating:
        return options
    if target != "lava" or options is not None:
        raise UsageError.of("argument 'floating'", "does not apply here", "it is Lava's own option", "leave it out")
    return pipeline.emitter_options("lava", floating=True)


def _emit_integers(model: Model, target: str, options: object, arguments: Sequence[str]) -> Artifact:
    """The program of a model that is already quantized, with unchanged integers."""
    if arguments:
        limit = f"{kind_of(model)} is in integers of its chip already"
        raise UsageError.of(f"argument {quoted(arguments[0])}", "does not apply here", limit, "leave it out")
    return plugins.get("emitters", target).emit(model, options)


# -- simulated -----------------------------------------------------------------------------------------------------
# One run of a simulator on arrays that were read: in real numbers, in integers, on the cores of a map.


def simulated(
    ready: Any, backend: str, on_chip: Mapping[str, Any], drain: bool, options: Any, arrays: Any, **changes: Any
) -> Recording:
    """The recording of a model on arrays that were read, in reals or in integers."""
    settings = {**options, **changes}
    if isinstance(ready, QuantizedNetwork | MappedNetwork):
        simulator: Any = plugins.get("simulators", _backend_of(ready, backend, on_chip["chip"]))
        return simulator(ready, arrays, drain=drain, **settings)
    if backend in ("fixed", "mapped") or on_chip["chip"] is not None:
        return pipeline.simulate_on_chip(ready, arrays, backend=backend, drain=drain, **on_chip, **settings)
    return pipeline.simulate_network(ready, arrays, backend=backend, **settings)


def refuse_choice(backend: str) -> None:
    """Raises UsageError where each of several processes would choose a backend of its own."""
    if backend == "best":
        found = "is chosen by a trial, and each process would hold its own"
        raise UsageError.of(f"backend {quoted(backend)}", found, "", "name a backend, or leave jobs and scheduler out")


def _backend_of(model: object, backend: str, chip: object) -> str:
    """The simulator of a model in integers. Raises UsageError for another one, and for a chip beside the model's."""
    simulator = "fixed" if isinstance(model, QuantizedNetwork) else "mapped"
    if backend not in ("auto", simulator):
        limit = f"{kind_of(model)} runs with backend {simulator!r}"
        raise UsageError.of(f"backend {quoted(backend)}", "does not apply here", limit, "leave it out")
    if chip is not None:
        raise UsageError.of("argument 'chip'", "does not apply here", f"{kind_of(model)} has its chip", "leave it out")
    return simulator


# -- probes --------------------------------------------------------------------------------------------------------
# Probes of a simulation from short texts.

Probes = str | Sequence[str | Probe]


def probes_of(record: Probes | None) -> list[Probe] | None:
    """Probes from texts such as ``l1:s,v``; None stays None. Raises UsageError."""
    if record is None:
        return None
    return [
        _probe(probe) if isinstance(probe, str) else probe
        for probe in ((record,) if isinstance(record, str) else record)
    ]


def _probe(text: str) -> Probe:
    node, colon, variables = text.rpartition(":")
    if not colon:
        return Probe(text, ("s",))
    names = tuple(name for name in variables.split(",") if name)
    if not node or not names:
        limit = "NODE:VARIABLES, variables with commas between"
        raise UsageError.of(f"record {quoted(text)}", "no node or no variable", limit, "for example '*:s,v'")
    return Probe(node, names)


# -- recordings ----------------------------------------------------------------------------------------------------
# `compare` of two recordings, of their files, or of an array and a recording.


KEYS_SHOWN = 8


@checked
def compare(
    a: object,
    b: object,
    *,
    latency: int | Mapping[str, int] | Literal["auto"] = "auto",
    labels: object = None,
    tau_steps: float = 10.0,
    node: str | None = None,
) -> Comparison:
    """Two recordings, or an array and a recording, spike by spike.

    Args:
        a: the first one: a ``Recording``, its path, or an array ``[steps, *shape]`` or ``[steps, batch, *shape]``.
        b: the other one.
        latency: time steps by which b lags a: a number, one by node, or ``auto`` (the default here and of the command):
            as the recordings state it, since a mapped model lags its reference and equal spikes are then compared
            with equal ones; estimated, and marked so, where a recording does not state it. 0 compares equal indices.
        labels: the class of each sample, for accuracy.
        tau_steps: decay of the van Rossum kernel, in time steps.
        node: what an array is of; None: the first recorded node of its shape.

    Raises:
        UsageError: nothing to compare, another dt, wrong labels.

    Example:
        >>> x = np.ones((25, 64))
        >>> nb.compare(nb.simulate("model.nir", x), nb.simulate("model.nir", x))
        Comparison: equal: every value of 1 recorded variable
    """
    pair = recordings_of(plain_arrays(a), plain_arrays(b), node)
    comparison = pipeline.compare(*pair, latency=latency, labels=plain_arrays(labels), tau_steps=tau_steps)
    return replace(comparison, recordings=pair)


def recordings_of(a: Any, b: Any, node: str | None) -> tuple[Recording, Recording]:
    """Both as recordings; an array is taken as that of ``node``, or of the first node of its shape.

    Raises:
        UsageError: two arrays, an array of no node's shape, a value of another kind.
        FileError: a path without a recording.
    """
    first, second = _read(a), _read(b)
    if isinstance(first, Recording) and isinstance(second, Recording):
        if node is not None:
            limit = "it says what an array is of"
            raise UsageError.of("argument 'node'", "does not apply here", limit, "leave it out")
        return first, second
    if isinstance(first, Recording):
        key, array = _key_of(first, second, node)
        return _part(first, key), _as_recording(array, first, key)
    if isinstance(second, Recording):
        key, array = _key_of(second, first, node)
        return _as_recording(array, second, key), _part(second, key)
    raise UsageError.of(
        "nirbridge.compare()", "two arrays", "at least one of the two must be a Recording", "simulate it"
    )


def _read(value: Any) -> Any:
    return pipeline.read_recording(os.fspath(value)) if isinstance(value, str | os.PathLike) else value


def _key_of(recording: Recording, value: Any, node: str | None) -> tuple[Key, Any]:
    """The node and variable that an array is of, and the array."""
    array = _array(value)
    if node is not None:
        recording[node]  # an unknown name is an error with a suggestion
    keys = [key for key in recording.arrays if node in (None, key[0]) and key[1] != "count"]
    fitting = [key for key in keys if recording.arrays[key].shape[1:] == array.shape[1:]]
    if not fitting:
        shapes = [f"{quoted(n)}/{quoted(v)[1:-1]} {recording.arrays[n, v].shape}" for n, v in keys[:KEYS_SHOWN]]
        limit = f"recorded: {', '.join(shapes) or 'nothing'}"
        raise UsageError.of("nirbridge.compare()", f"an array of shape {array.shape}", limit, "record its node")
    return min(fitting, key=lambda key: key[1] != "s"), array


def _array(value: Any) -> Any:
    kinds = "an array, a Recording or the path of one"
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError.of("nirbridge.compare()", kind_of(value), f"it takes {kinds}", "correct it") from error
    if array.dtype.kind not in "biuf" or array.ndim < 1:
        raise UsageError.of("nirbridge.compare()", kind_of(value), f"it takes {kinds}", "correct it")
    return array


def _part(recording: Recording, key: Key) -> Recording:
    return Recording(MappingProxyType({key: recording.arrays[key]}), recording.meta)


def _as_recording(array: Any, like: Recording, key: Key) -> Recording:
    """The array as a recording from the first time step on, without latency."""
    meta = {name: like.meta[name] for name in ("dt", "batch") if name in like.meta}
    meta |= {"steps": len(array), "first_step": 0, "latency": {key[0]: 0}}
    return Recording(MappingProxyType({key: array}), MappingProxyType(meta))
