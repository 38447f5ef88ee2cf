"""What goes into a quantized network: whole numbers, spikes or graded, as its inputs say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Problem, UsageError, quoted
from nirbridge.quantization.model import FixedInput, Quantized
from nirbridge.simulators.fixed.host_io import outline
from nirbridge.simulators.inputs import Input, open_inputs


def whole_inputs(
    quantized: Quantized, inputs: Mapping[str, Input] | Input, steps: int | None
) -> tuple[dict[str, Array], bool]:
    """Arrays ``[steps, batch, *shape]`` of int64 by input name, and whether the caller's have a batch axis.

    A graded input gets the nearest whole number of its scale.

    Raises:
        UsageError: wrong names, shapes or types; values that an input does not take.
    """
    opened = open_inputs(outline(quantized), inputs, steps, 0, "float64")
    found = opened.read(0, opened.steps)
    problems = [p for port in quantized.inputs for p in _other_values(port, found[port.name])]
    if problems:
        raise UsageError(*problems)
    whole = {port.name: np.rint(found[port.name] / port.scale).astype(np.int64) for port in quantized.inputs}
    return whole or {"": np.zeros((opened.steps, 1, 0), np.int64)}, opened.batch is not None


def _other_values(port: FixedInput, values: Array) -> list[Problem]:
    if port.graded:
        size = port.value_max * port.scale
        wrong, limit = np.abs(np.rint(values / port.scale)) > port.value_max, f"it takes {-size:g} to {size:g}"
    else:
        wrong, limit = (values != 0) & (values != 1), "it takes spikes, 0 and 1"
    if not wrong.any():
        return []
    step = "turn values into spikes first (simulators.encoders), or quantize the input as graded"
    return [Problem(f"input {quoted(port.name)}", f"the value {values[wrong][0]:g}", limit, step)]
