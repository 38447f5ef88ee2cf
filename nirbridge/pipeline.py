"""The table of contents of nirbridge: every stage in order, each from frozen values to a new frozen value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nirbridge.errors import DoesNotFit, NirbridgeError, Problem, UsageError, quoted

if TYPE_CHECKING:
    from nirbridge.arrays import Array
    from nirbridge.chips.model import Chip, CoreId
    from nirbridge.emitters.artifact import Artifact
    from nirbridge.mapping.model import Mapped
    from nirbridge.network.model import Network, Timing
    from nirbridge.partitioner import Options, Partition
    from nirbridge.partitioner.sizing import Sizing
    from nirbridge.passes import Retimed
    from nirbridge.quantization import Options as Quantization
    from nirbridge.quantization import Quantized
    from nirbridge.simulators import Recording
    from nirbridge.simulators.quantize_data import Plan
    from nirbridge.simulators.verify import Verification

Progress = Callable[[str, float | None], None]
OBJECTIVES = ("cores", "traffic", "latency")
TRIED_NEURONS_MAX = 200_000
"""Above this many neurons changes that would fit are not tried: each trial takes seconds."""
SPREADS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Fractions of a core that `latency` tries to fill: 1/1, 1/2, …"""
VERIFY_STEPS = 100
"""Steps of random spikes where ``verify_network`` gets no input."""


def _quiet(stage: str, done: float | None) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True)
class MapOptions:
    """How to map.

    ``pins``: population -> the cores it shall sit on, one per block of it; numbers run on over the chips of a board
    (core 3 of chip 1 of loihi1 is 131).
    ``rates``: spikes per step by population or input name (scalar or of its shape) and a sentence that says where they
    are from (``mapping.rates.load_rates``); None: assumed, and said so.
    ``relays``: put a pool between neurons on neurons of its own where the chip can not hold the folded fan-in.
    ``splits``: population -> copies of it, each of which feeds a part of its targets (``passes.split_source``).
    """

    method: str = "cp-sat"
    objective: str = "cores"
    effort: str = "default"
    seed: int = 0
    chips: int = 1
    weight_bits: int | None = None
    rates: tuple[Mapping[str, Array], str] | None = None
    pins: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    relays: bool = True
    splits: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    progress: Progress = _quiet


def load_graph(path: str | Path, *, max_bytes: int | None = None) -> Any:
    """A ``nir.NIRGraph`` from a file, scanned before anything is built. Raises FileError."""
    from nirbridge.importers import nir_file

    return nir_file.load(path) if max_bytes is None else nir_file.load(path, max_bytes=max_bytes)


def load_network(path: str | Path, timing: Timing | None = None, *, max_bytes: int | None = None) -> Network:
    """A network from a ``.nir`` file. Raises FileError (unreadable) or ModelError (no exact meaning)."""
    from nirbridge.network.from_nir import from_nir

    return from_nir(load_graph(path, max_bytes=max_bytes), timing)


def network_of_shapes(text: str, timing: Timing | None = None) -> Network:
    """A network of shapes alone from a line of text (``importers.shapes_text``). Raises UsageError."""
    from nirbridge.importers.shapes_text import graph_of
    from nirbridge.network.from_nir import from_nir

    return from_nir(graph_of(text), timing)


def map_network(network: Network, chip: Chip, options: MapOptions | None = None) -> Mapped:
    """Partition, place, route and cost a network, and let the independent checker pass the result.

    Raises:
        DoesNotFit: it does not fit; every reason, what proves it, and what would fit.
        IllegalMapping: the checker found a fault, which is a bug of nirbridge.
        UsageError: an option that makes no sense.
    """
    from nirbridge.mapping import check

    chosen = options or MapOptions()
    if chosen.objective not in OBJECTIVES:
        raise UsageError.of(
            "--objective", quoted(chosen.objective), f"there are {', '.join(OBJECTIVES)}", "choose one of these"
        )
    ready = fit_to_chip(network, chip, relays=chosen.relays)
    chosen = _rates_of_copies(ready, chosen)
    ready = split_sources(ready, chosen.splits)
    best = min((complete(ready, chip, p, chosen) for p in _partitions(ready, chip, chosen)), key=_score(chosen))
    chosen.progress("check", None)
    check.verify(best)
    return best


