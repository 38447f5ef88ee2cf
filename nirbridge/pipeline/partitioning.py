"""Partitions for an objective, or the reasons that there is none and changes that would fit; cores of pinned ones."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from nirbridge import plugins as registry
from nirbridge.chips import core_at
from nirbridge.chips.model import Chip, CoreId
from nirbridge.errors import Diagnostic, DoesNotFit, ModelError, UsageError, counted, did_you_mean, quoted
from nirbridge.network.model import Network
from nirbridge.pipeline.fit import PreparedNetwork, prepare_network, with_placement_hint
from nirbridge.pipeline.options import MapOptions

if TYPE_CHECKING:
    from nirbridge.partitioner import Partition, PartitionOptions

TRIED_NEURONS_MAX = 200_000
"""Above this many neurons changes that would fit are not tried: each trial takes seconds."""
ORDERED_MAX = 20_000
"""Above this many neurons a network whose neurons were put in order gets no other partitions: each takes minutes."""
SPREADS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Fractions of a core that ``latency`` tries to fill: 1/1, 1/2, …"""


def check_fit(network: Network, chip: Chip, options: MapOptions | None = None) -> tuple[Network, Partition]:
    """Does it fit? The network as it would be mapped, and a partition; weights are not needed, and nothing is placed.

    Raises:
        DoesNotFit: every reason, the limit that proves it, and changes that fit.
        ModelError: what the chip cannot run, unless ``placement_only`` is requested.
    """
    settings = options or MapOptions()
    prepared = prepare_network(network, chip, settings)
    if prepared.unsupported:
        raise_unfit(prepared, chip, settings, network)
    return prepared.network, partitions(prepared, chip, replace(settings, objective="cores"), network)[0]


def raise_unfit(prepared: PreparedNetwork, chip: Chip, options: MapOptions, model: Network) -> NoReturn:
    """Raises ModelError with all that the chip cannot run, or DoesNotFit where it does not even fit (quick search)."""
    partitions(prepared, chip, replace(options, objective="cores", effort="fast"), model)
    raise ModelError(*map(with_placement_hint, prepared.unsupported))


def partitions(prepared: PreparedNetwork, chip: Chip, options: MapOptions, model: Network) -> list[Partition]:
    """The partition for the fewest cores; for other objectives several, of which the best is taken.

    ``model``: what ``ready`` was prepared from, which other chips are tried with. Raises DoesNotFit, with the reasons
    why the delays are not other ones.
    """
    network = prepared.stored_network
    partition = registry.get("partitioners", options.method)
    base = _partition_options(network, options)
    try:
        first = partition(network, chip, base)
    except DoesNotFit as error:
        changes = _changes_that_fit(network, chip, options, model)
        raise DoesNotFit(*error.problems, *(prepared.unsupported or prepared.refused), *changes) from None
    candidates = [first]
    if first.report.interrupted or (first.orders and network.neurons > ORDERED_MAX):
        return candidates
    for other in _alternatives(base, options.objective):
        try:
            candidates.append(registry.get("partitioners", other.method)(network, chip, other))
        except DoesNotFit:
            continue
        except KeyboardInterrupt:
            if not options.keep_best:
                raise
            return [as_interrupted(p) for p in candidates]
        if candidates[-1].report.interrupted:
            break
    return candidates


def as_interrupted(partition: Partition) -> Partition:
    """The partition as the best one of a search that Ctrl-C ended."""
    return replace(partition, report=replace(partition.report, interrupted=True))


def _partition_options(network: Network, options: MapOptions) -> PartitionOptions:
    from nirbridge.partitioner import PartitionOptions

    names = {p.name for p in network.populations}
    for name in options.pins:
        if name not in names:
            hint = did_you_mean(name, names) or "name one"
            raise UsageError.of("--pin", f"no population {quoted(name)}", f"there are {first_names(names)}", hint)
    groups = {cores: number + 1 for number, cores in enumerate(sorted(set(options.pins.values())))}
    return PartitionOptions(
        method=options.method,
        weight_bits=options.weight_bits,
        chips=options.chips,
        effort=options.effort,
        seed=options.seed,
        groups=MappingProxyType({name: groups[cores] for name, cores in options.pins.items()}),
        keep_best=options.keep_best,
        progress=options.progress,
    )


def _alternatives(base: PartitionOptions, objective: str) -> list[PartitionOptions]:
    if objective == "cores":
        return []
    methods = [replace(base, method=m) for m in ("packed", "sequential")]
    if objective == "traffic":
        return methods
    return methods + [replace(base, method="sequential", spread=s) for s in SPREADS[1:]]


def _changes_that_fit(network: Network, chip: Chip, options: MapOptions, model: Network) -> tuple[Diagnostic, ...]:
    from nirbridge.pipeline.remedies import remedies

    if network.neurons > TRIED_NEURONS_MAX:
        found = f"not searched in a network of more than {TRIED_NEURONS_MAX:,} neurons"
        return (
            Diagnostic(
                "changes that fit", found, "", "ask nirbridge check with --chips, --weight-bits or another --chip"
            ),
        )
    options.progress("changes that fit", None)
    found = remedies(network, chip, _partition_options(network, options), lambda *other: _runs(model, options, *other))
    if not found:
        nothing = "none found; tried more chips, fewer weight bits, a split source and other built-in chips, each alone"
        return (Diagnostic("changes that fit", nothing),)
    return (Diagnostic("changes that fit", "; or ".join(found)),)


def _runs(model: Network, options: MapOptions, chip: Chip, bits: int | None) -> Network | None:
    """The network as another chip, or other weights, would run it; None: it would not."""
    prepared = prepare_network(model, chip, replace(options, weight_bits=bits))
    return None if prepared.unsupported else prepared.stored_network


def first_names(names: set[str]) -> str:
    """The first eight names, for a message."""
    shown = [quoted(n) for n in sorted(names)]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def pinned_blocks(partition: Partition, chip: Chip, options: MapOptions) -> dict[int, CoreId]:
    """The cores of blocks with slices of pinned populations. Raises UsageError."""
    pins: dict[int, CoreId] = {}
    for cores in sorted(set(options.pins.values())):
        names = {name for name, population_cores in options.pins.items() if population_cores == cores}
        blocks = [i for i, b in enumerate(partition.blocks) if any(s.population in names for s in b.slices)]
        if len(blocks) > len(cores):
            raise UsageError.of(
                f"--pin {first_names(names)}",
                f"takes {counted(len(blocks), 'core')}",
                f"{len(cores)} named",
                "name as many: --pin NAME=3,4,5",
            )
        beyond = [core for core in cores if core >= chip.mesh.cores * options.chips]
        if beyond:
            limit = f"cores of {options.chips} x {chip.name} are 0 to {chip.mesh.cores * options.chips - 1:,}"
            subject = f"--pin {first_names(names)}"
            raise UsageError.of(subject, f"core {beyond[0]:,}", limit, "choose one of these, or use more --chips")
        pins.update({block: _core(chip, core) for block, core in zip(blocks, cores, strict=False)})
    return pins


def _core(chip: Chip, number: int) -> CoreId:
    """The core of a number that runs on over the chips of a board."""
    on_chip, index = divmod(number, chip.mesh.cores)
    return core_at(chip, index, on_chip)
