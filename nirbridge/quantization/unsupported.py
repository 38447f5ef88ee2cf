"""Why a network cannot be quantized for a chip with these options: all problems, with hints."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, counted, did_you_mean, quoted
from nirbridge.network.model import Network
from nirbridge.quantization import legality
from nirbridge.quantization.options import QuantizationOptions, bits_of, unknown_names


def quantization_problems(network: Network, chip: Chip, options: QuantizationOptions) -> Iterator[Diagnostic]:
    """Every reason why the network cannot be quantized for the chip."""
    yield from legality.feature_problems(network, chip, lambda p: bits_of(p, chip, options))
    yield from _delay_problems(network, chip)
    yield from unknown_names(network, options)
    yield from _input_problems(network, chip, options)
    names = {p.name for p in network.populations}
    for name, scale in options.scales.items():
        if name not in names or not (np.isfinite(scale) and scale > 0):
            yield Diagnostic(
                f"scale of {quoted(name)}", f"{scale:g}", "a number above 0, of a population of the network"
            )


def _delay_problems(network: Network, chip: Chip) -> Iterator[Diagnostic]:
    """Delays of a network that runs as it is: a hop takes one time step of every delay, the synapse the rest."""
    inside, longest = {p.name for p in network.populations}, chip.core.delay_steps
    for p in network.projections:
        if p.target not in inside:
            continue
        least, most = int(p.delay_steps.min()), int(p.delay_steps.max())
        subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
        if least < 1 or bool(np.any(p.target_delay_steps)):
            found = "a delay per target" if np.any(p.target_delay_steps) else f"a delay of {least} time steps"
            yield Diagnostic(
                subject, found, "every hop on a chip takes a time step", "retime the network first (passes.Retime)"
            )
        elif longest is not None and most - 1 > longest:
            limit = f"a hop of chip {quoted(chip.name)} and its synapse delay by at most {longest + 1:,} time steps"
            step = "retime the network with delay_steps_max (passes.Retime)"
            yield Diagnostic(subject, f"a delay of {most:,} time steps", limit, step)


def _input_problems(network: Network, chip: Chip, options: QuantizationOptions) -> Iterator[Diagnostic]:
    names = {port.name for port in network.inputs}
    for name, (size, bits) in options.graded.items():
        subject = f"input {quoted(name)}"
        if name not in names:
            yield Diagnostic(subject, "the network has no input of that name", "", did_you_mean(name, names))
        if not chip.neuron.graded_spikes:
            step = "turn values into spikes first (simulators.encoders: rate or latency code)"
            yield Diagnostic(subject, "graded values", f"chip {quoted(chip.name)} sends 0 or 1", step)
        if not (np.isfinite(size) and size > 0 and 2 <= bits <= 24):
            yield Diagnostic(
                subject, f"values up to {size:g} in {counted(bits, 'bit')}", "sizes are above 0, bits 2 to 24"
            )
