"""A placement and its costs have the same bits on every processor: a child that adds as an old one does agrees."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHER = {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "FMA3 AVX2 AVX512F AVX512_SKX AVX512_ICL"}
"""The oldest kernels of BLAS for this kind of processor, and numpy without its wide instructions."""
CHILD = """
from nirbridge.mapping.cost import costs
from nirbridge.mapping.placement.place import place
from tests.mapping.known_searches import groups
from tests.mapping.tables import chip, table

for seed in range(6):
    nets = [(source, rate / 3.7 + 0.1, targets) for source, rate, targets in groups(seed, 24, 90)]
    placed = place(table(nets), 24, chip(5, 5), seed=seed, effort="fast")
    print(placed, costs(table(nets), placed, chip(5, 5), [1] * 24))
"""


def reported(**environment: str) -> str:
    own = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **environment}
    command = [sys.executable, "-c", CHILD]
    return subprocess.run(command, env=own, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="the kernels named are those of x86")
def test_placements_and_costs_do_not_depend_on_the_processor() -> None:
    assert reported() == reported(**OTHER)
