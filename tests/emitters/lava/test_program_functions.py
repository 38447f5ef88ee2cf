"""Functions of emitted programs, extracted from their text and called without Lava."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.lava.emit import emit
from tests.emitters import hand_made as made


@pytest.fixture(scope="module")
def delayed() -> Callable[..., Any]:
    module = ast.parse(emit(made.random_network(1)).files["run.py"])
    [function] = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "delayed"]
    scope: dict[str, Any] = {"np": np}
    exec(compile(ast.Module([function], []), "run.py", "exec"), scope)
    return scope["delayed"]


@pytest.mark.parametrize("steps", [[0, 1, 2], [3, 4, 5], [4, 4, 9], 4, 7, 0])
def test_reads_with_delays_longer_than_the_run(steps: Any, delayed: Callable[..., Any]) -> None:
    values = np.arange(1, 13).reshape(4, 3)
    late = np.broadcast_to(steps, 3)
    expected = [[values[t - d, k] if t >= d else 0 for k, d in enumerate(late)] for t in range(4)]
    assert np.array_equal(delayed(values, np.asarray(steps)), expected)
