"""Rounding error bounds of the integers, derived per neuron and time step, and checked against a run.

Each population's real neuron is run on the spikes that the integers sent, its own included: the difference left is
the rounding of this one population. With S the scale, c and w the real current and membrane (in the
coordinates of ``quantization.folding``), u / S is at most C from c and v / S at most V from w::

    C' = a_syn * C + |keep_u - a_syn| * |u| / S + 1 / S + W
    V' = a_mem * V + |keep_v - a_mem| * |v| / S + 1 / S + C' + |b / S - bias|

W adds up ``|integer weight * 64 * 2**exponent / S - weight|`` of the spikes that arrive, ``keep`` is the decay that
the chip has, 1 / S its truncation (0 where nothing decays). A reset to a value makes V 0 again, a subtraction adds
the error of the integer amount, and a floor makes V at least the error of the integer floor. Until a spike differs the
real neuron is that of the reference, so V bounds the distance of the two; after it no such bound exists, as spikes are
0 or 1. Hence the neuron is driven by the spikes of the integers: at each spike that only one of the two sends, the
membrane lies within V of the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.apply import apply, matrix
from nirbridge.network.operators import Sparse
from nirbridge.quantization.error_bounds import adaptation_loss, initial_offsets, rounding_loss, weight_loss
from nirbridge.quantization.folding import FoldedPopulation, fold_population
from nirbridge.quantization.formats import INPUT_SHIFT, signed_max
from nirbridge.quantization.model import FixedInput, FixedPopulation, FixedProjection, IntegerOperator, QuantizedNetwork
from nirbridge.quantization.operators import gained_operator, weights_of, with_weights
from nirbridge.simulators.types import Recording

_FLOATS = 1e-9
"""Share of a value that float64 may be off by, over a whole run."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerBound:
    """Rounding error of one population, given its input spikes.

    Distances are in units of v. ``bound``: the largest allowed at any neuron and time step, ``seen`` the largest
    measured; ``theta``: the threshold to compare them with (None: a readout). ``spikes``: how many were
    sent, ``changed``: how many the real neuron would not have sent, or would have sent besides. ``unbounded``: neurons
    and steps without a bound, since v was saturated. ``broken``: the first (step, sample, neuron)
    at which more differs than is allowed (None: nowhere).
    """

    population: str
    bound: float
    seen: float
    theta: float | None
    spikes: int
    changed: int
    unbounded: int
    broken: tuple[int, ...] | None

    @property
    def holds(self) -> bool:
        """True if every difference is within the bound."""
        return self.broken is None


def layer_bounds(quantized: QuantizedNetwork, inputs: Mapping[str, Array], fixed: Recording) -> tuple[LayerBound, ...]:
    """Derive the bounds of a run and check its recording against them.

    Args:
        quantized: with the real network that it came from.
        inputs: by input name, ``[steps, *shape]`` or ``[steps, batch, *shape]``.
        fixed: ``s``, ``u`` and ``v`` of every population (no ``s`` of readouts), from step 0.
    """
    assert quantized.network is not None, "a network from a file has no reals to compare with"
    batched = fixed.meta["batch"] is not None
    arrays = {key: a if batched else a[:, None] for key, a in fixed.arrays.items()}
    input_values = {p.name: _with_samples(np.asarray(inputs[p.name]), len(p.shape)) for p in quantized.inputs}
    steps = len(next(iter(arrays.values())))
    sent = source_outputs(quantized, input_values, arrays, steps)
    real = {p.name: p for p in quantized.network.populations}
    layers = []
    for p in quantized.populations:
        latency = 0 if quantized.early else quantized.latency[p.name]
        folded = fold_population(quantized.network, real[p.name], latency)
        layers.append(
            _ConstrainedNeurons(quantized, p, folded, PopulationDrive(quantized, p, folded, sent), arrays).run(
                latency, steps
            )
        )
    return tuple(layers)


def _with_samples(array: Array, axes: int) -> Array:
    return array if array.ndim == axes + 2 else array[:, None]


