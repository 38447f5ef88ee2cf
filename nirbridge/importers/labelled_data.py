"""The labelled data on which a module and its import are measured (``measure=``), as given by the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import UsageError, counted, quoted

LABELS = "labels"
_STEP = "give measure=(inputs, labels), or an .npz file with the arrays of the inputs and 'labels'"


@dataclass(frozen=True, slots=True, eq=False)
class LabelledData:
    """``inputs``: as the user gave them, an array, several, or arrays by name; ``labels``: the class of each sample."""

    inputs: Any
    labels: Array


def labelled_data(measure: Any, check: int | None) -> LabelledData | None:
    """The data of ``measure=(inputs, labels)``, or of a mapping that holds ``labels``; None for None.

    Raises:
        UsageError: no such pair, no labels, or no self-check, which finds out how a module takes its axes.
    """
    if measure is None:
        return None
    if check == 0:
        limit = "the self-check finds the axes of the data"
        raise UsageError.of("measure", "it is given without a self-check", limit, "leave out check=0 (--no-check)")
    if isinstance(measure, Mapping):
        if LABELS not in measure or len(measure) < 2:
            found = f"arrays {', '.join(map(quoted, measure)) or 'none'}"
            raise UsageError.of("measure", found, "it needs the inputs and 'labels'", _STEP)
        inputs: Any = {name: values for name, values in measure.items() if name != LABELS}
        return LabelledData(inputs, _labels(measure[LABELS]))
    if not isinstance(measure, tuple | list) or len(measure) != 2:
        raise UsageError.of("measure", f"a value of type {type(measure).__name__}", "it needs two", _STEP)
    return LabelledData(measure[0], _labels(measure[1]))


def _labels(values: Any) -> Array:
    labels = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    if labels.ndim != 1 or not labels.size or labels.dtype.kind not in "iu" or int(labels.min()) < 0:
        found = f"{counted(labels.size, 'value')} of type {labels.dtype}, shape {labels.shape}"
        limit = "the class of each sample is a whole number from 0"
        raise UsageError.of("labels of measure", found, limit, "give one class per sample")
    return labels.astype(np.int64)
