"""Data-flow graph from the trace of a module: the calls of the last iteration, in order, with names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.by_hand.spec import reads_own
from nirbridge.importers.module_checks import KEPT_STATES, Deviation
from nirbridge.importers.neuron_specs import (
    DataflowGraph,
    GraphOutput,
    LoopSummary,
    NeuronSpecs,
    Operation,
    ValueRef,
    distinct,
    layout_of,
    neuron_spec_of,
    place_label,
)
from nirbridge.importers.sample import Roles, lead_of, order_of
from nirbridge.importers.tracing.arguments import (
    IN_FRONT,
    CannotFollow,
    FlowValue,
    LoweredOp,
    OverBatch,
    advice_on,
    call_argument,
    later,
    over_time,
    with_bias_once,
    written_inputs,
)
from nirbridge.importers.tracing.consistency import STARTS_ANEW, half_precision_calls
from nirbridge.importers.tracing.delays import (
    MOVED,
    PAD,
    keeps_time,
    moved_in_time,
    moved_text,
    position_problem,
    settled,
)
from nirbridge.importers.tracing.heads import DIRECT, HEADS, Head, HostPart, lowest, needed, single_numbers
from nirbridge.importers.tracing.ops import MAX_POOLS, OP_HANDLERS
from nirbridge.importers.tracing.pointwise import of_each_value
from nirbridge.importers.tracing.recorder import ForwardTrace, TracedCall, TracedValue, values_of
from nirbridge.importers.tracing.shape_ops import MOVES, lower_move, moved_input, sum_over
from nirbridge.importers.tracing.time_loop import FORWARD, SERIES, STATIC, TimeLoop, join_series, without_lists
from nirbridge.importers.tracing.values import first_input, module_path, states
from nirbridge.network.naming import fresh_name

UNREACHED = "its input does not depend on the module's input"
NOTHING = "it returns nothing that depends on its input"
_ON_DEMAND = ("unbind", "chunk", "split", "tensor_split", "split_with_sizes", "max", "min", *MAX_POOLS)
"""Functions of which not every output is needed."""


class GraphBuilder:
    """Writes the calls of one step."""

    def __init__(
        self, recording: ForwardTrace, forms: NeuronSpecs, roles: Mapping[str, Roles], calls: int = 1, steps: int = 0
    ) -> None:
        """``roles``: those of the axes of each input, by its name; ``steps``: time steps of the user's sample."""
        self.recording, self.forms, self.roles, self.sample_steps = recording, forms, roles, steps
        self.lead = next((lead_of(inputs) for inputs in roles.values()), ())
        neurons = {path: nodes[0].module for path, nodes in recording.neurons().items()}
        specs = {path: neuron_spec_of(module, forms) for path, module in neurons.items()}
        sequences = {path for path, spec in specs.items() if spec and layout_of(spec, neurons[path])}
        times = {name: words.index("time") for name, words in roles.items() if "time" in words}
        self.iterations = TimeLoop(recording, calls, sequences, times)
        self.calls: list[Operation] = []
        self.problems: list[Diagnostic] = []
        self.notes: list[str] = [*recording.notes]
        self.deviations: list[Deviation] = []
        self.done: dict[tuple[int, int], FlowValue] = {}
        self.unknown: dict[str, TracedCall] = {}  # by the name of their operation
        self.statistics: set[int] = set()  # calls over the batch
        self.summed: dict[str, Diagnostic] = {}  # problems of operations on values summed over time
        self.unbiased: dict[str, str] = {}  # layers whose bias is added once, by the name of their operation
        self.names: dict[int, str] = {}
        self.taken: set[str] = {"output"}
        self.modules: dict[str, Any] = {n.path: n.module for n in recording.nodes}
        self.returned, lists = without_lists(recording.outputs, self.iterations.iterations, self.iterations.is_series)
        self.problems += lists

    def flow(self) -> DataflowGraph:
        """The data-flow graph; ``problems`` lists every operation that cannot be traced."""
        self.problems += [*self.recording.problems, *self.iterations.problems()]
        needed = self._wanted()
        nodes = [node for node in self.recording.nodes if node.index in needed]
        # neurons written by hand share their place with other operations of their module
        firsts = [n for n in nodes if n.kind in ("input", "neuron")] if reads_own(self.forms) else []
        for node in (*firsts, *(n for n in nodes if n not in firsts)):
            self.names[node.index] = self._fresh(self._wanted_name(node))
        for node in nodes:
            self._write(node)
        outputs, host = self._outputs()
        self.problems += [problem for name, problem in self.summed.items() if name in {c.name for c in self.calls}]
        refs = [*(ref for call in self.calls for ref in call.inputs), *(output.ref for output in outputs)]
        is_neuron_alone = reads_own(self.forms) and not any(ref.previous for ref in refs)
        if self.iterations.is_called and not is_neuron_alone:
            steps = max((ref.previous for ref in refs), default=0)
            late = "one time step" if steps < 2 else f"up to {steps} time steps"
            self.notes.append(f"forward keeps values between calls: imported as connections delayed by {late}")
            handed = ", ".join(quoted(name) for name in self.recording.handed)
            self.notes += [f"forward's arguments {handed}: its outputs of the previous time step"] if handed else []
        elif not self.iterations.is_called and self.iterations.iterations > 1:
            self.notes.append(f"forward loops over {self.iterations.text}: imported as one time step")
        self.deviations += half_precision_calls(self.recording)
        out_of_order = [p for p in self.problems if p.limit == FORWARD]  # all others follow from it
        notes, problems = tuple(dict.fromkeys(self.notes)), tuple(distinct(out_of_order or self.problems))
        deviations = tuple(dict.fromkeys(self.deviations))
        loop = self.iterations
        summary = LoopSummary(loop.iterations, loop.follows_time, bool(loop.only_parts), loop.time_steps)
        return DataflowGraph(tuple(self.calls), outputs, notes, problems, deviations, summary, host=host)

    # -- which nodes ---------------------------------------------------------------------------------------------

    def _wanted(self) -> set[int]:
        """Indices of the calls that the outputs and the neurons of the last iteration depend on."""
        waiting = [v for _, v in self.returned if isinstance(v, TracedValue)]
        waiting += [TracedValue(calls[-1]) for calls in self.iterations.calls.values()]
        indices: set[int] = set()
        while waiting:
            value = self.iterations.plain(waiting.pop())
            node = value.node
            if node.kind == "neuron" and node is not self.iterations.calls[node.path][-1]:
                continue
            node = self.iterations.latest.get((node.kind, node.path or node.name), node)
            if node.index not in indices:
                indices.add(node.index)
                waiting += self._needs(node)
        return indices

    def _needs(self, node: TracedCall) -> list[TracedValue]:
        if node.kind == "neuron":
            return [v for v in (first_input(node),) if isinstance(v, TracedValue)]
        series = self.iterations.series.get(node.index)
        items = series.items if series else self.iterations.sums.get(node.index)
        return [items[-1]] if items else list(values_of((node.args, dict(node.kwargs))))

    # -- names ---------------------------------------------------------------------------------------------------

    def _fresh(self, wanted: str) -> str:
        name = fresh_name(wanted, self.taken)
        self.taken.add(name)
        return name

    def _wanted_name(self, node: TracedCall) -> str:
        if node.kind == "input":
            return node.name
        place = module_path(node.path).replace(".", "_")
        is_leaf = node.module is not None and not any(True for _ in node.module.children())
        if node.kind == "neuron" or (place and is_leaf):
            return place or "neuron"
        word = node.name.strip("_")
        return f"{place}_{word}" if place else word

    # -- calls ---------------------------------------------------------------------------------------------------

    def find(self, value: TracedValue) -> FlowValue:
        """The value in the flow."""
        value = self.iterations.plain(value)
        node = value.node
        if node.kind == "neuron":
            return self._neuron_output(value)
        if node.kind == "input" and self.iterations.is_called:
            now = self.iterations.latest["input", node.name]
            if (now.index, 0) not in self.done:
                self._write(now)
            return later(self.done[now.index, 0], self.iterations.last - self.iterations.turn_of[node.index])
        key = (node.index, value.output)
        if key not in self.done:
            self._write_output(value)
        return self.done[key]

    def _neuron_output(self, value: TracedValue) -> FlowValue:
        node, last = value.node, self.iterations.calls[value.node.path][-1]
        lag = self.iterations.last - self.iterations.turn_of[node.index]
        written = self.done.get((last.index, 0))
        # a neuron that is used before it is written has the leading axes of the sample
        of_sample = tuple(word for word in self.lead if word != "time") if self.iterations.is_folded else self.lead
        lead = written.lead if written else of_sample
        return FlowValue(ValueRef(self.names[last.index], value.output, lag), lead, value.shape)

    def _write(self, node: TracedCall) -> None:
        if node.kind == "input" and (node.index, 0) not in self.done:
            roles = self.roles[node.name]
            x = FlowValue(ValueRef(self.names[node.index]), lead_of(roles), node.shapes[0], order=order_of(roles))
            self.calls.append(Operation(self.names[node.index], "", "input", None, (), shape=x.shape))
            self.done[node.index, 0] = x
        elif node.kind == "neuron":
            self._write_neuron(node)
        else:
            for k in range(len(node.shapes) if node.name not in _ON_DEMAND else 0):
                self.find(TracedValue(node, k))

    def _write_neuron(self, node: TracedCall) -> None:
        form = neuron_spec_of(node.module, self.forms)
        value = first_input(node)
        if form is None or not isinstance(value, TracedValue):
            return self._add_problem(node.path, UNREACHED, "connect it")
        x = self.find(value)
        layout = layout_of(form, node.module)
        step_lead = x.lead_of_a_step(self.iterations.iterations)
        fits = x.lead == layout if layout is not None else form.is_refusal or set(step_lead) <= {"batch"}
        if x.summed or x.is_last or x.order or x.at or not fits:
            text = "values summed over time" if x.summed else f"values with leading axes {x.lead or 'none'}"
            text = "values of the last time step only" if x.is_last else text
            text = f"values of shape {x.whole}, where batch or time is not leading" if x.order else text
            text = moved_text(x, self.iterations.time_size) if x.at else text
            hint = PAD if x.at else f"give it {layout or 'one time step of a batch'}"
            self._add_problem(node.path, f"it is given {text}", hint)
        elif "time" in x.lead:
            self.iterations.follows_time = True
        started = any(not isinstance(s, TracedValue) for s in states(self.iterations.calls[node.path][0]))
        ref = self._append(node, "neuron", (x.ref,), {"starts_at_zero": started}, node.shapes[0][len(x.lead) :])
        self.done[node.index, 0] = FlowValue(ref, x.lead, node.shapes[0])
        has_state = any(isinstance(s, TracedValue) for s in states(node))
        if (
            (self.iterations.iterations == 1 or self.iterations.is_called)
            and states(node)
            and not has_state
            and layout is None
        ):
            self.deviations.append(Deviation(KEPT_STATES, place_label(node.path), STARTS_ANEW))
        return None

    def _write_output(self, value: TracedValue) -> None:
        node = value.node
        try:
            word = self._word(node, value)
            word = word if keeps_time(word) else self._in_time(node, value.output, MOVED, PAD)
        except CannotFollow as reason:
            word = self._in_time(node, value.output, reason.why, reason.advice)
            self.statistics |= {node.index} if isinstance(reason, OverBatch) else set()
        except (TypeError, IndexError, RuntimeError, ValueError, AttributeError, ArithmeticError) as error:
            word = self._unknown(node, f"its arguments are not supported ({type(error).__name__})", "")
        inputs = written_inputs(word, partial(self._append_inner, node))
        x, ref = inputs[0], inputs[0].ref
        traced = _as_shaped(word, x, value.shape)
        is_whole = word is (word := with_bias_once(node, word, x))
        word, over, notes = over_time(word, inputs, self.sample_steps)
        self.notes += notes
        if word.kind not in ("same", "summed") and not (word.kind == "reshape" and traced.shape == x.shape):
            is_more = word.inputs != inputs or value.output > 0
            ref = self._append(node, word.kind, tuple(t.ref for t in inputs), word.arguments, traced.shape, is_more)
        is_pooled = word.kind in ("avg_pool", "max_pool", "matrix")
        if is_pooled and is_reduction(node) and not keeps_axes(node):
            ref = self._append(node, "reshape", (ref,), {}, traced.shape, is_more=True)
        self.unknown |= {ref.call: node} if word.kind == "unknown" else {}
        self.unbiased |= {} if is_whole else {ref.call: node.path}
        if any(t.summed for t in inputs) and not over["summed"]:
            found = f"{node.name} works on values summed over time"
            self.summed[ref.call] = Diagnostic(place_label(node.path), found, "", "return the sum unchanged")
        at = word.at or (x.at if word.kind != "unknown" else ())
        done = settled(replace(traced, ref=ref), at, self.iterations.time_size)
        is_last = word.is_last or any(t.is_last for t in inputs)
        self.done[node.index, value.output] = replace(done, is_last=is_last, **over)

    def _append(
        self,
        node: TracedCall,
        kind: str,
        inputs: tuple[ValueRef, ...],
        arguments: Any,
        shape: Shape,
        is_more: bool = False,
    ) -> ValueRef:
        """Write one operation; ``is_more``: it is not the first one of its call, so that it needs another name."""
        name = self._fresh(self.names[node.index]) if is_more else self.names[node.index]
        self.calls.append(Operation(name, node.path, kind, node.module, inputs, arguments, shape))
        return ValueRef(name)

    def _append_inner(self, node: TracedCall, word: LoweredOp) -> ValueRef:
        return self._append(
            node, word.kind, tuple(x.ref for x in word.values), word.arguments, word.shape, is_more=True
        )

    def _word(self, node: TracedCall, value: TracedValue) -> LoweredOp:
        series = self.iterations.series.get(node.index)
        if series:
            return join_series(self.find(series.items[-1]), series)
        sums = self.iterations.sums.get(node.index)
        if sums:
            return LoweredOp("summed", {"steps": len(sums), "is_mean": False}, (self.find(sums[-1]),))
        if node.name in MOVES:
            return lower_move(node, value, self.find(moved_input(node)), self.iterations)
        if is_reduction(node):
            return lower_reduction(node, self.find(moved_input(node)), value.output)
        lowered = OP_HANDLERS[node.name](node, self.find) if node.name in OP_HANDLERS else None
        turned = [t for t in lowered.values if t.order] if lowered and lowered.kind != "same" else []
        if turned:
            found = f"values of shape {turned[0].whole}, where batch or time is not leading"
            raise CannotFollow(found, IN_FRONT)
        return lowered or self._unknown(node, "", "")

    def _in_time(self, node: TracedCall, output: int, why: str, advice: str) -> LoweredOp:
        """What moves values along time, where nothing else is known of a function."""
        is_series = node.index in self.iterations.series.keys() | self.iterations.sums.keys()
        try:
            word = None if is_series else moved_in_time(node, output, self.find, self.iterations.time_size)
        except CannotFollow as reason:
            word, why, advice = None, reason.why, reason.advice
        fault = position_problem(node) if word else None
        if fault:
            self._add_problem(node.path, *fault)
        return word or self._unknown(node, why, advice)

    def _unknown(self, node: TracedCall, why: str, advice: str) -> LoweredOp:
        inputs = tuple(self.find(v) for v in self._needs(node))
        return LoweredOp("unknown", {"function": node.name, "reason": why, "hint": advice}, inputs)

    def _add_problem(self, path: str, found: str, advice: str) -> None:
        self.problems.append(Diagnostic(place_label(path), found, "", advice))

    # -- outputs -------------------------------------------------------------------------------------------------

    def _outputs(self) -> tuple[tuple[GraphOutput, ...], HostPart | None]:
        """The outputs, and what forward computes from them.

        A function at the end is taken off. What is computed over the batch, or from an output that is there as well, is
        left out beside other outputs.
        """
        pairs = [(name, value) for name, value in self.returned if isinstance(value, TracedValue)]
        computed = [(name, value) for name, value in pairs if self.iterations.plain(value).node.kind != "input"]
        if not computed or not (self.problems or any(call.kind == "input" for call in self.calls)):
            self._add_problem("", NOTHING, "return spikes or a readout")
        ends = [(name, *self._end(value)) for name, value in computed]
        known = {self.find(value).ref for _, value, words, _ in ends if not words}
        kept = [one for one in ends if not one[2] or self.find(one[1]).ref not in known]
        over_batch = {name for name, node in self.unknown.items() if node.index in self.statistics}
        odd = lowest(self.calls, over_batch | single_numbers(self.calls))
        usual = [one for one in kept if odd.get(self.find(one[1]).ref.call, DIRECT) == DIRECT] or kept
        outputs = tuple(self._output(*one[:3]) for one in usual)
        for name, _, words, _ in (one for one in ends if one not in usual):
            what = f"{words} of another output" if words else "a statistic of all samples or values"
            self.notes.append(f"output {quoted(name)} is {what}: left out, the host computes it")
        numbers = {name: k for k, (name, _) in enumerate(self.recording.outputs)}
        heads = tuple(Head(numbers[name], node.name, node.place) for name, _, _, node in usual if node)
        if heads or len(outputs) < len(ends):
            self.calls = needed(self.calls, [output.ref for output in outputs])
        return outputs, HostPart(heads, self._unbiased(outputs)) if heads or self.unbiased else None

    def _unbiased(self, outputs: Sequence[GraphOutput]) -> tuple[str, ...]:
        """Layers whose bias the host adds once: to outputs that are used no further."""
        ends, read = {output.ref.call for output in outputs}, {ref.call for call in self.calls for ref in call.inputs}
        for name, path in self.unbiased.items():
            if name in ends - read:
                text = "its bias is left to the host, which adds it once to the sum over time"
                self.notes.append(f"{place_label(path)}: {text}")
            else:
                found = "its bias is added once to a sum over time, and the result is used further"
                self._add_problem(path, found, "give it bias=False, or return its result")
        return tuple(self.unbiased.values())

    def _end(self, value: TracedValue) -> tuple[TracedValue, str, TracedCall | None]:
        """The value that the functions at the end of forward are applied to, their names, and the first, if any."""
        end = self.find(value).ref.call  # which may write its call
        heads = {
            name: node
            for name, node in self.unknown.items()
            if node.name in HEADS and node.index not in self.statistics and len(self._needs(node)) == 1
        }
        under = lowest(self.calls, heads)
        found = under.get(end, DIRECT) - (frozenset() if self.iterations.calls else heads.keys())
        sources = {self._needs(heads[name])[0] if name else None: name for name in sorted(found)}
        if None in sources or len(sources) != 1:
            return value, "", None
        calls = (call for call in self.calls if under[call.name] == found)
        words = dict.fromkeys(str(call.arguments.get("function", call.kind)) for call in calls)
        ((source, first),) = sources.items()
        return source or value, ", ".join(words), heads[first]

    def _output(self, name: str, value: TracedValue, words: str) -> GraphOutput:
        x, age = self.find(value), self.iterations.age(value)
        if x.at:
            found = f"its output {quoted(name or 'output')} has {moved_text(x, self.iterations.time_size)}"
            self._add_problem("", found, PAD)
        if words:
            text = f"forward ends with {words}, which is left to the host: the import returns the values before it"
            self.notes.append(f"output {quoted(name)}: {text}, of each time step")
        if x.summed:
            self.notes.append(f"output {quoted(name)} {x.over_time}")
        elif not words and (x.is_last or (self.iterations.is_folded and age not in (SERIES, STATIC))):
            text = "the module returns its last time step, the import returns every time step"
            self.notes.append(f"output {quoted(name)}: {text}")
        return GraphOutput(name or "output", x.ref)


