"""The file ``README.md`` of a SANA-FE program."""

from __future__ import annotations

from pathlib import Path

from nirbridge.chips.model import Chip
from nirbridge.emitters.sanafe.model import SanafePlan
from nirbridge.errors import counted
from nirbridge.files.regular import template_text

TEMPLATES = Path(__file__).with_name("templates")
_KEPT = """Currents with memory are kept by `run.py` in the chip's integers and reach
their neurons as the bias of a time step, because SANA-FE does not round them; all else is computed by SANA-FE."""
_OWN = "All of it is computed by SANA-FE."
_FLOATING = """Currents with memory are SANA-FE's own, which are not rounded, so that
spikes may differ from the chip's."""


def readme_text(chip: Chip, plan: SanafePlan) -> str:
    """The file, without any name of the model."""
    groups = [g for g in plan.groups if g.id not in plan.input_ids]
    places = {g.place for g in groups}
    floats = any(bool(a.any()) for g in groups if not isinstance(a := g.attributes["input_decay"], str))
    currents = _KEPT if any(g.decay is not None for g in groups) else _FLOATING if floats else _OWN
    marks = {
        "CHIP": "".join(c if c.isalnum() or c in "-_." else "_" for c in chip.name),
        "NEURONS": f"{sum(g.size for g in groups):,}",
        "SYNAPSES": f"{plan.synapses:,}",
        "CORES": counted(len(places), "core"),
        "TILES": counted(len({place.tile for place in places}), "tile"),
        "CURRENTS": currents,
    }
    text = template_text(TEMPLATES / "README.md.txt")
    for mark, value in marks.items():
        text = text.replace(f"@{mark}@", value)
    return text
