"""Norse: populations as its cells, the inverse of ``importers.frameworks.norse``.

A membrane of Norse is ``v + dt tmi ((v_leak - v) + x)``: its decay and the gain of its input add up to 1, and it starts
and rests at v_leak. A potential with another gain is measured in another unit, in which its gain is that one: a factor
on the input would round twice, and an input that just reaches the threshold would sometimes pass it. A readout, whose
potential is the output, and IAFCell have their gain in front. A first state of zeros is given by forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact, same_array
from nirbridge.emitters.modules.frameworks.inverse import (
    factor_of,
    is_all,
    same_single,
    single_factors_of,
    unless,
)
from nirbridge.emitters.modules.outside import ONE, ZERO, Rewritten
from nirbridge.emitters.modules.plan import ELSEWHERE, Framework, HeldNeuron, LayerCall, Outside
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.model import Population
from nirbridge.network.neurons import Neuron

_PARAMETERS = MappingProxyType(
    {
        "LIFBoxCell": "LIFBoxParameters",
        "LIFCell": "LIFParameters",
        "LIFRefracCell": "LIFParameters",
        "IAFCell": "IAFParameters",
        "LIBoxCell": "LIBoxParameters",
        "LICell": "LIParameters",
    }
)
_STATES = MappingProxyType(
    {
        "LIFBoxCell": "LIFBoxFeedForwardState",
        "LIFCell": "LIFFeedForwardState",
        "LIFRefracCell": "LIFRefracFeedForwardState",
        "IAFCell": "IAFFeedForwardState",
        "LIBoxCell": "LIBoxState",
        "LICell": "LIState",
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    """A cell with its numbers, the record that it computes, and the arithmetic in front of it.

    ``from_zero``: forward passes a first state of zeros, where the cell itself would start at v_leak or v_reset.
    """

    name: str
    numbers: Mapping[str, Array]
    neuron: Neuron
    front: Outside = field(default_factory=Outside)
    from_zero: bool = False


def hold(population: Population, dt: float) -> HeldNeuron:
    """A population as a cell of Norse that was made with the network's dt.

    Raises:
        ModelError: every reason why no cell computes it.
    """
    n = population.neuron
    subject = f"population {quoted(population.name)}"
    ModelError.raise_all(replace(problem, subject=subject) for problem in _refusals(n))
    strict = _in_units_of_gain(n).comparing(">")
    cell = _cell(strict.neuron, dt)
    cell = replace(cell, neuron=_with_inert_fields(cell.neuron))
    output = "spk_{id}" if n.fires else "mem_{id}"
    return HeldNeuron(
        LayerCall(_text(cell, dt, population.shape), _tensors(cell)),
        cell.neuron,
        _start(cell, population.shape),
        f"{output}, state_{{id}} = self.{{id}}({{current}}, state_{{id}})",
        output,
        cell.front,
        strict.notes,
    )


def _in_units_of_gain(n: Neuron) -> Rewritten:
    """The neuron with its potential in a unit in which its gain is 1 - decay."""
    gain, share = n.g_mem * n.g_syn, _share(n)
    if n.theta is None or _is_integrator(n) or same_single(gain, share) or not bool(np.all(gain > 0)):
        return Rewritten(n)
    unit = share / gain
    named = ("theta", "bias", "v_reset", "reset_amount", "v_init")
    scaled = {name: compact(unit * np.asarray(getattr(n, name))) for name in named}
    text = "its potential is measured in a unit in which its gain is 1 - decay"
    return Rewritten(replace(n, g_mem=share, g_syn=ONE, **scaled), notes=(text,))


def _cell(n: Neuron, dt: float) -> _Cell:
    if _is_integrator(n):
        front = Outside(unless(n.g_mem * n.g_syn, 1.0), unless(n.bias, 0.0))
        own = replace(n, kind="IF", g_mem=ONE, g_syn=ONE, bias=ZERO)
        return _Cell("IAFCell", _firing(n), own, front, not same_single(n.v_init, n.v_reset))
    rate, share = _rate(_share(n), dt)
    leak, from_zero = _leak(n, share)
    own = replace(n, a_mem=1.0 - share, g_mem=share, g_syn=ONE, bias=share * leak)
    front = Outside(unless(n.g_mem * n.g_syn / share, 1.0), _offset(n, share))
    numbers = {"tau_mem_inv": rate, "v_leak": leak}
    if not (_has_current(n) or _waits(n)):
        name = "LIFBoxCell" if n.fires else "LIBoxCell"
        return _Cell(name, {**numbers, **_firing(n)}, replace(own, kind=name[:3].rstrip("B")), front, from_zero)
    inverse, part = _rate(np.asarray(1.0 - n.a_syn), dt)
    numbers, own = {"tau_syn_inv": inverse, **numbers, **_firing(n)}, replace(own, a_syn=1.0 - part)
    if not n.fires:
        return _Cell("LICell", numbers, replace(own, kind="CubaLI"), front, from_zero)
    own = replace(own, kind="CubaLIF")
    if _waits(n):
        numbers["rho_reset"] = n.refractory_steps.astype(np.float64)
        return _Cell("LIFRefracCell", numbers, own, front, from_zero)
    return _Cell("LIFCell", numbers, own, front, from_zero)


def _with_inert_fields(n: Neuron) -> Neuron:
    """The record with the importer's choice of numbers that decide nothing."""
    if n.theta is None:
        return replace(n, reset="none", reset_amount=ZERO, v_reset=ZERO)
    return n if n.reset == "subtract" else replace(n, reset_amount=n.theta)


