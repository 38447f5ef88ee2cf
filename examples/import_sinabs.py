"""A sinabs model as a NIR file with exact semantics: python import_sinabs.py [MODEL.nir]."""

import sys

import sinabs.layers as layers
import torch

from nirbridge.importers import from_sinabs, save_nir

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3), layers.IAFSqueeze(batch_size=1), layers.SumPool2d(2), torch.nn.Flatten(),
    torch.nn.Linear(36, 4), layers.IAFSqueeze(batch_size=1),
)  # fmt: skip
graph = from_sinabs(model, torch.zeros(1, 1, 8, 8))
save_nir(graph, sys.argv[1] if len(sys.argv) > 1 else "sinabs.nir")
print(graph.metadata["nirbridge:warnings"])
