"""Another simulator beside ours: an emitter that gives figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge import plugins
from nirbridge.errors import UsageError
from nirbridge.mapping.model import MappedNetwork
from nirbridge.profiling.model import Witness
from tests.profiling.nets import spikes, two_layers

NETWORK = two_layers(np.full((4, 3), 1.5), np.full((2, 4), 1.5))
INPUTS = spikes(9, 6, 3)


@dataclass(frozen=True)
class Other:
    """An emitter that gives made-up figures of a map."""

    equal: bool = True

    def figures(self, mapped: MappedNetwork, inputs: Any, *, progress: Any) -> Witness:
        assert inputs["in"].shape == INPUTS.shape
        assert mapped.chip.name == "loihi1"
        circuit = {"luts": 2890, "clock_hz": 92.26e6}
        return Witness("other", "1.2", self.equal, 7.5, 2.5e-9, 1e-6, INPUTS.shape[1], ("a note",), circuit)


def _get(witness: Other) -> Any:
    known = plugins.get
    return lambda kind, name: witness if kind == "emitters" else known(kind, name)


def profiled(monkeypatch: pytest.MonkeyPatch, witness: Other) -> nb.Profile:
    monkeypatch.setattr(plugins, "get", _get(witness))
    return nb.profile(NETWORK, "loihi1", INPUTS, target="other")


def test_its_figures_stand_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profiled(monkeypatch, Other())
    witness = profile.points[0].witness
    assert witness is not None
    assert (witness.name, witness.version, witness.samples, witness.spikes_equal) == ("other", "1.2", 6, True)
    row = profile.rows()[0]
    assert (row["witness"], row["witness_spikes_equal"]) == ("other 1.2", True)
    assert row["witness_energy_per_inference_j"] == 2.5e-9
    assert row["witness_time_per_inference_s"] == 1e-6
    assert (row["witness_luts"], row["witness_clock_hz"], row["witness_block_rams"]) == (2890, 92.26e6, None)
    text = profile.summary()
    assert "beside other 1.2" in text
    assert "6 samples" in text
    assert any(line.split() == ["luts", "2,890"] for line in text.splitlines())


def test_its_figures_stand_below_a_table_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "get", _get(Other()))
    text = nb.profile(NETWORK, "loihi1", INPUTS, bits=[4, 8], target="other", effort="fast").summary()
    assert text.count("beside other 1.2") == 2
    assert "beside other 1.2, loihi1, 4 bits, cores" in text
    assert text.count("2.5 nJ") == 2


def test_spikes_that_differ_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profiled(monkeypatch, Other(equal=False))
    witness = profile.points[0].witness
    assert witness is not None
    assert not witness.spikes_equal
    assert "not equal" in profile.summary()


def test_a_map_without_integers_has_no_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "get", _get(Other()))
    with pytest.raises(UsageError, match="runs the integers of a map, this map has none"):
        nb.profile(NETWORK, "loihi1", INPUTS, target="other", placement_only=True, retime="never")
