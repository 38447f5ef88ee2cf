"""`compare` of two recordings, of their files, or of an array and a recording."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from nirbridge import pipeline
from nirbridge.api.arguments import checked, kind_of, plain_arrays
from nirbridge.comparison.types import Comparison
from nirbridge.errors import UsageError, quoted
from nirbridge.simulators.types import Key, Recording

KEYS_SHOWN = 8


@checked
def compare(
    a: object,
    b: object,
    *,
    latency: int | Mapping[str, int] | Literal["auto"] = "auto",
    labels: object = None,
    tau_steps: float = 10.0,
    node: str | None = None,
) -> Comparison:
    """Two recordings, or an array and a recording, spike by spike.

    Args:
        a: the first one: a ``Recording``, its path, or an array ``[steps, *shape]`` or ``[steps, batch, *shape]``.
        b: the other one.
        latency: time steps by which b lags a: a number, one by node, or ``auto`` (the default here and of the command):
            as the recordings state it, since a mapped model lags its reference and equal spikes are then compared
            with equal ones; estimated, and marked so, where a recording does not state it. 0 compares equal indices.
        labels: the class of each sample, for accuracy.
        tau_steps: decay of the van Rossum kernel, in time steps.
        node: what an array is of; None: the first recorded node of its shape.

    Raises:
        UsageError: nothing to compare, another dt, wrong labels.

    Example:
        >>> x = np.ones((25, 64))
        >>> nb.compare(nb.simulate("model.nir", x), nb.simulate("model.nir", x))
        Comparison: equal: every value of 1 recorded variable
    """
    pair = recordings_of(plain_arrays(a), plain_arrays(b), node)
    comparison = pipeline.compare(*pair, latency=latency, labels=plain_arrays(labels), tau_steps=tau_steps)
    return replace(comparison, recordings=pair)


def recordings_of(a: Any, b: Any, node: str | None) -> tuple[Recording, Recording]:
    """Both as recordings; an array is taken as that of ``node``, or of the first node of its shape.

    Raises:
        UsageError: two arrays, an array of no node's shape, a value of another kind.
        FileError: a path without a recording.
    """
    first, second = _read(a), _read(b)
    if isinstance(first, Recording) and isinstance(second, Recording):
        if node is not None:
            limit = "it says what an array is of"
            raise UsageError.of("argument 'node'", "does not apply here", limit, "leave it out")
        return first, second
    if isinstance(first, Recording):
        key, array = _key_of(first, second, node)
        return _part(first, key), _as_recording(array, first, key)
    if isinstance(second, Recording):
        key, array = _key_of(second, first, node)
        return _as_recording(array, second, key), _part(second, key)
    raise UsageError.of(
        "nirbridge.compare()", "two arrays", "at least one of the two must be a Recording", "simulate it"
    )


def _read(value: Any) -> Any:
    return pipeline.read_recording(os.fspath(value)) if isinstance(value, str | os.PathLike) else value


def _key_of(recording: Recording, value: Any, node: str | None) -> tuple[Key, Any]:
    """The node and variable that an array is of, and the array."""
    array = _array(value)
    if node is not None:
        recording[node]  # an unknown name is an error with a suggestion
    keys = [key for key in recording.arrays if node in (None, key[0]) and key[1] != "count"]
    fitting = [key for key in keys if recording.arrays[key].shape[1:] == array.shape[1:]]
    if not fitting:
        shapes = [f"{quoted(n)}/{quoted(v)[1:-1]} {recording.arrays[n, v].shape}" for n, v in keys[:KEYS_SHOWN]]
        limit = f"recorded: {', '.join(shapes) or 'nothing'}"
        raise UsageError.of("nirbridge.compare()", f"an array of shape {array.shape}", limit, "record its node")
    return min(fitting, key=lambda key: key[1] != "s"), array


def _array(value: Any) -> Any:
    kinds = "an array, a Recording or the path of one"
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError.of("nirbridge.compare()", kind_of(value), f"it takes {kinds}", "correct it") from error
    if array.dtype.kind not in "biuf" or array.ndim < 1:
        raise UsageError.of("nirbridge.compare()", kind_of(value), f"it takes {kinds}", "correct it")
    return array


def _part(recording: Recording, key: Key) -> Recording:
    return Recording(MappingProxyType({key: recording.arrays[key]}), recording.meta)


def _as_recording(array: Any, like: Recording, key: Key) -> Recording:
    """The array as a recording from the first time step on, without latency."""
    meta = {name: like.meta[name] for name in ("dt", "batch") if name in like.meta}
    meta |= {"steps": len(array), "first_step": 0, "latency": {key[0]: 0}}
    return Recording(MappingProxyType({key: array}), MappingProxyType(meta))
