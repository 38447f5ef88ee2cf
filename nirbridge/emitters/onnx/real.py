"""A network in float32 as an ONNX model."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.emitters.onnx.linear import delayed, linear, moved_on
from nirbridge.emitters.onnx.neurons import Stepped, real_step
from nirbridge.emitters.onnx.plan import OnnxPlan, PlannedNode, PlannedPort
from nirbridge.emitters.onnx.scan import ScanBuilder, longest_delays, size_of
from nirbridge.network.graph import population_groups
from nirbridge.network.model import Network, Population, Projection
from nirbridge.simulators.recording import default_probes, output_dtypes

FLOAT = "float32"


def real_model(network: Network) -> OnnxPlan:
    """The model of a network with an input."""
    return _RealBuilder(network).plan()


class _RealBuilder:
    """One time step of a network, projection by projection."""

    def __init__(self, network: Network) -> None:
        self.network, self.scan = network, ScanBuilder()
        self.g = self.scan.g
        self.ids = {p.name: f"in{k}" for k, p in enumerate(network.inputs)}
        self.ids |= {p.name: f"p{k}" for k, p in enumerate(network.populations)}
        self.late: dict[int, tuple[str, int]] = {}
        self.late_now: dict[int, str] = {}

    def plan(self) -> OnnxPlan:
        network, scan = self.network, self.scan
        populations = [p for group in population_groups(network) for p in group.populations]
        states = {p.name: self._states(p) for p in populations}
        for k, p in enumerate(network.projections):
            if p.target_delay_steps.any():
                depth, size = int(p.target_delay_steps.max()), size_of(p.operator.output_shape)
                self.late[k] = scan.state(f"late{k}", FLOAT, np.zeros((depth, size))), depth
        sources = (*network.inputs, *network.populations)
        for name, depth in longest_delays(sources, network.projections).items():
            size = next(size_of(x.shape) for x in sources if x.name == name)
            scan.begin_history(name, self.ids[name], depth, size, FLOAT)
        for port in network.inputs:
            scan.inputs.append((self.ids[port.name], FLOAT, port.size, port.shape))
            scan.now[port.name] = f"{self.ids[port.name]}_now"
        stepped: dict[str, Stepped] = {}
        for p in populations:
            stepped[p.name] = step = real_step(self.g, p, self._drive(p.name, p.size), states[p.name])
            scan.now[p.name] = step.sent
        for k, port in enumerate(network.outputs):
            scan.outputs.append((f"out{k}", self._drive(port.name, port.size), FLOAT, port.size, port.shape))
        for p in populations:
            for name in states[p.name]:
                scan.follow(stepped[p.name].state[name])
        for k, (past, depth) in self.late.items():
            scan.following.append(moved_on(self.g, past, self.late_now[k], depth, f"{past}_next"))
        scan.end_histories()
        return self._plan(stepped)

    def _states(self, p: Population) -> dict[str, str]:
        n, name, found = p.neuron, self.ids[p.name], {}
        if np.any(n.a_mem != 0):
            found["v"] = self.scan.state(f"{name}_v", FLOAT, np.broadcast_to(n.v_init, p.shape).reshape(-1))
        if np.any(n.a_syn != 0):
            found["i"] = self.scan.state(f"{name}_i", FLOAT, np.broadcast_to(n.i_init, p.shape).reshape(-1))
        if n.fires and np.any(n.refractory_steps > 0):
            found["rest"] = self.scan.state(f"{name}_rest", "int64", np.zeros(p.size))
        return found

    def _drive(self, target: str, size: int) -> str:
        """The currents of a target, added in the order of the network's projections."""
        total = None
        for k, p in enumerate(self.network.projections):
            if p.target == target:
                current = self._current(k, p)
                total = current if total is None else self.g.op("Add", total, current)
        return total or self._silence(size)

    def _current(self, k: int, p: Projection) -> str:
        current = linear(self.g, p.operator, self.scan.sent(p.source, p.delay_steps), FLOAT)
        if k in self.late:
            past, depth = self.late[k]
            self.late_now[k] = current
            delays = np.broadcast_to(p.target_delay_steps, p.operator.output_shape).reshape(-1)
            current = delayed(self.g, past, current, depth, delays, len(delays))
        if p.bias is None:
            return current
        return self.g.op("Add", current, self.g.flat(p.bias, p.operator.output_shape, FLOAT))

    def _silence(self, size: int) -> str:
        """No input: zeros for every sample."""
        batch = self.g.op("Shape", f"{self.ids[self.network.inputs[0].name]}_now", start=0, end=1)
        shape = self.g.op("Concat", batch, self.g.constant([size], "int64"), axis=0)
        return self.g.op("Expand", self.g.constant(0, FLOAT), shape)

    def _plan(self, stepped: dict[str, Stepped]) -> OnnxPlan:
        network = self.network
        types = output_dtypes(network, frozenset(), FLOAT)
        inputs = tuple(PlannedPort(p.name, p.shape, self.ids[p.name], FLOAT) for p in network.inputs)
        silent = {p.node for p in default_probes(network) if p.variables == ("v",)}
        outputs = tuple(
            PlannedPort(p.name, p.shape, f"out{k}", types[p.name], p.name in silent)
            for k, p in enumerate(network.outputs)
        )
        nodes = tuple(
            PlannedNode(p.name, p.shape, p.neuron.fires, p.neuron.max_spikes, stepped[p.name].variables, FLOAT)
            for p in network.populations
        )
        facts: dict[str, Any] = {"numbers": "float32", "dt": network.dt, "chip": None}
        return OnnxPlan(self.scan.model(), inputs, nodes, outputs, facts)
