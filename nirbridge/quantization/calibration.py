"""What data showed of a network: ranges of inputs and currents, rates, and a sample of what sources sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nirbridge.arrays import Array


@dataclass(frozen=True, slots=True)
class Seen:
    """Least and greatest of what one population got and held, in the reference's units.

    ``x``: ``g_mem * g_syn`` times the summed input of a step (without biases); ``current``: ``g_mem * i`` (without the
    steady current of biases); ``v``: before the reset.
    """

    x: tuple[float, float]
    current: tuple[float, float]
    v: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """``seen`` by population; ``samples`` by source: ``[items, *shape]`` sent in some steps; ``said``: where from."""

    seen: Mapping[str, Seen]
    samples: Mapping[str, Array] = field(default_factory=lambda: MappingProxyType({}))
    said: str = ""
