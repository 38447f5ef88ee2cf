# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Verify in Lava
#
# The reference in real numbers, the integers of the chip, these integers core by core, and the emitted Lava program run
# on the same input. The last three must be equal in every spike and every state. Lava runs in an environment of its
# own, which `nirbridge doctor lava --install` sets up.

# %%
from pathlib import Path

import numpy as np

import nirbridge as nb

examples = Path(nb.__file__).parents[1] / "examples"
network = nb.load(examples / "models" / "digits_mlp.nir")
x = (np.random.default_rng(0).random((25, 4, 64)) < 0.3).astype(np.uint8)
found = nb.verify(network, "loihi2", x, target="lava")
found

# %% [markdown]
# The program is a folder of readable Python that needs Lava alone:

# %%
program = nb.emit(nb.quantize(network, "loihi2"), "lava")
program.save("program")
print(sorted(path.name for path in Path("program").iterdir()))
