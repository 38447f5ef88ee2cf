"""The snnTorch example runs and reports identical outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.test_examples import output

pytest.importorskip("snntorch", reason="snntorch is not installed")


def test_import_snntorch(tmp_path: Path) -> None:
    assert "100.0% of 4,000 outputs are identical" in output("import_snntorch.py", tmp_path)
    assert (tmp_path / "classifier.nir").exists()
