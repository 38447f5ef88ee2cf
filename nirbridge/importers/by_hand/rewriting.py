"""A trace in which neurons written by hand are calls of neurons, as those of a framework's modules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.importers.by_hand.chains import (
    CASTS,
    COUNT,
    Key,
    Kinds,
    Threshold,
    chains_of,
    counted,
    is_pointwise,
    key_of,
    operands,
    thresholds_of,
    word_of,
)
from nirbridge.importers.by_hand.compare import Fit, sides_of_spikes
from nirbridge.importers.by_hand.fit import fitted
from nirbridge.importers.by_hand.readouts import readouts_of
from nirbridge.importers.by_hand.replay import Cell, NoForm, floor_of, is_repeatable
from nirbridge.importers.by_hand.spec import OwnNeuron
from nirbridge.importers.tracing.recorder import ForwardTrace, TracedCall, TracedValue
from nirbridge.importers.tracing.structures import mapped
from nirbridge.importers.tracing.values import COPIES, result_of

_SPIKES, _POTENTIAL, _STATE = 0, 1, 2
"""Outputs of a neuron; its state is what forward returns for its next call alone."""
_KEPT = -1
"""In place of the number of a call: for states that are kept between calls."""
_FEW = 3
"""Terms of a sum in which a surrogate's soft part may cancel; calls that say nothing of the next one."""


