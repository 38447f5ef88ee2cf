"""Forms of user code: a module, a sample, and what the import of it is to be, equal to the module or refused."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from nirbridge.errors import ModelError, UnequalImport
from nirbridge.importers import importer

EQUAL = "equal"


@dataclass(frozen=True)
class Form:
    """``make`` builds the module; ``wanted``: ``equal``, or a pattern of the refusal.

    ``scale``: standard deviation of the sum of a layer's inputs if all of them are 1.
    """

    framework: str
    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    wanted: str = EQUAL
    scale: float = 2.0
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.framework}: {self.name}"

    def module(self) -> nn.Module:
        """The module in eval mode, its weights on a grid of 2^-10, so that sums are exact in any order."""
        with quiet():
            torch.manual_seed(3)
            module = self.make().eval()
        fill(module, self.scale)
        return module

    def sample(self) -> Any:
        """Spikes of the shape."""
        return (torch.rand(self.shape, generator=torch.Generator().manual_seed(5)) < 0.4).float()

    def graph(self) -> Any:
        """The import, self-checked."""
        with quiet():
            return importer(self.framework)(self.module(), self.sample(), check=2, **self.options)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the deprecations of the frameworks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fill(module: nn.Module, scale: float) -> None:
    """Weights of layers by chance, on a grid, so large that neurons fire."""
    source = torch.Generator().manual_seed(7)
    layers = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d)
    found: list[Any] = list(nn.Module.modules(module))
    for layer in found:
        if isinstance(layer, layers):
            size = layer.weight[0].numel() if layer.weight.ndim > 1 else 1
            drawn = torch.randn(layer.weight.shape, generator=source) * scale / size**0.5
            layer.weight.data = torch.round(drawn * 1024) / 1024
            if layer.bias is not None:
                layer.bias.data = torch.round(torch.rand(layer.bias.shape, generator=source) * 256) / 1024
        elif isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) and layer.running_mean is not None:
            layer.eps = 0.0
            layer.running_mean = torch.full((layer.num_features,), 0.125)
            layer.running_var = torch.full((layer.num_features,), 0.25)
        for name in ("input_weights", "recurrent_weights"):  # of Norse's recurrent and linear cells
            weight = getattr(layer, name, None)
            if weight is not None:
                drawn = torch.randn(weight.shape, generator=source) * scale / weight.shape[1] ** 0.5
                weight.data = torch.round(drawn * 1024) / 1024


def outcome(form: Form) -> str:
    """``equal``, ``refused: …`` or ``wrong: …``, with the reason."""
    try:
        graph = form.graph()
    except UnequalImport as error:
        return f"wrong: {error}"
    except ModelError as error:
        return f"refused: {error}"
    check = json.loads(graph.metadata["nirbridge:self_check"])
    if check["outcome"] != "identical":
        return f"{check['outcome']}: {check['text']}"
    return EQUAL
