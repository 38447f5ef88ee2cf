"""rockpool 3.1.0 (torch backend): LIFTorch, LIFBitshiftTorch, LIFNeuronTorch, ExpSynTorch as canonical neurons.

``i = B (i + x + W_rec' S)``, ``v = A v + i + bias`` (so ``j = B j + x``, ``v = A v + B j``,
to the last bit) with ``A = exp(-dt / tau_mem)``, ``B = exp(-dt / tau_syn)``; a neuron fires
``floor(v / threshold)`` times, at most max_spikes_per_dt, and subtracts as often. W_rec is ``[pre, post]``. Source:
``rockpool/nn/modules/torch/*.py``, measured in ``tests/importers/frameworks/test_rockpool.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import compact, freeze
from nirbridge.errors import Diagnostic
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronSpec, Recurrence
from nirbridge.importers.parameters import (
    as_float64,
    module_problem,
    per_neuron,
    quietly,
    recurrent_weights,
    refusals,
    refuse,
    version_of,
)
from nirbridge.importers.sample.axes import TimeAxis
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense

DEFAULT_DT = 1e-3
_BATCH_FIRST = ("batch", "time")
_REFUSED = (
    ("a rate, not spikes", "use LIFTorch", ("RateTorch",)),
    ("a filter whose output is the sum before its decay", "use ExpSynTorch", ("LowPass",)),
    ("an encoder", "keep it outside: import the network behind it and feed it spikes", ("UpDownTorch",)),
    ("a threshold that adapts to spikes", "use LIFTorch", ("aLIFTorch",)),
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
) -> Any:
    """A rockpool module (torch backend) as a ``nir.NIRGraph`` with the module's meaning.

    Args:
        module: ``Sequential`` of ``LinearTorch`` and neurons, or a module of one's own around them.
        sample: one time step or a whole sequence as the module takes it, with or without the batch axis, or a tuple of
            them.
        dt: seconds a step; None: what the neurons were made with. A neuron made with another dt is an error.
        batched: whether the sample has a batch axis (None: found out).
        time_axis: which axis of the sample is time, "none" where it is one time step (None: found out).
        accept: known deviations that are taken, by name (``deviations.DEVIATIONS``); others are refused.
        check: random inputs to run the module and the import on, side by side (0: none; None: 2, if it is cheap).

    Raises:
        ModelError: what can not be followed or represented, every place.
        UnequalImport: the import does not compute the same as the module.
        UsageError: an argument that makes no sense.
    """
    import copy

    from nirbridge.importers.checked import with_self_check
    from nirbridge.importers.lowering.described_graph import module_to_graph
    from nirbridge.importers.tracing.run import check_module, computed_tensors_memo

    check_module(module, dt)
    step = next(value for value in (dt, module_dt(module), DEFAULT_DT) if value is not None)
    as_torch = copy.deepcopy(
        module, computed_tensors_memo(module)
    )  # whose parameters() and modules() are those of torch
    if hasattr(as_torch, "to_torch"):
        as_torch = as_torch.to_torch()
    known = neuron_specs()
    graph = module_to_graph(
        as_torch,
        sample,
        known,
        dt=step,
        source=version_of("rockpool"),
        batched=batched,
        time_axis=time_axis,
        accept=accept,
    )
    given = batched is not None or time_axis is not None
    return with_self_check(graph, as_torch, sample, known, check, accept=accept, are_axes_given=given)


def neuron_specs() -> Mapping[type, NeuronSpec]:
    """The classes of ``rockpool.nn.modules.torch`` that are read, and those that are refused by name."""
    with quietly():
        import rockpool.nn.modules.torch as rockpool

    lif = NeuronSpec(read_lif, layout=_BATCH_FIRST)
    return {
        rockpool.LIFTorch: lif,
        rockpool.LIFBitshiftTorch: lif,
        rockpool.LIFNeuronTorch: NeuronSpec(read_membrane, layout=_BATCH_FIRST),
        rockpool.ExpSynTorch: NeuronSpec(read_synapse, layout=_BATCH_FIRST),
        **refusals(rockpool, _REFUSED),
    }


def read_lif(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LIFTorch and LIFBitshiftTorch, recurrent or not, with one synapse per neuron.

    Raises:
        ModelError: everything about the module that has no form.
    """
    problems = _own_dt(module, dt)
    if int(module.n_synapses) != 1:
        found = f"{int(module.n_synapses)} synapses per neuron"
        problems.append(module_problem(module, found, "a neuron of NIR has one synaptic current", "use one per neuron"))
        refuse(problems)
    decay = per_neuron(module, "tau_syn", as_float64(module.beta).reshape(-1), shape, problems)
    a_mem = per_neuron(module, "tau_mem", module.alpha, shape, problems)
    record = _firing(neuron("CubaLIF", a_mem=a_mem, g_mem=decay, a_syn=decay), module, shape, problems)
    recurrences: tuple[Recurrence, ...] = ()
    weight = as_float64(module.w_rec).T
    if bool(np.any(weight)):
        recurrent_weights(module, "w_rec", weight, shape, problems)
        recurrences = (Recurrence(Dense(freeze(weight.astype(np.float32)))),)
    refuse(problems)
    return ImportedNeuron(record, recurrences)


