"""QKFormer (Zhou et al., NeurIPS 2024), from its published structure: shortcuts of spikes, as SEW-ResNet has them."""

from __future__ import annotations

import torch
from torch import nn

from tests.importers.transformers.neurons import Lif


class Embedding(nn.Module):
    """Convolutions, BatchNorms and neurons, and a second path of one convolution."""

    def __init__(self, channels: int, dim: int, lif: Lif) -> None:
        super().__init__()
        half = dim // 2
        self.proj_conv, self.proj_bn = nn.Conv2d(channels, half, 3, 1, 1, bias=False), nn.BatchNorm2d(half)
        self.proj1_conv, self.proj1_bn = nn.Conv2d(half, dim, 3, 1, 1, bias=False), nn.BatchNorm2d(dim)
        self.proj_res_conv, self.proj_res_bn = nn.Conv2d(half, dim, 1, bias=False), nn.BatchNorm2d(dim)
        self.proj_lif, self.proj1_lif, self.proj_res_lif = lif(), lif(), lif()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, _, h, w = x.shape
        x = self.proj_lif(self.proj_bn(self.proj_conv(x.flatten(0, 1))).reshape(t, b, -1, h, w)).flatten(0, 1)
        features = x
        x = self.proj1_lif(self.proj1_bn(self.proj1_conv(x)).reshape(t, b, -1, h, w).contiguous())
        features = self.proj_res_bn(self.proj_res_conv(features)).reshape(t, b, -1, h, w).contiguous()
        return x + self.proj_res_lif(features)


class TokenAttention(nn.Module):
    """QKTA: q summed over the channels of a head, neurons, times k."""

    def __init__(self, dim: int, heads: int, lif: Lif) -> None:
        super().__init__()
        self.heads = heads
        self.q_conv, self.q_bn, self.q_lif = nn.Conv1d(dim, dim, 1, bias=False), nn.BatchNorm1d(dim), lif()
        self.k_conv, self.k_bn, self.k_lif = nn.Conv1d(dim, dim, 1, bias=False), nn.BatchNorm1d(dim), lif()
        self.attn_lif = lif(v_threshold=0.5)
        self.proj_conv, self.proj_bn, self.proj_lif = nn.Conv1d(dim, dim, 1), nn.BatchNorm1d(dim), lif()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, c, h, w = x.shape
        x = x.flatten(3)
        n = h * w
        x = x.flatten(0, 1)
        q = self.q_lif(self.q_bn(self.q_conv(x)).reshape(t, b, c, n))
        q = q.unsqueeze(2).reshape(t, b, self.heads, c // self.heads, n)
        k = self.k_lif(self.k_bn(self.k_conv(x)).reshape(t, b, c, n))
        k = k.unsqueeze(2).reshape(t, b, self.heads, c // self.heads, n)
        attn = self.attn_lif(torch.sum(q, dim=3, keepdim=True))
        x = torch.mul(attn, k).flatten(2, 3)
        return self.proj_lif(self.proj_bn(self.proj_conv(x.flatten(0, 1))).reshape(t, b, c, h, w))


class Mlp(nn.Module):
    """A convolution of one position, a BatchNorm and neurons, twice."""

    def __init__(self, dim: int, hidden: int, lif: Lif) -> None:
        super().__init__()
        self.mlp1_conv, self.mlp1_bn, self.mlp1_lif = nn.Conv2d(dim, hidden, 1), nn.BatchNorm2d(hidden), lif()
        self.mlp2_conv, self.mlp2_bn, self.mlp2_lif = nn.Conv2d(hidden, dim, 1), nn.BatchNorm2d(dim), lif()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, _, h, w = x.shape
        x = self.mlp1_lif(self.mlp1_bn(self.mlp1_conv(x.flatten(0, 1))).reshape(t, b, -1, h, w))
        return self.mlp2_lif(self.mlp2_bn(self.mlp2_conv(x.flatten(0, 1))).reshape(t, b, -1, h, w))


class Block(nn.Module):
    """Attention and MLP, each with a shortcut that adds spikes."""

    def __init__(self, attention: nn.Module, mlp: nn.Module) -> None:
        super().__init__()
        self.attn, self.mlp = attention, mlp

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(x)
        return x + self.mlp(x)


class Transformer(nn.Module):
    """A static image, repeated; embedding, blocks, mean over the tokens and over time, Linear."""

    def __init__(self, lif: Lif, dim: int = 8, heads: int = 2, ratio: int = 2, steps: int = 4) -> None:
        super().__init__()
        self.steps = steps
        self.patch_embed1 = Embedding(1, dim, lif)
        self.stage1 = nn.Sequential(Block(TokenAttention(dim, heads, lif), Mlp(dim, ratio * dim, lif)))
        self.head = nn.Linear(dim, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.unsqueeze(0).repeat(self.steps, 1, 1, 1, 1)
        x = self.stage1(self.patch_embed1(x)).flatten(3).mean(3)
        return self.head(x.mean(0))
