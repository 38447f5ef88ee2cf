"""State of a run in the backend's arrays, and the spike history that delays read."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.network.model import Network
from nirbridge.network.neurons import first_state
from nirbridge.network.nir.delays import SECONDS, delayed_subject
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import Backend, BlankState
from nirbridge.simulators.types import SimulationState


@dataclass(frozen=True, slots=True, eq=False)
class RunStart:
    """State of populations, past outputs of sources (None without delay), and delayed currents."""

    step: int
    states: Mapping[str, Mapping[str, Any]]
    past: Mapping[str, Any]
    late: Mapping[int, Any]


def run_start(
    network: Network, parts: Backend, state: SimulationState, late: Iterable[int], is_blank: bool
) -> RunStart:
    """``late``: the projections with a delay per target element. The arrays of a blank state are never modified."""
    space, arrays, mapping = parts.space, state.arrays, BlankState if is_blank else dict
    integers = np.asarray if space.is_numpy and is_blank else space.integers
    states = {
        p.name: mapping(
            (name, (integers if name == "refractory" else space.array)(arrays[p.name, name]))
            for name in first_state(p.neuron)
        )
        for p in network.populations
    }
    sources = (p.name for p in (*network.inputs, *network.populations))
    past = {name: parts.take_input(arrays[name, "past"]) if (name, "past") in arrays else None for name in sources}
    held = {k: space.array(arrays[network.projections[k].target, f"past of projection {k}"]) for k in late}
    return RunStart(state.step, states, past, held)


HELD_MAX = 2**25
"""Values of past time steps that a run holds: steps x batch x neurons, of all sources together."""


def check_history(sources: Iterable[Any], projections: Sequence[Any], batch: int) -> None:
    """Check that the past time steps that the delays read fit in memory, before any is allocated.

    Raises:
        ModelError: they are too many; the longest delay is named.
    """
    sizes = {subject.name: math.prod(subject.shape) for subject in sources}
    depths = dict.fromkeys(sizes, 0)
    late = 0
    for p in projections:
        depths[p.source] = max(depths[p.source], int(p.delay_steps.max()))
        late += int(p.target_delay_steps.max()) * math.prod(p.operator.output_shape)
    total = batch * (late + sum(depth * sizes[name] for name, depth in depths.items()))
    if total <= HELD_MAX:
        return
    longest = max(projections, key=lambda p: int(p.delay_steps.max()) + int(p.target_delay_steps.max()))
    steps = int(longest.delay_steps.max()) + int(longest.target_delay_steps.max())
    found = f"with a delay of {steps:,} time steps, {total:,} values of past steps are held (batch {batch:,})"
    raise ModelError.of(delayed_subject(longest), found, f"at most {HELD_MAX:,} are held", SECONDS)


class SpikeHistory:
    """Outputs of one source: ``depth`` past time steps and those of the chunk so far, oldest first.

    ``past`` has shape ``[depth, batch, *shape]``, None for no depth; before the first step of a run a source sent
    nothing.
    """

    def __init__(self, space: ArrayNamespace, past: Any) -> None:
        self.space, self.past, self.depth = space, past, 0 if past is None else past.shape[0]
        self._begin()

    def _begin(self) -> None:
        self.pieces: list[Any] = [self.past] if self.depth else []
        self.starts = [-self.depth] if self.depth else []
        self.steps = 0

    def add(self, sent: Any) -> None:
        """Append time steps: ``[steps, batch, *shape]``."""
        self.pieces.append(sent)
        self.starts.append(self.steps)
        self.steps += sent.shape[0]

    def window(self, start: int, stop: int, delay: Delay) -> Any:
        """The values that arrive in time steps ``start`` to ``stop`` of the chunk after ``delay``."""
        if delay.uniform == 0 and start == 0 and stop == self.steps and len(self.pieces) == 1:
            return self.pieces[0]
        if delay.uniform is not None:
            return self._rows(start - delay.uniform, stop - delay.uniform)
        out = self._rows(start - delay.parts[0][0], stop - delay.parts[0][0])
        for steps, mask in delay.parts[1:]:
            out = self.space.xp.where(mask, self._rows(start - steps, stop - steps), out)
        return out

    def _rows(self, start: int, stop: int) -> Any:
        """Time steps of the chunk; earlier ones are negative."""
        part = bisect_right(self.starts, start) - 1
        first, piece = self.starts[part], self.pieces[part]
        if start < stop <= first + piece.shape[0]:
            is_entire = start == first and stop == first + piece.shape[0]
            return piece if is_entire else piece[start - first : stop - first, ...]
        parts: list[Any] = []
        while start < stop:
            first, piece = self.starts[part], self.pieces[part]
            last = min(stop, first + piece.shape[0])
            is_entire = start == first and last == first + piece.shape[0]
            parts.append(piece if is_entire else piece[start - first : last - first, ...])
            start, part = last, part + 1
        return self.space.xp.concat(parts, axis=0)

    def close(self) -> Any:
        """End the chunk: its last ``depth`` time steps become the past, which is returned."""
        if self.depth:
            self.past = self._rows(self.steps - self.depth, self.steps)
        self._begin()
        return self.past


class Delay:
    """Delays of the elements of a shape, in time steps: uniform, or one mask per distinct delay."""

    def __init__(self, steps: Array, space: ArrayNamespace) -> None:
        distinct: Iterable[int] = map(int, np.unique(steps))
        self.longest = int(steps.max())
        self.uniform = self.longest if int(steps.min()) == self.longest else None
        self.parts = [] if self.uniform is not None else [(d, space.booleans(steps == d)) for d in distinct]
