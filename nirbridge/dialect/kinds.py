"""Kinds of attributes: what each parameter of an operation or an attribute class may hold. Needs xDSL.

One table of them serves the verifier, the definition in IRDL for stock ``mlir-opt``, and the classes of attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from nirbridge.dialect.values import DTYPES, unescaped
from nirbridge.errors import counted
from nirbridge.network.model import IfGain, Integrator
from nirbridge.network.neurons import Compare, Reset
from nirbridge.network.nir.fields import NEURONS
from nirbridge.quantization.model import FixedReset, SignMode

NAME = "spike"
"""The name of the dialect."""
Emit = Callable[[str], str]
"""Appends an operation of IRDL and returns the name of its result."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of attribute: ``noun`` in messages, the classes of xDSL, their names in IRDL; ``words``: one of these.

    ``optional``: a parameter of a class may be ``unit`` instead, which stands for an absent value. ``type``: that of
    numbers.
    """

    noun: str
    classes: tuple[type[Any], ...]
    names: tuple[str, ...]
    words: tuple[str, ...] = ()
    optional: bool = False
    type: Any = None

    def accepts(self, value: Attribute) -> bool:
        """Whether an attribute is of this kind."""
        if self.optional and isinstance(value, UnitAttr):
            return True
        if not isinstance(value, self.classes):
            return False
        if self.type is not None:
            return self.type == (value.elt_type if isinstance(value, DenseArrayBase) else value.type)  # type: ignore[attr-defined]
        if self.words:
            return value.data in self.words  # type: ignore[attr-defined]
        if isinstance(value, StringAttr):
            return is_escaped(value.data)
        return not isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr) or is_tensor(value)

    def irdl(self, emit: Emit) -> str:
        """The constraint in IRDL."""
        bases = [f'irdl.is "{word}"' for word in self.words] or [f"irdl.base {name}" for name in self.names]
        names = [emit(base) for base in (*bases, *["irdl.is unit"] * self.optional)]
        return names[0] if len(names) == 1 else emit(f"irdl.any_of({', '.join(names)})")


def optional(kind: Kind) -> Kind:
    """The kind, or ``unit`` for an absent value."""
    return replace(kind, noun=f"{kind.noun}, or unit", optional=True)


def words(*listed: str) -> Kind:
    """One of some words."""
    return Kind(f"one of {', '.join(map(repr, listed))}", (StringAttr,), ('"#builtin.string"',), listed)


def is_tensor(attribute: Any) -> bool:
    """Whether an attribute holds the values of a tensor of a type that arrays have."""
    kind = attribute.get_type()
    return isinstance(kind, TensorType) and kind.get_element_type() in DTYPES


def is_escaped(name: str) -> bool:
    """Whether a name is one that ``escaped`` may have written."""
    try:
        unescaped(name)
    except UnicodeDecodeError:
        return False
    return True


VALUES = Kind(
    "a tensor of values, dense or dense_resource",
    (DenseIntOrFPElementsAttr, DenseResourceAttr),
    ('"#builtin.dense_int_or_fp_elements"', '"#builtin.dense_resource_elements"'),
)
INTEGER = Kind("an integer of i64", (IntegerAttr,), ('"#builtin.integer"',), type=i64)
REAL = Kind("a real number of f64", (FloatAttr,), ('"#builtin.float"',), type=f64)
TEXT = Kind("a text, escaped as in URLs", (StringAttr,), ('"#builtin.string"',))
LIST = Kind("a list", (ArrayAttr,), ('"#builtin.array"',))
INTEGERS = Kind("integers, array<i64: ...>", (DenseArrayBase,), ('"#builtin.dense_array"',), type=i64)
DICTIONARY = Kind("a dictionary", (DictionaryAttr,), ('"#builtin.dictionary"',))
MARK = Kind("a mark without a value", (UnitAttr,), ())
COMPARE = words(*get_args(Compare))


class Parametrized(ParametrizedAttribute):
    """A class of attributes or types."""

    @classmethod
    def parse_parameters(cls, parser: Any) -> Sequence[Attribute]:
        """As many parameters as the class has; xDSL fails in ``zip`` for another number."""
        start, names = parser.pos, [name for name, _ in cls.get_irdl_definition().parameters]
        given = parser.parse_paramattr_parameters()
        if len(given) != len(names):
            words = f"{cls.name} has {counted(len(given), 'parameter')}, its parameters are {', '.join(names)}"
            parser.raise_error(words, start, parser.pos)
        return given


@dataclass(frozen=True, slots=True)
class AttributeClass:
    """A class of attributes of the dialect, ``#spike.NAME<...>``, and the kinds of its parameters in order."""

    name: str
    parameters: Mapping[str, Kind]
    type: type[Any]

    @property
    def kind(self) -> Kind:
        """The kind of an attribute of this class."""
        return Kind(f"#{NAME}.{self.name}<{', '.join(self.parameters)}>", (self.type,), (f"@{NAME}::@{self.name}",))

    def of(self, values: Mapping[str, Attribute]) -> Any:
        """The attribute with these parameters; absent ones are ``unit``."""
        return self.type(*(values.get(name, UnitAttr()) for name in self.parameters))


