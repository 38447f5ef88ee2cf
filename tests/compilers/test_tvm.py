"""Programs for TVM: every bit of the reference where sums are exact, and the spikes of the digits models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nirbridge.emitters.steps.emit import TVM
from nirbridge.pipeline import load_network
from nirbridge.simulators.simulate import simulate
from tests.emitters.oracles import ORACLES, check_every_bit, dense, drawn, side_by_side
from tests.stack.needs import needs
from tests.stack.trained import DIGITS, RECORD, assert_equal

pytestmark = needs("tvm", "onnx", where="compilers")


def test_every_bit_of_the_oracles() -> None:
    check_every_bit(TVM, side_by_side([make(np.random.default_rng(0)) for make in ORACLES]))


def test_every_bit_of_drawn_networks() -> None:
    check_every_bit(TVM, side_by_side([drawn(seed) for seed in range(20)]))


@pytest.mark.parametrize("name", DIGITS)
def test_spikes_of_the_digits_models(name: str, root: Path) -> None:
    """Their sums are not exact: the order of the tool happens to move no spike here."""
    network = load_network(root / "examples/models" / f"{name}.nir")
    x = (np.random.default_rng(0).random((30, 4, *network.inputs[0].shape)) < 0.15).astype(np.float32)
    expected = simulate(network, x, record=RECORD).recording.arrays
    assert_equal(TVM.run(TVM.emit(network, None), x, record=RECORD).arrays, expected)


def test_one_sample_without_a_batch_and_the_same_bytes() -> None:
    network = dense(np.random.default_rng(0))
    program = TVM.emit(network, None)
    assert program.files == TVM.emit(network, None).files
    x = (np.random.default_rng(1).random((5, 9)) < 0.4).astype(np.float32)
    assert_equal(TVM.run(program, x).arrays, simulate(network, x, backend="numpy").recording.arrays)
