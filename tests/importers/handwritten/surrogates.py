"""Spike functions with a surrogate gradient, as public code defines them: forward is a comparison with zero."""

from __future__ import annotations

from typing import Any

import torch


class Rectangle(torch.autograd.Function):
    """Of STBP: above the threshold; the gradient is one in a window around it."""

    THRESHOLD, WIDTH = 0.5, 0.5

    @staticmethod
    def forward(ctx: Any, potential: Any) -> Any:
        ctx.save_for_backward(potential)
        return potential.gt(Rectangle.THRESHOLD).float()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        (potential,) = ctx.saved_tensors
        return grad * (abs(potential - Rectangle.THRESHOLD) < Rectangle.WIDTH).float()


class Triangle(torch.autograd.Function):
    """Of TET: a triangle of width ``gamma``."""

    @staticmethod
    def forward(ctx: Any, distance: Any, gamma: float) -> Any:
        out = (distance > 0).float()
        ctx.save_for_backward(distance, out, torch.tensor([gamma]))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        distance, _, gamma = ctx.saved_tensors
        return grad * (1 / gamma**2) * (gamma - distance.abs()).clamp(min=0), None


class FastSigmoid(torch.autograd.Function):
    """Of SpyTorch: the spikes are written into zeros."""

    scale = 100.0

    @staticmethod
    def forward(ctx: Any, distance: Any) -> Any:
        ctx.save_for_backward(distance)
        out = torch.zeros_like(distance)
        out[distance > 0] = 1.0
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        (distance,) = ctx.saved_tensors
        return grad.clone() / (FastSigmoid.scale * distance.abs() + 1.0) ** 2


class SigmoidFrom(torch.autograd.Function):
    """Fires at the threshold, too; the gradient of a sigmoid of slope ``alpha``."""

    @staticmethod
    def forward(ctx: Any, distance: Any, alpha: float = 4.0) -> Any:
        ctx.save_for_backward(distance)
        ctx.alpha = alpha
        return (distance >= 0).to(distance)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        (distance,) = ctx.saved_tensors
        soft = (ctx.alpha * distance).sigmoid()
        return grad * ctx.alpha * soft * (1 - soft), None


fast_sigmoid, sigmoid_from = FastSigmoid.apply, SigmoidFrom.apply


def straight_through(distance: Any) -> Any:
    """The hard value in forward, the sigmoid's gradient in backward."""
    hard, soft = (distance > 0).float(), torch.sigmoid(5.0 * distance)
    return (hard - soft).detach() + soft
