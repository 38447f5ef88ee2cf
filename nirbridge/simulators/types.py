"""Probes, states and results of a simulation: one `Recording` type for every simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nirbridge._values import ReportedValue, SavedValue
from nirbridge.arrays import Array
from nirbridge.errors import UsageError, did_you_mean, instance_of, quoted
from nirbridge.files.attributes import load_attribute

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

Key = tuple[str, str]
"""(population, input or output name, variable): a variable is ``s`` (spikes), ``v``, ``i``, or ``count``."""


@dataclass(frozen=True, slots=True)
class Probe(ReportedValue):
    """Variables to record of one node: ``s``, ``v`` (after the reset), ``u`` (before the reset), ``i``, ``count``.

    ``every``: only the last of this many time steps is kept; ``count`` sums spikes over all time steps instead.

    Example:
        >>> run = nb.simulate("model.nir", np.ones((25, 64)), record=[nb.Probe("output", ("s", "count"))])
        >>> int(run["output"].sum()) == int(run["output", "count"].sum())
        True
    """

    node: str
    variables: tuple[str, ...]
    every: int = 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Recording(SavedValue, ReportedValue):
    """The result of a simulation.

    ``arrays[node, variable]`` has shape ``[steps kept, batch, *node shape]`` (``[batch, *node shape]`` for ``count``);
    without a batch axis in the input there is none here. Spikes are uint8 (int16 where a neuron may send several,
    float where a node is graded). ``meta`` is plain JSON: dt, steps, backend, versions, seed, latency per output,
    assumptions, choices made. Saved and loaded as the contracts text says (section 2).

    Example:
        >>> run = nb.simulate("model.nir", np.ones((25, 64)))
        >>> run["output"].dtype
        dtype('uint8')
    """

    arrays: Mapping[Key, Array]
    meta: Mapping[str, Any]

    def __getitem__(self, node: str | Key) -> Array:
        """The spikes of a node, or its potentials where it is a readout; of ``(node, variable)`` that variable.

        Raises UsageError: nothing of that name was recorded, with the nearest name.
        """
        keys = [node] if isinstance(node, tuple) else [(node, "s"), (node, "v")]
        array = next((self.arrays[key] for key in keys if _is_key(key) and key in self.arrays), None)
        if array is None:
            raise _not_recorded(node, self.arrays)
        return array

    def __contains__(self, node: object) -> bool:
        return _is_key(node) and (node in self.arrays or any(name == node for name, _ in self.arrays))

    __iter__ = None

    def plot(self, nodes: str | Sequence[str] | None = None, *, sample: int = 0, ax: Axes | None = None) -> Axes:
        """Draw the spikes of ``nodes`` over time, of all where None; the potentials of a node that has no spikes.

        ``sample``: number of the sample of a batch. Raises UsageError: neither was recorded, or no such sample.
        """
        return load_attribute("nirbridge.report.plots.recordings:plot_recording")(self, nodes, sample=sample, ax=ax)


def _is_key(key: object) -> bool:
    return isinstance(key, str) or (isinstance(key, tuple) and all(isinstance(part, str) for part in key))


def _not_recorded(node: object, arrays: Mapping[Key, Array]) -> UsageError:
    """The error of a node or variable that was not recorded."""
    name = node[0] if isinstance(node, tuple) and node else node
    variables = [variable for n, variable in arrays if n == name]
    if variables:
        requested = f"variable {quoted(node[1])}" if isinstance(node, tuple) and len(node) > 1 else "the variable"
        limit = f"recorded of it: {', '.join(variables)}"
        return UsageError.of(f"node {quoted(name)}", f"{requested} was not recorded", limit, "record it")
    nodes = list(dict.fromkeys(n for n, _ in arrays))
    limit = f"recorded: {', '.join(map(quoted, nodes[:8])) or 'nothing'}"
    hint = did_you_mean(name, nodes) or "record it"
    return UsageError.of(f"node {quoted(name)}", "not recorded", limit, hint)


@dataclass(frozen=True, slots=True, eq=False)
class SimulationState:
    """Everything that the next step depends on, so that a long run can be cut: read-only arrays with a batch axis.

    ``arrays[name, part]``: ``v``, ``i``, ``refractory`` per population; ``past`` per source of a delayed projection:
    its last outputs, oldest first (and ``past of projection k`` per target where delays belong to the target).
    """

    step: int
    arrays: Mapping[tuple[str, str], Array]

    def __post_init__(self) -> None:
        instance_of(self.step, int, "step of a state")
        arrays = instance_of(self.arrays, Mapping, "arrays of a state")
        object.__setattr__(self, "arrays", MappingProxyType(arrays))

    def __reduce__(self) -> Any:
        return SimulationState, (self.step, dict(self.arrays))


@dataclass(frozen=True, slots=True, eq=False)
class SimulationResult:
    """A recording and the state after its last time step."""

    recording: Recording
    state: SimulationState