@dataclass(slots=True, eq=False)
class _Own:
    """One neuron of the trace: its cell, its form, and its calls in the new trace."""

    cell: Cell
    fit: Fit | None
    module: OwnNeuron
    calls: list[TracedCall] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Its time steps, those before the first value of a readout included."""
        return self.cell.chain[0].lead + len(self.cell.chain)

    @property
    def mains(self) -> list[TracedCall]:
        """The first comparison of each time step, or the value of a readout."""
        return [one.main for one in self.cell.chain]


def with_own_neurons(trace: ForwardTrace) -> ForwardTrace:
    """The trace with every recognised neuron as one call per time step; unchanged if there is none."""
    _name_spikes(trace)
    chains = chains_of(thresholds_of(trace, Kinds(trace.nodes)))
    taken: dict[int, set[str]] = {}
    found = [own for chain in chains for own in _recognised(chain, trace, taken)]
    states = {index for own in found for index in own.cell.stateful}
    states |= {index for row, _ in _handed_on(trace, found).values() for index, _ in row.values()}
    found += [own for chain in readouts_of(trace, states) for own in _recognised(chain, trace, taken)]
    has_fixed = any(is_repeatable(node) and not operands(node) for node in trace.nodes)
    return _Rewriting(trace, found).trace() if found or has_fixed else trace


def _recognised(chain: Sequence[Threshold], trace: ForwardTrace, taken: dict[int, set[str]]) -> list[_Own]:
    """The neuron of a chain; none for one of too few time steps, and for a readout without form."""
    cell = Cell(chain, trace.nodes)
    try:
        reason = next((one.reason for one in chain if one.reason), "")
        fit = None if reason else fitted(cell)
    except NoForm as error:
        fit, reason = None, str(error)
    except (RuntimeError, TypeError, ValueError) as error:  # of torch, on other numbers than the user's
        fit, reason = None, f"its operations do not run on other numbers ({type(error).__name__})"
    is_left = (cell.is_readout or not reason) if fit is None else cell.is_readout and _is_outside(fit, chain[0])
    if is_left:
        return []
    path, state = _path(cell, trace, taken)
    record, delay = (None, 0) if fit is None else (fit.neuron, fit.delay + chain[0].lead)
    return [_Own(cell, fit, OwnNeuron(path, state, record, reason, delay))]


def _is_outside(fit: Fit, first: Threshold) -> bool:
    """True for a plain sum over time, taken after the network, and for one that starts otherwise than with zeros.

    A sum of which the values of all time steps are joined is none.
    """
    n = fit.neuron
    is_moved, is_alone = bool(np.any(n.bias) or np.any(n.v_init) or np.any(n.i_init)), first.join < 0
    return (is_moved and first.lead > 0) or (n.kind == "I" and is_alone and not (fit.delay or first.lead or is_moved))


def _name_spikes(trace: ForwardTrace) -> None:
    """Name in the trace itself what is spikes: ``(spikes - soft).detach() + soft``, ``relu(sign(x))``, counts."""
    import torch

    terms: dict[Key, dict[Key, float]] = {}
    same: dict[Key, TracedValue] = {}

    def kept(structure: Any) -> Any:
        return mapped(structure, TracedValue, lambda value: same.get(key_of(value), value))

    for node in trace.nodes:
        if word_of(node) in CASTS and len(operands(node)) > 1:  # the number format of another value
            _replace(node, name="float", func=torch.Tensor.float, args=node.args[:1], kwargs={})
        inner = operands(node)
        if floor_of(node) == 0.0 and word_of(inner[0].node) == "sign":
            sign = inner[0].node
            args = (sign.args[0], torch.zeros(()))
            _replace(node, name="heaviside", func=torch.heaviside, args=args, place=sign.place)
        count = counted(node)
        if count is not None:
            _replace(node, name=COUNT, func=lambda x, most: x.floor().clamp(0, most), args=count, kwargs={})
        if any(key_of(value) in same for value in operands(node)):
            _replace(node, args=kept(node.args), kwargs=kept(node.kwargs))
        found = _terms(node, terms)
        if found is None:
            continue
        terms[node.index, 0] = found
        (key, factor), *others = found.items() or (((node.index, 0), 0.0),)
        if word_of(node) in ("add", "radd", "iadd", "sub") and not others and factor == 1.0 and key != (node.index, 0):
            same[node.index, 0] = TracedValue(trace.nodes[key[0]], key[1])
    trace.returned = [[(name, kept(value)) for name, value in outputs] for outputs in trace.returned]
    trace.outputs = trace.returned[-1] if trace.returned else trace.outputs


def _replace(node: TracedCall, **fields: Any) -> None:
    for name, value in fields.items():
        object.__setattr__(node, name, value)


def _terms(node: TracedCall, known: Mapping[Key, Mapping[Key, float]]) -> dict[Key, float] | None:
    """A sum of few values as factors of these; None for other calls."""
    signs = {"add": (1, 1), "radd": (1, 1), "iadd": (1, 1), "sub": (1, -1), "subtract": (1, -1), "neg": (-1,)}
    word, inner = word_of(node), [a for a in node.args if isinstance(a, TracedValue)]
    factors = (1,) if node.name in COPIES - CASTS else signs.get(word, ())  # a truth value is no number
    if node.kind != "function" or len(inner) != len(factors) or node.kwargs or not inner:
        return None
    found: dict[Key, float] = {}
    for value, sign in zip(inner, factors, strict=True):
        for key, factor in known.get(key_of(value), {key_of(value): 1.0}).items():
            found[key] = found.get(key, 0.0) + sign * factor
    found = {key: factor for key, factor in found.items() if factor}
    return found if len(found) <= _FEW else None


def _path(cell: Cell, trace: ForwardTrace, taken: dict[int, set[str]]) -> tuple[str, str]:
    """(A path of its own: that of its module, or the name of its state; that name).

    Neurons of single calls of forward may have one path in each call: they start anew in all. One whose state is kept
    between calls has it alone, so that its like of later calls, after its state was cleared, is another one.
    """
    first, last = (bisect_right(trace.starts, one.index) for one in (cell.chain[0], cell.chain[-1]))
    own = taken.setdefault(first if first == last else _KEPT, set())
    used = own | taken.get(_KEPT, set())
    bases = [one.base for one in cell.chain if one.base is not None]
    state = next((trace.names[base] for base in bases if base in trace.names), "")
    place = trace.nodes[bases[-1][0]].path
    wanted = place or state or "neuron"
    names = [wanted, f"{place}.{state or 'neuron'}" if place else wanted]
    path = next(name for name in (*names, *(f"{wanted}_{k + 2}" for k in range(len(used)))) if name not in used)
    own.add(path)
    return path, state


class _Rewriting:
    """Builds the new trace: neurons in place of their comparisons, without the calls that nothing needs any more."""

    def __init__(self, trace: ForwardTrace, found: Sequence[_Own]) -> None:
        self.old, self.found = trace, found
        self.places: dict[Key, tuple[_Own, int, int]] = {}
        for own in found:
            lead = own.cell.chain[0].lead
            self.places |= {key: (own, k + lead, output) for key, k, output in _shown(own, trace)}
        self.states = _handed_on(trace, found)
        self.later = {key for row, _ in self.states.values() for key in row.values()}
        self.mains = {c.index: (own, k) for own in found for k, c in enumerate(own.mains)}
        self.joins = {own.cell.chain[0].join: own for own in found if own.cell.chain[0].lead}
        self.fixed = _fixed(trace.nodes, {index for own in found for index in own.cell.own})
        self.inputs = {(id(own), k): self._input(own, k) for own in found for k in range(own.steps)}
        self.new: dict[int, TracedCall] = {}
        self.nodes: list[TracedCall] = []
        self.sums: dict[tuple[int, int], Any] = {}

    def trace(self) -> ForwardTrace:
        old, needed, waiting = self.old, self._needed(), self._waiting()
        firsts: list[int] = []
        for node in old.nodes:
            firsts.append(len(self.nodes))
            if node.index in self.mains:
                self._add_neuron(node)
            elif node.index in needed:
                args = self._joined(node.index, self._mapped(node.args))
                self._add(replace(node, args=args, kwargs=self._mapped(node.kwargs)), node.index)
            for own, k in waiting.get(node.index, ()):
                self._add_sum(own, k)
        firsts.append(len(self.nodes))
        self._bind()
        returned = [self._returned(k, outputs) for k, outputs in enumerate(old.returned)]
        return replace(
            old,
            nodes=self.nodes,
            outputs=returned[-1] if returned else [],
            returned=returned,
            starts=[firsts[k] for k in old.starts],
            resets=[firsts[k] for k in old.resets],
            stateless=[firsts[k] for k in old.stateless],
        )

    def _waiting(self) -> dict[int, list[tuple[_Own, int]]]:
        """The weighted sums that neurons take, by the call after which all of their summands are there."""
        found: dict[int, list[tuple[_Own, int]]] = {}
        for own in self.found:
            for k in range(own.steps):
                pairs = self.inputs[id(own), k]
                if pairs is not None and not _is_plain(pairs):
                    last = max((key[0] for key, _ in pairs if isinstance(key, tuple)), default=own.mains[k].index)
                    found.setdefault(last, []).append((own, k))
        return found

    # -- which calls -------------------------------------------------------------------------------------------------

    def _needed(self) -> set[int]:
        """Calls that outputs, neurons and layers depend on; single operations on states alone are not."""
        nodes = self.old.nodes
        waiting = [node for node in nodes if not is_pointwise(node)]
        waiting += [v.node for outputs in self.old.returned for _, v in outputs if isinstance(v, TracedValue)
                    and key_of(v) not in self.places and key_of(v) not in self.later]  # fmt: skip
        keys = (key for pairs in self.inputs.values() for key, _ in pairs or () if isinstance(key, tuple))
        waiting += [nodes[key[0]] for key in keys if key not in self.places]
        needed: set[int] = set()
        while waiting:
            node = waiting.pop()
            if node.index in needed:
                continue
            needed.add(node.index)
            waiting += [v.node for v in operands(node) if key_of(v) not in self.places]
        return needed - set(self.mains) - {index for index, _ in self.fixed}

    def _input(self, own: _Own, step: int) -> list[tuple[Key | Any, Array]] | None:
        """(Value, weight) of each summand of the input in a time step; None where nothing reaches the neuron yet.

        A value that there is from the second time step on is a fixed tensor in the first.
        """
        if own.fit is None:
            keys = own.cell.fresh[step] or sorted(own.cell.taken[step]) or own.cell.fresh[own.cell.first]
            return [(key, np.ones(())) for key in keys[:1]] or None
        fit, last = own.fit, len(own.cell.chain) - 1
        keys: list[Any]
        if step == 0 and None in fit.inputs[fit.delay]:
            keys = [fit.starts[m] if key is None else key for m, key in enumerate(fit.inputs[fit.delay])]
        elif step + fit.delay <= last:
            keys = list(fit.inputs[step + fit.delay])
        else:
            more = step + fit.delay - last
            keys = [self._later(a, b, more) for a, b in zip(fit.inputs[last - 1], fit.inputs[last], strict=True)]
        keys = [self.fixed.get(key, key) if isinstance(key, tuple) else key for key in keys]
        return list(zip(keys, fit.weights, strict=True))

    def _later(self, before: Any, last: Any, more: int) -> Key:
        """The value that follows two of a row, ``more`` time steps after the last: states take it, no spike yet."""
        key = (last[0] + more * (last[0] - before[0]), last[1] + more * (last[1] - before[1]))
        nodes = self.old.nodes
        node = nodes[key[0]] if key[0] < len(nodes) else None
        like = nodes[last[0]]
        is_same = node is not None and (node.name, node.path) == (like.name, like.path) and key[1] < len(node.shapes)
        return key if is_same else last

    # -- new calls ---------------------------------------------------------------------------------------------------

    def _add(self, node: TracedCall, old: int | None = None) -> TracedCall:
        node = replace(node, index=len(self.nodes))
        self.nodes.append(node)
        if old is not None:
            self.new[old] = node
        return node

    def _add_neuron(self, node: TracedCall) -> None:
        own, step = self.mains[node.index]
        shape, path = node.shapes[0], own.module.path
        call = TracedCall(0, "neuron", path, path, own.module, (), {}, (shape, shape, shape))
        for _ in range(1 if step else 1 + own.cell.chain[0].lead):
            own.calls.append(self._add(call))

    def _add_sum(self, own: _Own, step: int) -> None:
        """The weighted sum of the inputs of a neuron."""
        import torch

        total: Any = None
        shape = own.mains[0].shapes[0]
        for key, weight in self.inputs[id(own), step] or ():
            value = self._value(key)
            if not bool(np.all(weight == 1)):
                factor = torch.as_tensor(weight.copy(), dtype=torch.float32)
                value = self._operation(torch.mul, (value, factor), value.shape, own)
            if isinstance(value, TracedValue) and value.shape != shape:
                value = self._operation(torch.Tensor.expand, (value, *shape), shape, own)
            total = value if total is None else self._operation(torch.add, (total, value), shape, own)
        self.sums[id(own), step] = total

    def _operation(self, func: Any, args: tuple[Any, ...], shape: Any, own: _Own) -> Any:
        if not isinstance(args[0], TracedValue) and not isinstance(args[1], TracedValue):
            return func(*args)
        main, name = own.mains[0], func.__name__
        return TracedValue(self._add(TracedCall(0, "function", name, main.path, main.module, args, {}, (shape,), func)))

    def _bind(self) -> None:
        """Gives neurons their inputs, which may be computed after they are called."""
        for own in self.found:
            for k, call in enumerate(own.calls):
                pairs, key = self.inputs[id(own), k], (id(own), k)
                x = self.sums[key] if key in self.sums else self._value(pairs[0][0]) if pairs else None
                object.__setattr__(call, "args", () if x is None else (x,))

    # -- values ------------------------------------------------------------------------------------------------------

    def _returned(self, step: int, outputs: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """The outputs of a call of forward; states, which may be constants at first, are those of their neurons."""

        def value(place: int, value: Any) -> Any:
            if place not in self.states:
                return self._mapped(value)
            row, own = self.states[place]
            before = len(self.old.returned) - 2
            other, k, output = self.places.get(row[before], (own, -1, _STATE))
            return TracedValue(other.calls[step], output) if k == before else TracedValue(own.calls[step], _STATE)

        return [(name, value(place, output)) for place, (name, output) in enumerate(outputs)]

    def _value(self, key: Any) -> Any:
        """The value of a key; a constant is itself."""
        if not isinstance(key, tuple):
            return key
        if key in self.places:
            own, k, output = self.places[key]
            return TracedValue(own.calls[k], output)
        return TracedValue(self.new[key[0]], key[1])

    def _joined(self, index: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a call; values of a readout in place of zeros that stand in front of these."""
        own = self.joins.get(index)
        first = [] if own is None else [TracedValue(call) for call in own.calls[: own.cell.chain[0].lead]]
        return args if own is None else ((*first, *args[0][len(first) :]), *args[1:])

    def _mapped(self, structure: Any) -> Any:
        def value(traced: TracedValue) -> Any:
            key = key_of(traced)
            return self.fixed[key] if key in self.fixed else self._value(key)

        return mapped(structure, TracedValue, value)


