"""The canonical neuron of a cell: parameters measured in float64, and compared with the cell spike by spike.

``m[k]`` is the value that is compared in time step k, the canonical ``u[k]``. As a function of ``m[k-1]``, the spike
``s[k-1]`` and inputs it is the same for a reset before or after the update, at once or one time step late::

    m[k] = A(s) m[k-1] + G(s) x[k] + H(s) x[k-1] + … + C(s)

``A(1) = 0`` is a reset to ``(C(1) - C(0)) / a``, ``A(1) = A(0)`` a subtraction of ``(C(0) - C(1)) / a``; ``H / G`` is
the decay of the synaptic current. An input that is lost after a spike (``G(1) = 0``) is a refractory time. What a spike
adds to the threshold one and two time steps later is an adaptation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.importers.by_hand.chains import COUNT, NUMBERS, ORDERS, Key, is_comparison, word_of
from nirbridge.importers.by_hand.compare import Fit, compared, numbers_of
from nirbridge.importers.by_hand.replay import Cell, NoForm, Run, is_repeatable
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue
from nirbridge.importers.tracing.values import result_of
from nirbridge.network.neurons import Adaptation, Compare, Neuron, Reset, neuron

_Reset = tuple[Reset, Any, Any]
"""(Kind of reset, value that it leads to, amount that it takes off)."""
_LARGE = 2.0**20
"""Size of a probe: constants beside it are rounded away from the coefficient that is measured."""
_NEARLY = 1e-10
"""Relative difference up to which two measured numbers are one."""
_SAME = 1e-13
"""Relative difference up to which two numbers differ by rounding."""
_LOUD = 8.0
"""Factor on inputs by which a floor of the state is reached."""
_LEAST = 3
"""Time steps after the first input from which a neuron is measured."""


def fitted(cell: Cell) -> Fit | None:
    """The canonical neuron of a cell; None where it has too few time steps to be measured.

    Raises:
        NoForm: it has no exact form.
    """
    if len(cell.chain) < cell.first + _LEAST or not cell.fresh[cell.first]:
        return None
    return _Measurement(cell).fit()


@dataclass(slots=True)
class _Measurement:
    cell: Cell
    step: int = 0
    compare: Compare = ">"
    theta: Any = None
    inputs: list[list[Any]] = field(default_factory=list)
    starts: dict[int, Any] = field(default_factory=dict)
    floor: Array | None = None
    adaptation: Adaptation | None = None
    stays: bool = False
    slopes: list[Any] = field(default_factory=list)

    def fit(self) -> Fit:
        cell = self.cell
        self.step = cell.first + 2
        self.floor = _floor(cell)
        if not cell.is_readout:
            self._thresholds()
        self._align()
        zero, one = self._base(), self._base(spike=True)
        decay, kept = self._slope(zero, state=True), self._slope(one, state=True, spike=True)
        gains = [self._slope(zero, leaf=key) for key in self.inputs[self.step]]
        after = [self._slope(one, leaf=key, spike=True) for key in self.inputs[self.step]]
        if not bool((decay != 0).any()):
            raise NoForm(self._depends(0) if cell.opaque else "its state does not last from one time step to the next")
        main = _first_of(gains)
        hold = bool(_near(kept, 0.0).all()) and all(bool(_near(a, 0.0).all()) for a in after)
        synapse = self._synapse(zero, one, gains, main, hold)
        refractory = self._refractory(hold)
        reset = self._reset(decay, kept, one - zero, refractory)
        if not refractory and not all(bool(_near(a, g).all()) for a, g in zip(after, gains, strict=True)):
            raise NoForm("its input has another weight after a spike")
        weights = [_number(_ratio(gain, gains[main])) for gain in gains]
        weights[main] = np.ones(())
        start = self._constants(decay, gains[main], weights, synapse)
        record = self._record(_number(decay), _number(gains[main]), start, synapse, refractory, reset)
        fit = Fit(record, self.inputs, weights, cell.first, self.starts)
        self._verify(fit)
        return fit

    def _record(
        self, decay: Array, gain: Array, start: tuple[Array, ...], synapse: Array, refractory: int, reset: _Reset
    ) -> Neuron:
        """The canonical neuron of its parts; ``start``: constant of each time step, initial state and current."""
        kind = "CubaLI" if bool(np.any(synapse != 0)) else "I" if bool(np.all(decay == 1)) else "LI"
        word, target, amount = reset
        main = self.cell.chain[self.step].main
        return neuron(
            kind if self.cell.is_readout else f"{kind}F",
            a_mem=decay,
            g_mem=gain,
            bias=start[0],
            theta=None if self.cell.is_readout else _number(self.theta),
            a_syn=synapse,
            v_reset=_number(target),
            reset=word,
            reset_amount=_number(amount),
            compare=self.compare,
            max_spikes=main.args[1] if main.name == COUNT else 1,
            refractory_steps=refractory,
            v_init=start[1],
            i_init=start[2],
            v_min=self.floor,
            adaptation=self.adaptation,
        )

    # -- inputs ------------------------------------------------------------------------------------------------------

    def _align(self) -> None:
        """The inputs of each time step: those that no step before took, and those that every one takes."""
        cell, first = self.cell, self.cell.first
        names = [[self._name(key) for key in fresh] for fresh in cell.fresh]
        always = [
            key
            for key in cell.fresh[first]
            if self._name(key) not in names[first + 1] and all(key in taken for taken in cell.taken[first:])
        ]
        self.stays = bool(always)
        self.inputs = [sorted([*always, *fresh] if k > first else fresh) for k, fresh in enumerate(cell.fresh)]
        order = [self._name(key) for key in self.inputs[first + 1]]
        if any([self._name(key) for key in keys] != order for keys in self.inputs[first + 1 :]):
            raise NoForm("its inputs are not computed alike in every time step")
        start = iter(self.inputs[first])
        key = next(start, None)
        found: list[Key | None] = []
        for m, name in enumerate(order):
            if key is not None and self._name(key) == name:
                found.append(key)
                key = next(start, None)
            else:
                found.append(None)
                self.starts[m] = _silent(cell, self.inputs[first + 1][m])
        if key is not None or any(value is None for value in self.starts.values()):
            raise NoForm("its inputs are not computed alike in the first time steps")
        self.inputs[first] = found

    def _name(self, key: Key) -> tuple[Any, ...]:
        node = self.cell.nodes[key[0]]
        return node.kind, node.name, node.path, node.shapes[key[1]]

    # -- threshold ---------------------------------------------------------------------------------------------------

    def _thresholds(self) -> None:
        """The threshold in units of the state, one for all comparisons of it."""
        found = [self._threshold_of(comparison) for comparison in self.cell.chain[self.step].comparisons]
        self.compare, self.theta, raised, *_ = found[0]
        self.slopes = [slope for *_, slope in found]
        if any(not bool((_near(a, self.theta) & _near(b, raised)).all()) for _, a, b, *_ in found):
            raise NoForm("its state is compared with two thresholds")
        if any(word != self.compare for word, *_ in found):
            raise NoForm("its state is compared with '>' and with '>='")
        for one in self.cell.chain:
            if len(one.comparisons) <= len(found):
                pairs = zip(one.comparisons, found, strict=False)
                self.cell.opposites |= {c.index for c, (*_, opposite, _) in pairs if opposite}
        if not bool(_near(raised, self.theta).all()):
            self._adapt(raised - self.theta)

    def _adapt(self, jump: Any) -> None:
        """The adaptation of the threshold, and the threshold without it."""
        now, early = self.step, self._threshold_at(self.step - 1)
        decay = _ratio(self._threshold_at(now, spiked=now - 2) - self.theta, jump)
        init = _ratio(early - self.theta, decay ** (now - 1) - decay**now)
        if bool(((decay < 0) | (decay > 1)).any()):
            raise NoForm("its threshold changes with time, and does not return")
        self.theta = self.theta - init * decay**now
        self.adaptation = Adaptation.of(*(_number(_cleaned(x)) for x in (decay, jump, init)))

    def _threshold_at(self, step: int, spiked: int | None = None) -> Any:
        """The threshold of a time step; ``spiked``: that of the only spike."""
        assert self.cell.scale is not None, "a threshold was measured"
        run = self._run({step: 0.0}, () if spiked is None else (spiked,), last=step)
        return -run.margin(self.cell.chain[step].comparisons[0]) / self.cell.scale[1]

    def _threshold_of(self, comparison: TracedCall) -> tuple[Compare, Any, Any, bool, Any]:
        """(How it compares, with what, with what after a spike, whether it is true below that, factor of the state)."""
        import torch

        source, before = torch.Generator().manual_seed(5), self.step - 1
        keys = sorted({key for taken in self.cell.taken for key in taken})
        noise = {key: torch.randn(self._leaf(key, 0.0).shape, generator=source, dtype=torch.float64) for key in keys}
        probes = ((0.0, 0.0, (), {}), (_LARGE, 0.0, (), {}), (0.0, 0.0, (before,), {}), (0.0, 3.0, (), noise))
        margins = [
            self._run({self.step: size, before: back}, spiked, leaves).margin(comparison)
            for size, back, spiked, leaves in probes
        ]
        slope = (margins[1] - margins[0]) / _LARGE
        if not all(bool(_near(m, margins[0], 1.0).all()) for m in margins[3:]):
            raise NoForm("its threshold changes with its state or its input")
        word, sign = _order(comparison)
        above = bool((slope * sign > 0).all())
        if not above and not bool((slope * sign < 0).all()):
            raise NoForm("its threshold does not compare the state alone")
        other: Compare = ">=" if word == ">" else ">"
        self.cell.scale = self.cell.scale or (margins[0], slope)
        return word if above else other, -margins[0] / slope, -margins[2] / slope, not above, slope

    # -- probes ------------------------------------------------------------------------------------------------------

    def _run(
        self, states: Mapping[int, float], spiked: Collection[int] = (), leaves: Any = None, last: int | None = None
    ) -> Run:
        """A run with the states of some time steps given, and with spikes in some alone."""
        import torch

        cell, last = self.cell, self.step if last is None else last
        shapes = [cell.few(one.shape) for one in cell.chain[: last + 1]]
        filled = {k: torch.full(shapes[k], size, dtype=torch.float64) for k, size in states.items()}
        spikes = {k: torch.full(shape, k in spiked) for k, shape in enumerate(shapes)}
        return Run(cell, last=last, leaves=leaves or {}, spikes=spikes, states=filled)

    def _leaf(self, key: Key, size: float) -> Any:
        import torch

        return torch.full(self.cell.few(self.cell.value_of(key).shape), size, dtype=torch.float64)

    def _base(self, *, spike: bool = False, size: float = 0.0, leaf: Key | None = None, early: bool = False) -> Any:
        spiked = [self.step - k for k, is_there in ((1, spike), (2, early)) if is_there]
        leaves = {} if leaf is None else {leaf: self._leaf(leaf, _LARGE)}
        return self._run({self.step - 1: size}, spiked, leaves).base(self.step)

    def _slope(self, zero: Any, *, state: bool = False, leaf: Key | None = None, spike: bool = False) -> Any:
        return (self._base(spike=spike, size=_LARGE if state else 0.0, leaf=leaf) - zero) / _LARGE

    # -- parameters --------------------------------------------------------------------------------------------------

    def _constants(self, decay: Any, gain: Any, weights: Sequence[Array], synapse: Array) -> tuple[Array, ...]:
        """What is added to the membrane in each time step, and the initial membrane and current.

        A constant current ``c`` from the first time step on adds ``c (1 + a + ... + a^k)`` with the decay ``a`` of the
        current: a constant and a decaying part, which is an initial current.
        """
        import torch

        gain, pulled = numbers_of(gain), np.zeros(())
        for m, value in self.starts.items():  # a constant of the first time step, which the current still carries
            pulled = pulled + numbers_of(self.cell.of_few(value)).astype(np.float64) * weights[m] * gain
        age = self.step - self.cell.first
        now, later = (numbers_of(self._at(self.step + k)) - pulled * synapse ** (age + k) for k in (0, 1))
        change = _cleaned(np.where(synapse > 0, later - now, 0.0))
        passing = change / np.where(change == 0, 1.0, synapse - 1.0)
        current = passing / np.where(change == 0, 1.0, gain * synapse ** (self.step + 1))
        added = now - passing
        real = next(k for k, one in enumerate(self.cell.chain) if one.base is not None)  # constants before are rounded
        rest, a = (
            numbers_of(torch.as_tensor(self._run({}, last=real).base(real), dtype=torch.float64)),
            numbers_of(decay),
        )
        for k in range(real + 1):
            still = pulled * synapse ** (k - self.cell.first) if k >= self.cell.first else 0.0
            rest = rest - a ** (real - k) * (added + gain * synapse ** (k + 1) * current + still)
        start = numbers_of(_ratio(torch.as_tensor(rest), torch.as_tensor(a ** (real + 1))))
        return _number(_cleaned(added)), _number(_cleaned(start)), _number(_cleaned(current))

    def _synapse(self, zero: Any, one: Any, gains: Sequence[Any], main: int, hold: bool) -> Array:
        """The decay of the synaptic current."""
        before = self.inputs[self.step - 1]
        if self.stays:
            return np.zeros(())
        rests = [self._slope(zero, leaf=key) for key in before]
        if not hold:
            after = [self._slope(one, leaf=key, spike=True) for key in before]
            if not all(bool(_near(a, b).all()) for a, b in zip(after, rests, strict=True)):
                raise NoForm("its synaptic current is reset by its own spikes")
        decay = _ratio(rests[main], gains[main])
        if not all(bool(_near(r, g * decay).all()) for r, g in zip(rests, gains, strict=True)):
            raise NoForm("its inputs decay with different time constants")
        return _number(decay)

    def _refractory(self, hold: bool) -> int:
        """Time steps after a spike in which inputs are lost."""
        if not hold:
            return 0
        spiked, steps = self.cell.first + 1, len(self.cell.chain)
        given = {key: self._leaf(key, 1.0) for k in range(spiked + 1, steps) for key in self.inputs[k]}
        silent, driven = (self._run({}, (spiked,), leaves, steps - 1) for leaves in ({}, given))
        reached = [bool((silent.base(k) != driven.base(k)).any()) for k in range(spiked + 1, steps)]
        if not any(reached):
            raise NoForm(f"its refractory time is longer than {steps - spiked - 1} time steps, or has no end")
        return reached.index(True)

    def _reset(self, decay: Any, kept: Any, change: Any, refractory: int) -> _Reset:
        """(Kind of reset, value that it leads to, amount that it takes off)."""
        import torch

        nothing = torch.zeros(())
        if self.cell.is_readout:
            return "none", nothing, nothing
        if bool(_near(kept, 0.0).all()):
            if refractory:
                return "to-value", self._base(spike=True), nothing
            return "to-value", _cleaned(_ratio(change, decay)), nothing
        if bool(_near(kept, decay).all()):
            amount = _cleaned(_ratio(-change, decay) - self._adapted_amount(decay, change))
            amount = torch.where(_near(amount, self.theta) | (decay == 0), self.theta, amount)
            return ("subtract", nothing, amount) if bool((amount != 0).any()) else ("none", nothing, nothing)
        share = float((kept / decay).reshape(-1)[0])
        raise NoForm(f"its reset multiplies the state by {share:.4g}, and NIR resets to a value or by an amount")

    def _adapted_amount(self, decay: Any, change: Any) -> Any:
        """What the adaptation adds to the amount of the reset, without earlier spikes."""
        import torch

        a = self.adaptation
        if a is None:
            return 0.0
        more = self._base(spike=True, early=True) - self._base(early=True)
        if not bool(_near(_ratio(change - more, decay), a.jump).all()):
            return 0.0
        self.adaptation = replace(a, in_reset=True)
        return torch.as_tensor(a.init * a.decay ** (self.step - 1))

    # -- comparison --------------------------------------------------------------------------------------------------

    def _verify(self, fit: Fit) -> None:
        """Run both on random inputs: with spikes as computed, and with random spikes that are given.

        A floor lies after the reset, or before the threshold, where no reset may lead below it.
        """
        if self.floor is None:
            trials = [compared(fit, self.cell, share=share) for share in (None, 0.3)]
            lows = [np.asarray(-np.inf)]
        else:  # a spike that is given would lead below the floor
            trials = [compared(fit, self.cell, louder=louder) for louder in (1.0, _LOUD)]
            lows = [np.asarray(-np.inf), *([self.floor] if _resets_above(fit.neuron, self.floor) else [])]
        if not any(all(self._is_same(*trial, low) for trial in trials) for low in lows):
            raise NoForm(self._depends(int(np.max(fit.neuron.refractory_steps))))
        run, expected = trials[0]
        if self.cell.is_readout:
            return
        if any(np.any(self._fires(run, k) != (fired > 0)) for k, (_, fired, *_) in enumerate(expected)):
            raise NoForm("its spikes are not those of its threshold alone")
        if not all(self._compares_alike(run, k, theta) for k, (*_, theta) in enumerate(expected)):
            raise NoForm("its threshold is another one in some time steps")

    @staticmethod
    def _is_same(run: Run, expected: Sequence[tuple[Array, ...]], low: Array) -> bool:
        """True if the states agree; to single precision where they are constants."""
        pairs = ((numbers_of(run.base(k)), np.maximum(u, low)) for k, (u, *_) in enumerate(expected))
        sizes = (1e-6 if one.base is None else 1e-9 for one in run.cell.chain)
        near = (np.abs(base - u) <= size * (1.0 + np.abs(base)) for (base, u), size in zip(pairs, sizes, strict=True))
        return all(bool(np.all(same)) for same in near)

    def _compares_alike(self, run: Run, step: int, theta: Array) -> bool:
        """True if the comparisons of a time step have this threshold, and the word of those that were measured.

        Spikes of random inputs say nothing of small differences; states that are constants were compared with it.
        """
        one, state = self.cell.chain[step], numbers_of(run.base(step))
        for comparison, slope in zip(one.comparisons, self.slopes, strict=False):
            word, other = _order(comparison)[0], ">=" if self.compare == ">" else ">"
            if word != (other if comparison.index in self.cell.opposites else self.compare):
                return False
            found = numbers_of(run.margin(comparison)) / numbers_of(slope)
            is_near = np.abs(found - (state - theta)) <= 1e-9 * (1.0 + np.abs(found))
            if one.base is not None and not bool(np.all(is_near)):
                return False
        return True

    def _fires(self, run: Run, step: int) -> Array:
        comparison = self.cell.chain[step].comparisons[0]
        word, sign = _order(comparison)
        margin = sign * run.margin(comparison)
        return numbers_of(margin > 0 if word == ">" else margin >= 0) != (comparison.index in self.cell.opposites)

    def _at(self, step: int) -> Any:
        """What is added to the state in a time step without input."""
        now, self.step = self.step, min(step, len(self.cell.chain) - 1)
        added = self._base()
        self.step = now
        return added

    def _depends(self, refractory: int) -> str:
        names = list(dict.fromkeys(self.cell.opaque.values()))
        if names:
            return f"it depends on {', '.join(names[:3])} of its state"
        if self.adaptation is not None:
            return "its threshold adapts to its spikes, and its reset or its update does so otherwise"
        if refractory:
            return "its state moves while its input is lost after a spike"
        if not bool(_near(self._at(self.step), self._at(self.step + 1)).all()):
            return "a number that differs from time step to time step is added to its state, such as noise"
        return "its reset or its update follows no rule of one state, one current and one reset"


def _silent(cell: Cell, key: Key) -> Any:
    """A value where no neuron spikes; None for one that depends on more than spikes."""
    import torch

    def value(traced: TracedValue) -> Any:
        node = traced.node
        if is_comparison(node) or node.kind == "neuron":
            silent = torch.full(traced.shape, node.index in cell.opposites)
            return silent if is_comparison(node) and node.name not in NUMBERS else silent.float()
        if node.kind == "input" or not is_repeatable(node):
            raise LookupError
        return result_of(traced, value)

    try:
        return value(cell.value_of(key))
    except (LookupError, RuntimeError, TypeError, ValueError):
        return None


def _resets_above(n: Neuron, floor: Array) -> bool:
    """True if no reset leads below a floor."""
    assert n.theta is not None, "a readout has no reset"
    lowest = {"to-value": n.v_reset, "subtract": n.theta - n.reset_amount, "none": n.theta}[n.reset]
    return bool(np.all(lowest >= floor) and np.all(n.theta >= floor))


def _floor(cell: Cell) -> Array | None:
    """The floor of the state, one for all places of the code."""
    floors = [np.asarray(floor, np.float64) for floor in cell.floors.values()]
    if any(not np.array_equal(floor, floors[0]) for floor in floors):
        raise NoForm("its state has several floors")
    if floors and cell.is_readout:
        raise NoForm("a readout has no floor")
    return floors[0] if floors else None


def _order(comparison: Any) -> tuple[Compare, int]:
    if comparison.name == COUNT:
        return ">=", 1
    if comparison.name == "heaviside":
        value = comparison.args[1] if len(comparison.args) > 1 else comparison.kwargs["values"]
        return (">=" if float(value) == 1.0 else ">"), 1
    word, sign = ORDERS[word_of(comparison)]
    return word, sign  # type: ignore[return-value]


# -- numbers ---------------------------------------------------------------------------------------------------------


def _first_of(gains: Sequence[Any]) -> int:
    """The first input that reaches the neuron."""
    main = next((k for k, gain in enumerate(gains) if bool((gain != 0).any())), None)
    if main is None:
        raise NoForm("its input does not reach it")
    return main


def _near(a: Any, b: Any, size: float = 0.01) -> Any:
    import torch

    a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    return (a - b).abs() <= _NEARLY * (a.abs() + b.abs() + size)


def _ratio(a: Any, b: Any) -> Any:
    import torch

    return torch.where(b == 0, torch.zeros_like(a), a / torch.where(b == 0, torch.ones_like(b), b))


def _cleaned(values: Any) -> Any:
    """Zeros in place of what rounding left."""
    return values * (abs(values) >= 1e-12)


def _number(values: Any) -> Array:
    """One number where all are the same; float32 values and short decimals in place of what is nearly one."""
    array = numbers_of(values) if hasattr(values, "detach") else np.asarray(values)
    array = array.astype(np.float64)
    if array.size and float(np.ptp(array)) <= _SAME * float(np.max(np.abs(array))):
        array = array.reshape(-1)[:1].reshape(())
        short = np.float64(f"{float(array):.12g}")
        if abs(short - array) <= _SAME * abs(array):
            return np.asarray(short)
    single = array.astype(np.float32).astype(np.float64)
    return np.where(np.abs(single - array) <= _SAME * np.abs(array), single, array)
