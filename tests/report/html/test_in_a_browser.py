"""Pages in Chromium, opened from disk: silent, usable by mouse and keyboard, legible, without a finding of axe-core.

One browser for all tests; a context per test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright import sync_api

from nirbridge.report.html.document import map_html, report_html
from tests.report.html.pages import everything, hostile, placed
from tests.tools import needs

OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP*~NOTFOUND",
]
SIZE = {"width": 1280, "height": 900}
PAGES: dict[str, Callable[[], str]] = {
    "everything": lambda: report_html(everything()),
    "hostile": lambda: report_html(hostile()),
    "eight-chips": lambda: map_html(
        placed(tuple(f"layer {k}" for k in range(12)), 520, "loihi2", 8), title="eight.nir"
    ),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = needs("browser")
    with sync_api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The address of a page by its name."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def address(name: str) -> str:
        (folder / f"{name}.html").write_text(PAGES[name](), encoding="utf-8")
        return (folder / f"{name}.html").as_uri()

    return address


@pytest.fixture
def opened(browser: Any, saved: Callable[[str], str]) -> Iterator[Callable[..., Any]]:
    """Opens a page; afterwards the test fails where it wrote to the console or requested anything but itself."""
    contexts: list[Any] = []
    said: list[str] = []

    def show(name: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": SIZE, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.url == saved(name) else said.append(request.url))
        page.goto(saved(name))
        return page

    yield show
    for context in contexts:
        context.close()
    assert said == []


def findings(page: Any) -> list[str]:
    """What axe-core says against a page; its source is evaluated, since the page's policy lets no script in."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {n['target']} {n['failureSummary']}" for v in found["violations"] for n in v["nodes"]]


@pytest.mark.parametrize(
    ("name", "scheme"), [("everything", "light"), ("everything", "dark"), ("hostile", "light"), ("eight-chips", "dark")]
)
def test_axe_finds_nothing(name: str, scheme: str, opened: Callable[..., Any]) -> None:
    page = opened(name, color_scheme=scheme)
    if name != "eight-chips":  # a table of 520 cores takes axe-core a quarter of a minute
        page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert findings(page) == []


def test_axe_would_find_something(opened: Callable[..., Any]) -> None:
    page = opened("hostile")
    page.evaluate("document.querySelector('.under').setAttribute('role', 'checkbox')")
    assert findings(page) != []


# -- controls ----------------------------------------------------------------------------------------------------------


def test_boxes_of_the_graph_show_their_panel(opened: Callable[..., Any]) -> None:
    page = opened("everything")
    panel = page.locator("#network-panel")
    assert panel.locator("h3").inner_text() == "leaky_1"
    page.locator("[data-node=leaky_4]").click()
    assert panel.locator("h3").inner_text() == "leaky_4"
    assert "256 (16×4×4)" in panel.inner_text()
    assert page.locator("[data-node=leaky_4]").get_attribute("aria-pressed") == "true"
    page.locator("[data-node=leaky_8]").focus()
    page.keyboard.press("Enter")
    assert panel.locator("h3").inner_text() == "leaky_8"
    page.locator("[data-node=leaky_1]").focus()
    page.keyboard.press("Space")
    assert panel.locator("h3").inner_text() == "leaky_1"


def test_boxes_are_reached_with_tab(opened: Callable[..., Any]) -> None:
    page = opened("everything")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.dataset.node || document.activeElement.id"))
    assert [s for s in seen if s in ("input", "leaky_1", "leaky_4", "leaky_8", "output")] == [
        "input", "leaky_1", "leaky_4", "leaky_8", "output"
    ]  # fmt: skip
    assert {"theme", "plan", "plan-layer", "plan-show-links"} <= set(seen)


def test_names_that_are_code_are_shown_as_text(opened: Callable[..., Any]) -> None:
    page = opened("hostile")
    for node in page.locator("[data-node]").all():
        node.click()
        name = node.get_attribute("data-node")
        assert page.locator("#network-panel h3").inner_text() == name
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]


def shown_core(page: Any) -> str:
    return page.locator("#plan-panel h3").inner_text()


CENTRE = """([x, y]) => {
  const svg = document.getElementById('plan-picture');
  const at = () => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
  window.scrollBy(0, at().y - innerHeight / 2);
  return [at().x, at().y];
}"""


def centre(page: Any, core: int) -> tuple[float, float]:
    """Where a core is in the window, after the page was scrolled to it."""
    data = json.loads(page.locator("#data").text_content())["plan"]
    entry, half = data["cores"][core], data["size"] / 2
    x, y = page.evaluate(CENTRE, [entry["x"] + half, entry["y"] + half])
    return x, y


def test_cores_answer_to_the_mouse(opened: Callable[..., Any]) -> None:
    page = opened("eight-chips")
    data = json.loads(page.locator("#data").text_content())["plan"]
    for core in (0, 64, 200, len(data["cores"]) - 1):
        page.mouse.move(*centre(page, core))
        assert shown_core(page) == f"Core {data['cores'][core]['n']}"
    assert page.locator("#plan-routes path").count() == 0
    page.mouse.click(*centre(page, 3))
    assert page.locator("#plan-routes path").count() == len(data["cores"][3]["r"]) > 0


def test_cores_answer_to_the_keyboard(opened: Callable[..., Any]) -> None:
    page = opened("eight-chips")
    page.mouse.click(*centre(page, 0))
    page.locator("#plan").focus()
    page.keyboard.press("ArrowRight")
    assert shown_core(page) == "Core 0:1"
    page.keyboard.press("ArrowDown")
    assert shown_core(page) == "Core 0:9"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert shown_core(page) == "Core 0:0"
    page.keyboard.press("Enter")
    assert page.locator("#plan-routes path").count() > 0
    page.keyboard.press("Escape")
    assert page.locator("#plan-routes path").count() == 0
    for _ in range(60):
        page.keyboard.press("ArrowRight")
    assert shown_core(page).startswith("Core ")
    assert not shown_core(page).startswith("Core 0:")  # the next chip is reached


