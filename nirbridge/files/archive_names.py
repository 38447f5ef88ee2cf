"""Names of nodes as names of arrays in an archive: readable, and safe to unpack.

``%``, ``:``, backslashes, characters that cannot be printed, and path segments ``.`` and ``..`` are written as ``%XX``
per UTF-8 byte, empty segments as ``%``.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes


def encode_name(name: str) -> str:
    """A node's name as a part of a file's name, readable and harmless."""
    segments = name.split("/")
    return "/".join(_hex(s) if s in ("", ".", "..") else "".join(map(_safe, s)) for s in segments)


def decode_name(name: str) -> str:
    """The node's name again."""
    encoded = "/".join("" if s == "%" else s for s in name.split("/"))
    return unquote_to_bytes(encoded).decode("utf-8", "surrogatepass")


def _safe(character: str) -> str:
    return character if character.isprintable() and character not in "%\\:" else _hex(character)


def _hex(text: str) -> str:
    if not text:
        return "%"  # an empty segment; '%' never stands alone else
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))
