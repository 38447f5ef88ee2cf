"""What a chip's neurons can not do: every population is listed, with what would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.errors import Problem, quoted
from nirbridge.network.model import Network, Population
from nirbridge.quantization.folding import neuron_problems
from nirbridge.quantization.formats import formats_of

if TYPE_CHECKING:
    from nirbridge.quantization.quantize import Options


def problems_of(network: Network, chip: Chip, options: Options) -> Iterator[Problem]:
    """Every reason why the network can not be quantized for the chip."""
    for population in network.populations:
        yield from neuron_problems(population)
        yield from _of_chip(population, chip)
    yield from _projection_problems(network)
    yield from _width_problems(network, chip, options)
    yield from _input_problems(network, chip, options)
    names = {p.name for p in network.populations}
    for name, scale in options.scales.items():
        if name not in names or not (np.isfinite(scale) and scale > 0):
            yield Problem(f"scale of {quoted(name)}", f"{scale:g}", "a number above 0, of a population of the network")


def _of_chip(population: Population, chip: Chip) -> Iterator[Problem]:
    n, thing = population.neuron, f"population {quoted(population.name)}"
    numbers, name = formats_of(chip), quoted(chip.name)
    if not n.fires:
        return
    if n.reset == "subtract" and not chip.neuron.soft_reset:
        step = "take a chip with soft reset (loihi2), or train with a reset to a value"
        yield Problem(thing, "a soft reset", f"chip {name} resets the membrane to a value", step)
    if n.reset == "none" and not numbers.programmable:
        yield Problem(
            thing, "no reset", f"chip {name} resets every neuron that fires", "take a chip with programs (loihi2)"
        )
    if n.max_spikes > 1 and not chip.neuron.graded_spikes:
        step = "take a chip with graded spikes (loihi2), or 1 spike a step"
        yield Problem(thing, f"up to {n.max_spikes} spikes a step", f"chip {name} sends 0 or 1", step)
    longest, limit = int(np.max(n.refractory_steps)), numbers.refractory_steps_max
    if limit is not None and longest > limit:
        yield Problem(thing, f"a refractory time of {longest} steps", f"chip {name} has {limit}", "make dt larger")
    if n.theta is not None and not numbers.programmable and bool(np.any(n.theta - n.v_reset < 0)):
        yield Problem(thing, "a threshold below the value that it resets to", f"chip {name} has thresholds from 0 up")


def _projection_problems(network: Network) -> Iterator[Problem]:
    inside = {p.name: p for p in network.populations}
    for p in network.projections:
        if p.target not in inside:
            continue
        thing = f"projection {quoted(p.source)} -> {quoted(p.target)}"
        if int(p.delay_steps.min()) < 1 or bool(np.any(p.target_delay_steps)):
            found = (
                "a delay per target" if np.any(p.target_delay_steps) else f"a delay of {int(p.delay_steps.min())} steps"
            )
            yield Problem(thing, found, "every hop of a chip takes a step", "retime the network first (balance_delays)")
        if p.source in inside and not inside[p.source].neuron.fires:
            yield Problem(
                thing, "sends the membrane of a read-out", "a chip's neurons send spikes", "give it a threshold"
            )


def _width_problems(network: Network, chip: Chip, options: Options) -> Iterator[Problem]:
    from nirbridge.quantization.quantize import bits_of, unknown_names

    yield from unknown_names(network, options)
    inside, widths = {p.name for p in network.populations}, chip.synapses.weight_bits
    asked = {bits_of(p, chip, options) for p in network.projections if p.target in inside}
    for bits in sorted(asked - set(widths)):
        yield Problem(f"weights of {bits} bits", f"chip {quoted(chip.name)} has {', '.join(map(str, widths))}")
    for p in network.projections:
        if p.target in inside and bits_of(p, chip, options) > 8:
            yield Problem(
                f"projection {quoted(p.source)} -> {quoted(p.target)}", "more than 8 bits", "weights have 1 to 8"
            )


def _input_problems(network: Network, chip: Chip, options: Options) -> Iterator[Problem]:
    names = {port.name for port in network.inputs}
    for name, (size, bits) in options.graded.items():
        thing = f"input {quoted(name)}"
        if name not in names:
            yield Problem(thing, "the network has no input of that name")
        if not chip.neuron.graded_spikes:
            step = "turn values into spikes first (simulators.encoders: rate or latency code)"
            yield Problem(thing, "graded values", f"chip {quoted(chip.name)} sends 0 or 1", step)
        if not (np.isfinite(size) and size > 0 and 2 <= bits <= 24):
            yield Problem(thing, f"values up to {size:g} in {bits} bits", "sizes are above 0, bits 2 to 24")
