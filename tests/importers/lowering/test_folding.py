"""The reported error of folding a BatchNorm, compared with torch."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import UnequalImport
from nirbridge.importers.ann.from_torch import convert_torch
from nirbridge.importers.frameworks.snntorch import from_snntorch
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
nn = torch.nn


def settled(*layers: Any) -> Any:
    """The layers in eval mode, normalizations with statistics of their own."""
    torch.manual_seed(2)
    for layer in layers:
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.running_mean.uniform_(-1, 1)
            layer.running_var.uniform_(0.1, 3)
            with torch.no_grad():
                layer.weight.uniform_(0.2, 2)
                layer.bias.uniform_(-1, 1)
    return nn.Sequential(*layers).eval()


def lif() -> Any:
    return snn.Leaky(beta=0.9, init_hidden=True)


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_the_note_states_a_figure_of_float32(kind: str) -> None:
    layers = (nn.Linear(20, 9), nn.BatchNorm1d(9)) if kind == "linear" else (nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5))
    sample = torch.zeros(20) if kind == "linear" else torch.zeros(2, 6, 6)
    notes = from_snntorch(settled(*layers, lif()), sample).metadata["nirbridge:notes"]
    found = re.search(r"module '1': BatchNorm folded .* off by ([\d.e+-]+) at most, ([\d.e+-]+) of the largest", notes)
    assert found is not None
    largest, share = (float(text) for text in found.groups())
    assert 0 < share < 2e-6  # some units in the last place of float32
    assert 0 < largest < 2e-5


def test_the_figure_sees_a_fold_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    from nirbridge.importers.lowering import linear_layers

    right = linear_layers._scaled
    monkeypatch.setattr(linear_layers, "_scaled", lambda term, factor, *more: right(term, factor * 1.01, *more))
    module = settled(nn.Linear(20, 9), nn.BatchNorm1d(9), lif())
    with pytest.raises(UnequalImport, match=r"self-check: .* the import"):
        from_snntorch(module, torch.zeros(20))
    notes = from_snntorch(module, torch.zeros(20), check=0).metadata["nirbridge:notes"]
    found = re.search(r"([\d.e+-]+) of the largest", notes)
    assert found is not None
    assert float(found[1]) > 1e-3


def test_a_normalization_without_weights_in_front_is_no_fold() -> None:
    notes = from_snntorch(settled(nn.BatchNorm1d(6), lif()), torch.zeros(6)).metadata["nirbridge:notes"]
    assert "one factor and one constant per channel" in notes


def test_a_conversion_states_what_reading_changed_on_the_calibration_data() -> None:
    module = settled(nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4))
    data = torch.rand(30, 2, 6, 6)
    conversion = convert_torch(module, data[:1], data)
    report, notes = conversion.report, conversion.graph.metadata["nirbridge:notes"]
    with torch.no_grad():
        assert report.output_size == pytest.approx(float(module(data).abs().max()))
    assert 0 < report.folding_error < 1e-5 * report.output_size
    share = re.search(
        r"folded weights: outputs are off by [\d.e+-]+ at most on calibration data, ([\d.e+-]+) of", notes
    )
    assert share is not None
    np.testing.assert_allclose(float(share[1]), report.folding_error / report.output_size, rtol=0.1)
