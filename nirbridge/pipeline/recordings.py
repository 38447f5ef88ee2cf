"""Arrays of the user, probes, and the reference simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge import plugins as registry
from nirbridge.errors import UsageError, quoted
from nirbridge.files.npy import MAX_BYTES, load_npy, load_npz
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.simulators.best import simulate_best
from nirbridge.simulators.given import Given, read_given
from nirbridge.simulators.recording import default_probes
from nirbridge.simulators.simulate import BACKENDS, Probe, Recording, simulate
from nirbridge.simulators.threads import refuse_threads


def load_inputs(path: str | Path, *, max_bytes: int | None = None) -> Any:
    """One array of a ``.npy`` file, or arrays by name of a ``.npz`` file. Raises FileError or UsageError."""
    readers = {".npz": load_npz, ".npy": load_npy}
    reader = readers.get(Path(path).suffix)
    if reader is None:
        raise UsageError.of(f"file {quoted(path)}", "is neither .npy nor .npz", "", "save it with numpy.save")
    return reader(path, max_bytes=MAX_BYTES if max_bytes is None else max_bytes)


def read_inputs(model: Any, inputs: Any, **options: Any) -> Given:
    """Arrays of the user for a model, read by named axes: ``simulators.given.read_given``. Raises UsageError."""
    network = (model.model or model.network) if isinstance(model, MappedNetwork) else model
    return read_given(network, inputs, **options)


def with_reading(recording: Recording, given: Given) -> Recording:
    """The recording, with the reading of its data in ``meta``."""
    return replace(recording, meta=MappingProxyType({**recording.meta, "reading": given.reading}))


def simulate_network(network: Network, inputs: Any, *, backend: str = "auto", **options: Any) -> Recording:
    """Simulates a network in floating point, by its exact semantics; options and errors as of ``simulators.simulate``.

    A backend of a plugin gets ``steps``, ``record`` and ``progress`` of the options, and takes no ``threads``.
    """
    if backend == "best":
        return simulate_best(network, inputs, **options)
    if backend in ("auto", *BACKENDS):
        return simulate(network, inputs, backend=backend, **options).recording
    simulator = registry.get("simulators", backend)
    if backend in ("fixed", "mapped"):
        limit = "this runs a network in real numbers"
        raise UsageError.of(f"backend {quoted(backend)}", "runs the integers of a chip", limit, "use simulate_on_chip")
    refuse_threads(backend, options.get("threads", 1))
    taken = {name: options[name] for name in ("steps", "record", "progress") if options.get(name) is not None}
    return simulator(network, inputs, **taken)


def probes(network: Network, variables_of: Sequence[tuple[str, tuple[str, ...]]], every: int) -> list[Probe] | None:
    """Probes of variables by node, every ``every``-th time step; None: the default of the simulators."""
    if variables_of:
        return [Probe(node, variables, every) for node, variables in variables_of]
    return None if every == 1 else [Probe(r.node, r.variables, every) for r in default_probes(network)]
