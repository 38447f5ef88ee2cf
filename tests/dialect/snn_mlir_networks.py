"""Networks that snn-mlir holds, at random, and a text as its own front end writes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.network.compose import compose
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, SumPool
from tests.emitters.oracles import TIMING, grid

# As its own front end writes a NIR file: layers in order, decays with eleven digits, a merge before a recurrent neuron.
OTHERS = """module {
  memref.global "private" constant @w_r : memref<2x2xf32> = dense<[[5.00000000e-01, -1.25000000e+00], [0.0, 2.5e-01]]>
  memref.global "private" constant @w_fc : memref<2x3xf32> = dense<[[1.0, 2.0, 3.0], [5.0e-01, 2.5e-01, -1.0]]>
  memref.global "private" constant @b_fc : memref<2xf32> = dense<[1.25000000e-01, 0.00000000e+00]>
  func.func @snn_forward_step(
    %input : memref<3xf32>,
    %current_n.lif : memref<2xf32>,
    %voltage_n.lif : memref<2xf32>,
    %prev_spikes_n.lif : memref<2xf32>,
    %output : memref<2xf32>
  ) attributes { llvm.emit_c_interface } {

    // --- Linear r: (2) -> (2) ---
    %w_r = memref.get_global @w_r : memref<2x2xf32>
    %synapse_r = memref.alloca() : memref<2xf32>
    snn.linear ins(%prev_spikes_n.lif, %w_r) out(%synapse_r) : memref<2xf32>, memref<2x2xf32> -> memref<2xf32>
    %w_fc = memref.get_global @w_fc : memref<2x3xf32>
    %b_fc = memref.get_global @b_fc : memref<2xf32>
    %synapse_fc = memref.alloca() : memref<2xf32>
    snn.linear ins(%input, %w_fc) bias(%b_fc : memref<2xf32>) out(%synapse_fc)
      : memref<3xf32>, memref<2x3xf32> -> memref<2xf32>
    %merged_n.lif = memref.alloca() : memref<2xf32>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>,
      affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%synapse_r, %synapse_fc : memref<2xf32>, memref<2xf32>) outs(%merged_n.lif : memref<2xf32>) {
    ^bb0(%in0: f32, %in1: f32, %acc: f32):
      %sum1 = arith.addf %in0, %in1 : f32
      linalg.yield %sum1 : f32
    }
    snn.cubalif ins(%merged_n.lif) state(%current_n.lif, %voltage_n.lif) out(%output)
      {cur_decay_float = 5.0000000000e-01 : f64, vol_decay_float = 8.7500000000e-01 : f64,
       threshold_float = 1.0000000000e+00 : f64}
      : memref<2xf32>, memref<2xf32>, memref<2xf32> -> memref<2xf32>

    memref.copy %output, %prev_spikes_n.lif : memref<2xf32> to memref<2xf32>
    return
  }
}
"""
NAMES = ("in", 'a "b"\\é', "x.y", "10")


def record(rng: np.random.Generator, kind: str) -> Neuron:
    """Decays of eighths; gains are powers of two."""
    synapse: dict[str, Any] = (
        {"a_syn": rng.integers(1, 8) / 8, "g_syn": 2.0 ** rng.integers(-2, 2)} if "Cuba" in kind else {}
    )
    given: dict[str, Any] = {
        "a_mem": 1.0 if kind in ("IF", "I") else rng.integers(1, 8) / 8,
        "g_mem": 2.0 ** rng.integers(-3, 2),
    }
    if kind.endswith("LI") or kind == "I":
        return neuron(kind, theta=None, reset="none", reset_amount=0.0, **given, **synapse)
    value = 0.0 if synapse else rng.integers(-2, 2) / 64
    return neuron(kind, theta=rng.integers(1, 9) / 64, v_reset=value, **given, **synapse)


def _spatial(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Operator, ...]:
    """A convolution, perhaps after a pool."""
    parts: list[Any] = []
    if len(shape) == 3 and min(shape[1:]) > 1 and rng.random() < 0.4:
        factor = float(rng.choice([1.0, 0.25]))
        parts.append(SumPool((2, 2), (int(rng.integers(1, 3)), 2), ((1, 1), (0, 0)), shape, factor))
        shape = parts[-1].output_shape
    axes = len(shape) - 1
    sides = tuple((int(n), int(n)) for n in rng.integers(0, 2, axes))
    kernel, stride = np.minimum(rng.integers(1, 3, axes), shape[1:]), tuple(int(n) for n in rng.integers(1, 3, axes))
    parts.append(Conv(grid(rng, 2, shape[0], *kernel), stride, sides, (1,) * axes, 1, shape))
    return tuple(parts)


def _dense(rng: np.random.Generator, shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[Operator, ...]:
    size, count = int(np.prod(shape)), int(np.prod(out))
    return (Reshape(shape, (size,)), Dense(grid(rng, count, size)), Reshape((count,), out))


def _projection(rng: np.random.Generator, source: str, target: str, parts: Any, *, is_back: bool = False) -> Projection:
    operator, _ = compose(parts, [""] * len(parts), parts[0].input_shape)
    bias = None
    if rng.random() < 0.5:
        shape = operator.output_shape
        channels = isinstance(parts[-1], Conv)
        values = grid(rng, shape[0], *[1] * (len(shape) - 1)) if channels else grid(rng, *shape)
        bias = freeze(np.broadcast_to(values, shape).astype(np.float64))
    return Projection(source, target, operator, bias, freeze(np.int64(is_back)), is_back=is_back)


def held_network(seed: int, kinds: tuple[str, ...] = ("LIF", "IF", "CubaLIF", "LI", "CubaLI", "I")) -> Network:
    """A chain of one to three populations, each of which may be self-recurrent."""
    rng = np.random.default_rng(seed)
    shape: Any = ((3,), (2, 5), (2, 5, 4))[seed % 3]
    first = Port(NAMES[int(rng.integers(len(NAMES)))], shape)
    source, populations, projections = first.name, [], []
    for k in range(int(rng.integers(1, 4))):
        if len(shape) > 1 and rng.random() < 0.6:
            parts = _spatial(rng, shape)
        else:
            parts = _dense(rng, shape, ((4,), (2, 3), (1, 2, 3))[int(rng.integers(3))])
        shape, name = parts[-1].output_shape, f"{NAMES[k]} {k}"
        projections.append(_projection(rng, source, name, parts))
        if rng.random() < 0.4:
            back = _projection(rng, name, name, _dense(rng, shape, shape), is_back=True)
            projections.insert(int(rng.integers(len(projections) - 1, len(projections) + 1)), back)
        populations.append(Population(name, shape, record(rng, kinds[int(rng.integers(len(kinds)))])))
        source = name
    projections.append(Projection(source, "out", Identity(shape)))
    outputs = (Port("out", shape),)
    return Network(1e-3, TIMING, tuple(populations), tuple(projections), (first,), outputs)
