"""What a chip is, as data: limits of a core, a mesh of cores, figures of energy and time, each with its source."""

from nirbridge.chips.check import diagnose, is_valid, verify
from nirbridge.chips.cores import core_at, cores_of, flat_index, without_cores
from nirbridge.chips.load import builtin_chips, from_record, load_chip
from nirbridge.chips.model import (
    Chip,
    CoreId,
    CoreLimits,
    EnergyFigures,
    Mesh,
    NeuronSupport,
    NumberFormats,
    SynapseFormat,
    TimeFigures,
)

__all__ = [
    "Chip",
    "CoreId",
    "CoreLimits",
    "EnergyFigures",
    "Mesh",
    "NeuronSupport",
    "NumberFormats",
    "SynapseFormat",
    "TimeFigures",
    "builtin_chips",
    "core_at",
    "cores_of",
    "diagnose",
    "flat_index",
    "from_record",
    "is_valid",
    "load_chip",
    "verify",
    "without_cores",
]
