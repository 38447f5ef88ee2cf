"""``nirbridge.bench``: one model on every back end that is there, compared and timed; and its figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nirbridge import pipeline
from nirbridge._types import Progress, no_progress
from nirbridge.api.arguments import Count, Natural, checked, plain_arrays
from nirbridge.api.models import ChipLike, network_of
from nirbridge.api.models import chip as find_chip
from nirbridge.api.stages import AxesLike
from nirbridge.benchmarking.model import BATCHES, LIMIT_S, REPEATS, Bench

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]
else:
    try:
        from matplotlib.axes import Axes
    except ImportError:  # the function itself says which extra to install

        class Axes:
            """Stand-in for the axes of matplotlib, which is not installed."""


@checked
def bench(
    model: object,
    inputs: object = None,
    *,
    sample: object = None,
    chip: ChipLike | None = None,
    backends: Sequence[str] = (),
    axes: AxesLike | None = None,
    steps: Count | None = None,
    batches: Sequence[Count] = BATCHES,
    rate: float | None = None,
    seed: Natural = 0,
    repeats: Count = REPEATS,
    limit_s: float = LIMIT_S,
    name: str | None = None,
    progress: Progress = no_progress,
) -> Bench:
    """Run a model on every back end that is there, compare the spikes, and time those that are equal.

    Back ends are the simulators, the reference on other array libraries, and the emitters whose programs can be run,
    those of plugins among them. Each runs in a process of its own. Real numbers are compared with the backend
    ``reference``, the integers of a chip with ``fixed``. A back end that is not installed, or refuses the model, has a
    row that says so.

    Args:
        model: as ``load`` takes it.
        inputs: as of ``simulate``, samples repeated in turn where a batch is larger; None: random spikes.
        sample: of a module, as ``load`` takes it.
        chip: by name, path or value: its integers run too; None: real numbers alone.
        backends: names of back ends; none: all. The one that they are compared with runs in any case.
        axes: of the arrays, as of ``simulate``.
        steps: time steps of a run; None: as many as the inputs have, or 100.
        batches: samples of a run.
        rate: spikes per time step and element of random inputs; None: 0.1.
        seed: of random inputs.
        repeats: runs of which the fastest counts; none begins after 2 seconds of them.
        limit_s: seconds that one back end may take in all, after which it is ended.
        name: of the model in the table; None: that of its file.
        progress: called with a stage and the completed fraction.

    Raises:
        UsageError: inputs or options that make no sense, or an unknown back end.
        ModelError: the reference cannot run the model, or not within the time limit.

    Example:
        >>> result = nb.bench("model.nir", backends=["reference"], steps=10, batches=[1])
        >>> [(row.backend, row.status) for row in result.rows]
        [('reference', 'equal')]
    """
    network = network_of(model, sample)
    shown = name if name is not None else ("" if network.file is None else network.file.name)
    options = pipeline.BenchOptions(
        backends=tuple(backends),
        steps=steps,
        batches=tuple(batches),
        rate=rate,
        seed=seed,
        repeats=repeats,
        limit_s=limit_s,
        model=shown,
        progress=progress,
    )
    given = pipeline.read_inputs(network, plain_arrays(inputs), axes=axes, steps=steps)
    return pipeline.bench_network(network, given.inputs, None if chip is None else find_chip(chip), options)


@checked
def plot_bench(value: Bench, *, ax: Axes | None = None) -> Axes:
    """Draw the time of a time step by back end and batch, on a logarithmic axis; only equal spikes are timed.

    Args:
        value: a benchmark.
        ax: axes to draw on; None: those of a new figure.

    Raises:
        UsageError: no back end was timed; matplotlib is not installed.

    Example:
        >>> axes = nb.plot_bench(nb.bench("model.nir", backends=["reference"], steps=10, batches=[1]))
        >>> axes.get_xlabel()
        'time step of the whole batch (us)'
    """
    from nirbridge.report.plots.bars import plot_bench as plot

    return plot(value, ax=ax)
