"""Options of quantization, and the width of the weights of each projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nirbridge._types import Progress, no_progress
from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, did_you_mean, quoted
from nirbridge.network.model import Network, Projection
from nirbridge.quantization.calibration import Calibration


@dataclass(frozen=True, slots=True)
class QuantizationOptions:
    """Options of a quantization.

    ``weight_bits``: for all projections, or by target population or by ``'source -> target'`` (the rest: ``'*'``, else
    the chip's default). ``graded``: input -> (largest size, bits). ``run_steps``: choose scales with which v cannot
    saturate within that many time steps of any input (None: not required; the bounds say when it can). ``calibration``:
    observed ranges; then ``a_in`` and ``u`` need room for these times ``margin`` only, and the report says that they
    are not proved. ``clip``: share of the range of weights that is kept, by projection index (``calibrate.clips``).
    ``scales``: integers of v per real v, by population (``qat.scales_of`` what a model was fine-tuned
    for); refused where the chip does not hold them.
    """

    weight_bits: int | Mapping[str, int] | None = None
    graded: Mapping[str, tuple[float, int]] = field(default_factory=lambda: MappingProxyType({}))
    run_steps: int | None = None
    calibration: Calibration | None = None
    margin: float = 1.25
    clip: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    scales: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    progress: Progress = no_progress


def bits_of(projection: Projection, chip: Chip, options: QuantizationOptions) -> int:
    """The width of a projection's weights."""
    widths = options.weight_bits
    if widths is None:
        return chip.synapses.weight_bits_default
    if isinstance(widths, int):
        return widths
    pair = f"{projection.source} -> {projection.target}"
    rest = widths.get("*", chip.synapses.weight_bits_default)
    return widths.get(pair, widths.get(projection.target, rest))


def unknown_names(network: Network, options: QuantizationOptions) -> list[Diagnostic]:
    """Widths for targets and pairs that the network does not have."""
    if not isinstance(options.weight_bits, Mapping):
        return []
    names = {"*"} | {p.target for p in network.projections} | {f"{p.source} -> {p.target}" for p in network.projections}
    return [
        Diagnostic(
            f"weight_bits of {quoted(name)}",
            "the network has no such population or projection",
            "",
            did_you_mean(name, names),
        )
        for name in options.weight_bits
        if name not in names
    ]
