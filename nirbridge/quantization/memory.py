"""Synaptic memory of a projection in the chip's own encoding, before it is cut into cores."""

from __future__ import annotations

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.network.operators import Conv, Dense
from nirbridge.quantization.model import FixedProjection
from nirbridge.quantization.operators import weights_of


def projection_bits(projection: FixedProjection, chip: Chip, weight_bits: int | None = None) -> int:
    """Bits of synaptic memory, as if all targets sat in one core: a lower bound for any map.

    Per input axon the targets are cut into runs of at most ``run_targets_max``, in whole words; a run of a dense
    operator needs no addresses. Where the chip stores shared kernels a convolution counts its kernel once.
    """
    form = chip.synapses
    bits = projection.weight_bits if weight_bits is None else weight_bits
    late = form.delay_bits if bool(np.any(projection.delay_steps > 1)) else 0
    dense = isinstance(projection.operator, Dense) or form.index_bits is None
    each = bits + late + (0 if dense else (form.index_bits or 0))
    if form.shared_kernels and isinstance(projection.operator, Conv):
        fans = np.full(projection.operator.input_shape[0], weights_of(projection.operator)[:, 0].size)
    else:
        fans = fan_outs(projection)
    run = form.run_targets_max or max(1, int(fans.max(initial=1)))
    full, rest = fans // run, fans % run
    words = full * _words(run, each, form.run_header_bits, form.word_bits)
    words = words + np.where(rest > 0, _words(rest, each, form.run_header_bits, form.word_bits), 0)
    return int(words.sum()) * form.word_bits


def _words(targets: object, each: int, header: int, word: int) -> Array:
    return -(-(np.asarray(targets) * each + header) // word)


def fan_outs(projection: FixedProjection) -> Array:
    """Targets of each source neuron, flat."""
    operator = projection.operator
    if isinstance(operator, Dense):
        return np.full(operator.weight.shape[1], operator.weight.shape[0])
    if not isinstance(operator, Conv):
        return np.bincount(operator.indices, minlength=int(np.prod(operator.input_shape)))
    return _conv_fan_outs(operator)


def _conv_fan_outs(operator: Conv) -> Array:
    """Targets of each source: over axes, the product of the taps that lead to an output, times the channels."""
    reached = np.ones(1, np.int64)
    for axis, (size, kernel) in enumerate(zip(operator.input_shape[1:], operator.kernel, strict=True)):
        low, stride, apart = operator.padding[axis][0], operator.stride[axis], operator.dilation[axis]
        position = np.arange(size)[:, None] + low - np.arange(kernel)[None, :] * apart
        reaches = (position >= 0) & (position % stride == 0) & (position // stride < operator.output_shape[1 + axis])
        reached = np.multiply.outer(reached, reaches.sum(axis=1)).reshape(-1)
    per_group = operator.weight.shape[0] // operator.groups
    return np.tile(reached * per_group, operator.input_shape[0])
