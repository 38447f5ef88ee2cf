"""Words of snn-mlir 1.0: operations, attributes with their defaults, escaped names. Source: its dialect and lowering.

One time step is one function over arrays in memory; ``->`` precedes the array that an operation writes::

    snn.linear    output[i] = sum over j of weights[i, j] * input[j], from 0, ascending j; then + bias[i]
    snn.conv2d    the same over channels and windows (conv1d: one axis), one bias per channel
    snn.sumpool2d sum over each window; snn.avgpool2d: divided by the window's size
    snn.lif       v = decay * v + input;              output = 1 and v = v_reset where v > threshold, else output = 0
    snn.cubalif   i = cur_decay * i + input;  v = vol_decay * v + i;  output = 1 and v = 0 where v > threshold
    snn.li        v = decay * v + input;      output = v
    snn.cubali    i and v as cubalif;         output = v
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

from nirbridge.arrays import Array
from nirbridge.dialect.snn_mlir.tokens import SUM, Memory, Op, PartParser, Tokens, constant
from nirbridge.errors import ModelError, quoted

FUNCTION = "snn_forward_step"
FACTS = "nirbridge"
"""Attribute of the function with what the operations do not say: the time step, names of ports and populations."""
SYNAPSES: Mapping[str, int] = MappingProxyType({"snn.linear": 0, "snn.conv1d": 1, "snn.conv2d": 2})
"""Operation -> axes of its kernel."""
POOLS = ("snn.sumpool2d", "snn.avgpool2d")
NEURONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "snn.lif": {"decay_float": "a_mem", "threshold_float": "theta", "v_reset_float": "v_reset"},
        "snn.cubalif": {"cur_decay_float": "a_syn", "vol_decay_float": "a_mem", "threshold_float": "theta"},
        "snn.li": {"decay_float": "a_mem"},
        "snn.cubali": {"cur_decay_float": "a_syn", "vol_decay_float": "a_mem"},
    }
)
"""Operation -> its attributes (default 0), each with the field of the neuron record that it is."""
KINDS: Mapping[str, str] = MappingProxyType(
    {"LIF": "snn.lif", "IF": "snn.lif", "CubaLIF": "snn.cubalif", "LI": "snn.li", "I": "snn.li", "CubaLI": "snn.cubali"}
)
"""Kind of a population -> its operation."""
SPIKING = ("snn.lif", "snn.cubalif")
ELEMENTS: Mapping[str, str] = MappingProxyType({"float32": "f32", "float64": "f64"})
SUFFIX = ".mlir"
_SAFE = " !#$&'()*+,-./:;<=>?@[]^_`{|}~"


def kind_of(operation: str, decay: float) -> str:
    """The kind of a population: an integrator has no decay."""
    spiking = {"snn.lif": ("LIF", "IF"), "snn.li": ("LI", "I")}.get(operation)
    if spiking is None:
        return "CubaLIF" if operation == "snn.cubalif" else "CubaLI"
    return spiking[decay == 1.0]


def escaped(name: str) -> str:
    """A name in printable ASCII without quotes and backslashes, for a string."""
    return quote(name, safe=_SAFE, errors="surrogatepass")


def unescaped(text: str) -> str:
    """The name that ``escaped`` wrote."""
    return unquote(text, errors="surrogatepass")


def identifier(name: str) -> str:
    """A name as letters, digits, dots and underscores, for values and symbols; not one to one."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._") else "_" for c in name) or "_"


def memory(shape: tuple[int, ...], element: str) -> str:
    """The type of an array: ``memref<2x3xf32>``."""
    return f"memref<{''.join(f'{n}x' for n in shape)}{element}>"


# -- syntax --------------------------------------------------------------------------------------------------------
# The operations of a module, in order, from its text. Only their form is judged here.

COPY = "memref.copy"
ALLOCATIONS = ("memref.alloca", "memref.alloc")
RESHAPES = ("memref.collapse_shape", "memref.expand_shape")


@dataclass(frozen=True, slots=True)
class Module:
    """Constants by symbol, arguments of the function by name, its attributes and operations."""

    constants: Mapping[str, Array]
    arguments: Mapping[str, Memory]
    attributes: Mapping[str, Any]
    operations: tuple[Op, ...]


def parse_syntax(text: str, subject: str) -> Module:
    """The module of a text.

    Raises:
        FileError: no module of one function, or a faulty one.
        ModelError: operations that snn-mlir's float modules do not have.
    """
    return _Parser(Tokens(text, subject)).module()


