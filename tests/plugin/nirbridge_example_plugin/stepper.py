"""An emitter: a quantized network in one file, run time step by time step in NumPy."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.errors import instance_of
from nirbridge.mapping.model import Model
from nirbridge.network.apply import matrix
from nirbridge.quantization.model import FixedNeuron, QuantizedNetwork
from nirbridge.quantization.storage.file import read_quantized, write_quantized
from nirbridge.simulators.fixed.host_io import (
    fixed_channels,
    fixed_meta,
    integer_inputs,
    readout_values,
    signature_network,
)
from nirbridge.simulators.recording import ChannelRecorder
from nirbridge.simulators.types import Probe, Recording

FILE = "model.q.npz"
README = b"Integers of a model; `nirbridge run DIR --input IN.npy -o OUT.npz` runs them.\n"


@dataclass(frozen=True)
class StepperOptions:
    """This emitter has no options."""


class Stepper:
    """A quantized network as one file of integers."""

    takes = (QuantizedNetwork,)
    options = StepperOptions
    records = ("s", "u", "v")

    def emit(self, model: Model, options: StepperOptions | None = None) -> Artifact:
        quantized = instance_of(model, QuantizedNetwork, "model of emitter 'stepper'")
        instance_of(options or StepperOptions(), StepperOptions, "options of emitter 'stepper'")
        with tempfile.TemporaryDirectory() as folder:
            write_quantized(quantized, Path(folder, FILE))
            files = {FILE: Path(folder, FILE).read_bytes(), "README.md": README}
        return make_artifact(files, {"kind": "stepper", "chip": quantized.chip})

    def run(
        self,
        artifact: Artifact,
        inputs: Any,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, FILE).write_bytes(artifact.files[FILE])
            quantized = read_quantized(Path(folder, FILE))
        given, batched = integer_inputs(quantized, inputs, steps)
        channels = fixed_channels(quantized, signature_network(quantized), record)
        length, samples = next(iter(given.values())).shape[:2]
        recorder = ChannelRecorder(channels, 0, length, samples)
        recorder.take(_ran(quantized, given), length, np.asarray)
        meta = fixed_meta(quantized, length, 0, samples if batched else None, backend="stepper")
        return recorder.finish(batched, meta)


STEPPER = Stepper()


def _ran(quantized: QuantizedNetwork, given: Any) -> dict[tuple[str, str], Any]:
    """Everything that the model does, by (node, variable)."""
    length, samples = next(iter(given.values())).shape[:2]
    delays = [int(p.delay_steps.max()) for p in (*quantized.projections, *quantized.reads)]
    depth = max(delays, default=0)
    nodes = {p.name: p for p in (*quantized.inputs, *quantized.populations)}
    sent = {n: np.zeros((depth + length, samples, int(np.prod(p.shape))), np.int64) for n, p in nodes.items()}
    for name, values in given.items():
        sent[name][depth:] = values.reshape(length, samples, -1)
    found = {(p.name, x): np.zeros((length, samples, *p.shape), np.int64) for p in quantized.populations for x in "suv"}
    state = {p.name: _start(p.neuron, p.shape, samples) for p in quantized.populations}
    weights = [matrix(p.operator) for p in quantized.projections]
    for t in range(length):
        for p in quantized.populations:
            a_in = np.zeros((samples, p.size), np.int64)
            for projection, weight in zip(quantized.projections, weights, strict=True):
                if projection.target == p.name:
                    source = sent[projection.source]
                    late = np.broadcast_to(projection.delay_steps.reshape(-1), source.shape[2:])
                    arrived = (weight @ source[depth + t - late, :, np.arange(source.shape[2])]).T
                    e = projection.weight_exp
                    a_in += arrived << e if e >= 0 else arrived >> -e
            u, v, spikes = _step(p.neuron, state[p.name], a_in.reshape(samples, *p.shape))
            found[p.name, "u"][t], found[p.name, "v"][t], found[p.name, "s"][t] = u, v, spikes
            sent[p.name][depth + t] = (spikes if p.neuron.fires else v).reshape(samples, -1)
    depths = dict.fromkeys(nodes, depth)
    for port in quantized.outputs:
        found[port.name, "s"] = found[port.name, "v"] = readout_values(quantized, port, length, sent, depths)
    return {**found, **{(p.name, "s"): given[p.name] * p.scale for p in quantized.inputs}}


def _start(n: FixedNeuron, shape: tuple[int, ...], samples: int) -> dict[str, Any]:
    values = {"u": n.u_init, "v": n.v_init, "left": np.int64(0)}
    return {name: np.broadcast_to(value, (samples, *shape)).astype(np.int64) for name, value in values.items()}


def _step(n: FixedNeuron, state: dict[str, Any], a_in: Any) -> tuple[Any, Any, Any]:
    """One time step, by the rule at the head of nirbridge/quantization/model.py."""
    half, most = 1 << (n.u_bits - 1), (1 << (n.v_bits - 1)) - 1
    u = _decayed(state["u"], n.du + 1) + (a_in << 6)
    u = u - (u > half) * 2 * half + (u <= -half) * 2 * half
    v = np.clip(_decayed(state["v"], n.dv) + u + n.bias, -most, most)
    spikes = np.zeros_like(v)
    if n.fires_above is not None:
        waiting = state["left"] > 0
        v = np.where(waiting, 0, v)
        several = np.minimum(n.max_spikes, v // np.maximum(n.spike_size, 1)) if n.max_spikes > 1 else 1
        spikes = np.where((v > n.fires_above) & ~waiting, several, 0)
        state["left"] = np.where(spikes > 0, n.refractory_steps, state["left"] - waiting)
        v = {"zero": np.where(spikes > 0, 0, v), "subtract": v - spikes * n.reset_amount, "none": v}[n.reset]
    state["u"], state["v"] = u, v
    return u, v, spikes


def _decayed(x: Any, k: Any) -> Any:
    return np.sign(x) * ((np.abs(x) * (4096 - k)) >> 12)
