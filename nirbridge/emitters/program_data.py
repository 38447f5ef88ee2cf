"""Data of an emitted program: read by the axes of its network, and run until the last output is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge.emitters.artifact import Artifact, read_document
from nirbridge.emitters.ports import NETWORK, PROGRAM
from nirbridge.emitters.program_runs import quantized_of
from nirbridge.errors import FileError
from nirbridge.network.axes import Axes
from nirbridge.network.model import Port
from nirbridge.simulators.given import Given, read_given
from nirbridge.simulators.types import Recording


@dataclass(frozen=True, slots=True)
class _Signature:
    inputs: tuple[Port, ...]
    axes: Axes = ()
    dt: float | None = None


def read_for(
    program: str | Path | Artifact, inputs: Any, axes: str | Sequence[str] | None, steps: int | None
) -> tuple[Given, Mapping[str, int]]:
    """The data of a program in the order of the simulators, and the latency of its nodes; none of one in real numbers.

    A program that does not name its ports takes the data as they are. Raises UsageError.
    """
    signature, latency = signature_of(program)
    if signature is None:
        return Given(inputs, None, ""), {}
    return read_given(signature, inputs, axes=axes, steps=steps), latency


def signature_of(program: str | Path | Artifact) -> tuple[Any, Mapping[str, int]]:
    """The ``inputs``, ``axes`` and ``dt`` of a program (None: not stated), and the latency of its nodes."""
    files = program.files if isinstance(program, Artifact) else {}
    if NETWORK in files:
        quantized = quantized_of(files[NETWORK])
        return _Signature(
            tuple(Port(p.name, p.shape) for p in quantized.inputs), quantized.axes, quantized.dt
        ), quantized.latency
    try:
        facts = read_document(program, PROGRAM, {"inputs": list[dict[str, Any]]})
        ports = tuple(Port(str(port["name"]), tuple(map(int, port["shape"]))) for port in facts["inputs"])
        latency = {str(name): int(value) for name, value in facts.get("latency", {}).items()}
    except (FileError, KeyError, TypeError, ValueError, AttributeError):
        return None, {}  # the run itself says what is wrong
    dt = facts.get("dt")
    return _Signature(ports, dt=dt if isinstance(dt, float) else None), latency


def drained_run(
    run: Callable[[Any, int | None], Recording], given: Given, steps: int | None, latency: Mapping[str, int]
) -> Recording:
    """The run, longer by the largest latency, with each node from its latency on; an input that is a function: as is.

    ``run`` takes inputs and time steps, and fills with zeros.
    """
    inputs = given.inputs
    arrays = list(inputs.values()) if isinstance(inputs, Mapping) else [inputs]
    count = steps or (len(arrays[0]) if arrays and getattr(arrays[0], "ndim", 0) else 0)
    if not count or any(not getattr(array, "ndim", 0) for array in arrays):
        return run(inputs, steps)
    cut = {name: a[:count] for name, a in inputs.items()} if isinstance(inputs, Mapping) else inputs[:count]
    longer = run(cut, count + max(latency.values()))
    kept = {key: a[latency.get(key[0], 0) :][:count] for key, a in longer.arrays.items()}
    meta = {**longer.meta, "steps": count, "latency": dict.fromkeys(latency, 0), "drained": dict(latency)}
    return replace(longer, arrays=MappingProxyType(kept), meta=MappingProxyType(meta))
