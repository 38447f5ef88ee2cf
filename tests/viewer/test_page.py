"""The page as a file: one document, one script, nothing from elsewhere; and the command that writes it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import webbrowser
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from nirbridge.cli.main import run
from nirbridge.viewer.page import viewer_page, write_viewer
from tests.importers.nirfile.hostile import damage_heap, put
from tests.viewer.files import MODELS
from tests.viewer.reader import Reader, Refused

HOSTILE = '</script><script>alert(1)</script>"\u202e\n.nir'


def test_the_empty_page_is_small_and_loads_nothing() -> None:
    page = viewer_page()
    assert len(page.encode()) < 1_000_000
    assert 'id="file"' not in page
    assert re.findall(r"<(?:link|iframe|img|object|embed|base)\b", page) == []
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|importScripts|eval)\(", page)
    assert re.findall(r"""["'(]https?://(?!www\.w3\.org/)[^"')]*""", page) == []


def test_the_policy_names_the_script_and_the_style_alone() -> None:
    page = viewer_page("model.nir", b"bytes")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    for kind in ("script", "style"):
        inner = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        assert inner is not None
        digest = base64.b64encode(hashlib.sha256(inner[1].encode()).digest()).decode()
        assert f"{kind}-src &#x27;sha256-{digest}&#x27;;" in policy[1]
    assert policy[1].startswith("default-src &#x27;none&#x27;; ")


def test_a_page_holds_its_file_whatever_its_name(tmp_path: Path, reader: Reader) -> None:
    content = (MODELS / "digits_mlp.nir").read_bytes()
    size = write_viewer(tmp_path / "page.html", HOSTILE, content)
    assert (tmp_path / "page.html").stat().st_size == size
    page = reader.page.context.new_page()
    said: list[str] = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "page.html").as_uri())
    held = page.evaluate("(({name, bytes}) => [name, bytes.length])(nirbridge.embeddedFile())")
    page.close()
    assert held[1] == len(content)
    assert held[0].startswith("</script><script>alert(1)</script>")
    assert said == []


def test_a_browser_that_cannot_unpack_says_so(reader: Reader) -> None:
    page = reader.page.context.new_page()
    page.goto(reader.page.url)
    page.evaluate("delete globalThis.DecompressionStream")
    with pytest.raises(
        Refused, match="this browser cannot unpack it, browsers of 2023 and later can; open it in a newer"
    ):
        Reader(page).file(MODELS / "digits_cnn.nir")
    page.close()


# -- command -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODELS / "digits_mlp.nir", "model.nir")
    return tmp_path


def test_a_page_beside_its_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("models").mkdir()
    shutil.copy("model.nir", "models/m.nir")
    assert run(["view", "models/m.nir", "--json"]) == 0
    page = here / "models/m.nir.view.html"
    document = json.loads(capsys.readouterr().out)
    assert document == {"page": page.name, "bytes": page.stat().st_size, "file": "m.nir", "kind": "model"}
    assert base64.b64encode(Path("model.nir").read_bytes()).decode() in page.read_text(encoding="utf-8")


def test_the_empty_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["view"]) == 0
    assert capsys.readouterr().out == (
        "saved 'nirbridge-viewer.html': a page that shows the file that is dropped onto it\n"
    )
    assert (here / "nirbridge-viewer.html").read_text(encoding="utf-8") == viewer_page()


def test_it_opens_where_it_is_asked_to(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    assert run(["view", "model.nir"]) == 0
    assert run(["view", "model.nir", "--no-open"]) == 0
    assert opened == []
    assert run(["view", "model.nir", "--open"]) == 0
    assert opened == [(here / "model.nir.view.html").as_uri()]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "error: 'model.nir': it is damaged or cut off ("),
        (damage_heap, "error: 'model.nir'"),
        (lambda path: path.write_bytes(b""), "error: 'model.nir': is empty, expected is a model, map,"),
        (lambda path: path.write_bytes(b"GIF89a"), "error: 'model.nir': is not a file that nirbridge saves"),
        (lambda path: path.write_bytes(b"{"), "error: map file 'model.nir'"),
        (lambda path: path.write_bytes(b"PK\3\4"), "error: 'model.nir': is an archive without a readable 'meta'"),
    ],
)
def test_a_bad_file_has_no_page(spoil: Any, message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(here / "model.nir")
    assert run(["view", "model.nir"]) == 2
    assert capsys.readouterr().err.startswith(message)
    assert [path.name for path in here.iterdir()] == ["model.nir"]


def test_shapes_that_do_not_fit_are_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The viewer shows what a file holds; whether it runs is for ``nirbridge inspect``."""
    with h5py.File("model.nir", "r+") as file:
        put("node/nodes/linear_0/weight", np.ones((64, 63)))(file)
    assert run(["inspect", "model.nir"]) == 2
    assert "linear_0" in capsys.readouterr().err
    assert run(["view", "model.nir"]) == 0


def test_a_report_links_to_the_page_of_its_map_or_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(MODELS / "digits_mlp.nir", "a.nir")
    assert run(["report", "a.nir", "-o", "plain.html"]) == 0
    assert run(["map", "a.nir", "--chip", "loihi1", "-o", "a.map.json"]) == 0
    assert run(["report", "a.nir", "-o", "r:1 #.html", "--view"]) == 0
    capsys.readouterr()
    assert run(["report", "a.nir", "--map", "a.map.json", "-o", "m.html", "--view", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["view"] == "m.view.html"
    link = '<span><a href="r%3A1%20%23.view.html">Look into the model: open the viewer</a></span>'
    assert Path("r:1 #.html").read_text().replace(link, "") == Path("plain.html").read_text()
    assert Path("r:1 #.view.html").read_text() == viewer_page("a.nir", Path("a.nir").read_bytes())
    assert Path("m.view.html").read_text() == viewer_page("a.map.json", Path("a.map.json").read_bytes())
    Path("o.view.html").write_bytes(Path("a.nir").read_bytes())
    assert run(["report", "o.view.html", "-o", "o.html", "--view"]) == 2
    assert "--view 'o.view.html': is MODEL" in capsys.readouterr().err