def fit_to_chip(network: Network, chip: Chip, *, relays: bool = True) -> Network:
    """The network with what the chip's fan-in makes necessary (relays), each change said in its notes."""
    from nirbridge.partitioner.relays import with_relays

    return with_relays(network, chip) if relays else network


def split_sources(network: Network, splits: Mapping[str, int]) -> Network:
    """The network with populations replaced by copies of them, in the given order, each said in its notes."""
    from nirbridge.passes import split_source

    for name, ways in splits.items():
        changed = split_source(network, name, ways)
        note = f"population {quoted(name)} is mapped as {ways} copies, each feeding a part of its targets"
        network = replace(changed, notes=(*changed.notes, note))
    return network


def _rates_of_copies(network: Network, options: MapOptions) -> MapOptions:
    """Rates that a caller gave, with those of a population for its copies too."""
    if options.rates is None or not options.splits:
        return options
    given, said = options.rates
    for name, ways in options.splits.items():
        split = split_sources(network, {name: ways})
        known = {p.name for p in network.populations}
        given = {**given, **{p.name: given[name] for p in split.populations if p.name not in known and name in given}}
        network = split
    return replace(options, rates=(given, said))


def check_fit(network: Network, chip: Chip, options: MapOptions | None = None) -> tuple[Network, Partition]:
    """Does it fit? The network as it would be mapped, and a partition; weights are not looked at, nothing is placed.

    Raises:
        DoesNotFit: every reason, what proves it, and what would fit.
    """
    chosen = options or MapOptions()
    ready = split_sources(fit_to_chip(network, chip, relays=chosen.relays), chosen.splits)
    return ready, _partitions(ready, chip, replace(chosen, objective="cores"))[0]


def _partitions(network: Network, chip: Chip, options: MapOptions) -> list[Partition]:
    """The partition for the fewest cores; for other objectives several, of which the best is taken."""
    from nirbridge.partitioner import partition

    base = _partition_options(network, options)
    try:
        first = partition(network, chip, base)
    except DoesNotFit as error:
        raise DoesNotFit(*error.problems, *_what_would_fit(network, chip, options)) from None
    found = [first]
    for other in _alternatives(base, options.objective):
        try:
            found.append(partition(network, chip, other))
        except DoesNotFit:
            continue
    return found


def _partition_options(network: Network, options: MapOptions) -> Options:
    from nirbridge.partitioner import Options

    names = {p.name for p in network.populations}
    for name in options.pins:
        if name not in names:
            raise UsageError.of("--pin", f"no population {quoted(name)}", f"there are {_listed(names)}", "name one")
    groups = {cores: number + 1 for number, cores in enumerate(sorted(set(options.pins.values())))}
    return Options(
        method=options.method,
        weight_bits=options.weight_bits,
        chips=options.chips,
        effort=options.effort,
        seed=options.seed,
        groups=MappingProxyType({name: groups[cores] for name, cores in options.pins.items()}),
        progress=options.progress,
    )


def _listed(names: set[str]) -> str:
    shown = [quoted(n) for n in sorted(names)]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def _alternatives(base: Options, objective: str) -> list[Options]:
    if objective == "cores":
        return []
    methods = [replace(base, method=m) for m in ("packed", "sequential")]
    if objective == "traffic":
        return methods
    return methods + [replace(base, method="sequential", spread=s) for s in SPREADS[1:]]


