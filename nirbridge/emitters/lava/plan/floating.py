"""The plan of the floating-point variant: the real network on Lava's float models, for comparison."""

from __future__ import annotations

import math

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.lava.plan.model import Argument, LavaLayer, LavaPlan, LavaSynapse
from nirbridge.emitters.lava.plan.processes import lava_synapse, own_layer, uniform_number
from nirbridge.emitters.program import InputSpec, PopulationParts, ProcessPart, output_spec
from nirbridge.emitters.target import other_fields
from nirbridge.errors import ModelError, UsageError, quoted
from nirbridge.network.apply import matrix
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Conv, Dense, Operator, Sparse
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork

_SYNAPSES_MAX = 200_000_000
_GRADED_BITS = 24


def floating_plan(quantized: QuantizedNetwork) -> LavaPlan:
    """The real network that was quantized, in float64.

    Raises:
        UsageError: the quantized network was loaded from a file, which does not hold the real one.
        ModelError: a projection without a delay, which Lava does not have.
    """
    network = quantized.network
    if network is None:
        step = "emit it where it is quantized"
        raise UsageError.of("emit", "the real network is not known", "a quantized file holds integers alone", step)
    ids = {port.name: f"input{k}" for k, port in enumerate(network.inputs)}
    ids |= {p.name: f"layer{k}" for k, p in enumerate(network.populations)}
    shapes = {n.name: n.shape or (1,) for n in (*network.inputs, *network.populations)}
    outputs = {port.name for port in network.outputs}
    binary = {p.name for p in network.populations if p.neuron.fires and p.neuron.max_spikes == 1}
    synapses: list[LavaSynapse] = []
    for p in network.projections:
        if p.target in outputs:
            continue
        bits = 0 if p.source in binary else _GRADED_BITS
        ends = (ids[p.source], ids[p.target])
        synapses.append(_synapse(f"synapse{len(synapses)}", p, ends, (shapes[p.source], shapes[p.target]), bits))
    return LavaPlan(
        chip=quantized.chip,
        dt=network.dt,
        tag="floating_pt",
        layers=tuple(_layer(ids[p.name], p, network) for p in network.populations),
        synapses=tuple(synapses),
        inputs=tuple(InputSpec(i.name, i.shape, ids[i.name], None, 1.0) for i in network.inputs),
        nodes=tuple(_node(p, ids[p.name]) for p in network.populations),
        outputs=tuple(output_spec(o.name, o.shape, network.projections) for o in network.outputs),
        latency=quantized.latency,
        notes=network.notes,
        extra={"assumed": list(network.assumed)},
    )


def _node(p: Population, id: str) -> PopulationParts:
    one, none = np.float64(1), np.float64(0)
    return PopulationParts(p.name, p.shape, (ProcessPart(id),), p.neuron.fires, p.neuron.max_spikes, np.asarray(one),
                          np.asarray(none))  # fmt: skip


def _synapse(id: str, p: Projection, ends: tuple[str, str], shapes: tuple, bits: int) -> LavaSynapse:
    """As the integer one, with real weights, which Lava's float models take as they are."""
    if int(p.delay_steps.min()) + int(p.target_delay_steps.min()) < 1:
        subject = f"projection {quoted(p.source)} to {quoted(p.target)}"
        raise ModelError.of(
            subject, "a delay of 0 time steps", "a synaptic process takes one time step", "retime the network first"
        )
    real = FixedProjection(
        p.source, p.target, _single(p.operator), 8, 0, "mixed", p.delay_steps, p.target_delay_steps, p.nodes
    )
    floating = lava_synapse(id, real, ends, shapes, bits)
    dropped = ("num_weight_bits", "weight_exp")
    arguments = {name: value for name, value in floating.arguments.items() if name not in dropped}
    return LavaSynapse(
        id, floating.process, floating.source, floating.target, arguments, floating.before, floating.after
    )


def _single(operator: Operator) -> Dense | Sparse | Conv:
    if isinstance(operator, Dense | Sparse | Conv):
        return operator
    rows = matrix(operator, _SYNAPSES_MAX)
    return Sparse(rows.indptr, rows.indices, rows.data, operator.input_shape, operator.output_shape)


def _layer(id: str, p: Population, network: Network) -> LavaLayer:
    n, shape = p.neuron, p.shape or (1,)
    drive = np.zeros(p.shape)
    for projection in network.projections:
        if projection.target == p.name and projection.bias is not None:
            drive = drive + projection.bias
    return _lif(id, p, drive) if _is_plain(p, drive) else own_layer(id, shape, n, drive)


def _is_plain(p: Population, drive: Array) -> bool:
    """Whether Lava's float LIF computes a neuron: gains of 1, reset to 0, one value of each decay and the threshold."""
    n = p.neuron
    if np.any(drive) and np.any(n.a_syn):
        return False  # a constant input to a decaying current, which LIF has no entrance for
    ones = bool(np.all(n.g_mem == 1) and np.all(n.g_syn == 1))
    single = n.fires and all(a is not None and a.ndim == 0 for a in (n.a_mem, n.a_syn, n.theta))
    reset = n.reset == "to-value" and not np.any(n.v_reset) and not other_fields(n)
    reset = reset and not np.any(n.refractory_steps)
    return ones and single and reset and n.compare == ">" and n.max_spikes == 1 and math.prod(p.shape) > 0


def _lif(id: str, p: Population, drive: Array) -> LavaLayer:
    n, shape = p.neuron, p.shape or (1,)
    assert n.theta is not None
    arguments: dict[str, Argument] = {
        "shape": shape,
        "du": float(1 - n.a_syn),
        "dv": float(1 - n.a_mem),
        "vth": float(n.theta),
        "bias_mant": uniform_number(n.bias + drive),
        "u": uniform_number(n.i_init),
        "v": uniform_number(n.v_init),
    }
    return LavaLayer(id, "LIF", shape, arguments)
