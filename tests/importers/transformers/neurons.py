"""Neurons of spiking transformers over whole sequences ``[time, batch, ...]``: by hand, and of spikingjelly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Fire(torch.autograd.Function):
    """A step forward, a box backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return (x >= 0).to(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * (x.abs() < 0.5)


class MultiStepLIF(nn.Module):
    """tau 2, decaying input, reset to 0."""

    def __init__(self, v_threshold: float = 1.0) -> None:
        super().__init__()
        self.v_threshold = v_threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        v, spikes = torch.zeros_like(x[0]), []
        for now in x:
            v = v + (now - v) / 2.0
            spike = Fire.apply(v - self.v_threshold)
            v = v * (1.0 - spike.detach())
            spikes.append(spike)
        return torch.stack(spikes)


def spikingjelly_lif(v_threshold: float = 1.0) -> nn.Module:
    """The neuron of the published code, in multi-step mode."""
    from spikingjelly.activation_based import neuron

    return neuron.LIFNode(tau=2.0, v_threshold=v_threshold, detach_reset=True, step_mode="m")


Lif = Callable[..., nn.Module]
LIFS: dict[str, Lif] = {"spikingjelly": spikingjelly_lif, "plain torch": MultiStepLIF}


def reset(net: nn.Module) -> None:
    """The states of spikingjelly's neurons as at first."""
    for module in net.modules():
        if hasattr(module, "reset"):
            module.reset()


def built(make: Callable[[Lif], nn.Module], lif: Lif, seed: int = 2) -> nn.Module:
    """The net in eval mode, with random BatchNorms that keep every population active."""
    torch.manual_seed(seed)
    net = make(lif)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.05, 0.3)
            nn.init.uniform_(module.weight, 0.8, 1.6)
            nn.init.uniform_(module.bias, -0.1, 0.9)
    return net.eval()
