"""A network in the integers of a chip: quantized, calibrated and measured on data, simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.errors import IllegalMapping, UsageError, counted, quoted
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.consistency import network_mismatches
from nirbridge.network.model import Network
from nirbridge.pipeline.fit import retime
from nirbridge.pipeline.load import load_chip
from nirbridge.pipeline.map import map_retimed
from nirbridge.pipeline.options import MapOptions
from nirbridge.pipeline.saved_files import load_runnable, mapped_network
from nirbridge.quantization import LayerReport, QuantizationOptions, QuantizedNetwork, quantize
from nirbridge.quantization.calibration import Calibration, calibration_of, clip_shares
from nirbridge.quantization.mixed_precision import WidthChoice, Widths, choose_widths
from nirbridge.quantization.options import bits_of
from nirbridge.simulators.fixed.simulate import FixedSimulator, simulate_fixed
from nirbridge.simulators.inputs import open_inputs
from nirbridge.simulators.mapped.simulate import simulate_mapped
from nirbridge.simulators.simulate import Probe, Recording, simulate
from nirbridge.simulators.threads import refuse_threads

# -- calibration ---------------------------------------------------------------------------------------------------
# Quantization with data: the reference and the integers run on it, for calibration, search and reports.


SAMPLES = 32
"""Samples whose currents and potentials are recorded together."""


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationData:
    """Inputs ``[steps, batch, *shape]`` by name, and the class of each sample (``labels: [batch]``), where known."""

    inputs: Mapping[str, Array]
    labels: Array | None = None

    @property
    def steps(self) -> int:
        """Steps of the inputs."""
        return len(next(iter(self.inputs.values())))


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """Options for the use of calibration data.

    ``method``: which share of the weights' range to keep (``calibrate.clips``); ``tight``: room for the observed inputs
    only (not proved); ``memory_bits``: search widths by layer under this limit of synaptic memory.
    """

    method: str = "range"
    percentile: float = 99.9
    tight: bool = False
    memory_bits: int | None = None
    progress: Progress = no_progress


def calibration_data(network: Network, arrays: Mapping[str, Array] | Array) -> CalibrationData:
    """Data from the arrays of a file: inputs by name (or one array, for the one input) and ``labels``.

    Raises:
        UsageError: names, shapes or labels that do not fit the network.
    """
    labels: Array | None = None
    if isinstance(arrays, Mapping):
        arrays = dict(arrays)
        labels = arrays.pop("labels", None) if all(p.name != "labels" for p in network.inputs) else None
        if len(arrays) == len(network.inputs) == 1:
            arrays = {network.inputs[0].name: next(iter(arrays.values()))}
    shown = open_inputs(network, arrays, None, 0, "float64")
    inputs = {
        name: np.asarray(v) if shown.batch is not None else np.asarray(v)[:, None] for name, v in shown.values.items()
    }
    if labels is not None and (labels.shape != (shown.batch or 1,) or labels.dtype.kind not in "iu"):
        found = f"{labels.dtype} of shape {labels.shape}"
        raise UsageError.of(
            "labels", found, f"whole numbers, one for each of {counted(shown.batch or 1, 'sample')}", "correct them"
        )
    return CalibrationData(inputs, labels)


def observe_reference(network: Network, data: CalibrationData) -> Calibration:
    """Ranges of the reference's currents, potentials and spikes on data. Raises UsageError for other inputs."""
    probes = [Probe(p.name, ("i", "u") + (("s",) if p.neuron.fires else ())) for p in network.populations]
    probes += [Probe(port.name, ("s",)) for port in network.inputs]
    recording = simulate(network, data.inputs, record=probes, dtype="float64").recording
    return calibration_of(network, recording.arrays, f"{data.steps} steps of {_batch(data)} samples")


def _batch(data: CalibrationData) -> int:
    return next(iter(data.inputs.values())).shape[1]


