"""Small graphs and a plain reference for the tests of the network room."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import nir
import numpy as np

from nirbridge.arrays import Array
from nirbridge.network import Network, apply


def graph_of(nodes: dict[str, Any], edges: list[tuple[str, str]], **metadata: Any) -> nir.NIRGraph:
    stored = {f"nirbridge:{key}": value for key, value in metadata.items()}
    return nir.NIRGraph(nodes, edges, metadata=stored, type_check=False)


def port(*shape: int) -> nir.Input:
    return nir.Input({"input": np.array(shape)})


def out(*shape: int) -> nir.Output:
    return nir.Output({"output": np.array(shape)})


def lif(*shape: int, tau: float = 1e-3, r: float = 1.0, v_leak: float = 0.0, theta: float = 1.0) -> nir.LIF:
    return nir.LIF(
        tau=np.full(shape, tau), r=np.full(shape, r), v_leak=np.full(shape, v_leak), v_threshold=np.full(shape, theta)
    )


def chain(*nodes: Any, **metadata: Any) -> nir.NIRGraph:
    """nodes in a row, named by their place ('0', '1' …) between 'in' and 'out'."""
    names = ["in", *(str(k) for k in range(len(nodes) - 2)), "out"]
    edges = list(pairwise(names))
    return graph_of(dict(zip(names, nodes, strict=True)), edges, **metadata)


def snapshot(graph: Any) -> Any:
    """Everything in a graph, to see that it did not change."""
    if isinstance(graph, np.ndarray):
        return graph.shape, str(graph.dtype), graph.tobytes()
    if isinstance(graph, dict):
        return {key: snapshot(value) for key, value in graph.items()}
    if isinstance(graph, list | tuple):
        return [snapshot(value) for value in graph]
    return (type(graph).__name__, snapshot(vars(graph))) if hasattr(graph, "__dict__") else graph


def run(network: Network, inputs: dict[str, Array], steps: int) -> dict[str, Array]:
    """The meaning of a network, written down once more: spikes of every population (read-outs: v), and 'name/v'.

    All are [steps, *shape], the inputs too. Delay lines start empty.
    """
    signal = {p.name: np.zeros((steps, *p.shape)) for p in (*network.populations, *network.outputs)} | inputs
    signal |= {f"{p.name}/v": np.zeros((steps, *p.shape)) for p in network.populations}
    state = {
        p.name: [np.broadcast_to(x, p.shape) for x in (p.neuron.v_init, p.neuron.i_init, np.zeros(()))]
        for p in network.populations
    }
    for t in range(steps):
        for p in network.populations:
            x = _input(network, p.name, p.shape, signal, t)
            v, i, wait = state[p.name]
            n = p.neuron
            i = n.a_syn * i + n.g_syn * x
            u = n.a_mem * v + n.g_mem * i + n.bias
            count = np.zeros(p.shape)
            if n.theta is not None:
                over = u > n.theta if n.compare == ">" else u >= n.theta
                several = np.clip(np.floor(u / n.theta), 1, n.max_spikes)
                count = np.where(over & (wait <= 0), several, 0.0)
            after = {"to-value": np.where(count > 0, n.v_reset, u), "subtract": u - count * n.reset_amount, "none": u}
            v = np.where(wait > 0, n.v_reset, after[n.reset])
            wait = np.where(count > 0, n.refractory_steps, np.maximum(wait - 1, 0))
            state[p.name] = [v, i, wait]
            signal[p.name][t] = count if n.fires else v
            signal[f"{p.name}/v"][t] = v
        for q in network.outputs:
            signal[q.name][t] = _input(network, q.name, q.shape, signal, t)
    return signal


def _input(network: Network, name: str, shape: tuple[int, ...], signal: dict[str, Array], t: int) -> Array:
    total = np.zeros(shape)
    for p in network.projections:
        if p.target != name:
            continue
        behind = np.broadcast_to(p.target_delay_steps, shape)
        for late in np.unique(behind):
            source = _delayed(signal[p.source], t - int(late), p.delay_steps)
            total = total + np.where(behind == late, apply(p.operator, source), 0.0)
        total = total if p.bias is None else total + p.bias
    return total


def _delayed(signal: Array, t: int, delay: Array) -> Array:
    out = np.zeros(signal.shape[1:])
    steps = np.broadcast_to(delay, out.shape)
    for d in np.unique(steps):
        if t - int(d) >= 0:
            out = np.where(steps == d, signal[t - int(d)], out)
    return out
