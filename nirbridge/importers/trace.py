"""torch module + sample -> Flow: the module's own forward is run on a copy, and what happens is written down."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nirbridge.errors import ModelError, NirbridgeError, Problem, UsageError, quoted
from nirbridge.importers.flow import Call, Flow, multiplications
from nirbridge.importers.readings import Forms, form_of
from nirbridge.importers.trace_calls import STARTS_ANEW, Writer, layout_of
from nirbridge.importers.trace_module import ROUNDED, check_module, copied, in_float32, untouched
from nirbridge.importers.trace_record import Recording
from nirbridge.importers.trace_repeat import (
    CALLS,
    arguments_left,
    data_dependence,
    failed_again,
    handed_over,
    is_steady,
    kept_between,
    reset_in,
    state_arguments,
)
from nirbridge.importers.trace_run import record
from nirbridge.importers.trace_shapes import Lead
from nirbridge.importers.trace_uses import never_handed_on
from nirbridge.importers.trace_values import thing_of
from nirbridge.importers.tracing.memory import Failures, TooLarge, raise_too_large
from nirbridge.importers.tracing.stand_ins import spikes

_LONG = (12, 300)
"""Steps of a sequence that a forward with a loop is given; the second where it asks for more than the first. Twelve, so
that what is done in every tenth step, or in the first ones only, is seen to differ from step to step."""

_MANY_STEPS, _MANY_CALLS = 128, 32
"""What cheap modules are looked at again for: what is done in every 20th step only shows then."""
_CHEAP = 3_000_000
"""Multiplications of one step up to which a module is cheap."""


@dataclass(frozen=True, slots=True)
class _Guess:
    """One way to read the sample: which axes are put in front of it, and what the leading axes then are."""

    added: tuple[int, ...]
    lead: Lead
    insert_at: int = 0
    batch: int | None = None
    """Samples that a batch is made to be: two, so that it is not taken for a channel and takes little memory."""


def trace(module: Any, sample: Any, forms: Forms, *, batched: bool | None = None) -> Flow:
    """What ``module`` computes in one step.

    Args:
        module: a ``torch.nn.Module``; it is left as it is (a copy in eval mode is run).
        sample: one step's input, with or without the batch axis, or a tuple of them.
        forms: the neuron classes that are read.
        batched: whether the sample has a batch axis (None: found out).

    Returns:
        The flow; what can not be followed is in ``Flow.problems``.

    Raises:
        UsageError: no torch module, no tensor.
        ModelError: its forward fails on the sample.
    """
    check_module(module)
    samples = _samples(module, sample)
    whole = in_float32(module)
    if whole is not module:
        flow = trace(whole, sample, forms, batched=batched)
        return replace(flow, notes=(*flow.notes, ROUNDED))
    best: tuple[tuple[int, int, int], Flow, _Guess] | None = None
    failures: Failures = []
    guesses = _likeliest_first(_guesses([tuple(s.shape) for s in samples.values()], batched), module, forms)
    for k, guess in enumerate(g for pair in guesses for g in (replace(pair, batch=2), pair)):
        try:
            flow = _attempt(module, samples, guess, forms, failures)
        except RecursionError:  # hundreds of steps that hang on each other
            failures.append("its steps hang on each other in more ways than can be followed")
            continue
        if flow is None:
            continue
        score = (*_badness(flow), k)
        best = min(best or (score, flow, guess), (score, flow, guess), key=lambda found: found[0])
        if score[:2] == (0, 0):
            break
    if best is None:
        raise_too_large(failures)
        found = f"its forward fails on the sample: {failures[0] if failures else 'no reading of it fits'}"
        shapes = ", ".join(str(tuple(s.shape)) for s in samples.values())
        raise ModelError.of("module", found, f"the sample has shape {shapes}", "give one step's input as sample")
    flow = _called_again(best[1], module, samples, best[2], forms)
    return _looked_at_longer(flow, module, samples, best[2], forms)


def _samples(module: Any, sample: Any) -> dict[str, Any]:
    """Argument name -> tensor."""
    import torch

    given = tuple(sample) if isinstance(sample, tuple | list) else (sample,)
    try:
        tensors = [torch.as_tensor(s).detach().clone() for s in given]
    except (TypeError, ValueError, RuntimeError) as error:
        found = f"not a tensor or an array ({type(error).__name__})"
        raise UsageError.of("sample", found, "one step's input, or a tuple of them", "") from None
    if not tensors:
        raise UsageError.of("sample", "an empty tuple", "one step's input, or a tuple of them", "give one")
    tensors = [t if t.is_floating_point() and t.dtype == torch.float32 else t.float() for t in tensors]
    return dict(zip(_argument_names(module, len(tensors)), tensors, strict=True))


def _argument_names(module: Any, count: int) -> list[str]:
    if count == 1:
        return ["input"]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        names = [p.name for p in inspect.signature(module.forward).parameters.values() if p.kind in kinds]
    except (TypeError, ValueError):
        names = []
    return names[:count] if len(names) >= count else [f"input_{k}" for k in range(count)]


def _guesses(shapes: list[tuple[int, ...]], batched: bool | None) -> Iterator[_Guess]:
    """Ways to read the sample, the likeliest first."""
    rank, is_one = len(shapes[0]), shapes[0][:1] == (1,)
    as_given = [_Guess((), ("batch",))] if rank >= 2 and batched is not False else []
    added = [_Guess((1,), ("batch",))] if batched is not True else []
    late = added if rank in (2, 4) and is_one else []  # a leading axis of one is a batch rather than a value
    yield from (*added, *as_given) if rank in (1, 3) else (*as_given, *(added if not late else ()))
    for steps in _LONG:
        if rank >= 2 and batched is not False:
            yield _Guess((steps,), ("time", "batch"))
        if batched is not True:
            yield _Guess((steps, 1), ("time", "batch"))
        if rank >= 2 and batched is not False:
            yield _Guess((steps,), ("batch", "time"), 1)
        if batched is not True:
            yield _Guess((1, steps), ("batch", "time"))
    yield from late
    if rank >= 2 and batched is not False:
        yield _Guess((), ("time", "batch"))


def _likeliest_first(guesses: Iterator[_Guess], module: Any, forms: Forms) -> list[_Guess]:
    """Guesses with the leading axes that a neuron of the module asks for come first."""
    known = ((form_of(inner, forms), inner) for inner in module.modules())
    asked = {layout_of(form, inner) for form, inner in known if form is not None}
    return sorted(guesses, key=lambda guess: guess.lead not in asked)


def _fed(samples: Mapping[str, Any], guess: _Guess, seed: int) -> dict[str, Any]:
    """The tensors of one run: shapes as guessed; random spikes on the second run, to see what depends on them."""
    import torch

    source = torch.Generator().manual_seed(seed)
    out = {}
    for name, tensor in samples.items():
        shape = tuple(tensor.shape)
        k = guess.insert_at
        whole = [*shape[:k], *guess.added, *shape[k:]]
        axis = guess.lead.index("batch")
        whole[axis] = guess.batch if guess.batch is not None else whole[axis]
        out[name] = torch.randint(0, 2, whole, generator=source, dtype=tensor.dtype)
    return out


def _attempt(module: Any, samples: Mapping[str, Any], guess: _Guess, forms: Forms, failures: Failures) -> Flow | None:
    """The flow under one guess, or None where forward fails; two runs on different numbers must agree."""
    runs: list[Recording] = []
    for seed in (1, 2):
        try:
            runs.append(_run(module, samples, guess, forms, seed))
        except TooLarge as error:
            failures.append(error.with_traceback(None))  # its frames hold the tensors
            return None
        except NirbridgeError:
            raise
        except Exception as error:  # whatever the user's code raises
            failures.append(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            return None
    flow = Writer(runs[0], forms, guess.lead).flow()
    problems = data_dependence(*runs)
    flow = replace(flow, problems=(*flow.problems, *problems)) if problems else flow
    return _with_unreached(flow, runs[0], module)


def _called_again(flow: Flow, module: Any, samples: Mapping[str, Any], guess: _Guess, forms: Forms) -> Flow:
    """The flow, or that of several calls in a row where the module keeps something from one to the next."""
    handed = state_arguments(module, len(samples))
    whole = _run(module, samples, guess, forms, 1, CALLS, handed)
    if whole.failure and whole.handed:
        whole = _run(module, samples, guess, forms, 1, CALLS)
    if whole.failure:
        return replace(flow, problems=(*flow.problems, failed_again(whole)))
    flow = replace(flow, problems=(*flow.problems, *never_handed_on(whole)))
    kept = [note for note in flow.notes if not (whole.handed and note.endswith(STARTS_ANEW))]
    anew, problems = reset_in(whole) if "time" not in guess.lead else ([], [])
    kept += [f"{thing_of(path)}: {STARTS_ANEW}" for path in anew]
    flow = replace(flow, problems=(*flow.problems, *problems))
    notes = (*kept, *arguments_left(module, len(samples), whole.handed))
    if is_steady(whole):
        problems = [p for p in whole.problems if str(p) not in map(str, flow.problems)]
        return replace(flow, notes=notes, problems=(*flow.problems, *problems))
    if len(whole.returned) < CALLS or "time" in guess.lead:
        return replace(flow, notes=notes, problems=(*flow.problems, *kept_between(whole)))
    flow = _with_unreached(Writer(whole, forms, guess.lead, calls=CALLS).flow(), whole, module)
    hint = (handed_over(whole.handed),) if whole.handed and flow.problems else ()
    return replace(flow, problems=(*flow.problems, *hint))


def _looked_at_longer(flow: Flow, module: Any, samples: Mapping[str, Any], guess: _Guess, forms: Forms) -> Flow:
    """The flow, with what shows only in later steps or calls among its problems; of cheap modules."""
    if flow.problems or multiplications(flow) > _CHEAP:
        return flow
    try:
        return replace(flow, problems=tuple(_later_problems(module, samples, guess, forms)))
    except (RecursionError, TooLarge):  # that many steps hang on each other in too many ways, or take too much memory
        return flow


def _later_problems(module: Any, samples: Mapping[str, Any], guess: _Guess, forms: Forms) -> Sequence[Problem]:
    if "time" in guess.lead:
        longer = replace(guess, added=tuple(_MANY_STEPS if n == _LONG[0] else n for n in guess.added))
        flow = _attempt(module, samples, longer, forms, []) if longer != guess else None
        return flow.problems if flow else ()
    handed = state_arguments(module, len(samples))
    whole = _run(module, samples, guess, forms, 1, _MANY_CALLS, handed)
    if whole.failure and handed:
        whole = _run(module, samples, guess, forms, 1, _MANY_CALLS)
    if whole.failure:
        return (failed_again(whole),)
    if len(whole.returned) < _MANY_CALLS:
        return ()
    if is_steady(whole) or reset_in(whole)[1]:
        return reset_in(whole)[1]
    return Writer(whole, forms, guess.lead, calls=_MANY_CALLS).flow().problems


def _run(
    module: Any,
    samples: Mapping[str, Any],
    guess: _Guess,
    forms: Forms,
    seed: int,
    calls: int = 1,
    handed: Sequence[str] = (),
) -> Recording:
    """What a copy of the module does, called so many times in a row on random numbers."""
    import torch

    source = torch.Generator().manual_seed(seed)
    originals = dict(module.named_modules())
    fed = [_fed(samples, guess, seed + 2 * call) for call in range(calls)]
    with untouched(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user has seen what the own code warns of
        torch.manual_seed(seed)  # what depends on chance differs between runs
        return record(copied(module), originals, forms, fed, lambda tensor: spikes(tensor, source), handed)


def _with_unreached(flow: Flow, recording: Recording, module: Any) -> Flow:
    reached = set(recording.reached)
    paths = [p for p, m in module.named_modules() if p and p not in reached and _is_layer(m)]
    leaves = [p for p in paths if not any(r and p.startswith(f"{r}.") and r in _neuron_paths(flow) for r in reached)]
    if not leaves:
        return flow
    shown = ", ".join(quoted(p) for p in leaves[:5]) + (f" and {len(leaves) - 5} more" if len(leaves) > 5 else "")
    return replace(flow, notes=(*flow.notes, f"never called by forward, so not imported: {shown}"))


def _neuron_paths(flow: Flow) -> set[str]:
    return {c.path for c in flow.calls if c.kind == "neuron"}


def _is_layer(module: Any) -> bool:
    return not any(True for _ in module.children())


_ABSURD = 1000
"""A layer without an axis to work on weighs more than any number of problems that can be named."""


def _badness(flow: Flow) -> tuple[int, int]:
    """(what is not followed, layers that work on more axes than they are made for): the lower, the likelier a guess."""
    shapes = {c.name: c.shape for c in flow.calls}
    unknown = sum(c.kind == "unknown" for c in flow.calls)
    odd = sum(_is_odd(c, shapes) for c in flow.calls)
    absurd = sum(c.kind == "linear" and shapes.get(c.inputs[0].call) == () for c in flow.calls)
    return len(flow.problems) + unknown + _ABSURD * absurd, odd


def _is_odd(call: Call, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    return call.kind == "linear" and len(shapes.get(call.inputs[0].call, ())) != 1
