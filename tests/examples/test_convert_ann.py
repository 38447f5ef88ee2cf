"""The example of a converted network prints the accuracies stated in its file and in the documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("model", ["cnn", "residual"])
def test_convert_ann(model: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "convert_ann.py"), model]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    original = re.search(r"original: ([\d.]+)% of 597 test images", done.stdout)
    rows = {int(s): float(p) for s, p in re.findall(r"^ *(\d+) time steps: ([\d.]+)%", done.stdout, re.MULTILINE)}
    assert original is not None
    assert sorted(rows) == [4, 8, 16, 32, 64]
    assert rows[16] > float(original[1]) - 0.5
    assert rows[64] >= float(original[1])
