"""Replication of a source: copies of one population, each of which feeds a part of its targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.errors import ModelError, UsageError, counted, did_you_mean, quoted
from nirbridge.network.compose import parts_of
from nirbridge.network.masking import only_targets
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.naming import fresh_name
from nirbridge.network.operators import Operator
from nirbridge.passes.base import Promise, check_argument
from nirbridge.passes.text import check_options


@dataclass(frozen=True, slots=True)
class ReplicateSource:
    """Replace population ``name`` by ``ways`` copies, so that each neuron of a copy sends to fewer cores.

    Every copy gets all inputs of the population and so sends the same spikes. Each projection from it is cut along the
    longest axis of its target: copy k feeds the k-th part. A projection of the population onto itself stays within each
    copy, outputs read the first one. **Nothing changes, bit for bit**: each target neuron adds the same terms in the
    same order, and zeros. The first copy keeps the name, the others are ``NAME_copy``, ``NAME_copy_2`` … after it in
    the order of the network. The cost: the neurons and incoming synapses of the copies.
    """

    pass_name: ClassVar[str] = "replicate-source"
    promise: Promise = field(default="same", init=False, repr=False)
    name: str
    ways: int

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def example(cls, network: Network) -> Self | None:
        """Two copies of the first population that feeds two neurons or more; None where there is none."""
        sizes = {p.name: p.size for p in network.populations}
        sources = (p.source for p in network.projections if p.source in sizes and sizes.get(p.target, 1) > 1)
        name = next(sources, None)
        return None if name is None else cls(name, 2)

    def __call__(self, network: Network) -> Network:
        """The network with the copies.

        Raises:
            UsageError: there is no such population, or ``ways`` is not from 2 to the neurons of its largest target.
            ModelError: a projection has too many synapses to be listed one by one.
        """
        check_argument(self, network)
        original = _population(network, self.name)
        _check_ways(network, self.name, self.ways)
        taken = {subject.name for subject in (*network.inputs, *network.outputs, *network.populations)}
        names = [self.name]
        for _ in range(self.ways - 1):
            names.append(fresh_name(f"{self.name}_copy", taken))
            taken.add(names[-1])
        populations: list[Population] = []
        for p in network.populations:
            populations += [replace(p, name=n) for n in names] if p is original else [p]
        shapes = {p.name: p.shape for p in network.populations}
        projections = [q for p in network.projections for q in _split(p, self.name, names, shapes)]
        return replace(network, populations=tuple(populations), projections=tuple(projections))


def _population(network: Network, name: str) -> Population:
    for p in network.populations:
        if p.name == name:
            return p
    names = ", ".join(quoted(p.name) for p in network.populations[:8])
    hint = did_you_mean(name, [p.name for p in network.populations]) or "name one"
    raise UsageError.of("split", f"no population {quoted(name)}", f"there are {names}", hint)


def _check_ways(network: Network, name: str, ways: int) -> None:
    sizes = {p.name: p.size for p in network.populations}
    targets = [sizes[p.target] for p in network.projections if p.source == name and p.target in sizes]
    largest = max(targets, default=0)
    if not 2 <= ways <= largest:
        subject = f"split of {quoted(name)}"
        limit = (
            f"2 to {largest:,} (neurons of its largest target)"
            if largest > 1
            else "it feeds no population that can be cut"
        )
        raise UsageError.of(subject, counted(ways, "copy", "copies"), limit, "choose another number or population")


def _split(p: Projection, name: str, names: list[str], shapes: dict[str, Shape]) -> Iterator[Projection]:
    """The projections that replace one, in its place, so that sums keep their order."""
    if p.source == p.target == name:
        yield from (replace(p, source=n, target=n) for n in names)
    elif p.target == name:
        yield from (replace(p, target=n) for n in names)
    elif p.source == name and max(shapes.get(p.target, ()), default=1) > 1:
        yield from _cut(p, names, shapes[p.target])
    else:
        yield p


def _cut(p: Projection, names: list[str], shape: Shape) -> Iterator[Projection]:
    axis = int(np.argmax(shape))
    index = np.indices(shape)[axis].reshape(-1)
    ends = [shape[axis] * k // len(names) for k in range(len(names) + 1)]
    for name, start, stop in zip(names, ends, ends[1:], strict=False):
        if start < stop:
            inside = (index >= start) & (index < stop)
            bias = None if p.bias is None else freeze(np.where(inside.reshape(shape), p.bias, 0))
            operator = _rows(p, inside)
            # the factor of a pool becomes a part of its own, which belongs to no node
            is_same = len(parts_of(operator)) == len(parts_of(p.operator))
            yield replace(p, source=name, operator=operator, bias=bias, nodes=p.nodes if is_same else ())


def _rows(p: Projection, inside: Array) -> Operator:
    """The operator with the targets outside left out of its last part, the parts before it as they are."""
    try:
        return only_targets(p.operator, inside)
    except ModelError as error:
        subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
        raise ModelError.of(subject, "too many synapses to be listed one by one", "", "split another source") from error
