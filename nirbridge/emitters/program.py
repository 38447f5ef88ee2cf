"""The part of an emitted program that its host computes: names of the model, inputs, and outputs from readouts.

``program.json`` holds the names and where each variable of a node is found, ``program.npz`` the arrays. The templates
``host_inputs.py.txt`` and ``host_outputs.py.txt`` are the functions of a program's ``run.py`` that read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import ModelError, quoted
from nirbridge.files.npy import encode_name
from nirbridge.files.regular import template_text
from nirbridge.network.apply import matrix
from nirbridge.network.model import Projection
from nirbridge.network.operators import Identity, Reshape

TEMPLATES = Path(__file__).with_name("templates")
_READ_SYNAPSES_MAX = 50_000_000
_LONGEST_KEY = 30_000


@dataclass(frozen=True, slots=True)
class ProcessPart:
    """A process that holds a population or a slice of it; ``at``: the flat indices of its neurons, None: all."""

    id: str
    at: Array | None = None


@dataclass(frozen=True, slots=True)
class PopulationParts:
    """The processes of one population; v in reals is ``v / scale + v_offset``."""

    name: str
    shape: Shape
    parts: tuple[ProcessPart, ...]
    fires: bool
    max_spikes: int
    scale: Array
    v_offset: Array


@dataclass(frozen=True, slots=True)
class Readout:
    """A real matrix (compressed rows; None: the values as they are) that the host applies to the spikes of a node."""

    source: str
    matrix: Mapping[str, Array] | None
    bias: Array | None
    source_delay: Array
    target_delay: Array


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input of the model: its process and which values it takes (``value_max`` None: any real)."""

    name: str
    shape: Shape
    id: str
    value_max: int | None
    scale: float


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """An output of the model."""

    name: str
    shape: Shape
    reads: tuple[Readout, ...]


def output_spec(name: str, shape: Shape, reads: tuple[Projection, ...]) -> OutputSpec:
    """An output with the operations that the host applies."""
    return OutputSpec(name, shape, tuple(_readout(p) for p in reads if p.target == name))


def _readout(p: Projection) -> Readout:
    if isinstance(p.operator, Identity | Reshape):
        return Readout(p.source, None, p.bias, p.delay_steps, p.target_delay_steps)
    rows = matrix(p.operator, _READ_SYNAPSES_MAX)
    arrays = {"data": rows.data, "indices": rows.indices.astype(np.int64), "indptr": rows.indptr.astype(np.int64)}
    return Readout(p.source, arrays, p.bias, p.delay_steps, p.target_delay_steps)


class ProgramArrays(dict[str, Array]):
    """The arrays of ``program.npz`` as they are collected."""

    def put(self, key: str, values: Any) -> str:
        """Adds an array and returns its key."""
        self[key] = np.asarray(values)
        return key


def program_record(
    inputs: Sequence[InputSpec], nodes: Sequence[PopulationParts], outputs: Sequence[OutputSpec]
) -> tuple[dict[str, Any], ProgramArrays]:
    """Entries of ``program.json`` and the arrays they point to. Names of the model stand here and nowhere else."""
    arrays = ProgramArrays()
    silent = {node.name for node in nodes if not node.fires}
    record = {
        "inputs": [
            {
                "name": t.name,
                "key": _key(t.name),
                "shape": t.shape,
                "id": t.id,
                "value_max": t.value_max,
                "scale": t.scale,
            }
            for t in inputs
        ],
        "nodes": [_node(k, node, arrays) for k, node in enumerate(nodes)],
        "outputs": [_output(k, port, silent, arrays) for k, port in enumerate(outputs)],
    }
    return record, arrays


def _node(k: int, node: PopulationParts, arrays: ProgramArrays) -> dict[str, Any]:
    return {
        "name": node.name,
        "key": _key(node.name),
        "shape": node.shape,
        "parts": [
            {"id": p.id, "at": None if p.at is None else arrays.put(f"node{k}.part{j}", p.at)}
            for j, p in enumerate(node.parts)
        ],
        "fires": node.fires,
        "max_spikes": node.max_spikes,
        "scale": arrays.put(f"node{k}.scale", _flat(node.scale)),
        "v_offset": arrays.put(f"node{k}.v_offset", _flat(node.v_offset)),
    }


def _output(k: int, port: OutputSpec, silent: set[str], arrays: ProgramArrays) -> dict[str, Any]:
    reads = [_read(f"output{k}.read{j}", read, arrays) for j, read in enumerate(port.reads)]
    reads_out = bool(reads) and all(read.source in silent for read in port.reads)
    return {"name": port.name, "key": _key(port.name), "shape": port.shape, "reads": reads, "reads_out": reads_out}


def _read(key: str, read: Readout, arrays: ProgramArrays) -> dict[str, Any]:
    table = None
    if read.matrix is not None:
        table = f"{key}.matrix"
        for name, values in read.matrix.items():
            arrays.put(f"{table}.{name}", values)
    return {
        "source": read.source,
        "matrix": table,
        "bias": None if read.bias is None else arrays.put(f"{key}.bias", np.ravel(read.bias)),
        "source_delay": arrays.put(f"{key}.source_delay", _flat(read.source_delay)),
        "target_delay": arrays.put(f"{key}.target_delay", _flat(read.target_delay)),
    }


def _flat(values: Array) -> Array:
    return np.asarray(values).reshape(-1) if np.ndim(values) else np.asarray(values)


def _key(name: str) -> str:
    key = encode_name(name)
    if len(key.encode("utf-8", "surrogatepass")) > _LONGEST_KEY:
        raise ModelError.of(f"node {quoted(name)}", "its name is too long for an archive", "", "rename the node")
    return key


def with_host_code(text: str) -> str:
    """A template of a ``run.py`` with the functions of the host in place of its two marks."""
    for mark, name in (("# HOST INPUTS\n", "host_inputs"), ("# HOST OUTPUTS\n", "host_outputs")):
        text = text.replace(mark, template_text(TEMPLATES / f"{name}.py.txt"))
    return text


def filled(text: str, blocks: Mapping[str, Iterable[str]]) -> str:
    """A template with lines in place of its marks; a mark is a line ``# NAME``, whose indent they get."""
    return re.sub(r"( *)# ([A-Z]+)\n", lambda m: "".join(f"{m[1]}{line}\n" for line in blocks[m[2]]), text)


def json_text(value: object) -> str:
    """JSON that survives every encoding, sorted."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"
