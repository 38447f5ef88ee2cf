"""spikingjelly's containers for steps, and its SynapseFilter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from tests.importers.tutorials.forms import Form, quiet

with quiet():
    from spikingjelly.activation_based import functional, layer, neuron

SEQUENCE = (5, 2, 1, 8, 8)
PRODUCT = "a product of input and state"


def _seq() -> Any:
    last = layer.SeqToANNContainer(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(27, 6))
    return nn.Sequential(
        layer.SeqToANNContainer(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)), neuron.IFNode(step_mode="m"),
        last, neuron.IFNode(step_mode="m"))  # fmt: skip


def _multi() -> Any:
    return nn.Sequential(
        layer.MultiStepContainer(nn.Conv2d(1, 3, 3), neuron.IFNode()),
        layer.MultiStepContainer(nn.Flatten(), nn.Linear(108, 6), neuron.IFNode()))  # fmt: skip


def _one_multi() -> Any:
    return layer.MultiStepContainer(
        nn.Conv2d(1, 3, 3), neuron.IFNode(), nn.Flatten(), nn.Linear(108, 6), neuron.IFNode()
    )


def _mixed() -> Any:
    return nn.Sequential(
        layer.SeqToANNContainer(nn.Conv2d(1, 3, 3)), layer.MultiStepContainer(neuron.IFNode()),
        layer.SeqToANNContainer(nn.Flatten(), nn.Linear(108, 6)), neuron.IFNode(step_mode="m"))  # fmt: skip


def _mode(mode: str) -> Any:
    net = nn.Sequential(
        layer.StepModeContainer(False, mode, nn.Conv2d(1, 3, 3)),
        layer.StepModeContainer(True, mode, neuron.IFNode()),
        layer.StepModeContainer(False, mode, nn.Flatten(), nn.Linear(108, 6)),
        neuron.IFNode(step_mode=mode),
    )
    return net


class Functional(nn.Module):
    """The functions of the containers, called by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.sn, self.fc, self.out = nn.Conv2d(1, 3, 3), neuron.IFNode(), nn.Linear(108, 6), neuron.IFNode()

    def forward(self, x: Any) -> Any:
        x = functional.seq_to_ann_forward(x, self.conv)
        x = functional.multi_step_forward(x, self.sn)
        x = functional.seq_to_ann_forward(x, [nn.Flatten(), self.fc])
        return functional.multi_step_forward(x, self.out)


class Chunk(nn.Module):
    """chunk_multi_step_forward: parts of the sequence one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _mode("m")

    def forward(self, x: Any) -> Any:
        return functional.chunk_multi_step_forward(2, x, self.net)


def _filtered(learnable: bool, mode: str) -> Any:
    net = nn.Sequential(layer.Flatten(), layer.Linear(64, 12), neuron.IFNode(), layer.SynapseFilter(4.0, learnable),
                        layer.Linear(12, 5), neuron.IFNode())  # fmt: skip
    functional.set_step_mode(net, mode)
    return net


def forms() -> Iterator[Form]:
    def row(name: str, make: Any, shape: Any = SEQUENCE, wanted: str = "equal") -> Form:
        return Form("spikingjelly", name, make, shape, wanted)

    yield row("SeqToANNContainer", _seq)
    yield row("MultiStepContainer", _multi)
    yield row("one MultiStepContainer", _one_multi)
    yield row("both containers", _mixed)
    yield row("StepModeContainer, several steps", lambda: _mode("m"))
    yield row("StepModeContainer, single steps", lambda: _mode("s"), SEQUENCE[1:])
    yield row("seq_to_ann_forward, multi_step_forward", Functional)
    yield row("chunk_multi_step_forward", Chunk, SEQUENCE, "mixes batch or time with values")
    yield row(
        "TLastSeqToANNContainer",
        lambda: layer.TLastSeqToANNContainer(nn.Conv2d(1, 3, 3)),
        (2, 1, 8, 8, 5),
        "a layer that works on all steps at once",
    )
    yield row("SynapseFilter", lambda: _filtered(False, "m"), SEQUENCE, PRODUCT)
    yield row("SynapseFilter, learned, single steps", lambda: _filtered(True, "s"), SEQUENCE[1:], PRODUCT)
