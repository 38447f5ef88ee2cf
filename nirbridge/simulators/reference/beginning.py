"""The state of a run in the backend's arrays: made once for all runs that begin before the first step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network
from nirbridge.simulators.reference.semantics import Beginning, Parts
from nirbridge.simulators.types import State


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A state of populations, what sources sent in the steps before (None for no delay), and what is late."""

    step: int
    states: Mapping[str, Mapping[str, Any]]
    past: Mapping[str, Any]
    late: Mapping[int, Any]


def start_of(network: Network, parts: Parts, state: State, late: Iterable[int], is_blank: bool) -> Start:
    """``late``: the projections with a delay per target element. Nobody may change the arrays of a blank one."""
    space, arrays, mapping = parts.space, state.arrays, Beginning if is_blank else dict
    whole = np.asarray if space.is_numpy and is_blank else space.integers
    states = {
        p.name: mapping(
            v=space.array(arrays[p.name, "v"]),
            i=space.array(arrays[p.name, "i"]),
            refractory=whole(arrays[p.name, "refractory"]),
        )
        for p in network.populations
    }
    sources = (p.name for p in (*network.inputs, *network.populations))
    past = {name: parts.take_input(arrays[name, "past"]) if (name, "past") in arrays else None for name in sources}
    held = {k: space.array(arrays[network.projections[k].target, f"past of projection {k}"]) for k in late}
    return Start(state.step, states, past, held)


def frozen(values: Array, kind: Any) -> Array:
    """``freeze``, in fewer calls for arrays without repeated axes."""
    if 0 in values.strides:
        return freeze(values, kind)
    out = np.array(values, kind, order="C")
    out.flags.writeable = False
    return out