def _handed_on(trace: ForwardTrace, found: Sequence[_Own]) -> dict[int, tuple[dict[int, Key], _Own]]:
    """Outputs of forward that a neuron takes in its next call: position -> (value of each call, the neuron)."""
    if len(trace.starts) <= _FEW or len(set(map(len, trace.returned))) > 1:
        return {}
    last, states = trace.starts[-1], {}
    users = {
        key_of(value): own
        for own in found
        for call in own.cell.calls
        if call.index >= last
        for value in operands(call)
        if value.node.index < last
    }
    for place, pairs in enumerate(zip(*trace.returned, strict=True)):
        row = {k: key_of(value) for k, (_, value) in enumerate(pairs) if isinstance(value, TracedValue)}
        own = users.get(row.get(len(pairs) - 2, (-1, 0)))
        if own is not None and own.steps == len(pairs):
            states[place] = row, own
    return states


def _fixed(nodes: Sequence[TracedCall], own: set[int]) -> dict[Key, Any]:
    """What is computed from constants alone, apart from the comparisons of neurons."""
    fixed: dict[Key, Any] = {}
    for node in nodes:
        inner = operands(node)
        if node.index in own or not is_repeatable(node):
            continue
        if all(key_of(value) in fixed for value in inner):
            for k in range(len(node.shapes)):
                fixed[node.index, k] = result_of(TracedValue(node, k), lambda value: fixed[key_of(value)])
    return fixed