class _ConstrainedNeurons:
    """The real neurons of a population, constrained to the spikes of its integers."""

    def __init__(
        self,
        quantized: QuantizedNetwork,
        p: FixedPopulation,
        folded: FoldedPopulation,
        drive: PopulationDrive,
        arrays: Mapping[Any, Array],
    ):
        self.name, self.n, self.f, self.drive = p.name, p.neuron, folded, drive
        self.u, self.v = arrays[p.name, "u"], arrays[p.name, "v"]
        self.s = arrays[p.name, "s"] if p.neuron.fires else None
        self.shape, self.scale = (self.v.shape[1], *p.shape), float(p.neuron.scale)
        self.off = _RoundingError.of(p, folded)
        start = (np.broadcast_to(a, self.shape).astype(float) for a in (folded.i_start, folded.v_start))
        self.c, self.w = start
        off = initial_offsets(p, folded) if quantized.early else (np.asarray(0.5), np.asarray(0.5))
        self.far_c, self.far_w = (np.broadcast_to(x / self.scale, self.shape) for x in off)
        adapts = folded.neuron.adaptation
        self.b = np.zeros(()) if adapts is None else np.broadcast_to(adapts.init, self.shape).astype(float)
        self.refractory, self.lost = np.zeros(self.shape, np.int64), np.zeros(self.shape, bool)
        self.bound = self.seen = 0.0
        self.changed = self.unbounded = 0
        self.broken: tuple[int, ...] | None = None

    def run(self, latency: int, steps: int) -> LayerBound:
        """From the first step of the reference on; where early spikes are kept, from that of the hardware."""
        for start, stop in time_chunks(steps, self.c.size):
            real, off = self.drive.between(start, stop)
            for step in range(max(start, latency), stop):
                self._step(step, *(np.broadcast_to(a[step - start] if a.ndim else a, self.shape) for a in (real, off)))
        f = self.f
        theta = None if f.theta is None else float(np.min(np.abs(f.theta)))
        spikes = 0 if self.s is None else int(self.s[latency:].sum(dtype=np.int64))
        return LayerBound(self.name, self.bound, self.seen, theta, spikes, self.changed, self.unbounded, self.broken)

    def _step(self, step: int, x: Array, off: Array) -> None:
        n, f, o = self.n, self.f, self.off
        before_u, before_v = (self.u[step - 1], self.v[step - 1]) if step else (n.u_init, n.v_init)
        self.c = f.a_syn * self.c + x
        self.far_c = f.a_syn * self.far_c + o.keep_u * np.abs(before_u) + o.cut_u + off
        w = f.a_mem * self.w + self.c + f.bias
        far = f.a_mem * self.far_w + o.keep_v * np.abs(before_v) + o.cut_v + self.far_c + o.bias
        far = far + _FLOATS * (np.abs(w) + np.abs(self.w) + 1e-3)
        held = self.refractory > 0
        self.w, self.far_w = np.where(held, 0.0, w), np.where(held, 0.0, far)
        reached = self.v[step].astype(np.int64)
        if self.s is not None:
            in_reset = f.neuron.adaptation is not None and f.neuron.adaptation.in_reset
            raised = np.ceil((np.abs(self.b) + o.raised) * self.scale).astype(np.int64) if in_reset else 0
            self._spike(step, held)
            reached = reached + (self.s[step] * (n.reset_amount + raised) if n.reset == "subtract" else 0)
        self.lost |= np.abs(reached) >= signed_max(n.v_bits)
        self._judge(step, np.abs(self.v[step] / self.scale - self.w))

    def _spike(self, step: int, held: Array) -> None:
        """The reset of the spikes that the integers sent, and whether the real neuron agrees with them."""
        n, f, o = self.n, self.f, self.off
        assert self.s is not None
        sent = self.s[step].astype(np.int64)
        expected = np.where(held, 0, self._count(self.w))
        self.changed += int(np.abs(expected - sent).sum())
        margin = self.far_w + o.theta + o.size * np.maximum(sent, expected)
        low, high = self._count(self.w - margin), self._count(self.w + margin)
        self._break(step, ~held & ~self.lost & ((sent < low) | (sent > high)))
        self.refractory = np.where(held, self.refractory - 1, np.where(sent > 0, n.refractory_steps, self.refractory))
        adapts = f.neuron.adaptation
        if n.reset == "subtract":
            amount = f.amount + (self.b if adapts is not None and adapts.in_reset else 0.0)
            self.w, self.far_w = self.w - sent * amount, self.far_w + sent * o.amount
        if adapts is not None:
            self.b = adapts.decay * self.b + adapts.jump * sent
        at_rest = held | (sent > 0) if n.reset == "zero" else held
        self.w, self.far_w = np.where(at_rest, 0.0, self.w), np.where(at_rest, 0.0, self.far_w)
        self.lost = self.lost & ~at_rest
        if f.v_min is not None:
            floor = o.v_min + _FLOATS * np.abs(f.v_min)
            self.w, self.far_w = np.maximum(self.w, f.v_min), np.maximum(self.far_w, floor)

    def _count(self, w: Array) -> Array:
        """Spikes of the real neuron at these membranes."""
        f = self.f
        assert f.theta is not None
        theta = f.theta + self.b
        fires = w > theta if f.neuron.compare == ">" else w >= theta
        if f.neuron.max_spikes == 1:
            return fires.astype(np.int64)
        many = np.clip(np.floor(w / theta), 0, self.n.max_spikes)
        return np.where(fires, many, 0).astype(np.int64)

    def _judge(self, step: int, distance: Array) -> None:
        is_bounded = ~self.lost
        self.unbounded += int(self.lost.sum())
        self.bound = max(self.bound, float(self.far_w[is_bounded].max(initial=0.0)))
        self.seen = max(self.seen, float(distance[is_bounded].max(initial=0.0)))
        self._break(step, is_bounded & (distance > self.far_w))

    def _break(self, step: int, wrong: Array) -> None:
        if self.broken is None and bool(wrong.any()):
            self.broken = (step, *(int(x) for x in np.argwhere(wrong)[0]))


