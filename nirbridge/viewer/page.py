"""The viewer: one static HTML page with its own readers in JavaScript, which loads nothing from anywhere.

The page opens a file that is dropped onto it; a page that is made for a file holds the bytes of that file, and opens
it at once. No Python is needed to look at either.
"""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from nirbridge._version import __version__
from nirbridge.errors import printable, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.regular import template_text

READERS = ("bytes", "hdf5", "hdf5_dense", "hdf5_values", "nir", "map", "zip", "records", "documents")
"""Scripts that make a document of a file, in the order of the page; they share one scope."""
INTERFACE = ("kit", "stage", "layout", "folding", "parameters", "graph", "plan", "recording", "app")
"""Scripts that show a document, after the readers in the same scope."""


def viewer_page(name: str = "", content: bytes = b"") -> str:
    """The page as HTML; with a name it holds this file, and shows it when it is opened."""
    style, script = _asset("view.css"), _script()
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    shown = printable(name).replace("\n", " ")
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f'<meta name="generator" content="nirbridge {__version__}">',
        f"<title>{escape(shown or 'nirbridge viewer')}</title>",
        f"<style>{style}</style>",
    ]
    file = [_file_block(shown, content)] if name else []
    body = [_asset("view.html").strip(), *file, f"<script>{script}</script>"]
    inner = "\n".join(("<head>", *head, "</head>", "<body>", *body, "</body>"))
    return f'<!doctype html>\n<html lang="en">\n{inner}\n</html>\n'


def write_viewer(path: str | os.PathLike[str], name: str = "", content: bytes = b"") -> int:
    """Write the page, whole or not at all; return its number of bytes. Raises FileError."""
    data = viewer_page(name, content).encode("utf-8", "backslashreplace")
    atomic_write_bytes(path, data, subject=f"page {quoted(Path(path).name)}")
    return len(data)


def _file_block(name: str, content: bytes) -> str:
    """The bytes of a file as a block of data, which is never run."""
    packed = base64.b64encode(content).decode()
    return f'<script type="application/octet-stream" id="file" data-name="{escape(name)}">{packed}</script>'


@cache
def _script() -> str:
    inner = "\n".join(_asset(f"{name}.js") for name in (*READERS, *INTERFACE))
    return f'"use strict";\n(() => {{\n{inner}}})();\n'


@cache
def _asset(name: str) -> str:
    return template_text(files("nirbridge.viewer").joinpath("assets", name))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
