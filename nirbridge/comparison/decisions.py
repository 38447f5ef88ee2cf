"""Decisions of a classifier: the class with the most spikes (or the highest mean potential of a readout)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nirbridge.arrays import Array
from nirbridge.comparison.alignment import has_batch
from nirbridge.errors import Diagnostic, UsageError, counted, quoted
from nirbridge.simulators.types import Key, Recording

VARIABLES = ("s", "count", "v")
"""Deciding variables, the first that both recorded: spikes of all time steps, their count, or v summed over them."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Number of samples with the same decision in both, and (with labels) of correct ones in each.

    A tie goes to the class of the lower number, in both.
    """

    samples: int
    alike: int
    right_a: int | None = None
    right_b: int | None = None

    @property
    def agreement(self) -> float:
        """Share of samples with the same decision; 1 for none."""
        return self.alike / self.samples if self.samples else 1.0

    @property
    def accuracy_a(self) -> float | None:
        """Accuracy of A; None without labels or samples."""
        return None if self.right_a is None or not self.samples else self.right_a / self.samples

    @property
    def accuracy_b(self) -> float | None:
        """Accuracy of B; None without labels or samples."""
        return None if self.right_b is None or not self.samples else self.right_b / self.samples


def deciding_outputs(a: Recording, b: Recording, *, labels: bool) -> tuple[Key, ...]:
    """The node and variable of each decision: of each output that both recorded alike, with two classes or more.

    Outputs are those that ``meta`` names (in ``outputs``, else ``latency`` has an entry for each); where neither
    names any, every node.
    Without labels, nothing is decided where no recording says whether its arrays have a batch axis.
    """
    if _batched(a, b) is None and not labels:
        return ()
    outputs = {name for r in (a, b) for name in _stated(r)}
    common = [(n, v) for n, v in a.arrays if (n, v) in b.arrays and v in VARIABLES and (not outputs or n in outputs)]
    first_last = sorted(common, key=lambda key: VARIABLES.index(key[1]), reverse=True)
    return tuple(sorted({node: (node, variable) for node, variable in first_last}.values()))


def _stated(recording: Recording) -> tuple[str, ...]:
    stated = recording.meta.get("outputs", recording.meta.get("latency"))
    names = stated if isinstance(stated, Mapping | list | tuple) else ()
    return tuple(name for name in names if isinstance(name, str))


def _batched(a: Recording, b: Recording) -> bool | None:
    stated = has_batch(a)
    return has_batch(b) if stated is None else stated


def compare_decisions(
    key: Key, pair: tuple[Array, Array], recordings: tuple[Recording, Recording], labels: Array | None
) -> Decisions | None:
    """Decisions of two arrays that were cut to the same steps; None where there are no two classes to decide between.

    Raises UsageError for labels that do not belong to the samples.
    """
    batched = _batched(*recordings)
    if batched is None:
        batched = labels is not None and labels.ndim == 1
    steps_axis = key[1] != "count"
    if pair[0].ndim < steps_axis + batched:
        return None
    totals_a, totals_b = (_totals(x, steps_axis, batched) for x in pair)
    samples, classes = totals_a.shape
    if classes < 2:
        return None
    classes_a, classes_b = np.argmax(totals_a, axis=1), np.argmax(totals_b, axis=1)
    alike = int((classes_a == classes_b).sum())
    if labels is None:
        return Decisions(samples, alike)
    correct = _fitting(labels, key[0], samples, classes)
    return Decisions(samples, alike, int((classes_a == correct).sum()), int((classes_b == correct).sum()))


def _totals(array: Array, steps_axis: bool, batched: bool) -> Array:
    """``[samples, classes]``."""
    kind = np.float64 if array.dtype.kind == "f" else np.int64
    summed = array.sum(axis=0, dtype=kind) if steps_axis else array.astype(kind)
    samples = summed.shape[0] if batched else 1
    return summed.reshape(samples, math.prod(summed.shape[batched:]))


def checked_labels(labels: npt.ArrayLike) -> Array:
    """Labels as an array of whole numbers, one or one per sample; raises UsageError for others."""
    values = np.asarray(labels)
    if values.dtype.kind not in "iu" or values.ndim > 1:
        found = f"{values.dtype} of shape {values.shape}"
        raise UsageError(Diagnostic("labels", found, "whole numbers, one per sample", "give the class of each sample"))
    return values


def _fitting(labels: Array, node: str, samples: int, classes: int) -> Array:
    subject = f"labels of {quoted(node)}"
    if labels.size != samples:
        limit = f"the recordings have {counted(samples, 'sample')}"
        raise UsageError(Diagnostic(subject, counted(labels.size, "label"), limit))
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        found = f"a label of {labels.min() if labels.min() < 0 else labels.max()}"
        raise UsageError(
            Diagnostic(subject, found, f"classes are 0 to {classes - 1}", "give the index of the correct neuron")
        )
    return labels
