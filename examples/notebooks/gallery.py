# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Gallery
#
# Every picture that nirbridge draws, with the line that draws it. Each function returns matplotlib's `Axes`; colours
# differ in hue and in texture, so that they are told apart in print and by the colour-blind.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import nirbridge as nb

examples = Path(nb.__file__).parents[1] / "examples"
network = nb.load(examples / "models" / "digits_cnn.nir")
mapped = nb.map(network, examples / "chips" / "my_chip.toml")
x = (np.random.default_rng(0).random((25, 8, 1, 8, 8)) < 0.3).astype(np.uint8)

# %% [markdown]
# ## A network
#
# Populations with their shapes, operators on the arrows, delays and recurrence.

# %%
nb.plot_network(network);  # fmt: skip

# %% [markdown]
# ## A floor plan
#
# The used part of the chip: a core is coloured by the layers that it holds, or by its fullest resource.

# %%
_, axes = plt.subplots(1, 2, figsize=(9, 3.5))
nb.plot_floorplan(mapped, ax=axes[0])
nb.plot_floorplan(mapped, color="resource", ax=axes[1]);  # fmt: skip

# %% [markdown]
# ## Energy on data
#
# A profile counts the events of a run on data: the energy of an inference by layer and kind of event.

# %%
nb.plot_profile(nb.profile(network, "loihi1", x));  # fmt: skip

# %% [markdown]
# ## Traffic
#
# Spikes per time step over the links between tiles, and from core to core.

# %%
_, axes = plt.subplots(1, 2, figsize=(9, 3.5))
nb.plot_traffic(mapped, ax=axes[0])
nb.plot_traffic(mapped, show="matrix", ax=axes[1]);  # fmt: skip

# %% [markdown]
# ## The proof
#
# Cores found beside every lower bound; the one that decides is marked.

# %%
nb.plot_proof(mapped);  # fmt: skip

# %% [markdown]
# ## Energy and time of a time step

# %%
nb.plot_energy(mapped);  # fmt: skip

# %% [markdown]
# ## Recordings
#
# Spikes of all layers on one time axis, potentials with their threshold, and the spikes in which two runs differ.

# %%
reference = nb.simulate(network, x, record=["*:s", "leaky_8:s,v"])
nb.plot_raster(reference);  # fmt: skip

# %%
nb.plot_traces(reference, "leaky_8", [0, 1], threshold=1.0);  # fmt: skip

# %%
coarse = nb.simulate(nb.quantize(network, "loihi2", weight_bits=2), x, record="*:s")
nb.plot_difference(reference, coarse);  # fmt: skip
