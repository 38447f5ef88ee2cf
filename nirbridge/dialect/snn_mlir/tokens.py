"""Tokens, constants and parts of operations of MLIR text, as far as snn-mlir needs them; bounded, in linear time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, all_finite, freeze
from nirbridge.errors import FileError, ModelError, quoted

TOKENS_MAX = 1_000_000
"""Tokens of a module; the constants of a layer are one token each."""
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<dense>dense<[^<>]*>)
    |(?P<memref>memref<[^<>\n]{0,300}(?:<[^<>\n]{0,300}>[^<>\n]{0,300})?>)
    |(?P<map>affine_map<\([^()<>\n]{0,300}\)\s?->\s?\([^()<>\n]{0,300}\)>)
    |(?P<array>array<i64(?::[-\d,\ ]{0,300})?>)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<arrow>->)
    |(?P<name>[%@\#^](?:[\w$.-]+|"(?:[^"\\\n]|\\.)*"))
    |(?P<number>[-+]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*(?:[eE][-+]?\d+)?)?))
    |(?P<word>[A-Za-z_][\w.$]*)
    |(?P<mark>[(){}\[\]<>,:=])""",
    re.VERBOSE | re.ASCII,
)
_MEMREF = re.compile(r"memref<((?:[1-9]\d{0,11}x)*)([a-z]\w*)>", re.ASCII)
_LONGEST_NUMBER = 400
AXES_MAX = 8
ELEMENTS_MAX = 25_000_000
"""Elements that all arrays of a module declare: a constant of one value takes no text, but memory where it is used."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text, its kind, and the number of its line."""

    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The type of an array: shape and element."""

    shape: Shape
    element: str


class Tokens:
    """The tokens of a text in order, and errors that name a line."""

    def __init__(self, text: str, subject: str) -> None:
        self.text, self.subject = text, subject
        self.next = 0
        self.elements = 0
        self.tokens: list[Token] = []
        start, line = 0, 1
        while start < len(text):
            match = _TOKEN.match(text, start)
            if match is None:
                self._fail_at(line, f"unreadable text {quoted(text[start : start + 20])}")
            if match.lastgroup != "space":
                self.tokens.append(Token(match.lastgroup or "", match[0], line))
                if len(self.tokens) > TOKENS_MAX:
                    self._fail_at(line, f"more than {TOKENS_MAX:,} words and numbers")
            line += match[0].count("\n")
            start = match.end()
        self.tokens.append(Token("end", "", line))

    def _fail_at(self, line: int, found: str, limit: str = "") -> NoReturn:
        hint = "give a module of snn-mlir, as nirbridge lower --until snn-mlir writes it"
        raise FileError.of(f"{self.subject}, line {line}", found, limit, hint)

    def fail(self, found: str, limit: str = "") -> NoReturn:
        """Raises FileError that names the line of the token before."""
        self._fail_at(self.tokens[max(0, self.next - 1)].line, found, limit)

    @property
    def peek(self) -> Token:
        """The next token; it stays."""
        return self.tokens[self.next]

    def take(self, kind: str = "") -> Token:
        """The next token, of a kind where one is given."""
        token = self.tokens[self.next]
        self.next = min(self.next + 1, len(self.tokens) - 1)
        if kind and token.kind != kind:
            self._fail_at(token.line, f"{quoted(token.text or 'the end')}", f"a {kind} is expected")
        return token

    def accept(self, text: str) -> bool:
        """Takes the next token if it is this text."""
        if self.peek.text == text and self.peek.kind in ("mark", "word", "arrow"):
            self.take()
            return True
        return False

    def expect(self, text: str) -> None:
        """Takes the next token, which has to be this text."""
        if not self.accept(text):
            token = self.peek
            self._fail_at(token.line, f"{quoted(token.text or 'the end')}", f"{quoted(text)} is expected")

    def memory(self) -> Memory:
        """An array type of known extents."""
        text = self.take("memref").text
        match = _MEMREF.fullmatch(text)
        if match is None:
            self.fail(f"the type {quoted(text)}", "arrays of known extents without a layout are read")
        shape = tuple(int(n) for n in match[1].split("x")[:-1])
        if len(shape) > AXES_MAX:
            self.fail(f"an array of {len(shape)} axes", f"up to {AXES_MAX} are read")
        return Memory(shape, match[2])

    def declared(self) -> Memory:
        """The type of an array that begins here; its elements count."""
        memory = self.memory()
        self.elements += math.prod(memory.shape)
        if self.elements > ELEMENTS_MAX:
            found = f"an array of shape {memory.shape}, with those before {self.elements:,} elements"
            self.fail(found, f"up to {ELEMENTS_MAX:,} elements are read")
        return memory

    def number(self) -> float:
        """A decimal number."""
        text = self.take("number").text
        if len(text) > _LONGEST_NUMBER or "x" in text:
            self.fail(f"the number {quoted(text)}", "decimal numbers are read")
        return float(text)

    def integers(self) -> tuple[int, ...]:
        """The integers of ``array<i64: 1, 2>``."""
        text = self.take("array").text.partition(":")[2].rstrip(">")
        numbers = [word.strip() for word in text.split(",") if word.strip()]
        if not all(re.fullmatch(r"-?\d{1,12}", word, re.ASCII) for word in numbers):
            self.fail(f"the list {quoted(text)}", "integers are read")
        return tuple(map(int, numbers))


# -- constants -----------------------------------------------------------------------------------------------------
# Values: nested lists, one value for all, or the bytes in hexadecimal, as MLIR writes them.

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


# -- parts ---------------------------------------------------------------------------------------------------------
# Parts of operations in snn-mlir's text: names, types, attributes, and sums of arrays.

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
