"""Imports from JAX frameworks are compared with the module's own run, as those of the other frameworks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import UnequalImport, UsageError
from nirbridge.importers import from_snnax, from_spyx
from nirbridge.importers.frameworks.jax_runs import snnax_module, spyx_module, with_jax_check
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.verification import jax_check
from tests.stack.needs import needs
from tests.stack.test_snnax import linear, sequential

pytestmark = [needs("snnax", "spyx", "jax"), pytest.mark.filterwarnings("ignore")]
SAMPLE = np.zeros(6, np.float32)


def spyx_net(**options: Any) -> Any:
    from flax import nnx
    from spyx import nn

    r = nnx.Rngs(0)
    return nn.Sequential(
        *(nnx.Linear(6, 8, rngs=r), nn.LIF((8,), beta=0.75, rngs=r, **options)),
        *(nnx.Linear(8, 5, rngs=r), nn.CuBaLIF((5,), 0.5, 0.9, rngs=r)),
    )


def snnax_net() -> Any:
    from snnax import snn

    return sequential(
        linear(6, 8), snn.LIF([0.9, 0.8], threshold=0.1), linear(8, 5), snn.SimpleLIF([0.7], threshold=0.05)
    )


def outcome(graph: Any) -> dict[str, Any]:
    return json.loads(graph.metadata["nirbridge:self_check"])


@pytest.mark.parametrize(("read", "net"), [(from_spyx, spyx_net), (from_snnax, snnax_net)])
def test_an_import_states_its_check(read: Any, net: Any) -> None:
    import jax

    module = net()
    before = [np.asarray(leaf) for leaf in jax.tree.leaves(module) if hasattr(leaf, "dtype")]
    found = outcome(read(module, SAMPLE))
    assert (found["outcome"], found["inputs"], found["outputs"]) == ("identical", 2, 3 * 32 * 4 * 5)
    assert found["text"].startswith("identical on 1,920 outputs (2 random inputs, [time, batch, 6], one call; ")
    assert outcome(read(module, SAMPLE, check=1))["outputs"] == 2 * 32 * 4 * 5
    assert "nirbridge:self_check" not in read(module, SAMPLE, check=0).metadata
    after = [np.asarray(leaf) for leaf in jax.tree.leaves(module) if hasattr(leaf, "dtype")]
    assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert not jax.config.jax_enable_x64
    with pytest.raises(UsageError, match="check: -1, a whole number from 0"):
        read(module, SAMPLE, check=-1)


def test_images_are_compared_channels_first() -> None:
    from flax import nnx
    from spyx import nn

    r = nnx.Rngs(0)
    module = nn.Sequential(nnx.Conv(2, 3, (3, 3), rngs=r), nn.IF((5, 4, 3)), nn.SumPool((2, 2), (2, 2), "VALID"))
    found = outcome(from_spyx(module, np.zeros((5, 4, 2))))
    assert (found["outcome"], found["outputs"]) == ("identical", 3 * 32 * 4 * 3 * 2 * 2)


@pytest.mark.parametrize("fault", ["threshold", "delay", "weight"])
@pytest.mark.parametrize(
    ("read", "net", "run"), [(from_spyx, spyx_net, spyx_module), (from_snnax, snnax_net, snnax_module)]
)
def test_a_wrong_import_is_refused(fault: str, read: Any, net: Any, run: Any) -> None:
    """A graph that is wrong in one place: a threshold 1 % higher, spikes one time step later, one weight."""
    module = net()
    graph = read(module, SAMPLE, check=0)
    firing = [node for node in graph.nodes.values() if hasattr(node, "v_threshold")]
    if fault == "threshold":
        firing[0].v_threshold = firing[0].v_threshold * 1.01
    elif fault == "delay":
        late = [node for node in graph.nodes.values() if hasattr(node, "delay")]
        late[0].delay = late[0].delay + 1e-3
    else:
        weights = next(node.weight for node in graph.nodes.values() if hasattr(node, "weight"))
        weights[0, 0] += 0.05
    from_nir(graph)  # it is a network all the same
    with pytest.raises(UnequalImport, match=r"self-check: output 'output', time step \d+.*the module gives"):
        with_jax_check(graph, run(module), SAMPLE, 3)


def test_a_module_that_fails_is_not_compared_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    import spyx

    def failing(*_: Any) -> Any:
        raise RuntimeError("no\nmore")

    monkeypatch.setattr(spyx.nn, "run", failing)
    found = outcome(from_spyx(spyx_net(), SAMPLE))
    assert (found["outcome"], found["outputs"]) == ("not-run", 0)
    assert "(as [time, batch, 6], one call: RuntimeError: no)" in found["text"]


def test_a_large_network_is_compared_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_check, "AFFORDABLE", 100)
    assert outcome(from_spyx(spyx_net(), SAMPLE))["text"].startswith(
        "skipped: about 2.4e+03 multiplications, by default"
    )
    assert outcome(from_spyx(spyx_net(), SAMPLE, check=1))["outputs"] == 2 * 8 * 5
    monkeypatch.undo()
    monkeypatch.setattr(jax_check, "ROOM", 1000)
    assert "bytes of memory, by default" in outcome(from_spyx(spyx_net(), SAMPLE))["text"]
