"""Attributes of the dialect from plain values and arrays, and back. Needs xDSL."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    Float16Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze, stored_part
from nirbridge.errors import ModelError, quoted

ARRAYS_MAX = 2**29
"""Bytes of all arrays of a module; its text has two characters for each."""
LITERAL_MAX = 16
"""Arrays of up to this many elements are written out; larger ones are resources after the operations."""
PLAIN = " !#$&'()*+,-./:;<=>?@[]^_`{|}~"
"""Characters of names that stay as they are, beside letters and digits; others become ``%`` and two hex digits."""
ELEMENTS: Mapping[str, Any] = {
    "float16": Float16Type(),
    "float32": f32,
    "float64": f64,
    "bool": i1,
    **{f"int{bits}": IntegerType(bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64)},
}
"""The element type of each type of arrays."""
DTYPES = {element: np.dtype(name) for name, element in ELEMENTS.items()}


def escaped(name: str) -> str:
    """A name from a file in printable ASCII, without quotes, backslashes and control characters."""
    return quote(name, safe=PLAIN, errors="surrogatepass")


def unescaped(text: str) -> str:
    """The name that ``escaped`` wrote."""
    return unquote(text, errors="surrogatepass")


def element_of(dtype: Any) -> Any:
    """The element type of an array's type. Raises ModelError for one that the dialect lacks."""
    name = np.dtype(dtype).name
    if name not in ELEMENTS:
        raise ModelError.of("dialect", f"values of type {name}", f"it has {', '.join(ELEMENTS)}", "convert them")
    return ELEMENTS[name]


def narrowest(values: Array) -> tuple[int, Array]:
    """(k, integers) of the fewest bits, with ``values == integers << k``; weights of a chip may all be even."""
    joined = int(np.bitwise_or.reduce(values, axis=None, initial=0))
    shift = (joined & -joined).bit_length() - 1 if joined else 0
    stored = values >> shift
    ends = (int(stored.min(initial=0)), int(stored.max(initial=0)))
    kinds = (np.iinfo(kind) for kind in (np.int8, np.int16, np.int32, np.int64))
    return shift, stored.astype(next(kind.dtype for kind in kinds if kind.min <= ends[0] and ends[1] <= kind.max))


