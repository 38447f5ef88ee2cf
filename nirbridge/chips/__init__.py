"""What a chip is, as data: limits of a core, a mesh of cores, figures of energy and time, each with its source."""

from nirbridge.chips.check import check_chip, diagnose_chip, is_valid_chip
from nirbridge.chips.cores import core_at, cores_of, flat_index, without_cores
from nirbridge.chips.load import builtin_chips, chip_from_dict, read_chip
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
    "check_chip",
    "chip_from_dict",
    "core_at",
    "cores_of",
    "diagnose_chip",
    "flat_index",
    "is_valid_chip",
    "read_chip",
    "without_cores",
]
