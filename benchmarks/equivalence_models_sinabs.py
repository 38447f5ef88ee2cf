"""Models of sinabs for the equivalence page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from benchmarks.equivalence_model import BATCH, STEPS, Model, quiet

with quiet():
    import sinabs
    import sinabs.from_torch
    import sinabs.layers as sl

IMAGE = ((1, 8, 8),)


def _at_rest(module: Any) -> None:
    for layer in module.modules():
        if isinstance(layer, sl.StatefulLayer):
            layer.reset_states()


def squeezed(module: Any, inputs: tuple[Any, ...]) -> Any:
    """A module on ``[batch x time, *shape]``."""
    _at_rest(module)
    return module(inputs[0].transpose(0, 1).flatten(0, 1)).unflatten(0, (BATCH, STEPS)).transpose(0, 1)


def batch_first(module: Any, inputs: tuple[Any, ...]) -> Any:
    """A module on ``[batch, time, *shape]``."""
    _at_rest(module)
    return module(inputs[0].transpose(0, 1)).transpose(0, 1)


def _iaf(**options: Any) -> Any:
    return sl.IAFSqueeze(batch_size=BATCH, **options)


def _network() -> Any:
    return sinabs.network.Network(spiking_model=nn.Sequential(
        nn.Conv2d(1, 3, 3), _iaf(), sl.SumPool2d(2), nn.Flatten(), nn.Linear(27, 5), _iaf()))  # fmt: skip


def _converted(**options: Any) -> Any:
    ann = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(27, 5), nn.ReLU())
    return sinabs.from_torch.from_model(ann, batch_size=BATCH, add_spiking_output=False, **options)


class Merged(nn.Module):
    """A residual sum by ``sinabs.layers.Merge``."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.merge, self.head = sl.Merge(), nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
        self.iaf1, self.iaf2, self.iaf3 = _iaf(), _iaf(), _iaf()

    def forward(self, x: Any) -> Any:
        x = self.iaf1(self.first(x))
        return self.iaf3(self.head(self.merge(x, self.iaf2(self.second(x)))))


def _two(first: Any, second: Any) -> Any:
    return nn.Sequential(nn.Linear(12, 16), first, nn.Linear(16, 6), second)


def _row(name: str, make: Any, run: Any = squeezed, **options: Any) -> Model:
    return Model("sinabs", name, make, run, **{"scale": 0.7, **options})


def models() -> Iterator[Model]:
    """Those that have a form."""
    single, value = sinabs.activation.SingleSpike, sinabs.activation.MembraneReset
    yield _row("IAFSqueeze, several spikes per time step", lambda: _two(_iaf(), _iaf()))
    yield _row("LIFSqueeze, norm_input", lambda: _two(sl.LIFSqueeze(batch_size=BATCH, tau_mem=10.0), _iaf()), scale=2.0)
    yield _row("LIF, norm_input=False", lambda: _two(sl.LIF(10.0, norm_input=False), sl.IAF()), batch_first)
    yield _row("IAFSqueeze, SingleSpike", lambda: _two(_iaf(spike_fn=single), _iaf(spike_fn=single)))
    yield _row("LIF, MembraneReset(0)", lambda: _two(sl.LIF(10.0, reset_fn=value(0.0)), sl.IAF()), batch_first,
               scale=2.0)  # fmt: skip
    yield _row("LIF, MembraneReset(-0.5)", lambda: _two(sl.LIF(10.0, reset_fn=value(-0.5)), sl.IAF()), batch_first,
               scale=2.0)  # fmt: skip
    yield _row("LIF with synapse, LIFRecurrent", lambda: _two(
        sl.LIF(10.0, 5.0), sl.LIFRecurrent(10.0, nn.Linear(6, 6))), batch_first, scale=2.0)  # fmt: skip
    yield _row("ALIF, ALIFRecurrent", lambda: _two(
        sl.ALIF(10.0, 10.0, norm_input=False),
        sl.ALIFRecurrent(10.0, 10.0, nn.Linear(6, 6), norm_input=False)), batch_first)  # fmt: skip
    yield _row("Network: Conv2d, IAFSqueeze, SumPool2d", _network, shapes=IMAGE, scale=0.4)
    yield _row("residual by Merge", Merged, shapes=IMAGE, scale=0.3)
    yield _row("from_model of a CNN, min_v_mem=None", lambda: _converted(min_v_mem=None), shapes=IMAGE, scale=0.8)
    yield _row("from_model, its default min_v_mem = -1", _converted, shapes=IMAGE, scale=0.8)
    yield _row("LIF with synapse, min_v_mem, MembraneReset", lambda: _two(
        sl.LIF(10.0, 5.0, min_v_mem=-0.25), sl.LIF(10.0, min_v_mem=-0.5, reset_fn=value(0.0))), batch_first,
               scale=2.0)  # fmt: skip
    yield _row("MaxPool2d of single spikes", lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3), _iaf(spike_fn=single), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5), _iaf()),
               shapes=IMAGE)  # fmt: skip


def refused_models() -> Iterator[Model]:
    """What has no form."""
    yield _row("NeuromorphicReLU", lambda: nn.Sequential(nn.Linear(12, 8), sl.NeuromorphicReLU()), is_exact=False,
               is_refused=True)  # fmt: skip
