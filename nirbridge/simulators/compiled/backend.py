"""The fast backend: compiled event-driven kernels (numba).

Same bits as the reference, which computes the sums of operators without a kernel; ``choices`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nirbridge.network.model import Population, Projection
from nirbridge.simulators.compiled.conv_layer import make_conv_layer
from nirbridge.simulators.compiled.dense_layer import SelfRecurrentLayer, is_self_recurrent, make_dense_layer
from nirbridge.simulators.compiled.events import take_input
from nirbridge.simulators.compiled.neurons import EventNeurons
from nirbridge.simulators.compiled.sums import EventAccumulate, Method
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import Backend, Layer

LayerMaker = Callable[[Population, Projection, ArrayNamespace, Method, list[dict[str, Any]]], Layer | None]
"""Makes a layer of a population and its one projection and logs what it chose; None where it does not suit them."""
LAYERS: tuple[LayerMaker, ...] = (make_conv_layer, make_dense_layer)
"""Tried in this order."""


def compiled_backend(space: ArrayNamespace, method: Method) -> Backend:
    """The compiled backend on numpy.

    ``method``: ``event`` never uses BLAS, ``dense`` uses it for every dense matrix (sums in no fixed order), ``auto``
    where it is exact and predicted to be quicker.
    """
    choices: dict[str, Any] = {}

    def note(projection: Projection, log: list[dict[str, Any]]) -> None:
        choices[f"{len(choices)}: {projection.source} -> {projection.target}"] = log

    def add_up(projection: Projection) -> EventAccumulate:
        log: list[dict[str, Any]] = []
        note(projection, log)
        return EventAccumulate(projection.operator, space, method, log)

    def loop(population: Population, projection: Projection) -> SelfRecurrentLayer | None:
        if method == "dense" or not is_self_recurrent(population, projection):
            return None
        note(projection, [{"operator": type(projection.operator).__name__, "kernel": "event, all steps in one call"}])
        return SelfRecurrentLayer(population, projection, space)

    def layer(population: Population, projection: Projection) -> Layer | None:
        log: list[dict[str, Any]] = []
        for make in LAYERS:
            candidate = make(population, projection, space, method, log)
            if candidate is not None:
                note(projection, log)
                return candidate
        return None

    return Backend(
        space=space,
        accumulate=add_up,
        neurons=lambda population: EventNeurons(population, space),
        loop=loop,
        layer=layer,
        take_input=lambda values: take_input(values, space.float_name),
        choices=choices,
    )
