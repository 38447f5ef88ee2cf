"""Neurons written by hand, as public code has them: equal to the module on whole outputs, or refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
for framework in ("snntorch", "norse", "spikingjelly"):
    pytest.importorskip(framework, reason=f"{framework} is not installed")

from tests.importers.handwritten import cells, papers, refused  # noqa: E402
from tests.importers.handwritten.forms import MAY_BE_REFUSED, outcome  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's
EXACT = [*papers.forms(), *cells.forms()]
REFUSED = list(refused.forms())
BY_CHANCE = {"noise on the membrane", "sparch, random start", "spikes by chance"}


@pytest.mark.parametrize("form", EXACT, ids=str)
def test_a_form_is_what_the_canonical_neuron_computes(form: Any) -> None:
    """The expectation itself: the module's spikes by the equations of the canonical neuron."""
    module = form.module()
    for seed in (11, 12):
        x = form.inputs(seed)
        with torch.no_grad():
            expected = form.reduced(form.twin(module, x))
        assert torch.equal(form.run(module, x), expected)


@pytest.mark.parametrize("form", [*EXACT, *REFUSED], ids=str)
def test_a_form_fires_and_repeats(form: Any) -> None:
    module, x = form.module(), form.inputs(11)
    out = form.run(module, x)
    share = out.mean() / (len(x) if form.over == "sum" else 1) if form.over else (out != 0).float().mean()
    assert 0.02 < share < 0.98 or "readout" in form.name
    assert out.unique().numel() > 1
    assert torch.equal(out, form.run(module, x)) != (form.name in BY_CHANCE)


@pytest.mark.parametrize("form", EXACT, ids=str)
def test_an_exact_form_is_imported(form: Any) -> None:
    found = outcome(form)
    assert found == "equal" or (form.name in MAY_BE_REFUSED and found.startswith("refused: ")), found


@pytest.mark.parametrize("form", REFUSED, ids=str)
def test_a_form_without_an_exact_one_is_refused(form: Any) -> None:
    found = outcome(form)
    assert found.startswith("refused: ")
    assert form.found in found
    assert "convert=" not in found
    assert "no neurons that spike" not in found
