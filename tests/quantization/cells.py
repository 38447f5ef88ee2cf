"""Fixed-point neurons, written field by field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.quantization.model import FixedNeuron


def ints(values: Any) -> Any:
    """An array as networks in integers hold it."""
    return freeze(np.asarray(values, np.int64))


def cell(**own: Any) -> FixedNeuron:
    """A neuron that fires above 640 and is set to zero; lists among the fields become arrays."""
    made = FixedNeuron(
        du=ints(4095), dv=ints(0), bias_mant=ints(0), bias_exp=0, fires_above=ints(640), reset="zero",
        reset_amount=ints(0), spike_size=ints(640), max_spikes=1, refractory_steps=ints(0), v_init=ints(0),
        u_init=ints(0), scale=freeze(np.float64(1)), v_offset=freeze(np.float64(0)),
    )  # fmt: skip
    return replace(made, **{k: ints(v) if isinstance(v, list) else v for k, v in own.items()})
