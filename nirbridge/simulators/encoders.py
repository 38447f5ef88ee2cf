"""Encoders: arrays of numbers into spikes. Random ones are seeded and do not depend on how a run is cut."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nirbridge.arrays import Array
from nirbridge.errors import UsageError, counted
from nirbridge.simulators.inputs import Stream


def rate(values: npt.ArrayLike, steps: int, *, seed: int = 0) -> Array:
    """In each time step, element x spikes with probability x: uint8 ``[steps, *values.shape]``.

    Args:
        values: probabilities per time step, 0 to 1.
        steps: number of time steps.
        seed: the same seed gives the same spikes on every machine.

    Raises:
        UsageError: values that are not probabilities, or no steps.
    """
    _check_steps(steps)
    return np.asarray(rate_stream(values, seed=seed)(0, steps))


def rate_stream(values: npt.ArrayLike, *, seed: int = 0) -> Stream:
    """As ``rate``, generated while the network runs: any number of time steps without memory."""
    chances = _unit("rate", values)
    if not 0 <= seed < 2**64:
        raise UsageError.of("encoder rate", f"a seed of {seed}", "0 to 2**64 - 1", "choose another")

    def stream(start: int, stop: int) -> Array:
        out = np.empty((stop - start, *chances.shape), np.uint8)
        for row, step in enumerate(range(start, stop)):
            draws = np.random.Generator(np.random.Philox(key=np.array([seed, step], np.uint64)))
            out[row] = draws.random(chances.shape) < chances
        return out

    return stream


def latency(values: npt.ArrayLike, steps: int) -> Array:
    """One spike per element, the earlier the larger it is: uint8 ``[steps, *values.shape]``.

    Element x spikes at time step ``round((1 - x) * (steps - 1))``, halves to the even step; 0 never spikes.

    Raises:
        UsageError: values outside 0 to 1, or no steps.
    """
    _check_steps(steps)
    strengths = _unit("latency", values)
    when = np.rint((1.0 - strengths) * (steps - 1)).astype(np.int64)
    out = np.zeros((steps, *strengths.shape), np.uint8)
    np.put_along_axis(out, when[None], (strengths > 0).astype(np.uint8)[None], axis=0)
    return out


def delta(signal: npt.ArrayLike, threshold: float) -> Array:
    """Spikes where a signal moved: 1 upwards, -1 downwards, int8 ``[steps, *shape]`` as ``signal`` itself.

    An element sends when it is ``threshold`` or more away from its level, which starts at the first value and moves
    by one threshold per spike; so at most one spike per time step, and a fast change takes several time steps.

    Raises:
        UsageError: a threshold that is not above 0, a signal without steps or with values that are not finite.
    """
    moving = np.asarray(signal, np.float64)
    if moving.ndim < 1 or not len(moving) or not np.isfinite(moving).all():
        raise UsageError.of("encoder delta", f"a signal of shape {moving.shape}", "finite numbers, one step or more")
    if not (np.isfinite(threshold) and threshold > 0):
        raise UsageError.of("encoder delta", f"a threshold of {threshold:g}", "above 0", "raise it")
    out = np.zeros(moving.shape, np.int8)
    level = moving[0].copy()
    for step, value in enumerate(moving):
        sent = (value - level >= threshold).astype(np.int8) - (level - value >= threshold).astype(np.int8)
        out[step] = sent
        level += sent * threshold
    return out


def _unit(name: str, values: npt.ArrayLike) -> Array:
    numbers = np.asarray(values, np.float64)
    if not np.all((numbers >= 0) & (numbers <= 1)):
        raise UsageError.of(f"encoder {name}", "values outside 0 to 1", "0 is never, 1 always or at once", "scale them")
    return numbers


def _check_steps(steps: int) -> None:
    if steps < 1:
        raise UsageError.of("encoder", f"{counted(steps, 'step')}", "at least 1", "give more")
