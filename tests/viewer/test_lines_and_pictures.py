"""What a line of the graph tells, where Ctrl+F leads, pictures as files, and bars of values on a grid."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nirbridge.viewer.page import write_viewer
from tests.viewer.files import MODELS

LINE = """() => {
  const { placed, stage } = nirViewer.active, { camera, canvas } = stage, frame = canvas.getBoundingClientRect();
  const [[x0, y0], [x1, y1]] = placed.lines[1].points;
  const x = (x0 + x1) / 2 - camera.x, y = (y0 + y1) / 2 - camera.y;
  return [frame.left + x * camera.scale, frame.top + y * camera.scale];
}"""
GRID = """(size) => {
  const values = new Float32Array(130 * size).map((_, k) => 0.0371 * ((k % 130) - 40));
  const param = { name: "weight", shape: [values.length], dtype: "float32", values, note: "" };
  const node = { id: "a", label: "a", type: "Linear", group: "", shape: "", facts: [], params: [param] };
  nirViewer.show({ title: "grid", kind: "network", facts: [], notes: [], graph: { nodes: [node], edges: [] } });
}"""


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """The page of a model; it has to be silent."""
    write_viewer(tmp_path / "page.html", "digits_cnn.nir", (MODELS / "digits_cnn.nir").read_bytes())
    said: list[str] = []
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "page.html").as_uri())
    page.locator("#panel h2", has_text="digits_cnn.nir").wait_for()
    page.wait_for_timeout(500)
    yield page
    page.context.close()
    assert said == []


def test_a_line_tells_its_ends(page: Any) -> None:
    page.mouse.move(*page.evaluate(LINE))
    assert page.locator("#tip b").inner_text() == "conv2d_0 \N{RIGHTWARDS ARROW} leaky_1"
    page.mouse.click(*page.evaluate(LINE))
    assert page.locator("#panel h2").inner_text() == "conv2d_0 \N{RIGHTWARDS ARROW} leaky_1"
    assert page.locator("#panel .rows .main").all_inner_texts() == ["conv2d_0", "leaky_1"]
    page.keyboard.press("Escape")
    assert page.locator("#panel h2").inner_text() == "digits_cnn.nir"


def test_control_f_searches(page: Any) -> None:
    page.keyboard.press("Control+f")
    page.keyboard.type("linear")
    page.keyboard.press("Enter")
    assert page.locator("#panel h2").inner_text() == "linear_7"


def test_the_whole_picture_is_saved(page: Any, tmp_path: Path) -> None:
    for _ in range(4):
        page.get_by_label("Zoom in").click()
    seen = page.evaluate("({ ...nirViewer.active.stage.camera })")
    with page.expect_download() as given:
        page.get_by_label("Save the picture as PNG").click()
    assert given.value.suggested_filename == "digits_cnn.nir.png"
    given.value.save_as(tmp_path / "picture.png")
    data = (tmp_path / "picture.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    whole = page.evaluate("nirViewer.active.bounds()")
    assert width > whole["width"] * seen["scale"]
    assert height > whole["height"] * seen["scale"]
    assert page.evaluate("({ ...nirViewer.active.stage.camera })") == seen


def test_bars_of_a_grid_have_equally_many_levels(page: Any) -> None:
    page.evaluate(GRID, 10)
    page.locator("#panel .rows[aria-label=Nodes] button").click()
    canvas = page.locator("#panel canvas").first
    box = canvas.bounding_box()
    said = set()
    for k in range(3, 61):
        page.mouse.move(box["x"] + box["width"] * k / 64, box["y"] + 50)
        said.add(page.locator("#tip b").inner_text())
    assert said == {"30 values"}
