"""A framework whose modules are lists of weight matrices, each followed by LIF neurons."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import nir
import numpy as np

from nirbridge.errors import instance_of
from nirbridge.network.model import Network
from nirbridge.passes import Promise, check_argument, check_options


def from_weights(module: Any, sample: Any, *, dt: float = 1e-3) -> Any:
    """The graph of a list of matrices."""
    weights = instance_of(module, list, "module of importer 'weights'", "give a list of matrices")
    shape = instance_of(sample, np.ndarray, "sample of importer 'weights'", "give an array").shape
    nodes: list[Any] = [nir.Input({"input": np.array(shape)})]
    for weight in weights:
        ones = np.ones(len(weight))
        nodes += [nir.Linear(np.array(weight, float)), nir.LIF(10 * dt * ones, ones, 0 * ones, ones)]
    graph = nir.NIRGraph.from_list(*nodes, nir.Output({"output": np.array([len(weights[-1])])}))
    graph.metadata["nirbridge:dt"] = dt
    return graph


@dataclass(frozen=True, slots=True)
class Louder:
    """A pass: notes ``word``, ``times`` times."""

    pass_name: ClassVar[str] = "louder"
    promise: Promise = field(default="same", init=False, repr=False)
    word: str = "louder"
    times: int = 1

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(self, network: Network) -> Network:
        check_argument(self, network)
        return replace(network, notes=(*network.notes, *[self.word] * self.times))
