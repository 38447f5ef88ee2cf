"""Accuracy of a maximum of currents that is moved after its neurons, on scikit-learn's digits.

    python -m benchmarks.replaced_maxpool

Two small CNNs with snnTorch's neurons are trained as ``lif(pool(conv(x)))``, the order of snnTorch's tutorials 6 and 7,
and imported with ``accept=("replaced-maxpool",)``: the first images are the training data, the last 597 are measured.
The third network is trained as ``pool(lif(conv(x)))``, whose import is exact.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import torch

from examples import digits
from nirbridge.importers import from_snntorch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what snnTorch imports
    import snntorch as snn
    from snntorch import surrogate

STEPS, EPOCHS, SEED = 10, 15, 7


class Net(torch.nn.Module):
    """Two convolutions, each pooled in front of its neurons or after them; static images, ``STEPS`` time steps."""

    def __init__(self, beta: float, *, pools_currents: bool) -> None:
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.Conv2d(8, 16, 3, padding=1)
        self.lif1, self.lif2, self.lif3 = (
            snn.Leaky(beta=beta, spike_grad=surrogate.fast_sigmoid(slope=25)) for _ in range(3)
        )
        self.pool, self.fc, self.pools_currents = torch.nn.MaxPool2d(2), torch.nn.Linear(64, 10), pools_currents

    def forward(self, x: Any) -> Any:
        """Output spikes ``[time, batch, 10]``."""
        mems = [lif.init_leaky() for lif in (self.lif1, self.lif2, self.lif3)]
        spikes = []
        for _ in range(STEPS):
            now = x
            for k, (conv, lif) in enumerate(((self.conv1, self.lif1), (self.conv2, self.lif2))):
                now = self.pool(conv(now)) if self.pools_currents else conv(now)
                now, mems[k] = lif(now, mems[k])
                now = now if self.pools_currents else self.pool(now)
            now, mems[2] = self.lif3(self.fc(now.flatten(1)), mems[2])
            spikes.append(now)
        return torch.stack(spikes)


def trained(beta: float, *, pools_currents: bool) -> Net:
    """The network after ``EPOCHS`` epochs of cross-entropy on spike counts."""
    torch.manual_seed(SEED)
    net, source = Net(beta, pools_currents=pools_currents), np.random.default_rng(SEED)
    images, labels, _, _ = digits.load()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(EPOCHS):
        for batch in np.array_split(source.permutation(len(images)), 20):
            counts = net(torch.from_numpy(images[batch]).reshape(-1, 1, 8, 8)).sum(0)
            loss = torch.nn.functional.cross_entropy(counts, torch.from_numpy(labels[batch]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net.eval()


def row(name: str, net: Net) -> str:
    """One line of the table."""
    _, _, images, labels = digits.load()
    data = images.reshape(-1, 1, 8, 8), labels
    graph = from_snntorch(net, torch.zeros(1, 1, 8, 8), accept=("replaced-maxpool",), measure=data)
    m = json.loads(graph.metadata["nirbridge:self_check"])["measured"]
    shares = (m["module_accuracy"], m["import_accuracy"], m["alike"], 1 - m["outputs_differ"])
    spikes = [f"{p['module']:,} / {p['imported']:,}" for p in m["populations"]]
    return f"| {name} | " + " | ".join([*(f"{share:.1%}" for share in shares), *spikes]) + " |"


def main() -> None:
    """Train, import, print."""
    torch.set_num_threads(1)
    print(
        "| network | accuracy | of the import | equal decisions | equal outputs | spikes of lif1 | of lif2 | of lif3 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for beta in (0.5, 0.9):
        print(row(f"`lif(pool(conv))`, beta {beta}", trained(beta, pools_currents=True)), flush=True)
    print(row("`pool(lif(conv))`, beta 0.5", trained(0.5, pools_currents=False)))


if __name__ == "__main__":
    main()
