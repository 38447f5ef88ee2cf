"""A network as a module of the dialect. Needs xDSL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i1
from xdsl.ir import Region

from nirbridge.dialect.module import DialectModule
from nirbridge.dialect.placement import Placement, check_placements
from nirbridge.dialect.step import StepBuilder
from nirbridge.dialect.structure import NetworkOp
from nirbridge.dialect.synapses import CurrentOp
from nirbridge.dialect.values import ELEMENTS, integer, real, text, texts
from nirbridge.errors import UsageError, quoted
from nirbridge.network.check import check_network
from nirbridge.network.compose import parts_of
from nirbridge.network.graph import population_groups
from nirbridge.network.model import Network, Projection

Variable = tuple[str, str]
"""A node and one of its variables, as recordings name them."""
DTYPES = ("float32", "float64")
NAMES_SHOWN = 8


def network_module(
    network: Network,
    dtype: str = "float32",
    records: Sequence[Variable] = (),
    placement: Mapping[str, Placement] | None = None,
) -> DialectModule:
    """The module of a network in ``dtype``.

    Args:
        network: any network that the reference simulates.
        dtype: type of its tensors; weights and coefficients are stored as the network has them.
        records: variables (``s``, ``u``, ``v``, ``i`` of a population, ``s`` of an input) that become further results.
        placement: the cores of each population, kept as attributes; None: those of no map.

    Raises:
        ModelError: a network that ``check_network`` refuses, values of a type that the dialect lacks, or a map of other
            populations.
        UsageError: no variable of that name.
    """
    check_network(network)
    check_placements(network, placement or {})
    return _Builder(network, dtype, placement or {}).module(records)


class _Builder:
    """One time step of a network, projection by projection."""

    def __init__(self, network: Network, dtype: str, placement: Mapping[str, Placement]) -> None:
        self.network, self.dtype, self.placement = network, dtype, placement
        self.step = StepBuilder(ELEMENTS[dtype])
        self.resources = self.step.resources

    def module(self, records: Sequence[Variable]) -> DialectModule:
        network, step = self.network, self.step
        step.block.add_op(self._facts())
        variables: dict[Variable, Any] = {(p.name, "s"): step.input(p.name, p.shape) for p in network.inputs}
        for p in (p for group in population_groups(network) for p in group.populations):
            index = next(k for k, q in enumerate(network.populations) if q is p)
            given = step.neurons(index, p, self.placement.get(p.name), self._currents(p.name))
            variables |= {(p.name, name): value for name, value in given.items()}
            step.now[p.name] = given["s"]
        for p in network.outputs:
            value = step.output(p.name, p.shape, list(self._currents(p.name)))
            step.result(p.name, "s", value)
        for name, variable in records:
            step.result(name, variable, variable_of(variables, name, variable))
        step.connect()
        return DialectModule(ModuleOp(Region(step.block)), self.resources)

    def _currents(self, target: str) -> Iterator[Any]:
        return (self._current(k, p) for k, p in enumerate(self.network.projections) if p.target == target)

    def _current(self, k: int, p: Projection) -> Any:
        step = self.step
        if p.source not in step.now and not p.delay_steps.all():  # the delay after the operator closes a cycle
            value = step.awaited(lambda: self._sums(p), p.target_delay_steps, p.operator.output_shape)
        else:
            value = self._sums(p)
            if p.target_delay_steps.any() or p.target_delay_steps.ndim:
                value = step.delayed(value, p.target_delay_steps)
        given: dict[str, Any] = {"index": integer(k), "nodes": texts(p.nodes), "delay_nodes": texts(p.delay_nodes)}
        given["is_back"] = IntegerAttr(int(p.is_back), i1)
        given["bias"] = None if p.bias is None else self.resources.attribute(p.bias)
        return step.op(CurrentOp, [value], value.type, **given)

    def _sums(self, p: Projection) -> Any:
        """What a projection's operator makes of the values that arrive."""
        value = self.step.sent(p.source, p.delay_steps, p.operator.input_shape)
        for part in parts_of(p.operator):
            value = self.step.part(part, value)
        return value

    def _facts(self) -> NetworkOp:
        network = self.network
        file = {} if network.file is None else {"file": (network.file.name, network.file.sha256)}
        given: dict[str, Any] = {
            "dt": real(network.dt),
            "timing": _plain({f.name: getattr(network.timing, f.name) for f in fields(network.timing)}),
            "numbers": StringAttr(self.dtype),
            "facts": _plain({"assumed": network.assumed, "notes": network.notes, **file}),
        }
        return NetworkOp.create(attributes=given)


def variable_of(variables: Mapping[Variable, Any], name: str, variable: str) -> Any:
    """The value of a variable. Raises UsageError where the network has none of that name."""
    if (name, variable) in variables:
        return variables[name, variable]
    own = [known for node, known in variables if node == name]
    if own:
        found, limit = f"{quoted(name)} has no variable {quoted(variable)}", f"it has {', '.join(own)}"
    else:
        names = list(dict.fromkeys(node for node, _ in variables))
        shown = ", ".join(map(quoted, names[:NAMES_SHOWN]))
        found, limit = f"no population or input {quoted(name)}", f"there are {shown}"
    raise UsageError.of("lower, records", found, limit, "choose one of them")


def _plain(values: dict[str, Any]) -> DictionaryAttr:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, tuple):
            found[name] = texts(value)
        elif value is not None:
            found[name] = real(value) if isinstance(value, float) else text(value)
    return DictionaryAttr(found)
