"""Fixed-point models: frozen integer neurons and integer operators, with their bounds and reports.

One time step of a population, all in int64 (a superset of Lava's ``fixed_pt`` LIF)::

    dec(x, k) = sign(x) * ((|x| * (4096 - k)) >> 12)             truncates towards zero
    a_in = sum over projections of operator(sent[t - delay]) << weight_exp
    u' = dec(u, du + 1) + (a_in << 6)                            u - 2**24 if u' > 2**23; + 2**24 if u' <= -2**23
    v' = clip(dec(v, dv) + u + b, -(2**23 - 1), 2**23 - 1)       b = bias_mant << bias_exp
    k  = 1 where v' > fires_above, else 0                        with max_spikes above 1 there
                                                                 min(max_spikes, v' // spike_size)
    v  = 0 where k > 0         (reset 'zero')
       = v' - k * reset_amount (reset 'subtract')
       = v'                    (reset 'none')
    v  = max(v, v_min)         (where there is a floor)

An adaptation adds b to fires_above and spike_size (1 at least) and, ``in_reset``, to reset_amount; then
``b = dec(b, 4096 - decay) + k * jump``.

For ``refractory_steps`` time steps after a spike v stays 0 and nothing is sent, whatever the input (u goes on).
The widths 24 are ``u_bits`` and ``v_bits``. Spikes sent at time step t arrive at time step t + delay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from nirbridge._types import Shape
from nirbridge._values import SavedValue
from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Port, Projection
from nirbridge.network.neurons import Adaptation, extras_of
from nirbridge.network.operators import Conv, Dense, Sparse

FixedReset = Literal["zero", "subtract", "none"]
SignMode = Literal["mixed", "excitatory", "inhibitory"]
Process = Literal["lif", "custom"]
IntegerOperator = Dense | Sparse | Conv


@dataclass(frozen=True, slots=True, eq=False)
class FixedNeuron:
    """The integers of the neurons of one population; the module docstring has the update rule.

    Every array is int64 and has shape ``()`` or the population's shape.

    Attributes:
        du: decay of the current, 0 to 4095, ``u`` keeps ``(4095 - du) / 4096``; 4095: no memory.
        dv: decay of the membrane, 0 (none) to 4096 (no memory; 4095 is the largest that a plain LIF has).
        bias_mant, bias_exp: the constant drive is ``bias_mant << bias_exp``, in units of v.
        fires_above: spikes where v is greater, in units of v (``vth << 6`` of a plain LIF); None: never fires.
        reset: effect of a spike on v.
        reset_amount: amount that a spike subtracts, in units of v, for 'subtract'.
        spike_size: value of one of several spikes of a time step, in units of v; used only for max_spikes > 1.
        scale: integer v per real v (float64); v in reals is ``v / scale + v_offset``.
        v_offset: the real v at integer 0 (float64): v_reset, so that a reset is to 0.
        v_min: the floor of v, in units of v, applied after the reset; None: there is none.
        adaptation: of the threshold, in units of v; None: it is fixed.
    """

    du: Array
    dv: Array
    bias_mant: Array
    bias_exp: int
    fires_above: Array | None
    reset: FixedReset
    reset_amount: Array
    spike_size: Array
    max_spikes: int
    refractory_steps: Array
    v_init: Array
    u_init: Array
    scale: Array
    v_offset: Array
    u_bits: int = 24
    v_bits: int = 24
    v_min: Array | None = None
    adaptation: Adaptation | None = None

    @property
    def fires(self) -> bool:
        """False for a readout."""
        return self.fires_above is not None

    @property
    def is_lava_lif(self) -> bool:
        """True where Lava's own LIF computes the neuron: process 'lif'."""
        uniform_decays = self.du.ndim == 0 and self.dv.ndim == 0 and bool(np.all(self.dv < 4096))
        if self.fires_above is None:
            return uniform_decays
        plain = self.reset == "zero" and self.max_spikes == 1 and not extras_of(self)
        plain = plain and not bool(np.any(self.refractory_steps > 0))
        on_grid = self.fires_above.ndim == 0 and int(self.fires_above) % 64 == 0 and int(self.fires_above) >= 0
        return uniform_decays and plain and on_grid

    @property
    def vth(self) -> Array | None:
        """The threshold of a plain LIF: ``fires_above >> 6`` (exact for process 'lif'); None for a readout."""
        return None if self.fires_above is None else freeze(self.fires_above >> 6)

    @property
    def bias(self) -> Array:
        """The constant drive of a time step in units of v: ``bias_mant << bias_exp``."""
        return freeze(self.bias_mant << self.bias_exp)


@dataclass(frozen=True, slots=True, eq=False)
class FixedPopulation:
    """Neurons that share one record.

    ``process`` is 'lif' where Lava's own LIF computes it (one du, dv and vth, reset to 0, a threshold on the grid of
    64, no refractory time, no floor, 0 or 1 spike; a readout is a LIF that cannot reach its threshold), else 'custom'.
    """

    name: str
    shape: Shape
    neuron: FixedNeuron
    process: Process

    @property
    def size(self) -> int:
        """Number of neurons."""
        return math.prod(self.shape)


def _one() -> Array:
    return freeze(np.int64(1))


def _zero() -> Array:
    return freeze(np.int64(0))


