"""A profile beside SANA-FE names the cause of a difference in time, measured by another run of SANA-FE."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.chips import read_chip
from nirbridge.emitters.sanafe import run as sanafe_runs
from nirbridge.emitters.witness import StageTimes, Witness
from nirbridge.network import Network
from nirbridge.pipeline import network_of_shapes
from nirbridge.report.profile_document import differs, time_causes
from tests.emitters.sanafe.networks import needs_sanafe


def busy() -> tuple[Network, np.ndarray]:
    """Two convolutions on two cores between which many messages are in flight, one with a delay; and its input."""
    network = network_of_shapes("3x8x8 conv30k3 cubalif conv40k3 lif flatten dense12 lif")
    rng, outputs = np.random.default_rng(19), {port.name for port in network.outputs}
    late = tuple(0 if p.target in outputs else int(rng.integers(0, 4)) for p in network.projections)
    pairs = zip(network.projections, late, strict=True)
    network = replace(network, projections=tuple(replace(p, delay_steps=p.delay_steps + d) for p, d in pairs))
    inputs = rng.random((12, 1, *network.inputs[0].shape)) < rng.uniform(0.1, 0.5)
    return network, inputs.astype(np.uint8)


@needs_sanafe
def test_waiting_in_the_network_is_measured_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    network, inputs = busy()
    measured: list[StageTimes] = []
    measure = sanafe_runs.stage_times
    monkeypatch.setattr(sanafe_runs, "stage_times", lambda *args: measured.append(measure(*args)) or measured[-1])
    options = {"effort": "fast", "potentials": False, "target": "sanafe"}
    profile = nb.profile(network, "loihi1", inputs, **options)
    point = profile.points[0]
    witness, ours = point.witness, point["time_per_inference_s"]
    assert witness is not None
    assert ours is not None
    assert witness.time_s is not None
    assert witness.spikes_equal
    assert differs(ours, witness.time_s)
    (stages,) = measured
    assert stages.simple_s is not None
    assert stages.total_s == pytest.approx(ours, rel=1e-3)
    assert max(stages.neurons_s, stages.messages_s) < stages.simple_s <= stages.total_s * (1 + 1e-9)
    (note,) = witness.notes
    assert "is waiting of messages for others on their route" in note
    text = " ".join(profile.summary().split())
    assert " ".join(note.split()) in text


@needs_sanafe
def test_stages_that_follow_each_other_in_our_model_are_named() -> None:
    """Nothing waits on one core; the difference is that of the stages, which SANA-FE overlaps."""
    chip = read_chip("loihi1")
    chip = replace(chip, time=replace(chip.time, overlap=False))
    network = network_of_shapes("20 dense40 lif dense10 lif")
    inputs = (np.random.default_rng(3).random((6, 2, 20)) < 0.5).astype(np.uint8)
    witness = nb.profile(network, chip, inputs, effort="fast", target="sanafe").points[0].witness
    assert witness is not None
    first, second = witness.notes
    assert "shorter than ours" in first
    assert "0 s is waiting" in first
    assert second.endswith("stages follow each other in our model of this chip, and overlap in sanafe's")
    labels = [part.rsplit(": ", 1)[-1] for part in second.split("; ")[0].split(", ")][-3:]
    pairs = [label.split(" and ") for label in labels]
    assert all(mine.endswith(theirs) for mine, theirs in pairs), second  # each stage alone is the same


def test_the_rest_is_told_by_stages() -> None:
    witness = Witness("other", "1", True, 1.0, None, 4.5e-6, 1)
    ours, theirs = StageTimes(1e-6, 5e-7, 3e-7, 2e-7), StageTimes(3e-6, 2.5e-6, 4e-7, 1e-7)
    first, second = time_causes(witness, ours, theirs, overlap=True)
    assert first.startswith("its time is 3.5 us longer than ours: of other's 4.5 us, 1.5 us is waiting of messages")
    assert first.endswith("without waiting its own delays add up to 3 us (ours: 1 us)")
    assert second.endswith("neurons 500 ns and 2.5 us, incoming messages 300 ns and 400 ns, barrier 200 ns and 100 ns")
    assert len(list(time_causes(witness, ours, replace(theirs, total_s=1.05e-6), overlap=True))) == 1
    assert not differs(1e-6, None)
