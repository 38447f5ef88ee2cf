"""A network in float32 or float64 as a module for JAX."""

from __future__ import annotations

from nirbridge.emitters.jax.build import ModuleBuilder
from nirbridge.emitters.jax.linear import linear
from nirbridge.emitters.jax.module import ModuleWriter
from nirbridge.emitters.ports import ProgramNames, real_names
from nirbridge.emitters.timesteps import late_depths, real_states
from nirbridge.network.graph import in_causal_order, population_groups
from nirbridge.network.model import Network, Population


def real_module(network: Network, dtype: str) -> tuple[ModuleWriter, ProgramNames]:
    """The module of a network in ``float32`` or ``float64``, and its names."""
    return _RealBuilder(in_causal_order(network), dtype).built()


class _RealBuilder(ModuleBuilder):
    def __init__(self, network: Network, dtype: str) -> None:
        super().__init__(network, network.projections)
        self.network, self.dtype, self.late = network, dtype, late_depths(network)

    def built(self) -> tuple[ModuleWriter, ProgramNames]:
        network, variables = self.network, {}
        for port in network.inputs:
            self.begin_input(port.name, self.dtype)
        for p in network.populations:
            self.begin_population(p.name, self.dtype)
        for group in population_groups(network):
            for p in group.populations:
                drive = self._drive(p.name, p.shape)
                variables[p.name] = self.population(p, drive, self._states(p), self.dtype)
        for k, port in enumerate(network.outputs):
            drive = self._drive(port.name, port.shape)
            self.m.step.append(f'values["out{k}"] = {drive}')
        for p in network.populations:
            self.turn_ring(self.ids[p.name], self.depths[p.name])
        for k, depth in self.late.items():
            if network.projections[k].source not in self.inputs:
                self.turn_ring(f"c{k}", depth)
        return self.m, real_names(network, variables, self.dtype)

    def _states(self, p: Population) -> dict[str, str]:
        return {
            name: self.m.state(f"{self.ids[p.name]}.{name}", start, "int32" if name == "refractory" else self.dtype)
            for name, start in real_states(p).items()
        }

    def _drive(self, target: str, shape: tuple[int, ...]) -> str:
        """The currents of a target, added in the order of the network's projections."""
        found = []
        for k, p in enumerate(self.network.projections):
            if p.target == target:
                key = f"c{k}"
                sums = linear(self.m, key, p.operator, self.sent(p.source, p.delay_steps, key), self.dtype)
                found.append(self.current(key, p, sums, p.target_delay_steps if k in self.late else None, self.dtype))
        return " + ".join(found) or self.silence(shape, self.dtype)