def _score(options: MapOptions) -> Callable[[Mapped], tuple[float, ...]]:
    def score(mapped: Mapped) -> tuple[float, ...]:
        cores, costs = len(mapped.cores), mapped.costs
        if options.objective == "traffic":
            return (costs.multicast_hops_per_step, costs.unicast_spikes_per_step, cores)
        if options.objective == "latency":
            return (math.inf if costs.time_per_step_s is None else costs.time_per_step_s, cores)
        return (cores, costs.multicast_hops_per_step)

    return score


def complete(
    network: Network,
    chip: Chip,
    partition: Partition,
    options: MapOptions | None = None,
    cores: tuple[CoreId, ...] | None = None,
) -> Mapped:
    """Place (unless ``cores`` says where each block sits), route and cost one partition; the checker is not asked.

    Raises:
        DoesNotFit: more blocks than cores.
        UsageError: pins that can not be.
    """
    from nirbridge.mapping.cost import costs
    from nirbridge.mapping.model import Mapped
    from nirbridge.mapping.place import place
    from nirbridge.mapping.rates import assumed_rates
    from nirbridge.partitioner import axon_table
    from nirbridge.partitioner.sizing import sizing

    options = options or MapOptions()
    rates, said = options.rates if options.rates is not None else assumed_rates(network)
    sizes = sizing(network, chip, partition.weight_bits)
    table = axon_table(sizes, tuple(b.slices for b in partition.blocks), rates)
    if cores is None:
        cores = place(
            table,
            len(partition.blocks),
            chip,
            chips=options.chips,
            seed=options.seed,
            effort=options.effort,
            pins=_pinned(partition, chip, options),
            progress=options.progress,
        )
    neurons = tuple(b.used["neurons"] for b in partition.blocks)
    paid = costs(table, cores, chip, neurons, chips=options.chips)
    network = replace(network, notes=(*network.notes, *_full_runs(sizes, partition)))
    splits = tuple(options.splits.items())
    return Mapped(network, chip, options.chips, partition, cores, table, paid, options.objective, said, splits)


def _full_runs(sizes: Sizing, partition: Partition) -> tuple[str, ...]:
    """What the map would take with full runs, said beside every map that cuts runs freely."""
    from nirbridge.partitioner.usage import full_run_words

    words = full_run_words(sizes, tuple(b.slices for b in partition.blocks))
    fmt = sizes.chip.synapses
    if words is None or fmt.words is None or sum(words) == sum(b.used["synapse_words"] for b in partition.blocks):
        return ()
    over = sum(w > fmt.words for w in words)
    return (
        f"with full runs of {fmt.run_targets_max} targets instead of runs of free length this map would take "
        f"{sum(words):,} words, and {over} of {len(words)} cores would hold too many",
    )


def _pinned(partition: Partition, chip: Chip, options: MapOptions) -> dict[int, CoreId]:
    pins: dict[int, CoreId] = {}
    for cores in sorted(set(options.pins.values())):
        names = {name for name, own in options.pins.items() if own == cores}
        blocks = [i for i, b in enumerate(partition.blocks) if any(s.population in names for s in b.slices)]
        if len(blocks) > len(cores):
            raise UsageError.of(
                f"--pin {_listed(names)}",
                f"takes {len(blocks)} cores",
                f"{len(cores)} named",
                "name as many: --pin NAME=3,4,5",
            )
        pins.update({block: _core(chip, core) for block, core in zip(blocks, cores, strict=False)})
    return pins


def _core(chip: Chip, number: int) -> CoreId:
    """The core of a number that runs on over the chips of a board."""
    from nirbridge.chips import core_at

    on_chip, index = divmod(number, chip.mesh.cores)
    return core_at(chip, index, on_chip)


