"""The notebook of the documentation, line by line, on every kind of model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "first_steps.py"
LINES_MAX = 20
MARK = "net = nb.load("


def _source() -> tuple[str, str]:
    """The model, and what is done with it."""
    text = EXAMPLE.read_text(encoding="utf-8")
    return text[: text.index(MARK)], text[text.index(MARK) :]


def test_it_is_short_with_the_model_in_it() -> None:
    code = [line for line in EXAMPLE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert len(code) < LINES_MAX


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The model of the notebook and its data, in a folder of their own."""
    pytest.importorskip("snntorch")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(_source()[0], str(EXAMPLE), "exec"), names)
        yield names


@pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
@pytest.mark.parametrize("kind", ["module", "graph", "path", "network"])
def test_it_runs_on_what_is_at_hand(kind: str, made: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    network = nb.load(made["model"], sample=made["x"][0])
    nb.save(network, "given.nir")
    given = {"module": made["model"], "network": network, "path": "given.nir", "graph": _graph(network)}
    exec(compile(_source()[1], str(EXAMPLE), "exec"), {**made, "model": given[kind]})
    assert Path("program", "manifest.json").is_file()
    assert Path("model.map.json").stat().st_size > 1000
    assert Path("report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def _graph(network: nb.Network) -> Any:
    from nirbridge.network.nir.to_nir import to_nir

    return to_nir(network)


@pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
def test_every_stage_takes_the_same_things(made: dict[str, Any]) -> None:
    model, x = made["model"], made["x"]
    network = nb.load(model, sample=x[0])
    nb.save(network, "given.nir")
    chip = nb.chip("loihi2")
    first = nb.simulate(network, x)
    assert nb.compare(first, nb.simulate(model, x, sample=x[0])).equal
    assert nb.compare(first, nb.simulate("given.nir", x.numpy())).equal
    sizes = {
        len(nb.map(network, chip).cores),
        len(nb.map(model, "loihi2", sample=x[0]).cores),
        len(nb.map("given.nir", "loihi2").cores),
        len(nb.check_fit("given.nir", chip).blocks),
    }
    assert len(sizes) == 1
    digests = {nb.emit(given, chip=chip).digest for given in (network, "given.nir")}
    digests.add(nb.emit(nb.quantize(network, chip)).digest)
    assert len(digests) == 1


def test_the_emitted_program_is_verified(made: dict[str, Any]) -> None:
    from nirbridge.pipeline import environment_status

    if not environment_status().ready:
        pytest.skip("the isolated Lava environment is not installed")
    network = nb.load(made["model"], sample=made["x"][0])
    found = nb.verify(network, "loihi2", made["x"][:6, :1], target="lava")
    assert found.holds
    assert "lava" in found.recordings
    q = nb.quantize(network, "loihi2")
    ran = nb.run(nb.emit(q), made["x"][:6, :1])
    assert nb.compare(nb.simulate(q, made["x"][:6, :1]), ran).equal


def test_outputs_by_name(made: dict[str, Any]) -> None:
    run = nb.simulate(made["model"], made["x"], sample=made["x"][0])
    name = next(iter(run.arrays))[0]
    assert run[name].shape == (25, 8, 10)
    assert np.array_equal(run[name], run[name, "s"])
    with pytest.raises(nb.errors.UsageError, match="did you mean"):
        run[name + "s"]
