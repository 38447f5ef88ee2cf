"""Values in a notebook: their picture above the summary, as an image without script, so also where it is not trusted.

JupyterLab keeps images in notebooks that it does not trust and removes ``svg``, so the SVG is the image's data.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from html import escape

from nirbridge.errors import NirbridgeError
from nirbridge.files.attributes import load_attribute
from nirbridge.report.summaries import summary_html

BYTES_MAX = 60_000
"""Of a picture as it stands in the notebook; a larger one is left out."""


def value_html(value: object) -> str:
    """The picture of the value, where it has one, and its summary."""
    return _picture(value) + summary_html(value)


def _picture(value: object) -> str:
    name = next((base.__name__ for base in type(value).__mro__ if base.__name__ in _PICTURES), None)
    if name is None:
        return ""
    try:
        drawn = load_attribute(f"nirbridge.report.cards:{_PICTURES[name]}")(value)
    except NirbridgeError:  # a value of a file that was not checked: the summary says it all
        return ""
    data = b64encode(drawn.encode()).decode("ascii")
    shown = f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(repr(value))}"/>'
    return shown if drawn and len(shown) <= BYTES_MAX else ""


_PICTURES: Mapping[str, str] = {
    "Network": "network_svg",
    "MappedNetwork": "map_svg",
    "MapRecord": "record_svg",
    "Chip": "chip_svg",
    "Partition": "partition_svg",
    "QuantizedNetwork": "quantized_svg",
    "Recording": "recording_svg",
    "Profile": "profile_svg",
    "Comparison": "comparison_svg",
    "Verification": "verification_svg",
}
"""Class -> its picture; all others have their summary alone."""
