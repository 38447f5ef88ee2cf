"""rockpool 3.1.0 (torch backend): LIFTorch, LIFBitshiftTorch, LIFNeuronTorch, ExpSynTorch as canonical neurons.

``i = B (i + x + W_rec' S)``, ``v = A v + i + bias`` (so ``j = B j + x``, ``v = A v + B j``,
to the last bit) with ``A = exp(-dt / tau_mem)``, ``B = exp(-dt / tau_syn)``; a neuron fires
``floor(v / threshold)`` times, at most max_spikes_per_dt, and subtracts as often. W_rec is ``[pre, post]``. Source:
``rockpool/nn/modules/torch/*.py``, measured in ``tests/importers/frameworks/test_rockpool.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import compact, freeze
from nirbridge.importers.lowering.described_graph import module_to_graph
from nirbridge.importers.module_checks import check_module
from nirbridge.importers.neuron_specs import (
    ImportedNeuron,
    NeuronSpec,
    Parameters,
    Recurrence,
    as_float64,
    module_dt,
    quietly,
    reader,
    refusals,
)
from nirbridge.importers.sample import TimeAxis
from nirbridge.importers.tracing.run import copied
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense

DEFAULT_DT = 1e-3
_BATCH_FIRST = ("batch", "time")
_REFUSED = (
    ("a rate, not spikes", "use LIFTorch", ("RateTorch",)),
    ("a filter whose output is the sum before its decay", "use ExpSynTorch", ("LowPass",)),
    ("an encoder", "leave it out: import the network after it and feed that spikes", ("UpDownTorch",)),
    ("a current from its own spikes (iahp, in place of a threshold that adapts)", "use LIFTorch", ("aLIFTorch",)),
)
_SPIKES = ("StepPWL", "PeriodicExponential")


def from_rockpool(
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
    """A rockpool module (torch backend) as a ``nir.NIRGraph`` with the module's meaning.

    Args:
        module: ``Sequential`` of ``LinearTorch`` and neurons, or a module that contains them.
        sample: one time step or a whole sequence, as the module takes it, with or without the batch axis, or a tuple
            of them.
        dt: seconds per time step; None: the dt of the neurons. A neuron made with another dt is an error.
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
    specs, as_torch = neuron_specs(), _as_torch(copied(module))
    traced, potentials, notes = _with_potentials(copied(module))
    for name in notes:
        as_torch.get_submodule(name)._record = True  # else only its evolve finds potentials
    return module_to_graph(
        as_torch,
        sample,
        specs,
        package="rockpool",
        dt=next(value for value in (dt, module_dt(module, specs), DEFAULT_DT) if value is not None),
        batched=batched,
        time_axis=time_axis,
        accept=accept,
        check=check,
        measure=measure,
        traced=(_as_torch(traced), {**potentials, **specs}) if notes else None,
        edit=lambda flow: replace(flow, notes=(*flow.notes, *notes.values())),
    )


def _as_torch(module: Any) -> Any:
    """The module with parameters() and modules() of torch, from which those of rockpool differ."""
    return module.to_torch() if hasattr(module, "to_torch") else module


def _with_potentials(module: Any) -> tuple[Any, Mapping[type, NeuronSpec], Mapping[str, str]]:
    """The module, a copy, where SynNets with ``output="vmem"`` end in neurons that return their potential.

    Returns:
        The module, the class of these neurons, and a note for the path of each SynNet.
    """
    import torch

    networks = sys.modules.get("rockpool.nn.networks.synnet")  # imported where a SynNet exists
    if networks is None:
        return module, {}, {}
    lif, potential = _lif_and_potential()
    notes: dict[str, str] = {}
    parts: Any = torch.nn.Module.named_modules(module)
    for path, inner in parts:
        if getattr(type(inner), "forward", None) is not networks.SynNet.forward or inner.output != "vmem":
            continue
        last = getattr(inner.seq, inner.label_last_LIF)
        if type(last) is lif:
            last.__class__, inner.output = potential, "spikes"
            threshold = float(np.min(as_float64(last.threshold)))
            place = ".".join(filter(None, (path, "seq", inner.label_last_LIF)))
            notes[path] = (
                f"{place}: its potential is the output, exact while it stays below its threshold {threshold:g}"
            )
    return module, {potential: NeuronSpec(read_potential, layout=_BATCH_FIRST, has_dt=True)}, notes


