"""A framework's module as a NIR graph that states its source, its notes and how other tools would read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from nirbridge._types import IMPORT_PROGRESS
from nirbridge.errors import Diagnostic, ModelError, UsageError, quoted
from nirbridge.files.attributes import load_attribute
from nirbridge.importers.by_hand import spec
from nirbridge.importers.emitted import with_emitted_names
from nirbridge.importers.frameworks import check_framework
from nirbridge.importers.lowering.build import build_network
from nirbridge.importers.module_checks import LabelledData, accepted_in, check_accepted, has_float64, labelled_data
from nirbridge.importers.neuron_specs import DataflowGraph, NeuronSpecs, neuron_spec_of, place_label
from nirbridge.importers.sample import TimeAxis, named_samples, sample_readings
from nirbridge.importers.tracing.memory import TooLarge, collect_memory
from nirbridge.importers.tracing.recorder import ForwardRecorder, TracedValue
from nirbridge.importers.tracing.run import copied, deep_copy, run_copy
from nirbridge.importers.tracing.structures import instances_of, members_of, tensors_of, torch_tensor
from nirbridge.importers.tracing.trace import trace_module
from nirbridge.importers.tracing.values import uncopied
from nirbridge.network import Network, export_warnings, to_nir
from nirbridge.network.nir.timing import PREFIX


def module_to_graph(
    module: Any,
    sample: Any,
    forms: NeuronSpecs,
    *,
    package: str,
    dt: float,
    batched: bool | None,
    time_axis: TimeAxis,
    accept: Sequence[str],
    check: int | None,
    measure: Any = None,
    traced: tuple[Any, NeuronSpecs] | None = None,
    edit: Callable[[DataflowGraph], DataflowGraph] = lambda flow: flow,
    private: Callable[[Any], Any] | None = None,
) -> Any:
    """``module`` as a ``nir.NIRGraph``, checked against the module; see ``from_snntorch`` for the user's arguments.

    Args:
        module: the user's module.
        sample: as the module takes it.
        forms: the neuron classes of the framework.
        package: the framework's distribution, whose version the graph states.
        dt: seconds per time step.
        batched: whether the sample has a batch axis.
        time_axis: the axis of the sample that is time.
        accept: names of accepted deviations.
        check: random inputs to run the module and the import on.
        measure: labelled data, ``(inputs, labels)`` or a mapping with ``labels``, on which both are measured.
        traced: the module to trace in place of the user's, and its neuron classes.
        edit: changes the data flow before it is built.
        private: makes a copy of the module for the check (default: a deep copy).

    Raises:
        ModelError: every operation that cannot be traced or represented.
        UnequalImport: the import does not compute the same as the module.
        UsageError: an invalid argument, or a module whose neurons are of another framework.
    """
    names, data = check_accepted(accept), labelled_data(measure, check)
    check_framework(module, package)
    source, traced_forms = traced or (module, forms)
    axes: dict[str, Any] = {"batched": batched, "time_axis": time_axis}

    def built(specs: NeuronSpecs) -> tuple[Network, Callable[[Any], Any]]:
        flow, reset = trace_after_reset(source, sample, specs, **axes)
        flow = edit(flow)
        own = reset if flow.host is None else lambda copy: flow.host.taken_off(reset(copy))
        IMPORT_PROGRESS.get()("building the network", None)
        return with_emitted_names(build_network(flow, specs, dt, accept=names), flow, module), own

    network, reset, is_own = _built_or_own(built, traced_forms, source)
    graph = to_graph(network, f"{package} {version(package)}")
    del network  # the check reads the graph, and its own copy of the weights takes its place
    collect_memory()
    is_given = batched is not None or time_axis is not None
    own: dict[str, Any] = {"private": lambda original, copy=deep_copy: reset((private or copy)(original))}
    own |= {"accept": names}
    checked_forms, check = (spec.own_specs(forms, module), spec.check_of_own(check)) if is_own else (forms, check)
    graph = with_self_check(graph, module, sample, checked_forms, check, are_axes_given=is_given, measure=data, **own)
    return spec.checked_own(graph) if is_own else graph


def _built_or_own(
    built: Callable[[NeuronSpecs], tuple[Network, Callable[[Any], Any]]], forms: NeuronSpecs, module: Any
) -> tuple[Network, Callable[[Any], Any], bool]:
    """(Network, reset of states, whether it has neurons written by hand): these are looked for where nothing else fits.

    Raises:
        ModelError: what cannot be traced or represented; of neurons written by hand, if some were found.
    """
    try:
        return (*built(forms), spec.reads_own(forms))
    except TooLarge:
        raise
    except ModelError as error:
        try:
            if spec.reads_own(forms):
                raise
            return (*built(spec.own_specs(forms, module)), True)
        except ModelError as reason:
            raise spec.found_alone(reason, error) from None


def to_graph(network: Network, source: str) -> Any:
    """The network as a NIR graph with its source (``nirbridge:source``).

    ``nirbridge:notes`` are remarks for the user, ``nirbridge:warnings`` name tools that would run the plain file
    differently: texts, one per line; saving the graph warns of them.
    """
    graph, differences = to_nir(network), export_warnings(network)
    texts = {"source": source, "notes": "\n".join(network.notes), "warnings": "\n".join(differences)}
    graph.metadata |= {PREFIX + key: text for key, text in texts.items() if text}
    return graph


CHECKER = "nirbridge.verification.self_check:self_check"
KEY = PREFIX + "self_check"
"""Where the graph's metadata holds the outcome, as JSON (see ``verification.self_check.SelfCheck``)."""

