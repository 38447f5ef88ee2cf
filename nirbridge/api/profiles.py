"""``nirbridge.profile``: what a network costs on chips, measured on data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Unpack

from nirbridge import pipeline
from nirbridge.api.arguments import Count, checked, plain_arrays
from nirbridge.api.models import ChipLike, network_of
from nirbridge.api.models import chip as find_chip
from nirbridge.api.stages import AxesLike, MapKeywords, map_options
from nirbridge.chips.model import Chip
from nirbridge.network.model import Network
from nirbridge.pipeline.options import MapOptions
from nirbridge.profiling.model import Profile


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
    classes = plain_arrays(labels)
    given = pipeline.read_inputs(network, plain_arrays(inputs), axes=axes, labels=classes, steps=steps)
    data = pipeline.read_data(network, given.inputs, classes, steps=steps, samples=samples, origin="given arrays")
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
