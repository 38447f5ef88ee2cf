"""The table of docs/nir-files.md: error of the exporters' files before and after each repair."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nirtorch", reason="the exporters need nirtorch")
from tests.importers.nirfile.exporter_models import CASES, LOST

NAMES = {
    "snntorch": ("snnTorch", "snntorch"),
    "norse": ("Norse", "norse.torch"),
    "sinabs": ("Sinabs", "sinabs.layers"),
    "spikingjelly": ("spikingjelly", "spikingjelly.activation_based"),
    "rockpool": ("Rockpool", "rockpool.nn.modules.torch"),
}
pytestmark = pytest.mark.filterwarnings("ignore")  # what the exporters themselves warn of is not this project's


@pytest.mark.parametrize("framework", CASES)
def test_the_table_is_what_runs_show_and_every_repair_is_exact(framework: str, root: Path) -> None:
    title, package = NAMES[framework]
    pytest.importorskip(package, reason=f"{framework} is not installed")
    page = (root / "docs" / "nir-files.md").read_text("utf-8").splitlines()
    found = list(CASES[framework]())
    assert all(case.theirs.any() for case in found)
    assert [line for line in page if line.startswith(f"| {title} |")] == [case.row() for case in found]
    assert all(case.row().endswith("| 0.0 |") for case in found if case.repair != LOST)
