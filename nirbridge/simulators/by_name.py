"""Every simulator by its name, in the form that plugins have (``nirbridge.plugins.Simulator``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nirbridge._types import Progress, no_progress
from nirbridge.errors import instance_of
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.continued import Continued
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.retained import retained
from nirbridge.simulators.threads import refuse_threads
from nirbridge.simulators.types import Probe, Recording

if TYPE_CHECKING:
    from nirbridge.simulators.mapped.simulate import MappedSimulator


def _simulate(backend: str, network: Network, inputs: Any, **options: Any) -> Recording:
    """In real numbers, on one backend of ``simulate``."""
    from nirbridge.simulators.simulate import simulate

    return simulate(network, inputs, backend=backend, **options).recording


def _simulate_best(_: str, network: Network, inputs: Any, **options: Any) -> Recording:
    """In real numbers, on the fastest backend that has the bits of the reference."""
    from nirbridge.simulators.best import simulate_best

    return simulate_best(network, inputs, **options)


def _simulate_fixed(_: str, quantized: QuantizedNetwork, inputs: Any, **options: Any) -> Recording:
    """In integers, as the chip of a quantized network computes it."""
    from nirbridge.simulators.fixed.simulate import simulate_fixed

    return simulate_fixed(quantized, inputs, **options).recording


def _simulate_mapped(_: str, mapped: MappedNetwork, inputs: Any, *, threads: int, **options: Any) -> Recording:
    """In integers, core by core; the integers are those of the map, or chosen without data (``integers_of``)."""
    refuse_threads("mapped", threads)
    return _prepared_mapped("mapped", mapped).run(inputs, **options).recording


def _prepared(backend: str, network: Network) -> Continued:
    from nirbridge.simulators.simulate import retained_simulator

    return retained_simulator(network, backend=backend)


def _prepared_fixed(_: str, quantized: QuantizedNetwork) -> Continued:
    from nirbridge.simulators.fixed.simulate import retained_fixed

    return retained_fixed(quantized)


def _prepared_mapped(_: str, mapped: MappedNetwork) -> MappedSimulator:
    from nirbridge.mapping.integers import integers_of
    from nirbridge.simulators.mapped.simulate import MappedSimulator

    return retained(mapped, ("mapped",), lambda own: MappedSimulator(integers_of(own), own))


@dataclass(frozen=True, slots=True)
class BuiltinSimulator:
    """A simulator of one type of model; ``run`` takes the name, the model, the inputs and the options of a call.

    ``prepare``: takes the name and the model; the model on it, to run on from states. ``chooses``: it runs one of the
    others.
    """

    name: str
    run: Callable[..., Recording] = _simulate
    takes: tuple[type, ...] = (Network,)
    hint: str = ""
    chooses: bool = False
    prepare: Callable[..., Continued] = _prepared

    def session(self, model: Model) -> Continued:
        """A model that this simulator takes, prepared once to run on from states."""
        return self.prepare(self.name, instance_of(model, self.takes, f"model of backend '{self.name}'", self.hint))

    def __call__(
        self,
        model: Model,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        threads: int = 1,
        drain: bool = False,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``nirbridge.plugins.Simulator``; the state after the run is dropped.

        ``threads``: as of ``simulate``, ``drain``: as of ``simulate_fixed``; simulators of plugins need take neither.
        """
        checked = instance_of(model, self.takes, f"model of simulator '{self.name}'", self.hint)
        options: dict[str, Any] = {"drain": True} if drain else {}
        options |= {"steps": steps, "record": record, "threads": threads, "progress": progress}
        return self.run(self.name, checked, inputs, **options)


REFERENCE, NUMPY, FAST, EVENT, DENSE = map(BuiltinSimulator, ("reference", "numpy", "fast", "event", "dense"))
AUTO = BuiltinSimulator("auto", chooses=True)
BEST = BuiltinSimulator("best", _simulate_best, chooses=True)
FIXED = BuiltinSimulator(
    "fixed",
    _simulate_fixed,
    (QuantizedNetwork,),
    "quantize the network for a chip",
    prepare=_prepared_fixed,
)
MAPPED = BuiltinSimulator(
    "mapped", _simulate_mapped, (MappedNetwork,), "map the network onto a chip", prepare=_prepared_mapped
)
