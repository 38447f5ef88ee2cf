"""Chip-specific rewrites before mapping: relay pools, retiming, replication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from nirbridge.arrays import Array, compact, freeze
from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, ModelError, UsageError, did_you_mean, quoted
from nirbridge.mapping.rates import assumed_rates
from nirbridge.mapping.zeros import MapFacts, left_out_note, stored_operators
from nirbridge.network.apply import apply
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Projection, with_operators
from nirbridge.network.operators import Operator, SumPool
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.explain import oversized_neurons
from nirbridge.passes import ReplicateSource, Retime, RetimedNetwork
from nirbridge.passes.base import checked_result, run_passes
from nirbridge.passes.relay_pools import RelayProjection
from nirbridge.passes.retiming.retime import without_hops
from nirbridge.pipeline.options import RETIME, MapOptions
from nirbridge.quantization.legality import feature_problems
from nirbridge.quantization.model import QuantizedNetwork

T = TypeVar("T")
Rates = tuple[Mapping[str, "Array"], str]
_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class PreparedNetwork:
    """A network as it is mapped.

    ``latency``: step of the hardware at which each input, population and output is at its step 0, where retiming
    changed what a map holds; None: the delays are those of the model. ``rates`` as ``MapOptions.rates``, for what was
    put in, too. ``refused``: why there are no delays that hold the hops, where that was tried. ``unsupported``: all
    that keeps the chip from running the network, ``refused`` included; ``placement_only``: such a map was requested.
    ``early``: populations whose early spikes are kept. ``stored``: the synapses that cores hold of projections whose
    zeros are left out, by index.
    """

    network: Network
    latency: Mapping[str, int] | None = None
    rates: Rates | None = None
    refused: tuple[Diagnostic, ...] = ()
    unsupported: tuple[Diagnostic, ...] = ()
    placement_only: bool = False
    early: tuple[str, ...] = ()
    stored: Mapping[int, Operator] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def stored_network(self) -> Network:
        """The network with the synapses that the cores hold, for everything that counts them."""
        return with_operators(self.network, self.stored)


def prepare_network(network: Network, chip: Chip, options: MapOptions) -> PreparedNetwork:
    """The network as it will run on the chip: relays, delays that hold the hops, copies; each said in its notes.

    Raises:
        UsageError: an option that makes no sense.
        ModelError: ``retime`` is 'always', and there are no such delays.
    """
    _one_of("--retime", options.retime, RETIME)
    fitted = fit_to_chip(network, chip, relays=options.relays)
    given = fitted if options.rates is None else network  # rates are of the given network: relays get theirs from it
    return _judged(_ready(given, _apply_retiming(fitted, chip, options), options), chip, options)


def prepare_retimed(
    retimed: RetimedNetwork, chip: Chip, options: MapOptions, integers: QuantizedNetwork | None = None
) -> PreparedNetwork:
    """``prepare_network`` for a network that is already retimed; ``integers``: those that will run, if known."""
    return _judged(_ready(retimed.reference, _retimed(retimed), options), chip, options, integers)


def _judged(
    prepared: PreparedNetwork, chip: Chip, options: MapOptions, integers: QuantizedNetwork | None = None
) -> PreparedNetwork:
    """With the synapses that are stored, and all that the chip cannot run."""
    return _without_zeros(_with_problems(prepared, chip, options), chip, options, integers)


def _without_zeros(
    prepared: PreparedNetwork, chip: Chip, options: MapOptions, integers: QuantizedNetwork | None
) -> PreparedNetwork:
    if options.keep_zeros:
        return prepared
    bits = options.weight_bits or chip.synapses.weight_bits_default
    runs = not (prepared.placement_only or prepared.unsupported)
    facts = MapFacts(bits, prepared.latency, prepared.early, runs)
    stored = stored_operators(prepared.network, chip, facts, integers)
    if not stored:
        return prepared
    notes = (*prepared.network.notes, left_out_note(prepared.network, stored))
    return replace(prepared, network=replace(prepared.network, notes=notes), stored=MappingProxyType(stored))


def _with_problems(prepared: PreparedNetwork, chip: Chip, options: MapOptions) -> PreparedNetwork:
    """With all that the chip cannot run; in the notes where only a placement is requested."""
    problems = _unsupported(prepared.network, chip, options.weight_bits)
    marked = options.placement_only or prepared.placement_only
    if not options.placement_only:
        return replace(prepared, unsupported=(*prepared.refused, *problems), placement_only=marked)
    notes = _shown(f"placement only, chip {quoted(chip.name)} cannot run it", problems)
    network = replace(prepared.network, notes=(*prepared.network.notes, *notes))
    return replace(prepared, network=network, placement_only=marked)


def _unsupported(network: Network, chip: Chip, weight_bits: int | None) -> list[Diagnostic]:
    bits = weight_bits or chip.synapses.weight_bits_default
    return list(feature_problems(network, chip, lambda _: bits))


def with_placement_hint(problem: Diagnostic) -> Diagnostic:
    """The problem of a network that the chip cannot run but could hold, with the option for that."""
    way_out = "give --placement-only for a placement that cannot be executed"
    return replace(problem, hint=f"{problem.hint}, or {way_out}" if problem.hint else way_out)


def fit_to_chip(network: Network, chip: Chip, *, relays: bool = True) -> Network:
    """The network with the relays that the chip's fan-in requires, each listed in its notes."""
    return with_relays(network, chip) if relays else network


