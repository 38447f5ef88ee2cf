"""Functions that draw values as figures of matplotlib, the extra ``plot``: each returns the axes that it drew on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from nirbridge.api.arguments import Natural, checked, kind_of
from nirbridge.api.models import network_of
from nirbridge.comparison.types import Comparison
from nirbridge.errors import UsageError
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import Partition
from nirbridge.profiling.model import Profile
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.report.plots import bars, chips, pareto, recordings
from nirbridge.simulators.types import Recording
from nirbridge.sweeps.model import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]
else:
    try:
        from matplotlib.axes import Axes
    except ImportError:  # the functions themselves say which extra to install

        class Axes:
            """Stand-in for the axes of matplotlib, which is not installed."""


@checked
def plot_network(model: object, *, sample: object = None, ax: Axes | None = None) -> Axes:
    """Draw the graph of a network: populations with kind, shape and size, operators and delays on the arrows.

    Args:
        model: a model as ``load`` takes it, a ``MappedNetwork`` or a ``QuantizedNetwork``.
        sample: of a module, as ``load`` takes it.
        ax: axes to draw on; None: those of a new figure, a printed column (8.5 cm) wide or less.

    Raises:
        UsageError: a model that is none; matplotlib is not installed.

    Example:
        >>> axes = nb.plot_network("model.nir")
        >>> axes.figure.savefig("network.pdf")
    """
    value = model.network if isinstance(model, MappedNetwork | QuantizedNetwork) else model
    if value is None:
        hint = "draw the network that it was made from"
        raise UsageError.of(kind_of(model), "keeps no network in real numbers", "", hint)
    return chips.plot_network(network_of(value, sample), ax=ax)


@checked
def plot_floorplan(
    mapped: MappedNetwork, *, color: Literal["population", "resource"] = "population", ax: Axes | None = None
) -> Axes:
    """Draw the chips of a map, cropped to the tiles in use, each core with the populations that it holds.

    Args:
        mapped: the map.
        color: ``resource``: a core is filled as high as its fullest resource, in that resource's colour.
        ax: axes to draw on; None: those of a new figure.

    Raises:
        UsageError: matplotlib is not installed.

    Example:
        >>> mapped = nb.map("model.nir", "loihi2")
        >>> axes = nb.plot_floorplan(mapped, color="resource")
    """
    return chips.plot_floorplan(mapped, color=color, ax=ax)


@checked
def plot_traffic(mapped: MappedNetwork, *, show: Literal["links", "matrix"] = "links", ax: Axes | None = None) -> Axes:
    """Draw the load of every link of a map in spikes per time step; the busiest one is named.

    Args:
        mapped: the map.
        show: ``matrix``: spikes per time step from every core to every core, or population, where there are many cores.
        ax: axes to draw on; None: those of a new figure.

    Raises:
        UsageError: matplotlib is not installed.

    Example:
        >>> mapped = nb.map("model.nir", "loihi2")
        >>> axes = nb.plot_traffic(mapped, show="matrix")
        >>> axes.get_xlabel()
        'destination core'
    """
    return chips.plot_traffic(mapped, show=show, ax=ax)


@checked
def plot_proof(value: MappedNetwork | Partition, *, ax: Axes | None = None) -> Axes:
    """Draw the cores of a map beside all lower bounds, with the optimality gap and the bound that decides.

    Raises:
        UsageError: matplotlib is not installed.

    Example:
        >>> axes = nb.plot_proof(nb.map("model.nir", "loihi2"))
        >>> axes.get_xlabel()
        'cores'
    """
    return bars.plot_proof(value, ax=ax)


@checked
def plot_energy(mapped: MappedNetwork, *, ax: Axes | None = None) -> Axes:
    """Draw energy and duration of a time step by kind of event, as stacked bars in per cent.

    Raises:
        UsageError: the chip has no figures of energy or time; matplotlib is not installed.

    Example:
        >>> axes = nb.plot_energy(nb.map("model.nir", "loihi2"))
        >>> axes.get_xlabel()
        "share of a time step's total (%)"
    """
    return bars.plot_energy(mapped, ax=ax)


@checked
def plot_pareto(
    value: Sweep | Profile | str | os.PathLike[str],
    x: Literal["energy", "time", "cores", "accuracy"] = "energy",
    y: Literal["energy", "time", "cores", "accuracy"] = "time",
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the points of a sweep by two of energy, time, cores and accuracy, and the Pareto front of both.

    A colour stands for a model, a mark for a chip; points on the front are filled.

    Args:
        value: a sweep, the path of its ``.parquet`` file, or a profile.
        x: quantity along the x axis: less is better, of accuracy more.
        y: quantity along the y axis.
        ax: axes to draw on; None: those of a new figure.

    Raises:
        UsageError: no point has both quantities, or they are the same one; matplotlib is not installed.
        FileError: a file that is not the table of a sweep.

    Example:
        >>> table = nb.sweep({"models": ["model.nir"], "chips": ["loihi1"], "bits": [4, 8]})
        >>> axes = nb.plot_pareto(table, "cores", "energy")
        >>> axes.get_xlabel()
        'cores'
    """
    if isinstance(value, str | os.PathLike):
        from nirbridge.sweeps.table import read_table

        return pareto.plot_pareto(read_table(value), x, y, ax=ax)
    return pareto.plot_pareto(value.rows(), x, y, ax=ax)