def quantize_with_data(
    retimed: Any, chip: Chip, options: QuantizationOptions, data: CalibrationData | None, plan: CalibrationPlan
) -> QuantizedNetwork:
    """Quantizes according to the plan, and measures the result on the data.

    Raises:
        ModelError: what the chip cannot do.
        DoesNotFit: no widths within the limit of memory.
        UsageError: a plan that needs data, without data.
    """
    if data is None and (plan.tight or plan.memory_bits is not None):
        found = "observed ranges (--tight) and mixed precision (--memory-kib) need calibration data"
        raise UsageError.of("quantize", found, "", "give --calibrate DATA.npz")
    network: Network = getattr(retimed, "network", retimed)
    plan.progress("calibrate", None)
    calibration = observe_reference(network, data) if data is not None else None
    settings = replace(options, calibration=calibration if plan.tight else None)
    targets = {p.name for p in network.populations}

    requested = requested_widths(options)

    def make(widths: Widths) -> QuantizedNetwork:  # what is asked by projection stays, and unknown names are told
        with_widths = replace(settings, weight_bits={**requested, **widths})
        bits = {k: bits_of(p, chip, with_widths) for k, p in enumerate(network.projections) if p.target in targets}
        return quantize(
            retimed,
            chip,
            replace(with_widths, clip=clip_shares(network, bits, plan.method, calibration, plan.percentile)),
        )

    if data is None:
        return make({})
    judge = ReferenceScore(network, getattr(retimed, "latency", {}), data)
    if plan.memory_bits is None:
        return judge.measured(make({}))
    choice = choose_widths(network, chip, plan.memory_bits, make, judge.score, plan.progress, requested)
    return _with_choice(judge.measured(make(choice.weight_bits)), choice)


def requested_widths(options: QuantizationOptions) -> Widths:
    """The requested widths, by target, by projection and under ``'*'`` for all others."""
    widths = options.weight_bits
    if widths is None:
        return {}
    return dict(widths) if isinstance(widths, Mapping) else {"*": widths}


def _with_choice(quantized: QuantizedNetwork, choice: WidthChoice) -> QuantizedNetwork:
    widths = ", ".join(f"{quoted(name)} {bits}" for name, bits in choice.weight_bits.items())
    return replace(
        quantized, notes=(*quantized.notes, f"bits by layer, searched: {widths}; {choice.synapse_bits:,} bits")
    )