def retime(
    network: Network,
    chip: Chip,
    *,
    relays: bool = True,
    splits: Mapping[str, int] | None = None,
    keep_early_spikes: bool = False,
) -> RetimedNetwork:
    """The network with the relays that the chip's fan-in requires, and with delays for the hops.

    ``splits``: as of a map that this is run on. ``keep_early_spikes`` as of ``passes.Retime``. Raises ModelError, with
    all else that the chip cannot run.
    """
    fitted = fit_to_chip(network, chip, relays=relays)
    try:
        retimed = _balanced(fitted, chip, keep_early_spikes=keep_early_spikes)
    except ModelError as error:
        raise ModelError(*error.problems, *_unsupported(fitted, chip, None)) from None
    if not splits:
        return retimed
    network, of = _split(retimed.network, splits)
    early = (*retimed.early, *(copy for copy, name in of.items() if name in retimed.early))
    return replace(retimed, network=network, latency=MappingProxyType(_with_copies(retimed.latency, of)), early=early)


def network_to_map(retimed: RetimedNetwork) -> tuple[Network, Mapping[str, int] | None]:
    """The network that a map is made of, and its latencies; the reference and None where a map would be the same."""
    delayed = without_hops(retimed.network)
    if _wiring(delayed) == _wiring(retimed.reference):
        return retimed.reference, None
    return delayed, retimed.latency


def replicate_sources(network: Network, splits: Mapping[str, int]) -> Network:
    """The network with populations replaced by copies of them, in the given order, each said in its notes."""
    return _split(network, splits)[0]


def _split(network: Network, splits: Mapping[str, int]) -> tuple[Network, dict[str, str]]:
    """The network with copies, and copy -> the population that it is a copy of."""
    of: dict[str, str] = {}
    for name, ways in splits.items():
        names_before = {p.name for p in network.populations}
        changed = run_passes(network, [ReplicateSource(name, ways)])
        note = f"population {quoted(name)} is mapped as {ways} copies, each feeding a part of its targets"
        network = replace(changed, notes=(*changed.notes, note))
        of |= {p.name: name for p in network.populations if p.name not in names_before}
    return network, of


