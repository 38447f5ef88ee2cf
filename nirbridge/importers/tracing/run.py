"""What has to be true of a module before it is run, and copies of it that leave the user's own alone."""

from __future__ import annotations

import copy
import functools
import numbers
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nirbridge.errors import ModelError, Problem, UsageError, quoted
from nirbridge.importers.tracing.recorder import tensors_of

ROUNDED = "its float64 parameters are rounded to float32"
_REGISTRY = "_ModuleBase__registered_attributes"
"""Where rockpool keeps the tensors that parameters were made of: nothing computes with them."""
_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def check_module(module: Any, dt: Any = None) -> None:
    """Nothing, where ``module`` is one that can be run and read.

    Raises:
        UsageError: no torch module, or a ``dt`` that is no number (None: the importer's own).
        ModelError: parameters without values, or of a number format that rounds otherwise; every one.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise UsageError.of("module", f"a {type(module).__name__}", "a torch.nn.Module is needed", "give the module")
    if dt is not None and not isinstance(dt, numbers.Real):
        raise UsageError.of("dt", f"a {type(dt).__name__}", "seconds per step, a number", "for example 1e-3")
    if isinstance(module, torch.jit.ScriptModule):
        advice = "give the module that it was made of"
        raise ModelError.of("module", "a TorchScript module, whose code can not be followed", "", advice)
    places: dict[tuple[str, str, str], list[str]] = {}
    for name, value in torch.nn.Module.named_parameters(module):
        reason = _unfit(value)
        if reason:
            places.setdefault(reason, []).append(quoted(name))
    if places:
        raise ModelError(*(Problem(f"parameters {', '.join(names)}", *reason) for reason, names in places.items()))


def _unfit(value: Any) -> tuple[str, str, str] | None:
    """Why a parameter has no place in a network: what was found, the limit, what to do."""
    import torch

    if torch.nn.parameter.is_lazy(value):
        return "they have no values yet (lazy layers)", "", "run the module once, or load its weights"
    if value.is_meta:
        return "they have no values (device 'meta')", "", "load the weights on the CPU"
    if value.is_floating_point() and value.dtype not in (torch.float32, torch.float64):
        limit = "networks compute in float32, whose sums are other ones"
        return f"their numbers are {value.dtype}", limit, "call module.float(), and look at its outputs again"
    return None


def in_float32(module: Any) -> Any:
    """The module, or a copy in float32 where it has parameters in float64."""
    import torch

    named = torch.nn.Module.named_parameters(module)
    if not any(value.dtype == torch.float64 for _, value in named):
        return module
    return copy.deepcopy(module, computed(module)).float()


def computed(module: Any) -> dict[int, Any]:
    """A memo for ``copy.deepcopy``: computed tensors, which torch does not copy, wherever the module keeps them."""
    import torch

    memo: dict[int, Any] = {}
    seen: set[int] = set()
    waiting: list[Any] = [module]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, _CODE):
            continue
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            memo |= {} if thing.grad_fn is None else {id(thing): thing.detach().clone()}
            continue
        waiting += _held(thing)
    return memo


def _held(thing: Any) -> list[Any]:
    """What a container or an object holds."""
    if isinstance(thing, Mapping):
        return list(thing.values())
    if isinstance(thing, list | tuple | set | frozenset):
        return list(thing)
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    return list(getattr(thing, "__dict__", {}).values())


def copied(module: Any) -> Any:
    """A copy in eval mode that shares the parameters."""
    memo: dict[int, Any] = {id(p): p for p in module.parameters()}
    for inner in module.modules():
        memo |= {id(t): t for _, t in tensors_of(vars(inner).get(_REGISTRY))}
    try:
        memo = computed(module) | memo
        return copy.deepcopy(module, memo).eval()
    except Exception as error:
        found = f"it can not be copied ({type(error).__name__}: {str(error)[:100]})"
        advice = "detach the tensors that it keeps, and keep open files out of it"
        raise ModelError.of("module", found, "the importer runs a copy", advice) from None


@contextmanager
def registered(clone: Any) -> Iterator[None]:
    """Has the neurons of a copy in their class's list of all neurons, as snnTorch's resets of a whole class need it."""
    lists: dict[int, list[Any]] = {}
    for inner in clone.modules():
        known: Any = getattr(type(inner), "instances", None)
        if isinstance(known, list):
            lists[id(known)] = known
            known.append(inner)
    own = {id(inner) for inner in clone.modules()}
    try:
        yield
    finally:
        for known in lists.values():
            known[:] = [inner for inner in known if id(inner) not in own]


@contextmanager
def untouched(module: Any) -> Iterator[None]:
    """Puts back what the user's own code did to the module or the random numbers (resets of all neurons of a class)."""
    import torch

    kept = [(m, dict(vars(m)), dict(m._buffers)) for m in module.modules()]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for inner, attributes, buffers in kept:
                vars(inner).update(attributes)
                inner._buffers.clear()
                inner._buffers.update(buffers)
