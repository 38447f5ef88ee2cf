"""Sweeps: the same table in any order, in one process or several, after a cut, and after a worker was killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge import plugins
from nirbridge.cli.main import run
from nirbridge.emitters.witness import Witness
from nirbridge.errors import FileError, UsageError
from nirbridge.sweeps import plan, tasks
from nirbridge.sweeps import run as runs
from nirbridge.sweeps.model import COLUMNS, MEASURED
from nirbridge.sweeps.plan import make_plan
from nirbridge.sweeps.run import compute_and_keep, run_sweep
from nirbridge.sweeps.spec import load_spec
from nirbridge.sweeps.table import read_table, write_table
from nirbridge.sweeps.tasks import run_tasks
from tests.sweeps.small import write_files, write_model


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path)


def small_chip(folder: Path) -> str:
    """A chip with one core of 4 neurons."""
    record = json.loads(json.dumps(dict(nb.chip("loihi1").record)))
    record["name"] = "small"
    record["core"]["neurons"] = 4
    record["mesh"] |= {"width_tiles": 1, "height_tiles": 1, "cores_per_tile": 1}
    (folder / "small.toml").write_text(toml_text(record))
    return "small.toml"


def toml_text(record: dict[str, Any]) -> str:
    tables = {k: v for k, v in record.items() if isinstance(v, dict)}
    lines = [f"{k} = {json.dumps(v)}" for k, v in record.items() if k not in tables]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f'"{k}" = {json.dumps(v)}' for k, v in table.items())]
    return "\n".join(lines) + "\n"


def test_rows_are_what_map_and_profile_say(spec: dict[str, Any]) -> None:
    mapped = nb.map("a.nir", "loihi1", effort="fast")
    row = nb.sweep({**spec, "chips": ["loihi1"]}).rows()[0]
    assert tuple(row) == COLUMNS
    assert row["cores"] == len(mapped.cores)
    assert row["energy_per_step_j"] == mapped.costs.energy_per_step_j
    assert row["time_per_step_s"] == mapped.costs.time_per_step_s
    assert (row["energy_basis"], row["error"], row["accuracy"]) == ("assumed", None, None)
    x, y = np.load("x.npy"), np.load("y.npy")
    measured = nb.sweep({**spec, "input": "x.npy", "labels": "y.npy", "bits": [4]}).rows()[0]
    profile = nb.profile("a.nir", "loihi1", x, y, bits=4, effort="fast", name="a.nir").rows()[0]
    same = {k: v for k, v in profile.items() if k not in ("model", "chip", "seed", "rates")}
    assert {k: measured[k] for k in same} == same
    assert measured["accuracy"] is not None
    assert measured["spikes_per_inference"] > 0
    assert measured["rates"] == "measured on x.npy: 6 samples of 12 time steps"


def test_figures_of_another_tool(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(mapped: Any, inputs: Any, progress: Any) -> Witness:
        del inputs, progress
        return Witness("other", "1.2", True, 7.5, None, 1e-6, 6, circuit={"luts": len(mapped.cores) + 2000})

    monkeypatch.setattr(plugins.get("emitters", "sanafe").__class__, "figures", lambda _, *a, **o: figures(*a, **o))
    row = nb.sweep({**spec, "chips": ["loihi1"], "input": "x.npy", "to": "sanafe"}).rows()[0]
    assert (row["witness"], row["witness_spikes_equal"]) == ("other 1.2", True)
    assert row["witness_luts"] == row["cores"] + 2000
    assert nb.sweep({**spec, "chips": ["loihi1"], "input": "x.npy"}).rows()[0]["witness"] is None


def test_the_table_in_text_marks_assumed_figures(spec: dict[str, Any]) -> None:
    assumed = nb.sweep({**spec, "chips": ["loihi1"], "seeds": [0]}).summary()
    assert assumed.splitlines()[2].count("~") == 2
    assert "~: rests on assumed spike rates" in assumed
    measured = nb.sweep({**spec, "chips": ["loihi1"], "seeds": [0], "input": "x.npy"}).summary()
    assert "~" not in measured
    assert "energy and time are those of an inference" in measured


def test_values_are_encoded_with_the_seed_of_the_point(spec: dict[str, Any]) -> None:
    spec |= {"models": ["a.nir"], "chips": ["loihi1"], "input": "values.npy"}
    rate = nb.sweep({**spec, "encoder": {"kind": "rate", "steps": 30}}).rows()
    assert rate[0]["input_spikes_per_inference"] != rate[1]["input_spikes_per_inference"]
    assert rate[0]["encoder"] == "rate, 30 time steps"
    latency = nb.sweep({**spec, "encoder": {"kind": "latency", "steps": 30}}).rows()
    assert [row["input_spikes_per_inference"] for row in latency] == [3.0, 3.0]


def test_a_point_that_does_not_fit_is_a_row(spec: dict[str, Any], tmp_path: Path) -> None:
    table = nb.sweep({**spec, "chips": [small_chip(tmp_path), "loihi1"], "seeds": [0]})
    errors = [row["error"] for row in table.rows()]
    assert [error is None for error in errors] == [True, True, False, True]
    assert "small" in errors[2]
    assert "\n" not in errors[2]
    assert repr(table) == "Sweep: 4 points, 1 failed"
    assert "4 points, 1 failed" in table.summary()
    assert "failed" in table.summary().splitlines()[4]
    assert "error: " + str(errors[2]) in " ".join(table.summary().split())  # said once, below the table
    Path("c.nir").write_bytes(Path("a.nir").read_bytes()[:700])
    (row,) = nb.sweep({"models": ["c.nir"], "chips": ["loihi1"]}).rows()
    assert row["error"] is not None
    assert row["cores"] is None


def test_a_cut_sweep_goes_on_where_it_was(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = nb.sweep(spec, "whole.parquet")
    real, computed = runs.compute_point, []

    def cut(point: Any) -> Any:
        if len(computed) == 3:
            raise KeyboardInterrupt
        computed.append(point.key)
        return real(point)

    monkeypatch.setattr(runs, "compute_point", cut)
    with pytest.raises(KeyboardInterrupt):
        nb.sweep(spec, "t.parquet")
    assert len(list(Path("t.parquet.parts").iterdir())) == 3
    assert not Path("t.parquet").exists()
    damaged = Path("t.parquet.parts") / f"{computed[0]}.json"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    seen: list[str] = []
    monkeypatch.setattr(runs, "compute_point", lambda point: seen.append(point.key) or real(point))
    stages: list[str] = []
    table = nb.sweep(spec, "t.parquet", progress=lambda stage, done: stages.append(stage))
    keys = [point.key for point in table.plan.points]
    assert sorted(seen) == sorted(key for key in keys if key not in computed[1:])
    assert table.unmeasured() == whole.unmeasured()
    assert stages[0] == "2 of 8 points"
    assert stages[1].startswith("3 of 8 points, about ")
    assert stages[-1] == "8 of 8 points"
    seen.clear()
    again = nb.sweep({**spec, "seeds": [0, 1, 2]}, "t.parquet")
    assert len(seen) == 4  # of the new seed
    assert len(again.table) == 12


def test_rows_that_are_kept_are_checked(spec: dict[str, Any]) -> None:
    wanted = nb.sweep(spec, "t.json")
    parts = sorted(Path("t.json.parts").iterdir())
    good = json.loads(parts[0].read_bytes())
    for k, wrong in enumerate(
        ([], {**good, "cores": "many"}, {**good, "key": "0"}, {**good, "cores": 1.5}, {**good, "status": 3}, {"a": 1})
    ):
        parts[k].write_text(json.dumps(wrong))
    parts[6].write_text("[" * 100_000)
    assert nb.sweep(spec, "t.json").unmeasured() == wanted.unmeasured()


def test_no_row_is_written_through_what_has_its_name(spec: dict[str, Any], tmp_path: Path) -> None:
    """Names of parts are predictable: a link, a FIFO or a folder of such a name leads nowhere and stops nothing."""
    wanted = nb.sweep(spec, "t.json")
    (tmp_path / "thesis.txt").write_text("years of work")
    link, dangling, fifo, folder = sorted(Path("t.json.parts").iterdir())[:4]
    for path in (link, dangling, fifo, folder):
        path.unlink()
    link.symlink_to(tmp_path / "thesis.txt")
    dangling.symlink_to(tmp_path / "new.txt")
    os.mkfifo(fifo)
    folder.mkdir()
    (folder / "mine").write_text("kept")
    assert nb.sweep(spec, "t.json").unmeasured() == wanted.unmeasured()
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    assert not (tmp_path / "new.txt").exists()
    assert (folder / "mine").read_text() == "kept"
    for path in (link, dangling, fifo):
        assert path.is_file()
        assert not path.is_symlink()


def test_rows_are_not_kept_where_a_link_leads(spec: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    Path("t.json.parts").symlink_to(tmp_path / "other")
    with pytest.raises(FileError, match=r"^folder 't.json.parts': is a symbolic link, rows .* own; remove it$"):
        nb.sweep(spec, "t.json")
    with pytest.raises(FileError, match="is a symbolic link"):
        compute_and_keep("t.json.parts", make_plan(load_spec(spec)).points[0])
    assert list((tmp_path / "other").iterdir()) == []


def test_other_code_has_other_keys(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    before = {point.key for point in make_plan(load_spec(spec)).points}
    real, changed = plan.template_bytes, Path(plan.__file__)
    with monkeypatch.context() as patched:
        patched.setattr(plan, "template_bytes", lambda path: real(path) + (b"#" if path == changed else b""))
        plan.code_digest.cache_clear()
        after = {point.key for point in make_plan(load_spec(spec)).points}
    plan.code_digest.cache_clear()
    assert before.isdisjoint(after)
    assert before == {point.key for point in make_plan(load_spec(spec)).points}


def test_a_file_that_changes_meanwhile_is_refused(spec: dict[str, Any], tmp_path: Path) -> None:
    chip = small_chip(tmp_path)
    plan = make_plan(load_spec({**spec, "models": ["a.nir"], "chips": [chip]}))
    text = Path(chip).read_text()
    Path(chip).write_text(text.replace('"neurons" = 4', '"neurons" = 5'))
    with pytest.raises(FileError, match=r"chip 'small.toml': has changed since the sweep began; start the sweep again"):
        run_sweep(plan)
    Path(chip).write_text(text)
    write_model(tmp_path / "a.nir", 4, 9)
    with pytest.raises(FileError, match=r"model 'a.nir': has changed since the sweep began"):
        run_sweep(plan)


def test_an_error_of_a_kept_row_is_shown_without_control_characters(spec: dict[str, Any]) -> None:
    one = {**spec, "models": ["a.nir"], "chips": ["loihi1"], "seeds": [0]}
    [row] = nb.sweep(one, "t.json").rows()
    part = Path("t.json.parts", f"{row['key']}.json")
    part.write_text(json.dumps({**row, "error": "no\x1b[31m\nroom"}))
    table = nb.sweep(one, "t.json")
    assert table.rows()[0]["error"] == "no\x1b[31m\nroom"
    assert table.summary().count("no\\x1b[31m\\nroom") == 1
    assert all(line.isprintable() for line in table.summary().split("\n"))


def test_tables_are_the_same_bytes(spec: dict[str, Any], tmp_path: Path) -> None:
    table = nb.sweep(spec)
    for ending in ("parquet", "csv", "json"):
        for name in ("1", "2"):
            table.save(f"{name}.{ending}")
        assert Path(f"1.{ending}").read_bytes() == Path(f"2.{ending}").read_bytes()
    assert read_table("1.parquet") == table.rows()
    assert list(table.to_frame().columns) == list(COLUMNS)
    from pyarrow import parquet

    schema = parquet.read_schema("1.parquet")
    marked = tuple(field.name for field in schema if (field.metadata or {}).get(b"measured") == b"true")
    assert marked == MEASURED
    with pytest.raises(
        UsageError, match=r"file 't.xlsx': ends in '.xlsx', a sweep is written as .parquet, .csv, .json"
    ):
        nb.sweep(spec, "t.xlsx")
    assert not list(tmp_path.glob("*.parts"))
    Path("bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileError, match=r"sweep 'bad.parquet': cannot be read"):
        read_table("bad.parquet")
    table.to_frame()[["key"]].to_parquet("other.parquet")
    with pytest.raises(FileError, match="is not the table of a sweep"):
        nb.plot_pareto("other.parquet")
    _check_wrong_tables("1.parquet")


def _check_wrong_tables(good: str) -> None:
    """Tables with columns of other types, and with values that no sweep writes, are refused with their place."""
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(good)
    count, ahead = table.num_rows, "sweep 'w.parquet', "
    for name, values, message in (
        ("cores", pyarrow.array(["x"] * count), "column 'cores': of type string, expected int64"),
        ("energy_per_inference_j", pyarrow.array([[1.0]] * count), ": double>, expected double"),
        (
            "energy_per_inference_j",
            pyarrow.array([float("nan")] * count),
            "row 0, column 'energy_per_inference_j': is nan",
        ),
        ("accuracy", pyarrow.array([float("inf")] * count), "row 0, column 'accuracy': is inf, beyond its type"),
        ("cores", pyarrow.array([2**60] * count), f"row 0, column 'cores': is {2**60}, beyond its type"),
        ("key", pyarrow.array([None] * count, pyarrow.string()), "row 0, column 'key': is None"),
    ):
        changed = table.set_column(table.schema.get_field_index(name), name, values)
        parquet.write_table(changed.replace_schema_metadata(table.schema.metadata), "w.parquet")
        with pytest.raises(FileError) as caught:
            nb.plot_pareto("w.parquet", "cores", "energy")
        assert str(caught.value).startswith(ahead)
        assert message in str(caught.value)
    many = pyarrow.Table.from_batches([table.to_batches()[0].slice(0, 1)] * 3)
    parquet.write_table(many.replace_schema_metadata(table.schema.metadata), "w.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nirbridge.sweeps.table.ROWS_MAX", 2)
        with pytest.raises(FileError, match="sweep 'w.parquet': 3 rows, at most 2 are read"):
            read_table("w.parquet")
    _check_packed_table(many.replace_schema_metadata(table.schema.metadata))


def _check_packed_table(table: Any) -> None:
    """A small file of many long texts is refused by the bytes of its values, before all of them are read."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.concat_tables([table] * 1000).combine_chunks()
    texts = pyarrow.array(["x" * 50_000] * table.num_rows)
    at = table.schema.get_field_index("error")
    parquet.write_table(table.set_column(at, table.schema.field(at), texts), "w.parquet", compression="zstd")
    assert Path("w.parquet").stat().st_size < 100_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nirbridge.sweeps.table.DECODED_BYTES_MAX", 1_000_000)
        with pytest.raises(FileError, match="sweep 'w.parquet': more than 1,000,000 bytes of values, too large"):
            read_table("w.parquet")
    assert len(read_table("w.parquet")) == table.num_rows


