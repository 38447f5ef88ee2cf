"""Spike-Driven Transformer (Yao et al., NeurIPS 2023), from its published structure: shortcuts on membranes."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from tests.importers.transformers.neurons import Lif


class Embedding(nn.Module):
    """Convolutions, BatchNorms, neurons, a MaxPool where ``pooling`` has a 1; then a relative position embedding."""

    def __init__(self, channels: int, dim: int, lif: Lif, pooling: str = "1100") -> None:
        super().__init__()
        widths = (channels, dim // 8, dim // 4, dim // 2, dim)
        self.pooling = pooling
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, 1, 1, bias=False) for a, b in itertools.pairwise(widths))
        self.bns = nn.ModuleList(nn.BatchNorm2d(n) for n in widths[1:])
        self.lifs = nn.ModuleList(lif() for _ in widths[1:])
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.rpe_conv, self.rpe_bn = nn.Conv2d(dim, dim, 3, 1, 1, bias=False), nn.BatchNorm2d(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, _, h, w = x.shape
        ratio = 1
        x = x.flatten(0, 1)
        for k in range(3):
            x = self.bns[k](self.convs[k](x)).reshape(t, b, -1, h // ratio, w // ratio).contiguous()
            x = self.lifs[k](x).flatten(0, 1).contiguous()
            if self.pooling[k] == "1":
                x = self.maxpool(x)
                ratio *= 2
        x = self.bns[3](self.convs[3](x))
        if self.pooling[3] == "1":  # a maximum of currents
            x = self.maxpool(x)
            ratio *= 2
        features = x
        x = self.lifs[3](x.reshape(t, b, -1, h // ratio, w // ratio).contiguous())
        x = self.rpe_bn(self.rpe_conv(x.flatten(0, 1).contiguous()))
        return (x + features).reshape(t, b, -1, h // ratio, w // ratio).contiguous()


class Attention(nn.Module):
    """SDSA: k * v summed over the tokens, neurons, times q."""

    def __init__(self, dim: int, heads: int, lif: Lif) -> None:
        super().__init__()
        self.heads = heads
        self.q_conv, self.q_bn, self.q_lif = nn.Conv2d(dim, dim, 1, bias=False), nn.BatchNorm2d(dim), lif()
        self.k_conv, self.k_bn, self.k_lif = nn.Conv2d(dim, dim, 1, bias=False), nn.BatchNorm2d(dim), lif()
        self.v_conv, self.v_bn, self.v_lif = nn.Conv2d(dim, dim, 1, bias=False), nn.BatchNorm2d(dim), lif()
        self.talking_heads_lif = lif(v_threshold=0.5)
        self.proj_conv, self.proj_bn = nn.Conv2d(dim, dim, 1), nn.BatchNorm2d(dim)
        self.shortcut_lif = lif()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, c, h, w = x.shape
        identity, n = x, h * w
        x = self.shortcut_lif(x).flatten(0, 1)

        def heads(y: torch.Tensor) -> torch.Tensor:
            y = y.flatten(3).transpose(-1, -2).reshape(t, b, n, self.heads, c // self.heads)
            return y.permute(0, 1, 3, 2, 4).contiguous()

        q = heads(self.q_lif(self.q_bn(self.q_conv(x)).reshape(t, b, c, h, w).contiguous()))
        k = heads(self.k_lif(self.k_bn(self.k_conv(x)).reshape(t, b, c, h, w).contiguous()))
        v = heads(self.v_lif(self.v_bn(self.v_conv(x)).reshape(t, b, c, h, w).contiguous()))
        kv = self.talking_heads_lif(k.mul(v).sum(dim=-2, keepdim=True))
        x = q.mul(kv).transpose(3, 4).reshape(t, b, c, h, w).contiguous()
        x = self.proj_bn(self.proj_conv(x.flatten(0, 1))).reshape(t, b, c, h, w).contiguous()
        return x + identity


class Mlp(nn.Module):
    """Neurons, a convolution of one position and a BatchNorm, twice."""

    def __init__(self, dim: int, hidden: int, lif: Lif) -> None:
        super().__init__()
        self.has_inner_shortcut = dim == hidden
        self.fc1_lif, self.fc1_conv, self.fc1_bn = lif(), nn.Conv2d(dim, hidden, 1), nn.BatchNorm2d(hidden)
        self.fc2_lif, self.fc2_conv, self.fc2_bn = lif(), nn.Conv2d(hidden, dim, 1), nn.BatchNorm2d(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, _, h, w = x.shape
        identity = x
        x = self.fc1_bn(self.fc1_conv(self.fc1_lif(x).flatten(0, 1))).reshape(t, b, -1, h, w).contiguous()
        if self.has_inner_shortcut:
            x = identity + x
            identity = x
        x = self.fc2_bn(self.fc2_conv(self.fc2_lif(x).flatten(0, 1))).reshape(t, b, -1, h, w).contiguous()
        return x + identity


class Transformer(nn.Module):
    """Embedding, blocks of attention and MLP, mean over the tokens, neurons, Linear."""

    def __init__(self, lif: Lif, dim: int = 16, heads: int = 2, ratio: int = 2, depth: int = 1) -> None:
        super().__init__()
        self.patch_embed = Embedding(2, dim, lif)
        blocks = (nn.Sequential(Attention(dim, heads, lif), Mlp(dim, ratio * dim, lif)) for _ in range(depth))
        self.block = nn.Sequential(*blocks)
        self.head_lif, self.head = lif(), nn.Linear(dim, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.block(self.patch_embed(x)).flatten(3).mean(3)
        return self.head(self.head_lif(x))
