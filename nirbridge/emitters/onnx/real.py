"""A network in float32 as an ONNX model."""

from __future__ import annotations

import numpy as np

from nirbridge.emitters.onnx.linear import delayed, linear, moved_on
from nirbridge.emitters.onnx.neurons import SteppedTensors, real_step
from nirbridge.emitters.onnx.plan import OnnxPlan
from nirbridge.emitters.onnx.scan import ScanBuilder, size_of
from nirbridge.emitters.ports import identifiers, real_names
from nirbridge.emitters.timesteps import late_depths, longest_delays, real_states
from nirbridge.network.graph import in_causal_order, population_groups
from nirbridge.network.model import Network, Population, Projection

FLOAT = "float32"


def real_model(network: Network) -> OnnxPlan:
    """The model of a network with an input."""
    return _RealBuilder(in_causal_order(network)).plan()


class _RealBuilder:
    """One time step of a network, projection by projection."""

    def __init__(self, network: Network) -> None:
        self.network, self.scan = network, ScanBuilder()
        self.g = self.scan.g
        self.ids = identifiers(network)
        self.late: dict[int, tuple[str, int]] = {}
        self.late_now: dict[int, str] = {}

    def plan(self) -> OnnxPlan:
        network, scan = self.network, self.scan
        populations = [p for group in population_groups(network) for p in group.populations]
        states = {p.name: self._states(p) for p in populations}
        for k, depth in late_depths(network).items():
            size = size_of(network.projections[k].operator.output_shape)
            self.late[k] = scan.state(f"late{k}", FLOAT, np.zeros((depth, size))), depth
        sources = (*network.inputs, *network.populations)
        for name, depth in longest_delays(sources, network.projections).items():
            size = next(size_of(x.shape) for x in sources if x.name == name)
            scan.begin_history(name, self.ids[name], depth, size, FLOAT)
        for port in network.inputs:
            scan.inputs.append((self.ids[port.name], FLOAT, port.size, port.shape))
            scan.now[port.name] = f"{self.ids[port.name]}_now"
        stepped: dict[str, SteppedTensors] = {}
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
        return {
            key: self.scan.state(
                f"{self.ids[p.name]}_{key}", "int64" if key == "refractory" else FLOAT, start.reshape(-1)
            )
            for key, start in real_states(p).items()
        }

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

    def _plan(self, stepped: dict[str, SteppedTensors]) -> OnnxPlan:
        names = real_names(self.network, {name: step.variables for name, step in stepped.items()}, FLOAT)
        return OnnxPlan(self.scan.model(), names)
