"""A network in a chip's integers: what every number became, what that costs, and the proof that nothing overflows."""

from nirbridge.quantization.calibration import Calibration, Seen
from nirbridge.quantization.error_bounds import v_bounds
from nirbridge.quantization.model import (
    Bounds,
    FixedInput,
    FixedNeuron,
    FixedPopulation,
    FixedProjection,
    LayerReport,
    Quantized,
    VBound,
)
from nirbridge.quantization.options import Options
from nirbridge.quantization.overflow import prove
from nirbridge.quantization.quantize import quantize

__all__ = [
    "Bounds",
    "Calibration",
    "FixedInput",
    "FixedNeuron",
    "FixedPopulation",
    "FixedProjection",
    "LayerReport",
    "Options",
    "Quantized",
    "Seen",
    "VBound",
    "prove",
    "quantize",
    "v_bounds",
]
