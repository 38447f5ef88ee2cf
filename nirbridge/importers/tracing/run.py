"""Copies that leave the user's module unchanged, and the run of a copy.

The copy is called once or several times in a row, and every operation is recorded.
"""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from nirbridge.errors import ModelError
from nirbridge.importers.by_hand.rewriting import with_own_neurons
from nirbridge.importers.by_hand.spec import reads_own, show_operations
from nirbridge.importers.neuron_specs import NeuronSpecs, neuron_spec_of, quietly
from nirbridge.importers.sample import SampleReading, fed_tensors
from nirbridge.importers.tracing.memory import ParameterWrite, TensorConstants, TooLarge, budget_of, release_memory
from nirbridge.importers.tracing.reads import Reads
from nirbridge.importers.tracing.recorder import ForwardRecorder, ForwardTrace, is_delay
from nirbridge.importers.tracing.structures import fill_with_spikes, handed_over_arguments, tensors_of
from nirbridge.importers.tracing.values import ModuleUses, kept_rows, read_back

_REGISTRY = "_ModuleBase__registered_attributes"
"""Where rockpool keeps the tensors that parameters were made of: nothing computes with them."""
_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def copied(module: Any) -> Any:
    """A deep copy of a module, of the computed tensors that it keeps too, which torch itself does not copy."""
    return copy.deepcopy(module, computed_tensors_memo(module))


def deep_copy(module: Any) -> Any:
    """A copy that shares nothing with the module, tensors with a history included.

    Raises:
        RuntimeError: the module copies itself in a way of its own, and the copy shares parts with it.
    """
    copied = copy.deepcopy(module, computed_tensors_memo(module))
    originals = {id(part) for part in _parts(module)}
    if any(id(part) in originals for part in _parts(copied)):
        raise RuntimeError("its copy shares parts with it, and a check would change them")
    return copied


def _parts(module: Any) -> Iterator[Any]:
    for inner in module.modules():
        yield inner
        yield from (part for part in (*inner._parameters.values(), *inner._buffers.values()) if part is not None)


def computed_tensors_memo(module: Any) -> dict[int, Any]:
    """A memo for ``copy.deepcopy``: computed tensors, which torch does not copy, wherever the module keeps them."""
    import torch

    memo: dict[int, Any] = {}
    visited: set[int] = set()
    waiting: list[Any] = [module]
    while waiting:
        subject = waiting.pop()
        if id(subject) in visited or isinstance(subject, _CODE):
            continue
        visited.add(id(subject))
        if isinstance(subject, torch.Tensor):
            memo |= {} if subject.grad_fn is None else {id(subject): subject.detach().clone()}
            continue
        waiting += _held(subject)
    return memo


def _held(subject: Any) -> list[Any]:
    """Members of a container or an object."""
    if isinstance(subject, Mapping):
        return list(subject.values())
    if isinstance(subject, list | tuple | set | frozenset):
        return list(subject)
    if isinstance(subject, partial):
        return [subject.func, *subject.args, *subject.keywords.values()]
    return list(getattr(subject, "__dict__", {}).values())


def copy_in_eval_mode(module: Any, *, is_shared: bool = True) -> Any:
    """A copy in eval mode that shares the parameters, if ``is_shared``."""
    memo: dict[int, Any] = {id(p): p for p in module.parameters()} if is_shared else {}
    for inner in module.modules() if is_shared else ():
        memo |= {id(t): t for _, t in tensors_of(vars(inner).get(_REGISTRY))}
    try:
        memo = computed_tensors_memo(module) | memo
        return copy.deepcopy(module, memo).eval()
    except Exception as error:
        found = f"it cannot be copied ({type(error).__name__}: {str(error)[:100]})"
        advice = "detach the tensors that it holds, and remove open files"
        raise ModelError.of("module", found, "the importer runs a copy", advice) from None


@contextmanager
def registered_neurons(clone: Any) -> Iterator[None]:
    """Has the neurons of a copy in their class's list of all neurons, as snnTorch's resets of a whole class need it."""
    lists: dict[int, list[Any]] = {}
    for inner in clone.modules():
        registry: Any = getattr(type(inner), "instances", None)
        if isinstance(registry, list):
            lists[id(registry)] = registry
            registry.append(inner)
    copied = {id(inner) for inner in clone.modules()}
    try:
        yield
    finally:
        for registry in lists.values():
            registry[:] = [inner for inner in registry if id(inner) not in copied]


@contextmanager
def preserved_module(module: Any) -> Iterator[None]:
    """Undo changes of the module and of the random state by the user's code (resets of all neurons of a class)."""
    import torch

    saved = [(m, dict(vars(m)), dict(m._buffers)) for m in module.modules()]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for inner, attributes, buffers in saved:
                vars(inner).update(attributes)
                inner._buffers.clear()
                inner._buffers.update(buffers)


