"""Parts of operations in snn-mlir's text: names, types, attributes, and sums of arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nirbridge.dialect.snn_mlir.constants import DTYPES
from nirbridge.dialect.snn_mlir.tokens import Memory, Tokens
from nirbridge.errors import ModelError, quoted

SUM = "linalg.generic"
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Op:
    """An operation: arrays that it reads, keeps state in and writes, their types in that order, its attributes."""

    name: str
    line: int
    reads: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    writes: str = ""
    bias: str = ""
    types: tuple[Memory, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


class PartParser:
    """A parser of what operations consist of."""

    def __init__(self, tokens: Tokens) -> None:
        self.t = tokens
        self.maps: dict[str, str] = {}

    def new(self, name: str, known: Mapping[str, Any]) -> str:
        """The name, not yet among those known."""
        if name in known:
            self.t.fail(f"{quoted(name)} is defined twice")
        return name

    def real(self, kind: Memory) -> Memory:
        """A type of real numbers. Raises ModelError for integers, which snn-mlir's quantized modules have."""
        if kind.element not in DTYPES:
            subject = f"{self.t.subject}, line {self.t.tokens[self.t.next - 1].line}"
            found = f"an array of {quoted(kind.element)}"
            raise ModelError.of(subject, found, "modules in f32 or f64 are read", "export without --quantize")
        return kind

    def names(self) -> tuple[str, ...]:
        """``(%a, %b)``."""
        t = self.t
        t.expect("(")
        found = [t.take("name").text]
        while t.accept(","):
            found.append(t.take("name").text)
        t.expect(")")
        return tuple(found)

    def types(self) -> tuple[Memory, ...]:
        """``memref<…>, memref<…>``."""
        found = [self.real(self.t.memory())]
        while self.t.accept(","):
            found.append(self.real(self.t.memory()))
        return tuple(found)

    def _group(self, word: str) -> tuple[list[str], tuple[Memory, ...]]:
        """``ins(%a, %b : memref<…>, memref<…>)``."""
        t = self.t
        t.expect(word)
        t.expect("(")
        names = [t.take("name").text]
        while t.accept(","):
            names.append(t.take("name").text)
        t.expect(":")
        types = self.types()
        t.expect(")")
        return names, types

    def sum(self, line: int) -> Op:
        """The elementwise sum of several arrays; ``reads`` are in the order in which they are added."""
        t = self.t
        attributes = self.dictionary()
        (reads, types), (written, out_types) = self._group("ins"), self._group("outs")
        maps = [self.maps.get(text, text) for text in attributes.get("indexing_maps", ())]
        sides = [re.fullmatch(r"affine_map<\((.*)\)\s?->\s?\((.*)\)>", str(text)) for text in maps]
        is_plain = all(each is not None and each[1] == each[2] and each[1].count(",") + 1 == len(types[0].shape)
                       for each in sides)  # fmt: skip
        loops = attributes.get("iterator_types", ())
        if not is_plain or len(maps) != len(reads) + 1 or set(loops) != {"parallel"} or len(written) != 1:
            t.fail(f"{SUM} that is not elementwise", "sums of arrays are read")
        if len(types) != len(reads) or len(out_types) != 1:
            t.fail(f"{SUM} with {len(types)} types for {len(reads)} arrays")
        order = self._added(len(reads))
        chosen = tuple(reads[k] for k in order)
        return Op(SUM, line, chosen, writes=written[0], types=(*(types[k] for k in order), out_types[0]))

    def _added(self, count: int) -> list[int]:
        """The arguments of a region in the order in which it adds them, each once."""
        t, sums = self.t, self._region()
        while not t.accept("linalg.yield"):
            result = self.new(t.take("name").text, sums)
            t.expect("=")
            t.expect("arith.addf")
            left = sums.get(t.take("name").text, [])
            t.expect(",")
            right = sums.get(t.take("name").text, [])
            t.expect(":")
            t.take("word")
            if not left or len(right) != 1 or len(left) >= count:
                t.fail("a sum in another order than from the first to the last", "such sums are read")
            sums[result] = left + right
        order = sums.get(t.take("name").text, [])
        t.expect(":")
        t.take("word")
        t.expect("}")
        if sorted(order) != list(range(count)):
            t.fail(f"{SUM} that does not add each of its arrays once", "sums of arrays are read")
        return order

    def _region(self) -> dict[str, list[int]]:
        """The arguments of a region by name, each with its number."""
        t = self.t
        t.expect("{")
        t.take("name")
        t.expect("(")
        found: dict[str, list[int]] = {}
        while not t.accept(")"):
            found[self.new(t.take("name").text, found)] = [len(found)]
            t.expect(":")
            t.take("word")
            if t.peek.text != ")":
                t.expect(",")
        t.expect(":")
        return found

    def dictionary(self, depth: int = 0) -> dict[str, Any]:
        """``{key = value, key}``."""
        t = self.t
        t.expect("{")
        found: dict[str, Any] = {}
        while not t.accept("}"):
            key = self.new(t.take("word").text, found)
            found[key] = self.value(depth + 1) if t.accept("=") else True
            if t.peek.text != "}":
                t.expect(",")
        return found

    def value(self, depth: int = 0) -> Any:
        """A number, text, list or dictionary; types of numbers are passed over."""
        t = self.t
        if depth > _DEPTH:
            t.fail(f"lists in lists, {depth} deep", f"up to {_DEPTH} are read")
        kind, text = t.peek.kind, t.peek.text
        if text == "{":
            return self.dictionary(depth)
        if kind == "array":
            return t.integers()
        if kind == "number":
            number = t.number()
            if t.accept(":"):
                t.take("word")
            return number
        if text == "[":
            t.take()
            listed: list[Any] = []
            while not t.accept("]"):
                listed.append(self.value(depth + 1))
                if t.peek.text != "]":
                    t.expect(",")
            return listed
        t.take()
        if kind not in ("string", "map", "name"):
            t.fail(f"the value {quoted(text or 'the end')}", "numbers, texts and lists are read")
        return text[1:-1] if kind == "string" else text
