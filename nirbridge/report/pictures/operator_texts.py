"""Operators, delays and neurons as the short texts that stand in the picture of a network."""

from __future__ import annotations

from nirbridge.network.compose import parts_of
from nirbridge.network.model import Population, Projection
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.report.map_facts import one_line
from nirbridge.report.pictures.labels import times_text


def operator_text(operator: Operator) -> str:
    """``conv 3×3, stride 2 · sum pool 2×2``; empty where values are passed on as they are (in another shape)."""
    return " · ".join(filter(None, map(_part_text, parts_of(operator))))


def _part_text(part: Operator) -> str:
    if isinstance(part, Identity | Reshape):
        return ""
    if isinstance(part, Conv):
        strides = "" if set(part.stride) == {1} else f", stride {_sizes(part.stride)}"
        groups = "" if part.groups == 1 else f", {part.groups:,} groups"
        return f"conv {times_text(part.kernel)}{strides}{groups}"
    if isinstance(part, SumPool):
        strides = "" if part.stride == part.kernel else f", stride {_sizes(part.stride)}"
        return f"{'sum' if part.factor == 1 else 'average'} pool {times_text(part.kernel)}{strides}"
    if isinstance(part, Dense):
        post, pre = part.weight.shape
        return f"dense {pre:,}→{post:,}"
    if isinstance(part, Sparse):
        return f"sparse, {part.data.size:,} weights"
    return "scale" if isinstance(part, Scale) else one_line(type(part).__name__.lower())


def _sizes(sizes: tuple[int, ...]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else times_text(sizes)


def delay_text(projection: Projection) -> str:
    """``delay 2`` or ``delay 1 to 5``, in time steps; empty for none."""
    least, most = projection.min_delay_steps, projection.max_delay_steps
    if not most:
        return ""
    return f"delay {least:,}" if least == most else f"delay {least:,} to {most:,}"


def projection_text(projection: Projection) -> str:
    """Operator and delay of a projection."""
    return ", ".join(filter(None, (operator_text(projection.operator), delay_text(projection))))


def neuron_text(population: Population) -> str:
    """``LIF 8×13×13, 1,352 neurons``."""
    kind = one_line(population.neuron.kind)[:24]
    count = f"{population.size:,} neuron{'' if population.size == 1 else 's'}"
    return f"{kind}, {count}" if len(population.shape) < 2 else f"{kind} {times_text(population.shape)}, {count}"
