"""What every quantized network must satisfy, wherever it is from: shapes, widths, grids, names."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import ModelError, Problem, quoted
from nirbridge.network.operators import Conv, Dense, Sparse
from nirbridge.quantization.formats import grid_of
from nirbridge.quantization.model import FixedNeuron, FixedPopulation, FixedProjection, Quantized
from nirbridge.quantization.operators import weights_of

_RANGES = {"du": (0, 4095), "dv": (0, 4096), "refractory_steps": (0, 2**31), "spike_size": (-(2**47), 2**47)}
_WHOLE = ("du", "dv", "bias_mant", "fires_above", "reset_amount", "spike_size", "refractory_steps", "v_init", "u_init")


def diagnose(quantized: Quantized) -> Iterator[Problem]:
    """Every problem of a quantized network."""
    names = [x.name for x in (*quantized.inputs, *quantized.populations, *quantized.outputs)]
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield Problem(f"node {quoted(name)}", "is there twice")
    if not (math.isfinite(quantized.dt) and quantized.dt > 0):
        yield Problem("dt", f"{quantized.dt:g}", "it is above 0")
    for p in quantized.populations:
        yield from _population(p)
    sizes = {x.name: math.prod(x.shape) for x in (*quantized.inputs, *quantized.populations)}
    inside = {p.name for p in quantized.populations}
    for p in quantized.projections:
        yield from _projection(p, sizes, inside)
    outputs = {port.name: math.prod(port.shape) for port in quantized.outputs}
    for read in quantized.reads:
        if read.source not in sizes or read.target not in outputs:
            yield Problem(f"read {quoted(read.source)} -> {quoted(read.target)}", "names a node that is not there")
    for name in set(outputs) - {read.target for read in quantized.reads}:
        yield Problem(f"output {quoted(name)}", "nothing leads to it")
    if set(names) - set(quantized.latency):
        yield Problem("latency", "does not name every node")


def verify(quantized: Quantized) -> None:
    """Raises one ModelError with all problems of ``diagnose``."""
    problems = list(diagnose(quantized))
    if problems:
        raise ModelError(*problems)


def _population(p: FixedPopulation) -> Iterator[Problem]:
    n, thing = p.neuron, f"population {quoted(p.name)}"
    for field in _WHOLE:
        values = getattr(n, field)
        if values is not None:
            yield from _array(f"{thing}, {field}", values, p.shape, *_RANGES.get(field, (-(2**47), 2**47)))
    if not (8 <= n.u_bits <= 48 and 8 <= n.v_bits <= 48 and 0 <= n.bias_exp <= 15 and 1 <= n.max_spikes < 2**31):
        yield Problem(thing, "a width, exponent or number of spikes that no chip has")
    if n.reset not in ("zero", "subtract", "none") or p.process not in ("lif", "custom"):
        yield Problem(thing, f"reset {quoted(n.reset)}, process {quoted(p.process)}", "not known")
    if p.process == "lif" and not _is_plain(n):
        yield Problem(thing, "process 'lif'", "its neurons need more than Lava's LIF", "quantize again")


def _is_plain(n: FixedNeuron) -> bool:
    one = n.du.ndim == 0 and n.dv.ndim == 0 and int(n.dv.max(initial=0)) < 4096
    if n.fires_above is None:
        return one
    grid = n.fires_above.ndim == 0 and not bool(np.any(n.fires_above % 64)) and bool(np.all(n.fires_above >= 0))
    return one and grid and n.reset == "zero" and n.max_spikes == 1 and not bool(np.any(n.refractory_steps))


def _array(thing: str, values: Array, shape: tuple[int, ...], low: int, high: int) -> Iterator[Problem]:
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.shape not in ((), shape):
        yield Problem(thing, "not whole numbers of its population's shape")
    elif values.size and not (low <= int(values.min()) and int(values.max()) <= high):
        yield Problem(thing, f"values from {int(values.min())} to {int(values.max())}", f"{low} to {high}")


def _projection(p: FixedProjection, sizes: dict[str, int], inside: set[str]) -> Iterator[Problem]:
    thing = f"projection {quoted(p.source)} -> {quoted(p.target)}"
    if p.source not in sizes or p.target not in inside:
        yield Problem(thing, "names a node that is not there")
        return
    if not isinstance(p.operator, Dense | Sparse | Conv) or not 1 <= p.weight_bits <= 8 or abs(p.weight_exp) > 15:
        yield Problem(thing, "an operator, width or exponent that no chip has")
        return
    ends = math.prod(p.operator.input_shape), math.prod(p.operator.output_shape)
    if ends != (sizes[p.source], sizes[p.target]):
        yield Problem(thing, f"an operator from {ends[0]} to {ends[1]}", "other sizes than its nodes")
    if isinstance(p.operator, Sparse):
        yield from _sparse(thing, p.operator)
    delays = p.delay_steps
    if delays.size not in (1, sizes[p.source]) or int(delays.min()) < 1 or int(delays.max()) > 2**20:
        yield Problem(thing, "delays that are not 1 step or more for each source")
    grid, weights = grid_of(p.weight_bits, p.sign_mode), weights_of(p.operator)
    off = (
        weights.dtype != np.int64
        or bool(np.any(weights % grid.step))
        or bool(np.any((weights < grid.low) | (weights > grid.high)))
    )
    if off:
        yield Problem(thing, f"weights off the grid of {p.weight_bits} bits, {p.sign_mode}", "", "quantize again")


def _sparse(thing: str, operator: Sparse) -> Iterator[Problem]:
    rows, columns = math.prod(operator.output_shape), math.prod(operator.input_shape)
    ends, places = operator.indptr, operator.indices
    whole = ends.shape == (rows + 1,) and places.shape == operator.data.shape and ends.dtype == places.dtype == np.int64
    if not whole or int(ends[0]) != 0 or int(ends[-1]) != places.size or bool(np.any(np.diff(ends) < 0)):
        yield Problem(thing, "rows that do not hold together")
    elif places.size and not (int(places.min()) >= 0 and int(places.max()) < columns):
        yield Problem(thing, "a synapse from a neuron that is not there")
