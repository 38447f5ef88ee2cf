"""The form of a model that runs on from a state: what sessions need of a simulator or of an emitted program.

A ``SimulationState`` has one form for all back ends of a kind of model (real numbers, integers): that of
``Simulator`` for real numbers, that of ``FixedSimulator`` for integers. A run that is cut anywhere, and continued
from its state on the same back end or another one with the same bits, gives the bits of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from nirbridge.arrays import Array
from nirbridge.network.model import Network
from nirbridge.simulators.types import Probe, SimulationResult, SimulationState

if TYPE_CHECKING:
    from nirbridge.simulators.inputs import Input


class Runner(Protocol):
    """A run in single time steps, of one batch size; it holds its state."""

    def step(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run one time step, and return the outputs of it.

        Args:
            values: by input name, ``[batch, *shape]`` of numbers or bool, of every input; their shapes are right. The
                values are checked here, as far as the back end has limits for them.

        Returns:
            By output name ``[batch, *shape]``, the values and types that a recording has by default: spikes, or the
            potentials of a readout. The arrays are the caller's: no later step changes them.

        Raises:
            UsageError: values that an input does not take; the state is that before the call.
        """
        ...

    def state(self) -> SimulationState:
        """The state after the last time step; no later step changes it."""
        ...


class Continued(Protocol):
    """A model on one back end: prepared once, and without a state of a run, so that several runs may share it."""

    @property
    def signature(self) -> Network:
        """The dt, the axes and the ports of the model; it may have no projections."""
        ...

    def blank(self, batch: int) -> SimulationState:
        """The initial state of a batch; it is also the form that every state of this size has."""
        ...

    def run(
        self,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        state: SimulationState | None = None,
        record: Sequence[Probe] | None = None,
    ) -> SimulationResult:
        """Run the model from a state, else from the initial one; arguments and errors as of ``simulate``.

        Integers count hardware time steps, and no run is drained.
        """
        ...

    def runner(self, batch: int, state: SimulationState | None = None) -> Runner:
        """A run in single time steps from a state, else from the initial one; see ``RunByRun`` for a plain one.

        Raises:
            UsageError: a state of another form than ``blank(batch)``, or with values that the model never has.
        """
        ...


class RunByRun:
    """A ``Runner`` of a back end that has no faster path: each time step is a run of one."""

    def __init__(self, model: Continued, state: SimulationState) -> None:
        self._model, self._state = model, state

    def step(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """See ``Runner``."""
        result = self._model.run({name: x[None] for name, x in values.items()}, steps=1, state=self._state)
        self._state = result.state
        return {port.name: result.recording[port.name][0] for port in self._model.signature.outputs}

    def state(self) -> SimulationState:
        """See ``Runner``."""
        return self._state
