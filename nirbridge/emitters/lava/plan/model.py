"""The program as data: processes with arguments, connections, and the processes of each node of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.program import InputSpec, OutputSpec, PopulationParts

Argument = int | float | bool | str | Shape | Array
LayerProcess = Literal["LIF", "IntegerNeuron", "RealNeuron"]
SynapseProcess = Literal["Dense", "Sparse", "Conv", "DelayDense", "DelaySparse"]


@dataclass(frozen=True, slots=True)
class LavaLayer:
    """One neuron process: ``arguments`` of its constructor, plain values or arrays (which go to ``weights.npz``).

    ``text``: the definition of a process that Lava does not have, named ``NAME`` there; ``functions``: those it calls.
    """

    id: str
    process: LayerProcess
    shape: Shape
    arguments: Mapping[str, Argument]
    functions: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class LavaSynapse:
    """One synaptic process between two processes.

    ``before`` and ``after`` reshape a port on its way in and out: ``("reshape", shape)`` or
    ``("transpose", axes)``. Matrices of Sparse and DelaySparse are the arguments ``data``, ``indices``, ``indptr`` and
    ``matrix_shape``, delays ``delays`` (of Sparse: one per stored weight).
    """

    id: str
    process: SynapseProcess
    source: str
    target: str
    arguments: Mapping[str, Argument]
    before: tuple[tuple[str, Shape], ...] = ()
    after: tuple[tuple[str, Shape], ...] = ()
    sign_mode: str = ""


@dataclass(frozen=True, slots=True)
class LavaPlan:
    """A whole program. ``tag`` is Lava's name of the models: 'fixed_pt' or 'floating_pt'."""

    chip: str
    dt: float
    tag: str
    layers: tuple[LavaLayer, ...]
    synapses: tuple[LavaSynapse, ...]
    inputs: tuple[InputSpec, ...]
    nodes: tuple[PopulationParts, ...]
    outputs: tuple[OutputSpec, ...]
    latency: Mapping[str, int]
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def sources(self) -> tuple[InputSpec, ...]:
        """The inputs that a synaptic process reads: each is an input process that plays an array."""
        used = {synapse.source for synapse in self.synapses}
        return tuple(port for port in self.inputs if port.id in used)

    @property
    def processes(self) -> int:
        """Number of Lava processes of a run, including the recorder."""
        return len(self.sources) + len(self.layers) + len(self.synapses) + 1

    @property
    def definitions(self) -> dict[str, str]:
        """The names of processes that Lava does not have, by their text; equal ones are one."""
        names: dict[str, str] = {}
        for layer in self.layers:
            number = len(names) + 1
            if layer.text:
                names.setdefault(layer.text, f"{layer.process}{number if number > 1 else ''}")
        return names

    def process(self, layer: LavaLayer) -> str:
        """The name of a layer's process in the program."""
        return self.definitions.get(layer.text, layer.process)
