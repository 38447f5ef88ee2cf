"""Step programs with JAX and IREE: the interpreter on JAX, and rules that their programs follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.emitters.iree.emit import IREE
from nirbridge.emitters.jax.emit import JAX
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from tests.cases import cases
from tests.emitters.held_out import dyadic_network, fixed_network
from tests.program.test_every_target import assert_computed_by, by
from tests.program.test_rules_as_terms import adapting, assert_follows_a_changed_rule, remembering
from tests.program.test_whole_networks import ALL, STEPS, assert_the_same, evaluator, in_two_parts
from tests.stack.needs import needs

pytestmark = needs("jax", "iree.compiler")


def test_the_interpreter_on_jax(root: Path) -> None:
    import jax
    import jax.numpy as jnp

    network = nb.load(root / "examples" / "models" / "digits_mlp.nir")
    name, quantized = network.inputs[0].name, nb.quantize(network, "loihi2")
    x = (np.random.default_rng(0).random((STEPS, 2, *network.inputs[0].shape)) < 0.4).astype(np.float32)
    reals = simulate(network, {name: x}, record=ALL, backend="reference").recording.arrays
    integers = simulate_fixed(quantized, {name: x}, record=ALL).recording.arrays
    with jax.enable_x64(True):
        found = in_two_parts(evaluator(network, "jax"), {name: jnp.asarray(x)}, 2)
        whole = in_two_parts(evaluator(quantized, "jax"), {name: jnp.asarray(x, jnp.int64)}, 2)
    assert assert_the_same(dict(reals), found) > 4
    assert assert_the_same({key: a for key, a in integers.items() if key[0] != name}, whole) > 4


@pytest.mark.parametrize("emitter", [JAX, IREE], ids=lambda e: e.name)
def test_a_changed_rule_is_what_programs_compute(emitter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_follows_a_changed_rule(emitter, monkeypatch)


@pytest.mark.parametrize("make", [fixed_network, dyadic_network], ids=["integers", "reals"])
@pytest.mark.parametrize("emitter", [JAX, IREE], ids=lambda e: e.name)
@pytest.mark.parametrize("first", cases([2000], range(2000, 2100, 10)))
def test_random_networks(emitter: Any, make: Any, first: int) -> None:
    assert_computed_by(emitter, by(emitter), make, range(first, first + cases(2, 10)))


@pytest.mark.parametrize("rule", [adapting, remembering])
@pytest.mark.parametrize(("emitter", "first"), [(JAX, 700), (IREE, 0)])
def test_a_state_that_a_rule_adds_is_carried(
    emitter: Any, first: int, rule: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_follows_a_changed_rule(emitter, monkeypatch, rule, b=first)  # a module of IREE has the record's own
