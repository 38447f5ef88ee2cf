"""Can a chip run a network? Decided from network and chip alone, for every command and for the checker of maps.

No data, no scale and no partition is needed. Delays are found by ``passes.Retime``, limits of cores are the
partitioner's and the checker's own; everything else that a chip's neurons and synapses cannot do is a rule here.
For neurons without memory a missing kind of reset is no obstacle: a reset to 0 changes none of their spikes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from nirbridge.arrays import Array, compact, freeze
from nirbridge.chips import builtin_chips, read_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, counted, quoted
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.neurons import EXTRAS, extra_arrays, extras_of
from nirbridge.quantization.formats import DECAY_ONE, formats_of, grid_of
from nirbridge.quantization.operators import gained_operator, weights_of
from nirbridge.quantization.weights import weight_range

WEIGHT_BITS_MAX = 8
"""Widest weights of ``formats.grid_of``."""


class MissingFeature(NamedTuple):
    """Something that a chip cannot do: the fact found, the chip's limit, and advice besides another chip."""

    found: str
    limit: str
    advice: str = ""


Rule = Callable[[Population, Chip], Iterator[MissingFeature]]


def feature_problems(network: Network, chip: Chip, bits: Callable[[Projection], int]) -> Iterator[Diagnostic]:
    """Every reason why the chip's neurons and synapses cannot run the network; none: they can.

    Rules that need the chip's ``[numbers]`` are left out where its file has none.

    Args:
        network: with the chip's relays, before or after retiming.
        chip: whose neurons, number formats and weight widths are used.
        bits: width of the weights of a projection.
    """
    for population in network.populations:
        for rule in RULES:
            for fault in rule(population, chip):
                ids = MappingProxyType({"population": population.name, "rule": rule.__name__.strip("_")})
                advice = _advice(fault, chip, lambda other, r=rule, p=population: next(r(p, other), None) is None)
                yield Diagnostic(f"population {quoted(population.name)}", fault.found, fault.limit, advice, ids)
    inside = {p.name: p for p in network.populations}
    for projection in network.projections:
        if projection.target in inside:
            subject = f"projection {quoted(projection.source)} -> {quoted(projection.target)}"
            for fault in _synapses(inside, projection, chip, bits(projection)):
                yield Diagnostic(subject, fault.found, fault.limit, fault.advice)


def _advice(fault: MissingFeature, chip: Chip, able: Callable[[Chip], bool]) -> str:
    """The built-in chips that can do it, and the fault's own advice."""
    names = [other.name for other in _builtin() if other.name != chip.name and able(other)]
    chips = f"choose a chip that can ({', '.join(names)})" if names else ""
    return ", or ".join(text for text in (chips, fault.advice) if text)


@lru_cache(maxsize=1)
def _builtin() -> tuple[Chip, ...]:
    return tuple(read_chip(name) for name in builtin_chips())


# -- neurons -----------------------------------------------------------------------------------------------------


def is_memoryless(population: Population) -> bool:
    """True if the membrane keeps nothing between time steps, so that a reset has no effect (``Threshold``)."""
    return not bool(np.any(population.neuron.a_mem))


def _decays(population: Population, chip: Chip) -> Iterator[MissingFeature]:
    """Decays that no integers have, and those faster than the chip's; 1/4096 of memory is emulated for none."""
    n, numbers = population.neuron, chip.numbers
    if numbers is None:
        return
    for name, decay, parts in (
        ("membrane", n.a_mem, numbers.dv_max),
        ("synaptic current", n.a_syn, numbers.du_max + 1),
    ):
        if bool(np.any((decay < 0) | (decay > 1))):
            found = f"its {name} is multiplied by {_outside(decay):g} per time step"
            yield MissingFeature(
                found, "integers decay by a factor of 0 to 1", "make dt smaller than the time constant"
            )
            continue
        least, fastest = 1.0 - parts / DECAY_ONE, float(np.min(decay))
        if least - fastest > 1.5 / DECAY_ONE:
            found = f"its {name.rpartition(' ')[2]} is multiplied by {fastest:g} per time step"
            yield MissingFeature(found, f"the decays of chip {quoted(chip.name)} keep {least:g} or more")
    if bool(np.any((n.a_syn == 1.0) & n.has_synapse)):
        yield MissingFeature("its synaptic current never decays", "the chip's loses 1/4096 per time step or more")


def _outside(decay: Array) -> float:
    flat = decay.reshape(-1)
    return float(flat[int(np.argmax(np.abs(flat - 0.5)))])


def _current(population: Population, chip: Chip) -> Iterator[MissingFeature]:
    if bool(np.any(population.neuron.a_syn != 0)) and not chip.neuron.synaptic_current:
        limit = f"neurons of chip {quoted(chip.name)} have none"
        yield MissingFeature("a decaying synaptic current", limit, "train neurons without a synaptic time constant")


def _reset(population: Population, chip: Chip) -> Iterator[MissingFeature]:
    n, name = population.neuron, quoted(chip.name)
    if not n.fires or is_memoryless(population):
        return
    if n.reset == "subtract" and not chip.neuron.soft_reset:
        yield MissingFeature(
            "a soft reset", f"chip {name} resets the membrane to a value", "train with a reset to a value"
        )
    if n.reset == "none" and chip.numbers is not None and not chip.numbers.programmable:
        yield MissingFeature("no reset", f"chip {name} resets every neuron that fires", "train with a reset to a value")


