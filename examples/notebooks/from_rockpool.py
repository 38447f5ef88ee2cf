# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # From rockpool
#
# Two layers of `LIFTorch`, the first one recurrent: rockpool's synapses and membranes as one canonical neuron.

# %%
import torch
from rockpool.nn.combinators import Sequential
from rockpool.nn.modules.torch import LIFTorch, LinearTorch

import nirbridge as nb

torch.manual_seed(0)
model = Sequential(LinearTorch((16, 12)), LIFTorch(12, has_rec=True), LinearTorch((12, 4)), LIFTorch(4))
network = nb.load(model, sample=torch.zeros(1, 16))
network

# %%
x = (torch.rand(60, 8, 16) < 0.3).float().transpose(0, 1)  # rockpool has the batch first, and its network reads it so
with torch.no_grad():
    theirs, _, _ = model(x)
nb.compare(theirs.transpose(0, 1).numpy(), nb.simulate(network, x))