def _what_would_fit(network: Network, chip: Chip, options: MapOptions) -> tuple[Problem, ...]:
    from nirbridge.partitioner.remedies import remedies

    if network.neurons > TRIED_NEURONS_MAX:
        found = "not tried on so large a network"
        return (
            Problem("what would fit", found, "", "ask nirbridge check with --chips, --weight-bits or another --chip"),
        )
    options.progress("what would fit", None)
    found = remedies(network, chip, _partition_options(network, options))
    if not found:
        nothing = "none of more chips, fewer weight bits, a split source or another built-in chip, each alone"
        return (Problem("what would fit", nothing),)
    return (Problem("what would fit", "; or ".join(found)),)


def load_chip(name_or_path: str | Path, without: tuple[int, ...] = ()) -> Chip:
    """A chip by name or from a TOML file, with cores masked out (flat indices on chip 0). Raises ChipError."""
    from nirbridge import registry
    from nirbridge.chips import without_cores

    chip = registry.load_chip(name_or_path)
    return without_cores(chip, without) if without else chip


def load_rates(path: str | Path, network: Network) -> tuple[Mapping[str, Array], str]:
    """Rates of a ``.npz`` file for ``MapOptions.rates``. Raises FileError or UsageError."""
    from nirbridge.mapping import rates

    return rates.load_rates(path, network)


def fingerprint(path: str | Path) -> str:
    """SHA-256 of a model file, which a map file names. Raises FileError."""
    from nirbridge.importers import nir_file

    return nir_file.fingerprint(Path(path))


def map_document(mapped: Mapped, model: str | Path) -> dict[str, Any]:
    """The content of the map file of a model file. Raises FileError."""
    from nirbridge.mapping.document import to_record

    return to_record(mapped, Path(model).name, fingerprint(model))


def save_map(mapped: Mapped, path: str | Path, model: str | Path) -> None:
    """Writes the map file, whole or not at all. Raises FileError."""
    from nirbridge.mapping import file

    file.write_document(map_document(mapped, model), path)


def check_map(path: str | Path, network: Network, model_sha256: str, chip: Chip | None = None) -> tuple[Problem, ...]:
    """Every violation of a saved map of this model; none: it is legal and tells the truth. Raises FileError."""
    from nirbridge.chips import from_record
    from nirbridge.mapping import check, file

    record = file.load(path)
    if any(p.relay for p in record.populations):
        network = fit_to_chip(network, from_record(record.chip))
    if sum(ways for _, ways in record.splits) > len(record.populations):
        return (Problem("map", "splits make more copies than the map has populations", "", "map the model again"),)
    try:
        network = split_sources(network, dict(record.splits))
    except NirbridgeError as error:
        return error.problems
    return check.check_file(path, network, model_sha256, chip)


def emit_lava(
    network: Network,
    chip: Chip,
    *,
    weight_bits: int | None = None,
    graded: Mapping[str, tuple[float, int]] | None = None,
    cores: Iterable[Any] = (),
    per_core: bool = False,
    floating: bool = False,
    progress: Progress = _quiet,
) -> Artifact:
    """Relays, delays that hold the hops, the chip's integers, and the Lava program of them; files in memory.

    ``graded``: per input (largest size, bits) as ``quantize`` takes it. ``cores``: slices of a saved map, one process
    of Lava each; with ``per_core`` and none of them the network is mapped here.

    Raises:
        ModelError: what the chip or Lava can not do; every problem.
        DoesNotFit: ``per_core``, and it does not fit.
    """
    from nirbridge.emitters.lava.emit import emit
    from nirbridge.passes import balance_delays
    from nirbridge.quantization.quantize import Options, quantize

    ready = fit_to_chip(network, chip)
    retimed = balance_delays(ready, delay_steps_max=chip.core.delay_steps, graded_spikes=chip.neuron.graded_spikes)
    options = Options(weight_bits=weight_bits, graded=MappingProxyType(dict(graded or {})), progress=progress)
    quantized = quantize(retimed, chip, options)
    slices = tuple(cores)
    if per_core and not slices:
        mapped = map_network(
            retimed.network, chip, MapOptions(weight_bits=weight_bits, relays=False, progress=progress)
        )
        return emit(quantized, mapped=mapped, per_core=True)
    return emit(quantized, mapped=slices or None, per_core=bool(slices), floating=floating)


