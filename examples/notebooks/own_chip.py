# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A chip of your own
#
# A chip is a TOML file in which every number has a source. Its record is plain data: a variant is a copy with other
# numbers. How many cores does a network take if a core holds more neurons, or more synapses?

# %%
import copy
from pathlib import Path

import nirbridge as nb
from nirbridge.chips import chip_from_dict

examples = Path(nb.__file__).parents[1] / "examples"
chip = nb.chip(examples / "chips" / "my_chip.toml")
network = nb.load(examples / "models" / "digits_cnn.nir")


def variant(neurons, words):
    record = copy.deepcopy(dict(chip.record))
    record["core"] = {**record["core"], "neurons": neurons}
    record["synapses"] = {**record["synapses"], "words": words}
    return chip_from_dict(record)


for neurons in (128, 256):
    for words in (4096, 8192):
        try:
            report = nb.map(network, variant(neurons, words)).partition.report
        except nb.errors.DoesNotFit as error:
            print(f"{neurons:4} neurons, {words} words per core: {error.problems[0]}")
        else:
            print(f"{neurons:4} neurons, {words} words per core: {report.cores:2} cores, {report.status}")

# %% [markdown]
# Every number is checked when a chip is read, and an error names the key, the value and the limit:

# %%
try:
    variant(0, 4096)
except nb.errors.NirbridgeError as error:
    print(error)
