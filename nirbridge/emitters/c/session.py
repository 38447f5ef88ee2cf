"""An emitted C program as a shared library in this process: prepared once, run on from states."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, write_artifact
from nirbridge.emitters.c.options import recorded_options
from nirbridge.emitters.c.plan import CPlan, Source, c_plan
from nirbridge.emitters.c.render import input_type, state_arrays
from nirbridge.emitters.c.run import FLAGS, compile_program, numpy_type
from nirbridge.emitters.ports import NETWORK
from nirbridge.errors import ModelError
from nirbridge.files.atomic import write_new
from nirbridge.files.scratch import temporary_folder
from nirbridge.program.rules import states_of
from nirbridge.quantization.model import FixedInput
from nirbridge.quantization.storage.file import read_quantized
from nirbridge.simulators.fixed.host_io import fixed_channels, integer_values, readout_values
from nirbridge.simulators.fixed.runs import IntegerRun, IntegerSimulator
from nirbridge.simulators.recording import Channel, copied_source
from nirbridge.simulators.types import Key, SimulationState


def open_program(artifact: Artifact) -> CSimulator:
    """Compile a program as a shared library, and load it.

    Raises:
        UsageError: no compiler.
        FileError: a manifest without options.
        ModelError: it cannot be compiled, its files do not belong together, or its numbers have no session.
    """
    options = recorded_options(artifact)
    problems = {
        "computes in float32": options.in_reals,
        "has no hops": not options.hops,
        f"has no file {NETWORK}": NETWORK not in artifact.files,
    }
    if found := next((problem for problem, is_so in problems.items() if is_so), None):
        raise ModelError.of(
            "program", found, "sessions of C run a chip's integers", "emit a quantized network, with hops"
        )
    with temporary_folder("c") as scratch:
        folder = Path(scratch) / "program"
        write_artifact(artifact, folder)
        plan = c_plan(read_quantized(folder / NETWORK, max_bytes=sys.maxsize))
        fields, place = _fields(plan), options.folder
        write_new(folder / "session.c", options.renamed(_driver(fields)).encode("ascii"))
        flags = (*FLAGS, "-shared", "-fPIC", f"-I{place or '.'}", options.renamed("-DNB_TRACE"))
        sources = ("session.c", f"{place}{options.stem}.c")
        library = ctypes.CDLL(str(compile_program(folder, sources, "session.so", flags)))
    return CSimulator(plan, library, _layout(fields, library))


# -- layout --------------------------------------------------------------------------------------------------------
# The structs of the program as types of NumPy, with the places that the compiler chose.


@dataclass(frozen=True, slots=True)
class Field:
    """An array in a struct (``model``, ``inputs`` or ``row``): where it is in C, its type, and its sizes."""

    struct: str
    name: str
    path: str
    type: str
    sizes: tuple[int, ...]


def _fields(plan: CPlan) -> tuple[Field, ...]:
    """Every field that a session reads or writes; ``row``: what populations sent, and their u and v."""
    arrays = [(f"{n.id}_{v}", n.kind, (n.source.size,)) for n in plan.neurons for v in n.traced]
    states = [(name, kind, sizes) for kind, name, sizes in state_arrays(plan)]
    found = [Field("model", name, name, kind, sizes) for name, kind, sizes in (*states, *arrays)]
    found += [Field("model", f"out_{n.id}", f"out.{n.id}", n.out_type, (n.source.size,)) for n in plan.shown]
    found += [Field("inputs", s.id, s.id, input_type(s), (s.size,)) for s in plan.inputs]
    for n in plan.neurons:
        rows = [(v, n.kept.get(v, n.kind)) for v in n.step.variables]
        found += [Field("row", f"{n.id}_{v}", f"{n.id}_{v}", kind, (n.source.size,)) for v, kind in rows]
    return (*found, Field("model", "step", "step", "uint32_t", ()))


def _layout(fields: Sequence[Field], library: ctypes.CDLL) -> dict[str, np.dtype[Any]]:
    """Types of NumPy by struct. Raises ModelError for a program whose arrays are not those of its network."""
    count = len(STRUCTS) + 2 * len(fields)
    numbers = list((ctypes.c_uint64 * count).in_dll(library, "session_layout"))
    sizes, places = numbers[: len(STRUCTS)], numbers[len(STRUCTS) :]
    found: dict[str, dict[str, list[Any]]] = {s: {"names": [], "formats": [], "offsets": []} for s in STRUCTS}
    for field, offset, size in zip(fields, places[::2], places[1::2], strict=True):
        kind = np.dtype((numpy_type(field.type), field.sizes))
        if kind.itemsize != size:
            limit = f"{NETWORK} needs {kind.itemsize:,} bytes"
            raise ModelError.of("program", f"its field {field.path} has {size:,} bytes", limit, "emit it again")
        for column, value in zip(found[field.struct].values(), (field.name, kind, offset), strict=True):
            column.append(value)
    layout: Any = {s: {**columns, "itemsize": size} for (s, columns), size in zip(found.items(), sizes, strict=True)}
    return {struct: np.dtype(columns) for struct, columns in layout.items()}


STRUCTS = ("model", "inputs", "row")
_TEXT = """/* A session: steps of several instances, one for each sample. */
#include <stddef.h>
#include <string.h>

