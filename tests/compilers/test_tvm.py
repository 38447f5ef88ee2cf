"""Programs for TVM: every bit of the reference where sums are exact, and the spikes of the digits models."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.emitters.steps.emit import TVM, TvmOptions
from nirbridge.errors import UsageError
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Scale
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


@pytest.mark.parametrize("batch", [1, 3])
def test_its_own_search_changes_no_bit(batch: int) -> None:
    """Schedules for one batch; another one takes TVM's own."""
    network = dense(np.random.default_rng(0))
    program = TVM.emit(network, TvmOptions(tune=16, batch=3))
    (note,) = json.loads(program.files["manifest.json"])["notes"]
    assert re.match(r"TVM searched 16 trials for batch 3: [\d.]+ us a time step before, [\d.]+ after", note)
    has_schedules = "database_tuning_record.json" in program.files
    assert has_schedules != note.endswith("so no schedules are kept")
    x = (np.random.default_rng(1).random((5, batch, 9)) < 0.4).astype(np.float32)
    assert_equal(TVM.run(program, x).arrays, simulate(network, x, backend="numpy").recording.arrays)


@pytest.mark.parametrize(("options", "found"), [(TvmOptions(tune=-1), "tune -1"), (TvmOptions(batch=0), "batch 0")])
def test_options_out_of_range(options: TvmOptions, found: str) -> None:
    with pytest.raises(UsageError, match=f"options of emitter 'tvm': {found}, a whole number from"):
        TVM.emit(dense(np.random.default_rng(0)), options)


def test_one_sample_without_a_batch_and_the_same_bytes() -> None:
    network = dense(np.random.default_rng(0))
    program = TVM.emit(network, None)
    assert program.files == TVM.emit(network, None).files
    x = (np.random.default_rng(1).random((5, 9)) < 0.4).astype(np.float32)
    assert_equal(TVM.run(program, x).arrays, simulate(network, x, backend="numpy").recording.arrays)


def test_one_output_and_no_state() -> None:
    """TVM returns the only output in no tuple."""
    network = dense(np.random.default_rng(0))
    wire = Projection("in", "out", Scale(freeze(np.arange(9) / 4)))
    network = replace(network, populations=(), projections=(wire,), outputs=(Port("out", (9,)),))
    x = (np.random.default_rng(1).random((5, 2, 9)) < 0.4).astype(np.float32)
    found = TVM.run(TVM.emit(network, None), x).arrays
    assert_equal(found, simulate(network, x, backend="numpy").recording.arrays)
