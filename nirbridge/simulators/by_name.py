"""Every simulator by its name, in the form that plugins have (``nirbridge.plugins.Simulator``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nirbridge._types import Progress, no_progress
from nirbridge.errors import instance_of
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.continued import Continued
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.retained import retained
from nirbridge.simulators.types import Probe, Recording


def _prepared(backend: str, network: Network) -> Any:
    """In real numbers, on one backend of ``simulate``."""
    from nirbridge.simulators.simulate import retained_simulator

    return retained_simulator(network, backend=backend)


def _prepared_fixed(_: str, quantized: QuantizedNetwork) -> Any:
    """In integers, as the chip of a quantized network computes it."""
    from nirbridge.simulators.fixed.simulate import retained_fixed

    return retained_fixed(quantized)


def _prepared_mapped(_: str, mapped: MappedNetwork) -> Any:
    """In integers, core by core; the integers are those of the map, or chosen without data (``integers_of``)."""
    from nirbridge.mapping.integers import integers_of
    from nirbridge.simulators.mapped.simulate import MappedSimulator

    return retained(mapped, ("mapped",), lambda own: MappedSimulator(integers_of(own), own))


def _simulate_best(network: Network, inputs: Any, **options: Any) -> Recording:
    """In real numbers, on the fastest backend that has the bits of the reference."""
    from nirbridge.simulators.best import simulate_best

    return simulate_best(network, inputs, **options)


@dataclass(frozen=True, slots=True)
class BuiltinSimulator:
    """A simulator of one type of model.

    ``prepare``: takes the name and the model; the model on it, to run on from states. ``choose``: runs a model on one
    of the other simulators.
    """

    name: str
    prepare: Callable[[str, Any], Any] = _prepared
    takes: tuple[type, ...] = (Network,)
    hint: str = ""
    chooses: bool = False
    choose: Callable[..., Recording] | None = None

    def session(self, model: Model) -> Continued:
        """A model that this simulator takes, prepared once to run on from states."""
        return self.prepare(self.name, model)

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
        options: dict[str, Any] = {"drain": True} if drain else {}
        options |= {"steps": steps, "record": record, "threads": threads, "progress": progress}
        checked = instance_of(model, self.takes, f"model of simulator '{self.name}'", self.hint)
        if self.choose is not None:
            return self.choose(checked, inputs, **options)
        return self.prepare(self.name, checked).run(inputs, **options).recording


REFERENCE, NUMPY, FAST, EVENT, DENSE = map(BuiltinSimulator, ("reference", "numpy", "fast", "event", "dense"))
AUTO = BuiltinSimulator("auto", chooses=True)
BEST = BuiltinSimulator("best", chooses=True, choose=_simulate_best)
FIXED = BuiltinSimulator("fixed", _prepared_fixed, (QuantizedNetwork,), "quantize the network for a chip")
MAPPED = BuiltinSimulator("mapped", _prepared_mapped, (MappedNetwork,), "map the network onto a chip")
