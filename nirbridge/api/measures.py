"""``nirbridge.profile``, ``bench`` and ``sweep``: what networks cost and how fast they run, measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

from nirbridge import pipeline
from nirbridge._types import Progress
from nirbridge.api.arguments import Count, Natural, checked, plain_arrays, shows_progress
from nirbridge.api.models import ChipLike, network_of
from nirbridge.api.models import chip as find_chip
from nirbridge.api.stages import AxesLike, MapKeywords, map_options
from nirbridge.benchmarking.model import BATCHES, LIMIT_S, REPEATS, Bench
from nirbridge.chips.model import Chip
from nirbridge.network.model import Network
from nirbridge.pipeline.options import MapOptions
from nirbridge.profiling.model import Profile
from nirbridge.sweeps.model import Sweep


@checked
def profile(
    model: object,
    chip: ChipLike | Sequence[ChipLike],
    inputs: object,
    labels: object = None,
    *,
    sample: object = None,
    steps: Count | None = None,
    samples: Count | None = None,
    axes: AxesLike | None = None,
    bits: Count | Sequence[Count] = (),
    objectives: str | Sequence[str] = (),
    target: str | None = None,
    potentials: bool = True,
    name: str | None = None,
    options: MapOptions | None = None,
    **changes: Unpack[MapKeywords],
) -> Profile:
    """Spikes, energy, time, throughput, accuracy and memory of a model on chips, measured on data.

    The model is simulated in real numbers, mapped with the spike rates that were measured, and simulated in the
    integers of the chip; the events that occur are charged with the figures of the chip file.

    Args:
        model: as ``load`` takes it.
        chip: by name, path or value; several make a table.
        inputs: as of ``simulate``; ``labels`` may be among arrays by name.
        labels: the class of each sample, for accuracy.
        sample: of a module, as ``load`` takes it.
        steps: time steps of a sample; None: as many as the inputs have.
        samples: use the first samples only; None: all.
        axes: of the arrays, as of ``simulate``.
        bits: of all weights; several make a table. None given: those of ``options``.
        objectives: of the mapping; several make a table. None given: that of ``options``.
        target: an emitter whose simulator runs the same map, to stand beside our figures (``sanafe``).
        potentials: count changes of membrane potentials (``MembraneUpdates``), which takes memory and time.
        name: of the model in the tables; None: that of its file.
        options: how to map; None: the defaults.
        changes: fields of ``MapOptions`` that are to be others than in ``options``; ``rates`` override the measured
            ones where the network is placed.

    Raises:
        UsageError: data or labels that do not fit the model, or options that make no sense.
        DoesNotFit: no point can be mapped.
        ModelError: what the chip cannot run.

    Example:
        >>> profile = nb.profile("model.nir", "loihi1", np.ones((25, 8, 64)))
        >>> sorted(profile.points[0].neurobench)
        ['integers', 'reference']
    """
    network = network_of(model, sample)
    chips = [chip] if isinstance(chip, Chip | str | os.PathLike) else list(chip)
    given = pipeline.read_inputs(network, plain_arrays(inputs), axes=axes, labels=plain_arrays(labels), steps=steps)
    data = pipeline.read_data(network, given.inputs, given.labels, steps=steps, samples=samples, origin="given arrays")
    settings = pipeline.ProfileOptions(
        mapping=map_options("nirbridge.profile()", options, changes, network),
        bits=(bits,) if isinstance(bits, int) else tuple(bits),
        objectives=(objectives,) if isinstance(objectives, str) else tuple(objectives),
        target=target,
        potentials=potentials,
        model=_name(network, name),
    )
    return pipeline.profile_network(network, [find_chip(each) for each in chips], data, settings)


def _name(network: Network, name: str | None) -> str:
    if name is not None:
        return name
    return "" if network.file is None else network.file.name


# -- bench ---------------------------------------------------------------------------------------------------------
# ``nirbridge.bench``: one model on every back end that is there, compared and timed; and its figure.


if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]
else:
    try:
        from matplotlib.axes import Axes
    except ImportError:  # the function itself says which extra to install

        class Axes:
            """Stand-in for the axes of matplotlib, which is not installed."""


@checked
@shows_progress
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
    best: bool = False,
    name: str | None = None,
    progress: Progress | bool = True,
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
        best: choose a back end for each batch (``choices`` of the result), and keep the choice for ``open``.
        name: of the model in the table; None: that of its file.
        progress: True: shown, as of ``map``; False: not; else called with a stage and the completed fraction.

    Raises:
        UsageError: inputs or options that make no sense, or an unknown back end.
        ModelError: the reference cannot run the model, or not within the time limit.

    Example:
        >>> result = nb.bench("model.nir", backends=["reference"], steps=10, batches=[1])
        >>> [(row.backend, row.status) for row in result.rows]
        [('reference', 'equal')]
    """
    assert callable(progress)
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
        best=best,
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


