"""The order of a module's data, kept by its import: every stage reads a data set as the module does."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from tests.packages import package

torch = pytest.importorskip("torch")
snn = package("snntorch")

SAMPLES, STEPS = 20, 16


class Layer(torch.nn.Module):
    """One layer of neurons; ``place``: the axis of time, None: an image for ten time steps."""

    def __init__(self, place: int | None = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.place, self.linear, self.leaky = place, torch.nn.Linear(8, 3), snn.Leaky(beta=0.5)
        self.linear.weight.data = torch.round(self.linear.weight.data * 64) / 16

    def forward(self, x: Any) -> Any:
        """The spikes of every time step."""
        membrane, spikes = self.leaky.init_leaky(), []
        for now in [x] * 10 if self.place is None else x.unbind(self.place):
            spike, membrane = self.leaky(self.linear(now), membrane)
            spikes.append(spike)
        return torch.stack(spikes, self.place or 0)


class Step(Layer):
    """One time step, with the membrane of the one before."""

    def forward(self, x: Any, membrane: Any = None) -> Any:
        """The spikes and the membrane of one time step."""
        return self.leaky(self.linear(x), self.leaky.init_leaky() if membrane is None else membrane)


@pytest.mark.parametrize(
    ("module", "shape", "axes"),
    [
        (Layer(0), (16, 4, 8), ("time", "sample")),
        (Layer(1), (4, 16, 8), ("sample", "time")),
        (Layer(1), (1, 16, 8), ("sample", "time")),
        (Layer(2), (4, 8, 16), ("sample", "...", "time")),
        (Layer(None), (4, 8), ("sample", "time=10")),
        (Step(), (4, 8), ()),
    ],
)
def test_the_import_knows_the_order_of_the_data(module: Any, shape: tuple[int, ...], axes: tuple[str, ...]) -> None:
    assert nb.load(module, sample=torch.zeros(shape)).axes == axes


def test_a_data_set_is_read_as_the_module_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = Layer(1)
    network = nb.load(module, sample=torch.zeros(1, STEPS, 8))
    x = (torch.rand(SAMPLES, STEPS, 8, generator=torch.Generator().manual_seed(1)) < 0.4).float()
    expected = module(x).detach().numpy().swapaxes(0, 1)
    assert np.array_equal(nb.simulate(network, x)["output"], expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nb.save(network, "model.nir")
    assert np.array_equal(nb.simulate("model.nir", x)["output"], expected)
    labels = expected.sum(axis=0).argmax(axis=1)
    profile = nb.profile(network, "loihi2", x, labels)
    assert (profile.points[0].about["samples"], profile.points[0].about["steps"]) == (SAMPLES, STEPS)
    assert nb.verify(network, "loihi2", x, labels=labels).steps == STEPS
    assert nb.quantize(network, "loihi2", calibrate=(x, labels)).axes == ("sample", "time")


def test_a_converted_network_reads_images() -> None:
    torch.manual_seed(0)
    ann = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    images = torch.rand(30, 8)
    network = nb.load(ann, sample=images[:1], convert=images, steps=32)
    assert network.axes == ("sample", "time=32")
    run = nb.simulate(network, images)
    assert (run.meta["steps"], run.meta["batch"]) == (32, 30)
    assert nb.simulate(network, images, steps=5).meta["steps"] == 5
