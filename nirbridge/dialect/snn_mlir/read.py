"""A module of snn-mlir as a network."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import freeze
from nirbridge.dialect.snn_mlir.arrays import HINT, ArrayReader, Term, pool
from nirbridge.dialect.snn_mlir.grammar import (
    ALLOCATIONS,
    COPY,
    FACTS,
    NEURONS,
    POOLS,
    RESHAPES,
    SYNAPSES,
    Module,
    kind_of,
    parse_syntax,
    unescaped,
)
from nirbridge.dialect.snn_mlir.tokens import SUM, Op
from nirbridge.errors import FileError, ModelError, quoted
from nirbridge.files.regular import open_regular, read_up_to
from nirbridge.network.check import check_network
from nirbridge.network.compose import compose
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.naming import fresh_name
from nirbridge.network.neurons import neuron
from nirbridge.network.storage.file import as_requested

MAX_BYTES = 2**30


def text_of(path: str | os.PathLike[str], max_bytes: int | None) -> tuple[str, str]:
    """(subject of messages, content) of a ``.mlir`` file. Raises FileError: unreadable, too long, or no text."""
    name = os.path.basename(os.fsdecode(path))
    subject, limit = f"file {quoted(name)}", min(max_bytes or MAX_BYTES, MAX_BYTES)
    with open_regular(path, quoted(name), "a model file") as file:
        content = read_up_to(file, limit)
    if len(content) > limit:
        raise FileError.of(subject, f"more than {limit:,} bytes", "the limit of a text", "use a .nir or .net.npz file")
    try:
        return subject, content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError.of(subject, f"byte {error.start:,} is no UTF-8 text", "MLIR is text", HINT) from None


def read_snn_mlir(
    text: str, timing: Timing | None = None, repairs: Sequence[str] = (), *, subject: str = "module"
) -> Network:
    """The network of a module in the dialect of snn-mlir 1.0, in f32 or f64; nothing of the text is executed.

    The time step and names of ports and populations are those that ``snn_mlir_text`` wrote; other modules have a time
    step of ``timing``, else 1e-4 s, and populations named after the arguments with their states.

    Raises:
        FileError: a text that is no such module, or one whose operations contradict each other.
        ModelError: a module with other operations, or in integers.
        UsageError: a timing other than the one that the text states.
    """
    module = parse_syntax(text, subject)
    network = _Reader(module, facts_of(module, subject), subject).network()
    network = as_requested(network, timing, repairs, subject)
    check_network(network)
    return network


class _Reader(ArrayReader):
    """Populations, projections and ports."""

    def __init__(self, module: Module, facts: Facts, subject: str) -> None:
        super().__init__(module, subject)
        self.facts = facts
        self.populations: list[Population] = []
        self.projections: list[Projection] = []
        self.names: set[str] = set()

    def network(self) -> Network:
        for op in self.module.operations:
            self.op = op
            self._operation(op)
        owners = {name: p.source for name, p in self._outputs()}
        sources = {argument: self.signals[shown][0].source for argument, shown in self.copies.items()}
        self.projections = [self._with_source(p, sources) for p in self.projections]
        names = self._port_names(owners)
        return self._named(names)

    def _operation(self, op: Op) -> None:
        if op.name in ALLOCATIONS:
            self.define(op.writes, op.types[0])
        elif op.name == "memref.get_global":
            self.constant(op)
        elif op.name in RESHAPES:
            self.define(op.writes, op.types[1])
            self.signals[op.writes] = self.reshaped(op)
        elif op.name == SUM:
            self.write(self.added(op))
        elif op.name == COPY:
            self._copy(op)
        elif op.name in SYNAPSES:
            self.write(self.product(op))
        elif op.name in POOLS:
            self.write(self.then(self.read(op.reads[0], op.types[0]), pool(op, self.fail), ""))
        else:
            self._neuron(op)

    def _neuron(self, op: Op) -> None:
        shape = op.types[0].shape
        signal = self.read(op.reads[0], op.types[0])
        for name, kind in zip(op.states, op.types[1:], strict=False):
            self.typed(name, kind)
            is_used = name in self.signals or name in self.states or name in self.copies
            if name not in self.module.arguments or is_used or kind.shape != shape:
                self.fail(f"the state {quoted(name)}", "a state is an argument of its own, of the input's shape")
            self.states.add(name)
        if op.types[-1].shape != shape:
            self.fail(f"an output of shape {op.types[-1].shape}", f"the input has {shape}")
        name = self._population_name(op)
        if name in self.module.arguments:
            self.fail(f"a population named {quoted(name)}", "names of arguments are others")
        self.populations.append(Population(name, shape, self._record(op)))
        self.names.add(name)
        self.projections += [self._projection(term, name, shape) for term in signal]
        self.write((Term(name),))

    def _record(self, op: Op) -> Any:
        known = NEURONS[op.name]
        values: dict[str, Any] = {field: self._attribute(op, key) for key, field in known.items()}
        unknown = [key for key in op.attributes if key not in known and not key.endswith(("_int", "d_scale"))]
        if unknown:
            self.fail(f"{op.name} with {quoted(unknown[0])}", f"it has {', '.join(known)}")
        fires = "theta" in values
        values.setdefault("v_reset", 0.0)
        kind = kind_of(op.name, values["a_mem"])
        if not fires:
            return neuron(kind, theta=None, reset="none", reset_amount=0.0, **values)
        return neuron(kind, reset="to-value", **values)

    def _attribute(self, op: Op, key: str) -> float:
        value = op.attributes.get(key, 0.0)
        if not isinstance(value, float) or not np.isfinite(value):
            self.fail(f"{key} of {op.name} is {quoted(value)}", "a finite number")
        return value

    def _population_name(self, op: Op) -> str:
        """The name among the facts, else that of the argument with the potential."""
        k = len(self.populations)
        if len(self.facts.populations) > k:
            return self.facts.populations[k]
        name = op.states[-1].removeprefix("%")
        plain = name.removeprefix("voltage_") if name.startswith("voltage_") else f"{op.name.partition('.')[2]}_{k}"
        return fresh_name(plain, self.names)

    def _projection(self, term: Term, target: str, shape: Shape) -> Projection:
        first = term.parts[0].input_shape if term.parts else shape
        operator, names = compose(term.parts, term.names, first)
        nodes = names if all(names) else ()
        delay = freeze(np.int64(term.is_back))
        return Projection(term.source, target, operator, term.bias, delay, is_back=term.is_back, nodes=nodes)

    def _copy(self, op: Op) -> None:
        """Spikes that are kept for the next time step."""
        for name, kind in zip((op.reads[0], op.writes), op.types, strict=True):
            self.typed(name, kind)
        signal = self.signals.get(op.reads[0], ())
        is_spikes = len(signal) == 1 and not signal[0].parts and signal[0].source in self.names
        if not is_spikes or op.writes not in self.module.arguments or op.writes in self.finished:
            self.fail(f"a copy into {quoted(op.writes)}", "outputs of neurons are copied into an argument each")
        if op.writes in self.signals or op.writes in self.states:
            self.fail(f"{quoted(op.writes)} is written twice")
        self.finished.add(op.writes)

    def _with_source(self, p: Projection, sources: Mapping[str, str]) -> Projection:
        """A projection from an argument as one from the population that is copied into it."""
        if not p.is_back:
            return p
        source = sources[p.source]
        if p.target != source:
            subject = f"{self.subject}, population {quoted(p.target)}"
            found = f"reads {quoted(source)} of the time step before"
            raise ModelError.of(subject, found, "only its own spikes are read so", HINT)
        return replace(p, source=source)

    def _outputs(self) -> Iterator[tuple[str, Projection]]:
        """Arguments that are written, with a projection from their source."""
        for name, kind in self.module.arguments.items():
            if name in self.given or name in self.states or name in self.copies:
                continue
            if name not in self.signals:
                self.fail(f"the argument {quoted(name)} is not used")
            for term in self.signals[name]:
                projection = self._projection(term, name, kind.shape)
                self.projections.append(projection)
                yield name, projection

    def _port_names(self, owners: Mapping[str, str]) -> dict[str, str]:
        """Names of inputs and outputs: those among the facts, else those of the arguments."""
        taken = set(self.names)
        listed: Sequence[tuple[str, str]] = [*((n, "input") for n in self.given), *((n, "output") for n in owners)]
        names: dict[str, str] = {}
        for (argument, noun), k in zip(listed, count()):
            stated = self.facts.ports[k] if k < len(self.facts.ports) == len(listed) else ""
            plain = noun if argument.startswith("%arg") else argument.removeprefix("%")
            names[argument] = stated or fresh_name(plain, taken)
            taken.add(names[argument])
        return names

    def _named(self, names: Mapping[str, str]) -> Network:
        kinds = self.module.arguments
        ends = (names.get(p.source, p.source) for p in self.projections)
        projections = [replace(p, source=s, target=names.get(p.target, p.target))
                       for p, s in zip(self.projections, ends, strict=True)]  # fmt: skip
        inputs = tuple(Port(names[name], kinds[name].shape) for name in self.given)
        outputs = tuple(Port(names[n], kinds[n].shape) for n in names if n not in self.given)
        facts = self.facts
        return Network(
            facts.timing.dt or 0.0, facts.timing, tuple(self.populations), tuple(projections), inputs, outputs,
            facts.assumed,
        )  # fmt: skip


# -- facts ---------------------------------------------------------------------------------------------------------
# What a module says beside its operations: the time step, and names of ports and populations.

DEFAULT_DT = 1e-4
_DEFAULT = Timing(DEFAULT_DT, "euler", "to-value", ">", "per-second")
_WORDS = {"integrator": ("euler", "zoh", "exponential"), "reset": ("to-value", "subtract", "none"),
          "compare": (">", ">="), "if_gain": ("per-second", "per-step")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Facts:
    """Names in the order of the module, and its timing; ``assumed`` where it states none."""

    timing: Timing
    populations: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


def facts_of(module: Module, subject: str) -> Facts:
    """The facts that nirbridge wrote, else defaults. Raises FileError for facts of another form."""
    stated = module.attributes.get(FACTS)
    if stated is None:
        return Facts(_DEFAULT, assumed=(f"dt = {DEFAULT_DT:g} s (the module states none)",))
    try:
        return _facts(stated)
    except (TypeError, ValueError, KeyError) as error:
        raise FileError.of(f"{subject}, attribute {FACTS}", quoted(error), "", "leave the attribute out") from None


def _facts(stated: Mapping[str, Any]) -> Facts:
    dt, names, words = stated["dt"], stated["names"], stated["timing"]
    if not isinstance(dt, float) or not (math.isfinite(dt) and dt > 0):
        raise ValueError("dt is no number of seconds above 0")
    choices = dict(zip((f.name for f in fields(Timing) if f.name != "dt"), words, strict=True))
    if any(word not in _WORDS[key] for key, word in choices.items()):
        raise ValueError("unknown words of timing")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) < 2:
        raise ValueError("names are no list of texts")
    read = tuple(unescaped(name) for name in names)
    return Facts(Timing(dt, **choices), read[1:-1], (read[0], read[-1]))
