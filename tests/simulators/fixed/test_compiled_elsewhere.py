"""Loops of integer neurons that other processes compiled: each is called in its own place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="numba is not installed")

SCRIPT = """
import sys
import numpy as np
from nirbridge.quantization.model import FixedInput
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Probe
from tests.emitters.c.programs import whole
from tests.emitters.hand_made import dense, neuron, population, projection, quantized

# their loops take the same types of arguments
FORMS = {"zero": neuron(dv=70, bias_mant=40), "none": neuron(dv=70, bias_mant=40, reset="none")}
for name in sys.argv[1:]:
    rng = np.random.default_rng(0)
    edges = [projection("in", "p", dense(rng, 7, 5))]
    net = whole(quantized([FixedInput("in", (5,))], [population("p", (7,), FORMS[name])], edges, ["p"]))
    x, record = (rng.random((40, 2, 5)) < 0.5).astype(np.uint8), [Probe("p", ("s", "u", "v"))]
    runs = [simulate_fixed(net, x, record=record, backend=b).recording.arrays for b in ("reference", "fast")]
    assert all(np.array_equal(values, runs[1][key]) for key, values in runs[0].items()), name
"""


def test_each_form_was_compiled_by_another_process(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIRBRIDGE_CACHE", str(tmp_path))
    for names in (["zero"], ["none"], ["zero", "none"], ["none", "zero"]):
        done = subprocess.run([sys.executable, "-c", SCRIPT, *names], cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, (names, done.stderr[-2000:])
