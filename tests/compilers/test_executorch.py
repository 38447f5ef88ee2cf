"""A time step in ExecuTorch, on its portable kernels and on XNNPACK, every bit against the reference."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from benchmarks.executorch import BACKENDS, compared
from tests.emitters.oracles import ORACLES, drawn, side_by_side
from tests.stack.trained import DIGITS

MISSING = [name for name in ("executorch", "torchao", "ruamel") if find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed: see benchmarks/executorch.py"),
    pytest.mark.filterwarnings("ignore"),  # of torch.export and torchao
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", ORACLES)
def test_the_dyadic_oracle(make: Any, backend: str) -> None:
    exported, differing, _ = compared(make(np.random.default_rng(3)), backend, batch=3)
    assert not differing
    assert bool(exported.delegates) == (backend == "xnnpack")


def test_twenty_networks_in_one_program() -> None:
    assert not compared(side_by_side([drawn(seed) for seed in range(20)]), "portable")[1]


# one by one: lowering all of them at once to XNNPACK ends in "`lifted_tensor_72` is not a buffer" (1.5.1)
@pytest.mark.parametrize("seed", range(20))
def test_twenty_networks_on_xnnpack(seed: int) -> None:
    assert not compared(drawn(seed), "xnnpack", steps=12)[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DIGITS)
def test_digits(name: str, backend: str, root: Path) -> None:
    exported, differing, _ = compared(nb.load(root / "examples/models" / f"{name}.nir"), backend, 50)
    assert not [key for key in differing if key[1] == "s"]
    assert exported.data[4:8] == b"ET12"
