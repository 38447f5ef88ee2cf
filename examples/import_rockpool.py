"""A rockpool model as a NIR file with exact semantics: python import_rockpool.py [MODEL.nir]."""

import sys

import torch
from rockpool.nn.combinators import Sequential
from rockpool.nn.modules.torch import LIFTorch, LinearTorch

from nirbridge.importers import from_rockpool, save_nir

torch.manual_seed(0)
model = Sequential(LinearTorch((16, 12)), LIFTorch(12, has_rec=True), LinearTorch((12, 4)), LIFTorch(4))
graph = from_rockpool(model, torch.zeros(1, 16))
save_nir(graph, sys.argv[1] if len(sys.argv) > 1 else "rockpool.nir")
print(graph.metadata["nirbridge:warnings"])