def read_membrane(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """LIFNeuronTorch: ``v = A v + x + bias``, no synaptic current.

    Raises:
        ModelError: everything about the module that has no form.
    """
    import torch

    problems = _own_dt(module, dt)
    a_mem = per_neuron(module, "tau_mem", torch.exp(-module.dt / module.tau_mem), shape, problems)
    record = _firing(neuron("LIF", a_mem=a_mem), module, shape, problems)
    refuse(problems)
    return ImportedNeuron(record)


def read_synapse(module: Any, shape: Shape, dt: float) -> ImportedNeuron:
    """ExpSynTorch: ``i = B (i + x)``, a read-out.

    Raises:
        ModelError: everything about the module that has no form.
    """
    import torch

    problems = _own_dt(module, dt)
    decay = per_neuron(module, "tau", torch.exp(-module.dt / module.tau), shape, problems)
    _check_noise(module, problems)
    refuse(problems)
    return ImportedNeuron(neuron("LI", a_mem=decay, g_mem=decay, theta=None, reset="none"))


# --- pieces -------------------------------------------------------------------------------------------------------


def _own_dt(module: Any, dt: float) -> list[Diagnostic]:
    if float(module.dt) == dt:
        return []
    found = f"it was made with dt = {float(module.dt):g} s"
    limit = f"the network is imported with dt = {dt:g} s"
    return [module_problem(module, found, limit, "leave dt out, or make the module with that dt")]


def _firing(record: Neuron, module: Any, shape: Shape, problems: list[Diagnostic]) -> Neuron:
    theta = compact(per_neuron(module, "threshold", module.threshold, shape, problems))
    if bool(np.any(theta <= 0)):
        problems.append(module_problem(module, "a threshold is not above 0", "", "give thresholds above 0"))
    drive = compact(per_neuron(module, "bias", module.bias, shape, problems))
    most = float(as_float64(module.max_spikes_per_dt))
    if most < 1 or most != int(most):
        problems.append(
            module_problem(module, f"max_spikes_per_dt is {most:g}", "a whole number above 0", "correct it")
        )
    function = getattr(module.spike_generation_fn, "__self__", None)
    name = getattr(function, "__name__", str(function))
    if name not in _SPIKES:
        limit = " and ".join(_SPIKES) + " have a form"
        problems.append(module_problem(module, f"spike_generation_fn is {name}", limit, "use one of the two"))
    _check_noise(module, problems)
    record = replace(record, theta=theta, bias=drive, reset="subtract", reset_amount=theta, compare=">=")
    return replace(record, max_spikes=max(int(most), 1))


def _check_noise(module: Any, problems: list[Diagnostic]) -> None:
    if bool(np.any(as_float64(module.noise_std) != 0)):
        limit = "a network that computes the same each time has none"
        problems.append(module_problem(module, "noise_std is not 0", limit, "set noise_std = 0"))


def module_dt(module: Any) -> float | None:
    """The dt that the first neuron of ``module`` was made with."""
    import torch

    timed = tuple(cls for cls, form in neuron_specs().items() if form.layout is not None)
    layers: list[Any] = list(torch.nn.Module.modules(module))
    found = [float(layer.dt) for layer in layers if isinstance(layer, timed)]
    return found[0] if found else None


__all__ = ["DEFAULT_DT", "from_rockpool", "module_dt", "neuron_specs", "read_lif", "read_membrane", "read_synapse"]
