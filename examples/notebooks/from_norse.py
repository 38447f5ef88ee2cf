# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # From Norse
#
# Cells of Norse in a `SequentialState`, one of them recurrent. The currents of Norse's LIF cells decay before they are
# added, which the imported network does in the same order.

# %%
import norse.torch as norse
import torch

import nirbridge as nb

torch.manual_seed(0)
model = norse.SequentialState(
    torch.nn.Linear(16, 12), norse.LIFCell(), torch.nn.Linear(12, 4), norse.LIFRecurrentCell(4, 4)
)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.mul_(4)
network = nb.load(model, sample=torch.zeros(1, 16))
network

# %% [markdown]
# The module, step by step, beside the imported network:

# %%
x = (torch.rand(60, 8, 16) < 0.3).float()
state, spikes = None, []
with torch.no_grad():
    for now in x:
        out, state = model(now, state)
        spikes.append(out)
nb.compare(torch.stack(spikes).numpy(), nb.simulate(network, x))

# %% [markdown]
# Saved as a NIR file; what plain NIR cannot express lies in metadata, and a tool that ignores it is named:

# %%
network.save("norse.nir")
nb.map(network, "loihi1", placement_only=True)
