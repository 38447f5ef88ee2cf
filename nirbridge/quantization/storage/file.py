"""Quantized networks as ``.q.npz`` files: numbers only, nothing is ever executed, sizes are checked before reading."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.files.npy import MAX_BYTES, RecordFormat, read_record, record_bytes, write_record
from nirbridge.network.axes import stored_axes
from nirbridge.network.check import diagnose_network as network_problems
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import extra_arrays, neuron
from nirbridge.network.operators import Chain, Conv, Dense, Operator, Reshape, Sparse
from nirbridge.network.storage.codec import ValueDecoder, ValueEncoder, check_fields, fits
from nirbridge.network.storage.file import diagnose_kept
from nirbridge.quantization.formats import grid_of
from nirbridge.quantization.model import FixedNeuron, FixedPopulation, FixedProjection, LayerReport, QuantizedNetwork
from nirbridge.quantization.operators import weights_of

SUFFIX = ".q.npz"
FORMAT = RecordFormat(
    "nirbridge-quantized",
    1,
    ("<i8", "<f8", "<f4", "|u1", "<i4", "|b1"),
    "a quantized network",
    "make one with nirbridge quantize",
    "quantize again",
)


def write_quantized(quantized: QuantizedNetwork, path: str | Path) -> str:
    """Write a quantized network, whole or not at all and the same bytes every time; return its digest.

    Raises:
        FileError: the place cannot be written.
    """
    return write_record(path, FORMAT, *quantized_to_dict(quantized))


def quantized_bytes(quantized: QuantizedNetwork) -> bytes:
    """The bytes of the file that ``write_quantized`` writes."""
    return record_bytes(FORMAT, *quantized_to_dict(quantized))


def read_quantized(path: str | Path, *, max_bytes: int = MAX_BYTES) -> QuantizedNetwork:
    """A quantized network from a file that ``write_quantized`` wrote; ``network`` is None.

    Raises:
        FileError: anything else: another kind of file, a damaged one, one that declares more than ``max_bytes``.
    """
    return read_record(path, FORMAT, _checked, max_bytes=max_bytes)


def _checked(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> QuantizedNetwork:
    quantized = quantized_from_dict(record, arrays)
    check_quantized(quantized)
    return quantized


# -- check ---------------------------------------------------------------------------------------------------------
# Validity of a quantized network from any source: shapes, widths, grids, names.

_RANGES = {"du": (0, 4095), "dv": (0, 4096), "refractory_steps": (0, 2**31 - 1), "spike_size": (-(2**47), 2**47),
           "adaptation.decay": (0, 4096)}  # fmt: skip
_DELAY_MAX = 2**20
_REAL = ("scale", "v_offset")
_WHOLE = {f.name: str(f.type) for f in fields(FixedNeuron) if str(f.type).startswith("Array") and f.name not in _REAL}


def diagnose_quantized(quantized: QuantizedNetwork) -> Iterator[Diagnostic]:
    """Every problem of a quantized network."""
    names = [x.name for x in (*quantized.inputs, *quantized.populations, *quantized.outputs)]
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield Diagnostic(f"node {quoted(name)}", "occurs twice")
    if not (math.isfinite(quantized.dt) and quantized.dt > 0):
        yield Diagnostic("dt", f"{quantized.dt:g}", "it is above 0")
    nodes = (*quantized.inputs, *quantized.populations, *quantized.outputs)
    wrong = [x.name for x in nodes if not all(n >= 1 for n in x.shape)]
    yield from (Diagnostic(f"node {quoted(name)}", "a shape with an axis below 1") for name in wrong)
    if wrong:
        return
    sizes = {x.name: math.prod(x.shape) for x in (*quantized.inputs, *quantized.populations)}
    inside = {p.name for p in quantized.populations}
    for p in quantized.inputs:
        if not (1 <= p.value_max < 2**31 and 0 < p.scale < math.inf):
            yield Diagnostic(f"input {quoted(p.name)}", f"values up to {p.value_max}, scale {p.scale:g}", "above 0")
    for p in quantized.populations:
        yield from _population(p)
    for p in quantized.projections:
        yield from _projection(p, sizes, inside)
    yield from _sizes(quantized, sizes)
    yield from _as_network(quantized, sizes)
    if set(names) != set(quantized.latency):
        yield Diagnostic("latency", "does not name every node, and no other")


def check_quantized(quantized: QuantizedNetwork) -> None:
    """Raise one ModelError with all problems of ``diagnose_quantized``."""
    ModelError.raise_all(diagnose_quantized(quantized))


def _sizes(quantized: QuantizedNetwork, sizes: dict[str, int]) -> Iterator[Diagnostic]:
    delayed = [p for p in (*quantized.projections, *quantized.reads) if p.delay_steps.size]
    delays = ((p.source, max(0, min(int(p.delay_steps.max()), _DELAY_MAX))) for p in delayed)
    yield from diagnose_kept(sizes, delays, sum(math.prod(port.shape) for port in quantized.outputs))


def _as_network(quantized: QuantizedNetwork, sizes: dict[str, int]) -> Iterator[Diagnostic]:
    """Operators, delays and readouts, by the checks of any network."""
    shapes = {x.name: x.shape for x in (*quantized.inputs, *quantized.populations)}
    placeholder = neuron("IF", theta=1.0)
    lists = [p for p in (*quantized.projections, *quantized.reads) if not _lists_hold(p.operator)]
    for p in lists:
        yield Diagnostic(f"projection {quoted(p.source)} -> {quoted(p.target)}", "rows that do not hold together")
    if lists:
        return
    projections = list(quantized.reads)
    for p in quantized.projections:
        ends = math.prod(p.operator.input_shape), math.prod(p.operator.output_shape)
        if ends != (sizes.get(p.source), sizes.get(p.target)):
            found = f"an operator from {ends[0]} to {ends[1]}, or a node that is not there"
            yield Diagnostic(
                f"projection {quoted(p.source)} -> {quoted(p.target)}", found, "other sizes than its nodes"
            )
            return
        chain = _between(shapes[p.source], p.operator, shapes[p.target])
        late, last = p.delay_steps, p.target_delay_steps
        projections.append(Projection(p.source, p.target, chain, delay_steps=late, target_delay_steps=last))
    timing = Timing(quantized.dt, "euler", "to-value", ">", "per-second")
    populations = tuple(Population(p.name, p.shape, placeholder) for p in quantized.populations)
    ports = tuple(Port(p.name, p.shape) for p in quantized.inputs)
    network = Network(quantized.dt, timing, populations, tuple(projections), ports, quantized.outputs)
    yield from network_problems(network)
    for name in sorted({port.name for port in quantized.outputs} - {read.target for read in quantized.reads}):
        yield Diagnostic(f"output {quoted(name)}", "no projection leads to it")


def _lists_hold(operator: Operator) -> bool:
    """True if the lists of sparse parts are whole numbers along one axis."""
    for part in parts_of(operator):
        if isinstance(part, Sparse):
            are_lists = all(x.dtype == np.int64 and x.ndim == 1 for x in (part.indptr, part.indices))
            if not are_lists or not part.indptr.size or part.data.shape != part.indices.shape:
                return False
    return True


def _between(source: tuple[int, ...], operator: Operator, target: tuple[int, ...]) -> Operator:
    """The operator on its nodes' own shapes."""
    into = () if operator.input_shape == source else (Reshape(source, operator.input_shape),)
    out = () if operator.output_shape == target else (Reshape(operator.output_shape, target),)
    return Chain((*into, operator, *out)) if into or out else operator


