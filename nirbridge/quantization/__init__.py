"""A network in a chip's integers, the errors of rounding, and the proof that no accumulator overflows."""

from nirbridge.quantization.calibration import Calibration, ObservedRange
from nirbridge.quantization.error_bounds import v_bounds
from nirbridge.quantization.model import (
    AccumulatorBounds,
    FixedInput,
    FixedNeuron,
    FixedPopulation,
    FixedProjection,
    LayerReport,
    QuantizedNetwork,
    VBound,
)
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.overflow import prove
from nirbridge.quantization.quantize import quantize

__all__ = [
    "AccumulatorBounds",
    "Calibration",
    "FixedInput",
    "FixedNeuron",
    "FixedPopulation",
    "FixedProjection",
    "LayerReport",
    "ObservedRange",
    "QuantizationOptions",
    "QuantizedNetwork",
    "VBound",
    "prove",
    "quantize",
    "v_bounds",
]