#include "@STEM@.h"

typedef struct {
@ROWS@
    char none;
} session_row;

const uint64_t session_layout[] = {
    sizeof(nb_model), sizeof(nb_inputs), sizeof(session_row),
@PLACES@
};

void session_reset(nb_model *models, int64_t samples)
{
    for (int64_t k = 0; k < samples; ++k)
        nb_reset(&models[k]);
}

void session_step(nb_model *models, const nb_inputs *in, int64_t samples)
{
    for (int64_t k = 0; k < samples; ++k)
        nb_step(&models[k], &in[k]);
}

void session_run(nb_model *models, const nb_inputs *in, session_row *rows, int64_t samples, int64_t steps)
{
    for (int64_t t = 0; t < steps; ++t, in += samples)
        for (int64_t k = 0; k < samples; ++k, ++rows) {
            const nb_model *const m = &models[k];

            nb_step(&models[k], &in[k]);
@COPY@
            (void)m;
            rows->none = 0;
        }
}
"""


def _driver(fields: Sequence[Field]) -> str:
    """The file ``session.c``, for ``renamed``."""
    structs = {"model": "nb_model", "inputs": "nb_inputs", "row": "session_row"}
    rows = [f for f in fields if f.struct == "row"]
    places = [
        f"    offsetof({structs[f.struct]}, {f.path}), sizeof((({structs[f.struct]} *)0)->{f.path})," for f in fields
    ]
    parts = {
        "@ROWS@": "\n".join(f"    {f.type} {f.name}[{f.sizes[0]}];" for f in rows),
        "@PLACES@": "\n".join(places),
        "@COPY@": "\n".join(f"            memcpy(rows->{f.name}, m->{f.name}, sizeof m->{f.name});" for f in rows),
    }
    text = _TEXT
    for mark, value in parts.items():
        text = text.replace(mark, value)
    return text


# -- runs ----------------------------------------------------------------------------------------------------------


class CSimulator(IntegerSimulator):
    """A C program, compiled and loaded; no state of a run is kept."""

    def __init__(self, plan: CPlan, library: ctypes.CDLL, layout: Mapping[str, np.dtype[Any]]) -> None:
        super().__init__(plan.quantized, backend="c")
        self.plan, self.layout = plan, layout
        self.reset, self.advance, self.advance_many = (
            getattr(library, f"session_{name}") for name in ("reset", "step", "run")
        )
        for function, pointers, counts in ((self.reset, 1, 1), (self.advance, 2, 1), (self.advance_many, 3, 2)):
            function.argtypes = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * counts
            function.restype = None
        names = (p.name for p in (*plan.quantized.inputs, *plan.quantized.populations))
        self.sources = dict(zip(names, (*plan.inputs, *(n.source for n in plan.neurons)), strict=True))

    def start(self, batch: int, state: SimulationState | None) -> CRun:
        """See ``IntegerSimulator``; C has room for the values that runs of the network reach, and no others.

        Raises:
            UsageError: a state of another form, or with other values.
        """
        return CRun(self, batch, state)

    @property
    def has_plain_outputs(self) -> bool:
        """True where outputs have no delay, and the program remembers all that a state has."""
        remembers = (self.sources[name].slots > depth for name, depth in self.depths.items() if depth)
        return not any(read.delay_steps.any() for read in self.quantized.reads) and all(remembers)

    def runner(self, batch: int, state: SimulationState | None = None) -> Any:
        """See ``Continued``."""
        if not self.has_plain_outputs:
            return super().runner(batch, state)
        return CRunner(self.start(batch, state), fixed_channels(self.quantized, self.signature, None))


class CRun(IntegerRun):
    """One run: an instance of the program for each sample."""

    def __init__(self, simulator: CSimulator, batch: int, state: SimulationState | None) -> None:
        super().__init__(simulator, batch, state)
        self.simulator = simulator
        self.models = np.zeros(batch, simulator.layout["model"])
        simulator.check_values(state)
        simulator.reset(self.models.ctypes.data, batch)
        models, arrays = self.models, self.first.arrays
        models["step"] = self.step & 0xFFFFFFFF
        for n in self.simulator.plan.neurons:
            for name in n.kept:
                models[f"{n.id}_{name}"] = arrays[n.population.name, name].reshape(self.batch, -1)
        for name, past in self.past.items():
            source = self.simulator.sources[name]
            for age in range(1, 1 + min(len(past), source.slots)):
                ring = models[f"{source.id}_sent"]
                ring[:, (self.step - age) & (source.slots - 1)] = _stored(source, past[-age])

    def advance(self, history: Mapping[str, Array], steps: int, traces: Mapping[Key, Array]) -> None:
        """See ``IntegerRun``."""
        of, depths = self.simulator, self.of.depths
        given = np.zeros((steps, self.batch), of.layout["inputs"])
        rows = np.empty((steps, self.batch), of.layout["row"])
        for name, source in zip((p.name for p in of.quantized.inputs), of.plan.inputs, strict=True):
            given[source.id] = history[name][depths[name] :]
        of.advance_many(self.models.ctypes.data, given.ctypes.data, rows.ctypes.data, self.batch, steps)
        for n in of.plan.neurons:
            name = n.population.name
            history[name][depths[name] :] = rows[f"{n.id}_s"]
            for variable in ("u", "v"):
                if (name, variable) in traces:
                    traces[name, variable][:] = rows[f"{n.id}_{variable}"]

    def states(self) -> Mapping[Key, Array]:
        """See ``IntegerRun``."""
        return dict(self._states(self.step != self.first.step))

    def _states(self, has_run: bool) -> Iterator[tuple[Key, Array]]:
        """``has_run``: fields that no time step reads have the values of the last one."""
        for n in self.simulator.plan.neurons:
            for part in states_of(n.population.neuron):
                key = n.population.name, part
                is_there = part in n.kept or (has_run and part in n.traced)
                values = self.models[f"{n.id}_{part}"] if is_there else self.first.arrays[key]
                yield key, values.reshape(self.batch, -1)

    def recall(self) -> None:
        """Take what sources sent before from the instances, which remember all of it."""
        for name, past in self.past.items():
            source = self.simulator.sources[name]
            ring, slots = self.models[f"{source.id}_sent"], source.slots
            places = [(self.step - age) & (slots - 1) for age in range(len(past), 0, -1)]
            self.past[name] = _sent(source, ring[:, places]).swapaxes(0, 1).astype(self.of.sent[name])


def _stored(source: Source, sent: Array) -> Array:
    """What the program keeps of ``[batch, neurons]``: spikes of 0 and 1 as bits, 32 in a word."""
    if not source.is_binary:
        return sent
    wide = np.zeros((len(sent), source.words, 32), np.uint32)
    wide.reshape(len(sent), -1)[:, : source.size] = sent
    return (wide << np.arange(32, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)


def _sent(source: Source, stored: Array) -> Array:
    """The inverse of ``_stored``, over the last axis."""
    if not source.is_binary:
        return stored
    bits = stored[..., None] >> np.arange(32, dtype=np.uint32) & 1
    return bits.reshape(*stored.shape[:-1], -1)[..., : source.size]


class CRunner:
    """A ``Runner`` that calls the program's own step, on arrays in place; see ``CSimulator.has_plain_outputs``."""

    def __init__(self, run: CRun, channels: Sequence[Channel]) -> None:
        of, self._run = run.simulator, run
        self._quantized, self._given = of.quantized, np.zeros(run.batch, of.layout["inputs"])
        sent = {p.name: self._given[s.id] for p, s in zip(of.quantized.inputs, of.plan.inputs, strict=True)}
        self._inputs = [(p, sent[p.name].reshape(run.batch, *p.shape)) for p in of.quantized.inputs]
        sent |= {n.population.name: run.models[f"out_{n.id}"] for n in of.plan.shown}
        self._outputs = [(c.node, np.dtype(c.dtype), self._reader(c, sent)) for c in channels]
        self._step = partial(of.advance, run.models.ctypes.data, self._given.ctypes.data, run.batch)

    def _reader(self, channel: Channel, sent: Mapping[str, Array]) -> Any:
        """The view that an output copies, or a function that computes the output."""
        q, name = self._quantized, channel.node
        source = copied_source(self._run.of.signature, name)
        port = next(port for port in q.outputs if port.name == name)
        if any(p.name == source and p.neuron.fires for p in q.populations):
            return sent[source or ""].reshape(self._run.batch, *port.shape)
        depths = dict.fromkeys(sent, 0)
        return lambda: readout_values(q, port, 1, {n: x[None] for n, x in sent.items()}, depths)[0]

    def step(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """See ``Runner``."""
        for port, place in self._inputs:
            place[...] = self._integers(port, values[port.name])
        self._step()
        self._run.step += 1
        return {name: np.array(x() if callable(x) else x, dtype) for name, dtype, x in self._outputs}

    def _integers(self, port: FixedInput, values: Array) -> Array:
        kind = values.dtype.kind
        if not port.graded and (kind == "b" or (kind == "u" and values.max(initial=0) <= 1)):
            return values
        return integer_values(port, values[None], self._run.step).reshape(values.shape)

    def state(self) -> SimulationState:
        """See ``Runner``."""
        self._run.recall()
        return self._run.end()