class Resources:
    """Arrays of a module by name, each stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[tuple[str, Shape, bytes], str] = {}

    def check_size(self, more: int) -> None:
        """Raises ModelError where ``more`` bytes are too many for a text, before they are made."""
        total = more + sum(array.nbytes for array in self.arrays.values())
        if total > ARRAYS_MAX:
            found, limit = f"its arrays have {total:,} bytes", f"at most {ARRAYS_MAX:,} are written as text"
            hint = "store its weights in a smaller type, or lower a part of the network"
            raise ModelError.of("module of the dialect", found, limit, hint)

    def attribute(self, values: Array) -> Attribute:
        """``values`` as an attribute: one number for all, a short list, or a resource.

        Raises:
            ModelError: arrays that are too large for a text.
        """
        array = np.asarray(values)
        element = element_of(array.dtype)
        kind: Any = TensorType(element, array.shape)
        self.check_size(array.nbytes)  # xDSL stores an array of one value whole
        if array.size and is_uniform(array):
            return DenseIntOrFPElementsAttr.from_list(kind, [array.flat[0].item()])
        is_short = array.size <= LITERAL_MAX and array.dtype.kind in "if"
        if is_short and not bool((np.signbit(array) & (array == 0)).any()):  # a list of zeros prints as one
            return DenseIntOrFPElementsAttr.from_list(kind, array.reshape(-1).tolist())
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        key = (array.dtype.str, array.shape, hashlib.sha256(array.data).digest())
        name = self._names.setdefault(key, f"a{len(self._names)}")
        self.arrays[name] = array
        return DenseResourceAttr.from_params(name, kind)

    def array(self, attribute: Any) -> Array:
        """The values of an attribute that ``attribute`` made."""
        kind = attribute.get_type()
        dtype, shape = DTYPES[kind.get_element_type()], kind.get_shape()
        if isinstance(attribute, DenseResourceAttr):
            stored = self.arrays[attribute.resource_handle.data]
            return freeze(stored.astype(dtype, copy=False).reshape(shape))
        listed = _listed(attribute, dtype)
        return np.broadcast_to(freeze(listed[0]), shape) if listed.size == 1 else freeze(listed.reshape(shape))

    def add(self, name: str, blob: str, dtype: Any, shape: Shape) -> bool:
        """Add the array of a text; False for bytes of another size, no bytes, or a second type of one name."""
        try:
            stored = bytes.fromhex(blob.removeprefix("0x"))[4:]
            values = np.frombuffer(stored, dtype.newbyteorder("<")).reshape(shape)
        except ValueError:
            return False
        known = self.arrays.setdefault(name, values)
        return (known.dtype, known.shape) == (values.dtype, values.shape)

    def _numbered(self) -> list[tuple[str, Array]]:
        """The arrays in the order of their numbers, also where a text was read."""
        return sorted(self.arrays.items(), key=lambda each: (len(each[0]), each[0]))

    def text(self) -> str:
        """The section of a file that holds the arrays: bytes in hexadecimal after their alignment."""
        if not self.arrays:
            return ""
        lines = [f'      {name}: "0x{_blob(array)}"' for name, array in self._numbered()]
        inner = ",\n".join(lines)
        return f"\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{inner}\n    }}\n  }}\n#-}}\n"


def _listed(attribute: Any, dtype: Any) -> Array:
    """The flat values of a list."""
    stored = attribute.data.data
    if dtype.kind in "fiu" and len(stored) == dtype.itemsize * size_of(attribute.get_type().get_shape()):
        flat = np.frombuffer(stored, dtype.newbyteorder("<")).astype(dtype)
        return flat[:1] if flat.size and is_uniform(flat) else flat
    return np.asarray(attribute.get_values(), dtype)


def is_uniform(array: Array) -> bool:
    """All elements have the same bits; an axis that repeats its values costs nothing."""
    part = stored_part(array)
    first = part.flat[0]
    if part.size == 1 or not bool((part == first).all()):
        return part.size == 1
    return part.dtype.kind != "f" or bool((np.signbit(part) == np.signbit(first)).all())


def _blob(array: Array) -> str:
    return (array.itemsize.to_bytes(4, "little") + array.tobytes()).hex().upper()


def shape_of(value: Any) -> Shape:
    """The shape of an attribute of values."""
    return tuple(value.get_type().get_shape())


def texts(values: Sequence[str]) -> ArrayAttr[StringAttr]:
    """Names as an attribute, escaped."""
    return ArrayAttr([StringAttr(escaped(value)) for value in values])


def text(value: str) -> StringAttr:
    """One name as an attribute, escaped."""
    return StringAttr(escaped(value))


def names_in(attribute: Any) -> tuple[str, ...]:
    """The names that ``texts`` wrote. Raises ValueError for other attributes."""
    if not isinstance(attribute, ArrayAttr) or not all(isinstance(each, StringAttr) for each in attribute):
        raise ValueError(f"{quoted(str(attribute), 60)} is not a list of texts")
    return tuple(unescaped(each.data) for each in attribute.data)


def integers(values: Sequence[int]) -> DenseArrayBase[Any]:
    """Integers as an attribute."""
    return DenseArrayBase.from_list(i64, list(values))


def integer(value: int) -> IntegerAttr[Any]:
    """One integer as an attribute."""
    return IntegerAttr(value, i64)


def real(value: float) -> FloatAttr[Any]:
    """One real number as an attribute, bit for bit."""
    return FloatAttr(value, f64)


def plain_attribute(value: Any) -> Attribute:
    """A plain value, as JSON has them, as an attribute."""
    if isinstance(value, Mapping):
        return DictionaryAttr({escaped(str(name)): plain_attribute(each) for name, each in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ArrayAttr([plain_attribute(each) for each in value])
    if value is None:
        return UnitAttr()
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    return {str: text, int: integer, float: real}[type(value)](value)


def plain_value(attribute: Attribute) -> Any:
    """The value that ``plain_attribute`` was made of. Raises TypeError for other attributes."""
    if isinstance(attribute, DictionaryAttr):
        return {unescaped(name): plain_value(each) for name, each in attribute.data.items()}
    if isinstance(attribute, ArrayAttr):
        return [plain_value(each) for each in attribute.data]
    if isinstance(attribute, UnitAttr):
        return None
    if isinstance(attribute, StringAttr):
        return unescaped(attribute.data)
    if not isinstance(attribute, IntegerAttr | FloatAttr):
        raise TypeError("an attribute that is no plain value")
    return bool(attribute.value.data) if attribute.type == i1 else attribute.value.data


def integers_in(attribute: Any) -> tuple[int, ...]:
    """The integers that ``integers`` wrote."""
    return tuple(int(value) for value in attribute.get_values())


def size_of(shape: Sequence[int]) -> int:
    """Elements of a shape."""
    return math.prod(shape)
