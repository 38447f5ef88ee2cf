"""Sentences that name the cause of a difference in time between a profile and another simulator."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.emitters.witness import StageTimes, Witness
from nirbridge.report.map_facts import figure_with_prefix

TIME_SHARE = 0.10
"""Difference in time, as a part of the other simulator's, above which its cause is measured."""


def differs(ours: float, theirs: float | None) -> bool:
    """True if two times are further apart than ``TIME_SHARE`` of the second."""
    return theirs is not None and abs(ours - theirs) > TIME_SHARE * theirs


def time_causes(witness: Witness, ours: StageTimes, theirs: StageTimes, *, overlap: bool) -> Iterator[str]:
    """Sentences that name the cause of a difference in time: waiting on routes, and the rest by stages."""
    name, seconds = witness.name, witness.time_s or 0.0
    waiting = max(seconds - theirs.total_s, 0.0)
    simple = "" if theirs.simple_s is None else f", and its timing model simple gives {_time(theirs.simple_s)}"
    longer = "longer" if seconds > ours.total_s else "shorter"
    yield (
        f"its time is {_time(abs(seconds - ours.total_s))} {longer} than ours: of {name}'s {_time(seconds)},"
        f" {_time(waiting)} is waiting of messages for others on their route, by the estimate of its detailed model of"
        f" the network, which our model leaves out; without waiting its own delays add up to {_time(theirs.total_s)}"
        f" (ours: {_time(ours.total_s)}){simple}"
    )
    if not differs(ours.total_s, theirs.total_s):
        return
    rows = (("neurons", "neurons_s"), ("incoming messages", "messages_s"), ("barrier", "barrier_s"))
    pairs = (f"{label} {_time(getattr(ours, key))} and {_time(getattr(theirs, key))}" for label, key in rows)
    order = "" if overlap else f"; stages follow each other in our model of this chip, and overlap in {name}'s"
    yield f"the rest by stages, of the busiest core in each time step, ours and {name}'s: {', '.join(pairs)}{order}"


def _time(value: float) -> str:
    return figure_with_prefix(round(value, 12), "s")  # sums of doubles: what is below a picosecond is rounding
