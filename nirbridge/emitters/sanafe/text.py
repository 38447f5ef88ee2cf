"""Text of SANA-FE's files: numbers and mappings of YAML that its reader takes as they are."""

from __future__ import annotations

from collections.abc import Mapping


def number_text(value: float) -> str:
    """A double with a point, exactly: ``1.0e-09``, ``0.5``."""
    text = repr(float(value))
    if "e" in text:
        digits, _, exponent = text.partition("e")
        return f"{digits if '.' in digits else digits + '.0'}e{exponent}"
    return text


def value_text(value: object) -> str:
    """A value of a mapping."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return mapping_text(value)
    if isinstance(value, int):
        return str(value)
    return number_text(value) if isinstance(value, float) else str(value)


def mapping_text(values: Mapping[str, object] | Mapping[int, float]) -> str:
    """A mapping in one line."""
    return "{" + ", ".join(f"{key}: {value_text(value)}" for key, value in values.items()) + "}"
