"""Networks with neurons written by hand as in the code of papers: loops over time inside of forward."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.importers.handwritten.canonical import Cell, each_step
from tests.importers.handwritten.forms import HandWritten, matrix
from tests.importers.handwritten.surrogates import Rectangle, Triangle, fast_sigmoid, sigmoid_from

# -- STBP ----------------------------------------------------------------------------------------------------------


def stbp_update(layer: Any, x: Any, mem: Any, spike: Any) -> tuple[Any, Any]:
    mem = mem * 0.25 * (1.0 - spike) + layer(x)
    return mem, Rectangle.apply(mem)


class StbpDense(nn.Module):
    """``[batch, time, features]``; the rate of the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 12), nn.Linear(12, 5)

    def forward(self, x: Any) -> Any:
        batch, window = x.shape[0], x.shape[1]
        h1_mem = h1_spike = torch.zeros(batch, 12)
        h2_mem = h2_spike = h2_sumspike = torch.zeros(batch, 5)
        for step in range(window):
            h1_mem, h1_spike = stbp_update(self.fc1, x[:, step], h1_mem, h1_spike)
            h2_mem, h2_spike = stbp_update(self.fc2, h1_spike, h2_mem, h2_spike)
            h2_sumspike = h2_sumspike + h2_spike
        return h2_sumspike / window


class StbpConv(nn.Module):
    """Convolutions, pools of spikes, and a sum of spikes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
        self.fc = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        batch = x.size(1)
        c1_mem = c1_spike = torch.zeros(batch, 3, 8, 8)
        c2_mem = c2_spike = torch.zeros(batch, 4, 4, 4)
        h_mem = h_spike = h_sum = torch.zeros(batch, 5)
        for step in range(x.size(0)):
            c1_mem, c1_spike = stbp_update(self.conv1, x[step], c1_mem, c1_spike)
            pooled = F.avg_pool2d(c1_spike, 2)
            c2_mem, c2_spike = stbp_update(self.conv2, pooled, c2_mem, c2_spike)
            flat = F.avg_pool2d(c2_spike, 2).view(batch, -1)
            h_mem, h_spike = stbp_update(self.fc, flat, h_mem, h_spike)
            h_sum += h_spike
        return h_sum


_STBP = Cell(a_mem=0.25, theta=0.5)


def _stbp_dense(net: Any, x: Any) -> Any:
    return _STBP(each_step(net.fc2, _STBP(each_step(net.fc1, x))))


def _stbp_conv(net: Any, x: Any) -> Any:
    first = each_step(lambda s: F.avg_pool2d(s, 2), _STBP(each_step(net.conv1, x)))
    second = each_step(lambda s: F.avg_pool2d(s, 2).flatten(1), _STBP(each_step(net.conv2, first)))
    return _STBP(each_step(net.fc, second))


# -- tdBN, TET -------------------------------------------------------------------------------------------------------


class LifSpike(nn.Module):
    """``[batch, time, ...]``, a hard reset in the same time step."""

    def __init__(self, thresh: float = 1.0, tau: float = 0.5, gamma: float = 1.0) -> None:
        super().__init__()
        self.thresh, self.tau, self.gamma = thresh, tau, gamma

    def forward(self, x: Any) -> Any:
        mem: Any = 0
        pot = []
        for t in range(x.shape[1]):
            mem = mem * self.tau + x[:, t, ...]
            spike = Triangle.apply(mem - self.thresh, self.gamma)
            mem = (1 - spike) * mem
            pot.append(spike)
        return torch.stack(pot, dim=1)


class TimeLast(nn.Module):
    """tdBN as published: ``[batch, ..., time]``, currents and spikes written into zeros time step by time step."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 12), nn.Linear(12, 5)

    def currents(self, layer: Any, x: Any) -> Any:
        out = torch.zeros((*layer(x[..., 0]).shape, x.shape[-1]))
        for step in range(x.shape[-1]):
            out[..., step] = layer(x[..., step])
        return out

    def fire(self, x: Any) -> Any:
        u, out = torch.zeros(x.shape[:-1]), torch.zeros(x.shape)
        for step in range(x.shape[-1]):
            u = 0.25 * u * (1 - out[..., max(step - 1, 0)]) + x[..., step]
            out[..., step] = Rectangle.apply(u)
        return out

    def forward(self, x: Any) -> Any:
        x = x.permute(0, 2, 1)
        return self.fire(self.currents(self.fc2, self.fire(self.currents(self.fc1, x)))).permute(0, 2, 1)