def _is_plain(pairs: Sequence[tuple[Key, Array]]) -> bool:
    return len(pairs) == 1 and bool(np.all(pairs[0][1] == 1))


def _shown(own: _Own, trace: ForwardTrace) -> Iterator[tuple[Key, int, int]]:
    """(Value, time step, output) of each value that is the neuron's spikes or its potential."""
    cell = own.cell
    steps = dict(cell.own)
    steps |= {key[0]: k for key, k in cell.bases.items()}
    after: list[TracedCall] = []
    for node in trace.nodes[min(steps) :]:
        if node.index in steps or not is_pointwise(node):
            continue
        own_steps = [steps[v.node.index] for v in operands(node) if v.node.index in steps]
        if own_steps:
            steps[node.index] = max(own_steps)
            after.append(node)
    if own.fit is None:
        yield from _by_name(own, after)
        return
    yield from sides_of_spikes(own.fit, cell, after, steps)


def _by_name(own: _Own, after: Sequence[TracedCall]) -> Iterator[tuple[Key, int, int]]:
    """The comparisons of a neuron without form, and their copies."""
    known = {(index, 0): k for index, k in own.cell.own.items()}
    for node in after:
        inner = operands(node)
        if (node.name in COPIES or word_of(node) in CASTS) and len(inner) == 1 and key_of(inner[0]) in known:
            known[node.index, 0] = known[key_of(inner[0])]
    yield from ((key, k, _SPIKES) for key, k in known.items())
