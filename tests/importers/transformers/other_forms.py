"""Spiking attention in other forms: eroded masks, einsum, images per head, attention over channels."""

from __future__ import annotations

import torch
from torch import nn

from tests.importers.transformers import spike_driven, spikformer
from tests.importers.transformers.neurons import Lif


class Eroded(spike_driven.Attention):
    """SDSA for event cameras: maxima of 3 x 3 spikes of k, v, their product and the result."""

    def __init__(self, dim: int, heads: int, lif: Lif) -> None:
        super().__init__(dim, heads, lif)
        self.pool = nn.MaxPool3d(kernel_size=(1, 3, 3), stride=(1, 1, 1), padding=(0, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, c, h, w = x.shape
        identity, n = x, h * w
        x = self.shortcut_lif(x).flatten(0, 1)

        def heads(y: torch.Tensor) -> torch.Tensor:
            y = y.flatten(3).transpose(-1, -2).reshape(t, b, n, self.heads, c // self.heads)
            return y.permute(0, 1, 3, 2, 4).contiguous()

        q = heads(self.q_lif(self.q_bn(self.q_conv(x)).reshape(t, b, c, h, w)))
        k = heads(self.pool(self.k_lif(self.k_bn(self.k_conv(x)).reshape(t, b, c, h, w))))
        v = heads(self.pool(self.v_lif(self.v_bn(self.v_conv(x)).reshape(t, b, c, h, w))))
        kv = self.talking_heads_lif(self.pool(k.mul(v)).sum(dim=-2, keepdim=True))
        x = self.pool(q.mul(kv)).transpose(3, 4).reshape(t, b, c, h, w)
        return self.proj_bn(self.proj_conv(x.flatten(0, 1))).reshape(t, b, c, h, w) + identity


class Einsum(spikformer.Attention):
    """SSA as two einsums over named axes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, n, c = x.shape
        tokens = x.flatten(0, 1)

        def heads(linear: nn.Module, bn: nn.Module, lif: nn.Module) -> torch.Tensor:
            y = bn(linear(tokens).transpose(-1, -2)).transpose(-1, -2).reshape(t, b, n, c)
            return lif(y).reshape(t, b, n, self.heads, c // self.heads)

        q = heads(self.q_linear, self.q_bn, self.q_lif)
        k = heads(self.k_linear, self.k_bn, self.k_lif)
        v = heads(self.v_linear, self.v_bn, self.v_lif)
        attn = torch.einsum("tbnhd,tbmhd->tbhnm", q, k)
        return self.attn_lif(torch.einsum("tbhnm,tbmhd->tbnhd", attn, v).reshape(t, b, n, c) * self.scale)


class ImagesPerHead(nn.Module):
    """Token attention on ``[time, batch, heads, channels, height, width]``, neurons of four axes."""

    def __init__(self, dim: int, heads: int, lif: Lif) -> None:
        super().__init__()
        self.heads = heads
        self.q_conv, self.q_bn, self.q_lif = nn.Conv2d(dim, dim, 1), nn.BatchNorm2d(dim), lif()
        self.k_conv, self.k_bn, self.k_lif = nn.Conv2d(dim, dim, 1), nn.BatchNorm2d(dim), lif()
        self.attn_lif = lif(v_threshold=0.5)
        self.conv, self.bn, self.lif = nn.Conv2d(dim, dim, 3, padding=1), nn.BatchNorm2d(dim), lif()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, c, h, w = x.shape
        shape = (t, b, self.heads, c // self.heads, h, w)
        q = self.q_lif(self.q_bn(self.q_conv(x.flatten(0, 1))).view(shape))
        k = self.k_lif(self.k_bn(self.k_conv(x.flatten(0, 1))).view(shape))
        x = (self.attn_lif(q.sum(3, keepdim=True)) * k).view(t * b, c, h, w)
        return self.lif(self.bn(self.conv(x)).view(t, b, c, h, w))


class ChannelAttention(ImagesPerHead):
    """QKFormer's other half: q summed over the tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, b, c, h, w = x.shape
        q = self.q_lif(self.q_bn(self.q_conv(x.flatten(0, 1))).view(t, b, c, h, w)).flatten(3)
        k = self.k_lif(self.k_bn(self.k_conv(x.flatten(0, 1))).view(t, b, c, h, w)).flatten(3)
        x = (self.attn_lif(q.sum(-1, keepdim=True)) * k).view(t * b, c, h, w)
        return self.lif(self.bn(self.conv(x)).view(t, b, c, h, w))