def _leak(n: Neuron, share: Array) -> tuple[Array, bool]:
    """(v_leak, whether forward starts from zeros): the drive of the leak is that of the network where it can be."""
    if same_single(share * n.v_init, n.bias) or not is_all(n.v_init, 0.0):
        return n.v_init, False
    if n.bias.ndim or share.ndim:
        return compact(n.bias / share), True
    return np.asarray(factor_of(float(n.bias), float(share))), True


# --- refusals -----------------------------------------------------------------------------------------------------


def _refusals(n: Neuron) -> Iterator[Diagnostic]:
    """What no cell of Norse computes; the subject is left open."""
    if np.any(n.i_init != 0):
        yield Diagnostic("", "its synaptic current does not start at 0", "that of Norse's cells does", ELSEWHERE)
    flat = bool(np.any(_share(n) == 0))
    if flat and not _is_integrator(n):
        yield Diagnostic("", "its membrane does not leak", "of Norse's cells, only IAFCell has no leak, and it has no "
                         "synaptic current, refractory time or readout", ELSEWHERE)  # fmt: skip
    elif not flat and np.any(n.a_syn != 0) and _offset(n, _share(n)) is not None:
        yield Diagnostic("", "its constant drive is not that of a leak towards its initial potential",
                         "Norse's cells start at v_leak or from 0", ELSEWHERE)  # fmt: skip
    if n.fires:
        yield from _firing_refusals(n)


def _firing_refusals(n: Neuron) -> Iterator[Diagnostic]:
    if n.max_spikes > 1:
        yield Diagnostic("", f"up to {n.max_spikes:,} spikes per time step", "a cell of Norse sends one", ELSEWHERE)
    if n.reset != "to-value" and (_has_current(n) or _waits(n) or _is_integrator(n)):
        found = "its reset subtracts" if n.reset == "subtract" else "it does not reset"
        yield Diagnostic("", found, "of Norse's cells, only LIFBoxCell resets otherwise than to a value, and it has a "
                         "leak and no synaptic current", ELSEWHERE)  # fmt: skip
    if _is_integrator(n) and not (same_single(n.v_init, n.v_reset) or is_all(n.v_init, 0.0)):
        limit = "IAFCell starts at v_reset or from 0"
        yield Diagnostic("", "its initial potential is neither v_reset nor 0", limit, ELSEWHERE)
    if _waits(n) and n.v_init.ndim:
        yield Diagnostic("", "its initial potentials differ between neurons", "LIFRefracCell has one", ELSEWHERE)


