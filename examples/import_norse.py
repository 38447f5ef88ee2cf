"""A Norse model as a NIR file with exact semantics: python import_norse.py [MODEL.nir]."""

import sys

import norse.torch as norse
import torch

from nirbridge.importers import from_norse, save_nir

torch.manual_seed(0)
model = norse.SequentialState(
    torch.nn.Linear(16, 12), norse.LIFCell(), torch.nn.Linear(12, 4), norse.LIFRecurrentCell(4, 4)
)
graph = from_norse(model, torch.zeros(1, 16))
save_nir(graph, sys.argv[1] if len(sys.argv) > 1 else "norse.nir")
print(graph.metadata["nirbridge:warnings"])
