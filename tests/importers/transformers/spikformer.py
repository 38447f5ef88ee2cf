"""Spiking self-attention of Spikformer (Zhou et al., ICLR 2023) and of QKFormer, from its published structure."""

from __future__ import annotations

import torch
from torch import nn

from tests.importers.transformers.neurons import Lif


class Attention(nn.Module):
    """SSA: (q @ k.T) @ v of spikes, scaled, neurons; Linears on tokens ``[time, batch, N, C]``."""

    def __init__(self, dim: int, heads: int, lif: Lif, scale: float = 0.125) -> None:
        super().__init__()
        self.heads, self.scale = heads, scale
        self.q_linear, self.q_bn, self.q_lif = nn.Linear(dim, dim), nn.BatchNorm1d(dim), lif()
        self.k_linear, self.k_bn, self.k_lif = nn.Linear(dim, dim), nn.BatchNorm1d(dim), lif()
        self.v_linear, self.v_bn, self.v_lif = nn.Linear(dim, dim), nn.BatchNorm1d(dim), lif()
        self.attn_lif = lif(v_threshold=0.5)
        self.proj_linear, self.proj_bn, self.proj_lif = nn.Linear(dim, dim), nn.BatchNorm1d(dim), lif()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, n, c = x.shape
        tokens = x.flatten(0, 1)

        def heads(linear: nn.Module, bn: nn.Module, lif: nn.Module) -> torch.Tensor:
            y = bn(linear(tokens).transpose(-1, -2)).transpose(-1, -2).reshape(t, b, n, c).contiguous()
            return lif(y).reshape(t, b, n, self.heads, c // self.heads).permute(0, 1, 3, 2, 4).contiguous()

        q = heads(self.q_linear, self.q_bn, self.q_lif)
        k = heads(self.k_linear, self.k_bn, self.k_lif)
        v = heads(self.v_linear, self.v_bn, self.v_lif)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        x = (attn @ v).transpose(2, 3).reshape(t, b, n, c).contiguous()
        x = self.attn_lif(x).flatten(0, 1)
        x = self.proj_bn(self.proj_linear(x).transpose(-1, -2)).transpose(-1, -2).reshape(t, b, n, c)
        return self.proj_lif(x)


class ImageAttention(nn.Module):
    """The same of QKFormer: 1x1 convolutions, and q @ (k.T @ v)."""

    def __init__(self, dim: int, heads: int, lif: Lif) -> None:
        super().__init__()
        self.heads = heads
        self.q_conv, self.q_bn, self.q_lif = nn.Conv1d(dim, dim, 1, bias=False), nn.BatchNorm1d(dim), lif()
        self.k_conv, self.k_bn, self.k_lif = nn.Conv1d(dim, dim, 1, bias=False), nn.BatchNorm1d(dim), lif()
        self.v_conv, self.v_bn, self.v_lif = nn.Conv1d(dim, dim, 1, bias=False), nn.BatchNorm1d(dim), lif()
        self.attn_lif = lif(v_threshold=0.5)
        self.proj_conv, self.proj_bn, self.proj_lif = nn.Conv1d(dim, dim, 1), nn.BatchNorm1d(dim), lif()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, c, h, w = x.shape
        n, tokens = h * w, x.flatten(3).flatten(0, 1)

        def heads(conv: nn.Module, bn: nn.Module, lif: nn.Module) -> torch.Tensor:
            y = lif(bn(conv(tokens)).reshape(t, b, c, n).contiguous()).transpose(-1, -2)
            return y.reshape(t, b, n, self.heads, c // self.heads).permute(0, 1, 3, 2, 4).contiguous()

        q = heads(self.q_conv, self.q_bn, self.q_lif)
        k = heads(self.k_conv, self.k_bn, self.k_lif)
        v = heads(self.v_conv, self.v_bn, self.v_lif)
        x = (q @ (k.transpose(-2, -1) @ v)) * 0.125
        x = self.attn_lif(x.transpose(3, 4).reshape(t, b, c, n).contiguous()).flatten(0, 1)
        return self.proj_lif(self.proj_bn(self.proj_conv(x)).reshape(t, b, c, h, w))
