"""Single time steps: their inputs, read and checked, and the ``Runner`` of a run that advances in chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, UsageError, quoted
from nirbridge.simulators.inputs import inputs_by_name
from nirbridge.simulators.recording import Channel
from nirbridge.simulators.types import Key, SimulationState


class ChunkRunner:
    """A ``Runner`` that advances a run by chunks of one time step.

    ``advance``: takes inputs ``[1, batch, *shape]`` by name and returns the variables that ``channels`` need.
    """

    def __init__(
        self,
        advance: Callable[[Mapping[str, Array]], Mapping[Key, Any]],
        channels: Sequence[Channel],
        state: Callable[[], SimulationState],
        to_numpy: Callable[[Any], Array] = np.asarray,
    ) -> None:
        self._advance, self._numpy, self.state = advance, to_numpy, state
        self._outputs = [(c.node, (c.node, c.source), np.dtype(c.dtype)) for c in channels]

    def step(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """See ``Runner``."""
        found = self._advance({name: x[None] for name, x in values.items()})
        return {name: np.array(self._numpy(found[key])[0], dtype) for name, key, dtype in self._outputs}


def read_step(ports: Sequence[Any], inputs: Any, batch: int | None) -> tuple[dict[str, Array], int | None]:
    """The inputs of one time step, ``[batch, *shape]`` by name, and their batch size; None: they have no batch axis.

    Args:
        ports: the inputs of the model, each with ``name`` and ``shape``.
        inputs: by name or one alone: ``[*shape]`` or ``[batch, *shape]`` of numbers or bool.
        batch: samples of the run; None: as many as the inputs have.

    Raises:
        UsageError: every name, shape or type that does not fit.
    """
    by_name = inputs_by_name(ports, inputs)
    values: dict[str, Array] = {}
    sizes: set[int | None] = set()
    for port in ports:
        try:
            array = np.asarray(by_name[port.name])
        except (TypeError, ValueError, RuntimeError):
            array = np.empty(0, object)
        lead = array.ndim - len(port.shape)
        if array.dtype.kind not in "biuf" or lead not in (0, 1) or array.shape[lead:] != port.shape:
            raise UsageError(*_misfits(ports, by_name, batch))
        sizes.add(len(array) if lead else None)
        values[port.name] = array if lead else array[None]
    size = next(iter(sizes), None if batch in (None, 1) else batch)
    if len(sizes) > 1 or size == 0 or (batch is not None and (size or 1) != batch):
        raise UsageError(*_misfits(ports, by_name, batch))
    return values, size


def _misfits(ports: Sequence[Any], by_name: Mapping[str, Any], batch: int | None) -> list[Diagnostic]:
    """A problem for each input whose form is not that of one time step of the batch; of all where they disagree."""
    own, all_of_them, lead = list[Diagnostic](), list[Diagnostic](), "batch" if batch is None else f"{batch:,}"
    for port in ports:
        sizes = ", ".join(map(str, port.shape))
        forms = [f"[{sizes}]"] * (batch in (None, 1)) + [f"[{lead}, {sizes}]" if sizes else f"[{lead}]"]
        limit = f"one time step takes numbers of shape {' or '.join(forms)}"
        fits = False
        try:
            array = np.asarray(by_name[port.name])
            is_number, axes = array.dtype.kind in "biuf", array.ndim - len(port.shape)
            found = f"an array of shape {array.shape}" if is_number else f"of type {array.dtype}"
            fits = is_number and axes in (0, 1) and array.shape[axes:] == port.shape
            fits = fits and (len(array) == (batch or len(array)) > 0 if axes else batch in (None, 1))
        except (TypeError, ValueError, RuntimeError) as error:
            found = f"cannot be converted to a NumPy array ({type(error).__name__})"
        problem = Diagnostic(f"input {quoted(port.name)}", found, limit, "give run() several time steps")
        all_of_them.append(problem)
        own += [] if fits else [problem]
    return own or all_of_them
