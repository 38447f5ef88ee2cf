"""A cell and its canonical neuron on the same random inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.importers.by_hand.chains import Key
from nirbridge.importers.by_hand.replay import Cell, Run
from nirbridge.importers.tracing.recorder import TracedCall
from nirbridge.network.neurons import Adaptation, Neuron


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A canonical neuron, and what it takes.

    ``inputs``: for each time step, the values whose weighted sum (``weights``) is its input; ``delay``: time steps
    between such a value and its effect. ``starts``: what values are in the first time step that are there (as None)
    from the second on, such as a connection from the neuron to itself; by position.
    """

    neuron: Neuron
    inputs: Sequence[Sequence[Key | None]]
    weights: Sequence[Array]
    delay: int
    starts: Mapping[int, Any]


def sides_of_spikes(
    fit: Fit, cell: Cell, after: Sequence[TracedCall], steps: Mapping[int, int]
) -> Iterator[tuple[Key, int, int]]:
    """(Value, time step, 0: spikes, 1: potential) of the values that are the neuron's spikes or its potential.

    Args:
        fit: the canonical neuron.
        cell: its calls.
        after: all pointwise calls that depend on its state.
        steps: the time step of each call.
    """
    runs = [compared(fit, cell, share=share, more=after) for share in (None, 0.3)]
    for late in range(int(np.max(fit.neuron.refractory_steps)) + 1):  # every neuron spikes in every time step
        runs.append(compared(fit, cell, share=1.0, late=late, more=after))
    for call in (*after, *(cell.nodes[index] for index in sorted({*cell.own, *(key[0] for key in cell.bases)}))):
        step = steps[call.index]
        if any((call.index, 0) in taken for taken in cell.taken):
            continue
        if cell.is_readout:
            if (call.index, 0) in cell.bases:
                yield (call.index, 0), step, 0
        elif all(_is_close(run.values.get((call.index, 0)), shown[step][1]) for run, shown in runs):
            yield (call.index, 0), step, 0
        elif any(
            all(_is_close(run.values.get((call.index, 0)), shown[step][j]) for run, shown in runs) for j in (0, 2)
        ):
            yield (call.index, 0), step, 1


def _is_close(value: Any, expected: Array) -> bool:
    if value is None:
        return False
    array = numbers_of(value).astype(np.float64)
    fits = np.broadcast_shapes(array.shape, np.shape(expected)) == array.shape
    return fits and bool(np.all(np.abs(array - expected) <= 1e-9 * (1.0 + np.abs(array))))


def compared(
    fit: Fit,
    cell: Cell,
    *,
    share: float | None = None,
    late: int = 0,
    louder: float = 1.0,
    more: Sequence[TracedCall] = (),
) -> tuple[Run, list[tuple[Array, ...]]]:
    """A run of the cell on random inputs, and (u, spikes, v, threshold) of the canonical neuron on the same ones.

    ``share``: that of the neurons which spike at random, from time step ``late`` on (None: as computed); ``louder``:
    factor on the inputs.
    """
    import torch

    steps, source = len(cell.chain), torch.Generator().manual_seed(11 + (share is not None))
    size = np.abs(fit.neuron.theta if fit.neuron.theta is not None else 0.0) + 1.0
    drive = louder * float(np.max(size / np.maximum(np.abs(fit.neuron.g_mem), 1e-6)))
    if louder > 1.0 and fit.neuron.v_min is not None:
        drive *= 1.0 + float(np.max(np.abs(fit.neuron.v_min)))
    leaves: dict[Key, Any] = {}
    for key in sorted({key for taken in cell.taken for key in taken}):
        shape = cell.few(cell.value_of(key).shape)
        gain = drive * 4.0 ** -torch.randint(0, 4, shape[1:], generator=source)
        low = -1.0 if louder > 1.0 else -0.5
        leaves[key] = (torch.rand(shape, generator=source, dtype=torch.float64) * 2.0 + low) * gain
    chances = [
        torch.rand(cell.few(one.shape), generator=source)
        < (0.0 if one.base is None or k < late else share or 0.0)  # a constant is reset in single precision
        for k, one in enumerate(cell.chain)
    ]
    spikes = _admissible(chances, int(np.max(fit.neuron.refractory_steps))) if share is not None else None
    given = None if spikes is None else dict(enumerate(spikes))
    run = Run(cell, last=steps - 1, leaves=leaves, spikes=given, more=more, has_floor=True)
    return run, _simulated(fit, _drive(fit, run), spikes)


def _drive(fit: Fit, run: Run) -> list[Any]:
    """The input of each time step, after the delay."""
    found: list[Any] = []
    for k in range(len(run.cell.chain)):
        keys = fit.inputs[k] if k >= fit.delay else ()
        cell = run.cell
        values = [
            cell.of_few(fit.starts[m]) if key is None else run.get(cell.value_of(key)) for m, key in enumerate(keys)
        ]
        found.append(sum(numbers_of(v) * w for v, w in zip(values, fit.weights, strict=False)) if values else 0.0)
    return found


def _admissible(chances: Sequence[Any], refractory: int) -> list[Any]:
    """Random spikes without those that fall into a refractory time."""
    import torch

    left = torch.zeros(chances[0].shape, dtype=torch.int64)
    found: list[Any] = []
    for chance in chances:
        spike = chance & (left == 0)
        left = torch.where(spike, refractory, (left - 1).clamp(min=0))
        found.append(spike)
    return found


def _simulated(fit: Fit, drive: Sequence[Any], spikes: Sequence[Any] | None) -> list[tuple[Array, ...]]:
    """(u, spikes, v, threshold) of the canonical neuron in each time step; ``spikes``: in place of its own."""
    n = fit.neuron
    theta = np.inf if n.theta is None else n.theta
    a = n.adaptation or Adaptation.of(0.0, 0.0)
    v, i, b, left = n.v_init, n.i_init, a.init, np.zeros((), np.int64)
    found: list[tuple[Array, ...]] = []
    for k, x in enumerate(drive):
        i = n.a_syn * i + n.g_syn * x
        held = left > 0
        u = np.where(held, n.v_reset, n.a_mem * v + n.g_mem * i + n.bias)
        bound = theta + b
        fired = (u > bound if n.compare == ">" else u >= bound) & ~held
        if n.max_spikes > 1:
            fired = fired * np.clip(np.floor(u / bound), 0, n.max_spikes)
        fired = fired if spikes is None else numbers_of(spikes[k])
        amount = n.reset_amount + b if a.in_reset else n.reset_amount
        after = {"to-value": n.v_reset, "subtract": u - fired * amount, "none": u}[n.reset]
        v = np.where(fired > 0, after, u)
        v = v if n.v_min is None else np.maximum(v, n.v_min)
        b = a.decay * b + a.jump * fired
        left = np.where(fired > 0, n.refractory_steps, np.maximum(left - 1, 0))
        found.append((u, fired, v, np.asarray(bound)))
    return found


def numbers_of(tensor: Any) -> Array:
    """A tensor as an array."""
    return np.asarray(tensor.detach().numpy())
