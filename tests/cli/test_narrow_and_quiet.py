"""Text in 50 columns and in the C locale: no number is cut, no character lost; ``--quiet`` and ``--summary``.

Narrow tables do without their least columns, which are named below the result and shown with ``--verbose``.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from nirbridge import map as map_network
from nirbridge import pipeline
from nirbridge.cli.common import Command
from nirbridge.cli.main import COMMANDS, run
from nirbridge.cli.output import encodable, is_ascii_locale, print_warning, progress_on_stderr
from nirbridge.network import to_nir
from nirbridge.report.tables import Names, fitted, table

ROOT = Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "examples/models/digits_cnn.nir")
NUMBER = re.compile(r"(?<![\w.,])~?[+-]?\d[\d,.]*(?:e[+-]?\d+)?%?(?![\w])")
TEXTS = {
    "map": ["map", MODEL, "--chip", "loihi1", "--effort", "fast"],
    "check": ["check", MODEL, "--chip", "loihi1"],
    "simulate": ["simulate", MODEL, "--input", "in.npy", "-o", "o.npz", "--record", "*:s,v"],
    "quantize": ["quantize", MODEL, "--chip", "loihi1", "-o", "m.q.npz"],
    "verify": ["verify", MODEL, "--chip", "loihi1", "--input", "in.npy"],
    "profile": ["profile", MODEL, "--chip", "loihi1", "--input", "in.npy"],
    "inspect": ["inspect", MODEL, "--portability"],
    "compare": ["compare", "a.npz", "b.npz"],
    "diff": ["diff", "a.npz", "b.npz"],
    "show-map": ["show", "m.map.json"],
    "show-quantized": ["show", "w.q.npz"],
    "chips": ["chips"],
    "chip": ["chips", "loihi1"],
    "doctor": ["doctor"],
}
LEAST = ("map", "quantize", "verify", "profile", "compare", "show-map", "show-quantized", "chips", "chip")
EVERY = {name: ["--verbose"] for name in LEAST}
"""Commands that leave something out without this option."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("narrow")
    network = pipeline.load_network(MODEL)
    inputs = (np.random.default_rng(0).random((20, 2, *network.inputs[0].shape)) < 0.3).astype(np.uint8)
    np.save(folder / "in.npy", inputs)
    for name, values in (("a", inputs), ("b", inputs * (inputs.cumsum(0) % 3 > 0))):
        pipeline.write_recording(pipeline.simulate_network(network, values), folder / f"{name}.npz")
    chip = pipeline.load_chip("loihi1")
    mapped = pipeline.map_network(network, chip, pipeline.MapOptions(effort="fast"))
    pipeline.save_map(mapped, folder / "m.map.json", MODEL)
    plan = pipeline.quantize_plan(network, {}, None, {"method": "range", "percentile": 99.9})
    pipeline.write_quantized(pipeline.quantize_network(network, chip, *plan), folder / "w.q.npz")
    return folder