def _as_shaped(word: LoweredOp, x: FlowValue, shape: Shape) -> FlowValue:
    """The value of a function of ``x``, with its axes; ``shape``: that of its tensor."""
    lead, order = (x.lead, x.order) if word.lead is None else (word.lead, word.order)
    if word.kind == "unknown":
        lead, order = x.lead[: len(shape)], ()
    return FlowValue(x.ref, lead, shape, order=order)


# -- reductions ----------------------------------------------------------------------------------------------------

_MAXIMA = frozenset({"amax", "any", "max"})
_MINIMA = frozenset({"amin", "all", "min", "prod"})
_TRUTHS = frozenset({"any", "all", "count_nonzero"})
"""Maxima, minima and truths over axes, which are exact over spikes."""


def is_reduction(node: TracedCall) -> bool:
    """True for sums, means, maxima and minima over axes of one value."""
    if node.name in ("max", "min"):
        return len(node.shapes) > 1  # values and their positions; over all values, or of two, there is one result
    return node.name in {"sum", "mean", *_MAXIMA, *_MINIMA, *_TRUTHS}


def keeps_axes(node: TracedCall) -> bool:
    """True where the axes of a reduction stay, with size one."""
    return node.name != "count_nonzero" and bool(call_argument(node, 2, "keepdim", False))