def test_colours_and_links_are_switched(opened: Callable[..., Any]) -> None:
    page = opened("eight-chips")
    layer, resource = page.locator("#plan-picture .by-layer"), page.locator("#plan-picture .by-resource")
    assert (layer.is_visible(), resource.is_visible()) == (True, False)
    page.locator("#plan-resource").check()
    assert (layer.is_visible(), resource.is_visible()) == (False, True)
    page.locator("#plan-resource").focus()
    page.keyboard.press("ArrowLeft")
    assert (layer.is_visible(), resource.is_visible()) == (True, False)
    links = page.locator("#plan-links")
    assert links.is_visible()
    page.locator("#plan-show-links").focus()
    page.keyboard.press("Space")
    assert not links.is_visible()


def test_cells_of_the_matrix_are_read_out(opened: Callable[..., Any]) -> None:
    page = opened("hostile")
    page.locator("#matrix").focus()
    page.keyboard.press("ArrowDown")
    status = page.locator("#matrix-status")
    assert status.inner_text().startswith("core 0 to core 0: ")
    page.keyboard.press("ArrowRight")
    assert status.inner_text() == "core 0 to core 1: 1 spikes per time step"


def test_tables_are_sorted_by_their_headings(opened: Callable[..., Any]) -> None:
    page = opened("eight-chips")
    page.locator("#floorplan details summary").click()
    table = page.locator("#floorplan table[data-sort]")
    heading = table.get_by_role("button", name="input axons")

    def values() -> list[int]:
        cells = table.locator("tbody td:nth-child(4)").all_inner_texts()
        return [int(cell.split(" ")[0].replace(",", "")) for cell in cells]

    heading.click()
    assert values() == sorted(values())
    heading.press("Enter")
    assert values() == sorted(values(), reverse=True)
    assert table.locator("th[aria-sort=descending]").count() == 1


def test_the_button_changes_light_and_dark(opened: Callable[..., Any]) -> None:
    page = opened("hostile", color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.locator("#theme").press("Enter")
    dark = page.evaluate(colour)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(21, 24, 28)")
    page.locator("#theme").click()
    assert page.evaluate(colour) == light
    assert opened("hostile", color_scheme="dark").evaluate(colour) == dark


# -- geometry ----------------------------------------------------------------------------------------------------------

GEOMETRY = """() => {
  const shown = (e) => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0; };
  const box = (e) => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
  return [...document.querySelectorAll('svg')].filter(shown).map((svg) => ({
    name: svg.getAttribute('aria-label') || svg.id || svg.getAttribute('class'),
    box: box(svg),
    texts: [...svg.querySelectorAll('text')].filter(shown).map((t) => [t.textContent, ...box(t)]),
    nodes: [...svg.querySelectorAll('.node')].map((n) => ({
      shape: box(n.querySelector('.shape')), texts: [...n.querySelectorAll('text')].map(box) })),
  }));
}"""


@pytest.mark.parametrize("zoom", [1, 2])
@pytest.mark.parametrize("name", PAGES)
def test_labels_are_within_their_boxes_and_apart(name: str, zoom: int, opened: Callable[..., Any]) -> None:
    """At 200 % the window has half as many pixels of the page in each direction."""
    page = opened(name, viewport={k: v // zoom for k, v in SIZE.items()}, device_scale_factor=zoom)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    pictures = page.evaluate(GEOMETRY)
    assert sum(len(picture["texts"]) for picture in pictures) > 20
    for picture in pictures:
        left, top, right, bottom = picture["box"]
        for k, (said, x0, y0, x1, y1) in enumerate(picture["texts"]):
            where = f"{picture['name']}: {said!r}"
            assert left - 1.5 <= x0 and x1 <= right + 1.5 and top - 1.5 <= y0 and y1 <= bottom + 1.5, where  # noqa: PT018
            for other, a0, b0, a1, b1 in picture["texts"][k + 1 :]:
                across, down = min(x1, a1) - max(x0, a0), min(y1, b1) - max(y0, b0)
                assert across < 1.5 or down < 3.5, f"{where} lies over {other!r}"
        for node in picture["nodes"]:
            a0, b0, a1, b1 = node["shape"]
            for x0, y0, x1, y1 in node["texts"]:
                assert a0 - 0.5 <= x0 and x1 <= a1 + 0.5 and b0 - 0.5 <= y0 and y1 <= b1 + 0.5  # noqa: PT018


CONTRASTS = """() => {
  const lum = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(Number).map((v) => {
    v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const page = lum(getComputedStyle(document.body).backgroundColor);
  const found = {};
  document.querySelectorAll('svg text').forEach((t) => {
    const style = getComputedStyle(t);
    const back = style.stroke !== 'none' ? lum(style.stroke)
      : t.closest('.node') ? lum(getComputedStyle(t.closest('.node').querySelector('.shape')).fill) : page;
    const front = lum(style.fill);
    found[t.getAttribute('class') + style.fill] = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  });
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_of_pictures_have_contrast(scheme: str, opened: Callable[..., Any]) -> None:
    """Texts of pictures, which axe-core does not judge: on the page, in a box, or around with a rim."""
    found = opened("everything", color_scheme=scheme).evaluate(CONTRASTS)
    assert len(found) >= 4
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


def test_pages_print(opened: Callable[..., Any], tmp_path: Path) -> None:
    page = opened("everything", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").stat().st_size > 20_000
