"""Populations that stay quiet until their first time step: by their initial state, or by drives that begin then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.naming import fresh_name
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Chain, Dense, Reshape
from nirbridge.passes.retiming.initial_states import LARGEST_START, initial_state_before

ALWAYS = "always"
"""Name of the neuron that fires in every time step."""


def constant_drives(network: Network) -> dict[str, Array | None]:
    """Per population the sum of the biases of the projections into it, None where there are none (or all are 0)."""
    drives: dict[str, Array | None] = {p.name: None for p in network.populations}
    for p in network.projections:
        if p.target in drives and p.bias is not None and p.bias.any():
            before = drives[p.target]
            drives[p.target] = p.bias if before is None else before + p.bias
    return drives


def heard_early(network: Network, latency: Mapping[str, int] | None = None) -> set[str]:
    """Sources whose values before their first time step reach a neuron, or an output that reads them late.

    An output that reads without a delay of the model starts with the first time step of its source. ``latency``: of a
    network whose delays contain the differences of latencies; None: the delays are those of the model.
    """
    inside = {p.name for p in network.populations}
    shift = {} if latency is None else latency
    return {
        p.source
        for p in network.projections
        if p.target in inside or int(p.delay_steps.max()) > shift.get(p.target, 0) - shift.get(p.source, 0)
    }


@dataclass(frozen=True, slots=True, eq=False)
class ConstantDrives:
    """A retimed network whose populations start as ``with_constant_drives`` says.

    ``waiting``: populations whose constant drive comes from a neuron that always fires; ``early``: populations that
    start at the first step of the hardware as they start in the reference, and so act before their own first step.
    """

    network: Network
    latency: dict[str, int]
    waiting: tuple[str, ...]
    early: tuple[str, ...]


def with_constant_drives(
    network: Network, latency: Mapping[str, int], *, keep_early_spikes: bool = False
) -> ConstantDrives:
    """The retimed network with starts from which each population is at step ``latency`` where the reference starts.

    First the start is solved backwards (``initial_states``). Where there is none, the constant drives (those of a
    synaptic current: the projections' biases) become synapses from one neuron that fires in every step, with the
    population's latency as their delay: nothing happens before its first step, and from then on each step gets the
    same drive. This is exact but for the order of sums, and costs that neuron and a synapse per driven neuron.

    Populations that neither holds for are named in one error, or keep their start with ``keep_early_spikes``.

    Returns:
        The network, the latencies with that of the neuron that always fires (0), the populations that it drives, and
        those that act early.

    Raises:
        ModelError: populations that neither holds for, each named.
    """
    drives = constant_drives(network)
    heard = heard_early(network, latency)
    populations: list[Population] = []
    waiting: list[str] = []
    early: list[Population] = []
    for p in network.populations:
        drive, steps = drives[p.name], latency[p.name]
        started = initial_state_before(p, drive, steps, feeds_neurons=p.name in heard)
        if started is None:
            started = _bare(p, drive, steps, feeds_neurons=p.name in heard)
            waiting += [] if started is None else [p.name]
            early += [p] if started is None else []
        populations.append(p if started is None or started is p.neuron else replace(p, neuron=started))
    if early and not keep_early_spikes:
        raise ModelError(*(_problem(p, latency[p.name]) for p in early))
    retimed, times = replace(network, populations=tuple(populations)), dict(latency)
    if waiting:
        retimed, times = _driven(retimed, network, drives, latency, tuple(waiting))
    return ConstantDrives(retimed, times, tuple(waiting), tuple(p.name for p in early))


def _bare(p: Population, drive: Array | None, steps: int, *, feeds_neurons: bool) -> Neuron | None:
    """The neuron without its constant drive, as far as synapses can take that over; None: it still cannot wait."""
    n = p.neuron
    moves = not n.a_syn.any()
    gain = n.g_syn * n.g_mem
    if (moves and bool(np.any((gain == 0) & (n.bias != 0)))) or (drive is None and not (moves and n.bias.any())):
        return None
    bare = replace(n, bias=freeze(np.float64(0.0))) if moves else n
    return initial_state_before(replace(p, neuron=bare), None, steps, feeds_neurons=feeds_neurons)


def _problem(p: Population, steps: int) -> Diagnostic:
    found = f"it would leave its start in the {counted(steps, 'step')} before its input arrives"
    limit = (
        f"its start is solved backwards where it does not fire on the way and stays within {LARGEST_START:g} thresholds"
    )
    step = "start it at rest (v_init, i_init, threshold above 0), or give --keep-early-spikes"
    ids = MappingProxyType({"population": p.name, "rule": "early", "steps": steps})
    return Diagnostic(f"population {quoted(p.name)}", found, limit, step, ids)


def _driven(
    network: Network,
    before: Network,
    drives: Mapping[str, Array | None],
    latency: Mapping[str, int],
    waiting: Sequence[str],
) -> tuple[Network, dict[str, int]]:
    taken = {subject.name for subject in (*network.inputs, *network.outputs, *network.populations)}
    always = Population(fresh_name(ALWAYS, taken), (1,), neuron("relay", bias=1.0, theta=0.5))
    projections = [replace(p, bias=None) if p.target in waiting else p for p in network.projections]
    for name in waiting:
        driven = before.population(name)
        steps = freeze(np.int64(latency[name]))
        projections.append(Projection(always.name, name, _weights(driven, drives[name]), delay_steps=steps))
    network = replace(network, populations=(always, *network.populations), projections=tuple(projections))
    return network, {**latency, always.name: 0}


def _weights(p: Population, drive: Array | None) -> Dense | Chain:
    n = p.neuron
    total = np.zeros(p.shape) if drive is None else drive.astype(np.float64)
    if not n.a_syn.any():
        gain = np.broadcast_to(n.g_syn * n.g_mem, p.shape)
        total = total + np.where(gain != 0, n.bias / np.where(gain != 0, gain, 1.0), 0.0)
    dense = Dense(freeze(total.reshape(-1, 1)))
    return dense if len(p.shape) == 1 else Chain((dense, Reshape((p.size,), p.shape)))
