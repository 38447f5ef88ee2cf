"""The networks of the simulation suite in other simulators, following their documentation.

Every builder returns a function from a float32 tensor ``[steps, batch, *shape]`` to output spikes
``[steps, batch, outputs]``, without gradients. ``SAME`` says where the model is the same as ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from benchmarks.sim_nets import ALPHA, BETA, D_DECAY, Net
from nirbridge.arrays import Array

Run = Callable[[Any], Any]

SAME: dict[tuple[str, str], str] = {
    ("A", "snnTorch"): "",
    ("A", "torch layer-wise"): "",
    ("A", "Norse"): "v + (x - v) / 8 rounds elsewhere",
    ("A", "spikingjelly"): "tests >=, v - v / 8 + x rounds elsewhere",
    ("B", "snnTorch"): "",
    ("B", "Norse"): "",
    ("B", "torch layer-wise"): "",
    ("B", "spikingjelly"): "tests >=",
    ("C", "snnTorch"): "RSynaptic resets one step late, its input has no gain",
    ("C", "Norse"): "rounds elsewhere; the network amplifies a difference",
    ("D", "snnTorch"): "b v + x + W S is added in another order",
    ("D", "brian2 C++"): "",
}
"""Why the spikes of a rival need not be ours; empty: they must be."""


def builders(net: Net) -> dict[str, Callable[[], Run]]:
    """Rivals of a net, by name."""
    return {
        "A": {
            "snnTorch": lambda: snntorch_a(net),
            "Norse": lambda: norse_a(net),
            "spikingjelly": lambda: spikingjelly_a(net),
            "torch layer-wise": lambda: torch_a(net),
        },
        "B": {
            "snnTorch": lambda: snntorch_b(net),
            "Norse": lambda: norse_b(net),
            "spikingjelly": lambda: spikingjelly_b(net),
            "torch layer-wise": lambda: torch_b(net),
        },
        "C": {"snnTorch": lambda: snntorch_c(net), "Norse": lambda: norse_c(net)},
        "D": {"snnTorch": lambda: snntorch_d(net)},
    }[net.name]


def tensor(values: Array) -> Any:
    """A torch copy."""
    import torch

    return torch.from_numpy(np.array(values))


def linear(weight: Array, bias: Array | None = None) -> Any:
    """``nn.Linear`` with these weights."""
    import torch

    layer = torch.nn.utils.skip_init(torch.nn.Linear, weight.shape[1], weight.shape[0], bias=bias is not None)
    return _filled(layer, weight, bias)


def _filled(layer: Any, weight: Array, bias: Array | None) -> Any:
    layer.weight.data = tensor(weight)
    if bias is not None:
        layer.bias.data = tensor(bias)
    return layer.requires_grad_(False)


def stepped(stages: list[Any], initial: Callable[[], list[Any]]) -> Run:
    """One step at a time through stages that are layers (one argument) or neurons (with a state)."""
    import torch

    def run(x: Any) -> Any:
        states, out = initial(), []
        for value in x:
            for k, stage in enumerate(stages):
                if states[k] is None:
                    value = stage(value)
                else:
                    value, states[k] = stage(value, *states[k])
            out.append(value)
        return torch.stack(out)

    return run


# --- A --------------------------------------------------------------------------------------------------------------


def snntorch_a(net: Net) -> Run:
    """The loop of snnTorch's tutorials."""
    import snntorch
    import torch

    fc1, fc2 = linear(net.weights["w1"]), linear(net.weights["w2"])
    lif1, lif2 = (snntorch.Leaky(beta=BETA, reset_mechanism="zero") for _ in range(2))

    def run(x: Any) -> Any:
        mem1, mem2, out = lif1.reset_mem(), lif2.reset_mem(), []
        for value in x:
            spk1, mem1 = lif1(fc1(value), mem1)
            spk2, mem2 = lif2(fc2(spk1), mem2)
            out.append(spk2)
        return torch.stack(out)

    return run


def norse_a(net: Net) -> Run:
    """``SequentialState`` of Linear and LIFBoxCell; dt / tau = 1/8 scales the input, so the weights are times 8."""
    import torch
    from norse.torch import LIFBoxCell, LIFBoxParameters, SequentialState

    p = LIFBoxParameters(tau_mem_inv=torch.as_tensor(128.0))
    layers = [
        linear(8 * net.weights["w1"]),
        LIFBoxCell(p, 2**-10),
        linear(8 * net.weights["w2"]),
        LIFBoxCell(p, 2**-10),
    ]
    return _norse_loop(SequentialState(*layers))


