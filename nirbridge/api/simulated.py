"""One run of a simulator on arrays that were read: in real numbers, in integers, on the cores of a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nirbridge import pipeline, plugins
from nirbridge.api.arguments import kind_of
from nirbridge.errors import UsageError, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Recording


def simulated(
    ready: Any, backend: str, on_chip: Mapping[str, Any], drain: bool, options: Any, arrays: Any, **changes: Any
) -> Recording:
    """The recording of a model on arrays that were read, in reals or in integers."""
    settings = {**options, **changes}
    if isinstance(ready, QuantizedNetwork | MappedNetwork):
        simulator: Any = plugins.get("simulators", _backend_of(ready, backend, on_chip["chip"]))
        return simulator(ready, arrays, drain=drain, **settings)
    if backend in ("fixed", "mapped") or on_chip["chip"] is not None:
        return pipeline.simulate_on_chip(ready, arrays, backend=backend, drain=drain, **on_chip, **settings)
    return pipeline.simulate_network(ready, arrays, backend=backend, **settings)


def refuse_choice(backend: str) -> None:
    """Raises UsageError where each of several processes would choose a backend of its own."""
    if backend == "best":
        found = "is chosen by a trial, and each process would hold its own"
        raise UsageError.of(f"backend {quoted(backend)}", found, "", "name a backend, or leave jobs and scheduler out")


def _backend_of(model: object, backend: str, chip: object) -> str:
    """The simulator of a model in integers. Raises UsageError for another one, and for a chip beside the model's."""
    simulator = "fixed" if isinstance(model, QuantizedNetwork) else "mapped"
    if backend not in ("auto", simulator):
        limit = f"{kind_of(model)} runs with backend {simulator!r}"
        raise UsageError.of(f"backend {quoted(backend)}", "does not apply here", limit, "leave it out")
    if chip is not None:
        raise UsageError.of("argument 'chip'", "does not apply here", f"{kind_of(model)} has its chip", "leave it out")
    return simulator
