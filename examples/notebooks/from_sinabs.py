# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # From sinabs
#
# Integrate-and-fire neurons with several spikes per time step, a floor of the membrane, and a sum pool, as the networks
# for Speck have them.

# %%
import sinabs.layers as layers
import torch

import nirbridge as nb

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3, bias=False),
    layers.IAFSqueeze(batch_size=1, min_v_mem=-1.0),
    layers.SumPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Linear(36, 4, bias=False),
    layers.IAFSqueeze(batch_size=1, min_v_mem=-1.0),
)
with torch.no_grad():
    model[0].weight.mul_(4)
    model[4].weight.mul_(4)
network = nb.load(model, sample=torch.zeros(1, 1, 8, 8))
network

# %% [markdown]
# The same input through both:

# %%
x = (torch.rand(50, 1, 1, 8, 8) < 0.3).float()
with torch.no_grad():
    theirs = model(x[:, 0]).unsqueeze(1).numpy()
nb.compare(theirs, nb.simulate(network, x))
