"""Norse's ConstantCurrentLIFEncoder as neurons: the same current in every time step, a membrane without a synapse.

``v + dt tmi ((v_leak - v) + x)``, spikes above v_th, reset to v_reset, 0 at first (``lif_current_encoder``). The module
runs all time steps by itself; the traced copy runs a loop over a cell of one time step in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nirbridge.arrays import compact
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronSpec, Parameters, reader
from nirbridge.importers.tracing.run import copied
from nirbridge.network.neurons import neuron

METHODS = ("heaviside", "super", "tanh", "triangle", "circ", "heavi_erfc")
"""Surrogates whose forward pass is a step at 0; ``adjoint`` fails in norse 1.1.0 itself."""


def without_encoders(module: Any, forms: Mapping[type, NeuronSpec]) -> tuple[Any, Mapping[type, NeuronSpec]]:
    """A copy of ``module`` whose encoders are loops over cells, and the forms with that of these cells."""
    import torch
    from norse.torch import ConstantCurrentLIFEncoder

    parts: list[Any] = list(torch.nn.Module.modules(module))
    if not any(type(m) is ConstantCurrentLIFEncoder for m in parts):
        return module, forms
    cell, loop = _classes()
    specs = {**forms, cell: NeuronSpec(read_encoder, potential=1, has_dt=True)}
    if type(module) is ConstantCurrentLIFEncoder:
        return loop(module), specs
    clone = copied(module)
    inner: list[Any] = list(torch.nn.Module.modules(clone))
    for outer in inner:
        for name, child in list(outer.named_children()):
            if type(child) is ConstantCurrentLIFEncoder:
                setattr(outer, name, loop(child))
    return clone, specs


def _classes() -> tuple[Any, Any]:
    """A cell of one time step, and the loop over it that stands for an encoder."""
    import torch
    from norse.torch.functional.lif import lif_current_encoder

    class EncoderCell(torch.nn.Module):
        def __init__(self, encoder: Any) -> None:
            super().__init__()
            self.p, self.dt = encoder.p, encoder.dt

        def forward(self, x: Any, v: Any = None) -> Any:
            return lif_current_encoder(x, torch.zeros_like(x) if v is None else v, self.p, self.dt)

    class EncoderLoop(torch.nn.Module):
        def __init__(self, encoder: Any) -> None:
            super().__init__()
            self.cell, self.seq_length = EncoderCell(encoder), encoder.seq_length

        def forward(self, input_currents: Any) -> Any:
            v, spikes = None, []
            for _ in range(self.seq_length):
                z, v = self.cell(input_currents, v)
                spikes.append(z)
            return torch.stack(spikes)

    return EncoderCell, EncoderLoop


@reader
def read_encoder(p: Parameters) -> ImportedNeuron:
    """One time step of a ConstantCurrentLIFEncoder."""
    import torch

    p.check_dt()
    cell = p.module.p
    if cell.method not in METHODS:
        limit = "its forward pass must be a step above 0: " + ", ".join(METHODS)
        p.fault(f"method is {cell.method!r}", limit, "choose one of them")
    gain = p.fitted("tau_mem_inv", float(p.module.dt) * torch.as_tensor(cell.tau_mem_inv))
    theta, leak = compact(p.fitted("v_th", cell.v_th)), p.fitted("v_leak", cell.v_leak)
    canonical = neuron(
        "LIF",
        a_mem=1 - gain,
        g_mem=gain,
        bias=gain * leak,
        theta=theta,
        v_reset=compact(p.fitted("v_reset", cell.v_reset)),
        v_init=np.float64(0),
    )
    return ImportedNeuron(canonical)
