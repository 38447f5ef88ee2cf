"""SANA-FE's energy and time of a map on data, and whether its spikes are those of the integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.sanafe.run import installed_version, run_program
from nirbridge.emitters.witness import StageTimes, Witness
from nirbridge.errors import counted
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Probe

_BLOCK_BYTES = 2**27
"""Recorded spikes of one run; a run loads the network once."""


def measure(
    mapped: MappedNetwork, program: Artifact, inputs: Mapping[str, Array], version: str, progress: Progress
) -> Witness:
    """Run a map on every sample, until the last spike has arrived everywhere.

    Args:
        mapped: the map.
        program: emitted of it.
        inputs: by name, ``[steps, samples, *shape]``.
        version: the version of SANA-FE that programs are made for.
        progress: called with a stage and the completed fraction.

    Raises:
        ModelError: a run that failed.
        ToolMissing: the package is not installed.
    """
    installed, quantized = installed_version(), integers_of(mapped)
    longest, samples = (next(iter(inputs.values())).shape[k] for k in (0, 1))
    steps = longest + max(quantized.latency.values(), default=0)
    probes = [Probe(p.name, ("s",)) for p in quantized.populations if p.neuron.fires]
    block = max(1, _BLOCK_BYTES // max(1, steps * quantized.neurons))
    found: list[Mapping[str, Any]] = []
    spikes, different = 0, 0
    for start in range(0, samples, block):
        some = {name: values[:, start : start + block] for name, values in inputs.items()}
        recording = run_program(program, some, steps=steps, record=probes, progress=progress)
        expected = simulate_fixed(quantized, some, steps=steps, record=probes).recording
        found += recording.meta["figures"]["samples"]
        for key, values in recording.arrays.items():
            spikes += int(values.sum(dtype=np.int64))
            different += int(np.count_nonzero(values != expected.arrays[key]))
    notes = () if installed == version else (f"programs are made for version {version}",)
    if different:
        notes = (*notes, f"{counted(different, 'spike')} of {spikes:,} differ from the integers")
    return Witness(
        name="sanafe",
        version=installed,
        spikes_equal=different == 0,
        spikes=spikes / samples,
        energy_j=_mean(mapped.chip.energy, [sample["energy_j"]["total"] for sample in found]),
        time_s=_mean(mapped.chip.time, [sample["time_s"] for sample in found]),
        samples=samples,
        notes=notes,
    )


def stage_times(
    mapped: MappedNetwork, program: Artifact, inputs: Mapping[str, Array], progress: Progress
) -> StageTimes:
    """SANA-FE's time without waiting for links and buffers, and by stages, from a run with its timing model simple.

    Arguments and errors: as of ``measure``.
    """
    quantized = integers_of(mapped)
    steps = next(iter(inputs.values())).shape[0] + max(quantized.latency.values(), default=0)
    recording = run_program(program, inputs, steps=steps, stages=True, progress=progress)
    found = recording.meta["figures"]["samples"]
    stages = [sample["stages_s"] for sample in found]
    means = {f"{name}_s": float(np.mean([s[name] for s in stages])) for name in stages[0]}
    return StageTimes(**means, simple_s=float(np.mean([sample["time_s"] for sample in found])))


def _mean(figures: Any, values: list[float]) -> float | None:
    """The mean over samples; None where the chip has none of these figures."""
    known = (getattr(figures, name) for name in type(figures).__dataclass_fields__)
    return float(np.mean(values)) if any(figure is not None for figure in known) else None
