"""Arguments held to the annotations of a function, so that a wrong one is a ``UsageError`` that names it.

The annotation is the check; annotations without a meaning at run time (protocols, type variables) accept any value.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from numbers import Integral, Real
from types import MappingProxyType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

import numpy as np

from nirbridge import pipeline
from nirbridge._types import IMPORT_PROGRESS, no_progress
from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, UsageError, counted, did_you_mean, quoted, type_text
from nirbridge.mapping.rates import assumed_rates
from nirbridge.network.model import Network
from nirbridge.pipeline.options import MapOptions
from nirbridge.report.progress import progress_shown

Natural = Annotated[int, 0, 2**63 - 1]
"""An integer from 0; the numbers after the type are the least and the greatest value."""
Count = Annotated[int, 1, 2**63 - 1]
"""An integer from 1."""
Seed = Annotated[int, 0, 2**31 - 1]
"""A seed of the solver."""
P = ParamSpec("P")
R = TypeVar("R")
SHOWN = 8
_WORDS: Mapping[Any, str] = {
    type(None): "None",
    object: "a value",
    bool: "True or False",
    int: "an integer",
    float: "a number",
    str: "text",
    Callable: "a function",
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with its arguments checked before each call; wrong ones are one ``UsageError`` that lists them."""
    subject = f"nirbridge.{function.__name__}()"

    @functools.cache
    def hints() -> tuple[inspect.Signature, Mapping[str, Any]]:
        return inspect.signature(function), get_type_hints(function, include_extras=True)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        signature, kinds = hints()
        UsageError.raise_all(_call_problems(subject, signature, kinds, args, kwargs))
        try:
            return function(*args, **kwargs)
        except UsageError as error:
            problems = [_of_argument(subject, problem, signature, kinds, args, kwargs) for problem in error.problems]
            if problems == list(error.problems):
                raise
            raise type(error)(*problems) from error

    return called


def shows_progress(function: Callable[P, R]) -> Callable[P, R]:
    """The function, called with a callback for ``progress``: True and its absence become one that shows a line.

    It is that of the imports within it, too. ``MapOptions`` with a callback of their own keep it.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        own = [v.progress for v in (*args, *kwargs.values()) if isinstance(v, MapOptions) and v.progress != no_progress]
        given = kwargs.pop("progress", own[0] if own else True)
        if callable(given):
            shown: Any = nullcontext(given)
        else:
            shown = progress_shown() if given else nullcontext(no_progress)
        with shown as progress:
            token = IMPORT_PROGRESS.set(progress)
            try:
                return function(*args, **{**kwargs, "progress": progress})  # type: ignore[arg-type]
            finally:
                IMPORT_PROGRESS.reset(token)

    return called


def check_fields(subject: str, values: Mapping[str, object], kinds: Mapping[str, Any]) -> None:
    """Hold values by name to their types. Raises UsageError with every unknown name and every wrong value."""
    problems = [_unknown(subject, name, kinds) for name in values if name not in kinds]
    problems += [_wrong(subject, n, v, kinds[n]) for n, v in values.items() if n in kinds and not _fits(v, kinds[n])]
    UsageError.raise_all(problems)


def kind_of(value: object) -> str:
    """The type of a value in a message: ``a list``, ``an int``, ``None``."""
    return "None" if value is None else type_text(value)


def _call_problems(
    subject: str,
    signature: inspect.Signature,
    kinds: Mapping[str, Any],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> Iterator[Diagnostic]:
    named, options = _named(signature, kinds)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        yield from _binding_problems(subject, signature, named, options, args, kwargs)
        return
    for name, value in bound.arguments.items():
        if name in named and not _fits(value, named[name]):
            yield _wrong(subject, name, value, named[name])
    extra = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), "")
    for name, value in bound.arguments.get(extra, {}).items():
        if options is not None and name not in options:
            yield _unknown(subject, name, {**named, **options})
        elif options is not None and not _fits(value, options[name]):
            yield _wrong(subject, name, value, options[name])


def _named(signature: inspect.Signature, kinds: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Types of the named arguments, and those of ``**options`` by name (None: any option is taken)."""
    named: dict[str, Any] = {}
    options: dict[str, Any] | None = {}
    for p in signature.parameters.values():
        kind = kinds.get(p.name, object)
        if p.kind is not p.VAR_KEYWORD:
            named[p.name] = kind
        elif get_origin(kind) is Unpack:
            options = get_type_hints(get_args(kind)[0], include_extras=True)
        else:
            options = None
    return named, options


