"""The user's sample as named tensors, and the tensors that forward is given for it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from nirbridge.errors import UsageError
from nirbridge.importers.sample.axes import Roles, SampleReading


def named_samples(module: Any, sample: Any) -> dict[str, Any]:
    """Argument name -> tensor.

    Raises:
        UsageError: the sample is no tensor, array or tuple of them.
    """
    import torch

    values = tuple(sample) if isinstance(sample, tuple | list) else (sample,)
    try:
        tensors = [torch.as_tensor(s).detach().clone() for s in values]
    except (TypeError, ValueError, RuntimeError) as error:
        found = f"not a tensor or an array ({type(error).__name__})"
        raise UsageError.of("sample", found, "a tensor or an array, or a tuple of them", "") from None
    if not tensors:
        raise UsageError.of("sample", "an empty tuple", "a tensor or an array, or a tuple of them", "give one")
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


def roles_of(samples: Mapping[str, Any], reading: SampleReading) -> dict[str, Roles]:
    """The role of each axis of the inputs of forward, by the name of its argument."""
    return {name: reading.fed(tuple(tensor.shape))[1] for name, tensor in samples.items()}


def fed_tensors(samples: Mapping[str, Any], reading: SampleReading, seed: int) -> dict[str, Any]:
    """The tensors of one run: random spikes, others on the second run, to see what depends on them."""
    import torch

    source = torch.Generator().manual_seed(seed)
    return {
        name: torch.randint(0, 2, reading.fed(tuple(tensor.shape))[0], generator=source, dtype=tensor.dtype)
        for name, tensor in samples.items()
    }
