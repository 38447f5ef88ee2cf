"""Everything that nirbridge shows of a value that a reader accepted: no exception, no control characters."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from rich.console import Console

from nirbridge.cli import shown as show
from nirbridge.cli.output import to_json
from nirbridge.errors import NirbridgeError
from nirbridge.pipeline import SavedFile, differences
from nirbridge.report.html.document import report_html, value_html
from nirbridge.report.html.page import ReportSources
from nirbridge.report.notebook import value_html as notebook_html
from nirbridge.report.summaries import plain_text, rows_of, summary
from nirbridge.report.tables import fitted
from tests.fuzz import models

WIDTHS = (120, 40)


def shown(saved: SavedFile) -> None:
    """What ``show``, ``diff``, ``repr``, ``summary``, a notebook, a frame and the page of the value print."""
    value: Any = saved.value
    with np.errstate(all="ignore"):
        to_json({"kind": saved.kind, **show.document(saved)})
        text = show.text_of(saved)
        for width in WIDTHS:
            console = Console(width=width, force_jupyter=False)
            parts = ["\n".join(text)] if isinstance(text, list) else [fitted(text, console)]
            _printable(plain_text(*parts, width=width))
        if saved.kind == "events":  # the commands alone show these
            return
        _printable(repr(value)), _printable(summary(value))
        found = list(map(str, differences(saved, saved)))
        assert not found or saved.kind == "recording"  # shapes that cannot be compared are told of
        rows_of(value), notebook_html(value)
        with contextlib.suppress(NirbridgeError):  # a page refuses what is beyond its limits
            assert value_html(value).count("<script") <= 2


def page(**parts: Any) -> None:
    """What ``report`` writes of values and the model that the files are of."""
    with np.errstate(all="ignore"):
        assert report_html(ReportSources("v", models.network(), **parts)).count("<script") == 2


def _printable(text: str) -> None:
    assert all(line.isprintable() for line in text.split("\n")), repr(text)[:160]
