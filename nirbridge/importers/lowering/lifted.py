"""Rewrites of a data flow before it is built: neurons whose axes are split as images, pools after neurons.

NIR has no node that splits an axis, but convolutions and matrices lead from any image to any other (``raise_sparse``).
Neurons that forward reshapes to more axes become images of one position or of one row: ``(n,)`` is ``(n, 1, 1)``,
``(c, n)`` is ``(c, n, 1)``; where there are more axes than an image has, the first ones are one. Such neurons, and
all neurons and inputs with other axes before them, are so; their Linears are convolutions with a kernel of one
position, or of a whole image in front of them, and reshapes are matrices that move values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.importers.lowering.analysis import is_idle, is_unwritable, merge_reshapes, without_splits
from nirbridge.importers.lowering.levels import STEPS_MAX, LevelsOf
from nirbridge.importers.lowering.linear_layers import Term, merge_matrices, merge_selections, selection_operator
from nirbridge.importers.lowering.spike_logic import KINDS, logic_of
from nirbridge.importers.module_checks import REPLACED_MAXPOOL, Deviation
from nirbridge.importers.neuron_specs import (
    DataflowGraph,
    ImportedNeuron,
    NeuronSpecs,
    Operation,
    ValueRef,
    neuron_spec_of,
)
from nirbridge.importers.tracing.pointwise import PAIRS, PRODUCT, PRODUCTS_HINT, PRODUCTS_MAX
from nirbridge.network import Neuron, Projection
from nirbridge.network.compose import compose, parts_of
from nirbridge.network.naming import fresh_name
from nirbridge.network.neurons import with_arrays
from nirbridge.network.nir.raise_linear import merged_axes
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse

_IMAGE_RANKS = (2, 3)


@dataclass(frozen=True, slots=True, eq=False)
class Lifted:
    """Projections between neurons of new shapes; ``shapes``: those of the neurons and inputs that were flat."""

    projections: tuple[Projection, ...]
    shapes: Mapping[str, Shape]

    def notes(self, inputs: Mapping[str, Shape]) -> tuple[str, ...]:
        """Remarks on the inputs and the populations that have a new shape."""
        given = (
            f"input {quoted(name)}: samples of shape {inputs[name]} are given as {shape}, because NIR cannot split axes"
            for name, shape in self.shapes.items()
            if name in inputs
        )
        names = ", ".join(quoted(name) for name in self.shapes if name not in inputs)
        text = f"populations {names}: their neurons have axes of size 1, because forward reshapes some to images"
        return (*given, text) if names else tuple(given)


class Splits:
    """Sources of paths that no NIR nodes can write as they are, each with its deferred problems."""

    def __init__(self) -> None:
        self.problems: dict[str, list[Diagnostic]] = {}

    def defer(self, term: Term, problems: Iterable[Diagnostic]) -> None:
        """Keep the problems of a path; ``lifted`` adds them where it finds no other axes for the neurons."""
        if found := list(problems):
            self.problems.setdefault(term.source, []).extend(found)

    def lifted(
        self, projections: Sequence[Projection], shapes: Mapping[str, Shape], problems: list[Diagnostic]
    ) -> Lifted:
        """The projections of the network without such paths; if that fails, add the deferred ``problems``."""
        found = _lifted(projections, shapes) if self.problems else None
        if self.problems and found is None:
            problems += [problem for of_source in self.problems.values() for problem in of_source]
        return found or Lifted(tuple(projections), {})


def _lifted(projections: Sequence[Projection], shapes: Mapping[str, Shape]) -> Lifted | None:
    """The projections between neurons with other axes; None where that fails."""
    split = [p for p in projections if any(map(is_unwritable, parts_of(p.operator)))]
    seen = [part for p in split for part in parts_of(p.operator) if is_unwritable(part)]
    rank = min(max(len(shape) for part in seen for shape in (part.input_shape, part.output_shape)), max(_IMAGE_RANKS))
    if rank < min(_IMAGE_RANKS):
        return None
    names = {p.source for p in split if len(p.operator.input_shape) != rank}
    before = -1
    while before < (before := len(names)):
        names |= {p.source for p in projections if p.target in names and len(p.operator.input_shape) != rank}
        changed = (p for p in projections if p.source in names or p in split)
        names |= {p.target for p in changed if len(p.operator.output_shape) > rank}
    found = [_with_axes(p, p.source in names, p.target in names, rank) for p in projections]
    if any(p is None for p in found) or not names <= shapes.keys():
        return None
    return Lifted(tuple(p for p in found if p is not None), {n: _image(shapes[n], rank) for n in sorted(names)})


def _image(shape: Shape, rank: int) -> Shape:
    """The shape with axes of size one at the end, or with its first axes as one."""
    first = len(shape) - rank + 1
    return (math.prod(shape[:first]), *shape[first:]) if first > 1 else (*shape, *(1,) * (1 - first))


def reshaped_neuron(neuron: Neuron, shape: Shape) -> Neuron:
    """The neuron with its parameters per neuron in another shape."""
    return with_arrays(neuron, lambda values: freeze(values.reshape(shape)) if values.ndim else values)


def merged_path(
    term: Term, calls: Mapping[str, Operation], inputs: Mapping[str, Shape]
) -> tuple[Operator, tuple[str, ...]]:
    """The path of a term as one operator, and the node name of each part left; ``inputs``: the shapes of the ports."""
    parts, names = without_splits(*merge_selections(*merge_reshapes(term, calls, inputs)))
    return compose([_as_selection(part) for part in parts], names, term.shape)


def _as_selection(part: Operator) -> Operator:
    """A reshape from image to image for which NIR has no node as a matrix, which it has."""
    if not isinstance(part, Reshape) or merged_axes(part.input_shape, part.output_shape) is not None:
        return part
    if not len(part.input_shape) == len(part.output_shape) in _IMAGE_RANKS:
        return part
    positions = np.arange(math.prod(part.input_shape))
    return selection_operator(positions, positions, part.input_shape, part.output_shape)


def _with_axes(p: Projection, of_source: bool, of_target: bool, rank: int) -> Projection | None:
    """The projection between neurons of which the source or the target, or both, are images of ``rank`` axes."""
    parts, source, target = parts_of(p.operator), p.operator.input_shape, p.operator.output_shape
    is_split = any(map(is_unwritable, parts))
    if not of_source and not of_target and not is_split:
        return p
    names = p.nodes if len(p.nodes) == len(parts) else ("",) * len(parts)
    image = _image(source, rank)
    if of_target or is_split or len(source) > rank:
        found = list(_between_images([*zip(parts, names, strict=True)], rank))
        if not of_target:
            found.append((Reshape(_image(target, rank), target), p.target))
    else:
        found = [(Reshape(image, source), p.source), *zip(parts, names, strict=True)]
    if any(part is None for part, _ in found):
        return None
    found = merge_matrices([(part, name) for part, name in found if part])
    operator, nodes = compose([part for part, _ in found], [name for _, name in found], image)
    bias = p.bias if p.bias is None or not of_target else freeze(p.bias.reshape(_image(target, rank)))
    return replace(p, operator=operator, nodes=nodes, bias=bias)


def _between_images(steps: list[tuple[Operator, str]], rank: int) -> Iterator[tuple[Operator | None, str]]:
    """The parts of a path between images; a Linear of a whole image, with factors before it, takes it as it is."""
    while steps:
        part, name = steps.pop(0)
        following = next((p for p, _ in steps if not isinstance(p, Scale)), None)
        image = part.input_shape
        if isinstance(part, Reshape) and isinstance(following, Dense) and len(image) == rank:
            while isinstance(scale := steps[0][0], Scale):
                yield Scale(freeze(scale.scale.reshape(image))), steps.pop(0)[1]
            yield _convolution(following, image), steps.pop(0)[1]
        else:
            yield _between_two(part, _image(image, rank), _image(part.output_shape, rank)), name


def _between_two(part: Operator, source: Shape, target: Shape) -> Operator | None:
    """One part between two images; None where there is none of the kind."""
    if isinstance(part, Dense):
        return _convolution(part, source)
    if isinstance(part, Scale):
        return Scale(freeze(part.scale.reshape(source)))
    if isinstance(part, Sparse):
        return replace(part, input_shape=source, output_shape=target)
    if isinstance(part, Conv):
        return _with_row(part, source)
    if isinstance(part, Reshape | Identity):
        return _as_selection(Reshape(source, target))
    return part if part.input_shape == source else None


def _with_row(part: Conv, source: Shape) -> Conv:
    """A convolution along one axis as one along two of which the second has size one."""
    more = (1,) * (len(source) - len(part.input_shape))
    weight, padding = freeze(part.weight.reshape(*part.weight.shape, *more)), (*part.padding, *((0, 0) for _ in more))
    stride, dilation = (*part.stride, *more), (*part.dilation, *more)
    return Conv(weight, stride, padding, dilation, part.groups, source)


def _convolution(part: Any, image: Shape) -> Conv:
    """A Linear of the values of an image as a convolution with a kernel that covers it."""
    axes = len(image) - 1
    weight = freeze(part.weight.reshape(len(part.weight), *image))
    return Conv(weight, (1,) * axes, ((0, 0),) * axes, (1,) * axes, 1, image)


# -- logic in place ------------------------------------------------------------------------------------------------
# Logic of values whose axes were turned, as logic of the values themselves: their axes are turned after it.
#
# ``q.permute(...) * mask`` is ``(q * mask.permute(...)).permute(...)``: projections between neurons of one layout, and
# convolutions that read it, instead of matrices that move every value.


def with_logic_in_place(flow: DataflowGraph) -> DataflowGraph:
    """The flow with logic of two values in the layout of one that is all of another value, with other axes."""
    calls = {call.name: call for call in flow.calls}
    taken, found = {*calls}, list[Operation]()
    for call in flow.calls:
        written = _in_place(call, calls, taken) if call.kind == "pair" else [call]
        calls |= {one.name: one for one in written}
        found += written
    return replace(flow, calls=tuple(found))


def _in_place(call: Operation, calls: Mapping[str, Operation], taken: set[str]) -> list[Operation]:
    """The operations that a pair becomes, the last one under its name; the call where no axes were turned."""
    moved = [_origin(ref, calls) for ref in call.inputs]
    turned = (pair for pair in moved if pair is not None and _is_turned(*pair, call, calls))
    chosen = next(turned, None)
    if chosen is None or any(pair is None for pair in moved):
        return [call]
    shape, back, own = calls[chosen[0].call].shape, np.argsort(chosen[1]), _taken(call, taken)
    parts: list[Operation] = []
    for ref, at in filter(None, moved):
        arguments = {"indices": at[back].reshape(shape)}
        name = _taken(call, taken)
        parts.append(replace(call, name=name, kind="gather", inputs=(ref,), arguments=arguments, shape=shape))
    logic = replace(call, name=own, inputs=tuple(ValueRef(p.name) for p in parts), shape=shape)
    after = {"indices": chosen[1].reshape(call.shape)}
    return [*parts, logic, replace(call, kind="gather", inputs=(ValueRef(logic.name),), arguments=after)]


def _origin(ref: ValueRef, calls: Mapping[str, Operation]) -> tuple[ValueRef, Array] | None:
    """(The value that reshapes and gathers move, the place in it of each value); None where some are no values."""
    call = calls[ref.call]
    at = np.arange(math.prod(call.shape))
    while call.kind in ("gather", "reshape") and not ref.previous:
        at = at if call.kind == "reshape" else np.asarray(call.arguments["indices"]).reshape(-1)[at]
        ref = call.inputs[0]
        call = calls[ref.call]
        if int(at.min(initial=0)) < 0:
            return None
    return ref, at


def _is_turned(ref: ValueRef, at: Array, call: Operation, calls: Mapping[str, Operation]) -> bool:
    """True if every value is moved, once, and not by merging axes alone."""
    shape, places = calls[ref.call].shape, np.arange(len(at))
    if math.prod(shape) != len(at) or not np.array_equal(np.sort(at), places):
        return False
    return not np.array_equal(at, places) or merged_axes(shape, call.shape) is None


# -- products of sums ----------------------------------------------------------------------------------------------
# A product of a spike and a sum of spikes as a sum of products of spikes: ``(q @ k.T) @ v`` of spiking self-attention.


def with_products_of_sums(flow: DataflowGraph, forms: NeuronSpecs, dt: float) -> DataflowGraph:
    """The flow with products of spikes and of sums of more than ``STEPS_MAX`` of them as sums of products.

    Raises:
        ModelError: more than ``PRODUCTS_MAX`` products.
    """
    return with_written_logic(flow, forms, dt, {"pair"}, _distributed)


def with_written_logic(
    flow: DataflowGraph, forms: NeuronSpecs, dt: float, kinds: Collection[str], write: Callable[..., list[Operation]]
) -> DataflowGraph:
    """The flow with other operations for those of ``kinds`` that are no logic of spikes.

    ``write(call, levels, taken names)``: the operations that one becomes, the last under its name; empty: it stays.
    """
    if not any(call.kind in kinds for call in flow.calls):
        return flow
    calls = {call.name: call for call in flow.calls}
    levels, taken = LevelsOf(calls, dict(readings_of(flow, forms, dt))), {*calls}
    rewritten: list[Operation] = []
    for call in flow.calls:
        logic = logic_of(call, levels) if call.kind in KINDS else None
        if logic is not None and logic.levels is not None:
            levels.decide(call.name, logic.levels)
        written = write(call, levels, taken) if logic is None and call.kind in kinds else []
        calls |= {one.name: one for one in written}
        rewritten += written or [call]
    return replace(flow, calls=tuple(rewritten))


def _distributed(call: Operation, levels: LevelsOf, taken: set[str]) -> list[Operation]:
    """The operations that a product becomes, the last one under its name; empty where it is no such product."""
    known = [(levels(ref), ref) for ref in call.inputs]
    (gate, of_gate), (count, of_count) = sorted(known, key=lambda pair: pair[0].count if pair[0] else 0)
    if PAIRS[call.arguments["function"]] != PRODUCT or gate is None or not gate.are_two or count is None:
        return []
    terms = _terms(of_count, levels.calls) if count.count > STEPS_MAX + 1 else None
    spike = None if terms is None else levels(terms[0])
    if terms is None or spike is None or not spike.are_two:
        return []
    ref, columns, factor = terms
    if columns.size > PRODUCTS_MAX:
        text = f"a product of spikes and of sums of {columns.shape[1]:,} spikes is {columns.size:,} threshold neurons"
        raise ModelError.of(call.subject, text, f"at most {PRODUCTS_MAX:,} are built", PRODUCTS_HINT)
    shape, places = (*call.shape, columns.shape[1]), np.arange(columns.size)
    rows = places // columns.shape[1]
    moved = ((ref, columns.reshape(shape)), (of_gate, rows.reshape(shape)))
    parts = [
        replace(call, name=_taken(call, taken), kind="gather", inputs=(source,), arguments={"indices": at}, shape=shape)
        for source, at in moved
    ]
    product = replace(call, name=_taken(call, taken), inputs=tuple(ValueRef(p.name) for p in parts), shape=shape)
    matrix = {"rows": rows, "columns": places, "values": np.ones(len(rows), np.float32), "factor": np.float64(factor)}
    arguments = {**matrix, "shape": call.shape, "levels": None if spike.low or gate.low else count.scaled(gate.high)}
    return [*parts, product, replace(call, kind="matrix", inputs=(ValueRef(product.name),), arguments=arguments)]


def _taken(call: Operation, taken: set[str]) -> str:
    name = fresh_name(f"{call.name}_spikes", taken)
    taken.add(name)
    return name


def _terms(ref: ValueRef, calls: Mapping[str, Operation]) -> tuple[ValueRef, Array, float] | None:
    """(Values, the places ``[n, k]`` of the k of them that each of n sums adds, factor); None for anything else."""
    call, factor = calls[ref.call], 1.0
    at = np.arange(math.prod(call.shape))
    while call.kind in ("gather", "reshape", "scale") and not ref.previous:
        if call.kind == "gather":
            at = np.asarray(call.arguments["indices"]).reshape(-1)[at]
        numbers = np.unique(call.arguments.get("factor", 1.0))
        if len(numbers) > 1 or int(at.min(initial=0)) < 0:
            return None
        factor, ref = factor * float(numbers[0]), call.inputs[0]
        call = calls[ref.call]
    a = call.arguments
    if call.kind != "matrix" or ref.previous or not bool(np.all(a["values"] == 1)) or np.size(a["factor"]) != 1:
        return None
    counts = np.bincount(a["rows"], minlength=math.prod(a["shape"]))
    if np.ptp(counts):
        return None
    return call.inputs[0], a["columns"].reshape(len(counts), -1)[at], factor * float(a["factor"])


# -- replaced pools ------------------------------------------------------------------------------------------------
# ``lif(pool(conv))`` as ``pool(lif(conv))``: a maximum of currents after its neuron, where the user accepts that.
#
# A maximum of currents is no threshold, a maximum of spikes is one (``lowering.spike_logic``). The replacement computes
# something else: every neuron of a window integrates its own current, and the window spikes when one of them does. It
# is an accepted deviation (``module_checks.REPLACED_MAXPOOL``), which the self-check measures.
#
# The maximum of the spikes takes the name of the neuron, so that all readers of the neuron's output read it, and the
# self-check compares it with the neuron of the module.


_BETWEEN = frozenset({"batch_norm", "scale", "shift"})
"""Operations that may stand between the maximum and its neuron, where they let the largest value be the largest."""


def with_replaced_pools(flow: DataflowGraph, forms: NeuronSpecs, dt: float, accept: Sequence[str]) -> DataflowGraph:
    """The flow with every maximum of currents that can be moved after its neuron, each an accepted deviation.

    A maximum that cannot be moved stays, with a problem that says why. Without ``replaced-maxpool`` among the accepted
    deviations the flow is returned as it is.
    """
    if REPLACED_MAXPOOL not in accept:
        return flow
    problems: dict[str, Diagnostic] = {}
    while True:
        found = _Maxima(flow, forms, dt)
        name = next((name for name in reversed(found.of_currents()) if name not in problems), None)
        if name is None:
            return replace(flow, problems=(*flow.problems, *problems.values()))
        chain = found.to_neuron(name)
        reason = found.problem(chain)
        if reason:
            problems[name] = _refusal(chain, *reason)
        else:
            flow = _moved(flow, chain)


class _Maxima:
    """The maxima of a flow, and what is known of their operands and readers."""

    def __init__(self, flow: DataflowGraph, forms: NeuronSpecs, dt: float) -> None:
        self.flow, self.calls = flow, {c.name: c for c in flow.calls}
        self.readings = dict(readings_of(flow, forms, dt))
        self.levels = LevelsOf(self.calls, self.readings)

    def of_currents(self) -> list[str]:
        """Names of the maxima over values that are not provably 0 or 1."""
        names: list[str] = []
        for call in self.flow.calls:
            does_nothing = call.kind == "relu" and is_idle(call, self.levels)
            logic = logic_of(call, self.levels) if call.kind in KINDS and not does_nothing else None
            if logic is not None and logic.levels is not None:
                self.levels.decide(call.name, logic.levels)
            elif logic is None and call.kind == "max_pool" and not call.arguments.get("is_least"):
                names.append(call.name)
        return names

    def to_neuron(self, name: str) -> tuple[Operation, ...]:
        """The maximum, what stands between, and the first call that is none of these, up to where the way forks."""
        chain = [self.calls[name]]
        while chain[-1].kind in _BETWEEN or len(chain) == 1:
            readers = self._readers(chain[-1])
            if len(readers) != 1 or readers[0] is chain[-1]:
                break
            chain.append(readers[0])
        return tuple(chain)

    def _readers(self, call: Operation) -> list[Operation]:
        """The calls that read a call; itself, once more, where the module returns its value."""
        readers = [c for c in self.flow.calls for ref in c.inputs if ref.call == call.name]
        return readers + [call for output in self.flow.outputs if output.ref.call == call.name]

    def problem(self, chain: Sequence[Operation]) -> tuple[str, str] | None:
        """Why a maximum cannot be moved after its neuron, and what to do; None where it can."""
        last = chain[-1]
        if last.kind in _BETWEEN or len(chain) == 1:
            return "its values are not read by one neuron module alone", "give them to one neuron module only"
        if last.kind != "neuron":
            return "its values reach another layer, not a neuron", "put the pool directly in front of the neuron"
        if any(not _keeps_order(call) for call in chain[1:-1]):
            found = "what is between them has factors that are not above 0, or is not one number per channel"
            return found, "put the pool directly in front of the neuron"
        return self._neuron_problem(last)

    def _neuron_problem(self, neuron: Operation) -> tuple[str, str] | None:
        reading = self.readings.get(neuron.name)
        if reading is None:
            return "its neuron cannot be imported", "see the other problems"
        read = [ref for c in self.flow.calls for ref in c.inputs]
        returned = [output.ref for output in self.flow.outputs]
        has_values = any(not ref.output or self.calls[ref.call].kind != "neuron" for ref in returned)
        if any(_is_state(ref, neuron) for ref in (read if has_values else [*read, *returned])):
            return "a state of its neuron is read, or returned alone", "let the neuron give its spikes"
        is_alone = all(isinstance(recurrence.operator, Scale) for recurrence in reading.recurrences)
        if not is_alone or reading.operator is not None:
            return (
                "its neurons have weights among them or on their input",
                "use a neuron without recurrent or input weights",
            )
        levels = self.levels(ValueRef(neuron.name))
        if levels is None or not levels.are_two:
            return "the outputs of its neuron are not 0 or 1", "use a neuron that spikes at most once per time step"
        return None


def readings_of(flow: DataflowGraph, forms: NeuronSpecs, dt: float) -> Iterator[tuple[str, ImportedNeuron]]:
    """The neurons that can be read; the builder says why others cannot."""
    for call in flow.calls:
        form = neuron_spec_of(call.target, forms) if call.kind == "neuron" else None
        if form is not None:
            try:
                yield call.name, form.read(call.target, call.shape, dt)
            except ModelError:
                continue


def _is_state(ref: ValueRef, neuron: Operation) -> bool:
    return ref.call == neuron.name and ref.output > 0


def _keeps_order(call: Operation) -> bool:
    """True for an operation on each channel by itself, with which larger values stay larger."""
    a = call.arguments
    if call.kind == "batch_norm":
        return a["weight"] is None or bool(np.all(np.asarray(a["weight"]) > 0))
    if call.kind == "scale":
        factor = np.asarray(a["factor"])
        return factor.size == 1 and bool(np.all(factor > 0))
    return np.asarray(a["constant"]).size == 1 and a["sign"] > 0


def _refusal(chain: Sequence[Operation], found: str, step: str) -> Diagnostic:
    place = f" after {quoted(chain[-1].path or chain[-1].name)}" if chain[-1].kind == "neuron" else ""
    limit = "a maximum is moved after one neuron module that reads it alone"
    return Diagnostic(chain[0].subject, f"it cannot be moved{place}: {found}", limit, step)


def _moved(flow: DataflowGraph, chain: Sequence[Operation]) -> DataflowGraph:
    """The flow with the maximum ``chain[0]`` of the spikes of the neuron ``chain[-1]``."""
    pool, neuron = chain[0], chain[-1]
    operand = {c.name: c for c in flow.calls}[pool.inputs[0].call]
    ref, changed = pool.inputs[0], dict[str, tuple[Operation, ...]]({pool.name: ()})
    for call in chain[1:-1]:
        changed[call.name] = (replace(call, inputs=(ref,), shape=operand.shape),)
        ref = ValueRef(call.name)
    name = fresh_name(f"{neuron.name}_unpooled", {c.name for c in flow.calls} | {o.name for o in flow.outputs})
    spikes = replace(neuron, name=name, inputs=(ref,), shape=operand.shape)
    maximum = replace(pool, name=neuron.name, inputs=(ValueRef(name),))
    changed[neuron.name] = (spikes, maximum)
    calls = tuple(new for call in flow.calls for new in changed.get(call.name, (call,)))
    sizes = f"{counted(math.prod(spikes.shape), 'neuron')} in place of {math.prod(neuron.shape):,}"
    states = [replace(o, ref=replace(o.ref, call=name)) if _is_state(o.ref, neuron) else o for o in flow.outputs]
    found = f"its maximum of currents is taken of the spikes of {quoted(neuron.path or neuron.name)}, {sizes}"
    deviations = (*flow.deviations, Deviation(REPLACED_MAXPOOL, pool.subject, found))
    return replace(flow, calls=calls, outputs=tuple(states), deviations=deviations)
