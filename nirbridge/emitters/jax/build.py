"""The module of a network: what real numbers and integers share, which is everything but sums and neurons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.jax.module import ModuleWriter, axes, comment
from nirbridge.emitters.jax.neurons import neuron_lines
from nirbridge.emitters.ports import identifiers
from nirbridge.emitters.timesteps import longest_delays
from nirbridge.errors import counted
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork


class ModuleBuilder:
    """Lines of ``currents``, whose values are of all time steps, and of ``step``, whose values are of one."""

    def __init__(self, model: Network | QuantizedNetwork, projections: Sequence[Any]) -> None:
        self.m, self.ids = ModuleWriter(), identifiers(model)
        self.inputs = {p.name for p in model.inputs}
        self.sources = {p.name: p for p in (*model.inputs, *model.populations)}
        self.depths = longest_delays(self.sources.values(), projections)

    def begin_input(self, name: str, dtype: str) -> None:
        """The lines that take an input, with as many time steps of its past as delays need."""
        key, depth, out = self.ids[name], self.depths[name], self.m.before
        out.append(f'{key} = inputs["{key}"].astype(jnp.{dtype})')
        if depth:
            past = self.m.state(f"{key}.past", np.zeros(self.sources[name].shape), dtype, depth)
            out.append(f"{key}_all = jnp.concatenate([{past}, {key}])")
            out.append(f'past["{key}.past"] = {key}_all[{key}.shape[0] :]')

    def begin_population(self, name: str, dtype: str) -> None:
        """The ring of the last values of a population that are sent with a delay."""
        self._ring(self.ids[name], self.depths[name], self.sources[name].shape, dtype)

    def _ring(self, key: str, depth: int, shape: tuple[int, ...], dtype: str) -> None:
        if depth:
            self.m.state(f"{key}.past", np.zeros(shape), dtype, depth)
        if depth > 1:
            self.m.counter(f"{key}.at")

    def turn_ring(self, key: str, depth: int) -> None:
        """The lines that put the latest value of ``key`` in place of the oldest."""
        if depth == 1:
            self.m.step.append(f'new["{key}.past"] = {key}[None]')
        elif depth:
            past, at = f'state["{key}.past"]', f'state["{key}.at"]'
            self.m.step.append(f'new["{key}.past"] = {past}.at[{at}].set({key})')
            self.m.step.append(f'new["{key}.at"] = ({at} + 1) % {depth}')

    def sent(self, source: str, delays: Array, key: str) -> str:
        """What a source sent ``delays`` time steps ago; ``key``: of the projection that asks."""
        name, depth = self.ids[source], self.depths[source]
        return self._delayed(name, depth, delays, self.sources[source].shape, f"{key}.delays", source in self.inputs)

    def _delayed(self, name: str, depth: int, delays: Array, shape: tuple[int, ...], key: str, is_whole: bool) -> str:
        delays, m = np.asarray(delays), self.m
        same, first = bool((delays == delays.flat[0]).all()), int(delays.flat[0])
        if same and first == 0:
            return name
        if same and is_whole:
            return f"{m.helper('earlier')}({name}_all, {depth}, {first})"
        past, at = f'state["{name}.past"]', f'state["{name}.at"]'
        if same:
            return f"{past}[0]" if depth == 1 else f"{m.helper('ago')}({past}, {at}, {first})"
        each = m.weight(key, np.broadcast_to(delays, shape), "int32")
        if is_whole:
            return f"{m.helper('earlier_each')}({name}_all, {depth}, {each})"
        latest = name if (delays == 0).any() else "None"
        return f"{m.helper('ago_each')}({past}, {at if depth > 1 else 0}, {latest}, {each})"

    def current(self, key: str, p: Any, text: str, late: Array | None = None, dtype: str = "") -> str:
        """Lines that make the current of a projection; returns its text in a time step.

        ``text``: its sums; ``late``: a delay for each target element.
        """
        hoisted = p.source in self.inputs
        lines = self.m.before if hoisted else self.m.step
        lines.append(f"# {key}: {comment(p.source)} -> {comment(p.target)}")
        lines.append(f"{key} = {text}")
        arrived = key
        if late is not None:
            arrived = f"{key}_in"
            lines += self._late(key, late, p.operator.output_shape, dtype, hoisted)
        if getattr(p, "bias", None) is not None:
            bias = self.m.coefficient(f"{key}.bias", p.bias, p.operator.output_shape, dtype)
            lines.append(f"{arrived} = {arrived} + {bias}")
        if not hoisted:
            return arrived
        lines.append(f'now["{key}"] = {arrived}')
        return f'now["{key}"]'

    def _late(self, key: str, late: Array, shape: tuple[int, ...], dtype: str, hoisted: bool) -> list[str]:
        depth, out = int(late.max()), []
        if hoisted:
            past = self.m.state(f"{key}.past", np.zeros(shape), dtype, depth)
            out.append(f"{key}_all = jnp.concatenate([{past}, {key}])")
            out.append(f'past["{key}.past"] = {key}_all[{key}.shape[0] :]')
        else:
            self._ring(key, depth, shape, dtype)
        return [*out, f"{key}_in = {self._delayed(key, depth, late, shape, f'{key}.late', hoisted)}"]

    def population(self, p: Any, drive: str, states: dict[str, str], dtype: str) -> dict[str, str]:
        """The lines of a population; returns the keys of its variables."""
        key, lines = self.ids[p.name], self.m.step
        lines.append(f"# {key}: {comment(p.name)}, {counted(p.size, 'neuron')}")
        lines.append(f"drive = {drive}")
        text, variables, following = neuron_lines(self.m, p, key, states, dtype)
        lines += text
        lines += [f'new["{key}.{name}"] = {value}' for name, value in following.items()]
        lines += [f'values["{key}.{name}"] = {value}' for name, value in variables.items()]
        return {name: f"{key}.{name}" for name in variables}

    def silence(self, shape: tuple[int, ...], dtype: str) -> str:
        """No input: zeros for every sample."""
        return f"jnp.zeros({axes(shape, '*batch')}, jnp.{dtype})"