def slices_of_map(path: str | Path, network: Network, model_sha256: str, chip: Chip) -> tuple[Any, ...]:
    """The slices of a saved map of this model. Raises FileError, and IllegalMapping for a map that is not of it."""
    from nirbridge.errors import IllegalMapping
    from nirbridge.mapping import file

    problems = check_map(path, network, model_sha256, chip)
    if problems:
        raise IllegalMapping(*problems)
    return tuple(piece for block in file.load(path).blocks for piece in block.slices)


def run_emitted(
    folder: str | Path,
    inputs: Any,
    *,
    steps: int | None = None,
    record: Sequence[str] = (),
    progress: Progress | None = None,
) -> Recording:
    """Runs an emitted Lava program, supervised. Raises UsageError, FileError or ModelError (see ``run_program``)."""
    from nirbridge.emitters.lava.run import run_program
    from nirbridge.simulators import Recording

    ran = run_program(folder, inputs, steps=steps, record=record, progress=progress)
    return Recording(ran.arrays, ran.meta)


def quantize_network(
    network: Network, chip: Chip, options: Quantization | None = None, data: Any = None, plan: Plan | None = None
) -> Quantized:
    """Retimes a network for a chip and puts it into the chip's integers.

    ``data``: ``simulators.quantize_data.Data`` to calibrate and measure on, ``plan``: how.
    Raises ModelError (what the chip can not do), DoesNotFit (no widths within the memory asked for), UsageError.
    """
    from nirbridge.passes.balance_delays import balance_delays
    from nirbridge.quantization import Options
    from nirbridge.simulators.quantize_data import Plan, quantize_with_data

    ready = fit_to_chip(network, chip)
    limits = {"delay_steps_max": chip.core.delay_steps, "graded_spikes": chip.neuron.graded_spikes}
    retimed = balance_delays(ready, **limits)
    return quantize_with_data(retimed, chip, options or Options(), data, plan or Plan())


def quantize_plan(
    network: Network, options: Mapping[str, Any], arrays: Any, plan: Mapping[str, Any]
) -> tuple[Quantization, Any, Plan]:
    """What ``quantize_network`` takes behind the chip, from plain values (of a command). Raises UsageError."""
    from nirbridge.quantization import Options
    from nirbridge.simulators.quantize_data import Plan, data_of

    data = None if arrays is None else data_of(network, arrays)
    return Options(**options), data, Plan(**plan)


def save_quantized(quantized: Quantized, path: str | Path) -> str:
    """Writes a ``.q.npz`` file and returns its digest. Raises FileError."""
    from nirbridge.quantization.file import save

    return save(quantized, path)


def verify_network(
    network: Network,
    chip: Chip,
    inputs: Any = None,
    *,
    target: str | None = None,
    steps: int | None = None,
    labels: Any = None,
    map_file: str | Path | None = None,
    weight_bits: int | None = None,
    seed: int = 0,
    progress: Progress = _quiet,
) -> Verification:
    """Reference, integers, map and (``target`` 'lava') the emitted program on the same input, compared.

    ``inputs``: by name or one alone; None: random spikes, said in the result. ``map_file``: a saved map of this model;
    None: it is mapped here, and where it does not fit that is said and the map is left out.

    Raises:
        ModelError: what the chip or the tool can not do, or a program that failed.
        UsageError: inputs or options that make no sense, no Lava environment.
        IllegalMapping: the saved map is not of this network.
    """
    from nirbridge.emitters.lava.emit import emit
    from nirbridge.quantization.quantize import Options, quantize
    from nirbridge.simulators.verify import drawn_inputs, input_arrays, verify

    retimed = retime(network, chip)
    quantized = quantize(retimed, chip, Options(weight_bits=weight_bits, progress=progress))
    count = steps or (None if inputs is not None else VERIFY_STEPS)
    said = "as given"
    if inputs is None:
        inputs, said = drawn_inputs(network, count or VERIFY_STEPS, seed)
    given, count = input_arrays(network, inputs, count)
    mapping, left_out = _map_to_verify(retimed, chip, map_file, weight_bits, progress)
    return verify(
        retimed.reference,
        quantized,
        given,
        steps=count,
        mapping=mapping,
        program=emit(quantized) if target == "lava" else None,
        labels=labels,
        input_said=said,
        left_out=left_out,
        progress=progress,
    )


