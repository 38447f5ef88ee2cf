"""The frameworks' tutorials and example networks: imported, self-checked, mapped, and verified on the map."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
for framework in ("snntorch", "norse", "sinabs", "spikingjelly", "rockpool"):
    pytest.importorskip(framework, reason=f"{framework} is not installed")

import nirbridge as nb  # noqa: E402
from nirbridge.network import from_nir  # noqa: E402
from tests.importers.tutorials import other_tutorials, snntorch_tutorials  # noqa: E402
from tests.importers.tutorials.forms import EQUAL, outcome, quiet  # noqa: E402

FORMS = [form for part in (snntorch_tutorials, other_tutorials) for form in part.forms()]
STEPS = 12


@pytest.mark.parametrize("form", [f for f in FORMS if f.wanted == EQUAL], ids=str)
def test_a_tutorial_is_imported_mapped_and_verified(form: Any) -> None:
    graph, source = form.graph(), np.random.default_rng(1)
    assert '"outcome": "identical"' in graph.metadata["nirbridge:self_check"]
    network = from_nir(graph)
    inputs = {p.name: (source.random((STEPS, *p.shape)) < 0.5).astype(np.float32) for p in network.inputs}
    with quiet():
        found = nb.verify(network, "loihi2", inputs, steps=STEPS)
    assert set(found.recordings) == {"reference", "fixed", "mapped"}
    assert found.holds
    busy = [name for name, values in found.recordings["reference"].arrays.items() if np.any(values)]
    assert len(busy) > len(network.populations) / 2, "most of the network is silent"


@pytest.mark.parametrize("form", [f for f in FORMS if f.wanted != EQUAL], ids=str)
def test_a_tutorial_without_an_exact_form_says_why(form: Any) -> None:
    found = outcome(form)
    assert found.startswith("refused: ")
    assert re.search(form.wanted, found), found