# -- processes and clusters --------------------------------------------------------------------------------------------


def die_once(marker: str, item: int) -> int:
    """The square of an item; the worker of item 3 is killed the first time."""
    if item == 3 and not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item


def die_always(item: int) -> int:
    """Item 3 kills every worker."""
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_a_killed_process_is_replaced_once(tmp_path: Path) -> None:
    from functools import partial

    items = list(range(8))
    keys = list(map(str, items))
    task = partial(die_once, str(tmp_path / "marker"))
    found = dict(run_tasks(task, items, keys=keys, jobs=2))
    assert found == {i: i * i for i in items}
    assert (tmp_path / "marker").exists()
    with pytest.raises(
        UsageError, match=r"jobs: worker processes ended twice \(killed, or out of memory\), \d of 8 done"
    ):
        list(run_tasks(die_always, items, keys=keys, jobs=2))


@pytest.mark.slow
def test_200_points_on_a_cluster_that_loses_a_worker(spec: dict[str, Any]) -> None:
    from distributed import LocalCluster

    spec |= {"seeds": list(range(50)), "input": "x.npy", "labels": "y.npy"}
    serial = nb.sweep(spec)
    folder = Path("t.parquet.parts")
    killed: list[int] = []

    def kill(cluster: LocalCluster) -> None:
        while not folder.is_dir() or len(list(folder.glob("*.json"))) < 60:
            time.sleep(0.01)
        pid = next(iter(cluster.workers.values())).pid
        os.kill(pid, signal.SIGKILL)
        killed.append(len(list(folder.glob("*.json"))))

    options = {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        killer = threading.Thread(target=kill, args=(cluster,))
        killer.start()
        table = nb.sweep(spec, "t.parquet", scheduler=cluster.scheduler_address)
        killer.join()
    assert 60 <= killed[0] < 200
    assert len(table.table) == len({row["key"] for row in table.table}) == 200
    write_table([{**row, **dict.fromkeys(MEASURED)} for row in serial.table], "serial.parquet")
    write_table([{**row, **dict.fromkeys(MEASURED)} for row in read_table("t.parquet")], "cluster.parquet")
    assert Path("serial.parquet").read_bytes() == Path("cluster.parquet").read_bytes()
    assert len(list(folder.iterdir())) == 200


def test_points_in_any_order_and_in_processes_give_one_table(spec: dict[str, Any]) -> None:
    serial = nb.sweep(spec)
    points = serial.plan.points
    rows = {point.key: compute_and_keep(None, point) for point in reversed(points)}
    assert [{k: v for k, v in rows[p.key].items() if k not in MEASURED} for p in points] == serial.unmeasured()
    assert nb.sweep(spec, jobs=2).unmeasured() == serial.unmeasured()


def test_schedulers_and_numbers_that_make_no_sense(spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CONNECT_SECONDS", 0.3)
    for scheduler in ("tcp://127.0.0.1:1", "no-scheme://x", "127.0.0.1:notaport"):
        with pytest.raises(UsageError, match=f"scheduler '{scheduler}': cannot be reached"):
            nb.sweep(spec, scheduler=scheduler)
    with pytest.raises(UsageError, match="jobs: 2 and a scheduler, the workers of a cluster are its own"):
        nb.sweep(spec, jobs=2, scheduler="tcp://127.0.0.1:1")
    for jobs in (0, -1):
        with pytest.raises(UsageError, match="jobs"):
            nb.sweep(spec, jobs=jobs)


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command(spec: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.toml").write_text('models = ["a.nir", "b.nir"]\nchips = ["loihi1"]\nbits = [4, 8]\neffort = "fast"\n')
    assert run(["sweep", "s.toml", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 points"
    assert lines[2].endswith("'a.nir' on 'loihi1', 8 bits, cores, seed 0")
    assert run(["sweep", "s.toml", "--dry-run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["points"]) == 4
    assert run(["sweep", "s.toml", "-o", "t.parquet", "--plot", "p.svg"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("4 points; all: chip loihi1, objective cores, seed 0, effort fast\nmodel  bits  cores")
    assert shown.out.endswith("saved 't.parquet'\n")
    assert Path("p.svg").read_bytes().startswith(b"<?xml")
    assert len(read_table("t.parquet")) == 4
    assert run(["sweep", "s.toml", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 4
    assert run(["sweep", "s.toml", "--dry-run", "-o", "t.csv"]) == 2
    assert "--dry-run: computes nothing" in capsys.readouterr().err
    Path("s.toml").write_text(f'models = ["b.nir"]\nchips = ["{small_chip(tmp_path)}"]\n')
    assert run(["sweep", "s.toml"]) == 1
    assert capsys.readouterr().err.endswith("1 point failed; the table above says why\n")
    assert run(["sweep", "s.toml", "-o", "t.csv"]) == 1
    assert capsys.readouterr().err.endswith("1 point failed; the column 'error' of 't.csv' says why\n")


def test_wrong_data_and_labels_are_said_before_the_first_point(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save("short.npy", np.zeros((12, 6, 99)))
    np.save("few.npy", np.zeros(5, np.int64))
    monkeypatch.setattr("nirbridge.sweeps.run.compute_point", lambda point: pytest.fail("a point was computed"))
    models = [{"file": "a.nir", "input": "short.npy"}, {"file": "b.nir", "input": "x.npy", "labels": "few.npy"}]
    with pytest.raises(UsageError) as error:
        nb.sweep({**spec, "models": models})
    first, second = error.value.problems
    assert first.subject.startswith("model 'a.nir', input ")
    assert "an array of shape (12, 6, 99)" in first.found
    assert (second.subject, second.found) == ("model 'b.nir', labels", "5 labels for 6 samples")
    with pytest.raises(
        UsageError, match=r"model 'a.nir', samples: 7, the data have 6; give at most 6, or leave it out"
    ):
        nb.sweep({**spec, "models": ["a.nir"], "input": "x.npy", "samples": 7})


def test_a_model_that_cannot_be_read_is_a_row_beside_right_data(spec: dict[str, Any]) -> None:
    Path("c.nir").write_bytes(Path("a.nir").read_bytes()[:700])
    table = nb.sweep({**spec, "models": ["c.nir", "a.nir"], "chips": ["loihi1"], "seeds": [0], "input": "x.npy"})
    assert [row["error"] is None for row in table.rows()] == [False, True]


def test_ctrl_c_says_where_rows_are(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.toml").write_text('models = ["a.nir"]\nchips = ["loihi1"]\n')

    def interrupt(point: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "compute_point", interrupt)
    assert run(["sweep", "s.toml", "-o", "t.csv"]) == 130
    assert capsys.readouterr().err == (
        "nirbridge: interrupted; rows are kept in 't.csv.parts', the same command goes on\n"
    )
