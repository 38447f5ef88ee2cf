"""The content of every report of a map, as plain numbers and safe text: rows for tables, figures with units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nirbridge.chips.model import Chip, CoreId, Mesh
from nirbridge.errors import counted, quoted
from nirbridge.mapping.cost import missing_figures
from nirbridge.mapping.model import MapCosts, MappedNetwork
from nirbridge.mapping.rates import ASSUMED_MISSED, ASSUMED_RATE
from nirbridge.mapping.storage.record import SliceRecord
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import RESOURCES, Block, Slice

_CHIP_KEYS = {name: f"core.{name}" for name in RESOURCES} | {"synapse_words": "synapses.words"}
APPROXIMATE_HEADING = "approximate (~)"
_PREFIXES = (
    ("G", 1e9),
    ("M", 1e6),
    ("k", 1e3),
    ("", 1.0),
    ("m", 1e-3),
    ("u", 1e-6),
    ("n", 1e-9),
    ("p", 1e-12),
    ("f", 1e-15),
)


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """One resource over all cores: sum, most of one core, the first such core by number, limit (None: not limited)."""

    name: str
    total: int
    most: int
    where: str
    limit: int | None
    is_approximate: bool

    @property
    def share(self) -> float | None:
        """The most of one core over the limit, 0 … 1; None where there is no limit."""
        return self.most / self.limit if self.limit else None


@dataclass(frozen=True, slots=True)
class CoreRow:
    """One used core: its position and slices, their populations, resource -> (used, limit), its fullest resource."""

    core: CoreId
    name: str
    slices: tuple[str, ...]
    populations: tuple[str, ...]
    used: Mapping[str, tuple[int, int | None]]
    fullest: str
    share: float


@dataclass(frozen=True, slots=True)
class PopulationRow:
    """The partition of one population: slices, their cores, the most frequent slice sizes, and neurons."""

    name: str
    shape: str
    neurons: int
    slices: int
    cores: int
    boxes: str


def one_line(text: object) -> str:
    """Text that may hold names from a file, on one line: characters that do not print are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))


def figure_with_prefix(
    value: float, unit: str, *, approximate: bool = False, partial: Collection[str] | bool = False
) -> str:
    """A number with the prefix of its size, three digits: ``1.51 uJ``; ``~`` before it where approximate.

    ``partial``: the kinds of event that a total leaves out, or whether there are any: ``1.51 uJ (partial)``.
    """
    mark, after = "~" if approximate else "", " (partial)" if partial else ""
    for prefix, scale in _PREFIXES:
        if abs(value) >= scale:
            return f"{mark}{value / scale:.3g} {prefix}{unit}{after}"
    return f"{mark}{value:.3g} {unit}{after}"


