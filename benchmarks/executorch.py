"""A time step of a network in ExecuTorch, on its portable kernels and on XNNPACK: equal or not, size, time.

    python -m benchmarks.executorch examples/models/digits_mlp.nir -o build

writes digits_mlp.portable.pte and digits_mlp.xnnpack.pte and prints a row of each. The package requires 20 others;
this needs torch and four: pip install --no-deps executorch==1.5.1 "torchao==0.18.*" ruamel.yaml tabulate flatbuffers
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nirbridge as nb
from benchmarks.step_modules import StepModule
from nirbridge.arrays import Array
from nirbridge.network.model import Network
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Key, Probe

BACKENDS = ("portable", "xnnpack")


@dataclass(frozen=True, slots=True, eq=False)
class Exported:
    """A time step as bytes of a .pte file; ``delegates``: its parts that XNNPACK computes."""

    module: StepModule
    data: bytes
    delegates: int
    compile_s: float

    def run(self, inputs: Mapping[str, Array]) -> tuple[dict[Key, Array], float]:
        """``s`` and ``v`` of all populations, ``s`` of outputs; and seconds of CPU time per time step."""
        from executorch.runtime import Runtime

        method = Runtime.get().load_program(self.data).load_method("forward")
        given = [torch.from_numpy(inputs[name]) for name in self.module.inputs]
        start = time.process_time()
        found = self.module.run(lambda *values: method.execute(list(values)), given)
        taken = (time.process_time() - start) / len(given[0])
        return {key: x.numpy() for key, x in zip(self.module.recorded, found, strict=True)}, taken


def export(network: Network, backend: str, batch: int = 1) -> Exported:
    """One time step of a network for a batch, on ``portable`` kernels or ``xnnpack``."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    module = StepModule(network)
    example = [torch.zeros(batch, *port.shape) for port in network.inputs]
    start = time.process_time()
    with torch.no_grad():
        program = torch.export.export(module, (*example, *module.first(batch)))
    parts: list[Any] = [XnnpackPartitioner()] if backend == "xnnpack" else []
    edge = to_edge_transform_and_lower(program, partitioner=parts)
    data = bytes(edge.to_executorch().buffer)
    calls = [node for node in edge.exported_program().graph.nodes if "executorch_call_delegate" in str(node.target)]
    return Exported(module, data, len(calls), time.process_time() - start)


def compared(network: Network, backend: str, steps: int = 24, batch: int = 1) -> tuple[Exported, list[Key], float]:
    """A network exported, the variables in which it differs from the reference, and seconds per time step."""
    rng = np.random.default_rng(7)
    x = {p.name: (rng.random((steps, batch, *p.shape)) < 0.4).astype(np.float32) for p in network.inputs}
    expected = simulate(network, x, record=[Probe("*", ("s", "v"))], backend="numpy").recording.arrays
    exported = export(network, backend, batch)
    found, taken = exported.run(x)
    spikes = {key if key in found else (key[0], "s"): values for key, values in expected.items() if key[0] not in x}
    assert set(spikes) <= set(found)
    return exported, [key for key, values in spikes.items() if not np.array_equal(found[key], values)], taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="folder of the .pte files")
    parser.add_argument("--batch", type=int, default=1)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for path in chosen.models:
        for backend in BACKENDS:
            exported, differing, taken = compared(nb.load(path), backend, 100, chosen.batch)
            equal = f"differs in {differing}" if differing else "equal"
            print(
                f"{path.stem} {backend}: {equal}, {len(exported.data):,} B, {exported.delegates} delegates,"
                f" {taken * 1e6:,.0f} us a time step, compiled in {exported.compile_s:.1f} s"
            )
            if chosen.output is not None:
                chosen.output.mkdir(parents=True, exist_ok=True)
                (chosen.output / f"{path.stem}.{backend}.pte").write_bytes(exported.data)


if __name__ == "__main__":
    main()
