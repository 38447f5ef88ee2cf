"""Decisions read from a byte string, so that a fuzzer that changes bytes changes decisions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
RECIPE_BYTES = 96


class Choices:
    """A recipe: the same bytes give the same decisions. After the last byte every decision is the first possible."""

    def __init__(self, recipe: bytes) -> None:
        self.recipe, self.at = recipe, 0

    @property
    def spent(self) -> bool:
        """True after the last byte."""
        return self.at >= len(self.recipe)

    def bytes(self, count: int) -> bytes:
        """The next bytes, filled up with zeros."""
        start, self.at = self.at, self.at + count
        return self.recipe[start : self.at].ljust(count, b"\0")

    def below(self, count: int) -> int:
        """A whole number from 0 to ``count - 1``."""
        if count < 2:
            return 0
        return int.from_bytes(self.bytes((count - 1).bit_length() // 8 + 1), "little") % count

    def pick(self, items: Sequence[T]) -> T:
        """One of ``items``."""
        return items[self.below(len(items))]

    def chance(self, one_in: int) -> bool:
        """True once in ``one_in``; False after the last byte."""
        return self.below(one_in) == one_in - 1

    def several(self, most: int) -> int:
        """A number from 1 to ``most``, 1 in half of all cases."""
        return 1 if self.below(2) == 0 else 1 + self.below(most)


def recipe(name: str, seed: int, index: int) -> bytes:
    """Random bytes that depend on nothing but these three."""
    return hashlib.shake_128(f"{name}/{seed}/{index}".encode()).digest(RECIPE_BYTES)