class Merged(nn.Module):
    """A layer on batch and time at once."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        self.layer = nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        return self.layer(x.flatten(0, 1).contiguous()).view(x.shape[0], x.shape[1], -1, *x.shape[3:])


class Tet(nn.Module):
    """Convolution with the batch norm of tdBN, then a layer on the flattened spikes."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.act1 = Merged(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3)), LifSpike()
        self.fc, self.act2 = Merged(nn.Linear(48, 5)), LifSpike(tau=0.25)

    def forward(self, x: Any) -> Any:
        x = self.act1(self.block(x))
        return self.act2(self.fc(torch.flatten(x, 2)))


def _tet(net: Any, x: Any) -> Any:
    first = Cell(a_mem=0.5)(each_step(net.block.layer, x))
    return Cell(a_mem=0.25)(each_step(lambda s: net.fc.layer(s.flatten(1)), first))


# -- MS-ResNet -------------------------------------------------------------------------------------------------------


class MemUpdate(nn.Module):
    """``[time, batch, ...]``: a late reset, results written into zeros."""

    def __init__(self, decay: float = 0.25) -> None:
        super().__init__()
        self.decay = decay

    def forward(self, x: Any) -> Any:
        spike, output = torch.zeros_like(x[0]), torch.zeros_like(x)
        mem_old: Any = 0
        for i in range(x.shape[0]):
            mem = x[i] if i < 1 else mem_old * self.decay * (1 - spike.detach()) + x[i]
            spike = sigmoid_from(mem - 0.5)
            mem_old = mem.clone()
            output[i] = spike
        return output


