"""Recordings of programs whose tool is given arrays and returns them: inputs checked before, arrays named after."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import MANIFEST, Artifact, read_document
from nirbridge.emitters.host_outputs import needed_arrays, recorded_arrays
from nirbridge.emitters.ports import NETWORK, PROGRAM, PROGRAM_FIELDS
from nirbridge.emitters.real_recordings import population_keys, real_channels, real_recording, signature
from nirbridge.files.scratch import unnamed_file
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import read_quantized
from nirbridge.simulators.fixed.host_io import fixed_channels, fixed_meta, integer_inputs, signature_network
from nirbridge.simulators.inputs import Input, open_inputs
from nirbridge.simulators.recording import ChannelRecorder, required_variables
from nirbridge.simulators.types import Key, Probe, Recording

Ran = tuple[dict[Key, Array], dict[str, Array]]
"""Variables of populations, and outputs by name: ``[steps, samples, …]``, of variables flat over neurons or not."""
Execute = Callable[[Any, Mapping[str, Array], set[Key], int], Ran]
"""Runs a tool: ``program.json``, arrays ``[steps, samples, *shape]`` by input, the variables to return, time steps."""


def record_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    steps: int | None,
    record: Sequence[Probe] | None,
    execute: Execute,
) -> Recording:
    """The recording of a program with ``program.json``, which ``execute`` runs.

    Raises:
        UsageError: inputs, steps or probes that the program does not take.
        FileError: its ``program.json`` or manifest is none.
    """
    facts = read_document(artifact, PROGRAM, PROGRAM_FIELDS)
    backend = read_document(artifact, MANIFEST, {"kind": str})["kind"]
    if facts["numbers"] == "integers":
        return _integers(quantized_of(artifact.files[NETWORK]), facts, inputs, steps, record, execute, backend)
    return _reals(facts, inputs, steps, record, execute, backend)


def _integers(
    quantized: QuantizedNetwork, facts: Any, inputs: Any, steps: int | None, record: Any, execute: Execute, backend: str
) -> Recording:
    channels = fixed_channels(quantized, signature_network(quantized), record)
    arrays, batched = integer_inputs(quantized, inputs, steps)
    length, samples = next(iter(arrays.values())).shape[:2]
    requested = required_variables(channels)
    found, _ = execute(facts, arrays, needed_arrays(quantized, requested), length)
    found = {key: a.astype(np.int64).reshape(length, samples, -1) for key, a in found.items()}
    recorder = ChannelRecorder(channels, 0, length, samples)
    recorder.take(recorded_arrays(quantized, requested, found, arrays), length, np.asarray)
    return recorder.finish(batched, fixed_meta(quantized, length, 0, samples if batched else None, backend=backend))


def quantized_of(content: bytes) -> QuantizedNetwork:
    """The network of a ``.q.npz`` file in memory. Raises FileError."""
    with unnamed_file(NETWORK, content) as path:
        return read_quantized(path, max_bytes=sys.maxsize)


def _reals(facts: Any, inputs: Any, steps: int | None, record: Any, execute: Execute, backend: str) -> Recording:
    network, dtype = signature(facts), facts["numbers"]
    opened = open_inputs(network, inputs, steps, 0, dtype)
    values = {name: np.asarray(a, dtype) for name, a in opened.read(0, opened.steps).items()}
    channels = real_channels(network, facts, record, dtype=dtype)
    found, outputs = execute(facts, values, population_keys(network, channels), opened.steps)
    return real_recording(network, channels, opened, found, outputs, backend=backend, dtype=dtype)