def _one_of(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError.of(
            option,
            quoted(value),
            f"there are {', '.join(choices)}",
            did_you_mean(value, choices) or "choose one of these",
        )


def _balanced(fitted: Network, chip: Chip, *, keep_early_spikes: bool) -> RetimedNetwork:
    limits = {"delay_steps_max": chip.core.delay_steps, "graded_spikes": chip.neuron.graded_spikes}
    retimed = Retime(**limits, keep_early_spikes=keep_early_spikes).retimed(fitted)
    checked_result("pass 'retime'", retimed.network)  # as the runner of passes does, which gives no latencies
    return retimed


def _retimed(retimed: RetimedNetwork) -> PreparedNetwork:
    """As it is mapped; that early spikes are kept is said even where the map is that of the model."""
    network, latency = network_to_map(retimed)
    if latency is None and retimed.early:
        network = replace(network, notes=(*network.notes, *retimed.notes))
    return PreparedNetwork(network, latency, early=retimed.early)


def _apply_retiming(fitted: Network, chip: Chip, options: MapOptions) -> PreparedNetwork:
    how = options.retime
    try:
        prepared = _retimed(_balanced(fitted, chip, keep_early_spikes=options.keep_early_spikes))
    except ModelError as error:
        if how == "always":
            raise
        notes = _shown("mapped with the delays of the model, nothing runs this map", error.problems)
        return PreparedNetwork(replace(fitted, notes=(*fitted.notes, *notes)), refused=error.problems)
    if how == "never" and prepared.latency is not None:
        note = "mapped with the delays of the model, as asked: hops are not made up for, so nothing runs this map"
        return PreparedNetwork(replace(fitted, notes=(*fitted.notes, note)), placement_only=True)
    return prepared


def _shown(heading: str, problems: Sequence[Diagnostic]) -> list[str]:
    shown = [f"{heading}: {p}" for p in problems[:_SHOWN]]
    more = len(problems) - _SHOWN
    return [*shown, f"and {more:,} more reasons"] if more > 0 else shown


def _wiring(network: Network) -> object:
    """All that a map sees of populations and delays."""
    projections = [(p.source, p.target, id(p.operator), p.is_back, _delays(p)) for p in network.projections]
    return [(p.name, p.shape) for p in network.populations], projections


def _delays(p: Projection) -> object:
    """Delays in a canonical form: a delay common to all targets is added to the source delay."""
    source_delay, target_delay = p.delay_steps, p.target_delay_steps
    if target_delay.size and (target_delay == target_delay.flat[0]).all():
        source_delay, target_delay = source_delay + target_delay.flat[0], np.zeros((), np.int64)
    return compact(source_delay).tolist(), target_delay.tolist()


def _ready(fitted: Network, runs: PreparedNetwork, options: MapOptions) -> PreparedNetwork:
    split, of = _split(runs.network, options.splits)
    rates, latency = with_rates_of_added(fitted, runs.network, options.rates), runs.latency
    if rates is not None:
        rates = _with_copies(rates[0], of), rates[1]
    if latency is not None:
        latency = MappingProxyType(_with_copies(latency, of))
    return replace(runs, network=split, latency=latency, rates=rates)


def _with_copies(values: Mapping[str, T], of: Mapping[str, str]) -> dict[str, T]:
    extended = dict(values)
    for copy, name in of.items():
        if name in extended:
            extended[copy] = extended[name]
    return extended


def _passed_on(network: Network, into: Projection, rates: Mapping[str, Array]) -> Array:
    """The rates of relays: their source's one rate, or, neuron by neuron, the counts of their windows."""
    rate = rates.get(into.source, freeze(0.0))
    if not rate.ndim:
        return rate
    relay = next(p for p in network.populations if p.name == into.target)
    return freeze(np.minimum(apply(into.operator, rate), relay.neuron.max_spikes))


def with_rates_of_added(before: Network, after: Network, rates: Rates | None) -> Rates | None:
    """Rates of added populations: a relay fires like its source, a neuron without inputs in every time step."""
    names_before = {p.name for p in before.populations}
    added = [p.name for p in after.populations if p.name not in names_before]
    if not added:
        return rates
    rates_before, origin = rates or assumed_rates(before)
    all_rates = dict(rates_before)
    for name in added:
        incoming = [p for p in after.projections if p.target == name]
        all_rates[name] = _passed_on(after, incoming[0], all_rates) if incoming else freeze(1.0)
    return all_rates, f"{origin}; relays send what they pass on, a neuron without inputs fires in every step"


# -- relays --------------------------------------------------------------------------------------------------------
# Pools mapped to relay neurons where a chip cannot hold the fan-in of a pool folded into the next layer.


def with_relays(network: Network, chip: Chip) -> Network:
    """Relays for the pools in front of populations of which one neuron has more input axons than a core holds.

    Populations whose fan-in fits stay as they are, and so does a network that fits without. Every relay is listed in
    ``Network.notes``, with its effect.
    """
    while (split := _heavy_pool(network, chip)) is not None:
        network = _relayed(network, split, chip)
    return network


def _heavy_pool(network: Network, chip: Chip) -> tuple[int, int] | None:
    """(projection, part) of a pool in front of a population that is too heavy; None: there is none."""
    problems = oversized_neurons(cost_model(network, chip, chip.synapses.weight_bits_default))
    heavy = {p.ids["population"] for p in problems}
    for index, projection in enumerate(network.projections):
        split = _pool_of(projection, index)
        if projection.target in heavy and split is not None:
            return split
    return None


def _pool_of(projection: Projection, index: int) -> tuple[int, int] | None:
    """(projection, part) of the last pool that is followed by another operator."""
    parts = parts_of(projection.operator)
    pools = [k for k, part in enumerate(parts[:-1]) if isinstance(part, SumPool)]
    return (index, pools[-1]) if pools else None


def _relayed(network: Network, split: tuple[int, int], chip: Chip) -> Network:
    index, part = split
    before = {p.name for p in network.populations}
    graded = chip.neuron.graded_spikes
    changed = run_passes(network, [RelayProjection(index, part, graded_spikes=graded)])
    name = next(p.name for p in changed.populations if p.name not in before)
    target = quoted(network.projections[index].target)
    effect = (
        "graded spikes carry its counts"
        if graded
        else "with one spike a step its counts are kept but spread over later steps: outputs can differ"
    )
    note = f"pool {quoted(name)} in front of {target} is mapped on relay neurons (fan-in); {effect}"
    return replace(changed, notes=(*changed.notes, note))