class MsBlock(nn.Module):
    """A residual block whose shortcut adds currents, not spikes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.fire1, self.fire2 = MemUpdate(), MemUpdate()

    def forward(self, x: Any) -> Any:
        def conv(layer: Any, now: Any) -> Any:
            return layer(now.flatten(0, 1)).unflatten(0, now.shape[:2])

        currents = conv(self.stem, x)
        return self.fire2(conv(self.conv, self.fire1(currents)) + currents)


def _ms_block(net: Any, x: Any) -> Any:
    cell = Cell(a_mem=0.25, theta=0.5, compare=">=")
    currents = each_step(net.stem, x)
    return cell(each_step(net.conv, cell(currents)) + currents)


# -- SpyTorch --------------------------------------------------------------------------------------------------------


class SpyTorch(nn.Module):
    """Bare matrices, einsum over whole sequences; the spike is that of the potential before the update."""

    def __init__(self, *, has_readout: bool) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Parameter(matrix(8, 12, 3.0)), nn.Parameter(matrix(12, 4, 2.0))
        self.alpha, self.beta, self.has_readout = 0.5, 0.75, has_readout

    def forward(self, inputs: Any) -> Any:
        h1 = torch.einsum("abc,cd->abd", (inputs, self.w1))
        syn = mem = torch.zeros(inputs.shape[0], 12)
        spk_rec = []
        for t in range(inputs.shape[1]):
            out = fast_sigmoid(mem - 1.0)
            rst = out.detach()
            new_syn = self.alpha * syn + h1[:, t]
            new_mem = (self.beta * mem + syn) * (1.0 - rst)
            spk_rec.append(out)
            mem, syn = new_mem, new_syn
        spikes = torch.stack(spk_rec, dim=1)
        return self.readout(spikes) if self.has_readout else spikes

    def readout(self, spikes: Any) -> Any:
        h2 = torch.einsum("abc,cd->abd", (spikes, self.w2))
        flt = out = torch.zeros(spikes.shape[0], 4)
        out_rec = []
        for t in range(spikes.shape[1]):
            new_flt = self.alpha * flt + h2[:, t]
            new_out = self.beta * out + flt
            flt, out = new_flt, new_out
            out_rec.append(out)
        return torch.stack(out_rec, dim=1)


def _spytorch(net: Any, x: Any) -> Any:
    spikes = Cell(a_mem=0.75, a_syn=0.5, refractory=1, delay=2)(x @ net.w1)
    if not net.has_readout:
        return spikes
    return Cell(a_mem=0.75, a_syn=0.5, theta=None, delay=1)(spikes @ net.w2)


# -- sparch ----------------------------------------------------------------------------------------------------------


class Sparch(nn.Module):
    """A layer of LIF or RLIF neurons: decays per neuron, clamped; a late soft reset."""

    LIMITS = (math.exp(-1 / 5), math.exp(-1 / 25))

    def __init__(self, *, is_recurrent: bool) -> None:
        super().__init__()
        self.W, self.is_recurrent = nn.Linear(8, 6, bias=False), is_recurrent
        self.V = nn.Linear(6, 6, bias=False)
        self.alpha = nn.Parameter(torch.linspace(0.78, 0.98, 6))

    def feedback(self) -> Any:
        return self.V.weight.clone().fill_diagonal_(0)

    def forward(self, x: Any) -> Any:
        currents = self.W(x)
        ut = st = torch.zeros(currents.shape[0], currents.shape[2])
        alpha, states = torch.clamp(self.alpha, min=self.LIMITS[0], max=self.LIMITS[1]), []
        feedback = self.feedback()
        for t in range(currents.shape[1]):
            now = currents[:, t, :]
            if self.is_recurrent:
                now = now + torch.matmul(st, feedback)
            ut = alpha * (ut - st) + (1 - alpha) * now
            st = fast_sigmoid(ut - 1.0)
            states.append(st)
        return torch.stack(states, dim=1)


def _sparch(net: Any, x: Any) -> Any:
    alpha = net.alpha.clamp(*net.LIMITS)
    cell = Cell(a_mem=alpha, g_mem=1 - alpha, reset="subtract", amount=1.0)
    return cell(net.W(x), (lambda s: s @ net.feedback()) if net.is_recurrent else None)


# -- SRNN ------------------------------------------------------------------------------------------------------------


class Srnn(nn.Module):
    """A recurrent layer of Yin et al. without adaptation: decays from time constants, ``R_m``, a late soft reset."""

    def __init__(self) -> None:
        super().__init__()
        self.i2h, self.h2h = nn.Linear(8, 6), nn.Linear(6, 6)
        self.tau_m, self.r_m, self.b_j0 = nn.Parameter(torch.linspace(4.0, 12.0, 6)), 3.0, 0.53

    def update(self, inputs: Any, mem: Any, spike: Any) -> tuple[Any, Any]:
        alpha = torch.exp(-1.0 * 1 / self.tau_m)
        mem = mem * alpha + (1 - alpha) * self.r_m * inputs - self.b_j0 * spike * 1
        return mem, fast_sigmoid(mem - self.b_j0)

    def forward(self, x: Any) -> Any:
        mem = spike = torch.zeros(x.shape[0], 6)
        total = torch.zeros(x.shape[0], 6)
        for i in range(x.shape[1]):
            mem, spike = self.update(self.i2h(x[:, i, :]) + self.h2h(spike), mem, spike)
            total = total + spike
        return total


def _srnn(net: Any, x: Any) -> Any:
    alpha = torch.exp(-1 / net.tau_m)
    cell = Cell(a_mem=alpha, g_mem=(1 - alpha) * 3.0, theta=0.53, reset="subtract", amount=0.53 / alpha)
    return cell(each_step(net.i2h, x), net.h2h)


# -- LSNN ------------------------------------------------------------------------------------------------------------


class Lsnn(nn.Module):
    """Adaptive LIF neurons of Bellec et al.: a threshold that each spike raises; the reset takes off the fixed part.

    ``is_whole``: it takes off the threshold as it is, in the same time step.
    """

    def __init__(self, *, is_whole: bool) -> None:
        super().__init__()
        self.fc, self.rec = nn.Linear(8, 6), nn.Linear(6, 6, bias=False)
        self.rho, self.thr, self.beta, self.is_whole = nn.Parameter(torch.linspace(0.5, 0.9, 6)), 0.5, 0.75, is_whole

    def forward(self, x: Any) -> Any:
        v = z = b = torch.zeros(x.shape[1], 6)
        spikes = []
        for now in x:
            b = self.rho * b + (1 - self.rho) * z
            threshold = self.thr + self.beta * b
            v = 0.75 * v + self.fc(now) + self.rec(z) - (0.0 if self.is_whole else self.thr * z)
            z = fast_sigmoid((v - threshold) / self.thr)
            v = v - z * threshold if self.is_whole else v
            spikes.append(z)
        return torch.stack(spikes)


def _lsnn(net: Any, x: Any) -> Any:
    amount = None if net.is_whole else 0.5 / 0.75
    adaptation = {"b_decay": net.rho, "b_jump": net.beta * (1 - net.rho), "b_in_reset": net.is_whole}
    return Cell(a_mem=0.75, theta=0.5, reset="subtract", amount=amount, **adaptation)(each_step(net.fc, x), net.rec)


# -- delays ----------------------------------------------------------------------------------------------------------


class CausalDelays(nn.Module):
    """A convolution over time whose kernel is a delay per synapse, as DCLS leaves it, in front of a LIF by hand."""

    def __init__(self) -> None:
        super().__init__()
        delays = torch.arange(48).reshape(6, 8) % 4
        self.kernel = nn.Parameter(F.one_hot(delays, 4).flip(-1) * matrix(6, 8, 3.0)[..., None])

    def forward(self, x: Any) -> Any:
        series = F.conv1d(F.pad(x.permute(1, 2, 0), (3, 0)), self.kernel).permute(2, 0, 1)
        v, spikes = torch.zeros_like(series[0]), []
        for now in series:
            v = v + (now - v) / 2.0
            spk = sigmoid_from(v - 1.0)
            v = v * (1.0 - spk.detach())
            spikes.append(spk)
        return torch.stack(spikes)


def _delays(net: Any, x: Any) -> Any:
    late = torch.cat([x.new_zeros(3, *x.shape[1:]), x])
    parts = [late[k : k + len(x)] @ net.kernel[..., k].T for k in range(4)]
    return Cell(a_mem=0.5, g_mem=0.5, compare=">=")(sum(parts))


# -- dendrites -------------------------------------------------------------------------------------------------------


class Dendritic(nn.Module):
    """DH-LIF: branches with time constants of their own, whose currents add up in the membrane; a late soft reset."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.tau_m = nn.Linear(8, 10), nn.Parameter(torch.zeros(5))
        self.tau_n = nn.Parameter(torch.linspace(-1.0, 1.0, 10).view(5, 2))

    def forward(self, x: Any) -> Any:
        branches, spikes = torch.zeros(x.shape[0], 5, 2), []
        mem = spike = torch.zeros(x.shape[0], 5)
        beta, alpha = torch.sigmoid(self.tau_n), torch.sigmoid(self.tau_m)
        for step in range(x.shape[1]):
            currents = self.dense(x[:, step]).reshape(-1, 5, 2)
            branches = beta * branches + (1 - beta) * currents
            mem = mem * alpha + (1 - alpha) * branches.sum(dim=2) - 0.25 * spike
            spike = sigmoid_from(mem - 0.25)
            spikes.append(spike)
        return torch.stack(spikes, dim=1)


