# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Quantize and fine-tune
#
# A network for scikit-learn's digits, trained in snnTorch, in the integers of Loihi at 2 bits per weight: at first much
# of the accuracy is lost. Then the layers round their weights in `forward` exactly as the integers will be, and a few
# more epochs win most of it back.

# %%
import warnings

import numpy as np
import torch
from sklearn.datasets import load_digits

import nirbridge as nb
from nirbridge.quantization.qat import attach, detach, factor_of, scales_of

warnings.simplefilter("ignore")  # deprecations of what snnTorch imports
import snntorch as snn
from snntorch import surrogate

STEPS, BITS = 12, 2
torch.manual_seed(1)


def leaky():
    return snn.Leaky(beta=0.875, spike_grad=surrogate.fast_sigmoid(slope=10), init_hidden=True, reset_mechanism="zero")


model = torch.nn.Sequential(torch.nn.Linear(64, 48, bias=False), leaky(), torch.nn.Linear(48, 10, bias=False), leaky())
data = load_digits()
images, labels = torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
test = torch.bernoulli(images[1200:].expand(STEPS, -1, -1))


def spike_counts(spikes):
    model[1].reset_mem()
    model[3].reset_mem()
    return sum(model(step) for step in spikes)


def train(epochs, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(epochs):
        for batch in torch.randperm(1200).chunk(12):
            spikes = torch.bernoulli(images[batch].expand(STEPS, -1, -1))
            loss = torch.nn.functional.cross_entropy(spike_counts(spikes) / 3, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


train(epochs=8, rate=5e-3)


def accuracy(network):
    counts = nb.simulate(network, test)["output"].sum(axis=0, dtype=int)
    return np.mean(counts.argmax(-1) == labels[1200:].numpy())


network = nb.load(model, sample=images[:1])
quantized = nb.quantize(network, "loihi1", weight_bits=BITS)
before = accuracy(quantized)
print(f"trained {accuracy(network):.1%}, at {BITS} bits {before:.1%}")

# %% [markdown]
# `attach` lets a layer compute with the integers divided by their factor, bit for bit; gradients pass the rounding.

# %%
factors = [factor_of(quantized, p.source, p.target) for p in quantized.projections if p.target != "output"]
layers = [model[0], model[2]]
for layer, (factor, bits, mode) in zip(layers, factors, strict=True):
    attach(layer, bits, factor=factor, mode=mode)
train(epochs=4, rate=2e-3)
for layer in layers:
    detach(layer)  # the rounded values become the weights

# %% [markdown]
# The scales stay those that the model was trained for, so its integers are those that were trained:

# %%
tuned = nb.quantize(
    nb.load(model, sample=images[:1]),
    "loihi1",
    weight_bits=BITS,
    scales=scales_of(quantized),
)
after = accuracy(tuned)
print(f"at {BITS} bits {before:.1%} before and {after:.1%} after fine-tuning")