def _spikes(population: Population, chip: Chip) -> Iterator[MissingFeature]:
    n = population.neuron
    if not n.fires or n.max_spikes == 1:
        return
    if not chip.neuron.graded_spikes:
        limit = f"chip {quoted(chip.name)} sends 0 or 1"
        yield MissingFeature(f"up to {n.max_spikes:,} spikes per time step", limit, "train with 1 spike per time step")
    if chip.numbers is None:
        return
    if bool(np.any(n.v_reset != 0)) and n.reset == "to-value":
        yield MissingFeature(
            "several spikes per time step and a reset to another value than 0", "", "reset to 0 or subtract"
        )
    if n.theta is not None and bool(np.any(n.theta <= 0)):
        yield MissingFeature(
            "several spikes per time step with a threshold of 0 or less", "", "give a positive threshold"
        )


def _refractory(population: Population, chip: Chip) -> Iterator[MissingFeature]:
    n = population.neuron
    longest = int(np.max(n.refractory_steps)) if n.fires else 0
    limit = None if chip.numbers is None else chip.numbers.refractory_steps_max
    if limit is not None and longest > limit:
        found = f"a refractory time of {counted(longest, 'time step')}"
        yield MissingFeature(found, f"chip {quoted(chip.name)} has at most {limit:,}", "make dt larger")


def _extras(population: Population, chip: Chip) -> Iterator[MissingFeature]:
    arrays = extra_arrays(population.neuron)
    for name in extras_of(population.neuron):
        if not getattr(chip.neuron, name) and not (EXTRAS[name].of_v and is_memoryless(population)):
            said = (f"{k} = {float(np.max(x)):g}" for k, x in arrays.items() if k.partition(".")[0] == name)
            found = f"{EXTRAS[name].noun} ({', '.join(said)})"
            yield MissingFeature(found, f"neurons of chip {quoted(chip.name)} have none", EXTRAS[name].hint)


def _threshold(population: Population, chip: Chip) -> Iterator[MissingFeature]:
    n = population.neuron
    if n.theta is None or chip.numbers is None or chip.numbers.programmable:
        return
    offset = n.v_reset if n.reset == "to-value" or bool(np.any(n.refractory_steps > 0)) else 0.0
    if bool(np.any(n.theta - offset < 0)):
        found = "a threshold below the value that it resets to"
        yield MissingFeature(
            found, f"chip {quoted(chip.name)} has thresholds from 0 up", "train with positive thresholds"
        )


RULES: tuple[Rule, ...] = (_decays, _current, _reset, _spikes, _refractory, _extras, _threshold)


# -- synapses ----------------------------------------------------------------------------------------------------


def _synapses(inside: Mapping[str, Population], p: Projection, chip: Chip, bits: int) -> Iterator[MissingFeature]:
    if p.source in inside and not inside[p.source].neuron.fires:
        yield MissingFeature("sends the membrane of a readout", "a chip's neurons send spikes", "give it a threshold")
    if bits not in chip.synapses.weight_bits:
        stored = ", ".join(map(str, chip.synapses.weight_bits))
        yield MissingFeature(
            f"weights of {counted(bits, 'bit')}", f"chip {quoted(chip.name)} has {stored}", "choose one of these"
        )
    elif chip.numbers is not None and bits > WEIGHT_BITS_MAX:
        limit = f"integer weights have 1 to {WEIGHT_BITS_MAX}"
        yield MissingFeature(f"weights of {counted(bits, 'bit')}, more than 8 bits", limit, "choose fewer")
    elif chip.numbers is not None and grid_of(bits, "mixed").high == 0 and _has_both_signs(inside[p.target], p, bits):
        limit = f"{bits} bit with both signs holds {grid_of(bits, 'mixed').low} and 0"
        yield MissingFeature("weights of both signs", limit, "give 2 bits or more")


def _has_both_signs(target: Population, p: Projection, bits: int) -> bool:
    gain = compact(target.neuron.g_mem * target.neuron.g_syn)
    return weight_range(weights_of(gained_operator(p.operator, gain)), bits).mode == "mixed"


def with_known_resets(network: Network, chip: Chip) -> Network:
    """The network in which populations that forget v in every time step reset to a value where the chip knows no other.

    The state that such a neuron carries over is multiplied by 0, so its spikes are the same after any reset and with
    any floor, which is dropped where the chip has none; only the recorded v differs. Other populations are left as they
    are.
    """
    changed = tuple(_forgetful(p, chip) for p in network.populations)
    return network if changed == network.populations else replace(network, populations=changed)


def _forgetful(population: Population, chip: Chip) -> Population:
    if not population.neuron.fires or not is_memoryless(population):
        return population
    unknown = [name for name in extras_of(population.neuron) if EXTRAS[name].of_v and not getattr(chip.neuron, name)]
    if unknown:
        population = replace(population, neuron=replace(population.neuron, **dict.fromkeys(unknown)))
    return _reset_to_value(population) if _needs_it(population, chip) else population


def _needs_it(population: Population, chip: Chip) -> bool:
    resets = {"to-value", *(["subtract"] if chip.neuron.soft_reset else [])}
    resets |= {"none"} if formats_of(chip).programmable else set()
    return population.neuron.reset not in resets


def _reset_to_value(population: Population) -> Population:
    n = population.neuron
    value = n.v_reset if bool(np.any(n.refractory_steps > 0)) else freeze(np.float64(0.0))
    fixed = None if n.adaptation is None else replace(n.adaptation, in_reset=False)
    return replace(population, neuron=replace(n, reset="to-value", v_reset=value, adaptation=fixed))
