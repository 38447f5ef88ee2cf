"""A profile for a notebook: the energy of each layer, or of each point, as bars."""

from __future__ import annotations

from nirbridge.profiling.model import Profile
from nirbridge.report.cards.bars import Bar, bars_svg
from nirbridge.report.map_facts import figure_with_prefix
from nirbridge.report.plots.profile import energy_bars


def profile_svg(profile: Profile) -> str:
    """Bars of the energy of an inference; nothing where no chip has figures of energy."""
    bars = energy_bars(profile)
    if not bars:
        return ""
    largest = max(bar.total for bar in bars)
    shown = [Bar(bar.label, bar.total / largest, figure_with_prefix(bar.total, "J")) for bar in bars]
    return bars_svg(shown, f"energy of {profile!r}", "Energy of an inference")
