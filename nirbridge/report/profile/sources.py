"""The source of each figure that a profile rests on, by chip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nirbridge.profiling.model import ProfilePoint
from nirbridge.report.map_facts import one_line

WORST = "time where every neuron and input fires in every time step"


def source_lines(points: Sequence[ProfilePoint]) -> list[str]:
    """A line per chip and source, with the figures that are taken from it, in the words of the tables."""
    return list(dict.fromkeys(line for point in points for line in _lines(point)))


def _lines(point: ProfilePoint) -> Iterator[str]:
    chip = one_line(point.about["chip"])
    found: dict[str, list[str]] = {}
    for event in point.events:
        of: dict[str, list[str]] = {}
        pairs = (("energy", event.energy_j, event.energy_source), ("time", event.time_s, event.time_source))
        for word, value, source in pairs:
            if value:
                of.setdefault(source, []).append(word)
        for source, words in of.items():
            found.setdefault(source, []).append(f"{' and '.join(words)} of {event.kind}")
    for source, figures in found.items():
        yield f"{chip}, {', '.join(figures)}: {one_line(source) or 'the chip file names no source'}"
    if "guaranteed_step_s" in point.figures:
        yield f"{chip}, {WORST}: the same figures, messages wait for links"
