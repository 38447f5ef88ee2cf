"""Import a snnTorch network with a loop over time as a NIR file, and compare its spikes with the original."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from nirbridge.importers import from_snntorch, save_nir
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what snnTorch imports
    import snntorch as snn


class Classifier(torch.nn.Module):
    """The pattern of snnTorch's tutorials."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.lif1 = torch.nn.Linear(64, 32), snn.Leaky(beta=0.5)
        self.head, self.lif2 = torch.nn.Linear(32, 10), snn.Leaky(beta=0.5)

    def forward(self, x: Any) -> Any:
        """Spikes of the last layer, ``[steps, batch, 10]``."""
        mem1, mem2, spikes = self.lif1.init_leaky(), self.lif2.init_leaky(), []
        for now in x:
            spk, mem1 = self.lif1(self.hidden(now), mem1)
            spk, mem2 = self.lif2(self.head(spk), mem2)
            spikes.append(spk)
        return torch.stack(spikes)


def main(path: Path) -> None:
    """Imports, saves and compares."""
    torch.manual_seed(0)
    model = Classifier()
    with torch.no_grad():
        for layer in (model.hidden, model.head):
            layer.weight.copy_(torch.round(torch.randn_like(layer.weight) * 512) / 1024)
            layer.bias.zero_()
    graph = from_snntorch(model, torch.zeros(64), dt=1e-3)
    save_nir(graph, path)
    inputs = (torch.rand(100, 4, 64) < 0.2).float()
    ours = simulate(from_nir(graph), inputs.numpy()).recording.arrays["output", "s"]
    theirs = model(inputs).detach().numpy()
    print(f"{path.name}: {(ours == theirs).mean():.1%} of {ours.size:,} outputs are identical")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "classifier.nir"))
