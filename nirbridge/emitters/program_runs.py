"""Recordings of programs whose tool is given arrays and returns them: inputs checked before, arrays named after."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import MANIFEST, Artifact, read_document
from nirbridge.emitters.host_outputs import needed_arrays, recorded_arrays
from nirbridge.emitters.ports import NETWORK, PROGRAM, PROGRAM_FIELDS
from nirbridge.emitters.real_recordings import population_keys, real_channels, real_recording, signature
from nirbridge.files.scratch import unnamed_file
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import read_quantized
from nirbridge.simulators.fixed.host_io import fixed_channels, fixed_meta, integer_inputs, signature_network
from nirbridge.simulators.inputs import Input, open_inputs
from nirbridge.simulators.recording import ChannelRecorder, required_variables
from nirbridge.simulators.types import Key, Probe, Recording, SimulationState

Ran = tuple[dict[Key, Array], dict[str, Array]]
"""Variables of populations, and outputs by name: ``[steps, samples, …]``, of variables flat over neurons or not."""
Execute = Callable[[Any, Mapping[str, Array], set[Key], int], Ran]
"""Runs a tool: ``program.json``, arrays ``[steps, samples, *shape]`` by input, the variables to return, time steps."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadProgram:
    """What runs need of a program with ``program.json``, read once.

    ``signature``: names and shapes, as a network without projections. ``quantized``: of a program in integers.
    """

    facts: Any
    backend: str
    signature: Network
    quantized: QuantizedNetwork | None

    def record(
        self,
        inputs: Mapping[str, Input] | Input,
        steps: int | None,
        record: Sequence[Probe] | None,
        execute: Execute,
        state: SimulationState | None = None,
    ) -> Recording:
        """The recording of a run from a state, else from the initial one; ``execute`` starts there.

        Raises:
            UsageError: inputs, steps or probes that the program does not take.
        """
        run = self._reals if self.quantized is None else partial(self._integers, self.quantized)
        return run(inputs, steps, record, execute, state)

    def _integers(
        self, quantized: QuantizedNetwork, inputs: Any, steps: int | None, record: Any, execute: Execute, state: Any
    ) -> Recording:
        first, past = (0, None) if state is None else (state.step, state.arrays)
        channels = fixed_channels(quantized, self.signature, record)
        arrays, batched = integer_inputs(quantized, inputs, steps, first_step=first)
        length, samples = next(iter(arrays.values())).shape[:2]
        requested = required_variables(channels)
        found, _ = execute(self.facts, arrays, needed_arrays(quantized, requested), length)
        found = {key: a.astype(np.int64).reshape(length, samples, -1) for key, a in found.items()}
        recorder = ChannelRecorder(channels, first, length, samples)
        recorder.take(recorded_arrays(quantized, requested, found, arrays, past), length, np.asarray)
        batch = samples if batched else None
        return recorder.finish(batched, fixed_meta(quantized, length, first, batch, backend=self.backend))

    def _reals(self, inputs: Any, steps: int | None, record: Any, execute: Execute, state: Any) -> Recording:
        network, dtype = self.signature, self.facts["numbers"]
        opened = open_inputs(network, inputs, steps, 0 if state is None else state.step, dtype)
        values = {name: np.asarray(a, dtype) for name, a in opened.read(0, opened.steps).items()}
        channels = real_channels(network, self.facts, record, dtype=dtype)
        found, outputs = execute(self.facts, values, population_keys(network, channels), opened.steps)
        return real_recording(network, channels, opened, found, outputs, backend=self.backend, dtype=dtype)


def read_program(artifact: Artifact, fields: Mapping[str, Any] = PROGRAM_FIELDS) -> ReadProgram:
    """The names of a program, and its integers where it computes in these.

    Raises:
        FileError: its ``program.json`` or manifest is none, or has not the ``fields``.
    """
    facts = read_document(artifact, PROGRAM, fields)
    backend = read_document(artifact, MANIFEST, {"kind": str})["kind"]
    if facts["numbers"] != "integers":
        return ReadProgram(facts, backend, signature(facts), None)
    quantized = quantized_of(artifact.files[NETWORK])
    return ReadProgram(facts, backend, signature_network(quantized), quantized)


def record_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    steps: int | None,
    record: Sequence[Probe] | None,
    execute: Execute,
) -> Recording:
    """The recording of a program that ``execute`` runs. Raises as ``read_program`` and ``ReadProgram.record``."""
    return read_program(artifact).record(inputs, steps, record, execute)


def quantized_of(content: bytes) -> QuantizedNetwork:
    """The network of a ``.q.npz`` file in memory. Raises FileError."""
    with unnamed_file(NETWORK, content) as path:
        return read_quantized(path, max_bytes=sys.maxsize)