# --- pieces -------------------------------------------------------------------------------------------------------


def _is_integrator(n: Neuron) -> bool:
    return n.fires and is_all(n.a_mem, 1.0) and not _has_current(n) and not _waits(n)


def _has_current(n: Neuron) -> bool:
    return bool(np.any(n.a_syn != 0)) or n.has_synapse


def _waits(n: Neuron) -> bool:
    return n.fires and bool(np.any(n.refractory_steps > 0))


def _share(n: Neuron) -> Array:
    """``dt tau_mem_inv``: the gain of the membrane where that and its decay add up to 1, else 1 - decay."""
    return n.g_mem if np.all(1.0 - n.g_mem == n.a_mem) else np.asarray(1.0 - n.a_mem)


def _offset(n: Neuron, share: Array) -> Array | None:
    """The constant input besides that of the leak."""
    leak, _ = _leak(n, share)
    return None if same_single(share * leak, n.bias) else compact(n.bias / share - leak)


def _rate(share: Array, dt: float) -> tuple[Array, Array]:
    """(inverse time constant, share that Norse computes of it): one number in float64, several in float32."""
    if share.ndim:
        return single_factors_of(share, dt)
    inverse = factor_of(float(share), dt)
    return np.asarray(inverse), np.asarray(dt * inverse)


def _firing(n: Neuron) -> Mapping[str, Array]:
    return {} if n.theta is None else {"v_th": n.theta, "v_reset": n.v_reset}


# --- text ---------------------------------------------------------------------------------------------------------


def _text(cell: _Cell, dt: float, shape: Shape) -> str:
    """The expression that makes a cell: one number for all neurons is written out, others are parameters."""
    words = {
        name: f"number({float(a)!r})" if not a.ndim else f"each{_listed(shape)}" for name, a in cell.numbers.items()
    }
    steps = words.pop("rho_reset", "")
    if cell.name == "LIFBoxCell" and cell.neuron.reset != "to-value":
        words["reset_method"] = _reset_method(cell.neuron, shape)
    parameters = f"norse.{_PARAMETERS[cell.name]}({', '.join(f'{name}={word}' for name, word in words.items())})"
    if steps:
        parameters = f"norse.LIFRefracParameters({parameters}, rho_reset={steps})"
    text = f"norse.{cell.name}({parameters}, dt={dt!r})"
    return f"registered({text})" if _tensors(cell) else text


def _start(cell: _Cell, shape: Shape) -> str:
    """The line of forward that gives the first state."""
    sizes = ", ".join(["{like}", *map(str, shape)])
    return f"state_{{id}} = zeros(norse.{_STATES[cell.name]}, {sizes})" if cell.from_zero else "state_{id} = None"


def _listed(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"


def _reset_method(n: Neuron, shape: Shape) -> str:
    if n.reset == "subtract" and n.theta is not None and same_array(n.reset_amount, n.theta):
        return "norse.reset_subtract"
    amount = _amount(n)
    return f"Subtract(number({float(amount)!r}))" if not amount.ndim else f"Subtract(torch.zeros{_listed(shape)})"


def _amount(n: Neuron) -> Array:
    """The amount that a reset takes off: 0 where there is none."""
    return n.reset_amount if n.reset == "subtract" else ZERO


def _tensors(cell: _Cell) -> dict[str, Array]:
    """The state dict of a cell: its parameters that differ between neurons, and the amount of a reset of its own."""
    n = cell.neuron
    found = {name: a for name, a in cell.numbers.items() if a.ndim}
    if cell.name == "LIFBoxCell" and n.reset != "to-value" and "Subtract" in _reset_method(n, ()):
        found["reset_method.amount"] = _amount(n)
    return {name: np.asarray(a, np.float32 if a.ndim else np.float64) for name, a in found.items()}


NORSE = Framework(
    name="norse",
    package="norse",
    imports=("import norse.torch as norse",),
    hold=hold,
    support=("norse_cells.py",),
    surrogate="Norse's default, that of SuperSpike; `method=` of each cell's parameters sets another",
)
