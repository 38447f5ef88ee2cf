"""Base of the values that stages take and return: one line in print, a summary in text, a table on request.

The words are those of the room ``report``, which knows every value and is loaded when the first one is shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nirbridge.files.attributes import load_attribute

if TYPE_CHECKING:
    from pandas import DataFrame


class Value:
    """A value of a stage, shown in words of the room ``report``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return load_attribute("nirbridge.report.lines:repr_line")(self)

    def summary(self) -> str:
        """The value in plain text, lines of at most 120 characters; names from files are escaped."""
        return load_attribute("nirbridge.report.summaries:summary")(self)

    def to_frame(self) -> DataFrame:
        """The value as a ``pandas.DataFrame`` with a row per part. Raises UsageError: pandas is not installed."""
        return load_attribute("nirbridge.report.summaries:to_frame")(self)

    def _repr_html_(self) -> str:
        return load_attribute("nirbridge.report.notebook:value_html")(self)


class ReportedValue(Value):
    """A value that writes its own page."""

    __slots__ = ()

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the value as one self-contained HTML page, whole or not at all. Raises FileError."""
        load_attribute("nirbridge.report.html.document:write_value")(self, path)


class SavedValue(Value):
    """A value that has a file format of its own."""

    __slots__ = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the value as ``nirbridge.save`` does, whole or not at all. Raises FileError or UsageError."""
        load_attribute("nirbridge.api.files:save")(self, path)
