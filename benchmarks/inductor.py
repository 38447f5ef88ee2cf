"""Time steps of AOTInductor's packages beside the eager module, ONNX Runtime and the fast simulator, on one core.

``python -m benchmarks.inductor [STEPS]`` (a multiple of 8): us of CPU time of a time step, least of 5 runs, for
docs/inductor.md; each run's spikes are those of the simulator. Needs the extras ``torch`` and ``onnx``, and g++.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, write_artifact
from nirbridge.emitters.inductor.emit import INDUCTOR, InductorOptions
from nirbridge.emitters.onnx.emit import emit as emit_onnx
from nirbridge.emitters.own_time import listen_to_times
from nirbridge.network.model import Network
from nirbridge.pipeline import load_network, network_of_shapes
from nirbridge.simulators.simulate import simulate

ROOT = Path(__file__).parents[1]
BATCHES = (1, 32)
UNROLLED = (1, 8)


def networks() -> Iterator[tuple[str, Network]]:
    """Both digits models and a large dense network."""
    for name in ("digits_mlp", "digits_cnn"):
        yield name, load_network(ROOT / "examples" / "models" / f"{name}.nir")
    yield "784-1000-10", network_of_shapes("784 dense1000 lif dense10 lif")


def least(run: Callable[[], Array], expected: Array) -> float:
    """Seconds of CPU time of the fastest of 5 runs after a first one, which is held to the reference."""
    assert np.array_equal(run(), expected)
    times = []
    for _ in range(5):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def runs(network: Network, folder: Path, packages: dict[int, Artifact]) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Name and function of each way to run a network, from spikes to its output."""
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(emit_onnx(network).files["model.onnx"], options)
    yield "fast simulator", lambda x: next(iter(simulate(network, x, backend="fast").recording.arrays.values()))
    yield "ONNX Runtime", lambda x: session.run(None, {"in0": x})[0]
    folder.mkdir()
    for unroll, program in packages.items():
        write_artifact(program, folder / str(unroll))
    sys.path.insert(0, str(folder / "1"))
    for name in ("model", "steps"):
        sys.modules.pop(name, None)
    import model  # type: ignore[import-not-found]
    from steps import load_steps  # type: ignore[import-not-found]

    module, steps = model.load().eval(), load_steps()
    yield "eager module", lambda x: module(torch.from_numpy(x)).numpy()
    for unroll in packages:
        package = torch._inductor.aoti_load_package(str(folder / str(unroll) / "step.pt2")).loader

        def stepped(x: Array, package: Any = package, unroll: int = unroll) -> Array:
            given, found = torch.from_numpy(x), []
            state = torch.utils._pytree.tree_leaves(steps.start(given))
            for part in given.split(unroll):
                results = package.run([*state, part])
                state = results[-len(state) :]
                found.append(results[0])
            return torch.cat(found).numpy()

        yield f"package, {unroll} a call", stepped


def measured(name: str, network: Network, steps: int, folder: Path) -> Iterator[str]:
    """The rows of a network."""
    with listen_to_times() as times:
        packages = {k: INDUCTOR.emit(network, InductorOptions(unroll=k, package=True)) for k in UNROLLED}
    sizes = [len(program.files["step.pt2"]) for program in packages.values()]
    yield f"| {name} | compiled in {times.compilation} s, {sizes} bytes |"
    rng = np.random.default_rng(0)
    inputs = [(rng.random((steps, n, *network.inputs[0].shape)) < 0.1).astype(np.float32) for n in BATCHES]
    expected = [next(iter(simulate(network, x).recording.arrays.values())) for x in inputs]
    for way, run in runs(network, folder, packages):
        seconds = [least(lambda x=x, run=run: run(x), y) for x, y in zip(inputs, expected, strict=True)]
        yield f"| {name} | {way} | {' | '.join(f'{s / steps * 1e6:.1f}' for s in seconds)} |"


def main() -> int:
    """Prints the rows."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache"}
        import torch

        with torch.no_grad():
            for name, network in networks():
                for row in measured(name, network, steps, Path(folder) / name):
                    print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
