"""Blocks of spiking transformers as published: every output of the import is that of the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("spikingjelly", reason="spikingjelly is not installed")

import nirbridge as nb  # noqa: E402
from tests.importers.transformers import neurons, other_forms, qkformer, spike_driven, spikformer  # noqa: E402

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
    "SSA": (lambda lif: spikformer.Attention(16, 2, lif), (6, 2, 7, 16)),
    "SSA of few channels": (lambda lif: spikformer.Attention(8, 2, lif, 0.5), (6, 2, 7, 8)),
    "QKFormer's SSA": (lambda lif: spikformer.ImageAttention(8, 2, lif), (6, 2, 8, 3, 4)),
    "SDSA, eroded": (lambda lif: other_forms.Eroded(8, 2, lif), SEQUENCE),
    "SSA as einsum": (lambda lif: other_forms.Einsum(16, 2, lif), (6, 2, 7, 16)),
    "QKTA, images per head": (lambda lif: other_forms.ImagesPerHead(8, 2, lif), SEQUENCE),
    "QKCA": (lambda lif: other_forms.ChannelAttention(8, 2, lif), SEQUENCE),
    "QKFormer": (qkformer.Transformer, (2, 1, 6, 6)),
}
"""Name -> (the module, the shape of its sample)."""
BY_HAND = {"SDSA", "QKTA", "SSA of few channels"}
"""Blocks that are run with neurons by hand each time."""


CASES = [
    pytest.param(
        block, lif, id=f"{name}, {by}", marks=[pytest.mark.slow] * (by == "plain torch" and name not in BY_HAND)
    )
    for name, block in BLOCKS.items()
    for by, lif in neurons.LIFS.items()
]


@pytest.mark.parametrize(("block", "lif"), CASES)
def test_every_output_of_a_block_is_that_of_the_module(block: Any, lif: neurons.Lif) -> None:
    make, shape = block
    net = neurons.built(make, lif)
    network = nb.load(net, sample=torch.rand(shape))
    busy = [p.name for p in network.populations if "_step" not in p.name]  # some counts of spikes are never reached
    active = np.zeros(len(busy), bool)
    for seed in range(3):
        inputs = (1 + seed) * torch.rand(shape, generator=torch.Generator().manual_seed(seed))
        neurons.reset(net)
        with torch.no_grad():
            wanted = net(inputs).numpy()
        static = shape[0] == 2
        steps = np.broadcast_to(inputs.numpy(), (4, *shape)) if static else inputs.numpy()
        steps = steps.reshape(*steps.shape[:2], *network.inputs[0].shape)
        run = nb.simulate(network, steps, record=["output", *busy])
        found = run["output"].mean(0) if static else run["output"]
        assert outputs_differ(found, wanted) == 0
        active |= [bool(run[name].any()) for name in busy]
    assert active.all(), "every population of the block takes part"


def outputs_differ(found: np.ndarray, wanted: np.ndarray) -> int:
    """How many differ: spikes at all, currents by more than float32's rounding of their sums."""
    if np.isin(wanted, (0.0, 1.0)).all():
        return int(np.count_nonzero(found != wanted))
    return int(np.count_nonzero(~np.isclose(found, wanted, rtol=1e-4, atol=1e-5)))


@pytest.mark.parametrize("name", ["SDSA", "QKTA", "Spike-Driven Transformer", "QKFormer", "SSA"])
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


def test_products_of_matrices_of_spikes_are_counted_and_bounded() -> None:
    def notes(tokens: int, dim: int) -> str:
        net = neurons.built(lambda lif: spikformer.Attention(dim, 2, lif), neurons.spikingjelly_lif)
        return "\n".join(nb.load(net, sample=torch.rand(6, 2, tokens, dim)).notes)

    # 2 heads, 7 x 7 pairs of tokens, 6 channels of a head; each of them once more for 6 channels of v
    assert "a product of spikes is 588 threshold neurons" in (found := notes(7, 12))
    assert "a product of spikes is 3,528 threshold neurons" in found
    bound = r"a product of matrices of spikes is 80,000 threshold neurons; at most 65,536 are built; use fewer tokens"
    with pytest.raises(nb.errors.ModelError, match=bound):
        notes(100, 8)
    bound = r"sums of 8 spikes is 294,912 threshold neurons, at most 65,536 are built; use fewer tokens"
    with pytest.raises(nb.errors.ModelError, match=bound):
        notes(48, 16)


def test_products_of_matrices_that_are_no_spikes_are_refused() -> None:
    class Softmax(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.lif = torch.nn.Linear(4, 4), neurons.spikingjelly_lif()

        def forward(self, x: torch.Tensor) -> torch.Tensor:  # [time, batch, tokens, 4]
            return self.lif(self.q(x) @ x.transpose(-1, -2))

    with pytest.raises(nb.errors.ModelError, match="a product of two values, exact over spikes"):
        nb.load(Softmax(), sample=torch.rand(6, 3, 5, 4), batched=True, time_axis=0)


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
