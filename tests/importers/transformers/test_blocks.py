"""Blocks of spiking transformers as published: every output of the import is that of the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("spikingjelly", reason="spikingjelly is not installed")

import nirbridge as nb  # noqa: E402
from tests.importers.transformers import neurons, qkformer, spike_driven  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's
SEQUENCE = (6, 2, 8, 4, 4)
Module = Callable[[neurons.Lif], Any]
BLOCKS: dict[str, tuple[Module, tuple[int, ...]]] = {
    "SDSA": (lambda lif: spike_driven.Attention(8, 2, lif), SEQUENCE),
    "MLP": (lambda lif: spike_driven.Mlp(8, 8, lif), SEQUENCE),
    "embedding": (lambda lif: spike_driven.Embedding(2, 16, lif), (6, 2, 2, 8, 8)),
    "Spike-Driven Transformer": (spike_driven.Transformer, (6, 2, 2, 8, 8)),
    "QKTA": (lambda lif: qkformer.TokenAttention(8, 2, lif), SEQUENCE),
    "QKFormer's MLP": (lambda lif: qkformer.Mlp(8, 16, lif), SEQUENCE),
    "QKFormer's embedding": (lambda lif: qkformer.Embedding(1, 8, lif), (6, 2, 1, 6, 6)),
    "QKFormer": (qkformer.Transformer, (2, 1, 6, 6)),
}
"""Name -> (the module, the shape of its sample)."""
WHOLE = {"Spike-Driven Transformer", "QKFormer"}


CASES = [
    pytest.param(block, lif, id=f"{name}, {by}", marks=[pytest.mark.slow] * (name in WHOLE and by == "plain torch"))
    for name, block in BLOCKS.items()
    for by, lif in neurons.LIFS.items()
]


@pytest.mark.parametrize(("block", "lif"), CASES)
def test_every_output_of_a_block_is_that_of_the_module(block: Any, lif: neurons.Lif) -> None:
    make, shape = block
    net = neurons.built(make, lif)
    network = nb.load(net, sample=torch.rand(shape))
    active = np.zeros(len(network.populations), bool)
    for seed in range(3):
        inputs = (1 + seed) * torch.rand(shape, generator=torch.Generator().manual_seed(seed))
        neurons.reset(net)
        with torch.no_grad():
            wanted = net(inputs).numpy()
        steps = inputs.numpy() if len(shape) == 5 else np.broadcast_to(inputs.numpy(), (4, *shape))
        run = nb.simulate(network, steps, record=["output", *(p.name for p in network.populations)])
        found = run["output"] if len(shape) == 5 else run["output"].mean(0)
        assert outputs_differ(found, wanted) == 0
        active |= [bool(run[p.name].any()) for p in network.populations]
    assert active.all(), "every population of the block takes part"


def outputs_differ(found: np.ndarray, wanted: np.ndarray) -> int:
    """How many differ: spikes at all, currents by more than float32's rounding of their sums."""
    if np.isin(wanted, (0.0, 1.0)).all():
        return int(np.count_nonzero(found != wanted))
    return int(np.count_nonzero(~np.isclose(found, wanted, rtol=1e-4, atol=1e-5)))


@pytest.mark.parametrize("name", ["SDSA", "QKTA", "Spike-Driven Transformer", "QKFormer"])
def test_a_block_is_written_mapped_and_verified_bit_equal(name: str, tmp_path: Any) -> None:
    make, shape = BLOCKS[name]
    network = nb.load(neurons.built(make, neurons.spikingjelly_lif), sample=torch.rand(shape))
    spikes = np.random.default_rng(0).random((6, 2, *network.inputs[0].shape)) < 0.5
    nb.save(network, tmp_path / "block.nir")
    again = nb.load(tmp_path / "block.nir")
    assert np.array_equal(nb.simulate(again, spikes)["output"], nb.simulate(network, spikes)["output"])
    verification = nb.verify(network, "loihi2", spikes)
    assert verification.holds
    assert ("fixed", "mapped", True) in {(pair.a, pair.b, pair.required) for pair in verification.pairs}


def test_values_of_other_axes_meet_as_torch_broadcasts_them() -> None:
    class Meet(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(12, 12)
            self.a, self.b = neurons.MultiStepLIF(), neurons.MultiStepLIF()

        def forward(self, x: torch.Tensor) -> torch.Tensor:  # [time, batch, 12]
            a = self.a(2.5 * self.fc(x)).unsqueeze(-1)
            rows, columns = a[:, :, :4], a[:, :, 4:7].transpose(-1, -2)
            both = (rows * columns + torch.where(rows > 0, columns, 1.0)).flatten(2)
            return self.b(both + torch.maximum(columns, rows).flatten(2))

    torch.manual_seed(1)
    net = Meet()
    network = nb.load(net, sample=torch.rand(6, 2, 12))
    inputs = 4 * torch.rand(20, 8, 12, generator=torch.Generator().manual_seed(0))
    wanted = net(inputs).detach().numpy()
    assert 0 < wanted.mean() < 1
    given = inputs.numpy().reshape(20, 8, *network.inputs[0].shape)
    assert np.array_equal(nb.simulate(network, given)["output"], wanted)


def test_values_whose_batch_would_meet_values_are_refused() -> None:
    class Meet(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.lif = torch.nn.Linear(4, 4), neurons.MultiStepLIF()

        def forward(self, x: torch.Tensor) -> torch.Tensor:  # [time, batch, 4]
            spikes = self.lif(self.fc(x))
            return spikes[-1] * spikes[-1].unsqueeze(1)  # [batch, batch, 4]

    with pytest.raises(nb.errors.ModelError, match=r"mul of values of shape \(4,\) and \(1, 4\); use equal shapes"):
        nb.load(Meet(), sample=torch.rand(6, 3, 4), batched=True, time_axis=0)
