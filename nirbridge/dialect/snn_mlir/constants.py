"""Values of constants: nested lists, one value for all, or the bytes in hexadecimal, as MLIR writes them."""

from __future__ import annotations

import math
import re

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, all_finite, freeze

DTYPES = {"f32": np.dtype("<f4"), "f64": np.dtype("<f8")}
_NUMBER = r"[-+]?\d{1,40}(?:\.\d{0,40}(?:[eE][-+]?\d{1,5})?)?"
_WORD = re.compile(_NUMBER, re.ASCII)
_ALLOWED = re.compile(r"[\s\[\],0-9a-fA-FxE+.\-]*", re.ASCII)
_BETWEEN = re.compile(r"[\[\],\s]+", re.ASCII)
_BITS = {4: "<u4", 8: "<u8"}


def constant(text: str, shape: Shape, element: str) -> Array:
    """The values of ``dense<…>`` in a shape, finite numbers.

    Raises:
        ValueError: anything else; the message has the fault.
    """
    dtype, content = DTYPES[element], text.removeprefix("dense<").removesuffix(">").strip()
    values = _bytes(content, shape, dtype) if content.startswith('"') else _numbers(content, shape, dtype)
    if not all_finite(values):
        raise ValueError("numbers that are not finite")
    return values


def _bytes(content: str, shape: Shape, dtype: np.dtype) -> Array:
    if not re.fullmatch(r'"0x[0-9a-fA-F]*"', content, re.ASCII):
        raise ValueError("text where numbers are expected")
    digits = content[3:-1]
    if len(digits) == 2 * dtype.itemsize and math.prod(shape) != 1:  # one value for all
        return np.broadcast_to(freeze(np.frombuffer(bytes.fromhex(digits), dtype)[0]), shape)
    if len(digits) != 2 * dtype.itemsize * math.prod(shape):
        raise ValueError(f"{len(digits) // 2:,} bytes for an array of shape {shape}")
    return freeze(np.frombuffer(bytes.fromhex(digits), dtype).reshape(shape), dtype.newbyteorder("="))


def _numbers(content: str, shape: Shape, dtype: np.dtype) -> Array:
    if not _ALLOWED.fullmatch(content):
        raise ValueError("words where numbers are expected")
    if not content.startswith("["):
        return np.broadcast_to(freeze(_values([content], dtype)[0]), shape)
    size = math.prod(shape)
    structure = re.sub(r"[^\[\],]+", "", content)
    if len(structure) > len(content) or size > len(content) or structure != _lists(shape):
        raise ValueError(f"lists that are not of shape {shape}")
    words = [word for word in _BETWEEN.split(content) if word]
    if len(words) != size:
        raise ValueError(f"{len(words):,} numbers for an array of shape {shape}")
    return freeze(_values(words, dtype).reshape(shape))


def _lists(shape: Shape) -> str:
    """The brackets and commas of nested lists; rows are as long as the text at most."""
    found = ""
    for extent in reversed(shape):
        found = f"[{','.join([found] * extent)}]"
    return found


def _values(words: list[str], dtype: np.dtype) -> Array:
    if any("x" in word for word in words):
        return np.array([_value(word, dtype) for word in words], dtype.newbyteorder("="))
    for word in words:
        if not _WORD.fullmatch(word):
            raise ValueError("words where numbers are expected")
    with np.errstate(over="ignore"):  # infinite values are refused
        return np.array([float(word) for word in words]).astype(dtype.newbyteorder("="))


def _value(word: str, dtype: np.dtype) -> float:
    """A decimal number, or the bits of one in hexadecimal."""
    if re.fullmatch(rf"0x[0-9a-fA-F]{{{2 * dtype.itemsize}}}", word, re.ASCII):
        return float(np.array(int(word, 16), _BITS[dtype.itemsize]).view(dtype))
    if not _WORD.fullmatch(word):
        raise ValueError("words where numbers are expected")
    return float(word)