APPROXIMATE = MappingProxyType(
    {
        "outcome": "approximate",
        "text": "not made: spike rates approximate the values of the module; the conversion report says how closely",
        "outputs": 0,
        "inputs": 0,
        "ties": [],
    }
)
"""The outcome of a conversion, whose outputs are never equal to those of the module."""


def with_self_check(
    graph: Any,
    module: Any,
    sample: Any,
    forms: NeuronSpecs,
    inputs: int | None,
    *,
    private: Callable[..., Any] | None = None,
    are_axes_given: bool = False,
    accept: Sequence[str] = (),
    measure: LabelledData | None = None,
) -> Any:
    """Compare ``graph`` with the module on random inputs, and store the outcome in its metadata.

    Args:
        graph: the imported graph.
        module: the user's module.
        sample: the sample that the importer was given.
        forms: the neuron classes of the framework.
        inputs: number of random inputs; 0: no check; None: the default, for modules that are cheap to run.
        private: makes a copy of the module that may be run (default: a deep copy), with the function given, if any.
        are_axes_given: the user stated which axes of the sample are batch and time.
        accept: names of accepted deviations; if the graph has one, a difference is stated, not raised.
        measure: labelled data on which both are measured; then the check is made whatever it costs.

    Raises:
        UnequalImport: the two differ by more than rounding.
        UsageError: ``inputs`` is no whole number from 0.
    """
    check_count(inputs)
    if inputs == 0:
        return graph
    deviates = bool(accept) and accepted_in(str(graph.metadata.get(PREFIX + "notes", "")))
    more: dict[str, Any] = {"private": private, "accepted": tuple(accept) if deviates else ()}
    more |= {"are_axes_given": are_axes_given} | ({} if measure is None else {"measure": measure})
    outcome = load_attribute(CHECKER)(module, sample, graph, forms, inputs, **more)
    graph.metadata[KEY] = json.dumps(outcome, sort_keys=True)
    return graph


def check_count(inputs: int | None) -> None:
    """Raises UsageError for a number of random inputs that is no whole number from 0 (None: the default)."""
    if inputs is not None and (isinstance(inputs, bool) or not isinstance(inputs, int) or inputs < 0):
        raise UsageError.of("check", f"{inputs!r}", "a whole number from 0 (no check)", "for example check=2")


# -- own states ----------------------------------------------------------------------------------------------------
# States that the user's code keeps in attributes, left over from a run: an import starts as after a reset.
#
# A state is a tensor in an attribute (or a tuple, list, dict or NamedTuple there) of a module that is no neuron, and
# that forward replaces by outputs of neurons. How a reset leaves the attribute is known to the user alone, so the
# candidates are tried in order: None, an empty container, zeros for one sample, zeros.

_MOST_BATCH = 256
"""Samples that a run of the module is given at most, to see which attributes it replaces."""


@dataclass(frozen=True, slots=True)
class OwnState:
    """Attribute ``name`` of the module at ``path``, and its value before the import."""

    path: str
    name: str
    value: Any

    @property
    def label(self) -> str:
        """Its place in a message."""
        return f"{place_label(self.path) if self.path else 'module'}, attribute {quoted(self.name)}"

    @property
    def is_zero(self) -> bool:
        """True if a reset changes no value."""
        return not any(bool(tensor.any()) for _, tensor in tensors_of(self.value))

    @property
    def is_constant(self) -> bool:
        """True if its tensors each hold one number, not computed: an initial state that was chosen."""
        tensors = [tensor for _, tensor in tensors_of(self.value)]
        return not self.is_zero and all(t.grad_fn is None and bool((t == t.reshape(-1)[0]).all()) for t in tensors)


def trace_after_reset(
    module: Any, sample: Any, forms: NeuronSpecs, *, batched: bool | None = None, time_axis: TimeAxis = None
) -> tuple[DataflowGraph, Callable[[Any], Any]]:
    """The data flow as of ``trace_module``, and a function that resets the user's own states in a copy of the module.

    Raises:
        UsageError: as ``trace_module`` does.
        ModelError: as ``trace_module`` does; it names the attributes with states.
    """
    trace = partial(trace_module, sample=sample, forms=forms, batched=batched, time_axis=time_axis)
    first = _attempt(trace, module)
    if isinstance(first, DataflowGraph) and not first.problems:
        return first, _same
    states = left_over(module, sample, forms, batched, time_axis)
    others = [state for state in states if not state.is_constant]
    for value in (_none, _empty, _zero_row, _zeros) if others else ():
        reset = partial(_reset, states=others, value=value)
        flow = _attempt(trace, reset(copied(module)))
        if isinstance(flow, DataflowGraph) and not flow.problems:
            return replace(flow, notes=(*flow.notes, *_notes(others))), reset
    named = tuple(_problem(state) for state in states if not state.is_zero)
    if isinstance(first, DataflowGraph):
        return replace(first, problems=(*first.problems, *named)), _same
    raise type(first)(*first.problems, *named) if named else first


