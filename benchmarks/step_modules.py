"""One time step of a network as a module of torch, computed from its step program: a graph without loops or hooks.

For compilers that take such graphs (torch.export, ExecuTorch, CUDA graphs). Sums have the order of torch: equal bits
are promised where every sum is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from scipy.sparse import csr_array

from nirbridge.network.model import Network
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse
from nirbridge.program.evaluate import ProgramEvaluator
from nirbridge.program.step import Key, step_program

DENSE_MAX = 2**22
"""Elements of a sparse matrix up to which it is a dense one: torch.export takes no other."""


class StepModule(torch.nn.Module):
    """``forward(*inputs, *state)`` gives the values of ``recorded`` and the next state, ``[batch, *shape]`` each.

    ``inputs`` and ``recorded`` name the arguments and the first results, ``state`` the rest of both.
    """

    def __init__(self, network: Network, recorded: Sequence[Key] | None = None, device: str = "cpu") -> None:
        super().__init__()
        types: Any = {"real": torch.float32, "int": torch.int64, "count": torch.int64, "bool": torch.bool}
        space = TorchOn(device)
        self.made = ProgramEvaluator(
            step_program(network), space, types, lambda operator, kind: linear(operator, space.real)
        )
        program = self.made.program
        self.inputs, read = list(program.inputs), {*program.carried, *program.histories}
        self.state = [key for key in self.made.first(1) if key in read]
        self.firsts: dict[int, list[torch.Tensor]] = {}
        every = [(p.name, v) for p in network.populations for v in ("s", "v")]
        self.recorded = list(recorded or [*every, *((p.name, "s") for p in network.outputs)])

    def first(self, batch: int) -> list[torch.Tensor]:
        """The state before the first time step."""
        if batch not in self.firsts:
            first = self.made.first(batch)
            self.firsts[batch] = [first[key] for key in self.state]
        return [values.clone() for values in self.firsts[batch]]

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count = len(self.inputs)
        inputs, state = dict(zip(self.inputs, given, strict=False)), dict(zip(self.state, given[count:], strict=True))
        found, following = self.made.step(inputs, state)
        # + 0: graphs may give back no argument, nor one value twice
        return tuple(x + 0 for x in (*(found[key] for key in self.recorded), *(following[key] for key in self.state)))

    def run(self, step: Callable[..., Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """All time steps of inputs, ``[steps, batch, *shape]``, by ``forward`` or what became of it: ``recorded``."""
        state, found = self.first(inputs[0].shape[1]), []
        for values in zip(*inputs, strict=True):
            out = [x.clone() for x in step(*values, *state)]
            found.append(out[: len(self.recorded)])
            state = out[len(self.recorded) :]
        return [torch.stack(list(values)) for values in zip(*found, strict=True)]


class TorchOn:
    """torch on a device as a namespace of arrays; constants are kept, so that no time step moves any."""

    where, floor, stack = staticmethod(torch.where), staticmethod(torch.floor), staticmethod(torch.stack)
    broadcast_to, concatenate = staticmethod(torch.broadcast_to), staticmethod(torch.cat)

    def __init__(self, device: str) -> None:
        self.device, self.kept = device, {}

    def asarray(self, values: Any, dtype: Any = None) -> torch.Tensor:
        """A tensor of the values."""
        if isinstance(values, torch.Tensor):
            return values.to(dtype)
        key = np.asarray(values).tobytes(), np.shape(values), str(np.asarray(values).dtype), dtype
        if key not in self.kept:
            self.kept[key] = torch.tensor(np.array(values), dtype=dtype, device=self.device)
        return self.kept[key]

    def real(self, values: Any) -> torch.Tensor:
        """A tensor of float32."""
        return self.asarray(values, torch.float32)


def linear(operator: Operator, real: Callable[[Any], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The sums of an operator in torch's own order."""
    if isinstance(operator, Chain):
        parts = [linear(part, real) for part in operator.parts]
        return lambda x: reduce(lambda values, part: part(values), parts, x)
    if isinstance(operator, Identity):
        return lambda x: x
    shape = operator.output_shape
    if isinstance(operator, Reshape):
        return lambda x: x.reshape(len(x), *shape)
    if isinstance(operator, Scale):
        scale = real(operator.scale)
        return lambda x: x * scale
    if isinstance(operator, Dense):
        weight = real(operator.weight)
        return lambda x: F.linear(x, weight)
    if isinstance(operator, Sparse):
        return _sparse(operator, real)
    return _windows(operator, real)


def _sparse(operator: Sparse, real: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    sizes = int(np.prod(operator.output_shape)), int(np.prod(operator.input_shape))
    shape = operator.output_shape
    if sizes[0] * sizes[1] <= DENSE_MAX:
        weight = real(csr_array((operator.data, operator.indices, operator.indptr), shape=sizes).toarray())
        return lambda x: F.linear(x.reshape(len(x), -1), weight).reshape(len(x), *shape)
    data = real(operator.data)
    places = [torch.tensor(np.array(a), device=data.device) for a in (operator.indptr, operator.indices)]
    rows = torch.sparse_csr_tensor(places[0], places[1], data, sizes)
    return lambda x: (rows @ x.reshape(len(x), -1).T).T.reshape(len(x), *shape)


def _windows(operator: Any, real: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Convolutions and pools of two axes."""
    sides = [n for ends in reversed(operator.padding) for n in ends]
    if isinstance(operator, Conv):
        weight, groups, dilation, factor = real(operator.weight), operator.groups, operator.dilation, 1.0
    else:
        groups, dilation, factor = operator.input_shape[0], (1, 1), float(np.float32(operator.factor))
        weight = real(np.ones((groups, 1, *operator.kernel)))
    more: Any = {"stride": tuple(operator.stride), "dilation": tuple(dilation), "groups": groups}
    return lambda x: F.conv2d(F.pad(x, sides), weight, **more) * factor
