from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from nirbridge.chips import read_chip, without_cores
from nirbridge.chips.model import Chip, CoreId, EnergyFigures, TimeFigures
from nirbridge.mapping.cost import costs
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.differences import map_differences
from nirbridge.mapping.storage.file import map_to_dict
from nirbridge.mapping.storage.record import map_from_dict
from nirbridge.network.model import Network, Population, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense
from nirbridge.partitioner.model import Block, BlockId, Partition, Slice, SolveReport
from nirbridge.report.compare import verify_text
from nirbridge.report.html.sections.quantization import _margin
from nirbridge.report.map_facts import core_rows, figure_with_prefix, one_line, population_rows, resource_rows
from nirbridge.report.map_text import map_text, mesh_text, saved_map_text, shade
from tests.mapping.tables import table
from tests.report.results_by_hand import printed, verified

HOSTILE = "[bold red]x[/] \x1b[31m\n\r\u202e<script>alert(1)</script>&\"'" + "y" * 200
USED = {
    "neurons": 100,
    "input_axons": 50,
    "output_axons": 100,
    "synapse_words": 16_000,
    "decay_profiles": 1,
    "threshold_profiles": 1,
}


def made(blocks: int = 3, *, name: str = "hidden", chip: Chip | None = None, **changes: object) -> MappedNetwork:
    """``blocks`` blocks of 100 neurons of one population, a chain of spikes between them."""
    on = chip or read_chip("loihi1")
    size = 100 * blocks
    population = Population(name, (size,), neuron("LIF"))
    edge = Projection(name, name, Dense(np.broadcast_to(np.float32(1), (size, size))), is_back=True)
    timing = Timing(1e-3, "euler", "to-value", ">", "per-second")
    network = Network(1e-3, timing, (population,), (edge,), (), (), (f"assumed of {name}",), (f"note on {name}",))
    own = tuple(
        Block(
            BlockId(b), (Slice(name, ((100 * b, 100 * b + 100),)),), MappingProxyType(USED | {"threshold_profiles": 1})
        )
        for b in range(blocks)
    )
    proof = SolveReport(
        "cp-sat", "optimal-sliced", blocks, 1, blocks, {"neurons": 1, "words": blocks}, "words", 0, "s", 0.0
    )
    cores = tuple(CoreId(0, b % 8, b // 8 % 4, b // 32) for b in range(blocks))
    axons = table([(b, 2.0, [b, (b + 1) % blocks]) for b in range(blocks)])
    paid = costs(axons, cores, on, [100] * blocks, chips=1)
    mapped = MappedNetwork(
        network, on, 1, Partition(own, 8, proof), cores, axons, paid, "cores", f"assumed: 0.02 for {name}"
    )
    return replace(mapped, **changes)


def test_says_cores_proof_traffic_energy_and_time() -> None:
    lines = map_text(made(), title="model.nir").split("\n")
    assert lines[0] == "model.nir"
    text = " ".join(" ".join(lines).split())
    for part in (
        "loihi1, 1 chip",
        "300 neurons in 1 population ",
        "3 of 128 used",
        "optimal-sliced (cp-sat): optimal among rectangular slices, each stored by itself (proved)",
        "lower bound 3 among the partitions searched; optimality gap 2",
        "lower bound 1, set by words (other bounds: neurons 1)",
        "6 spikes per time step to other cores (host inputs included)",
        "8 multicast hops per time step; at least",
        "busiest link 2 spikes per time step, mean of the used links 2",
        "synapse words 48,000 16,000 98% 16,384 0",
        "threshold profiles 3 1 12% ~8 0",
        "4 1,0 100 10% 16,000 98% 50 1% 100 2% words 98% 'hidden' [100:200]",
        "note on hidden",
        "assumed of hidden",
    ):
        assert part in text
    assert re.search(r"energy +[\d.]+ nJ per time step", text)
    assert re.search(r"time +[\d.]+ us per time step", text)


def test_totals_in_the_text_are_those_of_the_costs() -> None:
    mapped = made()
    assert figure_with_prefix(mapped.costs.energy_per_step_j, "J") + " per time step" in map_text(mapped)
    assert figure_with_prefix(mapped.costs.time_per_step_s, "s") + " per time step" in map_text(mapped)


@pytest.mark.parametrize("width", [60, 100, 160])
@pytest.mark.parametrize("blocks", [1, 24, 25, 100])
def test_no_line_is_wider_than_asked(width: int, blocks: int) -> None:
    text = map_text(made(blocks), width)
    assert max(len(line) for line in text.split("\n")) <= width
    assert ("fullest cores" in text) == (blocks > 24)


def test_many_cores_are_summed_up_by_population() -> None:
    mapped = made(100)
    (row,) = population_rows(mapped)
    assert (row.name, row.neurons, row.slices, row.cores, row.boxes) == ("'hidden'", 10_000, 100, 100, "100 of 100")
    text = map_text(mapped)
    assert "100 of 100" in text
    assert "'hidden' [9900:10000]" not in text


def test_colours_only_where_asked() -> None:
    assert "\x1b" not in map_text(made())
    coloured = map_text(made(), color=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured).split() == map_text(made()).split()


@pytest.mark.parametrize("blocks", [3, 30])
def test_hostile_names_are_shown_and_do_nothing(blocks: int) -> None:
    text = map_text(made(blocks, name=HOSTILE), 400, title=HOSTILE)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "[bold red]x[/]" in text
    assert "\\x1b[31m\\n\\r\\u202e<script>" in text
    coloured = map_text(made(blocks, name=HOSTILE), 400, title=HOSTILE, color=True)
    assert "[bold red]x[/]" in coloured
    assert "\x1b[31m\n" not in coloured


def test_without_figures_energy_and_time_are_said_to_be_unknown() -> None:
    text = map_text(made(chip=replace(read_chip("loihi1"), energy=EnergyFigures(), time=TimeFigures())))
    assert "unknown: the chip file has no data for energy" in text
    assert "unknown: the chip file has no data for time" in text
    assert "energy per time step" not in text


def test_figures_that_are_left_out_are_named() -> None:
    chip = read_chip("loihi1")
    partial = replace(chip, energy=replace(chip.energy, hop_x_j=None), approximate=("energy.spike_j",))
    text = " ".join(map_text(made(chip=partial)).split())
    assert re.search(r"energy ~[\d.]+ nJ per time step \(partial: no data for hops x\)", text)
    assert "limits and figures of loihi1 that are not public: energy.spike_j" in text


def test_relays_are_named() -> None:
    mapped = made()
    relay = replace(mapped.network.populations[0], neuron=replace(mapped.network.populations[0].neuron, kind="Relay"))
    text = map_text(replace(mapped, network=replace(mapped.network, populations=(relay,))))
    assert "- 'hidden': 300 relay neurons added to the model" in text


@pytest.mark.parametrize(
    ("share", "sign"), [(0.0, "░"), (0.25, "░"), (0.26, "▒"), (0.75, "▓"), (0.76, "█"), (1.0, "█")]
)
def test_shades(share: float, sign: str) -> None:
    assert shade(share) == sign


def test_the_mesh_shows_used_free_and_dead_cores() -> None:
    chip = without_cores(read_chip("loihi1"), [127])
    rows = mesh_text(made(chip=chip)).split("\n")
    assert rows[:4] == [
        "█··· █··· █··· ···· ···· ···· ···· ····",
        "···· ···· ···· ···· ···· ···· ···· ····",
        "···· ···· ···· ···· ···· ···· ···· ····",
        "···· ···· ···· ···· ···· ···· ···· ···x",
    ]
    assert rows[4].endswith("of its fullest resource  x masked out")


def test_a_large_mesh_is_cut_and_it_is_said() -> None:
    rows = mesh_text(made(chip=read_chip("crossbar256")), 40).split("\n")
    assert rows[1] == "(3 x 1 of 64 x 64 tiles; on other tiles: none in use)"
    far = made(chip=read_chip("crossbar256"), cores=(CoreId(0, 0, 0, 0), CoreId(0, 63, 0, 0), CoreId(0, 0, 63, 0)))
    rows = mesh_text(far, 40).split("\n")
    assert rows[16] == "(20 x 16 of 64 x 64 tiles; on other tiles: 2 cores in use)"


def test_of_several_chips_those_in_use_are_shown() -> None:
    mapped = made(chips=3, cores=(CoreId(0, 0, 0, 0), CoreId(2, 0, 0, 1), CoreId(2, 1, 0, 0)))
    rows = mesh_text(mapped).split("\n")
    assert [row for row in rows if row.startswith("chip")] == ["chip 0", "chip 2"]
    assert [row.name for row in core_rows(mapped)] == ["0:0", "2:1", "2:4"]
    assert "3 of 384 used" in map_text(mapped)


def test_same_map_same_report() -> None:
    assert map_text(made(5)) == map_text(made(5))


def test_resources_name_the_fullest_core() -> None:
    mapped = made()
    fuller = replace(mapped.partition.blocks[1], used=MappingProxyType(USED | {"neurons": 1024}))
    blocks = (mapped.partition.blocks[0], fuller, mapped.partition.blocks[2])
    row = resource_rows(replace(mapped, partition=replace(mapped.partition, blocks=blocks)))[0]
    assert (row.name, row.total, row.most, row.where, row.limit, row.share) == ("neurons", 1224, 1024, "4", 1024, 1.0)


def test_of_equally_full_cores_the_first_by_number_is_named() -> None:
    """Not the first block: the terminal, the JSON document and the page name the same core."""
    mapped = made()
    alike = tuple(replace(block, used=MappingProxyType(USED)) for block in mapped.partition.blocks)
    cores = tuple(sorted(mapped.cores, key=lambda core: (core.chip, core.y, core.x, core.core), reverse=True))
    tied = replace(mapped, partition=replace(mapped.partition, blocks=alike), cores=cores)
    assert {row.where for row in resource_rows(tied)} == {core_rows(tied)[0].name}
    assert core_rows(tied)[0].core != cores[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.51e-6, "1.51 uJ"), (0.0, "0 J"), (2.0, "2 J"), (3.3e-12, "3.3 pJ"), (4e-15, "4 fJ"), (5e4, "50 kJ")],
)
def test_figures(value: float, text: str) -> None:
    assert figure_with_prefix(value, "J") == text


def test_safe_keeps_letters_of_every_script() -> None:
    assert one_line("Größe 名前\t") == "Größe 名前\\t"


def test_texts_of_a_saved_map_stay_on_their_line() -> None:
    """Any text may stand where a file tells the hash of its model."""
    mapped = made()
    record = map_from_dict(map_to_dict(mapped, "m.nir", "\ud800\nab"))
    text = printed(saved_map_text(record, every=True))
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "sha256 \\ud800\\nab" in text
    other = map_from_dict(map_to_dict(mapped, "m.nir", "cd" * 32))
    (model,) = [d for d in map_differences(record, other) if d.name == "model"]
    assert model.a.isprintable()


def test_texts_of_a_verification_stay_on_their_line() -> None:
    text = printed(verify_text(verified(input_said="drawn\x00\nfixed == mapped yes")))
    assert "input: drawn\\x00\\nfixed == mapped yes" in text


@pytest.mark.parametrize("bits", [10**5, 10**30])
def test_a_width_that_only_a_file_can_state_has_no_margin(bits: int) -> None:
    assert _margin("u", (-3, 2000), bits) == ["2,000", None]
