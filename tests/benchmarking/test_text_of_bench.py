"""A benchmark as text, line, rows, document, file and picture, from rows made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import nirbridge as nb
from nirbridge import pipeline
from nirbridge.benchmarking.model import Bench, BenchRow, Choice
from nirbridge.cli.main import run
from nirbridge.errors import UsageError

MODEL = str(Path(__file__).resolve().parents[2] / "examples" / "models" / "digits_mlp.nir")


def times(*values: float) -> Any:
    return MappingProxyType(dict(zip((1, 32), values, strict=False)))


def row(name: str, *values: float, numbers: Any = "float32", **more: Any) -> BenchRow:
    return BenchRow(name, "program", numbers, "equal", us_per_step=times(*values), spikes=40, **more)


def benchmark(*rows: BenchRow, **more: Any) -> Bench:
    made = rows or (
        row("reference", 12.3456, 99.96, measured="call", build_s=0.05, peak_memory_bytes=70_000_000),
        row(
            "tool",
            3.5,
            12_345.6,
            measured="own time",
            compile_s=1.5,
            start_s=0.2,
            artifact_bytes=1234,
            one_sample_at_a_time=True,
        ),
        row(
            "lava",
            54_321.0,
            numbers="integers",
            measured="whole run",
            reason="values of 'o' within 1e-07 of the largest",
        ),
        BenchRow("wrong", "program", "float32", "differs", "'a': spikes first differ at time step 3"),
        BenchRow("jax", "simulator", "float32", "absent", "is not installed", "pip install jax"),
        BenchRow("c", "program", "integers", "refused", "computes in the integers of a chip", "name a chip"),
        BenchRow("fixed", "simulator", "integers", "refused", "computes in the integers of a chip", "name a chip"),
    )
    return Bench("<b>\n'm'", "random spikes", 100, (1, 32), made, "loihi2", **{"latency": 2, **more})


LINE = "Bench: 3 back ends with equal spikes, 1 back end with other spikes, 2 back ends refused it, 1 back end absent"
TEXT = """\
<b>\\n'm': 100 time steps, integers of loihi2, random spikes

back end   numbers   spikes  batch 1  batch 32  measured   build  compile   start     size  memory
reference  float32       40     12.3       100  call       50 ms                             70 MB
tool       float32       40      3.5    12,346  own time            1.5 s  200 ms  1.23 kB
lava       integers      40   54,321            whole run
us per time step of the whole batch; spikes equal to those of the reference

other spikes, not timed
- wrong: 'a': spikes first differ at time step 3

refused
- c, fixed: computes in the integers of a chip; name a chip

absent
- jax: is not installed; pip install jax

