"""Networks as plans of modules: names, layers of every projection, neurons of a framework, delays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.modules.layers import Layer, layer_of
from nirbridge.emitters.modules.names import identifiers
from nirbridge.emitters.modules.plan import (
    Framework,
    HeldNeuron,
    LayerCall,
    ModulePlan,
    PlannedMember,
    PlannedNeurons,
    PlannedSynapse,
)
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.network.compose import parts_of
from nirbridge.network.graph import in_causal_order, population_groups
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Identity

DELAYS = "emit --to torch, which holds every delay"


def module_plan(network: Network, framework: Framework) -> ModulePlan:
    """The plan of a network.

    Raises:
        ModelError: everything that the framework's classes do not compute, and a network without an input.
    """
    if not network.inputs or not network.outputs:
        found = f"has no {'output' if network.inputs else 'input'}"
        limit = "a module takes time and batch from an input, and returns outputs"
        raise ModelError.of("network", found, limit, "add one")
    return _Planner(in_causal_order(network), framework).plan()


class _Planner:
    """One plan under construction."""

    def __init__(self, network: Network, framework: Framework) -> None:
        self.network, self.framework = network, framework
        ends = (*network.inputs, *network.populations, *network.outputs)
        self.ids = identifiers(x.name for x in ends)
        self.taken = set(self.ids.values())
        self.problems: list[Diagnostic] = []
        self.order = [p for group in population_groups(network) for p in group.populations]
        self.rank = {p.name: k for k, p in enumerate(self.order)}

    def plan(self) -> ModulePlan:
        held = [self._held(p) for p in self.order]
        for p in self.network.projections:
            self.problems += [] if self.framework.delays else self._limits(p)
        ModelError.raise_all(self.problems)
        synapses = tuple(self._synapse(k, p) for k, p in enumerate(self.network.projections))
        found = zip(self.order, held, strict=True)
        neurons = tuple(self._neurons(p, h) for p, h in found if h is not None)
        return ModulePlan(self.network, self.framework, self.ids, neurons, synapses)

    def _held(self, p: Population) -> HeldNeuron | None:
        try:
            return self.framework.hold(p, self.network.dt)
        except ModelError as error:
            self.problems += error.problems
            return None

    def _neurons(self, p: Population, held: HeldNeuron) -> PlannedNeurons:
        name, outside = self.ids[p.name], held.outside
        members = []
        for word, values in (("gain", outside.gain), ("offset", outside.offset), ("back", outside.back)):
            if values is not None:
                members.append(PlannedMember(f"{name}_{word}", constant(values), kind="buffer"))
        own = PlannedMember(name, held.call, f"population {p.name!a}: {p.size} neurons")
        return PlannedNeurons(name, p, held, (*members, own))

    # -- projections ---------------------------------------------------------------------------------------------

    def _limits(self, p: Projection) -> list[Diagnostic]:
        """What a module of a framework without delays cannot do."""
        subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
        limit = f"a module of {self.framework.name} reads the spikes of this time step or of the one before"
        is_input = p.source not in self.rank
        source = None if is_input else self.order[self.rank[p.source]]
        found = []
        if p.target_delay_steps.any() or p.min_delay_steps != p.max_delay_steps:
            found.append(Diagnostic(subject, "its synapses have different delays", limit, DELAYS))
        elif p.max_delay_steps > (0 if is_input else 1):
            steps = f"a delay of {counted(p.max_delay_steps, 'time step')}{' after an input' if is_input else ''}"
            found.append(Diagnostic(subject, steps, limit, DELAYS))
        if source is not None and not source.neuron.fires and not self._is_read_out(p):
            text = f"it carries the potential of {quoted(p.source)}, which does not spike"
            limit = f"neurons of {self.framework.name} send spikes; a potential can only be returned"
            found.append(Diagnostic(subject, text, limit, "emit --to torch"))
        return found

    def _is_read_out(self, p: Projection) -> bool:
        """True where an output copies a readout and nothing else."""
        into = [q for q in self.network.projections if q.target == p.target]
        plain = all(isinstance(part, Identity) for part in parts_of(p.operator)) and p.bias is None
        return p.target not in self.rank and len(into) == 1 and plain and not p.max_delay_steps

    def _synapse(self, index: int, p: Projection) -> PlannedSynapse:
        parts = parts_of(p.operator)
        words = p.nodes if len(p.nodes) == len(parts) else (f"{p.source}_{p.target}",) * len(parts)
        comment = f"{p.source!a} -> {p.target!a}"
        layers: list[Layer] = []
        for k, (part, word) in enumerate(zip(parts, words, strict=True)):
            bias = p.bias if k == len(parts) - 1 and not p.target_delay_steps.any() else None
            fresh, is_traced = partial(self._fresh, word), not self.framework.delays
            layers.append(layer_of(part, fresh, bias, comment, is_traced=is_traced))
        base = self._base(layers, words, p)
        members = [layer.member for layer in layers if layer.member]
        bias_id = ""
        if p.bias is not None and not layers[-1].takes_bias:
            bias_id = self._fresh(f"{base}_bias")
            members.append(
                PlannedMember(bias_id, LayerCall(zeros_text(p.bias.shape), {"": p.bias}), comment, "parameter")
            )
        delays = [self._delay(base, word, steps, shape, members) for word, steps, shape in (
            ("delay", p.delay_steps, p.operator.input_shape),
            ("late", p.target_delay_steps, p.operator.output_shape),
        )]  # fmt: skip
        path, ids = tuple(layer.path for layer in layers), tuple(layer.id for layer in layers)
        return PlannedSynapse(f"{base}_{index}", p, tuple(members), path, ids, bias_id, *delays)

    def _base(self, layers: list[Layer], words: tuple[str, ...], p: Projection) -> str:
        known = next((layer.id for layer in reversed(layers) if layer.id), "")
        return (
            known
            or identifiers([words[-1] if words else f"{p.source}_{p.target}"])[
                words[-1] if words else f"{p.source}_{p.target}"
            ]
        )

    def _delay(self, base: str, word: str, steps: Array, shape: Shape, members: list[PlannedMember]) -> int | str:
        """One number, or a buffer that is added to ``members``."""
        if steps.min() == steps.max():
            return int(steps.max())
        name = self._fresh(f"{base}_{word}")
        table = np.broadcast_to(steps, shape)
        call = LayerCall(f"torch.zeros({', '.join(map(str, shape))}, dtype=torch.int64)", {"": table})
        members.append(PlannedMember(name, call, "time steps", "buffer"))
        return name

    def _fresh(self, word: str) -> str:
        name = identifiers([word], self.taken)[word]
        self.taken.add(name)
        return name


def zeros_text(shape: Shape) -> str:
    """A tensor of zeros."""
    return f"torch.zeros({', '.join(map(str, shape))})" if shape else "torch.zeros(())"


def constant(values: Array, dtype: str = "float32") -> LayerCall:
    """A tensor as text and entry: a single number is written out, others are zeros until they are loaded."""
    array = np.asarray(values, dtype)
    text = f"torch.tensor({float(array)!r})" if array.ndim == 0 else zeros_text(array.shape)
    return LayerCall(text, {"": array})


Hold = Callable[[Population], HeldNeuron]