@pytest.mark.parametrize("name", TEXTS)
def test_no_number_is_cut_in_fifty_columns(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    texts = []
    for columns, options in (("500", EVERY.get(name, [])), ("50", EVERY.get(name, [])), ("50", [])):
        monkeypatch.setenv("COLUMNS", columns)
        assert run([*TEXTS[name], *options]) in (0, 1)
        texts.append(capsys.readouterr().out)
    wide, narrow, less = ({number.strip(".,") for number in NUMBER.findall(text)} for text in texts)
    assert len(wide) > 1
    mesh = {"32", "8", "4"} if name == "map" else set()  # how many tiles are shown depends on the width
    assert wide - narrow <= mesh
    assert less <= wide or name in ("map", "show-map")  # whose lines are not those of the whole report
    assert "…" not in "".join(texts[1:])
    if name not in ("simulate", "diff", "check"):  # these print sentences, which a terminal wraps
        assert max(map(len, "".join(texts[1:]).splitlines())) <= 50


@pytest.mark.parametrize("name", ["map", "quantize", "compare", "chip"])
def test_the_c_locale_gets_ascii(name: str, here: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k not in ("LANG", "LC_ALL")}
    environment |= {"LC_ALL": "C", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "nirbridge", *TEXTS[name], *EVERY.get(name, [])]
    done = subprocess.run(command, capture_output=True, cwd=here, env=environment, check=True)
    assert done.stdout.isascii()
    assert done.stderr.isascii()
    assert b"\\u" not in done.stdout
    if name == "map":
        legend = b". free - up to 25 % + up to 50 % * up to 75 % # up to 100 % of its fullest resource"
        assert legend in b" ".join(done.stdout.split())


@pytest.mark.parametrize("name", [name for name, _, _ in COMMANDS])
def test_help_is_ascii(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert capsys.readouterr().out.isascii()


@pytest.mark.parametrize(
    ("environment", "ascii_only"),
    [
        ({}, False),
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, True),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ({"LANG": "C"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # as Python itself sets it
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, False),
        ({"LANG": "de_DE.UTF-8", "LC_CTYPE": "C"}, True),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_ALL": "C", "PYTHONUTF8": "1"}, False),
        ({"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}, False),
    ],
)
def test_which_locales_are_ascii(environment: dict[str, str], ascii_only: bool) -> None:
    assert is_ascii_locale(environment) == ascii_only


def test_characters_that_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert encodable("░█ 2 × 3 … 'ä'", "utf-8") == "-# 2 x 3 ... '\\xe4'"
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert encodable("░█ 2 × 3 … 'ä'", "utf-8") == "░█ 2 × 3 … 'ä'"
    assert encodable("░ ä €", "latin-1") == "- ä \\u20ac"


def test_rows_are_lines_and_the_columns_left_out_are_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    monkeypatch.setenv("COLUMNS", "80")
    shown = []
    for options in ([], ["--quiet"]):
        assert run([*TEXTS["quantize"], *options]) == 0
        shown.append(capsys.readouterr().out.splitlines())
    assert [line.split()[0] for line in shown[0][:4]] == ["into", "leaky_1", "leaky_4", "leaky_8"]
    named = shown[0][-1].removeprefix("more columns with --verbose: ").split(", ")
    assert named[:2] == ["process", "signs"]
    assert not set(named) & set(shown[0][0].split())
    assert not any(line.startswith("more columns") for line in shown[1])


def columns_shown(width: int, drop: tuple[str, ...]) -> tuple[list[str], dict[str, None]]:
    gone: dict[str, None] = {}
    rows = [(Names(("fc1", "a_long_name_of_a_population", "fc3")), "1,234", "", "5,678"), (Names(("x",)), "1", "", "2")]
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(fitted(table(("name", "first", "empty", "second"), "lR", rows, drop=drop), console, gone))
    return [line.rstrip() for line in captured.get().splitlines()], gone


@pytest.mark.parametrize(
    ("width", "lines", "gone"),
    [
        (60, ["name", "fc1, a_long_name_of_a_population, fc3", "x"], []),
        (32, ["name", "fc1 +2", "x"], []),
        (25, ["name", "fc1 +2", "x"], ["second"]),
        (16, ["name", "fc1 +2", "x"], ["second", "first"]),
    ],
)
def test_columns_go_in_their_order_and_empty_ones_first(width: int, lines: list[str], gone: list[str]) -> None:
    shown, left_out = columns_shown(width, ("second", "empty", "first"))
    assert [line.split("  ")[0] for line in shown] == lines
    assert list(left_out) == gone
    assert ("1,234" in shown[1], "5,678" in shown[1]) == ("first" not in gone, "second" not in gone)


def test_of_one_long_name_the_beginning_is_shown() -> None:
    assert Names(("a_long_name",)).within(8) == "a_long_…"
    assert Names(("a_long_name", "b", "c")).within(8) == "a_lo… +2"
    assert Names(()).within(8) == ""


def drawn(width: int, *rows: tuple[str, ...]) -> list[str]:
    table = Table(box=None, pad_edge=False, title="sizes", title_justify="left")
    table.add_column("name")
    table.add_column("text")
    table.add_column("number", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(fitted(table, console))
    return [line.rstrip() for line in captured.get().splitlines()]


ROW = ("fc1", "some words that may wrap at any space", "1,234,567")


def test_a_table_has_columns_for_its_words_or_lines_for_its_cells() -> None:
    assert drawn(60, ROW)[1:] == [
        "name  text                                      number",
        "fc1   some words that may wrap at any space  1,234,567",
    ]
    assert drawn(40, ROW)[1:] == [
        "name  text                        number",
        "fc1   some words that may      1,234,567",
        "      wrap at any space",
    ]
    assert drawn(30, ROW, ("fc2", "", "8")) == [
        *("sizes", "fc1", "  text: some words that may", "  wrap at any space", "  number: 1,234,567"),
        *("fc2", "  number: 8"),
    ]


def test_quiet_keeps_results_and_errors(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    shown = []
    for options in ([], ["--quiet"]):
        assert run([word.replace("loihi1", "loihi2") for word in TEXTS["map"]] + options) == 0
        shown.append(capsys.readouterr().out)
    loud, quiet = (text.splitlines() for text in shown)
    left_out = [line for line in loud if line not in quiet]
    assert any(line.startswith("notes ") for line in left_out)
    assert [line for line in loud if line and line in quiet] == [line for line in quiet if line]
    assert run(["map", "none.nir", "--chip", "loihi1", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("error: 'none.nir': ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("quantize", "quantize.quantize_text"),
        ("verify", "compare.verify_text"),
        ("inspect", "inspect.inspect_text"),
        ("compare", "compare.compare_text"),
        ("show-map", "map_text.saved_map_text"),
        ("show-quantized", "quantize.quantize_text"),
    ],
)
def test_quiet_leaves_notes_out(
    name: str, text: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    monkeypatch.setattr(f"nirbridge.report.{text}", lambda value, *, notes, **_: [f"notes: {notes}"])
    for options, notes in (([], True), (["--quiet"], False)):
        assert run([*TEXTS[name], *options]) in (0, 1)
        assert capsys.readouterr().out == f"notes: {notes}\n"


def test_texts_share_the_width_of_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["chips", "loihi2", "--verbose"]) == 0
    heading = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("key"))
    meaning, source = heading.index("meaning"), heading.index("source")
    assert abs((source - meaning - 2) - (80 - source)) <= 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("is_terminal", [True, False])
def test_messages_go_on_at_a_word_on_a_terminal_alone(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("COLUMNS", "50")
    text = "a sentence with a path /of/one/long/word-that-is-kept/and-is-longer-than-a-line/of-the-terminal and its end"
    print_warning(text)
    lines = stderr.getvalue().splitlines()
    assert [" ".join(line.split()) for line in lines] == (
        [
            "warning: a sentence with a path",
            "/of/one/long/word-that-is-kept/and-is-longer-than-a-line/of-the-terminal",
            "and its end",
        ]
        if is_terminal
        else [f"warning: {text}"]
    )
    assert all(line.startswith("  ") for line in lines[1:])


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_warns_of_nothing(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        print_warning("beware")
        with progress_on_stderr() as progress:
            progress("working", None)

    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("nirbridge.cli.memory.check_address_space", lambda: None)
    command = Command("work", callback=work)
    with click.Context(command) as context:
        command.parse_args(context, ["--quiet"] if quiet else [])
        command.invoke(context)
    said = stderr.getvalue()
    assert ("warning: beware" in said, "working" in said) == (not quiet, not quiet)
    assert not quiet or said == ""


def test_a_summary_is_one_line(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(here)
    assert run([*TEXTS["map"], "--summary", "-o", "again.map.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    record = json.loads(Path("again.map.json").read_text())
    totals, proof = record["totals"], record["proof"]
    assert len(lines) == 1
    cores = f"{totals['cores_used']} of 128 cores of 1 x loihi1"
    assert lines[0].startswith(
        f"'digits_cnn.nir': {cores} ({proof['status']}, at least {proof['cores_lower_bound']}), "
    )
    assert lines[0].endswith(f", {totals['time_per_step_s'] * 1e6:.3g} us per time step")
    assert f"{sum(p['neurons'] for p in record['populations']):,} neurons in " in lines[0]


@pytest.mark.parametrize(("chip", "mark"), [("loihi1", ""), ("loihi2", "~")])
def test_figures_that_are_not_public_are_marked_in_every_text(
    chip: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary in one line, the report, the saved map and ``summary()`` in Python: one rule."""
    monkeypatch.chdir(tmp_path)
    network = pipeline.network_of_shapes("8 dense6 lif dense2 lif")
    pipeline.save_graph(to_nir(network), "n.nir", warn=False)
    mapping = ["map", "n.nir", "--chip", chip]
    texts = {"summary()": map_network(network, chip).summary()}
    for name, words in {"line": [*mapping, "--summary", "-o", "n.map.json"], "report": [*mapping, "--verbose"]}.items():
        assert run(words) == 0
        texts[name] = capsys.readouterr().out
    assert run(["show", "n.map.json", "--verbose"]) == 0
    texts["show"] = capsys.readouterr().out
    totals = json.loads(Path("n.map.json").read_text())["totals"]
    nanoseconds = totals["time_per_step_s"] * 1e9
    duration = f"{nanoseconds:.3g} ns" if nanoseconds < 1000 else f"{nanoseconds / 1000:.3g} us"
    energy = f"{totals['energy_per_step_j'] * 1e12:.3g} pJ"
    for name, text in texts.items():
        shown = re.findall(rf"(?<=[ ])\S?{energy}", text), re.findall(rf"(?<=[ ])\S?{duration} per time step", text)
        assert shown == ([mark + energy], [f"{mark}{duration} per time step"]), name
        assert ("approximate (~)" in text, "~8,192" in text) == (
            (False, False) if name == "line" else (True, bool(mark))
        )
