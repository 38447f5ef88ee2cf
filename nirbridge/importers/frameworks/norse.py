"""Norse 1.1.0: cells and their sequence forms as canonical neurons, from the parameters of the modules.

Norse integrates by Euler with a dt of its own: ``v + dt tmi ((v_leak - v) + j)``, which is ``a v + g j + b`` with
``g = dt tmi`` (in float32, as the module computes it), ``a = 1 - g``, ``b = g v_leak``; the synaptic current is updated
first, ``j = i + x``, ``i = (1 - dt tsi) j``. It fires above the threshold and starts at v_leak (IAF: at v_reset).
LSNN takes its current as it was before the input of the time step, and fires above ``b = b + dt tai (v_th - b)``, to
which it adds beta with each spike: an input one time step later, and an adaptation.
Source: ``norse/torch/functional``, measured in ``tests/importers/frameworks/test_norse.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import compact, freeze
from nirbridge.importers.emitted import emitted_dt
from nirbridge.importers.lowering.described_graph import module_to_graph
from nirbridge.importers.module_checks import check_module
from nirbridge.importers.neuron_specs import (
    DataflowGraph,
    ImportedNeuron,
    NeuronSpec,
    Parameters,
    Recurrence,
    amount_taken_off,
    module_dt,
    neuron_spec_of,
    quietly,
    reader,
    refusals,
)
from nirbridge.importers.sample import TimeAxis
from nirbridge.importers.tracing.run import copied
from nirbridge.network.neurons import Adaptation, Neuron, neuron
from nirbridge.network.operators import Dense

DEFAULT_DT = 1e-3

_TIME_FIRST = ("time", "batch")
_REFUSED = (
    ("an exponential or adaptive membrane", "use LIFCell or LIFBoxCell",
     ("LIFAdEx", "LIFAdExCell", "LIFAdExRecurrent", "LIFAdExRecurrentCell", "LIFEx", "LIFExCell", "LIFExRecurrent",
      "LIFExRecurrentCell", "LIFAdExRefracCell", "LIFAdExRefracRecurrent", "LIFAdExRefracRecurrentCell")),
    ("a quadratic membrane", "use LIFCell or LIFBoxCell",
     ("Izhikevich", "IzhikevichCell", "IzhikevichRecurrent", "IzhikevichRecurrentCell")),
    ("conductances that multiply the potential", "use LIFCell", ("CobaLIFCell",)),
    ("weights that change while it runs", "use LIFRecurrentCell with fixed weights", ("LIFCorrelation",)),
    ("potentials of compartments that drive each other", "use LIFRecurrentCell",
     ("LIFMCRecurrentCell", "LIFMCRefracRecurrentCell")),
    ("an encoder or decoder of values over time", "leave it out: import the network after it and feed that spikes",
     ("PoissonEncoder", "SignedPoissonEncoder", "PopulationEncoder", "SpikeLatencyEncoder",
      "SpikeLatencyLIFEncoder", "SpikesToTimesDecoder", "TemporalReceptiveField")),
    ("a convolution that has a time axis", "use norse.torch.Lift(torch.nn.Conv2d(...))", ("LConv2d",)),
    ("an output that is fed back to the input through a cache", "write it as LIFRecurrentCell, or as a loop over time",
     ("RecurrentSequential",)),
    ("a counter for training", "take it out before the import", ("RegularizationCell",)),
)  # fmt: skip


def from_norse(
    module: Any,
    sample: Any,
    *,
    dt: float | None = None,
    batched: bool | None = None,
    time_axis: TimeAxis = None,
    accept: Sequence[str] = (),
    check: int | None = None,
    measure: Any = None,
) -> Any:
    """A module of Norse cells as a ``nir.NIRGraph`` with the module's meaning.

    Args:
        module: cells, their sequence forms, ``SequentialState``, ``Lift``, or a module that contains them.
        sample: one time step or a whole sequence, as the module takes it, with or without the batch axis, or a tuple
            of them.
        dt: seconds per time step; None: the dt of the cells. A cell made with another dt is an error, since its decays
            were computed with its own. IAF cells do not use dt.
        batched: whether the sample has a batch axis (None: inferred).
        time_axis: the axis of the sample that is time, "none" if it is one time step (None: inferred).
        accept: names of known deviations to accept (``deviations.DEVIATIONS``); all others are refused.
        check: number of random inputs on which the import is compared with the module (0: none; None: 2, if cheap).
        measure: labelled data ``(inputs, labels)``: the accuracy of the module and of the import on them is stated.

    Raises:
        ModelError: every operation that cannot be traced or represented.
        UnequalImport: the import does not compute the same as the module.
        UsageError: an invalid argument.
    """
    check_module(module, dt)
    specs = neuron_specs()
    return module_to_graph(
        module,
        sample,
        specs,
        package="norse",
        dt=next(value for value in (dt, module_dt(module, specs), emitted_dt(module), DEFAULT_DT) if value is not None),
        batched=batched,
        time_axis=time_axis,
        accept=accept,
        check=check,
        measure=measure,
        traced=without_encoders(*without_lifts(module, specs)),
        edit=without_states,
    )


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """The supported classes of ``norse.torch``, and those that are refused by name."""
    with quietly():
        import norse.torch as norse

    def both(read: Any, cell: str, sequence: str | None, potential: int) -> dict[type, NeuronSpec]:
        form = NeuronSpec(read, potential=potential, has_dt=read is not read_iaf)
        sequences = () if sequence is None else (getattr(norse, sequence),)
        return {getattr(norse, cell): form} | dict.fromkeys(
            sequences, replace(form, potential=None, layout=_TIME_FIRST)
        )

    return {
        **both(read_lif, "LIFCell", "LIF", 1),
        **both(read_lif, "LIFRecurrentCell", "LIFRecurrent", 2),
        **both(read_lsnn, "LSNNCell", "LSNN", 1),
        **both(read_lsnn, "LSNNRecurrentCell", "LSNNRecurrent", 2),
        **both(read_refractory, "LIFRefracCell", None, 1),
        **both(read_refractory, "LIFRefracRecurrentCell", "LIFRefracRecurrent", 2),
        **both(read_box, "LIFBoxCell", None, 1),
        **both(read_iaf, "IAFCell", "IAF", 1),
        **both(read_li, "LICell", "LI", 1),
        **both(read_li, "LILinearCell", None, 1),
        **both(read_li, "LIBoxCell", None, 1),
        **refusals(norse, _REFUSED),
    }


@reader
def read_lif(p: Parameters) -> ImportedNeuron:
    """LIFCell, LIF, LIFRecurrentCell, LIFRecurrent: current first, strict threshold, reset to v_reset."""
    p.check_dt()
    return _with_weights(p, _firing(p, _current_based(p, p.module.p), p.module.p))


@reader
def read_lsnn(p: Parameters) -> ImportedNeuron:
    """LSNNCell, LSNN and their recurrent forms: b - v_th, after its decay, is what the threshold is raised by."""
    import torch
    from norse.torch.functional.lsnn import lsnn_feed_forward_step, lsnn_step

    p.check_dt()
    cell = p.module.p
    if p.module.activation not in (lsnn_step, lsnn_feed_forward_step):
        p.fault("it is made with adjoint", "its forward pass is another one", "leave adjoint out")
    share = p.fitted("tau_adapt_inv", float(p.module.dt) * torch.as_tensor(cell.tau_adapt_inv))
    if bool(np.any((share < 0) | (share > 1))):
        p.fault("dt * tau_adapt_inv is not from 0 to 1", "its threshold must return", "make dt smaller")
        share = np.zeros(())
    adaptation = Adaptation.of(1 - share, (1 - share) * p.fitted("beta", cell.beta))
    firing = replace(_firing(p, _current_based(p, cell), cell), adaptation=adaptation)
    return replace(_with_weights(p, firing), input_delay=1)


@reader
def read_refractory(p: Parameters) -> ImportedNeuron:
    """LIFRefracCell, LIFRefracRecurrentCell, LIFRefracRecurrent: as LIF, then rho time steps at v_reset.

    The current goes on meanwhile.
    """
    p.check_dt()
    cell = p.module.p
    firing = _firing(p, _current_based(p, cell.lif), cell.lif)
    steps = compact(np.maximum(np.ceil(p.fitted("rho_reset", cell.rho_reset)), 0), np.int64)
    return _with_weights(p, replace(firing, refractory_steps=steps))


@reader
def read_box(p: Parameters) -> ImportedNeuron:
    """LIFBoxCell: a membrane without synaptic current.

    Reset to v_reset, by the threshold (``reset_subtract``), or by the amount that a function of the user takes off.
    """
    from norse.torch.functional.reset import reset_subtract, reset_value

    p.check_dt()
    cell = p.module.p
    firing = _firing(p, neuron("LIF", **_membrane(p, cell)), cell)
    if cell.reset_method is reset_subtract and firing.theta is not None:
        firing = replace(firing, reset="subtract", reset_amount=firing.theta)
    elif cell.reset_method is not reset_value:
        amount = amount_taken_off(cell.reset_method, p.shape)
        if amount is None:
            limit = "reset_value, reset_subtract and functions that take a constant off are supported"
            p.fault("reset_method is a custom function", limit, "use one of the two")
        else:
            given = {"reset": "subtract", "reset_amount": amount} if amount.any() else {"reset": "none"}
            firing = replace(firing, **given)
    return ImportedNeuron(firing)


@reader
def read_iaf(p: Parameters) -> ImportedNeuron:
    """IAFCell, IAF: adds its input independently of dt; starts at v_reset."""
    firing = _firing(p, neuron("IF"), p.module.p)
    return ImportedNeuron(replace(firing, v_init=firing.v_reset))


@reader
def read_li(p: Parameters) -> ImportedNeuron:
    """LICell, LI, LILinearCell, LIBoxCell: readouts, whose output is their potential."""
    p.check_dt()
    if hasattr(p.module.p, "tau_syn_inv"):
        readout = replace(_current_based(p, p.module.p), kind="CubaLI")
    else:
        readout = neuron("LI", **_membrane(p, p.module.p))
    return _with_weights(p, replace(readout, theta=None, reset="none", reset_amount=freeze(np.float64(0))))


# --- pieces -------------------------------------------------------------------------------------------------------


def _membrane(p: Parameters, cell: Any) -> dict[str, Any]:
    import torch

    gain = p.fitted("tau_mem_inv", float(p.module.dt) * torch.as_tensor(cell.tau_mem_inv))
    leak = p.fitted("v_leak", cell.v_leak)
    return {"a_mem": 1 - gain, "g_mem": gain, "bias": gain * leak, "v_init": leak}


def _current_based(p: Parameters, cell: Any) -> Neuron:
    import torch

    share = p.fitted("tau_syn_inv", float(p.module.dt) * torch.as_tensor(cell.tau_syn_inv))
    return neuron("CubaLIF", a_syn=1 - share, **_membrane(p, cell))


def _firing(p: Parameters, membrane: Neuron, cell: Any) -> Neuron:
    if cell.method not in METHODS:
        limit = "its forward pass must be a step above 0: " + ", ".join(METHODS)
        p.fault(f"method is {cell.method!r}", limit, "choose one of them")
    theta = compact(p.fitted("v_th", cell.v_th))
    return replace(membrane, theta=theta, reset_amount=theta, v_reset=compact(p.fitted("v_reset", cell.v_reset)))


def _with_weights(p: Parameters, canonical: Neuron) -> ImportedNeuron:
    """The neuron with the module's own input and recurrent weights."""
    imported = ImportedNeuron(canonical)
    if hasattr(p.module, "input_weights"):
        operator = Dense(freeze(p.module.input_weights.detach().cpu().numpy()))
        imported = replace(imported, operator=operator)
        if operator.output_shape != p.shape:
            found = f"input_weights has shape {operator.weight.shape}"
            p.fault(found, f"its neurons have shape {p.shape}", "use one axis of neurons")
    if hasattr(p.module, "recurrent_weights"):
        p.check_square("recurrent_weights", p.module.recurrent_weights)
        feedback = Dense(freeze(p.module.recurrent_weights.detach().cpu().numpy()))
        imported = replace(imported, recurrences=(Recurrence(feedback),))
    return imported


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

    clone = copied(module)
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
    outputs = tuple(o for o in flow.outputs if o not in states)
    return replace(flow, outputs=outputs) if outputs else flow


# -- norse encoders ------------------------------------------------------------------------------------------------
# Norse's ConstantCurrentLIFEncoder as neurons: the same current in every time step, a membrane without a synapse.
#
# ``v + dt tmi ((v_leak - v) + x)``, spikes above v_th, reset to v_reset, 0 at first (``lif_current_encoder``). The
# module runs all time steps by itself; the traced copy runs a loop over a cell of one time step in its place.

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
