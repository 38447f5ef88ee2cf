"""From a model to its map, its integers and its MLIR: passes, fit, map, quantization, lowering."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypedDict, Unpack, get_type_hints

from nirbridge import pipeline
from nirbridge._types import Progress
from nirbridge.api.arguments import (
    Count,
    Natural,
    Seed,
    check_fields,
    checked,
    kind_of,
    plain_arrays,
    rates_of,
    shows_progress,
)
from nirbridge.api.files import model_file
from nirbridge.api.models import ChipLike, FilePath, network_of
from nirbridge.api.models import chip as find_chip
from nirbridge.chips.model import Chip
from nirbridge.dialect.lower import Lowering
from nirbridge.errors import IllegalMapping, UsageError, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network import Network, same_network
from nirbridge.partitioner.model import Partition
from nirbridge.pipeline.options import MapOptions
from nirbridge.quantization.model import QuantizedNetwork

AxesLike = str | Sequence[str]


class MapKeywords(TypedDict, total=False):
    """The fields of ``MapOptions``, where they are given one by one."""

    method: str
    objective: Literal["cores", "traffic", "latency"]
    effort: Literal["fast", "default", "max"]
    bound: Literal["auto", "quick", "tight"]
    seed: Seed
    chips: Count
    weight_bits: Count | None
    rates: str | os.PathLike[str] | tuple[Mapping[str, Any], str] | Mapping[str, Any] | None
    pins: Mapping[str, Natural | tuple[Natural, ...]]
    relays: bool
    retime: Literal["auto", "always", "never"]
    splits: Mapping[str, Count]
    placement_only: bool
    keep_zeros: bool
    keep_early_spikes: bool
    keep_best: bool
    progress: Progress | bool


@checked
def apply(model: object, passes: object, *, sample: object = None) -> Network:
    """The network after passes, verified before the first and after each.

    Args:
        model: as ``load`` takes it.
        passes: a text such as ``eliminate-dead,replicate-source{name=fc1,ways=2}``, a pass, or several.
        sample: of a module, as ``load`` takes it.

    Raises:
        UsageError: a text that cannot be read, options that do not fit the network.
        ModelError: the network is not valid, or a pass refuses its structure.

    Example:
        >>> nb.apply("model.nir", "eliminate-dead")
        Network: 74 neurons, 2 populations, dt 100 us
    """
    sequence: Any = passes
    each = sequence if isinstance(sequence, Iterable) and not isinstance(sequence, str) else (sequence,)
    if not isinstance(sequence, str) and not all(callable(p) and hasattr(p, "pass_name") for p in each):
        limit = "a text such as eliminate-dead, a pass or a list of passes"
        raise UsageError.of("nirbridge.apply(), passes", kind_of(passes), limit, "correct it")
    network = network_of(model, sample)
    changed = pipeline.apply_passes(network, sequence)
    return changed if changed is network else replace(changed, file=None)  # no longer that of its file


@checked
@shows_progress
def map(
    model: object,
    chip: ChipLike,
    options: MapOptions | None = None,
    *,
    sample: object = None,
    input: object = None,
    axes: AxesLike | None = None,
    **changes: Unpack[MapKeywords],
) -> MappedNetwork:
    """The model on the cores of a chip: partitioned, placed, routed, costed, and accepted by the independent checker.

    Args:
        model: as ``load`` takes it.
        chip: by name, path or value.
        options: how to map; None: the defaults.
        sample: of a module, as ``load`` takes it.
        input: arrays as ``simulate`` takes them, on which the spike rates are measured; None: those of ``rates``,
            or assumed ones.
        axes: of ``input``, as of ``simulate``.
        changes: fields of ``MapOptions`` that are to be others than in ``options``. ``progress=True``, the default,
            shows it on a terminal and in notebooks after a second, unless ``NIRBRIDGE_PROGRESS=0`` is set; False: not.

    Raises:
        DoesNotFit: every reason, the limit that proves it, and changes that fit.
        ModelError: what the chip cannot run.
        UsageError: an option that makes no sense.

    Example:
        >>> nb.map("model.nir", "loihi2")
        MappedNetwork: 74 neurons on 1 of 128 cores of 'loihi2', optimal (lower bound 1)
    """
    network, target = network_of(model, sample), find_chip(chip)
    settings = map_options("nirbridge.map()", options, changes, network)
    if input is None:
        return pipeline.map_network(network, target, settings)
    if settings.rates is not None:
        raise UsageError.of("nirbridge.map(), input", "given beside rates", "rates are measured or given", "give one")
    fitted = pipeline.fit_to_chip(network, target, relays=settings.relays)
    given = pipeline.read_inputs(network, plain_arrays(input), axes=axes)
    measured = pipeline.measured_rates(fitted, given.inputs, origin="given arrays", progress=settings.progress)
    mapped = pipeline.map_network(fitted, target, replace(settings, rates=measured))
    return replace(mapped, model=network)


@checked
@shows_progress
def check_fit(
    model: object,
    chip: ChipLike,
    options: MapOptions | None = None,
    *,
    sample: object = None,
    **changes: Unpack[MapKeywords],
) -> Partition:
    """Does the model fit? A partition with its proof; nothing is placed. Arguments and errors as of ``map``.

    Example:
        >>> nb.check_fit("model.nir", "loihi1").report.cores
        1
    """
    network = network_of(model, sample)
    settings = map_options("nirbridge.check_fit()", options, changes, network)
    return pipeline.check_fit(network, find_chip(chip), settings)[1]


@checked
@shows_progress
def quantize(
    model: object,
    chip: ChipLike,
    *,
    sample: object = None,
    calibrate: object = None,
    axes: AxesLike | None = None,
    weight_bits: int | Mapping[str, int] | None = None,
    method: Literal["range", "percentile", "error"] = "range",
    percentile: float = 99.9,
    tight: bool = False,
    memory_kib: Count | None = None,
    run_steps: Count | None = None,
    graded: Mapping[str, tuple[float, int]] | None = None,
    scales: Mapping[str, float] | None = None,
    keep_early_spikes: bool = False,
    progress: Progress | bool = True,
) -> QuantizedNetwork:
    """The model in the integers of a chip, with a proof that no sum overflows.

    Args:
        model: as ``load`` takes it.
        chip: by name, path or value.
        sample: of a module, as ``load`` takes it.
        calibrate: inputs as of ``simulate``, by name or one alone, or a pair of them and the class of each sample; the
            result is measured on them.
        axes: of the arrays of ``calibrate``, as of ``simulate``.
        weight_bits: of all weights, or by target population or ``'source -> target'``, the rest under ``'*'``
            (``--bits`` on the command line).
        method: the share of the weights' range that is kept: all, a percentile, or that of least error.
        percentile: for that method.
        tight: room for the values observed in calibration only; then nothing is proved.
        memory_kib: search the bits of each layer within this much synaptic memory.
        run_steps: choose scales with which no potential saturates in runs of this many time steps.
        graded: by input, the largest value and the bits of its integers.
        scales: by population, integers per real potential, as ``quantization.qat.scales_of`` a network that a model
            was fine-tuned for; the others are chosen.
        keep_early_spikes: populations that cannot wait for their first time step start at once.
        progress: True: shown, as of ``map``; False: not; else called with a stage and the completed fraction of it.

    Raises:
        ModelError: what the chip cannot do, population by population.
        DoesNotFit: no bits within the memory.
        UsageError: options or calibration data that make no sense.

    Example:
        >>> nb.quantize("model.nir", "loihi2", weight_bits=4)
        QuantizedNetwork: 74 neurons in integers of 'loihi2', weights of 4 bits, latency 2 time steps
    """
    network = network_of(model, sample)
    options = {"weight_bits": weight_bits, "run_steps": run_steps, "progress": progress}
    options["graded"] = MappingProxyType(dict(graded or {}))
    options["scales"] = MappingProxyType(dict(scales or {}))
    memory = None if memory_kib is None else memory_kib * 8192
    plan = {"method": method, "percentile": percentile, "tight": tight, "memory_bits": memory, "progress": progress}
    planned = pipeline.quantize_plan(network, options, calibration_arrays(network, calibrate, axes), plan)
    return pipeline.quantize_network(network, find_chip(chip), *planned, keep_early_spikes=keep_early_spikes)


def calibration_arrays(network: Network, data: object, axes: AxesLike | None = None) -> Any:
    """Inputs, time steps first, with ``labels`` among them where a pair of inputs and classes was given."""
    if data is None:
        return None
    values, labels = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    return pipeline.read_inputs(network, plain_arrays(values), axes=axes, labels=plain_arrays(labels)).with_labels


def map_options(subject: str, options: MapOptions | None, changes: Mapping[str, Any], network: Network) -> MapOptions:
    """The options with the changes in them, each held to its type. Raises UsageError."""
    settings = options or MapOptions()
    values = {f.name: getattr(settings, f.name) for f in fields(MapOptions)} | dict(changes)
    check_fields(subject, values, get_type_hints(MapKeywords, include_extras=True))
    pins = {name: (core,) if isinstance(core, int) else tuple(core) for name, core in values["pins"].items()}
    splits = MappingProxyType(dict(values["splits"]))
    return replace(
        settings,
        **{**values, "pins": MappingProxyType(pins), "splits": splits, "rates": rates_of(values["rates"], network)},
    )


# -- lower ---------------------------------------------------------------------------------------------------------
# ``nirbridge.lower``: a model through the stages of the MLIR dialect.


@checked
def lower(
    model: object,
    until: str = "linalg",
    *,
    chip: ChipLike | None = None,
    sample: object = None,
    dtype: Literal["float32", "float64"] = "float32",
    batch: Count | None = None,
    steps: Count | None = None,
    records: Sequence[tuple[str, str]] = (),
    activity: Mapping[str, float] | None = None,
    compiler: Literal["iree", "loops"] = "iree",
    mapping: MappedNetwork | FilePath | None = None,
) -> Lowering:
    """Lower a model to MLIR, to one function over time in linalg, scf, arith and tensor.

    Args:
        model: as ``load`` takes it, or a quantized network.
        until: the last stage: ``dialect``, ``forms`` or ``linalg``; or ``cores``: one function for each core of
            ``mapping``, in its integers; or ``snn-mlir``, the dialect of that project.
        chip: by name, path or value: its integers are lowered; None: real numbers.
        sample: of a module, as ``load`` takes it.
        dtype: the real numbers of the module.
        batch: number of samples that the module takes; None: any.
        steps: number of time steps that it takes; None: any.
        records: variables that become further results, as ``("population", "v")``.
        activity: share of active elements per time step of a source, measured on data: products of a source that is
            mostly silent add a row of weights per active element, where the compiler is ``loops``.
        compiler: that forms are chosen for: ``iree``, or ``loops`` for those that make plain loops of linalg
            (``mlir-opt`` and LLVM).
        mapping: a map of the model, or its file, whose cores become the placement of the populations. The network of
            the map is lowered, with its copies, relays and delays; with ``chip``, that of the map, its integers.

    Raises:
        ToolMissing: xDSL (the extra ``mlir``) is not installed; snn-mlir does not need it.
        UsageError: no stage or variable of that name, a chip for a network that is already quantized or that is not the
            map's, or settings that snn-mlir does not have.
        FileError: a map that cannot be read.
        IllegalMapping: a map that breaks a limit or is of another model.
        ModelError: the chip, or snn-mlir, cannot hold the network.

    Example:
        >>> print(nb.lower("model.nir").text.splitlines()[1][:48])
          func.func @run(%in0: tensor<?x?x64xf32>, %stat
    """
    settings = {"dtype": dtype, "batch": batch, "steps": steps, "records": tuple(records), "activity": activity}
    settings["compiler"] = compiler
    if mapping is not None:
        return _on_cores(model, mapping, None if chip is None else find_chip(chip), sample, until, settings)
    if isinstance(model, QuantizedNetwork):
        if chip is not None:
            limit = "its integers are fixed"
            raise UsageError.of("nirbridge.lower(), chip", "given with a quantized network", limit, "leave it out")
        known: object = model
    else:
        network = network_of(model, sample)
        known = network if chip is None else pipeline.quantize_network(network, find_chip(chip))
    return pipeline.lower_model(known, until, **settings)  # type: ignore[arg-type]


def _on_cores(
    model: object,
    mapping: MappedNetwork | FilePath,
    chip: Chip | None,
    sample: object,
    until: str,
    settings: Mapping[str, Any],
) -> Lowering:
    if isinstance(model, QuantizedNetwork):
        limit = "the integers of a map are those of its cores"
        raise UsageError.of("nirbridge.lower(), mapping", "given with a quantized network", limit, "give the network")
    network = network_of(model, sample)
    if not isinstance(mapping, MappedNetwork):
        mapping = pipeline.load_mapped(Path(mapping), network, model_file(network, str(mapping)).sha256, chip)
    elif not same_network(network, mapping.model or mapping.network):
        raise IllegalMapping.of("nirbridge.lower(), mapping", "of another model", "", "map this model")
    elif chip is not None and chip.name != mapping.chip.name:
        found = f"{quoted(chip.name)}, and the map is of {quoted(mapping.chip.name)}"
        raise UsageError.of("nirbridge.lower(), chip", found, "", "give the chip of the map")
    placed = pipeline.model_on_cores(mapping, in_integers=chip is not None or until == "cores")
    return pipeline.lower_model(placed, until, mapping=mapping, **settings)
