"""Inputs of a benchmark: one array for each input, with as many samples as the largest batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.network.model import Network
from nirbridge.simulators.inputs import open_inputs


def random_inputs(network: Network, steps: int, samples: int, rate: float, seed: int) -> tuple[dict[str, Array], str]:
    """Random spikes ``[steps, samples, *shape]`` by input, the same for the same seed, and their description.

    Raises:
        UsageError: a rate outside 0 to 1.
    """
    if not 0.0 <= rate <= 1.0:
        raise UsageError.of("rate", f"{rate:g}", "spikes per time step and element, from 0 to 1", "0.1 is a usual one")
    if not network.inputs:
        return {}, "the network has no input"
    rng = np.random.default_rng(seed)
    arrays = {p.name: (rng.random((steps, samples, *p.shape)) < rate).astype(np.uint8) for p in network.inputs}
    return arrays, f"random spikes, {rate:g} per time step and element, seed {seed}"


def given_inputs(network: Network, inputs: Any, steps: int | None, samples: int) -> tuple[dict[str, Array], int, str]:
    """Arrays ``[steps, samples, *shape]`` of the data, their time steps, and their description.

    Samples are repeated in turn where there are fewer than requested; time steps beyond the data are zero.

    Raises:
        UsageError: data that the network does not take; a function.
    """
    opened = open_inputs(network, inputs, steps, 0, "float32")
    streams = [name for name, value in opened.values.items() if callable(value)]
    if streams:
        found = "is a function, and every back end needs the same input"
        raise UsageError.of(f"input {quoted(streams[0])}", found, "", "give an array")
    given = 1 if opened.batch is None else opened.batch
    taken = np.arange(samples) % given
    arrays = {}
    for name, value in opened.values.items():
        array = np.asarray(value)[: opened.steps]
        array = array[:, None] if opened.batch is None else array
        arrays[name] = padded(np.ascontiguousarray(array[:, taken]), opened.steps)
    used = min(given, samples)
    repeated = ", repeated in turn" if given < samples else ""
    return arrays, opened.steps, f"data as given, {counted(used, 'sample')}{repeated}"


def padded(array: Array, steps: int) -> Array:
    """The array with zeros after its end, ``steps`` long."""
    missing = steps - len(array)
    return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)]) if missing > 0 else array


def first_samples(arrays: Mapping[str, Array], batch: int) -> dict[str, Array]:
    """The first samples of a batch, in arrays of their own."""
    return {name: np.ascontiguousarray(array[:, :batch]) for name, array in arrays.items()}
