"""An emitter of a table that cannot be run, and a simulator that runs everything twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.errors import UsageError, instance_of
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.network.model import Network
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe, Recording


@dataclass(frozen=True)
class TableOptions:
    """Options of the table; ``emit`` has a flag for each."""

    separator: Annotated[str, "Text between two columns"] = ","
    header: Annotated[bool, "Name the columns in the first line"] = True
    only: Annotated[tuple[str, ...] | None, "Populations in the table"] = None


class Table:
    """Which core has which neurons, as a file of comma-separated values."""

    takes = (MappedNetwork,)
    options = TableOptions
    records = ()
    summary = "a table of cores and neurons"

    def emit(self, model: Model, options: TableOptions | None = None) -> Artifact:
        """One line for each slice of each core."""
        mapped = instance_of(model, MappedNetwork, "model of emitter 'csv'")
        chosen = instance_of(options or TableOptions(), TableOptions, "options of emitter 'csv'")
        lines = [("core", "population", "neurons")] if chosen.header else []
        for number, block in enumerate(mapped.partition.blocks):
            for s in (s for s in block.slices if chosen.only is None or s.population in chosen.only):
                lines.append((str(number), s.population, str(math.prod(stop - start for start, stop in s.box))))
        text = "".join(f"{chosen.separator.join(line)}\n" for line in lines)
        files = {"cores.csv": text.encode(), "README.md": b"cores.csv lists the neurons of every core.\n"}
        return make_artifact(files, {"kind": "csv", "chip": mapped.chip.name})

    def run(self, artifact: Artifact, inputs: Any, **options: Any) -> NoReturn:
        """A table is only read."""
        raise UsageError.of("program 'csv'", "is a table", "nothing runs it", "open cores.csv")


class Twice:
    """The second of two equal runs."""

    takes = (Network,)

    def __call__(
        self,
        model: Model,
        inputs: Any,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        network = instance_of(model, Network, "model of simulator 'twice'")
        simulate(network, inputs, steps=steps, record=record, progress=progress)
        return simulate(network, inputs, steps=steps, record=record, progress=progress).recording


CSV, TWICE = Table(), Twice()