def lower_reduction(node: TracedCall, x: FlowValue, output: int = 0) -> LoweredOp:
    """A sum or mean: over time (a readout), or over axes of values; maxima and minima over axes of values.

    Raises:
        CannotFollow: any other, as the positions of maxima, and all that is over the batch.
    """
    if output:
        raise CannotFollow(f"the position of a {node.name} is requested", "leave argmax out of forward")
    if x.order:
        return _turned_back(node, x)
    return _of_truths(node, _reduced(node, x, _dims(node, len(x.whole))))


def _turned_back(node: TracedCall, x: FlowValue) -> LoweredOp:
    """The same of a value whose batch or time is not leading, as ``torch.stack((a, b)).amax(0)``."""
    dims = tuple(sorted(x.order[k] for k in _dims(node, len(x.whole))))
    rest = [place for place in x.order if place not in dims]
    if rest != sorted(rest) or any(k < len(x.lead) for k in dims) or keeps_axes(node):
        raise CannotFollow(f"values of shape {x.whole}, where batch or time is not leading", IN_FRONT)
    return _of_truths(node, _reduced(node, replace(x, whole=x.arranged, order=()), dims))


def _of_truths(node: TracedCall, word: LoweredOp) -> LoweredOp:
    """Of what is not 0, where the function asks for that; the least where it asks for that."""
    if node.name in _MAXIMA | _MINIMA:
        is_least = node.name in _MINIMA
        word = replace(word, arguments={**word.arguments, "is_least": is_least, "function": node.name})
    if node.name not in _TRUTHS:
        return word
    x = next(word.values)
    truth = of_each_value(node, x, lambda points: points != 0)
    return replace(word, inputs=(replace(truth, lead=x.lead, shape=x.shape),))