# -- sweeps --------------------------------------------------------------------------------------------------------
# ``nirbridge.sweep``: many models, chips, widths, objectives and seeds in one table.


@checked
@shows_progress
def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    output: str | os.PathLike[str] | None = None,
    *,
    values: Mapping[str, Any] = MappingProxyType({}),
    jobs: Count = 1,
    scheduler: str | None = None,
    progress: Progress | bool = True,
) -> Sweep:
    """Map models onto chips with every width, objective and seed; measured on data where there are any.

    Each point depends on its definition and its files alone, so the table is the same for any number of processes, in
    any order, and after a worker was lost; only the columns ``measured_wall_s`` and ``measured_cpu_s`` differ.

    Args:
        spec: the path of a TOML file, or a mapping with its keys (``models``, ``chips``, ``chip``, ``set``, ``bits``,
            ``objectives``, ``seeds``, ``effort``, ``input``, ``labels``, ``steps``, ``samples``, ``encoder``). Paths
            are relative to the folder of the file, or to the working folder; ``chips`` of a mapping may be values, too.
        output: a ``.parquet``, ``.csv`` or ``.json`` file; each row is kept beside it (``output.parts``) as soon as it
            is computed, and is not computed again by the next run. None: nothing is written.
        values: keys of every chip with another value, as in ``{"core.neurons": 512}``; several are given in ``set``.
        jobs: processes of this machine (extra ``sweep``).
        scheduler: address of a Dask scheduler, whose workers do it instead (extra ``dask``); they see the same files,
            and it is trusted with code.
        progress: True: shown, as of ``map``; False: not; else called with the count of points and the
            estimated rest, and the completed fraction.

    Raises:
        FileError: the file is wrong (every problem), files that cannot be read, or that change meanwhile.
        UsageError: a mapping that is wrong, no such scheduler, workers that end again and again, a missing extra.
        ChipError: unknown chips.

    Example:
        >>> table = nb.sweep({"models": ["model.nir"], "chips": ["loihi1", "loihi2"], "seeds": [0, 1]})
        >>> table
        Sweep: 4 points
        >>> [row["cores"] for row in table.rows()]
        [1, 1, 1, 1]
    """
    from nirbridge.files.gate import CommandInput, CommandOutput, check_outputs
    from nirbridge.sweeps.plan import make_plan
    from nirbridge.sweeps.run import run_sweep
    from nirbridge.sweeps.spec import load_spec
    from nirbridge.sweeps.table import check_table_path

    assert callable(progress)
    if output is not None:
        check_table_path(output)
    plan = make_plan(load_spec(spec, values))
    if output is not None:
        files = {file.path: file.role for point in plan.points for file in point.files if file.path}
        read = [CommandInput(f"the {role}", path) for path, role in files.items()]
        check_outputs([CommandOutput("output", os.fspath(output))], read)
    result = run_sweep(plan, output, jobs=jobs, scheduler=scheduler, progress=progress)
    if output is not None:
        result.save(output)
    return result
