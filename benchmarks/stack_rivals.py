"""Network A in ONNX Runtime's Scan and in JAX, as nirbridge emits it and as written by hand: one thread each."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sim_nets import BETA, Net
from benchmarks.stack_compilers import Call
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import write_artifact
from nirbridge.network.model import Network

XLA = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
ORT, EMITTED, SCAN = "ONNX Runtime, Scan", "emit --to jax", "jax.lax.scan"


def rivals(net: Net, spikes: Mapping[str, Array]) -> dict[str, Call]:
    """By name; ``XLA`` has to be in XLA_FLAGS."""
    (given,) = spikes.values()
    return {ORT: _onnxruntime(net.network, given), EMITTED: _emitted(net.network, given), SCAN: _scan(net, given)}


def _onnxruntime(network: Network, given: Array) -> Call:
    import onnxruntime

    from nirbridge.emitters.onnx.emit import emit

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(emit(network).files["model.onnx"], options, ["CPUExecutionProvider"])
    return lambda: np.asarray(session.run(None, {"in0": given})[0])


def _emitted(network: Network, given: Array) -> Call:
    """The module of ``emit --to jax``, which makes the first product of all time steps before its scan."""
    import jax

    from nirbridge.emitters.jax.emit import emit

    with tempfile.TemporaryDirectory(prefix="nirbridge-stack-") as scratch:
        write_artifact(emit(network), Path(scratch) / "program")
        path = Path(scratch) / "program" / "network.py"
        spec = importlib.util.spec_from_file_location("stack_network", path)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        sys.modules["stack_network"] = module
        spec.loader.exec_module(module)
        weights = module.load_weights()
    run, x = jax.jit(module.run), jax.device_put(given)
    state = module.initial_state(weights, batch=given.shape[1:2])
    return lambda: np.asarray(next(iter(run(weights, {"in0": x}, state)[0].values())))


def _scan(net: Net, given: Array) -> Call:
    """The network as one writes it in JAX: both products within the step."""
    import jax
    import jax.numpy as jnp

    first, second = (jnp.asarray(net.weights[name].T) for name in ("w1", "w2"))

    def neuron(v: Any, current: Any) -> Any:
        u = BETA * v + current
        fired = u > 1.0
        return jnp.where(fired, 0.0, u), fired.astype(jnp.float32)

    def step(state: Any, x: Any) -> Any:
        hidden, spikes = neuron(state[0], x @ first)
        out, sent = neuron(state[1], spikes @ second)
        return (hidden, out), sent

    @jax.jit
    def run(x: Any) -> Any:
        return jax.lax.scan(step, tuple(jnp.zeros((x.shape[1], w.shape[1])) for w in (first, second)), x)[1]

    x = jax.device_put(given)
    return lambda: np.asarray(run(x))
