"""Validity of a chip: ``diagnose_chip`` yields every problem, ``check_chip`` raises them all."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.chips.boards import board_problems
from nirbridge.chips.codec import chip_dict_problems, chip_to_dict
from nirbridge.chips.model import Chip, Mesh, NumberFormats, SynapseFormat
from nirbridge.chips.schema import CORES_MAX
from nirbridge.errors import ChipError, Diagnostic, quoted

STATE_BITS_MAX = 48
"""Widest state: times 4096 and a few bits of sums it still fits 64 bits."""


def diagnose_chip(chip: Chip) -> Iterator[Diagnostic]:
    """Every problem of a chip: types, ranges and sources of its numbers, then their relations."""
    problems = list(chip_dict_problems(chip_to_dict(chip)))
    yield from problems
    if problems:  # relations of wrong numbers are meaningless
        return
    subject = f"chip {quoted(chip.name)}"
    yield from _weights(subject, chip.synapses)
    yield from _memory(subject, chip.synapses)
    yield from _board(subject, chip.mesh)
    yield from board_problems(subject, chip)
    if chip.numbers is not None:
        yield from _numbers(subject, chip.numbers)
    yield from dead_core_problems(chip)


def check_chip(chip: Chip) -> None:
    """Raise one ChipError with all problems of ``diagnose_chip``."""
    ChipError.raise_all(diagnose_chip(chip))


def is_valid_chip(chip: Chip) -> bool:
    """True if ``diagnose_chip`` finds nothing."""
    return next(diagnose_chip(chip), None) is None


def _weights(subject: str, synapses: SynapseFormat) -> Iterator[Diagnostic]:
    widths = synapses.weight_bits
    if list(widths) != sorted(set(widths)):
        yield Diagnostic(subject, f"synapses.weight_bits is {list(widths)}", "widths ascend and are distinct")
    if synapses.weight_bits_default not in widths:
        yield Diagnostic(
            subject,
            f"synapses.weight_bits_default is {synapses.weight_bits_default}",
            f"the chip stores {', '.join(map(str, widths))} bits",
            "take one of these",
        )


def _memory(subject: str, synapses: SynapseFormat) -> Iterator[Diagnostic]:
    widest = max(synapses.weight_bits) + synapses.delay_bits + synapses.run_header_bits
    words = -(-widest // synapses.word_bits)
    if synapses.words is not None and words > synapses.words:
        yield Diagnostic(
            subject,
            f"one synapse of {max(synapses.weight_bits)} bits takes {words:,} words",
            f"a core has {synapses.words:,}",
            "check synapses.words and synapses.word_bits",
        )


def _numbers(subject: str, numbers: NumberFormats) -> Iterator[Diagnostic]:
    limits = (
        ("du_max", numbers.du_max, 4095, "decays are parts of 4096, and the current loses one more"),
        ("dv_max", numbers.dv_max, 4096, "decays are parts of 4096"),
        ("u_bits", numbers.u_bits, STATE_BITS_MAX, "the integer simulator has 64 bits"),
        ("v_bits", numbers.v_bits, STATE_BITS_MAX, "the integer simulator has 64 bits"),
        ("vth_bits", numbers.vth_bits, numbers.v_bits - 7, "a threshold, times 64, lies within the membrane"),
        ("a_in_bits", numbers.a_in_bits, numbers.u_bits - 6, "the input, times 64, lies within the current"),
        ("bias_mant_bits", numbers.bias_mant_bits, numbers.v_bits, "a bias lies within the membrane"),
        ("bias_exp_max", numbers.bias_exp_max, 15, "a bias lies within the membrane"),
        ("weight_exp_max", numbers.weight_exp_max, 15, "weights lie within the input"),
    )
    for key, value, largest, why in limits:
        if value > largest:
            yield Diagnostic(subject, f"numbers.{key} is {value}", f"at most {largest}: {why}")


def _board(subject: str, mesh: Mesh) -> Iterator[Diagnostic]:
    if mesh.cores * mesh.chips_max > CORES_MAX:  # lists of cores would no longer fit in memory
        yield Diagnostic(
            subject,
            f"{mesh.chips_max:,} chips of {mesh.cores:,} cores",
            f"at most {CORES_MAX:,} cores on a board",
        )


def dead_core_problems(chip: Chip) -> Iterator[Diagnostic]:
    """Dead cores that do not exist, are listed twice, or leave no core alive."""
    subject, mesh, dead = f"chip {quoted(chip.name)}", chip.mesh, chip.dead_cores
    for core in dead:
        bounds = (mesh.chips_max, mesh.width_tiles, mesh.height_tiles, mesh.cores_per_tile)
        if not all(0 <= i < n for i, n in zip(core, bounds, strict=True)):
            found = f"dead core {list(core)} (chip, x, y, core) does not exist"
            chips, width, height, cores = bounds
            limit = f"there are {chips} chips of {width} columns, {height} rows and {cores} cores per tile"
            yield Diagnostic(subject, found, limit)
    if list(dead) != sorted(set(dead)):
        yield Diagnostic(subject, "dead_cores has an entry twice or out of order", "cores ascend and are distinct")
    elif len(dead) >= mesh.cores * mesh.chips_max:
        yield Diagnostic(subject, "every core is dead", "at least one must be alive")
