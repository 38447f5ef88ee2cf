"""README.md as the commands print today: its console blocks and its picture of a terminal session.

``python -m tests.golden.readme`` writes both again, and draws the network. The picture shows one screen after another:
an SVG of text that CSS animates, without scripts, fonts or addresses. It ends on the first screen, where it stays if
motion is unwanted.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import tempfile
import textwrap
from contextlib import chdir
from pathlib import Path
from xml.sax.saxutils import escape

from tests.golden.screens import screen

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "session.svg"
LINES, COLUMNS = 16, 72
"""The most lines of a block and of a screen of the picture; columns of the picture (a block has 80)."""
BLOCK = re.compile(r"(?<=^```console\n)\$ nirbridge (.+)\n[^`]*(?=^```$)", re.MULTILINE)
SESSION: tuple[tuple[tuple[str, slice], ...], ...] = (
    (
        ('check --shapes "784 dense128 lif dense10 lif" --chip loihi1', slice(None)),
        ('check --shapes "4900 dense128 lif dense10 lif" --chip loihi1', slice(None)),
        ('check --shapes "4900 dense128 lif dense10 lif" --chip loihi2', slice(None)),
    ),
    (("inspect digits_cnn.nir", slice(0, LINES - 2)),),
    (
        ("quantize digits_cnn.nir --chip loihi2 -o digits.q.npz", slice(-2, None)),
        ("emit digits.q.npz --to c -o firmware", slice(0, 1)),
        ("verify digits_cnn.nir --chip loihi2 --to c", slice(-5, None)),
    ),
)
"""Screens of (line, the lines of its output that are shown)."""
WIDE, HIGH, MARGIN, SECONDS = 7.8, 19, 18, 7
STYLE = """
rect { fill: #f6f8fa; stroke: #d0d7de }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }
text { fill: #24292f }
.line, circle { fill: #0550ae }
.line { font-weight: bold }
.dots { opacity: 0.25 }
.screen { animation: %(all)gs step-end 3 shown }
.screen + .screen { opacity: 0 }
@keyframes shown { 0%% { opacity: 1 } %(share)g%% { opacity: 0 } }
@media (prefers-color-scheme: dark) {
  rect { fill: #161b22; stroke: #30363d }
  text { fill: #e6edf3 }
  .line, circle { fill: #79c0ff }
}
@media (prefers-reduced-motion: reduce) { .screen { animation: none } }
"""


def shown(line: str, part: slice = slice(0, LINES), columns: int = 80) -> list[str]:
    """The line and a part of its output, with ``…`` for what is left out."""
    first, *output = screen(line, columns).splitlines()
    kept = output[part]
    before = ["…"] if kept and part.indices(len(output))[0] else []
    return [first, *before, *kept, *(["…"] if len(output[: part.stop]) < len(output) else [])]


def readme(text: str) -> str:
    """The page with every console block as its first command prints it, run in the checkout."""
    with chdir(ROOT):
        return BLOCK.sub(lambda match: "\n".join(shown(match[1])) + "\n", text)


def session() -> list[list[str]]:
    """The lines of each screen of ``SESSION``."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        shutil.copy(ROOT / "examples/models/digits_cnn.nir", folder)
        return [[row for line in one for row in rows(*line)][:-1] for one in SESSION]


def rows(line: str, part: slice) -> list[str]:
    """Rows of the terminal, long lines broken, and an empty one."""
    lines = [*shown(line, part, COLUMNS), ""]
    return [row for line in lines for row in textwrap.wrap(line, COLUMNS) or [""]]


def picture(screens: list[list[str]]) -> str:
    """The animated SVG; each line is stretched to its columns, whatever font there is."""
    width, height = COLUMNS * WIDE + 2 * MARGIN, max(map(len, screens)) * HIGH + 3 * MARGIN
    size = f'width="{width:g}" height="{height:g}"'
    style = STYLE % {"all": SECONDS * len(screens), "share": 100 / len(screens)}
    left = width / 2 - len(screens) // 2 * 16
    dots = [f'<circle cx="{left + 16 * i:g}" cy="{height - MARGIN:g}" r="4"/>' for i in range(len(screens))]
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:g} {height:g}" role="img">',
        f'<title>nirbridge in a terminal</title><style>{style}</style><rect {size} rx="6"/>',
        f'<g class="dots">{"".join(dots)}</g>',
    ]
    for index, (lines, dot) in enumerate(zip(screens, dots, strict=True)):
        drawn.append(f'<g class="screen" style="animation-delay: {index * SECONDS}s">{dot}')
        drawn += [_text(line, MARGIN + (row + 0.75) * HIGH) for row, line in enumerate(lines) if line] + ["</g>"]
    return "\n".join([*drawn, "</svg>"]) + "\n"


def _text(line: str, y: float) -> str:
    kind = ' class="line"' if line.startswith("$ ") else ""
    start = len(line) - len(line.lstrip())
    text, x, length = escape(line.strip()), MARGIN + start * WIDE, len(line.strip()) * WIDE
    return f'<text{kind} x="{x:g}" y="{y:g}" textLength="{length:g}" lengthAdjust="spacingAndGlyphs">{text}</text>'


if __name__ == "__main__":
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(session()), encoding="utf-8")
    runpy.run_path(str(ROOT / "examples/draw_digits_cnn.py"))["main"](str(PICTURE.with_name("digits_cnn.svg")))
