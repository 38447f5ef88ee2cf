"""An emitted program as one of the ways to compute a model: its name and its probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.simulators.types import Probe, Recording

VARIABLES = ("s", "u", "v")
"""Variables of a population in integers: spikes, currents and potentials."""
OTHER_WAYS = ("reference", "retimed", "fixed", "mapped")


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """An emitted program and how it is run.

    ``run``: the ``run`` of its emitter with the artifact bound. ``records``: the variables of populations that it
    records. ``is_exact``: it was made of the integers, and so has to equal the fixed-point simulator in every bit;
    False: it computes the network in real numbers, and is compared with the reference. ``prove``: decides by
    population whether the program's neurons are their rule for every input; by default nothing is decided.
    """

    target: str
    run: Callable[..., Recording]
    records: tuple[str, ...] = VARIABLES
    is_exact: bool = True
    prove: Callable[[Progress], Mapping[str, str]] = field(default=lambda progress: {})

    @property
    def way(self) -> str:
        """Its name among the recordings: the target, which may be called as one of the other ways."""
        return f"{self.target} program" if self.target in OTHER_WAYS else self.target

    def recording(
        self, every: Sequence[Probe], outputs: set[str], inputs: Mapping[str, Array], steps: int, progress: Progress
    ) -> Recording:
        """Recording of the program: of ``every`` probe the variables that it records, and all of ``outputs``."""
        probes = [Probe("*", ("s",))]
        if self.is_exact:
            recorded = {p.node: tuple(v for v in p.variables if v in self.records or p.node in outputs) for p in every}
            probes = [Probe(node, variables) for node, variables in recorded.items() if variables]
        return self.run(inputs, steps=steps, record=probes, progress=progress)
