"""Rows -> the text of docs/equivalence.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.equivalence_causes import TEXTS
from benchmarks.equivalence_measure import HIGHEST, LIVELIEST, QUIETEST, Cell, Row
from benchmarks.equivalence_model import BATCH, SEEDS, STEPS
from benchmarks.equivalence_rivals import IMPORTERS

TOOLS = tuple(IMPORTERS)
TITLES: Mapping[str, str] = {"torch": "Converted PyTorch networks"}
PACKAGES = ("torch", "snntorch", "norse", "sinabs", "spikingjelly", "rockpool", "nir", "nirtorch")

INTRO = """# Equivalence: imported models beside their originals

This page is written by `python -m benchmarks.equivalence -o docs/equivalence.md`: every figure is of a run. A slow test
makes it again and compares it byte by byte; a quick one does so for some of the rows.

Each row is one model with weights of a random draw. The original runs in its own framework; the importer reads it and
writes a `.nir` file; the reference simulator runs what it reads back from that file; the readers of three frameworks
get the same file. All get the same {steps} steps x batch of {batch}, for {seeds} seeds, from rest. A figure is the
share of output cells (step, sample, neuron) that hold the same number of spikes: **100.0 % is said only where no cell
differs**.

* **spikes**: output spikes of the original, and the share of its cells that fire. A row where less than {quiet:.1%} or
  more than {lively:.0%} of them do is an error of the page, so no row compares silence with silence.
* **reference**: nirbridge. {exact} of {total} models have a form that the [importers](importers.md) call exact.
* **snnTorch, Norse, spikingjelly**: `snntorch.import_nir.import_from_nir`, `norse.torch.from_nir`,
  `spikingjelly.activation_based.nir_exchange.import_from_nir`, with the dt of the file where they take one. They do not
  read `nirbridge:` metadata, so what plain NIR cannot say is lost to them. Letters say what is known to
  differ, numbers what they answer.

## What equal means where sums are rounded

Float32 sums depend on their order, and a framework's matrix library adds in an order of its own. So that a differing
cell is a difference of meaning and not of rounding, weights and biases lie on a grid of 2^-10: with spikes as input,
every sum is exact in any order (cells that send more than {highest} spikes a step are an error as well). Decays and
gains are what they are: a potential that is rounded elsewhere could fall on the other side of a threshold by a few
2^-24. Read-outs send potentials, not spikes; they show how far these are from each other.

`python -m benchmarks.equivalence --off-grid` prints the same page on Gaussian weights, where the last bit of a sum may
decide.
"""


def page(rows: Sequence[Row]) -> str:
    """The whole page."""
    exact = sum(r.model.is_exact for r in rows)
    facts = {"steps": STEPS, "batch": BATCH, "seeds": len(SEEDS), "quiet": QUIETEST, "lively": LIVELIEST}
    parts = [INTRO.format(**facts, exact=exact, total=len(rows), highest=HIGHEST), _versions()]
    answers = _answers(rows)
    for framework in dict.fromkeys(r.model.framework for r in rows):
        mine = [r for r in rows if r.model.framework == framework]
        parts.append(f"## {TITLES.get(framework, framework)}\n\n" + "\n".join(_table(mine, answers)) + "\n")
    return "\n".join((*parts, _legend(rows, answers)))


def _versions() -> str:
    from importlib.metadata import version

    found = ", ".join(f"{name} {version(name).partition('+')[0]}" for name in PACKAGES)
    return f"Versions: {found}.\n"


def _table(rows: list[Row], answers: Mapping[str, int]) -> Iterator[str]:
    yield "| model | spikes | reference | " + " | ".join(TOOLS) + " | remark |"
    yield "|---|---|---|" + "---|" * (len(TOOLS) + 1)
    for row in rows:
        cells = [_cell(row.others[tool], row, answers) if tool in row.others else "" for tool in TOOLS]
        yield "| " + " | ".join((row.model.name, _spikes(row), reference(row), *cells, remark(row))) + " |"


def _spikes(row: Row) -> str:
    if row.model.is_refused:
        return ""
    if row.model.kind == "potential":
        return "(potentials)"
    share = "" if row.model.kind == "decisions" else f" ({row.fired / row.reference.cells:.1%})"
    return f"{row.spikes:,}{share}"


def reference(row: Row) -> str:
    """What the reference column says."""
    if row.model.is_refused:
        return "refused"
    return _figure(row.reference, row)


def remark(row: Row) -> str:
    """The reason of a figure that is not 100.0 %, or of a refusal."""
    return (row.reference.reason or row.model.reason).replace("|", "/")


def _cell(cell: Cell, row: Row, answers: Mapping[str, int]) -> str:
    if cell.reason:
        return f"no ({answers[cell.reason]})"
    text = _figure(cell, row)
    return text if cell.equal == cell.cells or not cell.causes else f"{text} {''.join(cell.causes)}"


def _figure(cell: Cell, row: Row) -> str:
    """``100.0 %`` only where all is equal; else rounded down. Potentials: how near, as a power of ten."""
    if row.model.kind == "potential" and cell.worst:
        near = 10.0 ** math.ceil(math.log10(cell.worst / row.span))
        return f"within {near:.0e} of their range" if near < 1e-3 else "other values"
    return f"{math.floor(1000 * cell.equal / cell.cells) / 10:.1f} %"


def _answers(rows: Sequence[Row]) -> dict[str, int]:
    """Every answer of a tool that is no figure -> its number."""
    texts = dict.fromkeys(c.reason for r in rows for c in r.others.values() if c.reason)
    return {text: k for k, text in enumerate(texts, start=1)}


def _legend(rows: Sequence[Row], answers: Mapping[str, int]) -> str:
    used = sorted({letter for r in rows for c in r.others.values() if c.equal < c.cells for letter in c.causes})
    lines = ["## Letters and numbers", "", "What the other tools' readers do with the file, read in their code:", ""]
    lines += [f"* **{letter}**: {TEXTS[letter]}" for letter in used]
    lines += ["", "What they answer:", ""]
    lines += [f"{number}. `{text}`" for text, number in answers.items()]
    return "\n".join(lines) + "\n"
