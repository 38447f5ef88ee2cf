"""Removal of the loop of ``norse.torch.Lift``, and of states that a module returns beside its output.

Lift applies a module to every time step of a sequence. A stateless module can take time and batch as one axis; a cell
becomes a sequence class of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nirbridge.importers.dataflow import DataflowGraph
from nirbridge.importers.neuron_specs import NeuronSpec, neuron_spec_of
from nirbridge.importers.tracing.run import computed_tensors_memo

_TIME_FIRST = ("time", "batch")


def without_lifts(module: Any, forms: Mapping[type, NeuronSpec]) -> tuple[Any, Mapping[type, NeuronSpec]]:
    """Copy of ``module`` whose Lifts need no loop, and the forms with those of lifted cells."""
    import norse.torch as norse

    if not any(isinstance(m, norse.Lift) for m in module.modules()):
        return module, forms

    specs: dict[type, NeuronSpec] = dict(forms)

    def lifted(inner: Any) -> Any:
        form = neuron_spec_of(inner, forms)
        if form is None and _holds_states(inner, forms):
            return norse.Lift(inner)  # several layers with states: its loop is traced
        if form is None or form.layout is not None:
            return _each_step(inner)
        cls = type(f"Lifted{type(inner).__name__}", (norse.Lift,), {"forward": norse.Lift.forward})
        specs[cls] = replace(form, read=lambda m, s, dt: form.read(m.lifted_module, s, dt), layout=_TIME_FIRST)
        return cls(inner)

    clone = copy.deepcopy(module, computed_tensors_memo(module))
    if isinstance(clone, norse.Lift):
        return lifted(clone.lifted_module), specs
    for outer in list(clone.modules()):
        for name, inner in list(outer.named_children()):
            if type(inner) is norse.Lift:
                setattr(outer, name, lifted(inner.lifted_module))
    return clone, specs


def _each_step(inner: Any) -> Any:
    """A stateless module on ``[time, batch, ...]``."""
    import torch

    class EachStep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lifted_module = inner

        def forward(self, x: Any) -> Any:
            x = x[0] if isinstance(x, tuple) else x  # a lifted cell returns (output, state)
            return self.lifted_module(x.flatten(0, 1)).unflatten(0, x.shape[:2])

    return EachStep()


def _holds_states(module: Any, forms: Mapping[type, NeuronSpec]) -> bool:
    return any(neuron_spec_of(inner, forms) is not None for inner in module.modules())


def without_states(flow: DataflowGraph) -> DataflowGraph:
    """The flow without outputs that are the spikes ``z`` in a recurrent cell's state, beside its potential ``v``."""
    potentials = {(o.name, o.ref.call) for o in flow.outputs}
    states = [o for o in flow.outputs if o.name[-2:] == "_z" and (f"{o.name[:-1]}v", o.ref.call) in potentials]
    kept = tuple(o for o in flow.outputs if o not in states)
    return replace(flow, outputs=kept) if kept else flow