def _reduced(node: TracedCall, x: FlowValue, dims: tuple[int, ...]) -> LoweredOp:
    is_choice = node.name in _MAXIMA | _MINIMA
    over = [k for k in dims if k < len(x.lead)]
    if over and "chunk" in x.lead:
        raise CannotFollow(f"a {node.name} over chunks of time steps", "return every time step, and sum the outputs")
    is_over_time = len(dims) == len(over) == 1 and x.lead[over[0]] == "time"
    if is_over_time and not keeps_axes(node) and not is_choice and node.name not in _TRUTHS:
        lead = tuple(word for k, word in enumerate(x.lead) if k != over[0])
        return LoweredOp("summed", {"steps": x.whole[over[0]], "is_mean": node.name == "mean"}, (x,), lead)
    spatial = tuple(range(len(x.lead) + 1, len(x.whole)))
    if dims == spatial and len(spatial) in (1, 2):
        return _over_positions(node, x)
    kind = OverBatch if "batch" in [x.lead[k] for k in over] else CannotFollow
    if over and node.name in ("max", "min", "amax", "amin"):
        raise kind(*advice_on(node.name))
    if over:
        raise kind(f"a {node.name} over the batch or time, and values", "sum values first, and time last")
    summed = sum_over(x, [k - len(x.lead) for k in dims], mean=node.name == "mean")
    return replace(summed, kind="max_pool") if is_choice else summed


def _over_positions(node: TracedCall, x: FlowValue) -> LoweredOp:
    kernel = x.shape[1:]
    padding = ((0, 0),) * len(kernel)
    if node.name in _MAXIMA | _MINIMA:
        arguments = {"kernel": kernel, "stride": kernel, "padding": padding, "dilation": (1,) * len(kernel)}
        return LoweredOp("max_pool", arguments, (x,))
    factor = 1.0 / math.prod(kernel) if node.name == "mean" else 1.0
    return LoweredOp("avg_pool", {"kernel": kernel, "stride": kernel, "padding": padding, "factor": factor}, (x,))


def _dims(node: TracedCall, rank: int) -> tuple[int, ...]:
    dims: Any = call_argument(node, 1, "dim", node.kwargs.get("axis"))
    if dims is None:
        return tuple(range(rank))
    dims = dims if isinstance(dims, tuple) else (dims,)
    return tuple(sorted(int(d) % rank for d in dims))
