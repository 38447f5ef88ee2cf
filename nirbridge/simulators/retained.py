"""Cache of the last prepared simulator per model, one in each thread.

An entry lives as long as its thread and its model. Threads have separate caches, because a simulator stores which
kernels its runs chose.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Operator

BYTES = 2**26
"""Bytes of weights up to which a prepared model is cached; the cached arrays are about as large."""
SimulatorOptions = tuple[str, ...]
AnyModel = TypeVar("AnyModel", bound=Model)
Prepared = TypeVar("Prepared")


class _SimulatorCache(threading.local):
    def __init__(self) -> None:
        self.ready: WeakKeyDictionary[Model, tuple[SimulatorOptions, Any]] = WeakKeyDictionary()


_of_thread = _SimulatorCache()


def retained(model: AnyModel, options: SimulatorOptions, make: Callable[[AnyModel], Prepared]) -> Prepared:
    """The cached simulator of this model object and these options, or a new one from ``make``.

    Models are immutable, so the simulator stays valid. Each thread caches the last simulator per model; an entry is
    dropped with the model or the thread.
    """
    ready = _of_thread.ready
    cached = ready.get(model)
    if cached is not None and cached[0] == options:
        return cached[1]
    simulator = make(replace(model))  # a copy, so that the cache does not keep the model alive
    if _bytes(model) <= BYTES:
        ready[model] = options, simulator
    return simulator


def _bytes(model: Model) -> int:
    network = model.network if isinstance(model, MappedNetwork) else model
    parts = [part for p in network.projections for part in parts_of(cast(Operator, p.operator))]
    return sum(getattr(part, name).nbytes for part in parts for name in ("weight", "data") if hasattr(part, name))
