"""Chip descriptions as data: limits of a core, a mesh of cores, figures of energy and time, each with its source."""

import sys
import types

from nirbridge.chips.check import check_chip, diagnose_chip, is_valid_chip
from nirbridge.chips.cores import Cores, core_at, cores_of, flat_index, without_cores
from nirbridge.chips.load import builtin_chips, chip_from_dict, described_chip, read_chip, with_values
from nirbridge.chips.model import (
    Board,
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
from nirbridge.files.attributes import load_attribute

__all__ = [
    "Board",
    "Chip",
    "CoreId",
    "CoreLimits",
    "Cores",
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
    "described_chip",
    "diagnose_chip",
    "flat_index",
    "is_valid_chip",
    "read_chip",
    "with_values",
    "without_cores",
]


class _ChipsRoom(types.ModuleType):
    """This package, which is also the function ``nirbridge.chips()``: a package and a function cannot share a name."""

    def __call__(self) -> tuple[str, ...]:
        """Names of all chips, nirbridge's own and those of plugins, in alphabetical order.

        Example:
            >>> nb.chips()
            ('crossbar256', 'halapoint', 'loihi1', 'loihi2')
        """
        return load_attribute("nirbridge.plugins:chip_names")()


sys.modules[__name__].__class__ = _ChipsRoom
