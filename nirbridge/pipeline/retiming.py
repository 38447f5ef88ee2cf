"""Delays that hold the hops of the hardware, and maps with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nirbridge.pipeline.fit import fit_to_chip
from nirbridge.pipeline.mapping import map_network
from nirbridge.pipeline.options import MapOptions

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.mapping.model import Mapped
    from nirbridge.network.model import Network
    from nirbridge.passes import Retimed


def retime(network: Network, chip: Chip, *, relays: bool = True) -> Retimed:
    """The network with what the chip's fan-in needs, and with delays that hold the hops. Raises ModelError."""
    from nirbridge.passes import balance_delays

    ready = fit_to_chip(network, chip, relays=relays)
    return balance_delays(ready, delay_steps_max=chip.core.delay_steps, graded_spikes=chip.neuron.graded_spikes)


def map_retimed(retimed: Retimed, chip: Chip, options: MapOptions | None = None) -> Mapped:
    """The map of a retimed network, with the delays that its synapses store. Raises DoesNotFit."""
    from nirbridge.passes.balance_delays import without_hops

    chosen = options or MapOptions()
    return map_network(without_hops(retimed.network), chip, replace(chosen, relays=False))