@checked
def plot_profile(value: Profile, *, ax: Axes | None = None) -> Axes:
    """Draw the energy of an inference by kind of event: of each layer, or of each point where there are several.

    Args:
        value: a profile.
        ax: axes to draw on; None: those of a new figure.

    Raises:
        UsageError: no chip of the profile has figures of energy; matplotlib is not installed.

    Example:
        >>> axes = nb.plot_profile(nb.profile("model.nir", "loihi1", np.ones((25, 64))))
        >>> axes.get_xlabel()
        'energy of an inference (uJ)'
    """
    return bars.plot_profile(value, ax=ax)


@checked
def plot_raster(
    recording: Recording,
    nodes: str | Sequence[str] | None = None,
    *,
    sample: Natural = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the spikes of a recording over time, of one node or of several in bands on one time axis.

    Args:
        recording: the recording.
        nodes: names of nodes with recorded spikes, the first one at the top; None: all, at most twelve.
        sample: number of the sample of a batch.
        ax: axes to draw on; None: those of a new figure.

    Raises:
        UsageError: spikes that were not recorded, no such sample; matplotlib is not installed.

    Example:
        >>> run = nb.simulate("model.nir", np.ones((25, 64)), record="*:s")
        >>> axes = nb.plot_raster(run)
    """
    return recordings.plot_raster(recording, nodes, sample=sample, ax=ax)


@checked
def plot_traces(
    recording: Recording,
    node: str,
    neurons: Natural | Sequence[int] = 0,
    *,
    threshold: float | None = None,
    other: Recording | None = None,
    names: tuple[str, str] = ("A", "B"),
    sample: Natural = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the potentials of neurons over time, their threshold as a line, their spikes as marks at the top.

    Args:
        recording: the recording, with ``u`` or ``v`` of the node.
        node: its name.
        neurons: indices along the flattened shape.
        threshold: height of the line; None: no line.
        other: a second recording of the same node, dashed: integers are put in real units, and latency is taken off.
        names: of the two recordings, for the legend.
        sample: number of the sample of a batch.
        ax: axes to draw on; None: those of a new figure.

    Raises:
        UsageError: potentials that were not recorded, no such neuron or sample; matplotlib is not installed.

    Example:
        >>> run = nb.simulate("model.nir", np.ones((25, 64)), record="*:s,v")
        >>> node = next(iter(run.arrays))[0]
        >>> axes = nb.plot_traces(run, node, [0, 1], threshold=1.0)
    """
    options = {"threshold": threshold, "other": other, "names": names, "sample": sample, "ax": ax}
    return recordings.plot_traces(recording, node, neurons, **options)


@checked
def plot_difference(
    a: Recording | Comparison,
    b: Recording | None = None,
    node: str | None = None,
    *,
    latency: int | Literal["auto"] = "auto",
    sample: Natural | None = None,
    names: tuple[str, str] = ("A", "B"),
    ax: Axes | None = None,
) -> Axes:
    """Draw the spikes of two recordings in one raster: of both, of A alone, of B alone.

    Args:
        a: a recording, or the ``Comparison`` of two, which is drawn as its method ``plot`` does.
        b: the other recording.
        node: name of the node; None: the first that differs, else the first.
        latency: time steps by which B lags A; ``auto``: as the recordings state it.
        sample: number of the sample of a batch; None: the first that differs.
        names: of the two recordings, for the legend.
        ax: axes to draw on; None: those of a new figure.

    Raises:
        UsageError: spikes that were not recorded in both, no time step in common; matplotlib is not installed.

    Example:
        >>> network = nb.load("model.nir")
        >>> x = np.ones((25, 64))
        >>> a, b = nb.simulate(network, x), nb.simulate(nb.quantize(network, "loihi2"), x)
        >>> axes = nb.plot_difference(a, b, names=("reference", "fixed"))
    """
    if isinstance(a, Comparison):
        return recordings.plot_comparison(a, node, sample=sample, ax=ax)
    if b is None:
        raise UsageError.of("nirbridge.plot_difference(), b", "is missing", "it takes a second recording", "give it")
    from nirbridge.api.runs import compare

    comparison = compare(a, b, latency=latency)
    return recordings.plot_rows(comparison, (a, b), node, sample=sample, names=names, ax=ax)


__all__ = [
    "plot_difference",
    "plot_energy",
    "plot_floorplan",
    "plot_network",
    "plot_pareto",
    "plot_profile",
    "plot_proof",
    "plot_raster",
    "plot_traces",
    "plot_traffic",
]
