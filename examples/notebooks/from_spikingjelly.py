# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # From spikingjelly
#
# `LIFNode` with its default hard reset, and an `IFNode` that subtracts its threshold.

# %%
import torch
from spikingjelly.activation_based import functional, layer, neuron

import nirbridge as nb

torch.manual_seed(0)
model = torch.nn.Sequential(layer.Linear(16, 12), neuron.LIFNode(), layer.Linear(12, 4), neuron.IFNode(v_reset=None))
with torch.no_grad():
    for parameter in model.parameters():
        parameter.mul_(4)
network = nb.load(model, sample=torch.zeros(1, 16))
network

# %%
x = (torch.rand(60, 8, 16) < 0.3).float()
functional.reset_net(model)
with torch.no_grad():
    theirs = torch.stack([model(now) for now in x]).numpy()
functional.reset_net(model)
nb.compare(theirs, nb.simulate(network, x))
