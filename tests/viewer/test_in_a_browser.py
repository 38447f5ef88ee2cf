"""The viewer in Chromium, opened from disk: files by drop and button, mouse, keyboard, light and dark, hostile names.

The page may write nothing to the console and request nothing but itself. Frames are measured and printed; no test
depends on time.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.testing.examples import example_networks
from nirbridge.viewer.page import viewer_page
from tests.report.html.test_in_a_browser import SIZE, findings

MODELS = Path(__file__).resolve().parents[2] / "examples/models"
PHONE = {"width": 400, "height": 800}
DROP = """([name, text]) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([bytes], name));
  for (const kind of ["dragenter", "dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
}"""
SETTLED = "new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 350))"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Ten files, of every kind that is read."""
    folder = tmp_path_factory.mktemp("examples")
    for name in ("digits_cnn", "digits_mlp"):
        nb.map(MODELS / f"{name}.nir", "loihi1").save(folder / f"{name}.map.json")
        nb.quantize(MODELS / f"{name}.nir", "loihi1").save(folder / f"{name}.q.npz")
    for k, network in enumerate(example_networks()[:3]):
        nb.save(network, folder / f"{k}.net.npz")
    cnn = nb.load(MODELS / "digits_cnn.nir")
    spikes = np.random.default_rng(5).random((20, 3, *cnn.inputs[0].shape)) < 0.3
    nb.save(nb.simulate(cnn, spikes, record="*:s,v"), folder / "run.npz")
    return {path.name: path for path in (*MODELS.glob("*.nir"), *folder.iterdir())}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The address of the page, empty or holding an example."""
    folder = tmp_path_factory.mktemp("viewer")

    @cache
    def address(holds: str) -> str:
        file = MODELS / holds
        page = folder / f"{file.stem}.html"
        page.write_text(viewer_page(holds, file.read_bytes()) if holds else viewer_page())
        return page.as_uri()

    return address


@pytest.fixture
def opened(browser: Any, saved: Callable[[str], str]) -> Iterator[Callable[..., Any]]:
    """Opens the page; afterwards the test fails where it wrote to the console or requested anything but itself."""
    contexts: list[Any] = []
    said: list[str] = []

    def show(document: str = "", holds: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": SIZE, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.url == saved(holds) else said.append(request.url))
        page.goto(saved(holds))
        if document:
            page.evaluate((Path(__file__).parent / "fakes.js").read_text())
            page.evaluate(f"nirViewer.show(fakes.{document})")
            page.evaluate(SETTLED)
        return page

    yield show
    for context in contexts:
        context.close()
    assert said == []


def shown(page: Any, name: str) -> None:
    """Waits; the page lets nobody evaluate text, so that only its elements can be waited for."""
    page.locator("body:not([aria-busy]) #title", has_text=name).wait_for()
    page.evaluate(SETTLED)


def give(page: Any, path: Path) -> None:
    page.set_input_files("#pick", path)
    shown(page, path.name)


def heading(page: Any) -> str:
    return page.locator("#panel h2").inner_text()


def said(page: Any) -> str:
    return page.locator("#status").text_content()


# -- files -------------------------------------------------------------------------------------------------------------


def test_ten_examples_open(opened: Callable[..., Any], examples: dict[str, Path]) -> None:
    page = opened()
    assert page.get_by_role("heading", name="Drop your file here").is_visible()
    assert len(examples) >= 10
    for name, path in examples.items():
        give(page, path)
        assert heading(page) == page.locator("#title").inner_text() == name
        assert page.title() == f"{name} · nirbridge viewer"
        for tab in page.get_by_role("tab").all():
            tab.click()
            page.evaluate(SETTLED)
            assert page.locator(".view:visible canvas").first.is_visible()
            assert page.evaluate("nirViewer.active.stage.frames") > 0


def test_a_file_is_dropped_and_replaced(opened: Callable[..., Any], examples: dict[str, Path]) -> None:
    page = opened()
    for name in ("digits_cnn.nir", "run.npz", "digits_mlp.map.json"):
        page.evaluate(DROP, [name, base64.b64encode(examples[name].read_bytes()).decode()])
        shown(page, name)
        assert heading(page) == name
        assert page.locator("#veil").is_hidden()


def test_a_page_shows_the_file_that_it_holds(opened: Callable[..., Any]) -> None:
    page = opened(holds="digits_mlp.nir")
    shown(page, "digits_mlp.nir")
    assert heading(page) == "digits_mlp.nir"


def test_a_file_of_another_kind_gets_a_message(opened: Callable[..., Any], examples: dict[str, Path]) -> None:
    page = opened()
    give(page, Path(__file__))
    alert = page.get_by_role("alert")
    assert alert.get_by_role("heading").inner_text() == "test_in_a_browser.py cannot be shown"
    assert alert.locator("dt").all_inner_texts() == ["what", "found", "allowed", "what helps"]
    assert findings(page) == []
    give(page, examples["digits_cnn.nir"])
    assert not alert.is_visible()
    assert heading(page) == "digits_cnn.nir"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "document",
    [
        *("", "residual(200)", "nested()", "map(1, 128, 12)", "map(128, 16384, 40)"),
        *("recording(100, 40, 3)", "hostile('network')"),
    ],
)
def test_axe_finds_nothing(document: str, scheme: str, opened: Callable[..., Any]) -> None:
    page = opened(document, color_scheme=scheme)
    assert findings(page) == []
    if document:
        page.locator("#panel .rows button").last.click()
        assert findings(page) == []


@pytest.mark.parametrize(
    "document", ["", "residual(200)", "map(1, 128, 12)", "recording(100, 40, 3)", "hostile('map')"]
)
def test_nothing_is_wider_than_a_phone(document: str, opened: Callable[..., Any]) -> None:
    page = opened(document, viewport=PHONE)
    assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [400, 400]
    for control in page.locator("header button:visible, header input:visible, .tools button:visible").all():
        box = control.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400
    if document:
        stage = page.locator("#stage").bounding_box()
        assert stage["width"] == 400
        assert stage["height"] > 250


# -- the graph ---------------------------------------------------------------------------------------------------------

AT = """(id) => {
  const view = nirViewer.active, { camera, canvas } = view.stage, frame = canvas.getBoundingClientRect();
  const [, box] = [...view.at].find(([item]) => (item.id ?? item.key) === id);
  const x = box.x + box.width / 2, y = box.y + (box.open ? 16 : box.height / 2);
  return [frame.left + (x - camera.x) * camera.scale, frame.top + (y - camera.y) * camera.scale];
}"""


def boxes(page: Any) -> list[str]:
    return page.evaluate("nirViewer.active.placed.boxes.map(({ item }) => item.id ?? item.key)")


def test_nodes_answer_to_the_mouse(opened: Callable[..., Any], examples: dict[str, Path]) -> None:
    page = opened()
    give(page, examples["digits_cnn.nir"])
    page.mouse.move(*page.evaluate(AT, "conv2d_3"))
    assert page.locator("#tip b").inner_text() == "conv2d_3"
    page.mouse.click(*page.evaluate(AT, "conv2d_3"))
    assert heading(page) == "conv2d_3"
    assert "16 × 8 × 3 × 3" in page.locator("#panel").inner_text()
    assert page.locator("#panel canvas").count() == 2  # the histogram and the kernels
    page.get_by_role("button", name="leaky_4").click()
    assert heading(page) == "leaky_4"
    page.get_by_role("button", name="← Overview").click()
    assert heading(page) == "digits_cnn.nir"


def test_nodes_answer_to_the_keyboard(opened: Callable[..., Any], examples: dict[str, Path]) -> None:
    page = opened()
    give(page, examples["digits_cnn.nir"])
    page.keyboard.press("/")
    page.keyboard.type("lif")
    options = page.locator("#found [role=option]").all_inner_texts()
    assert [text.split("\n")[0] for text in options] == ["leaky_1", "leaky_4", "leaky_8"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert heading(page) == "leaky_4"
    assert said(page).startswith("leaky_4, LIF")
    page.keyboard.press("ArrowDown")
    assert heading(page) == "avgpool2d_5"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert heading(page) == "avgpool2d_2" if page.evaluate("!nirViewer.active.down") else "conv2d_3"
    page.keyboard.press("Escape")
    assert heading(page) == "digits_cnn.nir"
    before = page.evaluate("({ ...nirViewer.active.stage.camera })")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    after = page.evaluate("({ ...nirViewer.active.stage.camera })")
    assert after["scale"] == pytest.approx(1.25 * before["scale"])
    assert after["x"] > before["x"]


def test_everything_is_reached_with_tab(opened: Callable[..., Any]) -> None:
    page = opened("map(1, 128, 12)")
    seen = []
    for _ in range(20):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("((e) => e.id || e.getAttribute('aria-label') || e.tagName)(document.activeElement)"))
    assert seen[:5] == ["tab-plan", "search", "open", "help", "theme"]
    assert seen[6:11] == ["Zoom out", "Zoom in", "Show everything", "Save the picture as PNG", "SELECT"]


def test_large_networks_are_folded_by_layer(opened: Callable[..., Any]) -> None:
    page = opened("residual(200)")
    assert len(boxes(page)) == 202
    page.mouse.click(*page.evaluate(AT, "layer layer1.lif"))
    page.evaluate(SETTLED)
    assert {"layer1.conv", "layer1.scale", "layer1.flat", "layer1.affine", "layer1.lif"} < set(boxes(page))
    assert len(boxes(page)) == 207
    page.mouse.click(*page.evaluate(AT, "layer layer1.lif"))
    page.evaluate(SETTLED)
    assert len(boxes(page)) == 202
    page.get_by_role("button", name="Open every group").click()
    assert len(boxes(page)) == 1202
    assert "Fold every group" in page.locator(".tools").inner_html()


def test_nested_graphs_fold_in_each_other(opened: Callable[..., Any]) -> None:
    page = opened("nested()")
    page.get_by_role("button", name="Fold every group").click()
    assert boxes(page) == ["input", "a", "b"]
    page.keyboard.press("/")
    page.keyboard.type("b/y/lif")
    page.keyboard.press("Enter")
    assert heading(page) == "b/y/lif"
    assert set(boxes(page)) == {"input", "a", "b", "b/x", "b/y", "b/y/in", "b/y/lif"}


OVERLAPS = """() => {
  const all = nirViewer.active.placed.boxes.filter((b) => !b.open);
  const over = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  return all.filter((a) => all.some((b) => a !== b && over(a, b))).map((a) => a.item.id);
}"""


@pytest.mark.parametrize("document", ["residual(40)", "nested()"])
def test_boxes_are_apart_both_ways(document: str, opened: Callable[..., Any]) -> None:
    page = opened(document)
    for name in ("Open every group", "Change the direction of the signals"):
        page.get_by_role("button", name=name).click()
        assert page.evaluate(OVERLAPS) == []


PAN = """async () => {
  const { stage } = nirViewer.active, before = stage.frames, gaps = [], drawn = [];
  let last = null;
  for (let k = 0; k < 60; k++) {
    const now = await new Promise(requestAnimationFrame);
    if (last !== null) gaps.push(now - last);
    last = now;
    stage.pan(9, 9);
    drawn.push({ ...nirViewer.active.drawn });
  }
  return { frames: stage.frames - before, gaps: gaps.sort((a, b) => a - b), drawn };
}"""


def test_panning_draws_what_is_seen(opened: Callable[..., Any]) -> None:
    page = opened("residual(200)")
    page.get_by_role("button", name="Open every group").click()
    page.evaluate(SETTLED)
    found = page.evaluate(PAN)
    assert found["frames"] >= 50
    assert 0 < max(each["boxes"] for each in found["drawn"]) < 60  # of 1,202
    print(f"panning 1,002 nodes: median {found['gaps'][30]:.1f} ms a frame, slowest {found['gaps'][-1]:.1f} ms")
    page.evaluate("nirViewer.active.stage.least = 0.001; nirViewer.active.stage.fit(false)")
    page.evaluate(SETTLED)
    assert page.evaluate("nirViewer.active.drawn.boxes") == 1202


# -- the floor plan ----------------------------------------------------------------------------------------------------

CORE = """(k) => {
  const view = nirViewer.active, { camera, canvas } = view.stage, s = view.squares[k];
  const frame = canvas.getBoundingClientRect();
  return [frame.left + (s.x + 10 - camera.x) * camera.scale, frame.top + (s.y + 10 - camera.y) * camera.scale];
}"""


def test_cores_answer_to_the_mouse(opened: Callable[..., Any]) -> None:
    page = opened("map(1, 128, 12)")
    page.mouse.move(*page.evaluate(CORE, 3))
    assert page.locator("#tip").inner_text().split("\n")[:2] == ["Core 3", "x 1, y 0 · core 1 of the tile"]
    page.mouse.click(*page.evaluate(CORE, 3))
    assert heading(page) == "Core 3"
    panel = page.locator("#panel").inner_text()
    assert "512 of 1,024" in panel
    assert "layer 1" in panel
    page.get_by_role("list", name="Routes out").get_by_role("button", name="Core 12").click()
    assert heading(page) == "Core 12"
    page.mouse.click(20, 300)
    assert heading(page) == "128.map.json"


def test_cores_answer_to_the_keyboard(opened: Callable[..., Any]) -> None:
    page = opened("map(1, 128, 12)")
    page.keyboard.press("/")
    page.keyboard.type("core 17")
    page.keyboard.press("Enter")
    assert heading(page) == "Core 17"
    for key, name in (
        ("ArrowRight", "Core 18"),
        ("ArrowDown", "Core 34"),
        ("ArrowLeft", "Core 33"),
        ("ArrowUp", "Core 17"),
    ):
        page.keyboard.press(key)
        assert heading(page) == name
    assert "1 route" not in said(page)
    assert "3 routes out, 2 in" in said(page)
    page.keyboard.press("Escape")
    assert heading(page) == "128.map.json"


def test_the_largest_map_opens_and_pans(opened: Callable[..., Any]) -> None:
    page = opened("map(128, 16384, 40)")
    assert page.evaluate("nirViewer.active.drawn.chips") == 128
    found = page.evaluate(PAN)
    assert found["frames"] >= 50
    print(f"panning 16,384 cores: median {found['gaps'][30]:.1f} ms a frame, slowest {found['gaps'][-1]:.1f} ms")
    page.keyboard.press("/")
    page.keyboard.type("core 127:127")
    page.keyboard.press("Enter")
    page.evaluate(SETTLED)
    assert heading(page) == "Core 127:127"
    assert 0 < page.evaluate("nirViewer.active.drawn.cores") < 2000
    x, y = page.evaluate(CORE, 16383)
    page.mouse.move(x, y)
    assert page.locator("#tip b").inner_text() == "Core 127:127"
    for _ in range(12):
        page.mouse.wheel(0, -120)
    page.evaluate(SETTLED)
    assert page.evaluate("nirViewer.active.stage.camera.scale") == 8
    assert page.evaluate(CORE, 16383) == pytest.approx([x, y], abs=80)


def test_a_population_is_pointed_out(opened: Callable[..., Any]) -> None:
    page = opened("map(1, 128, 12)")
    page.get_by_role("list", name="Populations").get_by_role("button", name="layer 2", exact=False).first.click()
    assert page.get_by_role("button", name="layer 2", pressed=True).count() == 1
    listed = page.get_by_role("list", name="Used cores").get_by_role("button").count()
    assert listed == page.evaluate("nirViewer.active.on[2].length") < 20
    page.get_by_label("Colour").select_option("input_axons")
    assert "Fill" in page.locator("#panel").inner_text()


# -- recordings --------------------------------------------------------------------------------------------------------


def test_recordings_are_read_and_zoomed(opened: Callable[..., Any]) -> None:
    page = opened("recording(100, 40, 3)")
    first = page.locator("#panel .rows .more").first.inner_text()
    page.get_by_label("Sample").fill("2")
    page.keyboard.press("Enter")
    assert page.locator("#panel .rows .more").first.inner_text() != first
    page.locator(".view canvas").focus()
    page.keyboard.press("Enter")
    assert said(page).startswith("step 50: lif ")
    page.keyboard.press("ArrowRight")
    assert said(page).startswith("step 51: lif ")
    page.keyboard.press("Escape")
    wide = page.evaluate("nirViewer.active.range()")
    page.keyboard.press("+")
    near = page.evaluate("nirViewer.active.range()")
    assert wide == [0, 100]
    assert near[1] - near[0] == pytest.approx(80, abs=2)
    page.mouse.move(500, 250)
    assert "step" in page.locator("#tip").inner_text()
    page.mouse.click(500, 250)
    assert heading(page) == "lif"
    assert page.evaluate("nirViewer.active.picked.length") == 4


SHOWN = """() => {
  const view = nirViewer.active, [node] = view.recording.nodes, { count, neurons, starts } = view.events(node);
  const image = view.binned(node, 200), { width, height } = image;
  const wide = view.stage.camera.scale * (width / view.stage.room);
  const { data } = image.getContext("2d").getImageData(0, 0, width, height);
  let missing = 0;
  for (let t = 0; t < node.steps; t++) for (let k = starts[t]; k < starts[t + 1]; k++) {
    const line = width * Math.floor((neurons[k] * height) / node.size);
    if (!data[4 * (line + Math.floor(t * wide)) + 3]) missing += 1;
  }
  return [count, missing];
}"""


def test_no_spike_is_dropped_from_a_dense_raster(opened: Callable[..., Any]) -> None:
    count, missing = opened("recording(3000, 400, 1)").evaluate(SHOWN)
    assert count > 50_000
    assert missing == 0


def test_several_spikes_of_a_step_are_all_counted(opened: Callable[..., Any]) -> None:
    page = opened("several()")
    assert "13 spikes" in page.locator("#panel").inner_text()
    per = page.evaluate("[...nirViewer.active.events(nirViewer.active.recording.nodes[0]).per]")
    assert (per, page.evaluate("nirViewer.active.picked.map((p) => p.neuron)")) == ([0, 0, 0, 2, 11], [4, 3, 0])
    tip = "view.over({ x: view.stage.across(0.5), y: band.top + 0.9 * band.height, clientX: 9, clientY: 9 })"
    page.evaluate(f"(() => {{ const view = nirViewer.active, band = view.bands()[0]; {tip}; }})()")
    assert "neuron 4: 7 spikes here, 11 in all" in page.locator("#tip").text_content()


# -- keys, names and colours ------------------------------------------------------------------------------------------


def test_keys_are_explained(opened: Callable[..., Any]) -> None:
    page = opened("nested()")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Mouse and keys")
    assert dialog.is_visible()
    assert findings(page) == []
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


@pytest.mark.parametrize("kind", ["network", "map", "recording"])
def test_names_that_are_code_are_shown_as_text(kind: str, opened: Callable[..., Any]) -> None:
    page = opened(f"hostile('{kind}')")
    rows, back, k = page.locator("#panel .rows button"), page.locator("#panel .back"), 0
    while k < rows.count() and k < 40:
        rows.nth(k).click()
        if back.count():
            back.click()
        k += 1
    assert k > 3
    page.keyboard.press("/")
    page.keyboard.type("n")
    page.mouse.move(600, 400)
    assert page.locator("img, b:not(.bidi)").count() == 0
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "onerror" in page.locator("#title").inner_text()
    assert "\u202e" not in page.locator("body").inner_text()


def test_the_button_changes_light_and_dark(opened: Callable[..., Any]) -> None:
    page = opened("map(1, 128, 12)", color_scheme="light")
    colour = "getComputedStyle(document.querySelector('#stage')).backgroundColor"
    light = page.evaluate(colour)
    page.locator("#theme").press("Enter")
    page.evaluate(SETTLED)
    dark = page.evaluate(colour)
    assert (light, dark) == ("rgb(247, 248, 250)", "rgb(16, 19, 22)")
    page.locator("#theme").click()
    assert page.evaluate(colour) == light
