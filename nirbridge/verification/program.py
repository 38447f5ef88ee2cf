"""An emitted program as one of the ways to compute a model: its name and its probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.simulators.types import Probe, Recording

VARIABLES = ("s", "u", "v")
"""Variables of a population in integers: spikes, currents and potentials."""
REALS = ("s", "v")
"""Those of a run in real numbers, to be compared bit by bit."""
OTHER_WAYS = ("reference", "retimed", "fixed", "mapped")


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """An emitted program and how it is run.

    ``run``: the ``run`` of its emitter with the artifact bound. ``records``: the variables of populations that it
    records. ``equals``: the way that it has to equal in every bit, ``fixed`` where it was made of the integers; a
    program in real numbers is compared with the reference, which it need not equal where that is None. ``prove``:
    decides by population whether the program's neurons are their rule for every input; by default nothing is decided.
    """

    target: str
    run: Callable[..., Recording]
    records: tuple[str, ...] = VARIABLES
    equals: Literal["fixed", "reference"] | None = "fixed"
    prove: Callable[[Progress], Mapping[str, str]] = field(default=lambda progress: {})

    @property
    def way(self) -> str:
        """Its name among the recordings: the target, which may be called as one of the other ways."""
        return f"{self.target} program" if self.target in OTHER_WAYS else self.target

    def recording(
        self, every: Sequence[Probe], outputs: set[str], inputs: Mapping[str, Array], steps: int, progress: Progress
    ) -> Recording:
        """Recording of the program: of ``every`` probe the variables that it records, and all of ``outputs``."""
        probes = [Probe("*", REALS if self.equals == "reference" else ("s",))]
        if self.equals == "fixed":
            recorded = {p.node: tuple(v for v in p.variables if v in self.records or p.node in outputs) for p in every}
            probes = [Probe(node, variables) for node, variables in recorded.items() if variables]
        return self.run(inputs, steps=steps, record=probes, progress=progress)