def _lif_and_potential() -> tuple[Any, Any]:
    """LIFTorch, and a subclass that returns its potential."""
    with quietly():
        from rockpool.nn.modules.torch import LIFTorch

    class Potential(LIFTorch):
        def forward(self, input_data: Any) -> Any:
            self._record = True
            super().forward(input_data)
            return self._record_dict["vmem"]

    return LIFTorch, Potential


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """The supported classes of ``rockpool.nn.modules.torch``, and those that are refused by name."""
    with quietly():
        import rockpool.nn.modules.torch as rockpool

    lif = NeuronSpec(read_lif, layout=_BATCH_FIRST, has_dt=True)
    return {
        rockpool.LIFTorch: lif,
        rockpool.LIFBitshiftTorch: lif,
        rockpool.LIFNeuronTorch: replace(lif, read=read_membrane),
        rockpool.ExpSynTorch: replace(lif, read=read_synapse),
        **refusals(rockpool, _REFUSED),
    }


def _lif(p: Parameters) -> ImportedNeuron:
    """LIFTorch and LIFBitshiftTorch, recurrent or not, with one synapse per neuron."""
    module = p.module
    p.check_dt()
    if int(module.n_synapses) != 1:
        found = f"{int(module.n_synapses)} synapses per neuron"
        p.fault(found, "a neuron of NIR has one synaptic current", "use one per neuron")
        return ImportedNeuron(neuron("CubaLIF"))
    decay = p.fitted("tau_syn", as_float64(module.beta).reshape(-1))
    a_mem = p.fitted("tau_mem", module.alpha)
    firing = _firing(p, neuron("CubaLIF", a_mem=a_mem, g_mem=decay, a_syn=decay))
    weight = as_float64(module.w_rec).T
    if not bool(np.any(weight)):
        return ImportedNeuron(firing)
    p.check_square("w_rec", weight)
    return ImportedNeuron(firing, (Recurrence(Dense(freeze(weight.astype(np.float32)))),))


read_lif = reader(_lif)


@reader
def read_potential(p: Parameters) -> ImportedNeuron:
    """LIFTorch whose potential stays below its threshold: a readout."""
    lif = _lif(p).neuron
    readout = neuron(
        "CubaLI", a_mem=lif.a_mem, g_mem=lif.g_mem, a_syn=lif.a_syn, bias=lif.bias, theta=None, reset="none"
    )
    return ImportedNeuron(readout)


@reader
def read_membrane(p: Parameters) -> ImportedNeuron:
    """LIFNeuronTorch: ``v = A v + x + bias``, no synaptic current."""
    import torch

    p.check_dt()
    a_mem = p.fitted("tau_mem", torch.exp(-p.module.dt / p.module.tau_mem))
    return ImportedNeuron(_firing(p, neuron("LIF", a_mem=a_mem)))


@reader
def read_synapse(p: Parameters) -> ImportedNeuron:
    """ExpSynTorch: ``i = B (i + x)``, a readout."""
    import torch

    p.check_dt()
    decay = p.fitted("tau", torch.exp(-p.module.dt / p.module.tau))
    _check_noise(p)
    return ImportedNeuron(neuron("LI", a_mem=decay, g_mem=decay, theta=None, reset="none"))


# --- pieces -------------------------------------------------------------------------------------------------------


def _firing(p: Parameters, membrane: Neuron) -> Neuron:
    module = p.module
    theta = compact(p.fitted("threshold", module.threshold))
    if bool(np.any(theta <= 0)):
        p.fault("a threshold is not above 0", "", "give thresholds above 0")
    drive = compact(p.fitted("bias", module.bias))
    max_spikes = float(as_float64(module.max_spikes_per_dt))
    if max_spikes < 1 or max_spikes != int(max_spikes):
        p.fault(f"max_spikes_per_dt is {max_spikes:g}", "a whole number above 0", "correct it")
    function = getattr(module.spike_generation_fn, "__self__", None)
    name = getattr(function, "__name__", str(function))
    if name not in _SPIKES:
        p.fault(f"spike_generation_fn is {name}", " and ".join(_SPIKES) + " are supported", "use one of the two")
    _check_noise(p)
    firing = replace(membrane, theta=theta, bias=drive, reset="subtract", reset_amount=theta, compare=">=")
    return replace(firing, max_spikes=max(int(max_spikes), 1))


def _check_noise(p: Parameters) -> None:
    if bool(np.any(as_float64(p.module.noise_std) != 0)):
        p.fault("noise_std is not 0", "a deterministic network has none", "set noise_std = 0")
