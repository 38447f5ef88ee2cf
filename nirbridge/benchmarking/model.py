"""A benchmark: a row for each back end, with the verdict on its spikes and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from nirbridge._values import SavedValue
from nirbridge.files.attributes import load_attribute

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

Status = Literal["equal", "differs", "absent", "refused", "failed", "time limit"]
Numbers = Literal["float32", "integers"]
Measured = Literal["call", "own time", "whole run", ""]
BATCHES = (1, 32)
"""Samples per run where none are requested."""
STEPS = 100
RATE = 0.1
"""Time steps, and spikes per time step and element, of random inputs."""
LIMIT_S = 120.0
"""Seconds that one back end may take in all."""
REPEATS = 5
"""Runs of which the fastest counts."""
_FAULTS = ("differs", "failed")


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One back end.

    ``numbers``: ``float32`` is compared with the reference, ``integers`` with the fixed-point simulator. ``status``:
    only an ``equal`` row is timed, and one that reached the time limit as far as it came. ``reason``: the first
    difference, the refusal, or the failure; ``hint``: how to get it. ``us_per_step``: by batch, microseconds per time
    step of the whole batch. ``measured``: a ``call`` of a simulator that is ready; the ``own time`` that a program
    states for its time steps; or its ``whole run`` with its start. ``build_s``: what a simulator's first call takes
    beyond a later one, or emitting the program. ``compile_s``: of a program, as far as it states that.
    ``start_s``: what a run of a program takes beyond its own time and compilation. ``us_per_run``: by batch,
    microseconds of a run that are not in ``us_per_step``: start and compilation of a program that states its own time.
    ``peak_memory_bytes``: of the largest process, in a run of the largest batch with every spike recorded.
    """

    backend: str
    kind: Literal["simulator", "program"]
    numbers: Numbers
    status: Status
    reason: str = ""
    hint: str = ""
    spikes: int | None = None
    us_per_step: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    us_per_run: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    measured: Measured = ""
    build_s: float | None = None
    compile_s: float | None = None
    start_s: float | None = None
    artifact_bytes: int | None = None
    peak_memory_bytes: int | None = None
    one_sample_at_a_time: bool = False

    @property
    def is_fault(self) -> bool:
        """True where it ran, and failed or gave other spikes."""
        return self.status in _FAULTS


@dataclass(frozen=True, slots=True)
class Choice:
    """The back end chosen by measurement for one kind of numbers and one batch.

    ``us_per_step``: microseconds per time step of the whole batch, by back end with equal spikes, the fastest first.
    ``us_per_run``: as of ``BenchRow``, of those with the reference's bits on any input; empty only where the other is.
    ``left_out``: status of every other back end. ``is_kept``: ``nirbridge.open`` finds it on this machine.
    """

    numbers: Numbers
    batch: int
    us_per_step: Mapping[str, float]
    us_per_run: Mapping[str, float]
    left_out: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    is_kept: bool = False

    def runs(self, steps: int) -> dict[str, float]:
        """Microseconds of a run of ``steps`` time steps, by back end of ``us_per_run``, the fastest first."""
        times = {name: self.us_per_step[name] * steps + more for name, more in self.us_per_run.items()}
        return dict(sorted(times.items(), key=lambda item: (item[1], item[0])))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bench(SavedValue):
    """One model on every back end that is there: result of ``nirbridge.bench``.

    ``inputs``: in words. ``steps``: time steps of a run; one of integers has ``latency`` more. ``chip``: the one of the
    integers; None where only real numbers ran. ``meta``: versions, machine, how it was read. ``choices``: by numbers
    and batch, where requested. Saved as ``.json``.

    Example:
        >>> result = nb.bench("model.nir", backends=["reference"], steps=10, batches=[1])
        >>> result.holds, [row.backend for row in result.rows]
        (True, ['reference'])
    """

    model: str
    inputs: str
    steps: int
    batches: tuple[int, ...]
    rows: tuple[BenchRow, ...]
    chip: str | None = None
    latency: int = 0
    meta: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    choices: tuple[Choice, ...] = ()

    @property
    def holds(self) -> bool:
        """True if no back end that ran failed or gave other spikes."""
        return not any(row.is_fault for row in self.rows)

    def timed(self, batch: int) -> list[BenchRow]:
        """The rows with equal spikes and a time at this batch, the fastest first."""
        rows = [row for row in self.rows if row.status == "equal" and batch in row.us_per_step]
        return sorted(rows, key=lambda row: row.us_per_step[batch])

    def document(self) -> dict[str, Any]:
        """Everything as plain JSON."""
        return load_attribute("nirbridge.report.bench:bench_document")(self)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the time of a time step by back end, as ``nirbridge.plot_bench``. Raises UsageError."""
        return load_attribute("nirbridge.api.measures:plot_bench")(self, ax=ax)