def _of_argument(
    subject: str,
    problem: Diagnostic,
    signature: inspect.Signature,
    kinds: Mapping[str, Any],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> Diagnostic:
    """The problem of an option of the command line as one of the argument that was given for it."""
    option, rest = problem.subject.partition(" ")[::2]
    if not option.startswith("--"):
        return problem
    named, options = _named(signature, kinds)
    word = option[2:].replace("-", "_")
    names = [*named, *(options or {})]
    known = [n for n in names if n in (word, f"{word}s") or word.endswith(f"_{n}")]
    known += [n for n in names if n.endswith(f"_{word}")]  # weight_bits of --bits
    given = signature.bind(*args, **kwargs).arguments
    extra = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), "")
    passed = [n for n in known if n in given or n in given.get(extra, {})]
    name = next(iter(passed or known), None)
    return problem if name is None else replace(problem, subject=f"{subject}, {name} {rest}".rstrip())


def _binding_problems(
    subject: str,
    signature: inspect.Signature,
    named: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> Iterator[Diagnostic]:
    """Binding errors of a call: unknown names, too many values, a name given twice, missing arguments."""
    every = {**named, **(options or {})}
    places = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(args) > len(places):
        limit = f"it takes {len(places)}: {', '.join(places)}"
        yield Diagnostic(subject, f"{counted(len(args), 'value')} without a name", limit, "give the others by name")
    for name in kwargs:
        if options is not None and name not in every:
            yield _unknown(subject, name, every)
        elif name in places[: len(args)]:
            yield Diagnostic(subject, f"{quoted(name)} is given twice", "", "give it once")
    for p in signature.parameters.values():
        needed = p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        if needed and p.name not in (*places[: len(args)], *kwargs):
            yield Diagnostic(
                subject, f"{quoted(p.name)} is missing", f"it takes {_described(named[p.name])}", "give it"
            )


def _unknown(subject: str, name: str, names: Mapping[str, Any]) -> Diagnostic:
    limit = f"it takes {', '.join(names)}"
    return Diagnostic(subject, f"no argument {quoted(name)}", limit, did_you_mean(name, names) or "leave it out")


def _wrong(subject: str, name: str, value: object, kind: Any) -> Diagnostic:
    choices = [choice for choice in _members(kind) if isinstance(choice, str)]
    if isinstance(value, str):
        hint = did_you_mean(value, choices) or ("choose one of these" if choices else "correct it")
        return Diagnostic(f"{subject}, {name}", quoted(value), f"it takes {_described(kind)}", hint)
    shown = repr(value) if isinstance(value, int | float) else _described_value(value)
    return Diagnostic(f"{subject}, {name}", shown, f"it takes {_described(kind)}", "correct it")


def _described_value(value: object) -> str:
    """The type of a value, and of the elements of a list or mapping."""
    if isinstance(value, Mapping):
        inner = sorted({kind_of(v) for v in value.values()})
    elif isinstance(value, list | tuple):
        inner = sorted({kind_of(v) for v in value})
    else:
        inner = []
    return kind_of(value) + (f" of {', '.join(inner[:SHOWN])}" if inner else "")


# -- types ---------------------------------------------------------------------------------------------------------


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _members(kind: Any) -> Iterator[Any]:
    """The values of every ``Literal`` in a type."""
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    elif _is_union(kind):
        for member in get_args(kind):
            yield from _members(member)


def _fits(value: object, kind: Any) -> bool:
    if kind in (object, Any):
        return True
    if _is_union(kind):
        return any(_fits(value, member) for member in get_args(kind))
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        plain, least, greatest = inner
        return _fits(value, plain) and least <= value <= greatest  # pyright: ignore[reportOperatorIssue]
    if origin is Literal:
        return isinstance(value, str | int) and value in inner
    if kind is int or kind is float:
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if origin is tuple:
        return isinstance(value, tuple) and _fits_tuple(value, inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = inner
        return isinstance(value, Mapping) and all(_fits(k, key) and _fits(v, item) for k, v in value.items())
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str | bytes)
            and all(_fits(v, inner[0]) for v in value)
        )
    return _is_instance(value, origin or kind)


