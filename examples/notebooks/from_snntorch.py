# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # From snnTorch
#
# The pattern of snnTorch's tutorials: a module with a loop over time. `load` runs its `forward` once to trace the data
# flow, reads the parameters of its neurons, and compares the imported network with the module on random inputs.

# %%
import warnings

import torch

import nirbridge as nb

warnings.simplefilter("ignore")  # deprecations of what snnTorch imports
import snntorch as snn


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.lif1 = torch.nn.Linear(64, 32), snn.Leaky(beta=0.5)
        self.head, self.lif2 = torch.nn.Linear(32, 10), snn.Leaky(beta=0.5)

    def forward(self, x):
        mem1, mem2, spikes = self.lif1.init_leaky(), self.lif2.init_leaky(), []
        for now in x:
            spk, mem1 = self.lif1(self.hidden(now), mem1)
            spk, mem2 = self.lif2(self.head(spk), mem2)
            spikes.append(spk)
        return torch.stack(spikes)


torch.manual_seed(0)
model = Classifier()
with torch.no_grad():  # on a grid, every sum is exact: no library can round it differently
    for parameter in model.parameters():
        parameter.copy_(torch.round(parameter * 4096) / 1024)

network = nb.load(model, sample=torch.zeros(64))
network

# %% [markdown]
# The reset that snnTorch applies one time step late is kept exactly. Every output is that of the module:

# %%
x = (torch.rand(100, 4, 64) < 0.2).float()
found = nb.simulate(network, x)
print((found["output"] == model(x).detach().numpy()).mean())
nb.compare(model(x).detach().numpy(), found)

# %% [markdown]
# From here on nothing depends on where the network came from.

# %%
nb.map(network, "loihi2")
