"""Bounds of the rounding difference between the membranes of a correct import and of the module.

Both compute the same sums and recursions, in another order and with coefficients that were rounded at another place.
With ``unit`` the unit roundoff of the coarser of the two (2^-53, or 2^-24 where the module runs in float32), and hats
for values of the other side, the standard model ``fl(a op b) = (a op b)(1 + d), |d| <= unit`` gives, to first order:

* a sum of n products differs by at most ``(n + 2) unit sum |w s|``, whatever its order (the usual bound of a dot
  product, once for each side);
* weights that the importer computed in float32 (a folded BatchNorm) differ by ``COMPUTED`` of their size, so the sum
  by ``COMPUTED sum |w s|`` more; weights that are the module's own tensors do not differ; a bias that was computed
  is a sum of terms that may cancel (mean and bias of a BatchNorm): the largest of the projection stands for each;
* ``i' = a i + g x`` differs by ``|a| Di + da |i| + |g| Dx + dg |x|`` and the rounding of four operations on terms of
  size ``|i|, |g x|``; ``u' = a v + g i + bias`` likewise. The frameworks write the same update in other forms
  (``v + (x - v) / tau``), whose terms are ``v``, ``g v``, ``g i``, the bias and the reset: ``OPERATIONS`` roundings
  of the sum of their sizes cover each of the forms that are imported;
* decays and gains that are not the module's own numbers were computed in float32 from its parameters in at most four
  operations: they differ by ``COMPUTED``, absolute for decays (``1 - g``, ``exp(-x)``) and for gains that are one
  minus the decay, relative for other gains;
* a reset to a value forgets the error of the neuron that fired; a subtraction keeps it and adds that of its amount;
* an adaptive threshold differs by what ``adapted`` states; where a spike subtracts it, that is added to its amount;
* a floor leaves the larger of the membrane's error and its own (``relu(v - floor) + floor`` is rounded twice).

The recursion is run beside the simulation with the values that were recorded, so the bound is one number for each
neuron, sample and time step. It holds up to the first time step in which the spikes differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.apply import apply, fan_in
from nirbridge.network.compose import part_weights, parts_of, weight_field
from nirbridge.network.graph import grouped
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.neurons import Neuron
from nirbridge.network.operators import Chain, Operator

DOUBLE, SINGLE = 2.0**-53, 2.0**-24
COMPUTED = 4 * SINGLE
"""Four operations in float32."""
OPERATIONS = 8
"""Roundings of one membrane update: four on each side."""
MOST_SEARCHED = 100_000

Values = Mapping[tuple[str, str], Array]


@dataclass(frozen=True, slots=True)
class RoundingBounds:
    """Largest differences ``[steps, batch, *shape]``: of ``u`` and ``v`` per population, and of each output."""

    before_reset: Mapping[str, Array]
    after_reset: Mapping[str, Array]
    outputs: Mapping[str, Array]


class ModuleConstants:
    """The numbers of the module's own tensors, to tell coefficients that are exact from those that were computed."""

    def __init__(self, tensors: list[Array]) -> None:
        self.tensors = grouped((t.size, np.asarray(t, np.float64).ravel()) for t in tensors)
        small = [t.ravel() for t in tensors if t.size <= MOST_SEARCHED]
        self.numbers = np.unique(np.abs(np.concatenate([*small, np.array([0.0, 1.0])]).astype(np.float64)))

    def holds(self, values: Array) -> bool:
        """True if every value is, up to its sign, 0, 1 or a number of the module."""
        flat = np.asarray(values, np.float64).ravel()
        if any(np.array_equal(flat, tensor) for tensor in self.tensors.get(flat.size, ())):
            return True
        return flat.size <= MOST_SEARCHED and bool(np.isin(np.abs(flat), self.numbers).all())