@dataclass(frozen=True, slots=True, eq=False)
class _RoundingError:
    """Rounding errors of a neuron in reals; ``keep`` per integer of the state."""

    keep_u: Array
    keep_v: Array
    cut_u: Array
    cut_v: Array
    bias: Array
    theta: Array
    size: Array
    raised: Array
    amount: Array
    v_min: Array

    @classmethod
    def of(cls, p: FixedPopulation, f: FoldedPopulation) -> _RoundingError:
        """The terms of ``quantization.distance``, and those of the threshold."""
        n, scale, lost = p.neuron, float(p.neuron.scale), rounding_loss(f, p)
        terms = (lost.u_decay, lost.v_decay, lost.cut_u, lost.cut_v, lost.bias)
        theta = size = np.zeros(())
        raised = adaptation_loss(f, p) / scale
        if f.theta is not None and n.fires_above is not None:
            theta = np.abs(n.fires_above / scale - f.theta) + (1 / scale if n.max_spikes > 1 else 0.0)
            theta = theta + raised
            size = np.abs(n.spike_size / scale - f.theta) + raised if n.max_spikes > 1 else size
        scaled = (x.reshape(p.shape) / scale for x in terms)
        amount, v_min = (x.reshape(p.shape) / scale for x in (lost.amount, lost.floor))
        return cls(*scaled, theta=theta, size=size, raised=raised, amount=amount, v_min=v_min)


# -- drive ---------------------------------------------------------------------------------------------------------

Apply = Callable[[Array], Array]
_SYNAPSES_MAX = 200_000_000


@dataclass(frozen=True, slots=True, eq=False)
class SourceOutput:
    """Output of a source: its integers, and the reals that they represent (the same for spikes)."""

    integers: Array
    real: Array
    unit: float

    @property
    def is_rounded(self) -> bool:
        """True where the two differ (a graded input)."""
        return self.integers is not self.real


@dataclass(frozen=True, slots=True, eq=False)
class _ProjectionError:
    """One projection: its real operator, the rounding errors of its weights, and its delays."""

    sent: SourceOutput
    real: Apply
    off: Apply
    size: Apply
    cut: float
    source_delay: Array
    target_delay: Array


class PopulationDrive:
    """The input of one population: real values, and a bound on the error from rounding weights and inputs."""

    def __init__(
        self,
        quantized: QuantizedNetwork,
        population: FixedPopulation,
        folded: FoldedPopulation,
        sent: Mapping[str, SourceOutput],
    ):
        self.shape = population.shape
        incoming = [p for p in quantized.projections if p.target == population.name]
        scale = float(population.neuron.scale)
        self.projections = [_projection(quantized, p, folded, scale, sent[p.source]) for p in incoming]

    def between(self, start: int, stop: int) -> tuple[Array, Array]:
        """(real input, bound on how far the integers' is from it) of these steps, ``[steps, batch, *shape]``."""
        real, off = np.zeros(()), np.zeros(())
        for projection in self.projections:
            for delay in np.unique(projection.target_delay).tolist():
                delayed = np.broadcast_to(projection.target_delay == delay, self.shape)
                arrived, error = _arriving(projection, start - delay, stop - delay)
                real, off = real + np.where(delayed, arrived, 0.0), off + np.where(delayed, error, 0.0)
        return real, off


