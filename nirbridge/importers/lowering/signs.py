"""Values that are never below zero: a ReLU of spikes changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nirbridge.importers.dataflow import Call, Ref
from nirbridge.importers.neuron_specs import Reading

_KEEPING = frozenset({"avg_pool", "reshape", "gather", "concat", "relu"})


def never_negative(ref: Ref, calls: Mapping[str, Call], readings: Mapping[str, Reading]) -> bool:
    """True for spikes, and for sums, means and selections of them."""
    call, reading = calls[ref.call], readings.get(ref.call)
    if reading is not None:
        worth = 1.0 if reading.scale_out is None else reading.scale_out
        return reading.neuron.fires and ref.output == 0 and bool(np.all(np.asarray(worth) >= 0))
    signs: tuple[float, ...] = call.arguments.get("signs", ()) if call.kind == "add" else ()
    factor = call.arguments["factor"] if call.kind == "scale" else 0.0
    keeps = call.kind in _KEEPING or call.kind in ("add", "scale")
    if not keeps or any(sign < 0 for sign in signs) or bool(np.any(np.asarray(factor) < 0)):
        return False
    return all(never_negative(inner, calls, readings) for inner in call.inputs)
