"""A map in about twelve lines, of a fresh map and of a saved one, and a line for each of its cores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.chips.load import chip_from_dict
from nirbridge.chips.model import Chip
from nirbridge.errors import NirbridgeError, counted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import RESOURCES
from nirbridge.report.map_facts import (
    CoreRow,
    as_full,
    core_name,
    core_number,
    core_rows,
    cores_available,
    figure_with_prefix,
    fullest_of,
    is_approximate_limit,
    is_approximate_table,
    one_line,
    percent,
    rate_text,
    rates_lines,
    unknown_limits,
)
from nirbridge.report.tables import Names, facts_table, table

CORES_SHOWN, FULLEST_SHOWN = 24, 5
SHORT_NAMES = {
    "neurons": "neurons",
    "input_axons": "axons in",
    "output_axons": "axons out",
    "synapse_words": "words",
    "decay_profiles": "decays",
    "threshold_profiles": "thresholds",
}
CORE_HEADINGS = ("core", "tile", "neurons", "words", "axons in", "axons out", "fullest", "holds")
CORE_COLUMNS = ("neurons", "synapse_words", "input_axons", "output_axons")
_LEAST = ("tile", "axons out", "axons in", "words", "neurons")
"""Columns that a narrow terminal does without, the first to go first."""


@dataclass(frozen=True, slots=True)
class MapBrief:
    """The content of the twelve lines.

    ``size``: neurons, populations, relay neurons; ``cores``: used, available; ``proof``: status, lower bound of any
    map, the limit that sets it, True if the search was interrupted; ``traffic``: hops and their lower bound;
    ``energy``, ``time``: of a time step, and the number of kinds of event without a figure. ``unknown``: limits of a
    core that are not public and not assumed either.
    """

    title: str
    marked: str
    size: tuple[int, int, int]
    dt: float
    weight_bits: int
    cores: tuple[int, int]
    proof: tuple[str, int, str, bool]
    fullest: str
    traffic: tuple[float, float]
    energy: tuple[float | None, int]
    time: tuple[float | None, int]
    rates: str
    assumed: Sequence[str]
    notes: Sequence[str]
    approximate: Sequence[str]
    unknown: Sequence[str]

    def lines(self, *, notes: bool = True) -> Iterator[tuple[str, str]]:
        """Labels and texts, in order; without the hint and the notes where ``notes`` is false."""
        if self.marked:
            yield "marked", self.marked
        neurons, populations, added = self.size
        relays = f", {counted(added, 'relay neuron')} added" if added else ""
        size = f"{counted(neurons, 'neuron')} in {counted(populations, 'population')}{relays}"
        yield "network", f"{size}; dt {figure_with_prefix(self.dt, 's')}, weights of {counted(self.weight_bits, 'bit')}"
        yield "cores", f"{self.cores[0]:,} of {self.cores[1]:,} used, {self._proof()}"
        if self.fullest:
            yield "fullest", self.fullest
        if self.unknown:
            yield "limits", f"not known, so not counted: {', '.join(name.replace('_', ' ') for name in self.unknown)}"
        hops, least = self.traffic
        bound = f", at least {rate_text(least)} in any placement" if hops else ""
        yield "traffic", f"{rate_text(hops)} multicast hops per time step{bound}"
        yield "energy", self._total(*self.energy, "J", "energy")
        yield "time", self._total(*self.time, "s", "time")
        yield "rates", "\n".join(rates_lines(self.rates)[: 2 if notes else 1])
        if notes and (remarks := self._remarks()):
            yield "notes", remarks

    def _proof(self) -> str:
        status, bound, binding, is_interrupted = self.proof
        by = f"lower bound {bound:,}, set by {one_line(binding).replace('_', ' ')}"
        gap = self.cores[0] - bound
        rough = any(is_approximate_limit(self.approximate, name) for name in RESOURCES)
        text = {
            "optimal": f"proved optimal{' for this chip file' * rough} ({by})",
            "optimal-sliced": f"optimal among rectangular slices ({by})",
        }.get(status, f"gap {gap:,} to the {by}; --effort max searches longest")
        return ("SEARCH INTERRUPTED, the best map so far: " if is_interrupted else "") + text

    def _total(self, value: float | None, missing: int, unit: str, figures: str) -> str:
        if value is None:
            return f"unknown: the chip file has no data for {figures}"
        rough = is_approximate_table(self.approximate, figures)
        left_out = f" (partial: {counted(missing, 'kind')} of event without data)" if missing else ""
        return f"{figure_with_prefix(value, unit, approximate=rough)} per time step{left_out}"

    def _remarks(self) -> str:
        counts = [counted(len(self.assumed), "assumption")] if self.assumed else []
        counts += [counted(len(self.notes), "note")] if self.notes else []
        counts += [f"{counted(len(self.approximate), 'figure')} not public (~)"] if self.approximate else []
        return f"{', '.join(counts)}: see --verbose" if counts else ""


def brief_of(mapped: MappedNetwork, title: str) -> MapBrief:
    """Of a fresh map; ``title`` is the name of the model."""
    network, chip, report, costs = mapped.network, mapped.chip, mapped.partition.report, mapped.costs
    energy, time = _missing(chip)
    relays = sum(p.size for p in network.populations if p.neuron.kind.lower() == "relay")
    full = fullest_of(mapped)
    fullest = ""
    if full is not None:
        fullest = f"{full.used} {full.words} in core {core_name(full.cores[0], mapped)}{as_full(full.cores)}"
    return MapBrief(
        title=_title(title, chip.name, mapped.chips),
        marked=_marked(network.notes) if mapped.placement_only else "",
        size=(network.neurons, len(network.populations), relays),
        dt=network.dt,
        weight_bits=mapped.partition.weight_bits,
        cores=(len(mapped.cores), cores_available(mapped)),
        proof=(report.status, report.cores_lower_bound, report.binding, report.interrupted),
        fullest=fullest,
        traffic=(costs.multicast_hops_per_step, costs.traffic_lower_bound),
        energy=(costs.energy_per_step_j, energy),
        time=(costs.time_per_step_s, time),
        rates=mapped.rates,
        assumed=network.assumed,
        notes=network.notes,
        approximate=chip.approximate,
        unknown=unknown_limits(chip.approximate, limits(chip)),
    )


def brief_of_record(record: MapRecord) -> MapBrief:
    """Of a saved map, of which only the form was checked."""
    raw, totals, proof = record.raw, record.totals, record.proof
    chip = _chip_of(record)
    energy, time = (0, 0) if chip is None else _missing(chip)
    relays = sum(p.neurons for p in record.populations if p.relay)
    return MapBrief(
        title=_title(record.model_file, record.chip["name"], record.chips),
        marked=_marked(raw.get("notes") or ()) if record.placement_only else "",
        size=(sum(p.neurons for p in record.populations), len(record.populations), relays),
        dt=raw["timing"]["dt"],
        weight_bits=record.weight_bits,
        cores=(totals["cores_used"], totals["cores_available"]),
        proof=(proof["status"], proof["cores_lower_bound"], proof["binding"], bool(proof.get("interrupted"))),
        fullest=_fullest(record, chip),
        traffic=(totals["multicast_hops"], proof["traffic_lower_bound"]),
        energy=(totals.get("energy_per_step_j"), energy),
        time=(totals.get("time_per_step_s"), time),
        rates=raw["rates"],
        assumed=raw.get("assumed") or (),
        notes=raw.get("notes") or (),
        approximate=raw["approximate"],
        unknown=unknown_limits(raw["approximate"], {name: totals[name].get("limit") for name in RESOURCES}),
    )


def _title(model: str, chip: str, chips: int) -> str:
    on = f"{chips:,} chips {one_line(chip)}" if chips > 1 else one_line(chip)
    return f"{one_line(model)} on {on}" if model else on


def _marked(notes: Sequence[str]) -> str:
    """``PLACEMENT ONLY`` and the reason, which stands in the notes where the chip cannot run the model."""
    why = [one_line(note) for note in notes if "placement only, chip" in note or "nothing runs this map" in note]
    reason = "\n".join(why) or "requested, although the chip could run it"
    return f"PLACEMENT ONLY: cannot be quantized, run or emitted; {reason}"


def _missing(chip: Chip) -> tuple[int, int]:
    from nirbridge.mapping.cost import missing_figures

    missing = missing_figures(chip)
    return len(missing["energy"]), len(missing["time"])


def _chip_of(record: MapRecord) -> Chip | None:
    """The chip of a saved map; None where its record is not one."""
    try:
        return chip_from_dict(record.chip)
    except NirbridgeError:
        return None


def _fullest(record: MapRecord, chip: Chip | None) -> str:
    shares = {name: row["max"] / row["limit"] for name in RESOURCES if (row := record.totals[name]).get("limit")}
    if not shares:
        return ""
    name = max(shares, key=lambda each: shares[each])
    row = record.totals[name]
    mark = "~" * is_approximate_limit(record.raw["approximate"], name)
    used = f"{row['max']:,} of {mark}{row['limit']:,} ({percent(shares[name])}) {name.replace('_', ' ')}"
    cores = tuple(sorted((b.core for b in record.blocks if b.used.get(name) == row["max"]), key=_by_number))
    if chip is None or not cores:
        return used
    return f"{used} in core {core_number(cores[0], chip.mesh, with_chip=record.chips > 1)}{as_full(cores)}"


def _by_number(core: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    chip, x, y, number = core
    return chip, y, x, number


def brief_text(mapped: MappedNetwork, title: str, *, notes: bool = True) -> RenderableType:
    """The lines of a map and the table of its cores: all up to 24, else the five fullest; none for a single one."""
    brief = brief_of(mapped, title)
    parts: list[RenderableType] = [Text(brief.title, style="bold"), facts_table(brief.lines(notes=notes))]
    rows = core_rows(mapped)
    if len(rows) > CORES_SHOWN:
        fullest = sorted(rows, key=lambda row: -row.share)[:FULLEST_SHOWN]  # the first of equals
        more = f"and {counted(len(rows) - FULLEST_SHOWN, 'more core')}: see --verbose"
        parts += [Text(), core_table(fullest), Text(more)]
    elif len(rows) > 1:
        parts += [Text(), core_table(rows)]
    return Group(*parts)


def core_table(rows: Sequence[CoreRow]) -> RenderableType:
    """A line per core; of narrow terminals some columns are left out, and names that there is no room for."""
    cells = []
    for row in rows:
        used = (share_text(*row.used[name]) for name in CORE_COLUMNS)
        held = Names(tuple(dict.fromkeys(row.populations)))
        cells.append((row.name, f"{row.core.x},{row.core.y}", *used, fullest_text(row), held))
    return table(CORE_HEADINGS, "RRRRRRLl", cells, drop=_LEAST)


def fullest_text(row: CoreRow) -> Text:
    """``words 97%``, coloured where it is near the limit."""
    return Text(f"{SHORT_NAMES.get(row.fullest, row.fullest)} {row.share:.0%}", style=share_style(row.share))


def share_text(used: int, limit: int | None) -> Text:
    """``216  84%``; the number alone where there is no limit."""
    if limit is None:
        return Text(f"{used:,}")
    share = used / limit if limit else 0.0
    return Text(f"{used:,} {share:4.0%}", style=share_style(share))


def share_style(share: float | None) -> str:
    """The colour of a share of a limit."""
    if share is None or share < 0.75:
        return ""
    return "green" if share < 0.95 else "yellow"
