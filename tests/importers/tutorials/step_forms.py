"""Loops that write steps into buffers, or put chunks of steps together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tests.importers.tutorials.forms import Form, quiet

with quiet():
    import norse.torch as norse
    import snntorch as snn

STEPS, BATCH, FEATURES = 12, 2, 6
SEQUENCE = (STEPS, BATCH, FEATURES)


class Loop(nn.Module):
    """Two layers in a loop over the first axis; ``keep(outputs of each step, input)`` is what forward returns."""

    def __init__(self, keep: Any) -> None:
        super().__init__()
        self.fc1, self.lif1 = nn.Linear(FEATURES, 8), snn.Leaky(beta=0.75, reset_mechanism="zero")
        self.fc2, self.lif2 = nn.Linear(8, 4), snn.Leaky(beta=0.5, reset_mechanism="zero")
        self.keep = keep

    def steps(self, x: Any) -> Iterator[tuple[int, Any, Any]]:
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        for t in range(x.shape[0]):
            spk, mem1 = self.lif1(self.fc1(x[t]), mem1)
            spk, mem2 = self.lif2(self.fc2(spk), mem2)
            yield t, spk, mem2

    def forward(self, x: Any) -> Any:
        return self.keep(self, x)


def _buffer(write: Any, shape: Any = None, make: Any = torch.zeros) -> Any:
    def keep(module: Loop, x: Any) -> Any:
        out = make(*(shape or (x.shape[0], x.shape[1], 4)))
        for t, spk, _ in module.steps(x):
            write(out, t, spk)
        return out

    return keep


def _put(index: Any) -> Any:
    def write(out: Any, t: int, spk: Any) -> None:
        out[index(t)] = spk

    return write


def _copy(out: Any, t: int, spk: Any) -> None:
    out[t].copy_(spk)


def _put_kept(out: Any, t: int, spk: Any) -> None:
    out[t : t + 1] = spk.unsqueeze(0)


def _add(out: Any, t: int, spk: Any) -> None:
    out[t] += spk


def _index_put(out: Any, t: int, spk: Any) -> None:
    out.index_copy_(0, torch.tensor([t]), spk.unsqueeze(0))


def _select_scatter(module: Loop, x: Any) -> Any:
    out = torch.zeros(x.shape[0], x.shape[1], 4)
    for t, spk, _ in module.steps(x):
        out = torch.select_scatter(out, spk, 0, t)
    return out


def _two(module: Loop, x: Any) -> Any:
    spikes, membranes = torch.zeros(x.shape[0], x.shape[1], 4), torch.empty(x.shape[0], x.shape[1], 4)
    for t, spk, mem in module.steps(x):
        spikes[t, :, :], membranes[t, :, :] = spk, mem
    return spikes, membranes


def _growing(module: Loop, x: Any) -> Any:
    out = torch.zeros(0, x.shape[1], 4)
    for _, spk, _ in module.steps(x):
        out = torch.cat([out, spk.unsqueeze(0)], dim=0)
    return out


def _growing_stacked(module: Loop, x: Any) -> Any:
    out = None
    for _, spk, _ in module.steps(x):
        out = spk.unsqueeze(0) if out is None else torch.cat((out, spk.unsqueeze(0)))
    return out


def _chunks(size: int, join: Any) -> Any:
    def keep(module: Loop, x: Any) -> Any:
        whole, part = [], []
        for t, spk, _ in module.steps(x):
            part.append(spk)
            if (t + 1) % size == 0:
                whole.append(torch.stack(part))
                part = []
        return join(whole)

    return keep


def _counted(module: Loop, x: Any) -> Any:
    count = torch.zeros(x.shape[1], 4)
    for _, spk, _ in module.steps(x):
        count += spk
    return count


def _in_dict(module: Loop, x: Any) -> Any:
    out: dict[str, Any] = {"spikes": [], "membranes": []}
    for _, spk, mem in module.steps(x):
        out["spikes"].append(spk)
        out["membranes"].append(mem)
    return {key: torch.stack(values) for key, values in out.items()}


def _best(module: Loop, x: Any) -> Any:
    return torch.stack([mem for _, _, mem in module.steps(x)]).max(0).values


def _softmaxed(module: Loop, x: Any) -> Any:
    mem = [mem for _, _, mem in module.steps(x)][-1]
    return torch.log_softmax(mem, dim=1)


class Chunked(nn.Module):
    """Norse's memory task: chunks of steps are stacked, the chunks concatenated or stacked again."""

    def __init__(self, is_stacked: bool) -> None:
        super().__init__()
        self.is_stacked = is_stacked
        self.layer, self.readout = norse.LIFRecurrentCell(FEATURES, 8), norse.LILinearCell(8, 4)

    def forward(self, x: Any) -> Any:
        state, read, spikes, parts, readouts, chunks = None, None, [], [], [], []
        for index, now in enumerate(x.unbind(1)):
            out, state = self.layer(now, state)
            spikes.append(out)
            v, read = self.readout(out, read)
            readouts.append(v)
            if (index + 1) % 3 == 0:
                parts.append(torch.stack(spikes))
                chunks.append(torch.stack(readouts))
                spikes, readouts = [], []
        return torch.cat(parts), torch.stack(chunks) if self.is_stacked else torch.cat(chunks)


