"""The warning that says what of a saved graph other tools drop; none of what they only do in their own way."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ExportWarning
from nirbridge.importers import from_snntorch, from_torch, save_nir
from nirbridge.network.nir.portability import _is_convention, export_warnings, warn_of_tools
from nirbridge.pipeline import network_of_shapes
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
nn = torch.nn


def imported(framework: str) -> Any:
    if framework == "torch":
        return from_torch(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.zeros(4), torch.rand(8, 4))
    model = nn.Sequential(nn.Linear(4, 3), snn.Leaky(beta=0.9, init_hidden=True))
    return from_snntorch(model, torch.zeros(4))


def test_an_ordinary_import_is_saved_without_a_warning(tmp_path: Path) -> None:
    """Its differences are conventions of tools, and stand in its metadata."""
    graph = imported("snntorch")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExportWarning)
        save_nir(graph, tmp_path / "m.nir")
    text = graph.metadata["nirbridge:warnings"]
    assert all(word in text for word in ("dt = ", "integrator euler", "v > threshold", "reset by subtraction"))


def test_who_saves_what_other_tools_drop_is_warned_once_at_their_line(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExportWarning)
        graph = imported("torch")  # nobody reads it yet
    with pytest.warns(ExportWarning) as caught:
        save_nir(graph, tmp_path / "m.nir")
    assert [w.category for w in caught] == [ExportWarning]
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert "\n" not in text
    first = text.removeprefix("plain NIR cannot express ").partition(", and ")[0]
    assert first in graph.metadata["nirbridge:warnings"].split("\n")


@pytest.mark.parametrize(
    "changes",
    [{"max_spikes": 3}, {"refractory_steps": np.array(2)}, {"v_init": np.array(0.5, np.float32)}, {"reset": "none"}],
)
def test_content_beyond_plain_nir_is_warned_of(changes: dict[str, Any]) -> None:
    network = network_of_shapes("4 dense3 lif dense2 lif")
    first, *others = network.populations
    assert all(map(_is_convention, export_warnings(network)))
    populations = (replace(first, neuron=replace(first.neuron, **changes)), *others)
    texts = export_warnings(replace(network, populations=populations))
    assert sum(not _is_convention(text) for text in texts) == 1
    with pytest.warns(ExportWarning, match=f"^plain NIR cannot express population '{first.name}': "):
        warn_of_tools(texts)


def test_without_differences_there_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_tools(())