@dataclass(frozen=True, slots=True, eq=False)
class FixedProjection:
    """One integer operator with a delay.

    ``a_in`` of the target at step t gains ``operator(sent[t - delay_steps]) << weight_exp`` (an arithmetic shift
    to the right for a negative exponent, of the sum). Weights of the operator are int64, even where Lava wants
    them even (multiples of ``2 ** (8 - weight_bits + (sign_mode == 'mixed'))``). ``delay_steps`` is at least 1, of
    shape ``()`` or the source's shape; ``target_delay_steps`` (``()`` or the target's shape) is added to it.
    ``index`` is the position of the projection it came from in the retimed network, ``scale`` the integer a_in (before
    the shift) per real weight: ``()``, or the target's shape where gains of the neurons differ.
    """

    source: str
    target: str
    operator: IntegerOperator
    weight_bits: int
    weight_exp: int = 0
    sign_mode: SignMode = "mixed"
    delay_steps: Array = field(default_factory=_one)
    target_delay_steps: Array = field(default_factory=_zero)
    nodes: tuple[str, ...] = ()
    index: int = 0
    scale: Array = field(default_factory=lambda: freeze(np.float64(1)))


@dataclass(frozen=True, slots=True)
class FixedInput:
    """An input port and the integers it takes.

    ``value_max`` 1: spikes, 0 or 1. More: graded, whole numbers from ``-value_max`` to ``value_max``, each standing for
    ``scale`` times itself.
    """

    name: str
    shape: Shape
    value_max: int = 1
    scale: float = 1.0

    @property
    def graded(self) -> bool:
        """True if it takes other values than 0 and 1."""
        return self.value_max > 1


@dataclass(frozen=True, slots=True)
class AccumulatorBounds:
    """Bounds on the accumulators of a population: smallest and largest value over its neurons, for any input.

    ``proved``: from the weights alone; False: a_in and u rest on calibration data. ``v_steps`` is a lower
    bound on the time steps of the worst input until v saturates (None: never); from there on v stays at its limit,
    which is the chip's own rule and no overflow, but differs from the reference.
    """

    a_in: tuple[int, int]
    u: tuple[int, int]
    v: tuple[int, int]
    proved: bool
    v_steps: int | None = None


@dataclass(frozen=True, slots=True)
class VBound:
    """Bound on the increase of v's distance from the reference per time step by rounding, in units of v.

    For the worst neuron, input and state of a population, while it and its sources fire as the reference does
    (quantization/error_bounds.py has the equation).

    Attributes:
        weight: of the worst weight, per spike that arrives.
        weights: of all weights, where every source sends its most.
        u_decay, v_decay: of the decays, with u and v at their bounds.
        cuts: of cutting towards zero in both decays.
        bias: of the constant drive.
        reset: of the amount that a spike subtracts, and of the floor.
        start: of the first state; once, not per step.
        per_step: the sum, with the current's error at its steady state.
        limit: what that grows to at most (None: nothing decays in v, it grows by ``per_step`` each step).
    """

    weight: float
    weights: float
    u_decay: float
    v_decay: float
    cuts: float
    bias: float
    reset: float
    start: float
    per_step: float
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class LayerReport:
    """Effect of quantization on one population and the projections into it.

    ``weights``: per projection a mapping of source, bits, exponent, sign mode, the real range, root mean square error
    relative to the root mean square weight, share of clipped weights and memory. ``v_bound``: how far v can get from
    the reference. ``measured``, where data was given: least and greatest ``u`` and ``v``, spikes changed (of a readout
    the error of its outputs), accuracy where labels are given. ``notes``: emulated features and their cost.
    """

    population: str
    process: Process
    bounds: AccumulatorBounds
    decays: Mapping[str, Any]
    weights: tuple[Mapping[str, Any], ...]
    v_bound: VBound
    measured: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class QuantizedNetwork(SavedValue):
    """A network in the fixed-point arithmetic of a chip.

    ``latency``: node (input, population, output) -> the hardware step at which its reference step 0 happens, as in the
    retimed network. ``reads`` are the projections into output ports: real operators that the host applies to what their
    source sends (spikes; the real v of a readout). ``network`` is the retimed real network (None where the value was
    loaded from a file). ``formats`` are the chip's number formats as plain data. ``early``: populations that start at
    the first hardware time step as in the reference (``passes.Retime`` with ``keep_early_spikes``; not in files).
    ``axes``: as of ``Network``.

    Example:
        >>> quantized = nb.quantize("model.nir", "loihi2")
        >>> [p.weight_bits for p in quantized.projections]
        [8, 8]
    """

    chip: str
    dt: float
    populations: tuple[FixedPopulation, ...]
    projections: tuple[FixedProjection, ...]
    inputs: tuple[FixedInput, ...]
    outputs: tuple[Port, ...]
    reads: tuple[Projection, ...]
    latency: Mapping[str, int]
    formats: Mapping[str, Any]
    report: tuple[LayerReport, ...] = ()
    notes: tuple[str, ...] = ()
    network: Network | None = None
    early: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()

    def population(self, name: str) -> FixedPopulation:
        """The population of that name (KeyError if there is none)."""
        for p in self.populations:
            if p.name == name:
                return p
        raise KeyError(name)

    @property
    def neurons(self) -> int:
        """Number of neurons of all populations."""
        return sum(p.size for p in self.populations)
