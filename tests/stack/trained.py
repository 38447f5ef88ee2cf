"""Trained models whose programs give the spikes of the reference, for the tests of several emitters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.network.model import Network
from nirbridge.pipeline import load_chip, load_network, verify_network
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Key, Probe
from nirbridge.verification.verify import verification_failures

RECORD = [Probe("*", ("s",))]
DIGITS = ("digits_mlp", "digits_cnn")
Arrays = Mapping[Key, Array]
Run = Callable[[Network, Array], Arrays]
"""What a program records of ``RECORD``."""


def check_digits(name: str, root: Path, target: str, *runs: Run) -> None:
    """Float32 sums are not exact there; integers are verified from the map on."""
    network = load_network(root / "examples/models" / f"{name}.nir")
    check_spikes(network, 50, 4, 0.15, *runs)
    checked = verify_network(network, load_chip("loihi2"), target=target, steps=30)
    assert verification_failures(checked) == []
    assert [p.b for p in checked.pairs if p.required] == ["mapped", target]


def check_model_of_the_paper(root: Path, run: Run) -> None:
    """Its last population fires on this input."""
    path = root.parent / "shared" / "data" / "nir_paper" / "02_cnn" / "cnn_sinabs.nir"
    if not path.exists():
        pytest.skip(f"{path.name} is not there: real files lie beside the checkout")
    assert check_spikes(load_network(path), 60, 2, 0.1, run)["12", "s"].sum() > 10


def check_spikes(network: Network, steps: int, samples: int, share: float, *runs: Run) -> Arrays:
    """Random spikes in, the same spikes of every population out; those of the reference."""
    x = (np.random.default_rng(0).random((steps, samples, *network.inputs[0].shape)) < share).astype(np.float32)
    reference = simulate(network, x, record=RECORD).recording.arrays
    for run in runs:
        assert_equal(run(network, x), reference)
    return reference


def assert_equal(found: Arrays, expected: Arrays) -> None:
    """The same variables with the same bits."""
    assert set(found) == set(expected)
    for key, array in expected.items():
        assert found[key].dtype == array.dtype, key
        assert np.array_equal(found[key], array), key