def rounding_bounds(network: Network, values: Values, constants: ModuleConstants, unit: float) -> RoundingBounds:
    """The bounds of a run whose ``values`` hold s (of inputs and of neurons that fire), u, v and i."""
    before: dict[str, Array] = {}
    after: dict[str, Array] = {}
    sent: dict[str, Array] = {}
    for p in network.populations:
        drive, size = _drive(network, p.name, p.shape, values, sent, constants, unit)
        before[p.name], after[p.name] = _BoundUpdate(p, values, constants, unit).run(drive, size)
        if not p.neuron.fires:
            sent[p.name] = after[p.name]
    ports = {p.name: _drive(network, p.name, p.shape, values, sent, constants, unit)[0] for p in network.outputs}
    return RoundingBounds(before, after, ports)


def sent_values(values: Values, name: str) -> Array:
    """Output of a source: spikes, the membrane of a readout, or the input."""
    return values[name, "s"] if (name, "s") in values else values[name, "v"]


def _drive(
    network: Network, target: str, shape: tuple[int, ...], values: Values, sent: Mapping[str, Array],
    constants: ModuleConstants,
    unit: float,
) -> tuple[Array, Array]:  # fmt: skip
    """(Largest difference of the summed input, sum of the sizes of its terms)."""
    lead = next(iter(values.values())).shape[:2]
    error, size = np.zeros((*lead, *shape)), np.zeros((*lead, *shape))
    for p in (p for p in network.projections if p.target == target):
        operator = _sizes(p.operator)
        terms = _late(apply(operator, np.abs(sent_values(values, p.source)).astype(np.float64)), p)
        if p.source in sent:
            error += _late(apply(operator, sent[p.source]), p)
        is_own = p.bias is None or constants.holds(p.bias)
        if p.bias is not None:
            terms = terms + (np.abs(p.bias) if is_own else np.max(np.abs(p.bias)))
        exact = _weights_known(p.operator, constants) and is_own
        error += terms * ((_terms(p.operator) + 2) * unit + (0.0 if exact else COMPUTED))
        size += terms
    return error, size


def _late(values: Array, p: Projection) -> Array:
    """Shifted by the delay; where delays differ, the largest value up to now stands for all of them."""
    if any(np.ptp(delays) for delays in (p.delay_steps, p.target_delay_steps)):
        return np.maximum.accumulate(values, axis=0)
    silence = np.zeros((p.max_delay_steps, *values.shape[1:]))
    return np.concatenate([silence, values])[: len(values)]


def _sizes(operator: Operator) -> Operator:
    """The operator with absolute weights."""
    if isinstance(operator, Chain):
        return Chain(tuple(_sizes(part) for part in operator.parts))
    name = weight_field(operator)
    return replace(operator, **{name: np.abs(getattr(operator, name)).astype(np.float64)}) if name else operator


def _terms(operator: Operator) -> int:
    """Products that are added up for one target, over all parts."""
    return sum(map(fan_in, parts_of(operator)))


def _weights_known(operator: Operator, constants: ModuleConstants) -> bool:
    weights = map(part_weights, parts_of(operator))
    return all(array is None or constants.holds(array) for array in weights)