class ReferenceScore:
    """The reference's spikes on data, to compare integers with."""

    def __init__(self, network: Network, latency: Mapping[str, int], data: CalibrationData) -> None:
        self.data, self.network = data, network
        self.late = max(latency.values(), default=0)
        firing = [p.name for p in network.populations if p.neuron.fires]
        self.record = [Probe(name, ("s",)) for name in firing] + [Probe(p.name, ("s",)) for p in network.outputs]
        self.inputs = {k: _longer(a, self.late) for k, a in data.inputs.items()}
        self.latency = {name: latency.get(name, 0) for name in (*firing, *(p.name for p in network.outputs))}
        self.truth = simulate(network, self.inputs, record=self.record, dtype="float64").recording.arrays

    def run(self, quantized: QuantizedNetwork) -> Mapping[tuple[str, str], Array]:
        """The recorded arrays of the fixed-point model."""
        return FixedSimulator(quantized).run(self.inputs, record=self.record).recording.arrays

    def score(self, quantized: QuantizedNetwork) -> float:
        """Accuracy where labels are given, and less for every spike that changed: the higher the better."""
        arrays = self.run(quantized)
        changed = [
            self._changed(arrays, name)["spikes_changed"] for name, _ in self.truth if name in self._populations()
        ]
        accuracy = self._accuracy(arrays) if self.data.labels is not None else 0.0
        return (accuracy or 0.0) - 1e-3 * float(np.mean(changed or [0.0]))

    def measured(self, quantized: QuantizedNetwork) -> QuantizedNetwork:
        """The network with the measurements in the report of each layer."""
        arrays, ranges = self.run(quantized), self._ranges(quantized)
        layers = tuple(self._layer(layer, arrays, ranges) for layer in quantized.report)
        return replace(quantized, report=layers)

    def _ranges(self, quantized: QuantizedNetwork) -> dict[tuple[str, str], list[int]]:
        """Least and greatest u and v of each population, some samples at a time."""
        simulator, extremes = FixedSimulator(quantized), dict[tuple[str, str], list[int]]()
        record = [Probe(p.name, ("u", "v")) for p in quantized.populations]
        for first in range(0, _batch(self.data), SAMPLES):
            part = {k: a[:, first : first + SAMPLES] for k, a in self.inputs.items()}
            for key, array in simulator.run(part, record=record).recording.arrays.items():
                ends = [int(array.min(initial=0)), int(array.max(initial=0))]
                low, high = extremes.get(key, ends)
                extremes[key] = [min(low, ends[0]), max(high, ends[1])]
        return extremes

    def _layer(
        self, layer: LayerReport, arrays: Mapping[tuple[str, str], Array], ranges: Mapping[tuple[str, str], list[int]]
    ) -> LayerReport:
        measured: dict[str, Any] = {x: ranges[layer.population, x] for x in ("u", "v")}
        outputs = {p.target for p in self.network.projections if p.source == layer.population}
        if (layer.population, "s") in self.truth:
            measured |= self._changed(arrays, layer.population)
        else:
            measured |= self._read_error(arrays, outputs)
        if self.data.labels is not None and any(port.name in outputs for port in self.network.outputs):
            measured |= {"accuracy": self._accuracy(arrays), "accuracy_reference": self._accuracy(self.truth)}
        return replace(layer, measured=MappingProxyType(measured))

    def _read_error(self, arrays: Mapping[tuple[str, str], Array], outputs: set[str]) -> dict[str, Any]:
        """Relative root mean square error of the outputs of a readout."""
        pairs = [(arrays[p.name, "s"], self.truth[p.name, "s"]) for p in self.network.outputs if p.name in outputs]
        off = sum(float(np.square(a.astype(np.float64) - b).sum()) for a, b in pairs)
        size = sum(float(np.square(b.astype(np.float64)).sum()) for _, b in pairs)
        return {"read_error": float(np.sqrt(off / size)) if size else 0.0} if pairs else {}

    def _populations(self) -> frozenset[str]:
        return frozenset(p.name for p in self.network.populations)

    def _changed(self, arrays: Mapping[tuple[str, str], Array], name: str) -> dict[str, Any]:
        a, b = self.truth[name, "s"].astype(np.int64), arrays[name, "s"].astype(np.int64)
        return {
            "spikes": int(b.sum()),
            "spikes_reference": int(a.sum()),
            "spikes_changed": float(np.abs(a - b).sum() / max(1, int(a.sum()))),
        }

    def _accuracy(self, arrays: Mapping[tuple[str, str], Array]) -> float | None:
        """Share of samples whose class is the output with the largest sum over the steps of the data."""
        port = self.network.outputs[0]
        values = arrays[port.name, "s"][self.latency[port.name] :][: self.data.steps]
        sums = values.astype(np.float64).sum(axis=0).reshape(values.shape[1], -1)
        assert self.data.labels is not None, "requested with labels only"
        return float(np.mean(sums.argmax(axis=1) == self.data.labels))


def _longer(array: Array, steps: int) -> Array:
    return np.concatenate([array, np.zeros((steps, *array.shape[1:]), array.dtype)])


# -- networks in integers ------------------------------------------------------------------------------------------


