"""The fake back ends as an installed plugin, which the processes of a benchmark find, too."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def fake_back_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    site = tmp_path / "site"
    info = site / "nirbridge_fakes-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("fakes.py"), site / "nirbridge_fakes.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nirbridge-fakes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nirbridge.plugins]\nfakes = nirbridge_fakes:PLUGIN\n")
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop("nirbridge_fakes", None)