def forms() -> Iterator[Form]:
    def row(name: str, keep: Any, wanted: str = "equal", **options: Any) -> Form:
        return Form("snntorch", name, lambda: Loop(keep), SEQUENCE, wanted, **options)

    yield row("v[t] = y", _buffer(_put(lambda t: t)))
    yield row("v[t, :] = y", _buffer(_put(lambda t: (t, slice(None)))))
    yield row("v[t, :, :] = y", _buffer(_put(lambda t: (t, slice(None), slice(None)))))
    yield row("v[t, ...] = y", _buffer(_put(lambda t: (t, ...))))
    yield row("v[t:t + 1] = y", _buffer(_put_kept))
    yield row("v[:, t] = y", _buffer(_put(lambda t: (slice(None), t)), (BATCH, STEPS, 4)))
    yield row("v[:, t, :] = y", _buffer(_put(lambda t: (slice(None), t, slice(None))), (BATCH, STEPS, 4)))
    yield row("v[..., t] = y", _buffer(_put(lambda t: (..., t)), (BATCH, 4, STEPS)))
    yield row("v[:, :, t] = y", _buffer(_put(lambda t: (slice(None), slice(None), t)), (BATCH, 4, STEPS)))
    yield row("v[t] = y, of torch.empty", _buffer(_put(lambda t: t), None, torch.empty))
    yield row("v[t].copy_(y)", _buffer(_copy))
    yield row("v[t] += y", _buffer(_add))
    yield row("index_copy_", _buffer(_index_put))
    yield row("torch.select_scatter", _select_scatter)
    yield row("spikes and membranes in two buffers", _two)
    yield row("a tensor that grows", _growing)
    yield row("a tensor that grows from None", _growing_stacked)
    yield row("chunks of steps, concatenated", _chunks(3, torch.cat))
    yield row("chunks of steps, stacked", _chunks(3, torch.stack))
    yield row(
        "chunks of steps, stacked, mean over each",
        _chunks(3, lambda w: torch.stack(w).mean(1)),
        "over chunks of time steps",
    )
    yield row("a running sum", _counted)
    yield row("lists in a dictionary", _in_dict)
    yield row("the largest membrane of all steps", _best, "its membrane potential, not its spikes")
    yield row("log_softmax of the last membrane", _softmaxed, "its membrane potential, not its spikes")
    yield Form("norse", "memory net, chunks stacked", lambda: Chunked(True), (BATCH, STEPS, FEATURES), scale=8.0)
    yield Form("norse", "memory net, chunks concatenated", lambda: Chunked(False), (BATCH, STEPS, FEATURES), scale=8.0)