def _attempt(trace: Callable[[Any], DataflowGraph], module: Any) -> DataflowGraph | ModelError:
    try:
        return trace(module)
    except ModelError as error:
        return error


def left_over(
    module: Any, sample: Any, forms: NeuronSpecs, batched: bool | None, time_axis: TimeAxis
) -> list[OwnState]:
    """The attributes whose tensors forward replaces by outputs of neurons; none where it does not run at all."""
    held = list(_held(module, forms))
    if not held:
        return []
    subject = copied(module).float() if has_float64(module) else module
    samples = named_samples(module, sample)
    sizes = {len(t) for state in held for _, t in tensors_of(state.value) if t.ndim > 0 and len(t) <= _MOST_BATCH}
    replaced: set[tuple[str, str]] = set()

    def watch(clone: Any, recorder: ForwardRecorder) -> None:
        parts = dict(clone.named_modules())
        replaced.update((s.path, s.name) for s in held if _is_replaced(parts[s.path], s.name, recorder))

    for reading in sample_readings([tuple(s.shape) for s in samples.values()], batched, time_axis):
        for batch in (None, *sorted(sizes)):
            try:
                run_copy(subject, samples, replace(reading, batch=batch), forms, 1, at_end=watch)
            except Exception:  # whatever the user's code raises on states of another size
                continue
            return [state for state in held if (state.path, state.name) in replaced]
    return []


def _held(module: Any, forms: NeuronSpecs) -> Iterator[OwnState]:
    """Attributes with tensors that may be states, of modules that are neither neurons nor torch's own layers."""
    import torch

    own = vars(torch.nn.Module()).keys()
    neurons: list[str] = []
    for path, inner in module.named_modules():
        if neuron_spec_of(inner, forms) is not None:
            neurons.append(f"{path}." if path else "")
        if path.startswith(tuple(neurons)) or f"{path}." in neurons or type(inner).__module__.startswith("torch."):
            continue
        attributes: Mapping[str, Any] = {k: v for k, v in vars(inner).items() if k not in own} | dict(inner._buffers)
        for name, value in attributes.items():
            tensors = [tensor for _, tensor in tensors_of(value)]
            is_state = all(t.numel() and not isinstance(t, torch.nn.Parameter) for t in tensors)
            if tensors and is_state:
                yield OwnState(path, name, value)


def _is_replaced(inner: Any, name: str, recorder: ForwardRecorder) -> bool:
    values = [recorder.values.get(tensor) for _, tensor in tensors_of(_attributes(inner, name).get(name))]
    return bool(values) and all(isinstance(v, TracedValue) and uncopied(v).node.kind == "neuron" for v in values)


def _attributes(inner: Any, name: str) -> dict[str, Any]:
    """Where a module keeps the attribute."""
    return inner._buffers if name in inner._buffers else vars(inner)


def _notes(states: Sequence[OwnState]) -> Iterator[str]:
    for state in states:
        if not state.is_zero:
            yield f"{state.label} holds a state left over from a run: imported as after a reset"


def _problem(state: OwnState) -> Diagnostic:
    found = "it holds a state" if state.is_constant else "it holds a state left over from a run"
    return Diagnostic(state.label, found, "a network starts from zero", "set it to None or to zeros before the import")


# -- resets ----------------------------------------------------------------------------------------------------------


def _same(module: Any) -> Any:
    return module


def _reset(module: Any, states: Sequence[OwnState], value: Callable[[Any], Any]) -> Any:
    """The module, a copy, with its own states reset."""
    parts = dict(module.named_modules())
    for state in states:
        if state.path in parts:
            attributes = _attributes(parts[state.path], state.name)
            attributes[state.name] = value(state.value)
    return module


def _none(value: Any) -> Any:
    """None, in each place of a list or a dict."""
    if isinstance(value, dict):
        return dict.fromkeys(value)
    return [None] * len(value) if isinstance(value, list) else None


def _empty(value: Any) -> Any:
    return type(value)() if isinstance(value, dict | list) else None


def _zero_row(value: Any) -> Any:
    """Zeros for one sample: they fit any number of samples."""
    return _each(value, lambda tensor: tensor[:1] if tensor.ndim else tensor)


def _zeros(value: Any) -> Any:
    return _each(value, lambda tensor: tensor)


def _each(value: Any, part: Callable[[Any], Any]) -> Any:
    if isinstance(value, torch_tensor()):
        return part(value.detach()).new_zeros(part(value).shape)
    if isinstance(value, dict):
        return {key: _each(inner, part) for key, inner in value.items()}
    if not any(True for _ in instances_of(value, torch_tensor())):
        return value
    members = [_each(inner, part) for _, inner in members_of(value)]
    return type(value)(*members) if hasattr(value, "_fields") else type(value)(members)
