"""The proof of a map as bars: cores found, the lower bounds, which of them decides, and the sentence that says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nirbridge.errors import counted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.model import Partition
from nirbridge.report.map_facts import one_line


@dataclass(frozen=True, slots=True)
class ProofBar:
    """A bar of cores: those found, or a lower bound; ``decides`` marks the bound that sets the result."""

    kind: Literal["found", "bound", "sliced"]
    label: str
    cores: int
    decides: bool = False


@dataclass(frozen=True, slots=True)
class ProofPicture:
    """Bars from the top down, and the optimality gap in cores: found minus the bound that holds for any map."""

    bars: tuple[ProofBar, ...]
    status: str
    gap: int
    sentence: str


def proof_picture(value: MappedNetwork | Partition) -> ProofPicture:
    """The proof of a map or of a partition."""
    report = (value.partition if isinstance(value, MappedNetwork) else value).report
    bars = [ProofBar("found", "cores used", report.cores)]
    if report.cores_lower_bound_sliced > report.cores_lower_bound:
        bars.append(ProofBar("sliced", "bound: partitions searched", report.cores_lower_bound_sliced))
    bounds = sorted(report.bounds.items(), key=lambda bound: (-bound[1], bound[0] != report.binding, bound[0]))
    bars += [ProofBar("bound", f"bound: {_words(name)}", n, name == report.binding) for name, n in bounds]
    gap = report.cores - report.cores_lower_bound
    return ProofPicture(tuple(bars), report.status, gap, _sentence(report.status, report.cores, gap, report.binding))


def _sentence(status: str, cores: int, gap: int, binding: str) -> str:
    used = counted(cores, "core")
    if status == "optimal":
        return f"{used}: no map needs fewer (set by {_words(binding)})"
    limit = f"any map needs at least {cores - gap:,} (set by {_words(binding)})"
    if status == "optimal-sliced":
        return f"{used}, the fewest for rectangular slices, each stored by itself; {limit}"
    return f"{used}, at most {gap:,} above the optimum; {limit}"


def _words(name: str) -> str:
    return one_line(name).replace("_", " ")