def _norse_loop(model: Any) -> Run:
    import torch

    def run(x: Any) -> Any:
        state, out = None, []
        for value in x:
            spikes, state = model(value, state)
            out.append(spikes)
        return torch.stack(out)

    return run


def spikingjelly_a(net: Net) -> Run:
    """Multi-step mode."""
    from spikingjelly.activation_based import layer, neuron

    def lif() -> Any:
        return neuron.LIFNode(tau=8.0, decay_input=False, step_mode="m")

    parts = [layer.Linear(784, 1000, False, step_mode="m"), lif(), layer.Linear(1000, 10, False, step_mode="m"), lif()]
    _filled(parts[0], net.weights["w1"], None)
    _filled(parts[2], net.weights["w2"], None)
    return _spikingjelly(parts)


def _spikingjelly(parts: list[Any]) -> Run:
    import torch
    from spikingjelly.activation_based import functional

    model = torch.nn.Sequential(*parts)

    def run(x: Any) -> Any:
        functional.reset_net(model)
        return model(x)

    return run


def torch_a(net: Net) -> Run:
    """One product over all steps per layer, then the membranes step by step in place."""
    w1, w2 = tensor(net.weights["w1"]), tensor(net.weights["w2"])

    def run(x: Any) -> Any:
        return _membranes(_membranes(x @ w1.T, BETA) @ w2.T, BETA)

    return run


def _membranes(currents: Any, beta: float) -> Any:
    """Spikes of currents ``[steps, ...]``, written over them."""
    import torch

    v = torch.zeros_like(currents[0])
    for current in currents:
        if beta != 1.0:
            v.mul_(beta)
        v.add_(current)
        torch.gt(v, 1.0, out=current)
        v.masked_fill_(current.bool(), 0.0)
    return currents


# --- B --------------------------------------------------------------------------------------------------------------

CONVOLUTIONS = {"0": (2, 1), "2": (1, 1), "5": (1, 1)}
"""Node: (stride, padding)."""


def _cnn(net: Net, conv: Callable[..., Any], lin: Callable[..., Any], cell: Callable[[], Any], pool: Any) -> list[Any]:
    """The stages of the published CNN; its sum pools are average pools times 4."""
    w = net.weights
    convs = {n: conv(w[f"{n}.weight"], w[f"{n}.bias"], *options) for n, options in CONVOLUTIONS.items()}
    fc1, fc2 = (lin(w[f"{n}.weight"], w[f"{n}.bias"]) for n in ("9", "11"))
    return [convs["0"], cell(), convs["2"], cell(), pool, convs["5"], cell(), pool, "flatten", fc1, cell(), fc2, cell()]


def _conv(weight: Array, bias: Array, stride: int, padding: int) -> Any:
    import torch

    cout, cin, kernel, _ = weight.shape
    return _filled(torch.nn.Conv2d(cin, cout, kernel, stride, padding), weight, bias)


def _sum_pool(x: Any) -> Any:
    import torch

    return torch.nn.functional.avg_pool2d(x, 2, divisor_override=1)


def _flat(x: Any) -> Any:
    return x.flatten(-3)


def _stages(net: Net, cell: Callable[[], Any]) -> list[Any]:
    return [_flat if s == "flatten" else s for s in _cnn(net, _conv, linear, cell, _sum_pool)]


def snntorch_b(net: Net) -> Run:
    """Leaky with beta = 1."""
    import snntorch

    stages = _stages(net, lambda: snntorch.Leaky(beta=1.0, reset_mechanism="zero"))

    def initial() -> list[Any]:
        return [[s.reset_mem()] if isinstance(s, snntorch.Leaky) else None for s in stages]

    run = stepped([_one_state(s) if isinstance(s, snntorch.Leaky) else s for s in stages], initial)
    return run


def _one_state(module: Any) -> Any:
    def call(value: Any, state: Any) -> tuple[Any, list[Any]]:
        spikes, state = module(value, state)
        return spikes, [state]

    return call


def norse_b(net: Net) -> Run:
    """IAFCell."""
    from norse.torch import IAFCell

    cells: list[Any] = []

    def cell() -> Any:
        cells.append(IAFCell())
        return cells[-1]

    stages = _stages(net, cell)
    return stepped(
        [_one_state(s) if s in cells else s for s in stages], lambda: [[None] if s in cells else None for s in stages]
    )