def input_output(port: FixedInput, values: Array, steps: int) -> SourceOutput:
    """Output of an input, zero-padded to ``steps``. ``values: [steps, batch, *shape]``."""
    cut = values[:steps]
    real = np.concatenate([cut, np.zeros((steps - len(cut), *cut.shape[1:]), cut.dtype)])
    if not port.graded:
        return SourceOutput(real, real, 1.0)
    return SourceOutput(np.rint(real / port.scale), real, port.scale)


def _projection(
    quantized: QuantizedNetwork, p: FixedProjection, folded: FoldedPopulation, scale: float, sent: SourceOutput
) -> _ProjectionError:
    assert quantized.network is not None, "requested with a network only"
    operator = quantized.network.projections[p.index].operator
    exact = gained_operator(operator, folded.gain)
    lost = weight_loss(p, gained_operator(operator, np.asarray(folded.gain * sent.unit)), sent.unit)
    delays = len(np.unique(p.delay_steps)) * len(np.unique(p.target_delay_steps))
    shape = folded.population.shape
    return _ProjectionError(
        sent=sent,
        real=_applied(exact, weights_of(exact), shape),
        off=_applied(exact, weights_of(lost.errors) / scale, shape),
        size=_applied(exact, np.abs(weights_of(exact)), shape),
        cut=float(1 << INPUT_SHIFT) / scale * delays if p.weight_exp < 0 else 0.0,
        source_delay=p.delay_steps,
        target_delay=p.target_delay_steps,
    )


def _applied(operator: IntegerOperator, weights: Array, shape: tuple[int, ...]) -> Apply:
    """The operator with other weights, on ``[steps, batch, *source shape]``; ``shape`` is the target's."""
    replaced = with_weights(operator, freeze(weights))
    if not isinstance(replaced, Sparse):
        return lambda x: apply(replaced, x.reshape(*x.shape[:2], *replaced.input_shape)).reshape(*x.shape[:2], *shape)
    table: Any = matrix(replaced, _SYNAPSES_MAX)
    return lambda x: (table @ x.reshape(x.shape[0] * x.shape[1], -1).T).T.reshape(*x.shape[:2], *shape)


def _arriving(projection: _ProjectionError, start: int, stop: int) -> tuple[Array, Array]:
    real = _delayed(projection.sent.real, projection.source_delay, start, stop)
    if not projection.sent.is_rounded:
        return projection.real(real), projection.off(real) + projection.cut
    integers = _delayed(projection.sent.integers, projection.source_delay, start, stop)
    missed = projection.size(np.abs(real - integers * projection.sent.unit))
    return projection.real(real), projection.off(np.abs(integers)) + missed + projection.cut


def _delayed(sent: Array, delays: Array, start: int, stop: int) -> Array:
    """``sent[t - delay]`` for the steps from start to stop; nothing was sent before step 0."""
    out = np.zeros((stop - start, *sent.shape[1:]))
    for delay in np.unique(delays).tolist():
        first = max(start, delay)
        if first < stop:
            values = sent[first - delay : stop - delay]
            out[first - start :] += np.where(delays == delay, values, 0)
    return out


def source_outputs(
    quantized: QuantizedNetwork, input_values: Mapping[str, Array], spikes: Mapping[Any, Array], steps: int
) -> dict[str, SourceOutput]:
    """Output of every input and population, ``[steps, batch, *shape]``."""
    outputs = {port.name: input_output(port, input_values[port.name], steps) for port in quantized.inputs}
    for p in quantized.populations:
        if p.neuron.fires:
            outputs[p.name] = SourceOutput(spikes[p.name, "s"], spikes[p.name, "s"], 1.0)
    return outputs


def time_chunks(steps: int, elements: int, bytes_max: int = 2**25) -> Sequence[tuple[int, int]]:
    """Ranges of time steps that take little memory."""
    length = max(1, min(steps, bytes_max // max(1, 8 * elements)))
    return [(start, min(start + length, steps)) for start in range(0, steps, length)]
