"""What benchmarks/gpu.py times: one program in torch, JAX, CuPy and Triton."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nirbridge import plugins
from nirbridge.arrays import Array
from nirbridge.emitters.own_time import listen_to_times
from nirbridge.network.model import Network
from nirbridge.network.operators import Dense
from nirbridge.program.step import step_program
from nirbridge.simulators.simulate import simulate

Run = Callable[[], Any]
"""All time steps: the spikes of the output, ``[steps, batch, *shape]``, as an array of its library."""


class Absent(Exception):
    """A package or a device that is not there, or what a library cannot do."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A network with input spikes ``[steps, batch, *shape]``, its own spikes of the first samples, and bytes a step."""

    net: str
    network: Network
    x: Array
    expected: Array
    bytes_a_step: int
    device: str

    @property
    def batch(self) -> int:
        """Samples of a run."""
        return self.x.shape[1]


def emitted(case: Case, name: str) -> Any:
    """The module of an emitted program, loaded into this process."""
    files = plugins.get("emitters", name).emit(case.network).files
    folder = Path(tempfile.mkdtemp())
    for path, content in files.items():
        (folder / path).write_bytes(content)
    file = folder / ("model.py" if name == "torch" else "network.py")
    spec = importlib.util.spec_from_file_location(f"{name}_{case.net}_{case.batch}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def torch_emitted(case: Case) -> Run:
    import torch

    model = emitted(case, "torch").load().eval().requires_grad_(False).to(case.device)
    return partial(model, torch.from_numpy(case.x).to(case.device))


def step_module(case: Case) -> tuple[Any, list[Any]]:
    import torch

    from benchmarks.step_modules import StepModule

    module = StepModule(case.network, [(case.network.outputs[0].name, "s")], case.device)
    return module, [torch.from_numpy(case.x).to(case.device)]


def torch_terms(case: Case) -> Run:
    module, inputs = step_module(case)
    return lambda: module.run(module, inputs)[0]


def torch_graph(case: Case) -> Run:
    import torch

    if case.device != "cuda":
        raise Absent("a CPU has no CUDA graphs")
    module, (x,) = step_module(case)
    given, state, first = x[0].clone(), module.first(case.batch), module.first(case.batch)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # a warm-up, as the documentation of CUDA graphs asks for
        for _ in range(3):
            module(given, *state)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        spikes, *following = module(given, *state)
        for old, new in zip(state, following, strict=True):
            old.copy_(new)

    def run() -> Any:
        for old, new in zip(state, first, strict=True):
            old.copy_(new)
        found = torch.empty(len(x), *spikes.shape, device=x.device)
        for t in range(len(x)):
            given.copy_(x[t])
            graph.replay()
            found[t] = spikes
        return found

    return run


def torch_compiled(case: Case) -> Run:
    import torch

    module, inputs = step_module(case)
    program = torch.export.export(module, (inputs[0][0], *module.first(case.batch)))
    compiled = torch.compile(program.module(), mode="reduce-overhead" if case.device == "cuda" else "default")

    def step(*values: Any) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(*values)

    return lambda: module.run(step, inputs)[0]


def reference(library: str, case: Case) -> Run:
    """The array-API reference; with the way of inputs and spikes between host and card."""
    if library == "cupy" and case.device != "cuda":
        raise Absent("CuPy runs on a card")
    options: Any = {"backend": "reference", "library": library, "device": case.device}
    output = case.network.outputs[0].name
    return lambda: simulate(case.network, {"in": case.x}, **options).recording.arrays[output, "s"]


def cupy_terms(case: Case) -> Run:
    from nirbridge.program.evaluate import ProgramEvaluator
    from nirbridge.simulators.reference.array_namespace import array_namespace
    from nirbridge.simulators.reference.sums import accumulate

    if case.device != "cuda":
        raise Absent("CuPy runs on a card")
    space = array_namespace("cupy", "float32", "cuda")

    def linear(operator: Any, kind: str) -> Any:
        if not isinstance(operator, Dense):
            return accumulate(operator, space)
        weight = space.array(operator.weight)
        return lambda x: x @ weight.T

    types: Any = {"real": space.dtype, "int": space.xp.int64, "count": space.xp.int64, "bool": space.xp.bool}
    made = ProgramEvaluator(step_program(case.network), space.xp, types, linear)
    x, first, key = space.array(case.x), made.first(case.batch), (case.network.outputs[0].name, "s")
    return lambda: space.numpy(made.run({"in": x}, first).arrays[key])


def jax_emitted(case: Case) -> Run:
    import jax

    if jax.default_backend() != ("gpu" if case.device == "cuda" else "cpu"):
        raise Absent(f"JAX runs on {jax.default_backend()} here")
    module = emitted(case, "jax")
    weights = module.load_weights()
    run, x = jax.jit(module.run), jax.numpy.asarray(case.x)
    (key,), state = module.OUTPUTS, module.initial_state(weights, batch=(case.batch,))
    return lambda: jax.block_until_ready(run(weights, {"in0": x}, state)[0][key])


def triton_emitted(case: Case) -> Run:
    """In a process of its own, whose time steps it reports; ``run.seconds`` has them."""
    if "triton" not in plugins.names("emitters"):
        raise Absent("no emitter of that name is registered")
    if case.device != "cuda":
        raise Absent("on a CPU Triton has an interpreter alone")
    emitter: Any = plugins.get("emitters", "triton")
    artifact, output = emitter.emit(case.network), case.network.outputs[0].name

    def run() -> Any:
        with listen_to_times() as reported:
            arrays = emitter.run(artifact, {"in": case.x}).arrays
        run.seconds = sum(reported.own)  # type: ignore[attr-defined]
        return arrays[output, "s"]

    return run


# what compiles long comes last, so that the time limit cuts it first
CONTENDERS: Mapping[str, Callable[[Case], Run]] = {
    "torch, emitted": torch_emitted,
    "torch, terms": torch_terms,
    "torch, CUDA graph": torch_graph,
    "jax, emitted": jax_emitted,
    "cupy, terms": cupy_terms,
    "triton, emitted": triton_emitted,
    "reference/torch": partial(reference, "torch"),
    "reference/cupy": partial(reference, "cupy"),
    "torch.compile": torch_compiled,
}
