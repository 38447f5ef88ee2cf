"""Memory of a trace: tensors are tracked without being kept alive, constants are stored once, bytes are limited.

A tensor of the user's forward lives as long as the forward itself needs it. Its value is found by identity; a weak
reference tells whether the tensor at that address is still the same one.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nirbridge.errors import ModelError, UsageError, quoted
from nirbridge.importers.tracing.structures import instances_of, torch_tensor, untracked, without_values

LIVE_BYTES = 180 * 2**20
"""Bytes of traced values and constants that a trace may hold at one time, besides twice those of the parameters."""
VARIABLE = "NIRBRIDGE_RECORDING_BYTES"
"""Environment variable that sets another limit."""
_VALUES_OF_A_NEURON = 3
_LARGE = 2**16
"""Bytes from which a constant is looked at for being one number throughout."""

_RETURNED = 2**24
"""Bytes held at one time, or freed since the last time, from which a recording gives memory back to the system."""
_BLOCK = 2**20
"""Bytes from which a tensor that is gone counts as freed: smaller ones are used again soon."""

_ALIVE: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()
"""Constants of all recordings that are alive, by content: the runs of one import share them. Nothing writes to them."""


Noted = tuple["weakref.ref[Any]", int | None]
"""A tensor that was noted: a reference that does not keep it, and the number of writes into it."""


class TooLarge(ModelError):
    """A recording that would take more memory than it may."""


@dataclass(slots=True)
class MemoryBudget:
    """Bytes that a recording holds: ``held`` now, ``most`` allowed."""

    most: int
    held: int = 0
    peak: int = 0
    freed: int = 0
    known: set[int] = field(default_factory=set)

    def add(self, tensor: Any, *, lives_on: bool = False) -> None:
        """Counts a tensor once, until it is gone (``lives_on``: for good); views cost nothing of their own.

        Raises:
            TooLarge: the tensors held at one time take more than allowed.
        """
        with untracked():
            size = 0 if tensor._base is not None or id(tensor) in self.known else _stored_bytes(tensor)
        if not size:
            return
        if self.freed >= _RETURNED:
            self.freed = 0
            trim_memory()  # else pieces between blocks that live add up to as much again
        self.held += size
        self.peak = max(self.peak, self.held)
        self._check(self.held)
        if not lives_on:
            self.known.add(id(tensor))
            weakref.finalize(tensor, self._gone, size, id(tensor)).atexit = False

    def check_room(self, args: Iterable[Any]) -> None:
        """Check the room for a neuron, which computes several values of the size of its input at once.

        Raises:
            TooLarge: it has not.
        """
        self._check(self.held + _VALUES_OF_A_NEURON * max((getattr(a, "nbytes", 0) for a in args), default=0))

    def _check(self, size: int) -> None:
        if size <= self.most:
            return
        found = f"its values take {size:,} bytes or more at one time"
        limit = f"at most {self.most:,} bytes are held while it is recorded"
        hint = f"give one sample of one time step, or set {VARIABLE}={2 * self.most}: the import then takes more memory"
        raise TooLarge.of("the module's forward", found, limit, hint)

    def counted(self, result: Any, args: Any = ()) -> Any:
        """Count ``result`` if it is one large tensor, computed inside a neuron or by forward, and return it.

        ``args``: its operands; a result that is a view of one of them costs nothing.
        """
        if getattr(result, "nbytes", 0) >= _LARGE and _place(result) not in map(_place, _tensors(args)):
            self.add(result)
        return result

    def check_result(self, func: Any, args: Any, kwargs: Any) -> None:
        """Check the room for the result of ``func`` on large tensors, before it is computed.

        Raises:
            TooLarge: it has not.
        """
        if any(tensor.nbytes >= _BLOCK for tensor in _tensors((args, kwargs))):
            with suppress(RuntimeError, TypeError, ValueError):  # functions that need values, and errors
                result = func(*without_values(args), **without_values(kwargs))
                self._check(self.held + sum(0 if t._base is not None else t.nbytes for t in _tensors(result)))

    def _gone(self, size: int, identity: int) -> None:
        self.known.discard(identity)
        self.held -= size
        self.freed += size if size >= _BLOCK else 0


def budget_of(module: Any) -> MemoryBudget:
    """The budget of a trace of ``module``, or the limit that the user has set.

    Raises:
        UsageError: the environment variable is no number of bytes.
    """
    return MemoryBudget(limit_of_user() or LIVE_BYTES + 2 * sum(_stored_bytes(p) for p in module.parameters()))


def limit_of_user() -> int | None:
    """The limit that the environment variable sets; None without one.

    Raises:
        UsageError: it is no number of bytes.
    """
    text = os.environ.get(VARIABLE, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError.of(VARIABLE, quoted(text), "a whole number of bytes is needed", "for example 4000000000")
    return int(text) if text else None


class ParameterWrite(BaseException):
    """Forward is about to write into a parameter that the copy shares with the user's module."""


