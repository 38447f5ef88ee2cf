"""The back ends that there are: every simulator, array library and emitter of the registry, by the models it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nirbridge import plugins as registry
from nirbridge.benchmarking.model import BenchRow
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.reference.array_namespace import LIBRARIES

ModelKind = Literal["network", "quantized", "mapped"]
KINDS: dict[ModelKind, type] = {"network": Network, "quantized": QuantizedNetwork, "mapped": MappedNetwork}
REFERENCE, FIXED = "reference", "fixed"
"""The simulators that others are compared with: of real numbers, and of integers."""
_NO_BACK_END = ("numpy", "array_api_strict")
"""Libraries that are no back end of their own: the reference's, and one that only checks."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A back end and the kind of model that it gets; ``library``: of arrays, for the reference on another one."""

    name: str
    kind: Literal["simulator", "program"]
    model: ModelKind
    library: str = "numpy"

    @property
    def numbers(self) -> Literal["float32", "integers"]:
        """What it computes in."""
        return "float32" if self.model == "network" else "integers"

    @property
    def target(self) -> str:
        """Its name in the registry."""
        return self.name.partition("/")[0] if self.library != "numpy" else self.name

    @property
    def base(self) -> str:
        """The simulator that it is compared with."""
        return REFERENCE if self.model == "network" else FIXED

    @property
    def is_base(self) -> bool:
        """True for the simulators that others are compared with."""
        return self.kind == "simulator" and self.name == self.base

    def row(self, status: Any, reason: str = "", hint: str = "") -> BenchRow:
        """Its row without a figure."""
        return BenchRow(self.name, self.kind, self.numbers, status, reason, hint)


Found = tuple[list[Contender], list[BenchRow]]


def contenders(chosen: Sequence[str], *, integers: bool) -> Found:
    """What can be measured, each reference first, and rows of what cannot.

    Args:
        chosen: names of back ends; none: all. The references are always among them.
        integers: whether there is a chip, whose integers run too.

    Raises:
        UsageError: a name that no back end has.
    """
    pairs = list(_all(integers=integers))
    names = list(dict.fromkeys(contender.name for contender, _ in pairs))
    problems = [name for name in chosen if name not in names]
    if problems:
        hint = did_you_mean(problems[0], names) or "choose one of them"
        raise UsageError.of(f"back end {quoted(problems[0])}", "unknown", f"there are {', '.join(names)}", hint)
    taken = [(c, row) for c, row in pairs if not chosen or c.name in chosen or (c.is_base and row is None)]
    ready = [contender for contender, row in taken if row is None]
    groups = {c.numbers for c in ready if not chosen or c.name in chosen}
    ready = [c for c in ready if c.numbers in groups]
    ordered = sorted(ready, key=lambda c: (c.numbers != "float32", not c.is_base))
    return ordered, [row for _, row in taken if row is not None]


def _all(*, integers: bool) -> Iterator[tuple[Contender, BenchRow | None]]:
    for name in registry.names("simulators"):
        yield from _of_name("simulators", name, integers=integers)
        if name == REFERENCE:
            libraries = (library for library in LIBRARIES if library not in _NO_BACK_END)
            yield from ((Contender(f"{name}/{lib}", "simulator", "network", lib), None) for lib in libraries)
    for name in registry.names("emitters"):
        yield from _of_name("emitters", name, integers=integers)


def _of_name(kind: str, name: str, *, integers: bool) -> Iterator[tuple[Contender, BenchRow | None]]:
    """A back end in real numbers, in integers, in both, or a row that says why it is in none."""
    what: Any = "simulator" if kind == "simulators" else "program"
    try:
        target: Any = registry.get(kind, name)
    except UsageError as error:
        contender = Contender(name, what, "network")
        yield contender, contender.row("refused", str(error.problems[0]))
        return
    if getattr(target, "chooses", False):
        return  # another name for one of the others
    takes: list[ModelKind] = [model for model, cls in KINDS.items() if cls in target.takes]
    if what == "program" and not target.records:
        contender = Contender(name, what, takes[0])
        yield contender, contender.row("refused", "nothing runs its programs")
        return
    if "network" in takes:
        yield Contender(name, what, "network"), None
    whole: list[ModelKind] = [model for model in takes if model != "network"]
    if not whole:
        return
    contender = Contender(name, what, whole[0])
    if integers:
        yield contender, None
    elif "network" not in takes:
        yield contender, contender.row("refused", "computes in the integers of a chip", "name a chip")
