"""Running a copy of a torch module, once or several times in a row, and having it written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nirbridge.importers.neuron_specs import Forms, form_of
from nirbridge.importers.tracing.memory import Constants, TooLarge, budget_of, give_back, shared_parameters
from nirbridge.importers.tracing.recorder import Recorder, Recording, tensors_of
from nirbridge.importers.tracing.uses import Uses


def record(
    module: Any,
    originals: Mapping[str, Any],
    forms: Forms,
    samples: Sequence[Mapping[str, Any]],
    noise: Callable[[Any], None] | None = None,
    handed: Sequence[str] = (),
    constants: Constants | None = None,
) -> Recording:
    """Runs ``module`` (a copy that may be spoilt) on each of ``samples`` in turn and gives what it did.

    Args:
        module: the copy.
        originals: the user's module at each path.
        forms: the classes that count as neurons.
        samples: for each call: argument name -> tensor, in order. Of a module that loops over time, two calls are made.
        noise: fills a tensor that a neuron returned with something else.
        handed: arguments that a later call is given what the call before returned behind its first output.
        constants: what the recordings of one import share.

    Raises:
        TooLarge: its values would take more memory than they may.
        Exception: whatever the first call raises.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    constants = constants or Constants(budget_of(module), shared_parameters(module))
    recorder = Recorder(forms, originals, noise, Uses().path, constants)

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return recorder.function(func, args, kwargs or {})

    _wrap(module, recorder)
    try:
        with one_thread(), torch.no_grad(), Mode():
            _call_all(module, recorder, samples, handed)
        return recorder.recording
    finally:
        recorder.close()
        _emptied(module, originals)
        give_back(constants.budget)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch: for one step of a few samples, others cost more than they give."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _call_all(module: Any, recorder: Recorder, samples: Sequence[Mapping[str, Any]], handed: Sequence[str]) -> None:
    recording: Recording = recorder.recording
    result: Any = ()
    for call, fed in enumerate(samples):
        if call > 1 and loops(recording):
            break
        more = handed_on(result, handed) if call else {}
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


def handed_on(result: Any, names: Sequence[str]) -> dict[str, Any]:
    """Arguments of the next call out of what the last one returned: by name, else in order, behind its first output."""
    if isinstance(result, Mapping):
        named = {name: result[name] for name in names if name in result}
        return named or handed_on(tuple(result.values()), names)
    if not isinstance(result, tuple | list):
        return {}
    rest = result[1:]
    return dict(zip(names, rest[max(0, len(rest) - len(names)) :], strict=False))


def loops(recording: Recording) -> bool:
    """True if the first call called a neuron several times."""
    end = recording.starts[1] if len(recording.starts) > 1 else len(recording.nodes)
    paths = [n.path for n in recording.nodes[:end] if n.kind == "neuron"]
    return len(paths) > len(set(paths))


def _wrap(module: Any, recorder: Recorder) -> None:
    """Gives every module of the copy a forward that tells the recorder where it is."""
    for path, inner in module.named_modules():
        is_neuron = form_of(inner, recorder.forms) is not None
        inner.forward = _wrapped(inner, path, recorder, is_neuron=is_neuron)


def _emptied(module: Any, originals: Mapping[str, Any]) -> None:
    """Takes everything out of the copy: its parts refer to each other, so that its states would stay for a while."""
    own = {id(inner) for inner in originals.values()}  # a class may say that a copy of it is itself
    for inner in list(module.modules()):
        if id(inner) in own:
            vars(inner).pop("forward", None)
        else:
            vars(inner).clear()


def _wrapped(module: Any, path: str, recorder: Recorder, *, is_neuron: bool) -> Callable[..., Any]:
    forward = module.forward

    def call(*args: Any, **kwargs: Any) -> Any:
        if recorder.is_paused:
            return forward(*args, **kwargs)
        recorder.stack.append(path)
        recorder.recording.reached.append(path)
        try:
            return recorder.neuron(path, module, forward, args, kwargs) if is_neuron else forward(*args, **kwargs)
        finally:
            recorder.stack.pop()

    return call
