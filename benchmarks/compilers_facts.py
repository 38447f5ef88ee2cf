"""The work of compilers on one time step: operations before and kernels after, each in a process of its own.

python -m benchmarks.compilers_facts BACKEND MODEL.nir prints a sentence, from the emitted program at batch 1.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import nirbridge as nb
from nirbridge import plugins as registry
from nirbridge.network.model import Network

STEPS = 100


def onnxruntime(network: Network) -> str:
    """Nodes in the body of the Scan."""
    import onnx
    from onnxruntime import InferenceSession, SessionOptions  # pyright: ignore[reportAttributeAccessIssue]

    options = SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 3, "optimized.onnx"
    InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
    before, after = (
        next(len(part.g.node) for node in onnx.load(name).graph.node for part in node.attribute if part.name == "body")
        for name in ("model.onnx", "optimized.onnx")
    )
    return f"{before} nodes of ONNX become {after}"


def openvino(network: Network) -> str:
    """Kernels of a time step, compiled by itself: the plugin does not show the body of a loop."""
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # it reports to Google Analytics
    core = import_module("openvino").Core()
    model = _step(network)
    compiled = core.compile_model(
        core.read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    kinds = [op.get_rt_info()["layerType"].astype(str) for op in compiled.get_runtime_model().get_ops()]
    left = [kind for kind in kinds if kind not in ("Input", "Output", "Const")]
    moves = sum(kind in ("Reorder", "Reshape", "Transpose") for kind in left)
    fused = kinds.count("Subgraph")
    text = f"{len(model.graph.node)} nodes of ONNX become {len(left)} kernels"
    return f"{text}: {len(left) - moves - fused} products, {fused} fused element-wise, {moves} that move data"


def tvm(network: Network) -> str:
    """Functions and buffers of a time step in the stages of TVM's own pipeline."""
    tvm, relax = import_module("tvm"), import_module("tvm.relax")
    stages = import_module("tvm.relax.backend.cpu_generic.pipeline")
    model, target = _step(network), tvm.target.Target("llvm")
    extents = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}

    def after(module: Any, passes: Any) -> Any:
        with target:
            return tvm.transform.Sequential(passes)(module)

    first = import_module("tvm.relax.frontend.onnx").from_onnx(model, shape_dict=extents)
    plain = after(first, [relax.transform.LegalizeOps()])
    fused = after(first, stages.legalize_passes(target))
    lowered = after(fused, stages.dataflow_lower_passes(target))
    planned = after(lowered, [relax.transform.StaticPlanBlockMemory()])
    calls = [text.count("R.call_tir(") for text in (plain.script(), fused.script())]
    tensors, storages = lowered.script().count("alloc_tensor("), planned.script().count("alloc_storage(")
    return f"{calls[0]} functions become {calls[1]}; {tensors} tensors share {storages} buffers"


def tinygrad(network: Network) -> str:
    """Kernels of a call that TinyJit replays."""
    run, tool, np = import_module("run"), import_module("tool"), import_module("numpy")
    model = run.fixed(1, [])
    step = tool.compiled(model, Path())
    given = [
        tool.put(np.zeros([d.dim_value for d in v.type.tensor_type.shape.dim], np.float32)) for v in model.graph.input
    ]
    counters = import_module("tinygrad.helpers").GlobalCounters
    for _ in range(4):
        counters.reset()
        step(given)
    return f"{len(model.graph.node)} nodes of ONNX become {counters.kernel_count} kernels"


def jax(network: Network) -> str:
    """Fusions of XLA in the whole program, whose loop over time is one of its operations."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_max_isa=AVX"
    jax, module, np = import_module("jax"), import_module("network"), import_module("numpy")
    weights = module.load_weights()
    x = {"in0": np.zeros((STEPS, 1, *network.inputs[0].shape), np.float32)}
    lowered = jax.jit(module.run).lower(weights, x, module.initial_state(weights, batch=(1,)))
    compiled = lowered.compile()
    before = len(re.findall(r"= stablehlo\.(?!constant)", lowered.as_text()))
    memory = compiled.memory_analysis().temp_size_in_bytes
    fusions = compiled.as_text().count(" fusion(")
    return f"{before} operations of StableHLO become {fusions} fusions; {memory / 1000:,.0f} kB for {STEPS} time steps"


def iree(network: Network) -> str:
    """Dispatches of IREE's flow dialect."""
    words = [sys.executable, "compile.py", "-o", "flow.mlir", "--compile-to=flow"]
    subprocess.run(words, check=True, capture_output=True)
    before, after = (Path(name).read_text(encoding="utf-8") for name in ("network.mlir", "flow.mlir"))
    found = len(re.findall(r"= linalg\.", before)), len(re.findall(r"flow\.dispatch @", after))
    return "{} operations of linalg become {} dispatches".format(*found)


def inductor(network: Network) -> str:
    """Loops of Inductor before they are fused, and kernels of C++."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        torch, program = import_module("torch"), import_module("compile")
        metrics = import_module("torch._inductor.metrics")
        package = f"{cache}/step.pt2"
        torch._inductor.aoti_compile_and_package(
            program.exported(), package_path=package, inductor_configs=program.CONFIG
        )
    return f"{metrics.ir_nodes_pre_fusion} loops and calls become {metrics.generated_kernel_count} kernels of C++"


def triton(network: Network) -> str:
    """Launches of a time step."""
    os.environ["TRITON_INTERPRET"] = "1"
    return f"{len(import_module('network').KERNELS)} kernels, one for each layer; `--form mega`: 1 for all time steps"


FACTS: Mapping[str, Callable[[Network], str]] = {
    "onnx": onnxruntime,
    **{f.__name__: f for f in (openvino, tvm, tinygrad, jax, iree, inductor, triton)},
}


def _step(network: Network) -> Any:
    """The model of one time step at batch 1."""
    from nirbridge.emitters.onnx.scan import step_model

    model = step_model(network)[0]
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    return model


def main() -> None:
    """Emits a program, and prints the sentence."""
    name, network = sys.argv[1], nb.load(sys.argv[2])
    emitter: Any = registry.get("emitters", name)
    with tempfile.TemporaryDirectory() as folder:
        emitter.emit(network).save(f"{folder}/program")
        os.chdir(f"{folder}/program")
        sys.path.insert(0, os.getcwd())
        print(FACTS[name](network))


if __name__ == "__main__":
    main()