def quantize_network(
    network: Network,
    chip: Chip,
    options: QuantizationOptions | None = None,
    data: Any = None,
    plan: CalibrationPlan | None = None,
    *,
    keep_early_spikes: bool = False,
) -> QuantizedNetwork:
    """Retimes a network for a chip and puts it into the chip's integers.

    ``data``: ``CalibrationData`` to calibrate and measure on, ``plan``: how; ``keep_early_spikes`` as of
    ``passes.Retime``.
    Raises ModelError (what the chip cannot do), DoesNotFit (no widths within the requested memory), UsageError.
    """
    retimed = retime(network, chip, keep_early_spikes=keep_early_spikes)
    return quantize_with_data(retimed, chip, options or QuantizationOptions(), data, plan or CalibrationPlan())


def quantize_plan(
    network: Network, options: Mapping[str, Any], arrays: Any, plan: Mapping[str, Any]
) -> tuple[QuantizationOptions, Any, CalibrationPlan]:
    """The arguments of ``quantize_network`` after the chip, from plain values (of a command). Raises UsageError."""
    data = None if arrays is None else calibration_data(network, arrays)
    return QuantizationOptions(**options), data, CalibrationPlan(**plan)


def simulate_on_chip(
    network: Network,
    inputs: Any,
    *,
    backend: str,
    chip: str | Path | Chip | None,
    map_file: str | Path | None = None,
    steps: int | None = None,
    record: Sequence[Any] | None = None,
    keep_early_spikes: bool = False,
    threads: int = 1,
    drain: bool = False,
    progress: Progress = no_progress,
) -> Recording:
    """The integers of a chip ('fixed'), or those on the cores of a map ('mapped'; None: mapped here).

    ``threads``, ``drain``: as of ``simulate_fixed``; 'mapped' runs in one thread.

    Raises:
        UsageError: options that do not go together, or inputs that the network does not take.
        ModelError: what the chip cannot do.
        DoesNotFit, IllegalMapping: as of ``map_network`` and ``simulate_mapped``.
    """
    if backend not in ("fixed", "mapped") or chip is None or (map_file is not None and backend != "mapped"):
        found = (
            f"--backend {backend}{'' if chip is None else ' with --chip'}{'' if map_file is None else ' with --map'}"
        )
        limit = "fixed and mapped take --chip, mapped also --map, other backends neither"
        raise UsageError.of("simulate", found, limit, "as in --backend mapped --chip loihi1")
    if backend == "mapped":
        refuse_threads(backend, threads)
    is_mapped = backend == "mapped"
    model = model_on_chip(
        network, chip, map_file, is_mapped=is_mapped, keep_early_spikes=keep_early_spikes, progress=progress
    )
    shared: dict[str, Any] = {"steps": steps, "record": record, "drain": drain, "progress": progress}
    if isinstance(model, QuantizedNetwork):
        return simulate_fixed(model, inputs, threads=threads, **shared).recording
    return simulate_mapped(integers_of(model), model, inputs, **shared)


def model_on_chip(
    network: Network,
    chip: str | Path | Chip,
    map_file: str | Path | None = None,
    *,
    is_mapped: bool = False,
    keep_early_spikes: bool = False,
    progress: Progress = no_progress,
) -> QuantizedNetwork | MappedNetwork:
    """A network in the integers of a chip; where a map is named, or ``is_mapped``, on the cores of that or a new one.

    Raises:
        ModelError: what the chip cannot do.
        DoesNotFit, IllegalMapping: as of ``map_network`` and ``mapped_network``; a map that is only a placement.
    """
    target = load_chip(chip) if isinstance(chip, str | Path) else chip
    saved = None if map_file is None else load_runnable(map_file)
    early = keep_early_spikes or bool(saved and saved.early_spikes)
    retimed = retime(network, target, splits=dict(saved.splits) if saved else None, keep_early_spikes=early)
    quantized = quantize(retimed, target, QuantizationOptions(weight_bits=None if saved is None else saved.weight_bits))
    if saved is not None:
        IllegalMapping.raise_all(network_mismatches(quantized, saved))
        return replace(mapped_network(saved, network, target), quantized=quantized)
    if not is_mapped:
        return quantized
    options = MapOptions(effort="fast", progress=progress)
    return replace(map_retimed(retimed, target, options, quantized), quantized=quantized)
