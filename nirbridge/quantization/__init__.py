"""A network in a chip's integers: what every number became, what that costs, and the proof that nothing overflows."""

from nirbridge.quantization.model import (
    Bounds,
    FixedInput,
    FixedNeuron,
    FixedPopulation,
    FixedProjection,
    LayerReport,
    Quantized,
)

__all__ = [
    "Bounds",
    "FixedInput",
    "FixedNeuron",
    "FixedPopulation",
    "FixedProjection",
    "LayerReport",
    "Quantized",
]
