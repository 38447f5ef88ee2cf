"""Facts of a map that the complete reports do not vary: placement marks, remarks, approximate limits, prefixes."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from nirbridge.chips import read_chip
from nirbridge.chips.model import CoreId, EnergyFigures
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import Slice
from nirbridge.report import map_text
from nirbridge.report.map_brief import brief_of, share_text
from nirbridge.report.map_facts import (
    _PREFIXES,
    _sizes,
    core_rows,
    cores_available,
    figure_with_prefix,
    is_approximate_table,
    map_facts,
    population_rows,
    proof_text,
    remarks,
    resource_rows,
    traffic_lines,
)
from nirbridge.report.map_text import _shown
from tests.report.test_map_report import USED, made
from tests.report.test_whole_reports import uneven


def noted(*notes: str, **changes: Any) -> MappedNetwork:
    mapped = made(**changes)
    return replace(mapped, network=replace(mapped.network, notes=notes, assumed=()))


CANNOT, CAN = "the chip cannot run it, see the notes", "requested, although the chip could run it"


@pytest.mark.parametrize(
    ("notes", "reason"),
    [
        ((), CAN),
        (("a note",), CAN),
        (("a note", "placement only, chip 'x' cannot run it: a"), CANNOT),
        (("mapped with the delays of the model, nothing runs this map: b", "a note"), CANNOT),
    ],
)
def test_why_a_map_is_a_placement_only(notes: tuple[str, ...], reason: str) -> None:
    mapped = replace(noted(*notes), placement_only=True)
    assert map_facts(mapped)[0] == ("marked", [f"PLACEMENT ONLY: cannot be quantized, run or emitted; {reason}"])
    assert map_facts(noted(*notes))[0] == ("chip", ["loihi1, 1 chip"])
    assert len(map_facts(mapped)) == len(map_facts(noted(*notes))) + 1


def test_remarks_are_left_out_where_there_is_nothing_to_say() -> None:
    chip = replace(read_chip("loihi1"), approximate=())
    assert remarks(noted(chip=chip)) == []
    rough = replace(chip, approximate=("energy.spike_j", "core.neurons"))
    assert remarks(noted("a\nb", chip=rough)) == [
        ("notes", ["a\\nb"]),
        ("approximate (~)", ["limits and figures of loihi1 that are not public: energy.spike_j, core.neurons"]),
    ]


def test_only_relays_are_called_so() -> None:
    mapped = uneven()
    (p,) = mapped.network.populations
    relay = replace(p, name="pool", neuron=replace(p.neuron, kind="Relay"))
    both = replace(mapped, network=replace(mapped.network, populations=(p, relay), notes=(), assumed=()))
    assert remarks(both)[0] == ("relays", ["'pool': 400 relay neurons added to the model"])


@pytest.mark.parametrize(
    ("approximate", "rough"), [(("energy.spike_j",), True), (("time.x", "energy.hop"), True), (("energies.x",), False)]
)
def test_a_table_is_rough_where_one_of_its_figures_is(approximate: tuple[str, ...], rough: bool) -> None:
    assert is_approximate_table(approximate, "energy") is rough


def test_words_of_synapses_are_rough_by_their_own_key() -> None:
    for key, name in (("synapses.words", "synapse_words"), ("core.neurons", "neurons"), ("core.synapse_words", "")):
        rows = resource_rows(made(chip=replace(read_chip("loihi1"), approximate=(key,))))
        assert [row.name for row in rows if row.is_approximate] == ([name] if name else [])


@pytest.mark.parametrize("at", range(len(_PREFIXES) - 1))
def test_a_prefix_begins_at_its_size_and_not_before(at: int) -> None:
    (prefix, scale), (smaller, _) = _PREFIXES[at : at + 2]
    assert figure_with_prefix(scale, "x") == f"1 {prefix}x"
    assert figure_with_prefix(scale * (1 - 1e-9), "x") == f"1e+03 {smaller}x"
    assert scale == float(f"1e{9 - 3 * at}")


def test_a_core_without_limits_has_no_fullest_resource() -> None:
    chip = read_chip("loihi1")
    free = dict.fromkeys(("neurons", "input_axons", "output_axons", "decay_profiles", "threshold_profiles"))
    open_chip = replace(chip, core=replace(chip.core, **free), synapses=replace(chip.synapses, words=None))
    row = core_rows(made(1, chip=open_chip))[0]
    assert (row.fullest, row.share, row.used["neurons"]) == ("-", 0.0, (100, None))
    assert "0%" in map_text.map_text(made(1, chip=open_chip))


def test_a_resource_that_a_block_does_not_use_is_0() -> None:
    mapped = made(2)
    block = replace(mapped.partition.blocks[1], used=MappingProxyType({"neurons": 5}))
    part = replace(mapped, partition=replace(mapped.partition, blocks=(mapped.partition.blocks[0], block)))
    assert {row.name: row.total for row in resource_rows(part)} == USED | {"neurons": 105}
    used = core_rows(part)[1].used
    assert {name: amount for name, (amount, _) in used.items()} == dict.fromkeys(USED, 0) | {"neurons": 5}


@pytest.mark.parametrize("name", ["n" * 40, "n" * 41])
def test_names_are_shown_up_to_forty_characters(name: str) -> None:
    (row,) = population_rows(made(1, name=name))
    assert row.name == ("'" + name + "'" if len(name) == 40 else "'" + "n" * 39 + "…'")
    assert core_rows(made(1, name=name))[0].slices == (f"{row.name} [0:100]",)


def test_text_is_a_hundred_columns_wide_by_default() -> None:
    assert max(len(line) for line in map_text.map_text(noted("x" * 300)).split("\n")) == 100


def test_dead_cores_of_the_chips_in_use_are_not_available() -> None:
    dead = (CoreId(0, 0, 0, 1), CoreId(1, 0, 0, 0), CoreId(2, 0, 0, 0))
    mapped = made(chip=replace(read_chip("loihi1"), dead_cores=dead))
    assert [cores_available(replace(mapped, chips=n)) for n in (1, 2, 3)] == [127, 254, 381]


def test_three_sizes_of_boxes_are_shown() -> None:
    sizes = [4, 4, 3, 3, 3, 2, 1, 1, 1, 1]
    slices = [Slice("p", ((10, 10 + n), (0, 2))) for n in sizes]
    assert _sizes(slices) == "4 of 1 x 2, 3 of 3 x 2, 2 of 4 x 2, 1 other sizes"
    assert _sizes(slices[:5]) == "3 of 3 x 2, 2 of 4 x 2"
    assert _sizes([s for s in slices if s.box[0][1] != 12]) == "4 of 1 x 2, 3 of 3 x 2, 2 of 4 x 2"
    assert _sizes([]) == ""


def test_a_population_is_on_as_many_cores_as_hold_a_slice_of_it() -> None:
    mapped = uneven()
    (row,) = population_rows(mapped)
    assert (row.name, row.shape, row.neurons, row.slices, row.cores) == ("'hidden'", "400", 400, 7, 4)
    assert row.boxes == "2 of 100, 1 of 1, 1 of 2, 3 other sizes"


def test_what_is_proved_of_limits_that_are_not_public_is_proved_of_the_chip_file() -> None:
    mapped = made()
    mapped = replace(
        mapped, partition=replace(mapped.partition, report=replace(mapped.partition.report, status="optimal"))
    )
    core = replace(mapped.chip.core, input_axons=None, output_axons=None)

    def said(*approximate: str) -> tuple[str, str | None]:
        lines = dict(
            brief_of(replace(mapped, chip=replace(mapped.chip, core=core, approximate=approximate)), "m").lines()
        )
        return lines["cores"].partition("used, ")[2].partition(" (")[0], lines.get("limits")

    assert said("energy.spike_j") == ("proved optimal", None)
    assert said("core.neurons") == ("proved optimal for this chip file", None)
    wanted = "not known, so not counted: input axons"
    assert said("core.input_axons") == ("proved optimal for this chip file", wanted)


def test_a_bound_that_decided_alone_is_not_followed_by_others() -> None:
    mapped = made()
    report = replace(mapped.partition.report, bounds={}, status="feasible", cores=1234)
    alone = replace(mapped, partition=replace(mapped.partition, report=report))
    assert proof_text(alone) == [
        "feasible (cp-sat): not proved optimal; --effort max searches longest",
        "lower bound 1, set by words",
        "lower bound 3 among the partitions searched; optimality gap 1233",
    ]
    assert proof_text(mapped)[1:] == [
        "lower bound 1, set by words (other bounds: neurons 1)",
        "lower bound 3 among the partitions searched; optimality gap 2",
    ]


def test_traffic_is_held_against_its_bound_where_there_is_one() -> None:
    mapped = made()
    for bound, said in (
        (4.0, "at least 4 in any placement of these blocks, 2.00 times the bound"),
        (0.0, "at least 0 in any placement of these blocks"),
        (0.5, "at least 0.5 in any placement of these blocks, 16.00 times"),
    ):
        costs = replace(mapped.costs, traffic_lower_bound=bound)
        line = traffic_lines(replace(mapped, costs=costs))[1]
        assert line.startswith(f"8 multicast hops per time step; {said}")
        assert ("times" in line) == (bound > 0)


def test_what_is_counted_in_a_heading_is_in_one_number_or_several() -> None:
    lines = dict(map_facts(made(chips=2)))
    assert (lines["chip"], lines["model"]) == (["loihi1, 2 chips"], ["300 neurons in 1 population"])
    mapped = made()
    (p,) = mapped.network.populations
    for populations, said in (
        ((), "0 neurons in 0 populations"),
        ((p, replace(p, name="q")), "600 neurons in 2 populations"),
    ):
        network = replace(mapped.network, populations=populations)
        partition = replace(mapped.partition, weight_bits=5)
        lines = dict(map_facts(replace(mapped, network=network, partition=partition)))
        assert (lines["model"], lines["weights"], lines["dt"]) == ([said], ["5 bits"], ["1 ms"])


def test_energy_without_figures_is_not_known() -> None:
    lines = dict(map_facts(made(chip=replace(read_chip("loihi1"), energy=EnergyFigures()))))
    assert lines["energy"] == ["unknown: the chip file has no data for energy"]
    assert lines["time"][0].endswith(" us per time step")


# -- tables ------------------------------------------------------------------------------------------------------------


def with_slices(count: int) -> MappedNetwork:
    mapped = made(1)
    slices = tuple(Slice("hidden", ((k, k + 1),)) for k in range(count))
    block = replace(mapped.partition.blocks[0], slices=slices)
    return replace(mapped, partition=replace(mapped.partition, blocks=(block,)))


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, "and 1 more"), (9, "and 6 more")])
def test_three_slices_of_a_core_are_listed(count: int, more: str) -> None:
    text = map_text.map_text(with_slices(count))
    assert ("'hidden' [2:3]" in text, "'hidden' [3:4]" in text) == (True, False)
    assert (more in text, "more" in text) == (True, bool(more))


@pytest.mark.parametrize(
    ("used", "limit", "text"), [(1200, None, "1,200"), (1200, 4800, "1,200  25%"), (3, 0, "3   0%")]
)
def test_a_share_of_a_limit(used: int, limit: int | None, text: str) -> None:
    assert share_text(used, limit).plain == text


def test_the_three_fullest_of_many_cores_are_listed() -> None:
    mapped = made(25)
    blocks = [
        replace(b, used=MappingProxyType(USED | {"neurons": n, "synapse_words": 0}))
        for b, n in zip(mapped.partition.blocks, [500, 900, 400, 900, 1000] + [100] * 20, strict=True)
    ]
    text = map_text.map_text(replace(mapped, partition=replace(mapped.partition, blocks=tuple(blocks))))
    own = text.partition("fullest cores\n")[2].partition("\nmesh\n")[0].strip().split("\n")
    assert [line.split()[0] for line in own] == ["core", "16", "4", "12"]


@pytest.mark.parametrize(
    ("tiles", "room", "last", "shown"), [(8, 8, 0, 8), (8, 7, 0, 1), (8, 7, 5, 6), (8, 7, 7, 7), (8, 0, 3, 1)]
)
def test_tiles_without_a_core_in_use_are_left_out(tiles: int, room: int, last: int, shown: int) -> None:
    assert _shown(tiles, room, last) == shown
