"""Every registered pass on random networks: valid networks, the same ports, and the promised outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nirbridge import plugins
from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.network import Network, same_network
from nirbridge.passes import Retime, run_passes
from nirbridge.passes.base import Pass
from nirbridge.passes.text import format_passes
from nirbridge.pipeline.passes import parse_passes
from nirbridge.simulators.simulate import simulate
from nirbridge.testing import networks
from tests.cases import cases
from tests.passes.retimed import on_grid

ROOT = Path(__file__).resolve().parents[2]
STEPS = 6
NAMES = plugins.names("passes", ())


def outputs(network: Network, steps: int, seed: int) -> dict[str, Array]:
    """What the reference simulator gives at every output; the first steps are the same for every number of steps."""
    rng = np.random.default_rng(seed)
    drawn = {p.name: rng.integers(0, 2, size=(64, *p.shape)) for p in network.inputs}
    inputs = {name: values[:steps] for name, values in drawn.items()}
    found = simulate(network, inputs, steps=steps, dtype="float64", backend="reference").recording.arrays
    return {node: array for (node, _), array in found.items()}


def rewritten(rewrite: Pass, network: Network) -> Network:
    """The network after a pass; examples that the pass refuses with reasons are left out."""
    try:
        return run_passes(network, [rewrite])
    except ModelError:
        assume(False)
        raise


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=cases(20, 40), deadline=None)
def test_every_pass_keeps_its_promise(name: str, data: Any) -> None:
    seed = data.draw(st.integers(0, 2**16))
    network = on_grid(data.draw(networks()), seed)
    kind: Any = plugins.get("passes", name)
    rewrite: Any = kind.example(network) if hasattr(kind, "example") else kind()
    assume(rewrite is not None)
    changed = rewritten(rewrite, network)
    assert (changed.inputs, changed.outputs) == (network.inputs, network.outputs)
    assert same_network(rewrite(network), changed)
    assert parse_passes(format_passes([rewrite])) == (rewrite,)
    if rewrite.promise == "changed":
        return
    late = {p.name: 0 for p in network.outputs}
    if rewrite.promise == "later":
        late = {node: Retime().retimed(network).latency[node] for node in late}
    before, after = outputs(network, STEPS, seed), outputs(changed, STEPS + max(late.values()), seed)
    for node, array in before.items():
        assert np.array_equal(array, after[node][late[node] : late[node] + STEPS])


@pytest.mark.parametrize("file", ["docs/passes.md", "tests/plugin/nirbridge_example_plugin/weights.py"])
def test_examples_declare_their_promise_as_built_in_passes_do(file: str) -> None:
    """Authors copy them; type checkers reject a class variable where the ``Pass`` Protocol has a property."""
    form = r"^    promise: (.*)$"
    built_in = re.findall(form, (ROOT / "nirbridge/passes/eliminate_dead.py").read_text("utf-8"), re.M)
    declared = re.findall(form, (ROOT / file).read_text("utf-8"), re.M)
    assert [re.sub('"(same|later|changed)"', "", text) for text in declared] == [
        text.replace('"same"', "") for text in built_in
    ]
