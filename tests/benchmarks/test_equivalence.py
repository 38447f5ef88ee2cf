"""docs/equivalence.md agrees with measurements: some rows in every test run, all of them in the slow one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "equivalence.md"
FRAMEWORKS = ("snntorch", "norse", "sinabs", "spikingjelly", "rockpool")
CROSS_SECTION = (
    ("snnTorch", "Leaky, subtract, late (the default)"),
    ("snnTorch", "Leaky, zero, beta and threshold per neuron"),
    ("snnTorch", "Synaptic, zero, late"),
    ("snnTorch", "Synaptic, subtract, early"),
    ("snnTorch", "RLeaky, zero, early"),
    ("snnTorch", "Lapicque, subtract"),
    ("snnTorch", "residual sum of spikes"),
    ("snnTorch", "branches, flipped input, slices, joined"),
    ("snnTorch", "Conv2d, AvgPool2d, Flatten, Dropout"),
    ("snnTorch", "product of spikes (and)"),
    ("snnTorch", "mean over channels (einops.reduce)"),
    ("snnTorch", "Alpha"),
    ("Norse", "LIFCell, parameters per neuron"),
    ("Norse", "LIFRecurrentCell"),
    ("sinabs", "IAFSqueeze, several spikes per time step"),
    ("spikingjelly", "LIFNode, decay_input=False, v_reset = -0.25"),
    ("rockpool", "LIFTorch, recurrent"),
    ("PyTorch: neurons written by hand, and converted networks", "LSNN, adaptive threshold"),
)
pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's

Table = dict[tuple[str, str], list[str]]


def written(text: str) -> Table:
    """(framework, model) -> the other cells of its row; numbers of answers are replaced by the answers."""
    answers = dict(re.findall(r"^(\d+)\. `(.*)`$", text, re.MULTILINE))
    found: Table = {}
    framework = ""
    for line in text.splitlines():
        framework = line[3:] if line.startswith("## ") else framework
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "model":
            cells = [re.sub(r"^no \((\d+)\)$", lambda m: answers[m[1]], c) for c in cells]
            assert (framework, cells[0]) not in found
            found[framework, cells[0]] = cells[1:]
    return found


def models() -> dict[tuple[str, str], Any]:
    for name in FRAMEWORKS:
        pytest.importorskip(name, reason=f"{name} is not installed")
    from benchmarks.equivalence_models import models as all_of_them
    from benchmarks.equivalence_page import TITLES

    return {(TITLES.get(m.framework, m.framework), m.name): m for m in all_of_them()}


@pytest.mark.parametrize("key", CROSS_SECTION, ids=" ".join)
def test_a_row_gives_what_is_written(key: tuple[str, str]) -> None:
    from benchmarks.equivalence_measure import measure
    from benchmarks.equivalence_page import page

    found = written(page([measure(models()[key])]))
    assert found == {key: written(PAGE.read_text())[key]}


def test_no_model_is_left_out_and_every_exact_one_is_equal() -> None:
    from benchmarks.equivalence_converted import names
    from benchmarks.equivalence_page import TITLES

    known, kept = models(), written(PAGE.read_text())
    assert list(kept) == [*known, *((TITLES["torch"], name) for name in names())]
    assert len(kept) >= 36
    exact = [key for key, model in known.items() if model.is_exact]
    assert len(exact) >= 30
    assert {kept[key][1] for key in exact} == {"100.0 %"}
    for key, model in known.items():
        assert model.is_exact or kept[key][-1], f"{key} is not exact, and no reason stands there"


def test_a_row_of_silence_is_an_error() -> None:
    known = models()
    from dataclasses import replace

    from benchmarks.equivalence_measure import measure

    with pytest.raises(ValueError, match="are not 0"):
        measure(replace(known["snnTorch", "Leaky, zero, late"], scale=1e-3), others=False)


def test_a_difference_is_counted() -> None:
    """The comparison itself: one neuron whose threshold is another shows up in the figure."""
    known = models()
    import torch

    from benchmarks import equivalence_measure
    from benchmarks.equivalence_page import reference

    model = known["snnTorch", "Leaky, zero, early"]
    original = model.run

    def other_run(module: Any, inputs: Any) -> Any:
        module[3].threshold = torch.tensor(1.0)
        return original(module, inputs)

    from dataclasses import replace

    row = equivalence_measure.measure(replace(model, run=other_run), others=False)
    assert row.reference.equal < row.reference.cells
    assert reference(row) != "100.0 %"


@pytest.mark.slow
def test_the_page_is_what_the_command_gives() -> None:
    models()
    from benchmarks.equivalence import all_rows
    from benchmarks.equivalence_page import page

    assert page(all_rows()) == PAGE.read_text()
