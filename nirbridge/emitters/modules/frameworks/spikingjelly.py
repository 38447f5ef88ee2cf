"""spikingjelly: populations as its neurons, the inverse of ``importers.frameworks.spikingjelly``.

IFNode adds its input; LIFNode decays towards v_reset (0 where its reset subtracts) with the share 1/tau, which is the
gain of its input, too, or that is 1; KLIFNode is a LIFNode with a floor at 0; CUBALIFNode has decays for its current
and its potential, gains of 1 and no drive. The first three hold one number for all neurons, CUBALIFNode one per neuron.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact, same_array
from nirbridge.emitters.modules.frameworks.inverse import is_all, same_single, time_constant_of, unless
from nirbridge.emitters.modules.outside import ONE, ZERO
from nirbridge.emitters.modules.plan import ELSEWHERE, Framework, HeldNeuron, LayerCall, Outside
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.network.model import Population
from nirbridge.network.neurons import Neuron

NEVER = float(np.finfo(np.float32).max)
"""The threshold of a neuron that never fires; an infinite one would make its reset a NaN."""


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A class with its numbers, the record that it computes, and the arithmetic in front of it."""

    name: str
    numbers: Mapping[str, Array]
    neuron: Neuron
    front: Outside = field(default_factory=Outside)
    choices: Mapping[str, str] = field(default_factory=dict)


def hold(population: Population, dt: float) -> HeldNeuron:
    """A population as a neuron of spikingjelly, which counts time steps of any ``dt``.

    Raises:
        ModelError: every reason why no class computes it.
    """
    n, subject = population.neuron, f"population {quoted(population.name)}"
    ModelError.raise_all(replace(problem, subject=subject) for problem in _refusals(n))
    node = _node(n) if n.fires else _readout(n)
    node = _with_own_reset(node)
    notes = ("its reset takes off the threshold, the rest is a connection onto itself, one time step later",)
    return HeldNeuron(
        LayerCall(_text(node, population.shape), _tensors(node)),
        node.neuron if n.fires else replace(node.neuron, theta=None, reset="none"),
        "",
        "spk_{id} = self.{id}({current})" if n.fires else "self.{id}({current})",
        "spk_{id}" if n.fires else "self.{id}.v",
        outside=node.front,
        notes=notes if node.front.back is not None else (),
    )


def _node(n: Neuron) -> _Node:
    """The class for a neuron that has no ``_refusals``; its reset is looked at later."""
    gain, share = np.asarray(n.g_mem * n.g_syn), np.asarray(1.0 - n.a_mem)
    unit = replace(n, g_mem=ONE, g_syn=ONE)
    if n.v_min is not None:
        return _leaky("KLIFNode", n)
    if not _has_current(n) and _is_one_number(n):
        if is_all(n.a_mem, 1.0):
            front = Outside(unless(gain, 1.0), unless(n.bias, 0.0))
            return _Node("IFNode", {}, replace(unit, kind="IF", bias=ZERO), front)
        if _is_leaky(n, share):
            return _leaky("LIFNode", n)
    front = Outside(unless(gain, 1.0), None if _has_current(n) else unless(n.bias, 0.0))
    return _Node(
        "CUBALIFNode", {"c_decay": n.a_syn, "v_decay": n.a_mem}, replace(unit, kind="CubaLIF", bias=ZERO), front
    )


def _readout(n: Neuron) -> _Node:
    """A class whose threshold no potential reaches; its membrane is read after each call."""
    never = np.asarray(NEVER)
    return _node(replace(n, theta=never, reset="subtract", reset_amount=never, compare=">=", v_reset=ZERO))


def _is_leaky(n: Neuron, share: Array) -> bool:
    """True where 1 - 1/tau is the decay, at least in float32, and no term in front has to cancel the leak's drive."""
    if not 0.0 < float(n.a_mem) < 1.0:
        return False
    decays = same_single(1.0 - 1.0 / time_constant_of(float(n.a_mem), float(share)), n.a_mem)
    return decays and (_rest(n) == 0.0 or same_single(share * _rest(n), n.bias))


def _leaky(name: str, n: Neuron) -> _Node:
    """LIFNode, or KLIFNode with k = 1; the gain is the share of the way to rest where that is it, else 1."""
    gain, decay = np.asarray(n.g_mem * n.g_syn), float(n.a_mem)
    decays_input = not gain.ndim and same_single(gain, 1.0 - decay)
    tau = time_constant_of(decay, float(gain) if decays_input else 1.0 - decay)
    share = np.asarray(1.0 / tau)
    unit = share if decays_input else ONE
    own = replace(n, kind="LIF", a_mem=1.0 - share, g_mem=unit, g_syn=ONE, bias=share * _rest(n))
    excess = np.asarray(n.bias - own.bias) / unit
    front = Outside(unless(gain / unit, 1.0), None if same_single(own.bias, n.bias) else compact(excess))
    choices = {} if decays_input else {"decay_input": "False"}
    return _Node(name, {"tau": np.asarray(tau)}, own, front, choices)