notes
- lava: values of 'o' within 1e-07 of the largest
- tool: a program takes one sample at a time; a batch is as many runs
- whole run: the program states no time of its own; the start of a process is in the figure
- a run of integers has 2 more time steps, its latency on the chip
"""


def test_the_text_says_what_ran_and_why_the_rest_did_not() -> None:
    assert benchmark().summary() == f"{LINE}; fastest at batch 1: tool, 3.5 us\n\n{TEXT}"


def test_silence_is_said() -> None:
    silent = benchmark(BenchRow("numpy", "simulator", "float32", "equal", spikes=0, us_per_step=times(1.0)), latency=0)
    assert "no population fires on this input, so equality says little: give a higher rate, or data" in silent.summary()
    assert "no population fires" not in benchmark().summary()


def test_the_file_has_everything(tmp_path: Path) -> None:
    bench = benchmark()
    bench.save(tmp_path / "b.json")
    document = json.loads((tmp_path / "b.json").read_text())
    assert document == json.loads(json.dumps(bench.document()))
    assert document["holds"] is False
    assert document["rows"][1]["us_per_step"] == {"1": 3.5, "32": 12345.6}
    with pytest.raises(UsageError, match=r"^file 'b.csv': ends in '.csv', a benchmark is written as .json; "):
        bench.save(tmp_path / "b.csv")


def test_a_table_has_a_column_per_batch() -> None:
    pytest.importorskip("pandas")
    frame = benchmark().to_frame()
    assert list(frame["us_per_step_1"][:3]) == [12.3456, 3.5, 54_321.0]
    assert frame["us_per_step_32"].isna().tolist() == [False, False, True, True, True, True, True]


def test_the_fastest_come_first() -> None:
    assert [each.backend for each in benchmark().timed(1)] == ["tool", "reference", "lava"]
    assert [each.backend for each in benchmark().timed(32)] == ["reference", "tool"]
    assert not benchmark().holds
    assert benchmark(row("a", 1.0)).holds


def test_the_picture_has_the_timed_back_ends(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, the extra 'plot', is not installed")
    axes = nb.plot_bench(benchmark())
    assert [text.get_text() for text in axes.get_yticklabels()] == ["tool", "reference", "lava (integers, whole run)"]
    assert sorted(patch.get_width() for patch in axes.patches) == [3.5, 12.3456, 99.96, 12_345.6, 54_321.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["batch 1", "batch 32"]
    assert axes.get_xscale() == "log"
    with pytest.raises(UsageError, match="no back end was timed"):
        nb.plot_bench(benchmark(BenchRow("a", "program", "float32", "absent")))


def test_the_command_writes_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, the extra 'plot', is not installed")
    asked: list[Any] = []

    def fake(network: Any, inputs: Any, chip: Any, options: Any) -> Bench:
        asked.append((chip, options))
        return benchmark(row("numpy", 1.0, 2.0))

    monkeypatch.setattr(pipeline, "bench_network", fake)
    words = ["bench", MODEL, "--backend", "numpy", "--batch", "2", "--batch", "7", "--limit", "9", "--repeats", "2"]
    out, plot = tmp_path / "b.json", tmp_path / "b.svg"
    assert run([*words, "--steps", "5", "--seed", "3", "-o", str(out), "--plot", str(plot)]) == 0
    assert capsys.readouterr().out.endswith(f"saved '{out}'\n")
    assert json.loads(out.read_text())["rows"][0]["backend"] == "numpy"
    assert plot.read_bytes().startswith(b"<?xml")
    chip, options = asked[0]
    assert chip is None
    assert (options.backends, options.batches, options.steps, options.seed) == (("numpy",), (2, 7), 5, 3)
    assert (options.limit_s, options.repeats, options.rate, options.model) == (9, 2, None, "digits_mlp.nir")
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True


def test_a_name_of_another_ending_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline, "load_network", lambda *_, **__: pytest.fail("worked all the same"))
    assert run(["bench", MODEL, "-o", "b.csv"]) == 2
    assert run(["bench", MODEL, "--plot", "b.gif"]) == 2
    assert capsys.readouterr().err.count("error: ") == 2


def choice(numbers: Any, us_per_step: dict[str, float], us_per_run: dict[str, float], **more: Any) -> Choice:
    return Choice(numbers, 32, us_per_step, us_per_run, **more)


CHOICES = (
    choice(
        "float32", {"tool": 2.0, "event": 5.0, "fast": 6.0}, {"event": 0.0, "fast": 0.0}, left_out={"jax": "absent"}
    ),
    choice("integers", {"c": 0.25, "fixed": 10.0}, {"c": 5e4, "fixed": 0.0}, is_kept=True),
)
CHOSEN = """
best
- float32: tool, 2 us per time step at batch 32, 2.5 times as fast as event (5 us)
- float32: nb.open takes event, 500 us per run of 100 time steps at batch 32, 1.2 times as fast as fast (600 us)
- integers: c, 250 ns per time step at batch 32, 40 times as fast as fixed (10 us)
- integers: nb.open takes fixed, 1 ms per run of 100 time steps at batch 32, 50 times as fast as c (50 ms)
- float32, left out: jax (absent)
- nb.open(model, backend="best") counts the start of a program, and takes back ends with the reference's bits only
- kept for it on this machine
"""


def test_a_choice_says_what_is_fastest_and_what_is_opened() -> None:
    bench = benchmark(row("tool", 1.0), choices=CHOICES)
    assert CHOSEN in bench.summary()
    assert [(each["backend"], each["opened"], each["is_kept"]) for each in bench.document()["choices"]] == [
        ("tool", "event", False),
        ("c", "fixed", True),
    ]
    assert "choices" not in benchmark().document()
    assert CHOICES[1].runs(100_000) == {"c": 75_000.0, "fixed": 1_000_000.0}  # a long run is worth the start


def test_one_back_end_alone_and_one_that_takes_no_time() -> None:
    alone = benchmark(row("a", 1.0), choices=(choice("float32", {"fast": 2.0}, {"fast": 0.0}),)).summary()
    assert "- float32: fast, 2 us per time step at batch 32, no other with equal spikes\n" in alone
    nothing = choice("integers", {"c": 0.0, "fixed": 1.0}, {"c": 0.0, "fixed": 0.0})
    assert "c, 0 s per time step at batch 32, 1e+03 times as fast as fixed" in benchmark(choices=(nothing,)).summary()


def test_the_command_fails_where_nothing_can_be_chosen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (row("reference", 1.0, 2.0), BenchRow("fixed", "simulator", "integers", "refused", "no such neuron"))
    none = choice("integers", {}, {}, left_out={"fixed": "refused"})
    monkeypatch.setattr(pipeline, "bench_network", lambda *_: benchmark(*rows, choices=(CHOICES[0], none)))
    assert run(["bench", MODEL, "--chip", "loihi2", "--best"]) == 1
    captured = capsys.readouterr()
    assert "- integers: none with equal spikes at batch 32\n" in captured.out
    assert captured.err == (
        "error: model 'digits_mlp.nir': no back end with equal spikes in integers at batch 32, so none is chosen\n"
    )
