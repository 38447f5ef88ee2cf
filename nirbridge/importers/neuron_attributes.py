"""Attributes of a neuron module around its calls: states that it keeps, and parameters that forward may not change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nirbridge.importers.neuron_specs import NeuronSpec
from nirbridge.importers.tracing.memory import Noted, changed_tensors, noted
from nirbridge.importers.tracing.structures import tensors_of, torch_tensor, untracked


class NeuronAttributes:
    """The tensors and numbers of a neuron, noted before a call and compared after it.

    ``is_reset``: something else than the neuron set its state since its previous call. ``keeps``: the call changed
    attributes. ``changed``: parameters that forward has given other values than the user's module has.
    """

    def __init__(self, module: Any, previous: NeuronAttributes | None) -> None:
        """``previous``: those around the previous call of the neuron."""
        tensors = dict(tensors_of(vars(module)))
        self.before, self.numbers = noted(tensors), _numbers(module)
        self.states = set[str]() if previous is None else previous.states
        self.is_first = previous is None
        self.replaced = set(tensors) if previous is None else changed_tensors(previous.after, tensors)
        self.after: Mapping[str, Noted] = {}
        self.keeps = self.is_reset = False
        self.changed: list[str] = []

    def compare(self, module: Any, original: Any) -> None:
        """Compare after the call; ``original``: the module of the user."""
        tensors = dict(tensors_of(vars(module)))
        own = changed_tensors(self.before, tensors)
        self.after, self.keeps, self.states = noted(tensors), bool(own), self.states | own
        self.is_reset = not self.is_first and bool(self.replaced & self.states)
        users = dict(tensors_of(vars(original)))
        self.changed = [
            name.removeprefix("_parameters_").removeprefix("_buffers_")
            for name in sorted(self.replaced - self.states)
            if name in tensors and name in users and not _is_same(tensors[name], users[name])
        ]
        now, users = _numbers(module), _numbers(original)
        self.changed += [n for n, v in now.items() if v == self.numbers.get(n) and n in users and v != users[n]]


def _is_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    with untracked():
        is_alike = a.shape == b.shape and a.dtype == b.dtype
    return is_alike and bool(((a == b) | (a != a)).all())


def _numbers(module: Any) -> dict[str, Any]:
    """Numbers in attributes."""
    return {name: value for name, value in vars(module).items() if type(value) in (int, float)}


def kept_membrane(module: Any, spec: NeuronSpec | None, returned: list[Any]) -> list[Any]:
    """The membrane that a neuron keeps in an attribute, where a user may read it."""
    if spec is None or not spec.membrane or not hasattr(module, spec.membrane):
        return []
    value = getattr(module, spec.membrane)
    is_new = isinstance(value, torch_tensor()) and all(value is not tensor for tensor in returned)
    return [value] if is_new and [value.shape] == [tensor.shape for tensor in returned] else []
