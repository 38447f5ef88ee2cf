"""A spikingjelly model as a NIR file with exact semantics: python import_spikingjelly.py [MODEL.nir]."""

import sys

import torch
from spikingjelly.activation_based import layer, neuron

from nirbridge.importers import from_spikingjelly, save_nir

torch.manual_seed(0)
model = torch.nn.Sequential(
    layer.Linear(16, 12), neuron.LIFNode(), layer.Linear(12, 4), neuron.IFNode(v_reset=None)
)  # fmt: skip
graph = from_spikingjelly(model, torch.zeros(1, 16))
save_nir(graph, sys.argv[1] if len(sys.argv) > 1 else "spikingjelly.nir")
print(graph.metadata["nirbridge:warnings"])
