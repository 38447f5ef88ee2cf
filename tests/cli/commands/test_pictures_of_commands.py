"""``--plot`` of map and inspect: every picture, every format, refusals before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from nirbridge import pipeline
from nirbridge.cli.main import run

pytest.importorskip("matplotlib", reason="matplotlib, the extra 'plot', is not installed")

ROOT = Path(__file__).resolve().parents[3]
MODEL = str(ROOT / "examples" / "models" / "digits_mlp.nir")
BEGINS = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}


def test_every_picture_of_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = set()
    pictures = ("floorplan", "resources", "traffic", "matrix", "proof", "energy", "network")
    for picture in pictures:
        path = tmp_path / f"{picture}.svg"
        args = ["map", MODEL, "--chip", "loihi1", "--effort", "fast", "--summary"]
        assert run([*args, "--plot", str(path), "--picture", picture]) == 0
        seen.add(path.read_bytes())
    assert len(seen) == len(pictures)
    assert run([*args, "--plot", str(tmp_path / "default.svg")]) == 0
    assert (tmp_path / "default.svg").read_bytes() == (tmp_path / "floorplan.svg").read_bytes()


@pytest.mark.parametrize("kind", BEGINS)
def test_the_graph_of_a_file_in_each_format(kind: str, tmp_path: Path) -> None:
    assert run(["inspect", MODEL, "--plot", str(tmp_path / f"a.{kind}")]) == 0
    assert (tmp_path / f"a.{kind}").read_bytes().startswith(BEGINS[kind])


def test_what_cannot_be_drawn_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline, "load_network", lambda *_, **__: pytest.fail("worked all the same"))
    args = ["map", MODEL, "--chip", "loihi1"]
    assert run([*args, "--picture", "proof"]) == 2
    assert "--picture: given without --plot, it names the picture to draw; add --plot" in capsys.readouterr().err
    assert run([*args, "--plot", str(tmp_path / "a.gif")]) == 2
    assert run(["inspect", MODEL, "--plot", str(tmp_path / "a.gif")]) == 2
    assert capsys.readouterr().err.count("picture 'a.gif': not a name of a picture") == 2
    assert run(["inspect", MODEL, "--plot", str(tmp_path / "no" / "a.svg")]) == 2
    assert list(tmp_path.iterdir()) == []
