"""Conversion of NIR delays (seconds) to whole time steps, and their place along a path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact
from nirbridge.errors import ModelError, NirbridgeError, counted, quoted
from nirbridge.network.nir.fields import full_shape, label
from nirbridge.network.operators import Conv, Dense, Operator, Sparse, SumPool

if TYPE_CHECKING:
    from nirbridge.network.model import Projection
    from nirbridge.network.nir.lower_linear import LinearStep

TOLERANCE = 1e-6
"""Relative remainder that is taken for rounding of a float32 delay."""
_WORST_REMAINDER_STEPS = 0.1
_LONGEST_STEPS = 2**31 - 1
SECONDS = "a Delay of NIR is in seconds: correct it, or dt"
"""Hint for delays that are too long: most are a number of time steps that was taken for seconds."""


def delay_steps(name: str, node: Any, shape: Shape, dt: float) -> Array:
    """The delay of a Delay node in steps of ``dt``: int64, shape ``()`` where uniform, else ``shape``.

    Raises:
        ModelError: a delay that is not a whole number of time steps, negative, or above 2**31 - 1 time steps.
    """
    seconds = compact(full_shape(np.asarray(node.delay, dtype=np.float64), shape))
    with np.errstate(over="ignore"):
        steps = seconds / dt
    rounded = np.round(steps)
    if bool(np.any(steps < 0)) or bool(np.any(rounded > _LONGEST_STEPS)):
        found = f"a delay of {_worst(seconds, np.abs(steps)):g} s is {_worst(steps, np.abs(steps)):g} steps"
        raise ModelError.of(label(name, node), found, f"from 0 to {_LONGEST_STEPS:,}", "correct it, or dt", node=name)
    remainder = np.abs(steps - rounded)
    bad = remainder > np.minimum(TOLERANCE * steps, _WORST_REMAINDER_STEPS)
    if bool(np.any(bad)):
        value = _worst(seconds, remainder)
        found = f"a delay of {value:g} s is {value / dt:.6g} steps of dt = {dt:g} s"
        hint = "give a --dt that divides it, or change the delay"
        raise ModelError.of(label(name, node), found, "delays are whole time steps", hint, node=name)
    return compact(rounded.astype(np.int64))


def delayed_subject(projection: Projection) -> str:
    """Subject of a message on a projection's delay: its Delay nodes where it has some."""
    names = getattr(projection, "delay_nodes", ())
    if names:
        return f"node{'s' * (len(names) > 1)} {', '.join(map(quoted, names))} (Delay)"
    return f"projection {quoted(projection.source)} -> {quoted(projection.target)}"


def _worst(values: Array, by: Array) -> float:
    return float(values.flat[int(np.argmax(by))])


def is_mixing(operator: Operator) -> bool:
    """True if an output depends on several inputs, so that a delay per element cannot be moved across it."""
    return isinstance(operator, Dense | Sparse | Conv | SumPool)


def path_delays(path: Sequence[LinearStep], source_shape: Shape, target_shape: Shape) -> tuple[Array, Array]:
    """(delay_steps, target_delay_steps) of a whole path; both int64, shape ``()`` or the source's or target's.

    Raises:
        ModelError: delays that differ per element between two mixing nodes.
    """
    before: Array = np.zeros((), dtype=np.int64)
    after: Array | None = None
    differing, mixed = "", False
    for step in path:
        if step.delay is not None and (step.at_target or (mixed and step.delay.ndim)):
            flat = step.delay.reshape(-1) if step.delay.ndim else step.delay
            after = flat if after is None else after + flat
            differing = step.name if step.delay.ndim else differing
        elif step.delay is not None:
            before = before + (step.delay.reshape(source_shape) if step.delay.ndim else step.delay)
        if not is_mixing(step.operator):
            continue
        mixed = True
        if after is not None and after.ndim:
            raise _between(differing)
        before, after = before if after is None else before + after, None
    at_target = np.zeros((), dtype=np.int64) if after is None else after
    at_target = at_target.reshape(target_shape) if at_target.ndim else at_target
    _check_longest(path, before, at_target)
    return compact(before), compact(at_target)


def _between(name: str) -> NirbridgeError:
    return ModelError.of(
        f"node {quoted(name)} (Delay)",
        "its delays differ between elements, and nodes before and after it mix them",
        "such a delay has to stand before the first or after the last of them",
        "move it, make it uniform, or put a neuron between",
        node=name,
    )


def _check_longest(path: Sequence[LinearStep], before: Array, after: Array) -> None:
    total = int(before.max()) + int(after.max())
    if total > _LONGEST_STEPS:
        names = [s.name for s in path if s.delay is not None]
        found = f"the delays along the path add up to {counted(total, 'step')}"
        raise ModelError.of(
            f"node {quoted(names[0])} (Delay)", found, f"at most {_LONGEST_STEPS:,}", "shorten one of them"
        )
