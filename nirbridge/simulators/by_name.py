"""Every simulator by its name, in the form that plugins have (``nirbridge.plugins.Simulator``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nirbridge._types import Progress, no_progress
from nirbridge.errors import instance_of
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Probe, Recording

Inputs = Mapping[str, Input] | Input


@dataclass(frozen=True, slots=True)
class NetworkSimulator:
    """A network in real numbers, on one backend of ``simulators.simulate``."""

    backend: str
    takes = (Network,)

    def __call__(
        self,
        model: Model,
        inputs: Inputs,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``simulate``; the state after the run is dropped."""
        from nirbridge.simulators.simulate import simulate

        network = instance_of(model, Network, f"model of simulator '{self.backend}'")
        options = {"steps": steps, "record": record, "progress": progress}
        return simulate(network, inputs, backend=self.backend, **options).recording


@dataclass(frozen=True, slots=True)
class FixedPointSimulator:
    """A quantized network in integers, as its chip computes it."""

    takes = (QuantizedNetwork,)

    def __call__(
        self,
        model: Model,
        inputs: Inputs,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``simulate_fixed``; the state after the run is dropped."""
        from nirbridge.simulators.fixed.simulate import simulate_fixed

        hint = "quantize the network for a chip"
        quantized = instance_of(model, QuantizedNetwork, "model of simulator 'fixed'", hint)
        return simulate_fixed(quantized, inputs, steps=steps, record=record, progress=progress).recording


@dataclass(frozen=True, slots=True)
class MappedSimulator:
    """A mapped network in integers, core by core."""

    takes = (MappedNetwork,)

    def __call__(
        self,
        model: Model,
        inputs: Inputs,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``simulate_mapped``; the integers are those of the map, or chosen without data (``integers_of``)."""
        from nirbridge.mapping.integers import integers_of
        from nirbridge.simulators.mapped.simulate import simulate_mapped

        mapped = instance_of(model, MappedNetwork, "model of simulator 'mapped'", "map the network onto a chip")
        quantized = integers_of(mapped)
        return simulate_mapped(quantized, mapped, inputs, steps=steps, record=record, progress=progress)


AUTO = NetworkSimulator("auto")
REFERENCE = NetworkSimulator("reference")
NUMPY = NetworkSimulator("numpy")
FAST = NetworkSimulator("fast")
EVENT = NetworkSimulator("event")
DENSE = NetworkSimulator("dense")
FIXED = FixedPointSimulator()
MAPPED = MappedSimulator()
