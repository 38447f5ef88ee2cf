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
from nirbridge.network.neurons import USUAL, check_extras

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
    check_extras(network.populations, USUAL, "the dialect")
    check_placements(network, placement or {})
    return Builder(network, dtype, placement or {}).module(records)


class Builder:
    """One time step of a network, projection by projection; ``host``: the type of outputs where it is another one."""

    host: Any = None

    def __init__(self, network: Any, numbers: str, placement: Mapping[str, Placement]) -> None:
        self.network, self.numbers, self.placement = network, numbers, placement
        self.step = StepBuilder(ELEMENTS[numbers])
        self.resources = self.step.resources

    def module(self, records: Sequence[Variable]) -> DialectModule:
        """The module; ``records`` become further results."""
        network, step = self.network, self.step
        timing, facts = map(_plain, self.facts())
        given = {"dt": real(network.dt), "timing": timing, "numbers": StringAttr(self.numbers), "facts": facts}
        step.block.add_op(NetworkOp.create(attributes=given))
        variables: dict[Variable, Any] = {(p.name, "s"): step.input(p.name, p.shape) for p in network.inputs}
        for p in self.order():
            index = next(k for k, q in enumerate(network.populations) if q is p)
            found = step.neurons(index, p, self.placement.get(p.name), self.currents(p))
            variables |= {(p.name, name): value for name, value in found.items()}
            step.now[p.name] = found["s"]
        for p in network.outputs:
            step.result(p.name, "s", step.output(p.name, p.shape, list(self.read(p)), self.host))
        for name, variable in records:
            step.result(name, variable, variable_of(variables, name, variable))
        step.connect()
        return DialectModule(ModuleOp(Region(step.block)), self.resources)

    def facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The timing of a network, and what else a module says of it."""
        network = self.network
        file = {} if network.file is None else {"file": (network.file.name, network.file.sha256)}
        timing = {f.name: getattr(network.timing, f.name) for f in fields(network.timing)}
        return timing, {"assumed": network.assumed, "notes": network.notes, **file}

    def order(self) -> Iterator[Any]:
        """The populations in the order in which a time step computes them."""
        return (p for group in population_groups(self.network) for p in group.populations)

    def currents(self, target: Any) -> Iterator[Any]:
        """The currents of a population or an output."""
        return (self.current(k, p) for k, p in enumerate(self.network.projections) if p.target == target.name)

    read = currents

    def current(self, k: int, p: Projection) -> Any:
        """The current of a projection."""
        step = self.step
        if p.source not in step.now and not p.delay_steps.all():  # the delay after the operator closes a cycle
            return self.ended(k, p, step.awaited(lambda: self._sums(p), p.target_delay_steps, p.operator.output_shape))
        value = self._sums(p)
        if p.target_delay_steps.any() or p.target_delay_steps.ndim:
            value = step.delayed(value, p.target_delay_steps)
        return self.ended(k, p, value)

    def ended(self, k: int, p: Any, value: Any) -> Any:
        """The last operation of a projection, which has what no other says of it."""
        given: dict[str, Any] = {"index": integer(k), "nodes": texts(p.nodes)}
        given["delay_nodes"] = texts(getattr(p, "delay_nodes", ()))
        given["is_back"] = IntegerAttr(int(getattr(p, "is_back", False)), i1)
        bias = getattr(p, "bias", None)
        given["bias"] = None if bias is None else self.resources.attribute(bias)
        return self.step.op(CurrentOp, [value], value.type, **given)

    def _sums(self, p: Projection) -> Any:
        """What a projection's operator makes of the values that arrive."""
        return self.applied(p.operator, self.step.sent(p.source, p.delay_steps, p.operator.input_shape))

    def applied(self, operator: Any, value: Any) -> Any:
        """What an operator makes of values, part by part."""
        for part in parts_of(operator):
            value = self.step.part(part, value)
        return value


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
