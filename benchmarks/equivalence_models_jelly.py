"""Models of spikingjelly for the equivalence page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from benchmarks.equivalence_model import Model, quiet, step_by_step

with quiet():
    from spikingjelly.activation_based import functional, layer, neuron

IMAGE = ((1, 8, 8),)


def stepped(module: Any, inputs: tuple[Any, ...]) -> Any:
    """Step by step, from rest."""
    functional.reset_net(module)
    return step_by_step(module, inputs)


def at_once(module: Any, inputs: tuple[Any, ...]) -> Any:
    """All steps in one call, from rest."""
    functional.reset_net(module)
    return module(inputs[0])


def _row(name: str, make: Any, run: Any = stepped, **options: Any) -> Model:
    return Model("spikingjelly", name, make, run, **{"scale": 1.0, **options})


def _two(cells: Any, **options: Any) -> Callable[[], Any]:
    return lambda: nn.Sequential(layer.Linear(12, 16), cells(**options), layer.Linear(16, 6), cells(**options))


def _conv(mode: str) -> Any:
    module = nn.Sequential(layer.Conv2d(1, 3, 3), neuron.IFNode(), layer.AvgPool2d(2), layer.Flatten(),
                           layer.Linear(27, 5), neuron.LIFNode(decay_input=False))  # fmt: skip
    functional.set_step_mode(module, mode)
    return module


class Sew(nn.Module):
    """A block whose spikes are joined to those before it (``ADD``, ``AND``, ``IAND``), and votes at the end."""

    def __init__(self, connection: str = "ADD") -> None:
        super().__init__()
        self.connection = connection
        self.stem = nn.Sequential(layer.Conv2d(1, 3, 3, padding=1), neuron.IFNode())
        self.block = nn.Sequential(layer.Conv2d(3, 3, 3, padding=1), neuron.IFNode())
        self.head = nn.Sequential(layer.Flatten(), layer.Linear(192, 20), neuron.IFNode(), layer.VotingLayer(5))
        functional.set_step_mode(self, "m")

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        y = self.block(x)
        return self.head({"ADD": x + y, "AND": x * y, "IAND": x * (1.0 - y)}[self.connection])


def _max_pool() -> Any:
    module = nn.Sequential(layer.Conv2d(1, 3, 3), neuron.IFNode(), layer.MaxPool2d(2), layer.Flatten(),
                           layer.Linear(27, 5), neuron.IFNode())  # fmt: skip
    functional.set_step_mode(module, "m")
    return module


def _containers() -> Any:
    return nn.Sequential(
        layer.SeqToANNContainer(nn.Conv2d(1, 3, 3)), neuron.IFNode(step_mode="m"),
        layer.SeqToANNContainer(nn.Flatten(), nn.Linear(108, 6)), neuron.IFNode(step_mode="m"))  # fmt: skip


def _step_modes() -> Any:
    return nn.Sequential(
        layer.StepModeContainer(False, "m", nn.Conv2d(1, 3, 3)), layer.MultiStepContainer(neuron.IFNode()),
        layer.StepModeContainer(False, "m", nn.Flatten(), nn.Linear(108, 6)), neuron.IFNode(step_mode="m"))  # fmt: skip


def _recurrent() -> Any:
    return nn.Sequential(
        layer.Linear(12, 16), layer.LinearRecurrentContainer(neuron.LIFNode(), 16, 16), layer.Linear(16, 6),
        layer.ElementWiseRecurrentContainer(neuron.IFNode(), lambda y, x: x + y))  # fmt: skip


def models() -> Iterator[Model]:
    """Those that have a form."""
    yield _row("IFNode", _two(neuron.IFNode))
    yield _row("IFNode, v_reset=None (subtract)", _two(neuron.IFNode, v_reset=None))
    yield _row("LIFNode (tau = 2, input decays, v_reset = 0)", _two(neuron.LIFNode), scale=2.0)
    yield _row("LIFNode, decay_input=False, v_reset = -0.25", _two(neuron.LIFNode, decay_input=False, v_reset=-0.25))
    yield _row("LIFNode, v_reset=None (subtract)", _two(neuron.LIFNode, v_reset=None, tau=4.0), scale=4.0)
    yield _row("ParametricLIFNode", _two(neuron.ParametricLIFNode, init_tau=3.0), scale=2.0)
    yield _row("KLIFNode", _two(neuron.KLIFNode), scale=2.0)
    yield _row("CUBALIFNode", _two(neuron.CUBALIFNode))
    yield _row("Conv2d, AvgPool2d, single steps", lambda: _conv("s"), shapes=IMAGE)
    yield _row("Conv2d, AvgPool2d, several steps at once", lambda: _conv("m"), at_once, shapes=IMAGE)
    yield _row("SeqToANNContainer", _containers, at_once, shapes=IMAGE)
    yield _row("StepModeContainer, MultiStepContainer", _step_modes, at_once, shapes=IMAGE)
    yield _row("residual block (SEW), VotingLayer", Sew, at_once, shapes=IMAGE, scale=0.4)
    yield _row("residual block (SEW), AND", lambda: Sew("AND"), at_once, shapes=IMAGE)
    yield _row("residual block (SEW), IAND", lambda: Sew("IAND"), at_once, shapes=IMAGE)
    yield _row("MaxPool2d of spikes, several steps at once", _max_pool, at_once, shapes=IMAGE)
    yield _row("LinearRecurrentContainer, ElementWiseRecurrentContainer", _recurrent)


def refused_models() -> Iterator[Model]:
    """What has no form."""

    def row(name: str, node: Callable[[], Any]) -> Model:
        return _row(name, lambda: nn.Sequential(layer.Linear(12, 8), node()), is_exact=False, is_refused=True)

    yield row("QIFNode", neuron.QIFNode)
