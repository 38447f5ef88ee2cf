"""The user's data: inputs by name with samples, and labels that fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.comparison.decisions import checked_labels
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.network.model import Network
from nirbridge.simulators.inputs import open_inputs

LABELS = "labels"


@dataclass(frozen=True, slots=True, eq=False)
class ProfileData:
    """Inputs ``[steps, samples, *shape]`` by name, the class of each sample, and where the data are from.

    ``output``: the output that decides; None: no output has two classes.
    """

    inputs: Mapping[str, Array]
    steps: int
    samples: int
    labels: Array | None
    output: str | None
    origin: str


def profile_data(
    network: Network,
    arrays: Any,
    labels: Any = None,
    *,
    steps: int | None = None,
    samples: int | None = None,
    origin: str = "the data",
) -> ProfileData:
    """The data of a profile.

    Args:
        network: the model.
        arrays: inputs by name or one alone, ``[steps, *shape]`` or ``[steps, samples, *shape]``; ``labels`` may be
            among arrays by name.
        labels: the class of each sample; None: those among the arrays, if any.
        steps: time steps of a sample; shorter inputs are followed by zeros. None: as many as the inputs have.
        samples: use the first samples only; None: all.
        origin: the data in words.

    Raises:
        UsageError: arrays that do not fit the network, no time steps, more samples than the data have, labels that do
            not fit the samples or the output.
    """
    if isinstance(arrays, Mapping) and all(p.name != LABELS for p in network.inputs):
        arrays = dict(arrays)
        inside = arrays.pop(LABELS, None)
        labels = inside if labels is None else labels
        if len(arrays) == len(network.inputs) == 1:
            arrays = {network.inputs[0].name: next(iter(arrays.values()))}
    opened = open_inputs(network, arrays, steps, 0, "float64")
    streams = [quoted(name) for name, value in opened.values.items() if callable(value)]
    if streams:
        raise UsageError.of(f"input {streams[0]}", "is a function", "a profile takes arrays", "give an array")
    inputs = {name: np.asarray(value) for name, value in opened.values.items()}
    batched = opened.batch is not None
    inputs = {name: _of_length((a if batched else a[:, None])[:, :samples], opened.steps) for name, a in inputs.items()}
    given = opened.batch or 1
    if samples is not None and samples > given:
        hint = f"give at most {given:,}, or leave it out"
        raise UsageError.of("samples", f"{samples:,}", f"the data have {given:,}", hint)
    count = given if samples is None else samples
    output = next((port.name for port in network.outputs if port.size > 1), None)
    classes = None if labels is None else _labels(network, labels, given, output)
    used = None if classes is None else classes[:count]
    return ProfileData(inputs, opened.steps, count, used, output, origin)


def _of_length(array: Array, steps: int) -> Array:
    """The first time steps, with zeros after the end of the data."""
    missing = steps - len(array)
    if missing <= 0:
        return array[:steps]
    return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])


def _labels(network: Network, labels: Any, samples: int, output: str | None) -> Array:
    classes = checked_labels(labels).reshape(-1)
    if output is None:
        found = "no output has two values or more"
        raise UsageError.of("labels", found, "decisions are those of the largest output", "leave them out")
    if classes.size != samples:
        found = f"{counted(classes.size, 'label')} for {counted(samples, 'sample')}"
        raise UsageError.of("labels", found, "one for each sample", "give the class of each sample of the data")
    size = next(port.size for port in network.outputs if port.name == output)
    if classes.size and (classes.min() < 0 or classes.max() >= size):
        wrong = classes.min() if classes.min() < 0 else classes.max()
        limit = f"output {quoted(output)} has classes 0 to {size - 1:,}"
        raise UsageError.of("labels", f"a label of {wrong}", limit, "give the index of the correct neuron")
    return classes