def run_copy(
    module: Any,
    samples: Mapping[str, Any],
    reading: SampleReading,
    forms: NeuronSpecs,
    seed: int,
    calls: int = 1,
    handed: Sequence[str] = (),
    **options: Any,
) -> ForwardTrace:
    """Trace of a copy of the module, called ``calls`` times in a row on random inputs; see ``record_forward``.

    Neurons written by hand are calls of neurons in it, where these are among ``forms``.
    """
    import torch

    originals = dict(module.named_modules())
    fed = [fed_tensors(samples, reading, seed + 2 * call) for call in range(calls)]

    def run(*, is_shared: bool) -> ForwardTrace:
        source = torch.Generator().manual_seed(seed)
        clone = copy_in_eval_mode(module, is_shared=is_shared)
        show_operations(clone, forms)
        shared = [*clone.parameters()] if is_shared else []
        with preserved_module(module), registered_neurons(clone), quietly():  # the user has seen the warnings
            # What depends on chance differs between runs. Of the CPU alone: torch.manual_seed formats a stack for each
            # kind of accelerator that was not used yet, and would change those that ``preserved_module`` leaves alone.
            torch.default_generator.manual_seed(seed)
            noise = partial(fill_with_spikes, source=source)
            return record_forward(clone, originals, forms, fed, noise, handed, shared=shared, **options)

    try:
        trace = run(is_shared=True)
    except ParameterWrite:  # the parameters of the user's module stay as they are
        trace = run(is_shared=False)
    return with_own_neurons(trace) if reads_own(forms) else trace


def record_forward(
    module: Any,
    originals: Mapping[str, Any],
    forms: NeuronSpecs,
    samples: Sequence[Mapping[str, Any]],
    noise: Callable[[Any], None] | None = None,
    handed: Sequence[str] = (),
    reads: Reads | None = None,
    at_end: Callable[[Any, ForwardRecorder], None] | None = None,
    shared: Iterable[Any] = (),
) -> ForwardTrace:
    """Run ``module`` (a copy, not usable afterwards) on each of ``samples`` in turn and return the trace.

    Args:
        module: the copy.
        originals: the user's module at each path.
        forms: the classes that count as neurons.
        samples: for each call: argument name -> tensor, in order. Of a module that loops over time, two calls are made.
        noise: fills a tensor that a neuron returned with something else.
        handed: arguments of a later call that take the outputs of the previous call after its first.
        reads: what reads of values are answered (None: the values).
        at_end: is given the copy and the recorder after the last call.
        shared: parameters of the user's module.

    Raises:
        ParameterWrite: forward writes into one of ``shared``.
        TooLarge: its values would take more memory than they may.
        Exception: whatever the first call raises.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    constants = TensorConstants(budget_of(module), {id(p): p for p in shared})
    recorder = ForwardRecorder(forms, originals, noise, ModuleUses().path, read_back, kept_rows, constants)
    recorder.reads = reads or recorder.reads

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return recorder.function(func, args, kwargs or {})

    _wrap(module, recorder)
    try:
        with one_thread(), torch.no_grad(), Mode():
            _call_all(module, recorder, samples, handed)
        if at_end is not None:
            at_end(module, recorder)
        return recorder.recording
    finally:
        recorder.close()
        _emptied(module, originals)
        release_memory(constants.budget)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch: for one step of a few samples, others cost more than they give. Nothing is compiled."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _uncompiled():
            yield
    finally:
        torch.set_num_threads(threads)


def _uncompiled() -> Any:
    """A context in which what ``torch.compile`` made runs as it was written."""
    import torch

    stance: Any = getattr(torch.compiler, "set_stance", None)
    return stance("force_eager") if stance and "torch._dynamo" in sys.modules else nullcontext()


def _call_all(
    module: Any, recorder: ForwardRecorder, samples: Sequence[Mapping[str, Any]], handed: Sequence[str]
) -> None:
    recording: ForwardTrace = recorder.recording
    result: Any = ()
    for call, fed in enumerate(samples):
        if call > 1 and is_loop(recording):
            break
        more = handed_over_arguments(result, handed) if call else {}
        recording.starts.append(len(recording.nodes))
        for name, tensor in fed.items():
            recorder.add("input", name, (), {}, [tensor])
        try:
            result = module(*fed.values(), **more)
        except Exception as error:  # whatever the user's code raises
            if not call or isinstance(error, TooLarge):
                raise
            recording.failure = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            return
        recording.handed = recording.handed or tuple(more)
        recording.outputs = [(name, recorder.seen(tensor)) for name, tensor in tensors_of(result)]
        recording.returned.append(recording.outputs)


def is_loop(recording: ForwardTrace) -> bool:
    """True if the first call called a neuron several times."""
    end = recording.starts[1] if len(recording.starts) > 1 else len(recording.nodes)
    paths = [n.path for n in recording.nodes[:end] if n.kind == "neuron"]
    return len(paths) > len(set(paths))


def _wrap(module: Any, recorder: ForwardRecorder) -> None:
    """Gives every module of the copy a forward that tells the recorder where it is."""
    for path, inner in module.named_modules():
        is_neuron = neuron_spec_of(inner, recorder.forms) is not None
        inner.forward = _wrapped(inner, path, recorder, is_neuron=is_neuron)


def _emptied(module: Any, originals: Mapping[str, Any]) -> None:
    """Takes everything out of the copy: its parts refer to each other, so that its states would stay for a while."""
    originals_by_id = {id(inner) for inner in originals.values()}  # a class may say that a copy of it is itself
    for inner in list(module.modules()):
        if id(inner) in originals_by_id:
            vars(inner).pop("forward", None)
        else:
            vars(inner).clear()


def _wrapped(module: Any, path: str, recorder: ForwardRecorder, *, is_neuron: bool) -> Callable[..., Any]:
    forward = module.forward

    def call(*args: Any, **kwargs: Any) -> Any:
        if recorder.is_paused:
            return forward(*args, **kwargs)
        recorder.stack.append(path)
        recorder.recording.reached.append(path)
        try:
            if is_neuron:
                return recorder.neuron(path, module, forward, args, kwargs)
            return recorder.delay(module, forward, args) if is_delay(module) else forward(*args, **kwargs)
        finally:
            recorder.stack.pop()

    return call