def rate_text(value: float) -> str:
    """Spikes per time step: thousands separated, three digits after a small number."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def core_name(core: CoreId, mapped: MappedNetwork) -> str:
    """The number that ``--pin`` and ``--without-cores`` take, with the chip where there are several."""
    return core_number(core, mapped.chip.mesh, with_chip=mapped.chips > 1)


def core_number(core: CoreId, mesh: Mesh, *, with_chip: bool) -> str:
    """``17``, row by row; ``2:17`` with the chip."""
    number = (core.y * mesh.width_tiles + core.x) * mesh.cores_per_tile + core.core
    return f"{core.chip}:{number}" if with_chip else str(number)


def slice_text(cut: Slice | SliceRecord) -> str:
    """``'conv1' [0:16, 0:1, 0:17]``."""
    return f"{quoted(cut.population, 40)} [{', '.join(f'{a}:{b}' for a, b in cut.box)}]"


def cores_with_most(mapped: MappedNetwork, resource: str) -> tuple[CoreId, ...]:
    """The cores that use most of a resource, in the order of their numbers."""
    used = [int(block.used.get(resource, 0)) for block in mapped.partition.blocks]
    most = max(used, default=0)
    found = (core for core, amount in zip(mapped.cores, used, strict=True) if amount == most)
    return tuple(sorted(found, key=lambda core: (core.chip, core.y, core.x, core.core)))


def resource_rows(mapped: MappedNetwork) -> list[ResourceRow]:
    """Every resource, in the order of ``RESOURCES``."""
    blocks, limit = mapped.partition.blocks, limits(mapped.chip)
    rows = []
    for name in RESOURCES:
        used = [int(block.used.get(name, 0)) for block in blocks]
        fullest_core = core_name(cores_with_most(mapped, name)[0], mapped) if used else "-"
        rough = is_approximate_limit(mapped.chip.approximate, name)
        rows.append(ResourceRow(name, sum(used), max(used, default=0), fullest_core, limit[name], rough))
    return rows


def core_rows(mapped: MappedNetwork) -> list[CoreRow]:
    """Every used core, by chip, then number."""
    limit = limits(mapped.chip)
    rows = [_core_row(b, c, mapped, limit) for b, c in zip(mapped.partition.blocks, mapped.cores, strict=True)]
    return sorted(rows, key=lambda row: (row.core.chip, row.core.y, row.core.x, row.core.core))


def _core_row(block: Block, core: CoreId, mapped: MappedNetwork, limit: Mapping[str, int | None]) -> CoreRow:
    used = {name: (int(block.used.get(name, 0)), limit[name]) for name in RESOURCES}
    shares = {name: amount / limit_of for name, (amount, limit_of) in used.items() if limit_of}
    fullest = max(shares, key=lambda name: shares[name]) if shares else "-"
    pieces = tuple(slice_text(piece) for piece in block.slices)
    held = tuple(dict.fromkeys(one_line(piece.population) for piece in block.slices))
    return CoreRow(core, core_name(core, mapped), pieces, held, used, fullest, shares.get(fullest, 0.0))


def population_rows(mapped: MappedNetwork) -> list[PopulationRow]:
    """Every population, in network order."""
    pieces: dict[str, list[tuple[int, Slice]]] = {p.name: [] for p in mapped.network.populations}
    for number, block in enumerate(mapped.partition.blocks):
        for piece in block.slices:
            pieces[piece.population].append((number, piece))
    rows = []
    for p in mapped.network.populations:
        slices = pieces[p.name]
        shape = " x ".join(f"{n:,}" for n in p.shape)
        row = (len(slices), len({number for number, _ in slices}), _sizes([cut for _, cut in slices]))
        rows.append(PopulationRow(quoted(p.name, 40), shape, p.size, *row))
    return rows


def _sizes(slices: Sequence[Slice]) -> str:
    sizes = Counter(" x ".join(str(b - a) for a, b in cut.box) for cut in slices)
    shown = [f"{count} of {size}" for size, count in sizes.most_common(3)]
    return ", ".join(shown) + (f", {len(sizes) - 3} other sizes" if len(sizes) > 3 else "")


def cores_available(mapped: MappedNetwork) -> int:
    """Cores of the chips, dead ones left out."""
    dead = {core for core in mapped.chip.dead_cores if core.chip < mapped.chips}
    return mapped.chip.mesh.cores * mapped.chips - len(dead)


def summary_line(mapped: MappedNetwork) -> str:
    """The map in one line: cores and their lower bound, traffic, energy and time per time step."""
    report, costs = mapped.partition.report, mapped.costs
    chips = f"{mapped.chips} x {one_line(mapped.chip.name)}"
    parts = [
        f"{len(mapped.cores):,} of {counted(cores_available(mapped), 'core')} of {chips}"
        f" ({report.status}, at least {report.cores_lower_bound:,})",
        f"{counted(mapped.network.neurons, 'neuron')} in {counted(len(mapped.network.populations), 'population')}",
        f"{rate_text(costs.multicast_hops_per_step)} multicast hops",
        *_known_totals(costs, mapped.chip),
    ]
    marks = ["placement only"] if mapped.placement_only else []
    return ", ".join([*marks, *parts]) + " per time step"


def _known_totals(costs: MapCosts, chip: Chip) -> list[str]:
    missing = missing_figures(chip)
    totals = ((costs.energy_per_step_j, "J", "energy"), (costs.time_per_step_s, "s", "time"))
    return [
        figure_with_prefix(
            value, unit, approximate=is_approximate_table(chip.approximate, table), partial=missing[table]
        )
        for value, unit, table in totals
        if value is not None
    ]


def proof_text(mapped: MappedNetwork) -> list[str]:
    """Status, lower bounds and optimality gap, in sentences."""
    report = mapped.partition.report
    meaning = {
        "optimal": "no mapping of the stored synapses needs fewer cores (proved)",
        "optimal-sliced": "optimal among rectangular slices, each stored by itself (proved)",
        "feasible": "not proved optimal; --effort max searches longest",
    }[report.status]
    others = ", ".join(f"{_words(name)} {value:,}" for name, value in report.bounds.items() if name != report.binding)
    any_map, sliced = report.cores_lower_bound, report.cores_lower_bound_sliced
    return [
        f"{report.status} ({one_line(report.method)}): {meaning}"
        + ("; the search was interrupted, this is the best map so far" if report.interrupted else ""),
        f"lower bound {any_map}, set by {_words(report.binding)}" + (f" (other bounds: {others})" if others else ""),
        f"lower bound {sliced} among the partitions searched; optimality gap {report.cores - any_map}",
    ]


def _words(name: str) -> str:
    return one_line(name).replace("_", " ")


def is_approximate_table(approximate: Collection[str], table: str) -> bool:
    """True if a figure of that table of a chip file is among its ``approximate`` keys."""
    return any(key.startswith(f"{table}.") for key in approximate)


def is_approximate_limit(approximate: Collection[str], resource: str) -> bool:
    """True if the limit of a core on one of ``RESOURCES`` is among the ``approximate`` keys of a chip file."""
    return _CHIP_KEYS[resource] in approximate


def unknown_limits(approximate: Collection[str], limit: Mapping[str, int | None]) -> list[str]:
    """The ``RESOURCES`` that a chip file does not limit because nothing public says how."""
    return [name for name in RESOURCES if limit[name] is None and is_approximate_limit(approximate, name)]


def approximate_lines(chip: str, approximate: Collection[str]) -> list[str]:
    """The remark under a report with ``~``: the approximate keys of the chip; empty where there is none."""
    keys = ", ".join(map(one_line, approximate))
    return [f"limits and figures of {one_line(chip)} that are not public: {keys}"] if keys else []


def map_facts(mapped: MappedNetwork) -> list[tuple[str, list[str]]]:
    """The heading of a map: label and lines, in order."""
    network, chip, costs = mapped.network, mapped.chip, mapped.costs
    populations = len(network.populations)
    chips = f"{chip.name}, {mapped.chips} chip{'s' if mapped.chips > 1 else ''}"
    rows: list[tuple[str, list[str]]] = [
        ("chip", [one_line(chips)]),
        ("model", [f"{counted(network.neurons, 'neuron')} in {counted(populations, 'population')}"]),
        ("dt", [figure_with_prefix(network.dt, "s")]),
        ("cores", [f"{len(mapped.cores):,} of {cores_available(mapped):,} used", *proof_text(mapped)]),
        ("weights", [f"{counted(mapped.partition.weight_bits, 'bit')}"]),
        ("traffic", traffic_lines(mapped)),
        ("energy", [_total(costs.energy_per_step_j, "J", mapped, "energy")]),
        ("time", [_total(costs.time_per_step_s, "s", mapped, "time")]),
        ("rates", rates_lines(mapped.rates)),
    ]
    if mapped.placement_only:
        why = any(text in note for note in network.notes for text in ("placement only, chip", "nothing runs this map"))
        reason = "the chip cannot run it, see the notes" if why else "requested, although the chip could run it"
        rows.insert(0, ("marked", [f"PLACEMENT ONLY: cannot be quantized, run or emitted; {reason}"]))
    return rows


def rates_lines(rates: str) -> list[str]:
    """Where the rates are from; where all are assumed, how far that is off on examples."""
    assumed = rates.startswith(f"assumed: {ASSUMED_RATE:g} spikes per neuron")
    return [one_line(rates), *([ASSUMED_MISSED] if assumed else [])]


def traffic_lines(mapped: MappedNetwork) -> list[str]:
    """Unicast and multicast traffic, its bound, and the links."""
    costs = mapped.costs
    hops, bound = costs.multicast_hops_per_step, costs.traffic_lower_bound
    above = f", {hops / bound:.2f} times the bound" if bound > 0 else ""
    return [
        f"{rate_text(costs.unicast_spikes_per_step)} spikes per time step to other cores (host inputs included)",
        f"{rate_text(hops)} multicast hops per time step; at least {rate_text(bound)}"
        f" in any placement of these blocks{above}",
        f"busiest link {rate_text(costs.max_link_load_spikes_per_step)} spikes per time step,"
        f" mean of the used links {rate_text(costs.mean_link_load_spikes_per_step)}",
    ]


def _total(value: float | None, unit: str, mapped: MappedNetwork, table: str) -> str:
    missing = missing_figures(mapped.chip)[table]
    if value is None:
        return f"unknown: the chip file has no data for {table}"
    without = f" (partial: no data for {', '.join(missing)})" if missing else ""
    rough = is_approximate_table(mapped.chip.approximate, table)
    return f"{figure_with_prefix(value, unit, approximate=rough)} per time step{without}"


def remarks(mapped: MappedNetwork) -> list[tuple[str, list[str]]]:
    """Assumptions, notes, relays, and approximate figures: heading and sentences; empty ones left out."""
    network, chip = mapped.network, mapped.chip
    relays = [p for p in network.populations if p.neuron.kind.lower() == "relay"]
    sections = [
        ("assumed", [one_line(text) for text in network.assumed]),
        ("notes", [one_line(text) for text in network.notes]),
        ("relays", [f"{quoted(p.name, 40)}: {counted(p.size, 'relay neuron')} added to the model" for p in relays]),
        (APPROXIMATE_HEADING, approximate_lines(chip.name, chip.approximate)),
    ]
    return [(heading, lines) for heading, lines in sections if lines]


# -- fullest -------------------------------------------------------------------------------------------------------
# The limiting resource of a map and its fullest core: one answer for every section, of equals the first by number.


@dataclass(frozen=True, slots=True)
class Fullest:
    """The resource with the largest share of its limit in a core, and the cores that use as much, by number."""

    resource: str
    used: str
    share: float
    cores: tuple[CoreId, ...]

    @property
    def words(self) -> str:
        """The resource in words."""
        return self.resource.replace("_", " ")


def fullest_of(mapped: MappedNetwork) -> Fullest | None:
    """None where the chip limits no resource or no core is used; ``used`` is ``256 of 256 (100%)``."""
    rows = [row for row in resource_rows(mapped) if row.limit]
    first = max(rows, key=lambda row: row.share or 0.0, default=None)
    if first is None or not mapped.cores:
        return None
    share = first.share or 0.0
    used = f"{first.most:,} of {'~' * first.is_approximate}{first.limit:,} ({percent(share)})"
    return Fullest(first.name, used, share, cores_with_most(mapped, first.name))


def percent(share: float) -> str:
    """Whole percents; a tenth more just below the limit, so that 100% is said of what is full alone."""
    return f"{min(share, 0.999):.1%}" if 0.995 <= share < 1 else f"{share:.0%}"


def core_text(core: CoreId, mapped: MappedNetwork) -> str:
    """``core 68 at tile (4, 1)``, with the chip where there are several: a number alone is not found on the plan."""
    chip = f" of chip {core.chip}" if mapped.chips > 1 else ""
    return f"core {core_name(core, mapped)} at tile ({core.x}, {core.y}){chip}"


def as_full(cores: tuple[CoreId, ...]) -> str:
    """``, as in 67 other cores``; empty for one core."""
    return f", as in {counted(len(cores) - 1, 'other core')}" if len(cores) > 1 else ""