class TensorIdentities:
    """Values of tensors by identity, as long as each tensor lives."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[weakref.ref[Any], Any, int | None]] = {}

    def set(self, tensor: Any, value: Any) -> None:
        """From now on ``value`` is known of ``tensor``."""
        self.known[id(tensor)] = (weakref.ref(tensor), value, version_of(tensor))

    def get(self, tensor: Any) -> Any:
        """The value of ``tensor``, or None."""
        reference, value, _ = self.known.get(id(tensor), (None, None, 0))
        return value if reference is not None and reference() is tensor else None

    def is_overwritten(self, tensor: Any) -> bool:
        """True if a tensor with a value was written since: through another one that shares its memory."""
        return self.get(tensor) is not None and self.known[id(tensor)][2] != version_of(tensor)


@dataclass(slots=True)
class TensorConstants:
    """Tensors that are no values, as they were when they were used: equal ones are stored once.

    ``shared``: tensors that do not change (parameters), by identity.
    """

    budget: MemoryBudget
    shared: Mapping[int, Any] = field(default_factory=dict)
    stored: dict[bytes, Any] = field(default_factory=dict)

    def check_write(self, tensor: Any) -> None:
        """Raises ParameterWrite where ``tensor`` is a shared parameter, or shares its memory."""
        if isinstance(tensor, torch_tensor()) and _storage(tensor) in set(map(_storage, self.shared.values())):
            raise ParameterWrite

    def kept(self, tensor: Any) -> Any:
        """``tensor`` itself where it is shared, else a copy that later writes do not reach."""
        if id(tensor) in self.shared or not tensor.numel():
            return tensor
        try:
            return self._stored(tensor)
        except (RuntimeError, TypeError):  # sparse, quantized and other layouts
            return tensor

    def _stored(self, tensor: Any) -> Any:
        core = _core(tensor)
        key = f"{tensor.dtype} {tuple(tensor.shape)} {tuple(core.shape)}".encode() + _digest(core)
        if key not in self.stored:
            self.budget.add(core, lives_on=True)
            copy = _ALIVE.get(key)
            if copy is None:
                copy = core.clone().expand(tensor.shape) if core.shape != tensor.shape else tensor.detach().clone()
            self.stored[key] = _ALIVE[key] = copy
        return self.stored[key]


def release_memory(budget: MemoryBudget) -> None:
    """Hands memory that a large recording has freed back to the system."""
    if budget.peak >= _RETURNED:
        trim_memory()


def trim_memory() -> None:
    """Hands memory that is free back to the system: glibc keeps blocks of some megabytes."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def collect_memory() -> None:
    """As ``trim_memory``, of what only cycles hold, too: copies of a module whose methods were replaced."""
    gc.collect()
    trim_memory()


def changed_tensors(before: Mapping[str, Noted], now: Mapping[str, Any]) -> set[str]:
    """Names of the tensors that were replaced, written or added, or are gone."""
    missing = before.keys() ^ now.keys()
    both = before.keys() & now.keys()
    return missing | {n for n in both if before[n][0]() is not now[n] or before[n][1] != version_of(now[n])}


def noted(tensors: Mapping[str, Any]) -> dict[str, Noted]:
    """Which tensors there are, by name, without keeping them."""
    return {name: (weakref.ref(tensor), version_of(tensor)) for name, tensor in tensors.items()}


def version_of(tensor: Any) -> int | None:
    """A count of the writes into the memory of a tensor; None where torch does not count."""
    import torch

    with suppress(RuntimeError), torch._C.DisableTorchFunction():  # tensors of inference mode have none
        return int(tensor._version)
    return None


def _storage(tensor: Any) -> Any:
    with suppress(RuntimeError, NotImplementedError):
        return tensor.untyped_storage().data_ptr()
    return None


def _tensors(structure: Any) -> Iterator[Any]:
    return instances_of(structure, torch_tensor())


def _place(tensor: Any) -> Any:
    """Where the first element of a tensor is."""
    with suppress(AttributeError, RuntimeError):
        return tensor.data_ptr()
    return None


def _stored_bytes(tensor: Any) -> int:
    """Bytes in memory; axes that repeat one element (stride 0) cost one element."""
    try:
        strides = tensor.stride()
    except RuntimeError:
        return 0
    count = 1
    for n, stride in zip(tensor.shape, strides, strict=True):
        count *= n if stride else min(n, 1)
    return count * tensor.element_size()


def _core(tensor: Any) -> Any:
    """The elements that differ: one along axes that repeat it, one alone where a large tensor holds one number."""
    tensor = tensor.detach()
    if _stored_bytes(tensor) >= _LARGE and bool((tensor == tensor.reshape(-1)[0]).all()):
        return tensor[(slice(0, 1),) * tensor.ndim]
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    return tensor[tuple(slice(0, 1) if not stride and n > 1 else slice(None) for stride, n in pairs)]


def _digest(core: Any) -> bytes:
    import torch

    raw = core.contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
    return hashlib.blake2b(memoryview(raw), digest_size=16).digest()