def spikingjelly_b(net: Net) -> Run:
    """Multi-step mode; layers see steps and batch as one axis, as ``step_mode='m'`` makes them do."""
    from spikingjelly.activation_based import layer, neuron

    def conv(weight: Array, bias: Array, stride: int, padding: int) -> Any:
        cout, cin, kernel, _ = weight.shape
        return _filled(layer.Conv2d(cin, cout, kernel, stride, padding, step_mode="m"), weight, bias)

    def lin(weight: Array, bias: Array) -> Any:
        return _filled(layer.Linear(weight.shape[1], weight.shape[0], step_mode="m"), weight, bias)

    pool = layer.SeqToANNContainer(_module(_sum_pool))
    parts = _cnn(net, conv, lin, lambda: neuron.IFNode(step_mode="m"), pool)
    return _spikingjelly([layer.Flatten(step_mode="m") if isinstance(p, str) else p for p in parts])


def _module(function: Callable[[Any], Any]) -> Any:
    import torch

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    return Module()


def torch_b(net: Net) -> Run:
    """Each layer over all steps at once, then its membranes in place."""

    def over_steps(stage: Any) -> Any:
        if stage is _membranes:
            return lambda x: _membranes(x, 1.0)
        return lambda x: stage(x.flatten(0, 1)).unflatten(0, x.shape[:2])

    stages = [over_steps(s) for s in _stages(net, lambda: _membranes)]
    return lambda x: reduce(lambda value, stage: stage(value), stages, x)


# --- C and D --------------------------------------------------------------------------------------------------------


def snntorch_c(net: Net) -> Run:
    """RSynaptic and Synaptic; the gain of the membrane is in the weights."""
    import snntorch
    import torch

    gain = 1 - BETA
    fc1, fc2 = linear(gain * net.weights["w1"]), linear(gain * net.weights["w2"])
    hidden = snntorch.RSynaptic(alpha=ALPHA, beta=BETA, linear_features=140, reset_mechanism="zero")
    _filled(hidden.recurrent, gain * net.weights["recurrent"], np.zeros(140, np.float32))
    last = snntorch.Synaptic(alpha=ALPHA, beta=BETA, reset_mechanism="zero")

    def run(x: Any) -> Any:
        (spk, syn, mem), (syn2, mem2), out = hidden.reset_mem(), last.reset_mem(), []
        for value in x:
            spk, syn, mem = hidden(fc1(value), spk, syn, mem)
            spk2, syn2, mem2 = last(fc2(spk), syn2, mem2)
            out.append(spk2)
        return torch.stack(out)

    return run


def norse_c(net: Net) -> Run:
    """LIFRecurrentCell, Linear, LIFCell: dt / tau_mem = 1/8, dt / tau_syn = 1/4."""
    import torch
    from norse.torch import LIFCell, LIFParameters, LIFRecurrentCell, SequentialState

    p = LIFParameters(tau_syn_inv=torch.as_tensor(256.0), tau_mem_inv=torch.as_tensor(128.0))
    w1, recurrent = tensor(net.weights["w1"]), tensor(net.weights["recurrent"])
    hidden = LIFRecurrentCell(12, 140, p, input_weights=w1, recurrent_weights=recurrent, dt=2**-10)
    return _norse_loop(SequentialState(hidden, linear(net.weights["w2"]), LIFCell(p, dt=2**-10)))


def snntorch_d(net: Net) -> Run:
    """RLeaky with a full matrix (it has no sparse one); ``x`` only says how many steps."""
    import snntorch
    import torch

    size = len(net.weights["drive"])
    cells = snntorch.RLeaky(beta=D_DECAY, V=1.0, all_to_all=False, reset_mechanism="zero", reset_delay=False)
    full = np.zeros((size, size), np.float32)
    full[np.repeat(np.arange(size), np.diff(net.weights["indptr"])), net.weights["indices"]] = net.weights["data"]
    cells.recurrent = linear(full)
    drive, start = tensor(net.weights["drive"])[None], tensor(net.weights["start"])[None]

    def run(x: Any) -> Any:
        spk, mem, out = torch.zeros_like(drive), start, []
        for _ in range(len(x)):
            spk, mem = cells(drive, spk, mem)
            out.append(spk)
        return torch.stack(out)

    return run