def _dendritic(net: Any, x: Any) -> Any:
    beta, alpha = torch.sigmoid(net.tau_n), torch.sigmoid(net.tau_m)
    branches = Cell(a_mem=beta, g_mem=1 - beta, theta=None)(net.dense(x).unflatten(-1, (5, 2)))
    soma = Cell(a_mem=alpha, g_mem=1 - alpha, theta=0.25, compare=">=", reset="subtract", amount=0.25 / alpha)
    return soma(branches.sum(-1))


# -- neurons of converted networks -----------------------------------------------------------------------------------


class Qcfs(nn.Module):
    """IF neurons of QCFS, ``[time, batch, ...]``: half a threshold at first, spikes as large as the threshold."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 12), nn.Linear(12, 5)
        self.thresholds = nn.Parameter(torch.tensor([[1.5], [0.75]]))

    def fire(self, x: Any, thre: Any) -> Any:
        mem, pot = 0.5 * thre, []
        for t in range(x.shape[0]):
            mem = mem + x[t, ...]
            spike = sigmoid_from(mem - thre) * thre
            mem = mem - spike
            pot.append(spike)
        return torch.stack(pot, dim=0)

    def forward(self, x: Any) -> Any:
        first, second = self.thresholds.data
        return self.fire(self.fc2(self.fire(self.fc1(x), first)), second)


def _qcfs(net: Any, x: Any) -> Any:
    for fc, thre in zip((net.fc1, net.fc2), net.thresholds, strict=True):
        x = thre * Cell(theta=thre, v_init=0.5 * thre, compare=">=", reset="subtract")(each_step(fc, x))
    return x


def forms() -> Iterator[HandWritten]:
    yield HandWritten("STBP, dense, rates", StbpDense, (8,), "batch-time", _stbp_dense, "mean")
    yield HandWritten("STBP, convolutions, counts", StbpConv, (2, 8, 8), "time", _stbp_conv, "sum")
    yield HandWritten("TET, LIFSpike with batch norm", Tet, (2, 4, 4), "batch-time", _tet)
    yield HandWritten("tdBN, time last", TimeLast, (8,), "batch-time", _stbp_dense)
    yield HandWritten("MS-ResNet, mem_update", MsBlock, (2, 4, 4), "time", _ms_block)
    yield HandWritten("SpyTorch, hidden layer", lambda: SpyTorch(has_readout=False), (8,), "batch-time", _spytorch)
    yield HandWritten("SpyTorch, with its readout", lambda: SpyTorch(has_readout=True), (8,), "batch-time", _spytorch)
    for name, is_recurrent in (("sparch, LIF", False), ("sparch, RLIF", True)):
        make = partial(Sparch, is_recurrent=is_recurrent)
        yield HandWritten(name, make, (8,), "batch-time", _sparch, scale=12.0)
    yield HandWritten("SRNN without adaptation", Srnn, (8,), "batch-time", _srnn, "sum")
    for name, is_whole in (("LSNN, adaptive threshold", False), ("LSNN, resets by the adapted threshold", True)):
        yield HandWritten(name, partial(Lsnn, is_whole=is_whole), (8,), "time", _lsnn)
    yield HandWritten("DH-LIF, dendritic branches", Dendritic, (8,), "batch-time", _dendritic)
    yield HandWritten("QCFS, spikes of the threshold", Qcfs, (8,), "time", _qcfs)
    yield HandWritten("delays per synapse, LIF by hand", CausalDelays, (8,), "time", _delays)
