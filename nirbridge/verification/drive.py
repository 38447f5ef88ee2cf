"""Real input of a population, given the spikes of the integers, and the rounding error of its integer input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.apply import apply, matrix
from nirbridge.network.operators import Sparse
from nirbridge.quantization.error_bounds import weight_loss
from nirbridge.quantization.folding import FoldedPopulation
from nirbridge.quantization.formats import INPUT_SHIFT
from nirbridge.quantization.model import FixedInput, FixedPopulation, FixedProjection, IntegerOperator, QuantizedNetwork
from nirbridge.quantization.operators import gained_operator, weights_of, with_weights

Apply = Callable[[Array], Array]
_SYNAPSES_MAX = 200_000_000


@dataclass(frozen=True, slots=True, eq=False)
class SourceOutput:
    """Output of a source: its integers, and the reals that they represent (the same for spikes)."""

    integers: Array
    real: Array
    unit: float

    @property
    def is_rounded(self) -> bool:
        """True where the two differ (a graded input)."""
        return self.integers is not self.real


@dataclass(frozen=True, slots=True, eq=False)
class _ProjectionError:
    """One projection: its real operator, the rounding errors of its weights, and its delays."""

    sent: SourceOutput
    real: Apply
    off: Apply
    size: Apply
    cut: float
    source_delay: Array
    target_delay: Array


class PopulationDrive:
    """The input of one population: real values, and a bound on the error from rounding weights and inputs."""

    def __init__(
        self,
        quantized: QuantizedNetwork,
        population: FixedPopulation,
        folded: FoldedPopulation,
        sent: Mapping[str, SourceOutput],
    ):
        self.shape = population.shape
        incoming = [p for p in quantized.projections if p.target == population.name]
        scale = float(population.neuron.scale)
        self.projections = [_projection(quantized, p, folded, scale, sent[p.source]) for p in incoming]

    def between(self, start: int, stop: int) -> tuple[Array, Array]:
        """(real input, bound on how far the integers' is from it) of these steps, ``[steps, batch, *shape]``."""
        real, off = np.zeros(()), np.zeros(())
        for projection in self.projections:
            for delay in np.unique(projection.target_delay).tolist():
                delayed = np.broadcast_to(projection.target_delay == delay, self.shape)
                arrived, error = _arriving(projection, start - delay, stop - delay)
                real, off = real + np.where(delayed, arrived, 0.0), off + np.where(delayed, error, 0.0)
        return real, off


def input_output(port: FixedInput, values: Array, steps: int) -> SourceOutput:
    """Output of an input, zero-padded to ``steps``. ``values: [steps, batch, *shape]``."""
    cut = values[:steps]
    real = np.concatenate([cut, np.zeros((steps - len(cut), *cut.shape[1:]), cut.dtype)])
    if not port.graded:
        return SourceOutput(real, real, 1.0)
    return SourceOutput(np.rint(real / port.scale), real, port.scale)


def _projection(
    quantized: QuantizedNetwork, p: FixedProjection, folded: FoldedPopulation, scale: float, sent: SourceOutput
) -> _ProjectionError:
    assert quantized.network is not None, "requested with a network only"
    operator = quantized.network.projections[p.index].operator
    exact = gained_operator(operator, folded.gain)
    lost = weight_loss(p, gained_operator(operator, np.asarray(folded.gain * sent.unit)), sent.unit)
    delays = len(np.unique(p.delay_steps)) * len(np.unique(p.target_delay_steps))
    shape = folded.population.shape
    return _ProjectionError(
        sent=sent,
        real=_applied(exact, weights_of(exact), shape),
        off=_applied(exact, weights_of(lost.errors) / scale, shape),
        size=_applied(exact, np.abs(weights_of(exact)), shape),
        cut=float(1 << INPUT_SHIFT) / scale * delays if p.weight_exp < 0 else 0.0,
        source_delay=p.delay_steps,
        target_delay=p.target_delay_steps,
    )


def _applied(operator: IntegerOperator, weights: Array, shape: tuple[int, ...]) -> Apply:
    """The operator with other weights, on ``[steps, batch, *source shape]``; ``shape`` is the target's."""
    replaced = with_weights(operator, freeze(weights))
    if not isinstance(replaced, Sparse):
        return lambda x: apply(replaced, x.reshape(*x.shape[:2], *replaced.input_shape)).reshape(*x.shape[:2], *shape)
    table: Any = matrix(replaced, _SYNAPSES_MAX)
    return lambda x: (table @ x.reshape(x.shape[0] * x.shape[1], -1).T).T.reshape(*x.shape[:2], *shape)


def _arriving(projection: _ProjectionError, start: int, stop: int) -> tuple[Array, Array]:
    real = _delayed(projection.sent.real, projection.source_delay, start, stop)
    if not projection.sent.is_rounded:
        return projection.real(real), projection.off(real) + projection.cut
    integers = _delayed(projection.sent.integers, projection.source_delay, start, stop)
    missed = projection.size(np.abs(real - integers * projection.sent.unit))
    return projection.real(real), projection.off(np.abs(integers)) + missed + projection.cut


def _delayed(sent: Array, delays: Array, start: int, stop: int) -> Array:
    """``sent[t - delay]`` for the steps from start to stop; nothing was sent before step 0."""
    out = np.zeros((stop - start, *sent.shape[1:]))
    for delay in np.unique(delays).tolist():
        first = max(start, delay)
        if first < stop:
            values = sent[first - delay : stop - delay]
            out[first - start :] += np.where(delays == delay, values, 0)
    return out


def source_outputs(
    quantized: QuantizedNetwork, input_values: Mapping[str, Array], spikes: Mapping[Any, Array], steps: int
) -> dict[str, SourceOutput]:
    """Output of every input and population, ``[steps, batch, *shape]``."""
    outputs = {port.name: input_output(port, input_values[port.name], steps) for port in quantized.inputs}
    for p in quantized.populations:
        if p.neuron.fires:
            outputs[p.name] = SourceOutput(spikes[p.name, "s"], spikes[p.name, "s"], 1.0)
    return outputs


def time_chunks(steps: int, elements: int, bytes_max: int = 2**25) -> Sequence[tuple[int, int]]:
    """Ranges of time steps that take little memory."""
    length = max(1, min(steps, bytes_max // max(1, 8 * elements)))
    return [(start, min(start + length, steps)) for start in range(0, steps, length)]
