"""Values of a chip's keys as axes of a sweep, chips that a sweep describes itself, and their heat maps."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import nirbridge as nb
from nirbridge.cli.main import run
from nirbridge.errors import FileError, UsageError
from nirbridge.report.plots import heatmap
from nirbridge.report.tables import captured, fitted
from nirbridge.sweeps import run as runs
from nirbridge.sweeps.model import COLUMNS, columns_with, type_of_values, varying
from nirbridge.sweeps.plan import make_plan
from nirbridge.sweeps.spec import load_spec
from nirbridge.sweeps.table import ROWS_SHOWN, read_table, sweep_parts, sweep_text
from tests.sweeps.small import write_files

KEYS = ("core.neurons", "synapses.weight_bits", "energy.hop_x_j", "core.output_axons", "neuron.graded_spikes")
AXES = {"core.neurons": [2, 8], "core.output_axons": [64, "unlimited"]}


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    return {**write_files(tmp_path), "models": ["b.nir"], "chips": ["loihi1"], "seeds": [0]}


def test_values_are_a_product_and_a_column_each(spec: dict[str, Any]) -> None:
    table = nb.sweep({**spec, "set": AXES}, "t.parquet")
    rows = table.rows()
    assert [(row["core.neurons"], row["core.output_axons"]) for row in rows] == [
        *((2, 64), (2, "unlimited"), (8, 64), (8, "unlimited")),
    ]
    assert [row["cores"] for row in rows] == [3, 3, 1, 1]
    assert {row["chip"] for row in rows} == {"loihi1"}
    for row in rows:
        values = {key: row[key] for key in AXES}
        mapped = nb.map("b.nir", nb.chip("loihi1").with_values(values), effort="fast")
        assert row["energy_per_step_j"] == mapped.costs.energy_per_step_j
    assert tuple(rows[0]) == columns_with(tuple(AXES))
    read = read_table("t.parquet")
    assert [row["core.neurons"] for row in read] == [2, 2, 8, 8]
    assert [row["core.output_axons"] for row in read] == ["64", "unlimited"] * 2
    table.save("t.csv")
    with open("t.csv", encoding="utf-8", newline="") as file:
        assert [row["core.output_axons"] for row in csv.DictReader(file)] == ["64", "unlimited"] * 2
    table.save("t.json")
    assert json.loads(Path("t.json").read_text())["rows"] == rows


def test_columns_have_the_types_of_their_values(spec: dict[str, Any]) -> None:
    axes = {"neuron.graded_spikes": [True], "energy.hop_x_j": [0, 1e-12], "synapses.weight_bits": [[4, 8], [8]]}
    table = nb.sweep({**spec, "set": axes}, "t.parquet")
    row = read_table("t.parquet")[0]
    assert (row["neuron.graded_spikes"], row["energy.hop_x_j"], row["synapses.weight_bits"]) == (True, 0.0, "[4, 8]")
    assert table.rows()[0]["synapses.weight_bits"] == "[4, 8]"
    assert [type_of_values(each) for each in ([1, 2], [1, 2.5], [True], ["a"], [1, "unlimited"])] == [
        *(int, float, bool, str, str),
    ]


def test_a_value_that_does_not_fit_is_a_row(spec: dict[str, Any]) -> None:
    table = nb.sweep({**spec, "set": {"synapses.words": [4, 8], "synapses.weight_bits": [[8], [4, 6]]}})
    errors = [row["error"] for row in table.rows()]
    assert errors[1] == "chip 'loihi1': synapses.weight_bits_default is 8, the chip stores 4, 6 bits; take one of these"
    assert len(table.failed) == errors.count(errors[1]) == 2


def test_the_table_leaves_out_what_all_points_have_in_common(spec: dict[str, Any]) -> None:
    lines = nb.sweep({**spec, "set": {"core.neurons": [1, 2, 8], "mesh.width_tiles": [1], "mesh.height_tiles": [1]}})
    shown = lines.summary().splitlines()
    assert " ".join(shown[:2]) == (
        "3 points, 1 failed; all: model b.nir, mesh.width_tiles 1, mesh.height_tiles 1, bits 8, objective cores, "
        "seed 0, effort fast"
    )
    assert [line.split()[:3] for line in shown[2:6]] == [
        *(["chip", "core.neurons", "cores"], ["loihi1", "1", "failed"], ["loihi1", "2", "3"], ["loihi1", "8", "1"]),
    ]
    assert shown[6].startswith("error: ")
    assert "cores: no mapping of the stored synapses needs fewer (proved)" in shown


def test_forty_rows_are_a_line_each_in_80_columns() -> None:
    keys = ("core.neurons", "synapses.words")
    rows = [
        {
            **dict.fromkeys(columns_with(keys)),
            **{
                "model": f"../some/folder/of/models/digits_{kind}.nir",
                "chip": "loihi1",
                "objective": "cores",
                "seed": 0,
            },
            **{"core.neurons": n, "synapses.words": w, "effort": "fast", "weight_bits": 8},
            **{"cores": n, "cores_lower_bound": n - w % 2, "cores_gap": w % 2},
            **{"energy_per_step_j": 1.234e-9, "time_per_step_s": 2.345e-6, "energy_basis": "assumed"},
        }
        for kind in ("cnn", "mlp")
        for n in range(1000, 1005)
        for w in range(16001, 16005)
    ]
    gone: dict[str, None] = {}
    lines = captured([fitted(sweep_parts(rows), Console(width=80), gone)], 80).splitlines()
    assert lines[0] == "40 points; all: chip loihi1, bits 8, objective cores, seed 0, effort fast"
    headings = ["model", "core.neurons", "synapses.words", "cores", "bound"]
    assert lines[1].split()[:5] == headings
    assert [line.split()[:5] for line in lines[2:4]] == [
        ["digits_cnn.nir", "1,000", "16,001", "1,000", "999"],
        ["digits_cnn.nir", "1,000", "16,002", "1,000", "1,000"],
    ]
    assert lines[2 + ROWS_SHOWN].startswith("… and 10 more points")
    assert "bound: no mapping needs fewer cores; where cores are more, fewer may do (not" in lines
    narrow = captured([fitted(sweep_parts(rows), Console(width=62), gone)], 62).splitlines()
    assert list(gone) == ["time/step", "energy/step"]
    assert narrow[2].split() == headings
    other = [{**row, "model": f"{row['core.neurons']}/m.nir"} for row in rows]
    assert sweep_text(other).splitlines()[2].split()[0] == "1000/m.nir"


def test_a_cut_sweep_goes_on_and_new_values_alone_are_computed(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = nb.sweep({**spec, "set": AXES}, "t.csv")
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(
        runs, "compute_point", lambda p, real=runs.compute_point: made.append(dict(p.values)) or real(p)
    )
    more = nb.sweep({**spec, "set": {**AXES, "core.neurons": [2, 8, 3]}}, "t.csv")
    assert more.table[:4] == first.table
    assert made == [{"core.neurons": 3, "core.output_axons": n} for n in (64, "unlimited")]
    part = Path("t.csv.parts", f"{first.table[0]['key']}.json")
    part.write_text(json.dumps({**first.table[0], "core.neurons": 2.0}))
    nb.sweep({**spec, "set": AXES}, "t.csv")
    assert len(made) == 3  # a row of other values is none


def test_chips_of_the_sweep_itself(spec: dict[str, Any]) -> None:
    Path("small.toml").write_text('extends = "loihi1"\nname = "small"\ncore.neurons = 3\n')
    Path("s.toml").write_text(
        'models = ["b.nir"]\nchips = ["loihi1"]\neffort = "fast"\n[set]\ncore.input_axons = [3, 4096]\n'
        '[[chip]]\nextends = "loihi1"\nname = "tiny"\ncore.neurons = 2\n'
        '[[chip]]\nextends = "small.toml"\nname = "fewer"\n[chip.core]\ninput_axons = 64\n'
    )
    rows = nb.sweep("s.toml").rows()
    assert [(row["chip"], row["core.input_axons"], row["cores"]) for row in rows] == [
        *(
            ("loihi1", 3, 1),
            ("loihi1", 4096, 1),
            ("tiny", 3, 3),
            ("tiny", 4096, 3),
            ("fewer", 3, 2),
            ("fewer", 4096, 2),
        ),
    ]
    assert nb.sweep("s.toml", jobs=2).unmeasured() == nb.sweep("s.toml").unmeasured()
    assert nb.sweep("s.toml", values={"core.neurons": 1}).rows()[0]["cores"] == 5


def test_chips_as_values_in_python(spec: dict[str, Any]) -> None:
    chips = [nb.chip("loihi1"), nb.chip("loihi1").with_values({"core.neurons": 2})]
    rows = nb.sweep({**spec, "chips": chips}, "t.csv").rows()
    assert [(row["chip"], row["cores"]) for row in rows] == [("loihi1", 1), ("loihi1 with core.neurons=2", 3)]
    with pytest.raises(UsageError, match="key 'chips': a table is there twice|is there twice"):
        nb.sweep({**spec, "chips": [chips[0], chips[0]]})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"set": [3]}, "sweep, key 'set': found a list, expected a table of lists; as in [set]"),
        ({"set": {"core.neurons": 3}}, "sweep, key 'set.core.neurons': found 3, expected a list"),
        ({"set": {"core.neurons": []}}, "sweep, key 'set.core.neurons': an empty list, at least one value"),
        ({"set": {"core.neurons": [3, 3]}}, "sweep, key 'set.core.neurons': 3 is there twice"),
        ({"set": {"synapses.weight_bits": [[8], [8]]}}, "sweep, key 'set.synapses.weight_bits': a list is there twice"),
        ({"set": {"core.neuron": [3]}}, "sweep, chip key 'core.neuron': unknown, keys are those of a chip file"),
        ({"set": {"core": {"neuron": [3]}}}, "did you mean 'core.neurons'?"),
        ({"set": {"core.neurons": ["x"]}}, "sweep, core.neurons: found 'x', expected a whole number from 1 to 10^12"),
        ({"set": {"core.neurons": [[3]]}}, "sweep, core.neurons: found [3], expected a whole number"),
        ({"chip": {}}, "sweep, key 'chip': found a table, expected tables; as in [[chip]]"),
        ({"chip": []}, "sweep, key 'chip': found a list, expected tables"),
        ({"chip": [3]}, "sweep, chip 1: not a table, a chip is a table of keys"),
        ({"chip": [{"extends": "loihi1"}]}, "sweep, chip 1: name: missing"),
        ({"chip": [{"extends": "../a.toml", "name": "a"}]}, "sweep, chip 1: extends: found '../a.toml', expected"),
        ({"chip": [{"extends": "loihi1", "name": "a", "core": {"neurons": 0}}]}, "chip 1: core.neurons: found 0"),
        ({"chip": [{"extends": "loihi1", "name": "loihi1"}]}, "sweep, chip 'loihi1': is there twice, each name once"),
        ({"core": {"neurons": 3}}, "sweep, key 'core': unknown; of a [[chip]] it is [chip.core]"),
    ],
)
def test_every_wrong_axis_is_named(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_spec({"models": ["a.nir"], "chips": ["loihi1"], **changes})
    assert len(caught.value.problems) == 1
    assert problem in str(caught.value)


def test_arrays_of_numpy_and_labels_of_points(spec: dict[str, Any]) -> None:
    points = make_plan(load_spec({**spec, "set": {"core.neurons": np.array([4, 8])}})).points
    assert [point.label for point in points] == [
        f"'b.nir' on 'loihi1', core.neurons={n}, cores, seed 0" for n in (4, 8)
    ]


def test_a_table_with_columns_that_no_chip_has_is_refused(spec: dict[str, Any]) -> None:
    from pyarrow import parquet

    nb.sweep({**spec, "set": AXES}, "t.parquet")
    table = parquet.read_table("t.parquet")
    names = ["core.neuron" if name == "core.neurons" else name for name in table.column_names]
    parquet.write_table(table.rename_columns(names).replace_schema_metadata(table.schema.metadata), "w.parquet")
    with pytest.raises(FileError, match="is not the table of a sweep"):
        read_table("w.parquet")


# -- heat maps -----------------------------------------------------------------------------------------------------


def rows_of(cores: dict[tuple[int, str], int | None], **more: Any) -> list[dict[str, Any]]:
    """A row per cell: neurons, chip and the number of cores."""
    return [
        {
            **dict.fromkeys(columns_with(["core.neurons"])),
            "model": "m",
            "core.neurons": n,
            "chip": chip,
            "cores": k,
            **more,
        }
        for (n, chip), k in cores.items()
    ]


def heat_map(rows: list[dict[str, Any]], *chosen: str, **options: Any) -> Any:
    return heatmap.plot_heatmap(rows, varying(rows), *chosen, **options)


def texts_of(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_heat_map_has_the_number_of_each_cell() -> None:
    pytest.importorskip("matplotlib")
    axes = heat_map(rows_of({(256, "a"): 1200, (512, "a"): 3, (256, "b"): 8, (512, "b"): None}))
    assert texts_of(axes) == ["1,200", "3", "8", "cores", "m"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["256", "512"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("core.neurons", "chip")
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        *("least", "1 cell without a map or figure: column 'error'"),
    ]
    assert sum(patch.get_hatch() is not None for patch in axes.patches) == 1


def test_a_cell_of_several_points_has_the_best() -> None:
    pytest.importorskip("matplotlib")
    one = rows_of({(1, "a"): 5, (2, "a"): 7, (1, "b"): 6, (2, "b"): 9}, **{"synapses.words": 1}, accuracy=0.5)
    other = rows_of({(1, "a"): 4, (2, "a"): 8, (1, "b"): 6, (2, "b"): 9}, **{"synapses.words": 2}, accuracy=0.75)
    axes = heat_map(one + other, "chip", "core.neurons")
    assert texts_of(axes) == ["4", "7", "6", "9", "cores, least of 2 points each", "m"]
    assert axes.get_xlabel() == "chip"
    best = heat_map(one + other, "core.neurons", "chip", value="accuracy")
    assert texts_of(best) == ["75", "75", "75", "75", "accuracy (%), most of 2 points each", "m"]


def test_numbers_are_legible_on_their_cells() -> None:
    pytest.importorskip("matplotlib")
    for share in np.linspace(0, 1, 50):
        colour = heatmap.ramp_colour(0.04 + 0.8 * float(share))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        ink = heatmap._ink(colour)
        contrast = 1.05 / (light + 0.05) if ink == "white" else (light + 0.05) / 0.05
        assert contrast > 4.5, share


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        ({(1, "a"): 5, (2, "a"): 7}, {}, "heat map: 1 column with several values (core.neurons), it needs two"),
        ({(1, "a"): 5, (2, "b"): 7}, {"x": "seed"}, "heat map: 'seed' does not vary, these do: core.neurons, chip"),
        ({(1, "a"): 5, (2, "b"): 7}, {"x": "core.neuron"}, "did you mean 'core.neurons'?"),
        ({(1, "a"): 5, (2, "b"): 7}, {"x": "chip", "y": "chip"}, "it needs two"),
        (
            {(1, "a"): 5, (2, "b"): 7},
            {"x": "synapses.words"},
            "list the values of the key under 'set', as in set={'syn",
        ),
        ({(1, "a"): None, (2, "b"): None}, {}, "picture: no point has cores"),
        ({(1, "a"): 5, (2, "b"): 7}, {"value": "energy"}, "picture: no point has energy"),
        ({(n, "ab"[n % 2]): 5 for n in range(heatmap.SIDE_MAX + 1)}, {}, "'core.neurons' has more than 40 values"),
    ],
)
def test_heat_maps_that_cannot_be(cells: Any, options: dict[str, Any], message: str) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(UsageError) as caught:
        heat_map(rows_of(cells), **options)
    assert message in str(caught.value)


def test_a_panel_for_each_model_and_seed() -> None:
    pytest.importorskip("matplotlib")
    cells = {(1, "a"): 5, (2, "a"): 7, (1, "b"): 6, (2, "b"): 9}
    rows = [
        row
        for model, more in (("x/small.nir", 0), ("x/large.nir", 100))
        for seed in (3, 4)
        for row in rows_of({place: n + more for place, n in cells.items()}, model=model, seed=seed)
    ]
    axes = heat_map(rows)
    panels = axes.figure.axes
    assert panels[0] is axes
    assert [texts_of(panel)[-1] for panel in panels] == [
        f"{model}, seed {seed}" for model in ("small.nir", "large.nir") for seed in (3, 4)
    ]
    assert [texts_of(panel)[0] for panel in panels] == ["5", "5", "105", "105"]
    shades = [panel.patches[0].get_facecolor() for panel in panels]
    assert shades[0] == shades[1] != shades[2]  # one scale
    assert heat_map(rows, "model", "chip").get_xlabel() == "model"
    with pytest.raises(UsageError, match="heat map: 4 panels, 'ax' holds one"):
        heat_map(rows, ax=axes)
    many = [row for seed in range(9) for row in rows_of(cells, seed=seed)]
    with pytest.raises(UsageError, match="heat map: 9 panels, one for each seed, at most 8 are drawn"):
        heat_map(many)


def test_an_odd_panel_without_a_number() -> None:
    pytest.importorskip("matplotlib")
    cells = {(1, "a"): 5, (2, "b"): 7}
    rows = [r for m in "mno" for r in rows_of({p: None if m == "o" else n for p, n in cells.items()}, model=m)]
    panels = heat_map(rows).figure.axes
    assert [texts_of(panel) for panel in panels] == [["5", "7", "cores", "m"], ["5", "7", "cores", "n"], ["cores", "o"]]


def test_cores_that_are_not_proved_are_marked() -> None:
    pytest.importorskip("matplotlib")
    rows = rows_of({(1, "a"): 5, (2, "a"): 7, (1, "b"): 6, (2, "b"): 9}, energy_per_step_j=1.0)
    for row, gap in zip(rows, (0, 2, 0, 1), strict=True):
        row["cores_gap"] = gap
    axes = heat_map(rows)
    assert texts_of(axes)[:4] == ["5", "≤7", "6", "≤9"]
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["least", "≤: not proved, fewer may do"]
    assert texts_of(heat_map(rows, value="energy"))[:4] == ["1"] * 4


def test_a_heat_map_is_refused_before_the_first_point(
    spec: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    Path("s.toml").write_text('models = ["b.nir"]\nchips = ["loihi1"]\neffort = "fast"\n[set]\ncore.neurons = [2, 8]\n')
    monkeypatch.setattr(runs, "compute_point", lambda p: pytest.fail("a point was computed"))
    for more in ([], ["--dry-run"]):
        assert run(["sweep", "s.toml", "--plot", "p.svg", "--picture", "cores", *more]) == 2
        assert "heat map: 1 column with several values (core.neurons), it needs two" in capsys.readouterr().err
    assert run(["sweep", "s.toml", "--plot", "p.svg", "--dry-run"]) == 0
    assert not Path("p.svg").exists()


def test_the_table_is_shown_before_a_picture_that_fails(
    spec: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    Path("s.toml").write_text(
        'models = ["b.nir"]\nchips = ["loihi1", "loihi2"]\neffort = "fast"\n[set]\ncore.neurons = [2, 8]\n'
    )
    assert run(["sweep", "s.toml", "-o", "t.csv", "--plot", "p.svg", "--picture", "accuracy"]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("4 points")
    assert "saved 't.csv'" in shown.out
    assert "picture: no point has accuracy" in shown.err


def test_a_large_map_has_its_ends_in_the_legend() -> None:
    pytest.importorskip("matplotlib")
    axes = heat_map(rows_of({(n, chip): 1000 * n + 1000 for n in range(40) for chip in "ab"}))
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["least", "1,000", "40,000"]
    assert texts_of(axes) == ["cores", "m"]


def test_the_command_draws_and_sets(spec: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    Path("s.toml").write_text(
        'models = ["b.nir"]\nchips = ["loihi1", "loihi2"]\neffort = "fast"\n[set]\n"core.neurons" = [2, 8]\n'
    )
    assert run(["sweep", "s.toml", "-o", "t.csv", "--plot", "p.svg", "--picture", "hops"]) == 0
    assert Path("p.svg").read_bytes().startswith(b"<?xml")
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split() == ["chip", "core.neurons", "cores", "energy/step", "time/step"]
    assert run(["sweep", "s.toml", "--set", "core.neurons=3", "--json"]) == 0
    assert [row["core.neurons"] for row in json.loads(capsys.readouterr().out)["rows"]] == [3, 3]
    assert run(["sweep", "s.toml", "--set", "core.neuron=3"]) == 2
    assert "did you mean 'core.neurons'?" in capsys.readouterr().err
    assert run(["sweep", "s.toml", "--picture", "cores"]) == 2
    assert "--picture" in capsys.readouterr().err


def test_every_sweep_has_the_columns_of_before() -> None:
    assert columns_with(()) == COLUMNS
    assert set(KEYS).isdisjoint(COLUMNS)
