"""The frame of a page (head, security policy, navigation; style and script are files beside) and its sources."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nirbridge._version import __version__
from nirbridge.files.regular import template_text
from nirbridge.report.html.tags import Child, Markup, joined, short, tag

if TYPE_CHECKING:
    from nirbridge.comparison.types import Comparison
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.network.model import Network
    from nirbridge.partitioner.model import Partition
    from nirbridge.quantization.model import QuantizedNetwork
    from nirbridge.simulators.types import Recording
    from nirbridge.verification.verify import Verification


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: its anchor, heading, one sentence that says the result, and its content."""

    anchor: str
    heading: str
    lead: str
    body: Child


def page(title: str, facts: Sequence[str], sections: Sequence[Section], data: Mapping[str, Any]) -> str:
    """A self-contained HTML document; ``data`` is for its script, as JSON that is never run."""
    style, script = asset("page.css"), asset("page.js")
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}';"
        " base-uri 'none'; form-action 'none'"
    )
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"nirbridge {__version__}"),
        tag("title", short(title)),
        tag("style", Markup(style)),
    ]
    body = [
        tag("a", "Skip to the content", href="#content", class_="skip"),
        _header(title, facts),
        _navigation(sections) if len(sections) > 1 else None,
        tag("main", map(_section, sections), id="content", tabindex="-1"),
        tag("footer", tag("p", f"Made by nirbridge {__version__}. This page is one file and loads nothing.")),
        tag("script", Markup(_json(data)), type="application/json", id="data"),
        tag("script", Markup(script)),
    ]
    inner = joined((tag("head", head), Markup("\n"), tag("body", body)))
    return f'<!doctype html>\n<html lang="en">{inner}</html>\n'


def _header(title: str, facts: Sequence[str]) -> Markup:
    button = tag("button", "Dark", type="button", id="theme", aria_pressed="false", hidden=True)
    return tag(
        "header",
        tag("div", tag("h1", short(title, 100)), button, class_="title"),
        tag("p", (tag("span", fact) for fact in facts), class_="under"),
    )


def _navigation(sections: Sequence[Section]) -> Markup:
    links = (tag("li", tag("a", section.heading, href=f"#{section.anchor}")) for section in sections)
    return tag("nav", tag("ul", links), aria_label="Sections")


def _section(section: Section) -> Markup:
    heading = tag("h2", section.heading)
    lead = tag("p", section.lead, class_="lead") if section.lead else None
    return tag("section", heading, lead, section.body, id=section.anchor)


def _json(data: Mapping[str, Any]) -> str:
    """JSON inside a script element: no ``<``, so that nothing in it ends the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def asset(name: str) -> str:
    """The style or the script of every page."""
    return template_text(files("nirbridge.report.html").joinpath(name))


# -- sources -------------------------------------------------------------------------------------------------------
# Everything that a report is about: values of the stages of one model.


@dataclass(frozen=True, slots=True, eq=False)
class ReportSources:
    """Parts of a report; None or empty: there is none, and its sections are left out.

    ``network``: the model as it was read; ``mapped`` holds the network as it is mapped. ``recordings`` by name.
    ``remarks``: sentences on how the parts belong together.
    """

    title: str
    network: Network | None = None
    mapped: MappedNetwork | None = None
    partition: Partition | None = None
    quantized: QuantizedNetwork | None = None
    verification: Verification | None = None
    comparison: Comparison | None = None
    recordings: Mapping[str, Recording] = field(default_factory=lambda: MappingProxyType({}))
    remarks: tuple[str, ...] = ()

    @property
    def drawn(self) -> Network | None:
        """The network of the picture: that of the map where there is one, since its populations are those of cores."""
        return self.network if self.mapped is None else self.mapped.network
