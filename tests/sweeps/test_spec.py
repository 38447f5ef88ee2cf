"""The file of a sweep: every problem is named, and paths are relative to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nirbridge.errors import ChipError, FileError, UsageError
from nirbridge.sweeps import plan as plans
from nirbridge.sweeps.plan import make_plan
from nirbridge.sweeps.spec import Encoder, ModelEntry, load_spec
from tests.sweeps.small import write_files

GOOD: dict[str, Any] = {"models": ["a.nir"], "chips": ["loihi1"], "input": "x.npy"}


def test_a_whole_file(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "s.toml").write_text(
        'models = ["a.nir", {file = "b.nir", input = "values.npy"}]\nchips = ["loihi1", "loihi2"]\nbits = [4, 8]\n'
        'objectives = ["cores", "traffic"]\nseeds = [3]\neffort = "fast"\ninput = "x.npy"\nlabels = "y.npy"\n'
        'samples = 2\n[encoder]\nkind = "rate"\nsteps = 9\n'
    )
    spec = load_spec(tmp_path / "s.toml")
    assert spec.models == (ModelEntry("a.nir", "x.npy", "y.npy"), ModelEntry("b.nir", "values.npy", None))
    assert (spec.bits, spec.seeds, spec.effort, spec.samples) == ((4, 8), (3,), "fast", 2)
    assert spec.encoder == Encoder("rate", 9)
    points = make_plan(spec).points
    assert len(points) == len({point.key for point in points}) == 16
    assert [(p.model, p.chip, p.bits, p.objective) for p in points[:3]] == [
        ("a.nir", "loihi1", 4, "cores"),
        ("a.nir", "loihi1", 4, "traffic"),
        ("a.nir", "loihi1", 8, "cores"),
    ]
    assert points[0].path("model") == str(tmp_path / "a.nir")
    assert points[0].path("chip") == ""
    assert points[0].label == "'a.nir' on 'loihi1', 4 bits, cores, seed 3"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": ["a.nir"]}, "sweep, key 'model': unknown; did you mean 'models'?"),
        ({"models": None}, "sweep, key 'models': missing, a sweep has one or more; add it"),
        ({"models": "a.nir"}, "sweep, key 'models': found 'a.nir', expected a list; as in models = ['a.nir']"),
        ({"models": []}, "sweep, key 'models': an empty list, at least one value; add one, or leave the key out"),
        ({"models": [3]}, "sweep, key 'models': found 3, expected paths of model files, or tables with 'file'"),
        ({"models": [{"input": "x"}]}, "sweep, key 'models': a table without 'file'; add the path of the model"),
        ({"models": [{"fil": "x"}]}, "sweep, key 'models', key 'fil': unknown; did you mean 'file'?"),
        ({"models": [{"file": ""}]}, "sweep, key 'models.file': found '', expected the path of a file"),
        ({"models": ["a.nir", "a.nir"]}, "sweep, key 'models': 'a.nir' is there twice, each value once; remove one"),
        ({"chips": [True]}, "sweep, key 'chips': found true, expected names of chips, or paths of their files"),
        ({"bits": [0]}, "sweep, key 'bits': found 0, expected whole numbers from 1 to 64; leave the key out for the"),
        ({"bits": [8.0]}, "sweep, key 'bits': found 8.0, expected whole numbers from 1 to 64"),
        ({"bits": [10**5000]}, "sweep, key 'bits': found a number of thousands of digits, expected whole numbers"),
        ({"seeds": [1, 2, 1]}, "sweep, key 'seeds': 1 is there twice, each value once; remove one"),
        ({"seeds": [2**31]}, "sweep, key 'seeds': found 2147483648, expected whole numbers from 0 to 2,147,483,647"),
        ({"objectives": ["core"]}, "found 'core', expected one of cores, traffic, latency; did you mean 'cores'?"),
        ({"objectives": [["cores"]]}, "sweep, key 'objectives': found a list, expected one of cores, traffic"),
        ({"effort": "quick"}, "sweep, key 'effort': found 'quick', expected one of fast, default, max"),
        ({"effort": ["fast"]}, "sweep, key 'effort': found a list, expected one of fast, default, max"),
        ({"input": 5}, "sweep, key 'input': found 5, expected the path of a file"),
        ({"input": "a\0b"}, r"sweep, key 'input': found 'a\x00b', expected the path of a file"),
        ({"steps": 0}, "sweep, key 'steps': found 0, expected a whole number from 1 to 2,147,483,647"),
        ({"encoder": "rate"}, "sweep, key 'encoder': found 'rate', expected a table; as in encoder = {kind"),
        ({"encoder": {"kind": "rat", "steps": 2}}, "key 'encoder.kind': found 'rat', expected one of rate, latency"),
        ({"encoder": {"kind": "rate"}}, "key 'encoder.steps': found nothing, expected a whole number from 1"),
        ({"encoder": {"kind": "rate", "steps": 2, "step": 1}}, "key 'encoder', key 'step': unknown; did you mean"),
        ({"to": "sanafee"}, "; did you mean 'sanafe'?"),
        ({"to": 3}, "sweep, key 'to': found 3, expected one of lava, c, sanafe"),
        ({"input": None, "to": "sanafe"}, "sweep, key 'to': without 'input', it says how data are used"),
        ({"input": None, "labels": "y.npy"}, "sweep, key 'labels': without 'input', it says how data are used"),
    ],
)
def test_every_wrong_value_is_named(changes: dict[str, Any], problem: str) -> None:
    record = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    with pytest.raises(UsageError) as error:
        load_spec(record)
    assert problem in str(error.value)
    assert len(error.value.problems) == 1


def test_all_problems_are_listed_at_once() -> None:
    with pytest.raises(UsageError) as error:
        load_spec({"chips": [], "bits": ["x"], "effort": 1, "seed": [1]})
    assert len(error.value.problems) == 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"models = [", "sweep file 's.toml': not valid TOML ("),
        (b"\xff", "sweep file 's.toml': not UTF-8 text (byte 0)"),
        (b"a = " + b"[" * 5000 + b"]" * 5000, "sweep file 's.toml': nested too deeply"),
        (b"#" * 1_000_001, "sweep file 's.toml': too large, at most 1,000,000 bytes are read"),
        (b"models = 1\nmodels = 2\n", "sweep file 's.toml': not valid TOML (Cannot overwrite a value"),
        (b"model = []", "sweep file 's.toml', key 'model': unknown; did you mean 'models'?"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, text: bytes, problem: str) -> None:
    (tmp_path / "s.toml").write_bytes(text)
    with pytest.raises(FileError) as error:
        load_spec(str(tmp_path / "s.toml"))
    assert str(error.value).startswith(problem)


def test_missing_files_folders_and_chips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match="sweep file 'no.toml': it cannot be opened"):
        load_spec("no.toml")
    with pytest.raises(FileError, match="it is a folder"):
        load_spec(str(tmp_path))
    with pytest.raises(FileError) as error:
        make_plan(load_spec({**GOOD, "models": ["no.nir", "."]}))
    assert [problem.subject for problem in error.value.problems] == ["model 'no.nir'", "input 'x.npy'", "model '.'"]
    write_files(tmp_path)
    with pytest.raises(ChipError, match="chip 'loihi3': unknown, known chips: .*; did you mean 'loihi"):
        make_plan(load_spec({**GOOD, "chips": ["loihi1", "loihi3"]}))


def test_too_many_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="sweep: 100,001 points, at most 100,000; cut it into several sweeps"):
        make_plan(load_spec({**GOOD, "seeds": list(range(100_001))}))


def test_a_key_depends_on_all_that_a_result_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)

    def key(**changes: Any) -> str:
        return make_plan(load_spec({**GOOD, **changes})).points[0].key

    keys = [
        key(),
        key(bits=[4]),
        key(seeds=[1]),
        key(effort="fast"),
        key(objectives=["traffic"]),
        key(chips=["loihi2"]),
        key(models=["b.nir"]),
        key(steps=3),
        key(samples=3),
        key(to="sanafe"),
        key(labels="y.npy"),
        key(input="values.npy", encoder={"kind": "rate", "steps": 4}),
        key(input="values.npy", encoder={"kind": "rate", "steps": 5}),
    ]
    (tmp_path / "x.npy").write_bytes((tmp_path / "values.npy").read_bytes())
    keys.append(key())
    monkeypatch.setattr(plans, "__version__", "0.0")
    keys.append(key())
    assert len(set(keys)) == len(keys)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("a.nir", "x.npy"):
        (tmp_path / name).rename(moved / name)
    monkeypatch.chdir(moved)
    assert key() == keys[-1]