class _Parser(PartParser):
    def module(self) -> Module:
        t = self.t
        while t.peek.text.startswith("#"):
            name = t.take("name").text
            t.expect("=")
            self.maps[name] = t.take("map").text
        t.expect("module")
        if t.accept("attributes"):
            self.dictionary()
        t.expect("{")
        constants: dict[str, Array] = {}
        function = None
        while not t.accept("}"):
            if t.peek.text == "memref.global":
                symbol, values = self.constant()
                constants[self.new(symbol, constants)] = values
            elif function is None and t.peek.text == "func.func":
                function = self.function()
            else:
                t.take()
                t.fail(f"{quoted(t.tokens[t.next - 1].text or 'the end')}", "constants and one function are read")
        t.take("end")
        if function is None:
            t.fail("no function", f"a module has the function {FUNCTION}")
        return Module(constants, *function)

    def constant(self) -> tuple[str, Array]:
        t = self.t
        t.expect("memref.global")
        if t.peek.kind == "string":
            t.take()
        t.expect("constant")
        symbol = t.take("name").text
        t.expect(":")
        kind = self.real(t.declared())
        t.expect("=")
        literal = t.take("dense").text
        try:
            return symbol, constant(literal, kind.shape, kind.element)
        except ValueError as error:
            t.fail(f"constant {quoted(symbol)}: {error}")

    def function(self) -> tuple[dict[str, Memory], dict[str, Any], tuple[Op, ...]]:
        t = self.t
        t.expect("func.func")
        name = t.take("name").text
        if name != f"@{FUNCTION}":
            t.fail(f"a function {quoted(name)}", f"a module has the function {FUNCTION}")
        t.expect("(")
        arguments: dict[str, Memory] = {}
        while not t.accept(")"):
            argument = self.new(t.take("name").text, arguments)
            t.expect(":")
            arguments[argument] = self.real(t.declared())
            if t.peek.text != ")":
                t.expect(",")
        attributes = self.dictionary() if t.accept("attributes") else {}
        t.expect("{")
        operations: list[Op] = []
        while not t.accept("return"):
            operations.append(self.operation())
        t.expect("}")
        return arguments, attributes, tuple(operations)

    def operation(self) -> Op:
        t = self.t
        line = t.peek.line
        result = ""
        if t.peek.text.startswith("%"):
            result = t.take("name").text
            t.expect("=")
        token = t.take()
        name = token.text
        if name == "memref.get_global" or name in (*ALLOCATIONS, *RESHAPES):
            return self.array(name, result, line)
        if token.kind != "word":
            t.fail(f"{quoted(name or 'the end')}", "an operation is expected")
        if result or name not in (*NEURONS, *SYNAPSES, *POOLS, SUM, COPY):
            hint = "snn-mlir's float modules are read"
            subject = f"{t.subject}, line {line}"
            raise ModelError.of(subject, f"an operation {quoted(name or 'the end')}", "it is not known here", hint)
        if name == COPY:
            return self.copy(line)
        return self.sum(line) if name == SUM else self.layer(name, line)

    def array(self, name: str, result: str, line: int) -> Op:
        """An operation whose result is an array."""
        t = self.t
        if not result:
            t.fail(f"{name} without a result")
        reads: tuple[str, ...] = ()
        if name in ALLOCATIONS:
            t.expect("(")
            t.expect(")")
        elif name == "memref.get_global":
            reads = (t.take("name").text,)
        else:
            reads = (t.take("name").text,)
            self.value()
            if t.accept("output_shape"):
                self.value()
        t.expect(":")
        types = [self.real(t.declared() if name in ALLOCATIONS else t.memory())]
        if name in RESHAPES:
            t.expect("into")
            types.append(self.real(t.memory()))
        return Op(name, line, reads, writes=result, types=tuple(types))

    def copy(self, line: int) -> Op:
        t = self.t
        source = t.take("name").text
        t.expect(",")
        target = t.take("name").text
        t.expect(":")
        types = [self.real(t.memory())]
        t.expect("to")
        types.append(self.real(t.memory()))
        return Op(COPY, line, (source,), writes=target, types=tuple(types))

    def layer(self, name: str, line: int) -> Op:
        """``snn.x ins(…) bias(… : type) state(…) out(…) {…} : types -> type``; types without that of the bias."""
        t = self.t
        t.expect("ins")
        reads = self.names()
        bias, bias_type, states = "", [], ()
        if t.accept("bias"):
            t.expect("(")
            bias = t.take("name").text
            t.expect(":")
            bias_type = [self.real(t.memory())]
            t.expect(")")
        if t.accept("state"):
            states = self.names()
        t.expect("out")
        written = self.names()
        attributes = self.dictionary() if t.peek.text == "{" else {}
        t.expect(":")
        types = self.types()
        t.expect("->")
        types = (*types, self.real(t.memory()), *bias_type)
        counts = (1 if name in (*NEURONS, *POOLS) else 2, self._states(name), 1)
        if (len(reads), len(states), len(written)) != counts or len(types) != sum(counts) + len(bias_type):
            t.fail(f"{name} with {len(reads)} inputs, {len(states)} states, {len(types)} types", f"{counts[:2]}")
        if bias and name not in SYNAPSES:
            t.fail(f"{name} with a bias", "matrices and convolutions have one")
        return Op(name, line, reads, states, written[0], bias, types, attributes)

    @staticmethod
    def _states(name: str) -> int:
        return 0 if name not in NEURONS else 2 if "cur_decay_float" in NEURONS[name] else 1