def _population(p: FixedPopulation) -> Iterator[Diagnostic]:
    n, subject = p.neuron, f"population {quoted(p.name)}"
    for field, kind in _WHOLE.items():
        values = getattr(n, field)
        if values is not None or "None" not in kind:
            yield from _array(f"{subject}, {field}", values, p.shape, *_RANGES.get(field, (-(2**47), 2**47)))
    for field, values in extra_arrays(n).items():
        yield from (
            ()
            if field in _WHOLE
            else _array(f"{subject}, {field}", values, p.shape, *_RANGES.get(field, (-(2**47), 2**47)))
        )
    for field in _REAL:
        values = getattr(n, field)
        if values.dtype != np.float64 or values.shape not in ((), p.shape) or not np.isfinite(values).all():
            yield Diagnostic(f"{subject}, {field}", "not finite numbers of its population's shape")
        elif field == "scale" and not (values > 0).all():
            yield Diagnostic(f"{subject}, {field}", "not above 0")
    if not (8 <= n.u_bits <= 48 and 8 <= n.v_bits <= 48 and 0 <= n.bias_exp <= 15 and 1 <= n.max_spikes < 2**31):
        yield Diagnostic(subject, "a width, exponent or number of spikes that no chip has")
    if n.reset not in ("zero", "subtract", "none") or p.process not in ("lif", "custom"):
        yield Diagnostic(subject, f"reset {quoted(n.reset)}, process {quoted(p.process)}", "not known")
    if p.process == "lif" and not n.is_lava_lif:
        yield Diagnostic(subject, "process 'lif'", "its neurons need more than Lava's LIF", "quantize again")