def _is_instance(value: object, kind: Any) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol or a form that says nothing at run time
        return True


def _fits_tuple(value: tuple[object, ...], inner: tuple[Any, ...]) -> bool:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return all(_fits(v, inner[0]) for v in value)
    return len(value) == len(inner) and all(_fits(v, kind) for v, kind in zip(value, inner, strict=True))


def _described(kind: Any) -> str:
    """A type in words: ``text, an integer or None``."""
    if _is_union(kind):
        words = list(dict.fromkeys(_described(member) for member in get_args(kind)))
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 2 else words)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        least, greatest = inner[1:]
        return f"{_described(inner[0])} from {least}" + (f" to {greatest:,}" if greatest < 2**63 - 1 else "")
    if origin is Literal:
        return ", ".join(map(repr, inner))
    if origin is tuple:
        return f"a tuple of {_described(inner[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of {_described(inner[0])} to {_described(inner[1])}"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list of {_described(inner[0])}"
    return _WORDS.get(origin or kind, f"a {getattr(origin or kind, '__name__', kind)}")


# -- values --------------------------------------------------------------------------------------------------------
# Arrays as the stages take them: numpy arrays, or tensors of torch on any device.


def plain_arrays(arrays: object) -> Any:
    """The value with tensors of torch as numpy arrays, one alone or by name; other values unchanged."""
    if isinstance(arrays, Mapping):
        return {name: plain_arrays(value) for name, value in arrays.items()}
    torch: Any = sys.modules.get("torch")
    value: Any = arrays
    return value.detach().cpu().numpy() if torch is not None and isinstance(value, torch.Tensor) else value


# -- rates ---------------------------------------------------------------------------------------------------------
# Spike rates given as a mapping, checked against the network like those of a file.

NAMES_SHOWN = 8


def rates_of(given: Any, network: Network) -> tuple[Mapping[str, Array], str] | None:
    """Rates as ``MapOptions.rates`` takes them, from the path of a file, a mapping, or a mapping and where it is from.

    Raises:
        UsageError: unknown names, other shapes, rates that are not finite or below 0, each of them.
        FileError: a file that cannot be read.
    """
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        return pipeline.read_rates(os.fspath(given), network)
    rates, origin = given if isinstance(given, tuple) else (given, "given by hand")
    UsageError.raise_all(_problems(rates, network))
    assumed, sentence = assumed_rates(network)
    given_rates = {name: freeze(np.asarray(value, np.float64)) for name, value in rates.items()}
    others = "" if set(assumed) <= set(given_rates) else f"; the others {sentence}"
    return MappingProxyType({**assumed, **given_rates}), f"{origin}{others}"


def _problems(rates: Mapping[str, Any], network: Network) -> Iterator[Diagnostic]:
    shapes = {p.name: p.shape for p in (*network.inputs, *network.populations)}
    for name, value in rates.items():
        subject = f"rate of {quoted(name)}"
        if name not in shapes:
            limit = f"there are {', '.join(map(quoted, list(shapes)[:NAMES_SHOWN]))}"
            hint = did_you_mean(name, shapes) or "name one of these"
            yield Diagnostic(subject, "no population or input of that name", limit, hint)
            continue
        fault = _fault(value, shapes[name])
        if fault:
            yield Diagnostic(subject, fault, "spikes per neuron and time step, from 0", "correct it")


def _fault(value: Any, shape: tuple[int, ...]) -> str:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return kind_of(value)
    if array.shape not in ((), shape):
        return f"an array of shape {array.shape}, its neurons have {shape}"
    return "" if np.all(np.isfinite(array)) and np.all(array >= 0) else "values that are not finite, or below 0"
