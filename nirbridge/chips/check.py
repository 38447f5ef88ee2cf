"""What every chip must satisfy: ``diagnose`` yields all problems, ``verify`` raises, ``is_valid`` is a bool."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.chips.codec import record_of, record_problems
from nirbridge.chips.model import Chip, Mesh, NumberFormats, SynapseFormat
from nirbridge.chips.schema import CORES_MAX
from nirbridge.errors import ChipError, Problem, quoted

STATE_BITS_MAX = 48
"""Widest state: times 4096 and a few bits of sums it still fits 64 bits."""
BOARD_CORES_MAX = CORES_MAX
"""Boards with more cores are refused: lists of cores would no longer fit in memory."""


def diagnose(chip: Chip) -> Iterator[Problem]:
    """Every problem of a chip: types, ranges and sources of its numbers, then what they say together."""
    problems = list(record_problems(record_of(chip)))
    yield from problems
    if problems:  # ratios of wrong numbers say nothing
        return
    thing = f"chip {quoted(chip.name)}"
    yield from _weights(thing, chip.synapses)
    yield from _memory(thing, chip.synapses)
    yield from _board(thing, chip.mesh)
    if chip.numbers is not None:
        yield from _numbers(thing, chip.numbers)
    yield from dead_core_problems(chip)


def verify(chip: Chip) -> None:
    """Raises one ChipError with all problems of ``diagnose``; returns when there are none."""
    problems = list(diagnose(chip))
    if problems:
        raise ChipError(*problems)


def is_valid(chip: Chip) -> bool:
    """True if ``diagnose`` finds nothing."""
    return next(diagnose(chip), None) is None


def _weights(thing: str, synapses: SynapseFormat) -> Iterator[Problem]:
    widths = synapses.weight_bits
    if list(widths) != sorted(set(widths)):
        yield Problem(thing, f"synapses.weight_bits is {list(widths)}", "widths ascend and are distinct")
    if synapses.weight_bits_default not in widths:
        yield Problem(
            thing,
            f"synapses.weight_bits_default is {synapses.weight_bits_default}",
            f"the chip stores {', '.join(map(str, widths))} bits",
            "take one of these",
        )


def _memory(thing: str, synapses: SynapseFormat) -> Iterator[Problem]:
    widest = max(synapses.weight_bits) + synapses.delay_bits + synapses.run_header_bits
    words = -(-widest // synapses.word_bits)
    if synapses.words is not None and words > synapses.words:
        yield Problem(
            thing,
            f"one synapse of {max(synapses.weight_bits)} bits takes {words:,} words",
            f"a core has {synapses.words:,}",
            "check synapses.words and synapses.word_bits",
        )


def _numbers(thing: str, numbers: NumberFormats) -> Iterator[Problem]:
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
    for key, value, most, why in limits:
        if value > most:
            yield Problem(thing, f"numbers.{key} is {value}", f"at most {most}: {why}")


def _board(thing: str, mesh: Mesh) -> Iterator[Problem]:
    cores = mesh.cores * mesh.chips_max
    if cores > BOARD_CORES_MAX:
        yield Problem(
            thing, f"{mesh.chips_max:,} chips of {mesh.cores:,} cores", f"at most {BOARD_CORES_MAX:,} cores on a board"
        )


def dead_core_problems(chip: Chip) -> Iterator[Problem]:
    """Dead cores that do not exist, are listed twice, or leave no core alive."""
    thing, mesh, dead = f"chip {quoted(chip.name)}", chip.mesh, chip.dead_cores
    for core in dead:
        bounds = (mesh.chips_max, mesh.width_tiles, mesh.height_tiles, mesh.cores_per_tile)
        if not all(0 <= i < n for i, n in zip(core, bounds, strict=True)):
            yield _absent_core(thing, core, bounds)
    if list(dead) != sorted(set(dead)):
        yield Problem(thing, "dead_cores has an entry twice or out of order", "cores ascend and are distinct")
    elif len(dead) >= mesh.cores * mesh.chips_max:
        yield Problem(thing, "every core is dead", "at least one must be alive")


def _absent_core(thing: str, core: tuple[int, ...], bounds: tuple[int, ...]) -> Problem:
    return Problem(
        thing,
        f"dead core {list(core)} (chip, x, y, core) does not exist",
        f"there are {bounds[0]} chips of {bounds[1]} columns, {bounds[2]} rows and {bounds[3]} cores per tile",
    )