class _BoundUpdate:
    """The recursion of one population's bounds."""

    def __init__(self, p: Population, values: Values, constants: ModuleConstants, unit: float) -> None:
        n = p.neuron
        self.p, self.n, self.unit, self.constants = p, n, unit, constants
        self.v, self.i = values[p.name, "v"].astype(np.float64), values[p.name, "i"].astype(np.float64)
        self.s = values[p.name, "s"].astype(np.float64) if n.fires else None
        self.d_mem, self.d_syn = (0.0 if constants.holds(c) else COMPUTED for c in (n.a_mem, n.a_syn))
        self.d_gain, self.d_in = (_gain_error(g, a, constants) for g, a in ((n.g_mem, n.a_mem), (n.g_syn, n.a_syn)))
        self.d_bias = (0.0 if constants.holds(n.bias) else COMPUTED) * np.abs(n.bias)
        is_threshold = self.d_mem == 0.0 and n.theta is not None and constants.holds(n.theta)
        self.d_amount = ((0.0 if is_threshold or constants.holds(n.reset_amount) else COMPUTED) + 4 * unit) * np.abs(
            n.reset_amount
        )
        self.d_reset = (4 * unit + (0.0 if constants.holds(n.v_reset) else COMPUTED)) * np.abs(n.v_reset)
        self.d_min = np.zeros(())
        if n.v_min is not None:
            self.d_min = (4 * unit + (0.0 if constants.holds(n.v_min) else COMPUTED)) * np.abs(n.v_min)
        self.rest = np.abs(n.bias) + np.abs(n.v_reset) + np.abs(n.reset_amount)

    def run(self, drive: Array, size: Array) -> tuple[Array, Array]:
        n, round_off = self.n, OPERATIONS * self.unit
        a_mem, g_mem, a_syn, g_syn = (np.abs(c) for c in (n.a_mem, n.g_mem, n.a_syn, n.g_syn))
        before, after = np.zeros_like(drive), np.zeros_like(drive)
        d_amount = np.broadcast_to(self.d_amount, drive.shape)
        if self.s is not None and n.adaptation is not None and n.adaptation.in_reset:
            b, d_b = adapted(n, self.s, self.constants, self.unit)
            d_amount = d_amount + d_b + 4 * self.unit * np.abs(b)
        d_i, d_v = np.zeros_like(drive[0]), np.zeros_like(drive[0])
        i_before = np.abs(np.broadcast_to(n.i_init, drive[0].shape)).astype(np.float64)
        v_before = np.abs(np.broadcast_to(n.v_init, drive[0].shape)).astype(np.float64)
        for t in range(len(drive)):
            d_i = a_syn * d_i + self.d_syn * i_before + g_syn * drive[t] + self.d_in * size[t]
            d_i = d_i + round_off * (a_syn * i_before + g_syn * size[t])
            i_now = np.abs(self.i[t])
            d_u = a_mem * d_v + self.d_mem * v_before + g_mem * d_i + self.d_gain * i_now + self.d_bias
            d_u = d_u + round_off * (v_before + g_mem * i_now + self.rest)
            before[t] = d_u
            after[t] = d_v = (
                d_u if self.s is None else self._floored(self._reset(d_u, self.s[t], d_amount[t]), self.v[t])
            )
            i_before, v_before = i_now, np.abs(self.v[t])
        return before, after

    def _floored(self, d_v: Array, v: Array) -> Array:
        if self.n.v_min is None:
            return d_v
        return np.maximum(d_v, self.d_min) + 2 * self.unit * (np.abs(v) + np.abs(self.n.v_min))

    def _reset(self, d_u: Array, spikes: Array, d_amount: Array) -> Array:
        if self.n.reset == "to-value":
            return np.where(spikes != 0, self.d_reset, d_u)
        return d_u + spikes * d_amount if self.n.reset == "subtract" else d_u


def adapted(n: Neuron, spikes: Array, constants: ModuleConstants, unit: float) -> tuple[Array, Array]:
    """What an adaptation adds to the threshold in each time step of a run, and the rounding bound of it; zeros if none.

    ``b' = a b + j k`` differs by ``|a| Db + da |b| + dj k`` and the rounding of four operations.
    """
    found, errors = np.zeros(spikes.shape), np.zeros(spikes.shape)
    if n.adaptation is None:
        return found, errors
    a, b, error = n.adaptation, np.broadcast_to(n.adaptation.init, spikes.shape[1:]), np.zeros(spikes.shape[1:])
    d_decay, d_jump = (0.0 if constants.holds(c) else COMPUTED for c in (a.decay, a.jump))
    for t, k in enumerate(spikes):
        found[t], errors[t] = b, error
        error = a.decay * error + d_decay * np.abs(b) + d_jump * np.abs(a.jump) * k
        error = error + 4 * unit * (np.abs(a.decay * b) + np.abs(a.jump) * k)
        b = a.decay * b + a.jump * k
    return found, errors


def _gain_error(gain: Array, decay: Array, constants: ModuleConstants) -> Any:
    if constants.holds(gain):
        return 0.0
    one_minus = np.abs(np.asarray(gain) + decay - 1) <= 8 * COMPUTED
    return np.where(one_minus, COMPUTED, COMPUTED * np.abs(gain))