def attribute_class(name: str, **parameters: Kind) -> AttributeClass:
    """A class of attributes with these parameters."""
    body = {"name": f"{NAME}.{name}", "__annotations__": dict.fromkeys(parameters, Attribute)}
    made = irdl_attr_definition(type(f"{name.title().replace('_', '')}Attr", (Parametrized,), body))
    return AttributeClass(name, parameters, made)


TIMING = attribute_class(
    "timing",
    integrator=words(*get_args(Integrator)),
    reset=words(*get_args(Reset)),
    compare=COMPARE,
    if_gain=words(*get_args(IfGain)),
)
"""How continuous time became time steps of the network's ``dt``."""
MEMBRANE = attribute_class("membrane", a_mem=VALUES, g_mem=VALUES, bias=VALUES, v_init=VALUES)
SYNAPSE = attribute_class("synapse", a_syn=VALUES, g_syn=VALUES, i_init=VALUES)
FIRING = attribute_class("firing", theta=optional(VALUES), compare=COMPARE, max_spikes=INTEGER, refractory_steps=VALUES)
"""``theta`` is ``unit`` for a readout."""
RESET = attribute_class("reset", reset=words(*get_args(Reset)), v_reset=VALUES, reset_amount=VALUES)
FIXED_MEMBRANE = attribute_class("fixed_membrane", dv=VALUES, v_bits=INTEGER, v_init=VALUES)
FIXED_CURRENT = attribute_class("fixed_current", du=VALUES, u_bits=INTEGER, u_init=VALUES)
FIXED_BIAS = attribute_class("fixed_bias", bias_mant=VALUES, bias_exp=INTEGER)
FIXED_FIRING = attribute_class(
    "fixed_firing", fires_above=optional(VALUES), spike_size=VALUES, max_spikes=INTEGER, refractory_steps=VALUES
)
FIXED_RESET = attribute_class("fixed_reset", reset=words(*get_args(FixedReset)), reset_amount=VALUES)
UNITS = attribute_class("units", scale=VALUES, v_offset=VALUES)
"""Reals of a population's integers, for the host: see ``FixedNeuron``."""
GRID = attribute_class("grid", weight_bits=INTEGER, sign_mode=words(*get_args(SignMode)), index=INTEGER, scale=VALUES)
"""Number format of the weights of a projection: see ``FixedProjection``."""
CLASSES = (TIMING, MEMBRANE, SYNAPSE, FIRING, RESET, FIXED_MEMBRANE, FIXED_CURRENT, FIXED_BIAS, FIXED_FIRING,
           FIXED_RESET, UNITS, GRID)  # fmt: skip
"""Every class of attributes."""
OF_OPERATIONS: Mapping[str, Kind] = {
    **dict.fromkeys(("index", "groups", "exponent", "value_max", "latency", "weight_shift"), INTEGER),
    **dict.fromkeys(("dt", "factor", "unit"), REAL),
    **dict.fromkeys(("name", "sym_name"), TEXT),
    **dict.fromkeys(("stride", "padding", "dilation", "kernel"), INTEGERS),
    **dict.fromkeys(("fused", "events", "is_back", "custom"), MARK),
    "kind": words(*NEURONS),
    "variable": words("s", "u", "v", "i"),
    "numbers": words("float32", "float64", "int32", "int64"),
    "chip": optional(TEXT),
    "timing": optional(TIMING.kind),
    "placement": LIST,
    "provenance": DICTIONARY,
    **{each.name.removeprefix("fixed_"): each.kind for each in (UNITS, GRID)},
    **{each.name: each.kind for each in CLASSES[1:-2]},
}
"""The kinds of the attributes of operations by name; all others are ``VALUES``."""