def _with_own_reset(node: _Node) -> _Node:
    """The node with a reset that its class has: to v_reset, or by the threshold, the rest one time step later."""
    n = node.neuron
    if n.reset == "to-value" or n.theta is None:
        return node if n.theta is None else replace(node, neuron=replace(n, reset_amount=n.theta))
    amount = n.reset_amount if n.reset == "subtract" else ZERO
    back = np.asarray(n.a_mem * (amount - n.theta) / n.g_mem)
    own = replace(n, reset="subtract", reset_amount=n.theta, v_reset=ZERO)
    return replace(node, neuron=own, front=replace(node.front, back=unless(back, 0.0)))


# --- refusals -----------------------------------------------------------------------------------------------------


def _refusals(n: Neuron) -> Iterator[Diagnostic]:
    """What no neuron of spikingjelly computes; the subject is left open."""
    faults = {
        f"up to {n.max_spikes:,} spikes per time step": n.max_spikes > 1,
        "a refractory time": bool(np.any(n.refractory_steps > 0)),
        "a synaptic current that does not start at 0": bool(np.any(n.i_init != 0)),
        "initial potentials that differ between neurons": bool(n.v_init.ndim),
        "a constant drive after its synaptic current": _has_current(n) and not is_all(n.bias, 0.0),
        "a synaptic current and a reset by another amount than its threshold": n.fires
        and _has_current(n)
        and _leaves_over(n),
        "a floor of the membrane other than 0, or without a leak, or with numbers per neuron": _has_other_floor(n),
    }
    for found, is_there in faults.items():
        if is_there:
            yield Diagnostic("", found, "no neuron of spikingjelly has that", ELSEWHERE)


def _leaves_over(n: Neuron) -> bool:
    """True for a reset that does not set a value, nor takes the threshold off."""
    theta = ZERO if n.theta is None else n.theta
    return n.reset == "none" or (n.reset == "subtract" and not same_single(n.reset_amount, theta))


def _has_other_floor(n: Neuron) -> bool:
    """True for a floor that KLIFNode does not compute: it rectifies before the spike and the reset."""
    if n.v_min is None:
        return False
    is_plain = _is_one_number(n) and not n.v_min.ndim and not _has_current(n) and not _leaves_over(n)
    if not is_plain or n.theta is None or not 0.0 < float(n.a_mem) < 1.0:
        return True
    is_low = float(n.theta) <= 0 or (n.reset == "to-value" and float(n.v_reset) < 0)
    return is_low or float(n.v_min) != 0


# --- pieces -------------------------------------------------------------------------------------------------------


def _has_current(n: Neuron) -> bool:
    return bool(np.any(n.a_syn != 0)) or n.has_synapse


def _is_one_number(n: Neuron) -> bool:
    """True where no number differs between neurons; gains and drives may, since they are in front."""
    return not any(a.ndim for a in (n.a_mem, n.v_reset, n.theta, n.reset_amount) if a is not None)


def _rest(n: Neuron) -> float:
    """The potential that a LIFNode decays to."""
    return float(n.v_reset) if n.reset == "to-value" else 0.0


# --- text ---------------------------------------------------------------------------------------------------------


def _text(node: _Node, shape: Shape) -> str:
    """The expression that makes a neuron: one number for all is written out, others are parameters."""
    n = node.neuron
    numbers = {**node.numbers, **_firing(n)}
    words = {name: "0.5" if a.ndim else repr(float(a)) for name, a in numbers.items()}
    words |= node.choices
    words |= {} if n.reset == "to-value" else {"v_reset": "None"}
    words["surrogate_function"] = "Above()" if n.compare == ">" else "surrogate.ATan()"
    text = f"neuron.{node.name}({', '.join(f'{name}={word}' for name, word in words.items())})"
    each = {name: a for name, a in numbers.items() if a.ndim}
    if each:
        text = f"registered({text}, {', '.join(f'{name}={shape}' for name in each)})"
    start = n.v_reset if n.reset == "to-value" else ZERO
    return text if same_array(start, n.v_init) else f"starting({text}, {float(n.v_init)!r})"


def _firing(n: Neuron) -> dict[str, Array]:
    reset = {"v_reset": n.v_reset} if n.reset == "to-value" else {}
    return {"v_threshold": np.asarray(n.theta), **reset}


def _tensors(node: _Node) -> dict[str, Array]:
    """The state dict of a neuron: its parameters that differ between neurons, and that of KLIFNode."""
    numbers = {**node.numbers, **_firing(node.neuron)}
    each = {name: np.asarray(a, np.float32) for name, a in numbers.items() if a.ndim}
    return each | ({"k": np.ones((), np.float32)} if node.name == "KLIFNode" else {})


SPIKINGJELLY = Framework(
    name="spikingjelly",
    package="spikingjelly",
    imports=("from spikingjelly.activation_based import functional, neuron, surrogate",),
    hold=hold,
    carries=("v_min",),
    support=("spikingjelly_nodes.py",),
    records=MappingProxyType({"s": ()}),
    reset=("functional.reset_net(self)",),
    surrogate="the derivative of an arc tangent; `surrogate_function=` of each neuron sets another",
)
