"""Kernels of Triton as text, which needs no triton; tests/compilers/test_triton.py runs them."""

from __future__ import annotations

import ast
import importlib.util
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.triton.emit import TRITON, TritonOptions, emit
from nirbridge.errors import ModelError, ToolMissing, UsageError
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Dense
from tests.emitters.c.programs import random_networks
from tests.emitters.oracles import ORACLES, dense, drawn, lif, recurrent, side_by_side, whole


@pytest.mark.parametrize("form", ["layers", "mega"])
def test_every_file_is_python_and_the_same_again(form: Any) -> None:
    networks = [make(np.random.default_rng(0)) for make in ORACLES] + [drawn(seed) for seed in range(8)]
    for network in (*networks, side_by_side(networks)):
        program = emit(network, TritonOptions(form))
        assert program.digest == emit(network, TritonOptions(form)).digest
        for name in ("network.py", "run.py", "compile.py"):
            ast.parse(program.files[name].decode("ascii"))
        text = program.files["network.py"].decode()
        with np.load(io.BytesIO(program.files["weights.npz"])) as weights:
            assert all(f"{key}_ptr" in text or f'"{key}"' in text or f"'{key}'" in text for key in weights.files)


def test_names_of_the_model_cannot_become_code() -> None:
    network, bad = recurrent(np.random.default_rng(0)), 'x\nimport os\r\x0b\u2028os.remove(\'a\') @KERNELS@ """ p9_ptr'
    trees = [
        ast.dump(ast.parse(emit(n).files["network.py"].decode("ascii"))) for n in (network, _renamed(network, bad))
    ]
    assert trees[0] == trees[1]


def _renamed(network: Network, name: str) -> Network:
    populations = tuple(replace(p, name=name) for p in network.populations)
    ends = [(name if p.source == "a" else p.source, name if p.target == "a" else p.target) for p in network.projections]
    edges = (replace(p, source=a, target=b) for p, (a, b) in zip(network.projections, ends, strict=True))
    return replace(network, populations=populations, projections=tuple(edges))


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    network = dense(np.random.default_rng(0))
    with pytest.raises(ModelError, match="network: has no output"):
        emit(replace(network, outputs=(), projections=network.projections[:-1]))
    with pytest.raises(UsageError, match="model of emitter 'triton'.*emit the network itself"):
        TRITON.emit(random_networks(range(1)))
    with pytest.raises(UsageError, match="form 'small', layers or mega"):
        TRITON.emit(network, TritonOptions("small"))  # pyright: ignore[reportArgumentType]
    wide = np.broadcast_to(np.float64(0.5), (70_000, 70_000))  # no memory
    sizes = [Population(name, (70_000,), lif()) for name in "ab"]
    with pytest.raises(ModelError, match=r"array c0_weight: has 4,900,000,000 elements, .*2,147,483,647"):
        emit(whole((sizes[0], sizes[1]), (Projection("a", "b", Dense(wide)),), "b", (2,)))
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "triton" else found(name))
    with pytest.raises(
        ToolMissing, match=r"emitter 'triton': the package triton .*pip install \"nirbridge\[triton\]\""
    ):
        TRITON.run(emit(network), np.ones((3, 9)))
