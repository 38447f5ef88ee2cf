"""ANNs with a sample that is a batch of one: the batch axis is not a feature axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nirbridge.errors import ModelError
from tests.importers.ann.plain import read_ann

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


class Around(nn.Module):
    """``after`` of an MLP of what ``before`` makes of the input."""

    def __init__(self, before: Callable[[Any], Any], after: Callable[[Any], Any], outputs: int = 3) -> None:
        super().__init__()
        self.before, self.after = before, after
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, outputs))

    def forward(self, x: Any) -> Any:
        return self.after(self.layers(self.before(x)))


def same(x: Any) -> Any:
    return x


READ: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "as it is": (same, same),
    "view": (lambda x: x.view(x.size(0), -1), same),
    "a batch of one": (lambda x: x.view(1, 6), same),
    "flatten": (lambda x: x.flatten(1), same),
    "squeeze": (same, lambda y: y.squeeze(0)),
}


@pytest.mark.parametrize("name", READ)
def test_a_batch_of_one_is_read_as_a_batch(name: str) -> None:
    network = read_ann(Around(*READ[name]), torch.rand(1, 6), 1e-4)
    assert (network.inputs[0].shape, network.outputs[0].shape) == ((6,), (3,))
    assert "input 'input': the sample of shape (1, 6) was read as [batch, 6], one time step as (6,)" in network.notes


@pytest.mark.parametrize(
    ("before", "after"), [(same, lambda y: y[0]), (lambda x: x[0], same), (lambda x: x.select(0, 0), same)]
)
def test_one_sample_that_is_taken_out_of_a_batch_of_one_is_refused(before: Any, after: Any) -> None:
    """Without a batch axis it could be read, with inputs of shape (1, 6): no calibration data have that."""
    with pytest.raises(ModelError, match="it takes one sample out of the batch; treat every sample alike"):
        read_ann(Around(before, after), torch.rand(1, 6), 1e-4)


def test_a_channel_that_a_layer_mixes_is_no_batch() -> None:
    image = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    assert read_ann(image, torch.rand(1, 6, 6), 1e-4).inputs[0].shape == (1, 6, 6)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    assert read_ann(flat, torch.rand(1, 6, 6), 1e-4).inputs[0].shape == (1, 6, 6)


def test_outputs_without_an_axis_are_refused_and_do_not_crash() -> None:
    with pytest.raises(ModelError, match=r"a reshape from \(1,\) to \(\)"):
        read_ann(Around(same, lambda y: y.squeeze(-1), 1), torch.rand(1, 6), 1e-4)
