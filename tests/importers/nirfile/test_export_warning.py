"""The warning that names the tools that would run an imported graph differently."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from nirbridge.errors import ExportWarning
from nirbridge.importers import from_snntorch, from_torch, save_nir
from nirbridge.network.nir.portability import portability_message, warn_of_tools
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
nn = torch.nn


def imported(framework: str) -> Any:
    if framework == "torch":
        return from_torch(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.zeros(4), torch.rand(8, 4))
    model = nn.Sequential(nn.Linear(4, 3), snn.Leaky(beta=0.9, init_hidden=True))
    return from_snntorch(model, torch.zeros(4))


@pytest.mark.parametrize("framework", ["snntorch", "torch"])
def test_who_saves_an_import_is_warned_once_at_their_line(framework: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExportWarning)
        graph = imported(framework)  # nobody reads it yet
    with pytest.warns(ExportWarning) as caught:
        save_nir(graph, tmp_path / "m.nir")
    assert [w.category for w in caught] == [ExportWarning]
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert "\n" not in text
    differences = graph.metadata["nirbridge:warnings"].split("\n")
    assert f"{len(differences)} points" in text
    named = {t for t in ("Lava", "Nengo", "Norse", "Rockpool", "Sinabs", "snnTorch", "spikingjelly") if t in text}
    assert named == {"Nengo", "Norse", "Rockpool", "Sinabs", "spikingjelly"}
    for tool in named:
        assert any(tool in line for line in differences)


def test_without_differences_there_is_no_warning() -> None:
    warn_of_tools(())


def test_a_step_alone_concerns_tools_with_one_of_their_own() -> None:
    assert "(tools with a dt of their own): one point in" in portability_message(
        ["dt = 0.1 s is kept in metadata only"]
    )
