# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A first map
#
# A network with two convolutions, trained on scikit-learn's digits, comes with the repository. One line reads it, one
# line maps it onto cores. The number of cores has a proved lower bound, and an independent checker has gone through
# every synapse before the map is returned.

# %%
from pathlib import Path

import nirbridge as nb

examples = Path(nb.__file__).parents[1] / "examples"
network = nb.load(examples / "models" / "digits_cnn.nir")
network

# %% [markdown]
# On Loihi 2 it takes one core. The invented chip of `examples/chips/my_chip.toml` has cores of 256 neurons:

# %%
mapped = nb.map(network, examples / "chips" / "my_chip.toml")
report = mapped.partition.report
print(f"{report.cores} cores; no map has fewer than {report.cores_lower_bound}; {report.status}")
mapped

# %% [markdown]
# Where is a neuron, and what does its core hold?

# %%
print(mapped.where("leaky_1", (3, 2, 5)))
mapped.to_frame()

# %% [markdown]
# The map is a file that can be checked again, by `nirbridge check digits_cnn.nir --map digits.map.json` too. The same
# input and seed give the same bytes.

# %%
mapped.save("digits.map.json")
nb.load_map("digits.map.json")