def _array(subject: str, values: Any, shape: tuple[int, ...] | None, low: int, high: int) -> Iterator[Diagnostic]:
    """``shape`` None: it is checked elsewhere."""
    plain = isinstance(values, np.ndarray) and values.dtype == np.int64
    if not plain or (shape is not None and values.shape not in ((), shape)):
        yield Diagnostic(subject, "not whole numbers of its population's shape")
    elif values.size and not (low <= int(values.min()) and int(values.max()) <= high):
        yield Diagnostic(subject, f"values from {int(values.min())} to {int(values.max())}", f"{low} to {high}")


def _projection(p: FixedProjection, sizes: dict[str, int], inside: set[str]) -> Iterator[Diagnostic]:
    subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
    if p.source not in sizes or p.target not in inside:
        yield Diagnostic(subject, "names a node that is not there")
        return
    if not isinstance(p.operator, Dense | Sparse | Conv) or not 1 <= p.weight_bits <= 8 or abs(p.weight_exp) > 15:
        yield Diagnostic(subject, "an operator, width or exponent that no chip has")
        return
    yield from _array(f"{subject}, delay_steps", p.delay_steps, None, 1, _DELAY_MAX)
    yield from _array(f"{subject}, target_delay_steps", p.target_delay_steps, None, 0, 0)  # no simulator has them
    if p.scale.dtype != np.float64 or not np.isfinite(p.scale).all() or not (p.scale > 0).all():
        yield Diagnostic(f"{subject}, scale", "not finite numbers above 0")
    grid, weights = grid_of(p.weight_bits, p.sign_mode), weights_of(p.operator)
    off = (
        weights.dtype != np.int64
        or bool(np.any(weights % grid.step))
        or bool(np.any((weights < grid.low) | (weights > grid.high)))
    )
    if off:
        yield Diagnostic(
            subject, f"weights off the grid of {counted(p.weight_bits, 'bit')}, {p.sign_mode}", "", "quantize again"
        )


# -- codec ---------------------------------------------------------------------------------------------------------
# A quantized network as a JSON record and a table of arrays, and back (docs/reference/quantized-file.md).

_WEIGHTS = {
    "source": str, "index": int | None, "kind": str, "bits": int, "exponent": int, "sign_mode": str,
    "range": list[float], "integers": list[int], "scale": float | None, "error": float, "clipped": float | None,
    "synapse_bits": int,
}  # fmt: skip
_MEASURED = {"spikes_changed": float | None, "accuracy": float | None, "accuracy_reference": float | None}
_FORMATS = {"a_in_bits": int | None, "bias_mant_bits": int | None, "programmable": bool | None}
"""Fields of the report and of the number formats that are shown or used, by their types."""
STORED = tuple(f.name for f in fields(QuantizedNetwork) if f.name not in ("network", "early", "axes"))
"""The fields of a quantized network that its file holds, and ``axes`` where they are known."""


def quantized_to_dict(q: QuantizedNetwork) -> tuple[dict[str, Any], dict[str, Array]]:
    """(JSON record, arrays by name) of a quantized network; ``network`` and ``early`` are left out."""
    encoder = ValueEncoder()
    record = {name: encoder.plain(getattr(q, name)) for name in STORED}
    return record | ({"axes": list(q.axes)} if q.axes else {}), encoder.arrays


def quantized_from_dict(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> QuantizedNetwork:
    """The quantized network of a record. Raises KeyError, TypeError, ValueError for anything else."""
    notes = tuple(map(str, record["notes"]))
    stored = {name: record[name] for name in STORED}
    axes = stored_axes(record, "axes", "the quantized network")
    given: dict[str, Any] = {"notes": notes, "network": None, "early": (), "axes": axes}
    quantized = ValueDecoder(arrays).parts(QuantizedNetwork, stored, **given)
    check_facts(quantized)
    return replace(quantized, dt=float(quantized.dt))


def check_facts(quantized: QuantizedNetwork) -> None:
    """Raise ValueError or ModelError for latencies, number formats and reports that are none, or cannot be shown."""
    if not all(fits(step, int) and step >= 0 for step in quantized.latency.values()):
        raise ValueError("latency counts steps")
    check_fields(quantized.formats, _FORMATS, "formats")
    for layer in quantized.report:
        _check_report(layer)


def _check_report(layer: LayerReport) -> None:
    """Raise ModelError for a report of a layer that cannot be shown."""
    subject = f"report of {quoted(layer.population)}"
    for weights in layer.weights:
        check_fields(weights, _WEIGHTS, f"{subject}, weights")
        if (len(weights["range"]), len(weights["integers"])) != (2, 2):
            raise ModelError.of(f"{subject}, weights", "a range without two ends")
    check_fields(layer.measured, _MEASURED, f"{subject}, measured")
    measured = layer.measured
    if (measured.get("accuracy") is None) != (measured.get("accuracy_reference") is None):
        raise ModelError.of(f"{subject}, measured", "one of two accuracies", "both or none")