def retime(network: Network, chip: Chip, *, relays: bool = True) -> Retimed:
    """The network with what the chip's fan-in needs, and with delays that hold the hops. Raises ModelError."""
    from nirbridge.passes import balance_delays

    ready = fit_to_chip(network, chip, relays=relays)
    return balance_delays(ready, delay_steps_max=chip.core.delay_steps, graded_spikes=chip.neuron.graded_spikes)


def map_retimed(retimed: Retimed, chip: Chip, options: MapOptions | None = None) -> Mapped:
    """The map of a retimed network, with the delays that its synapses store. Raises DoesNotFit."""
    from nirbridge.passes.balance_delays import without_hops

    chosen = options or MapOptions()
    return map_network(without_hops(retimed.network), chip, replace(chosen, relays=False))


def _map_to_verify(
    retimed: Retimed, chip: Chip, map_file: str | Path | None, weight_bits: int | None, progress: Progress
) -> tuple[Any, dict[str, str]]:
    from nirbridge.mapping import file

    if map_file is not None:
        return file.load(map_file), {}
    try:
        options = MapOptions(effort="fast", weight_bits=weight_bits, progress=progress)
        return map_retimed(retimed, chip, options), {}
    except DoesNotFit as error:
        return None, {"mapped": f"does not fit ({error.problems[0]})"}


def load_labels(path: str | Path) -> Array:
    """The right class of each sample, from a ``.npy`` file. Raises FileError."""
    from nirbridge.simulators.npy_file import load_npy

    return load_npy(path)


def simulate_on_chip(
    network: Network,
    inputs: Any,
    *,
    backend: str,
    chip: str | Path | None,
    map_file: str | Path | None = None,
    steps: int | None = None,
    record: Sequence[Any] | None = None,
    progress: Progress = _quiet,
) -> Recording:
    """The integers of a chip ('fixed'), or those on the cores of a map ('mapped'; None: mapped here); hardware steps.

    Raises:
        UsageError: options that do not go together, or inputs that the network does not take.
        ModelError: what the chip can not do.
        DoesNotFit, IllegalMapping: as of ``map_network`` and ``simulate_mapped``.
    """
    from nirbridge.mapping import file
    from nirbridge.quantization.quantize import quantize
    from nirbridge.simulators.fixed import simulate_fixed
    from nirbridge.simulators.mapped import simulate_mapped

    if backend not in ("fixed", "mapped") or chip is None or (map_file is not None and backend != "mapped"):
        found = (
            f"--backend {backend}{'' if chip is None else ' with --chip'}{'' if map_file is None else ' with --map'}"
        )
        limit = "fixed and mapped take --chip, mapped also --map, other backends neither"
        raise UsageError.of("simulate", found, limit, "as in --backend mapped --chip loihi1")
    known = load_chip(chip)
    retimed = retime(network, known)
    quantized = quantize(retimed, known)
    if backend == "fixed":
        return simulate_fixed(quantized, inputs, steps=steps, record=record, progress=progress).recording
    options = MapOptions(effort="fast", progress=progress)
    mapping = map_retimed(retimed, known, options) if map_file is None else file.load(map_file)
    return simulate_mapped(quantized, mapping, inputs, steps=steps, record=record, progress=progress)
