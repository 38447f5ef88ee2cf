"""Large images with few parameters are refused before memory is allocated, with a hint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nirbridge.errors import ModelError

torch = pytest.importorskip("torch")
snn = pytest.importorskip("snntorch")

from nirbridge.importers.frameworks.snntorch import from_snntorch  # noqa: E402
from nirbridge.importers.frameworks.spikingjelly import from_spikingjelly  # noqa: E402
from nirbridge.importers.tracing import memory, trace  # noqa: E402


def spiking(*layers: Any) -> Any:
    """The layers, with a neuron after each."""
    return torch.nn.Sequential(*(part for layer in layers for part in (layer, snn.Leaky(0.9, init_hidden=True))))


def image_net() -> Any:
    return spiking(torch.nn.Conv2d(2, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 3, padding=1))


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes that forward was given in all attempts."""
    seen: list[tuple[int, ...]] = []
    really = trace._attempt

    def spy(module: Any, samples: Any, reading: Any, *rest: Any) -> Any:
        seen.extend(reading.fed(tuple(s.shape))[0] for s in samples.values())
        return really(module, samples, reading, *rest)

    monkeypatch.setattr(trace, "_attempt", spy)
    return seen


def test_nothing_larger_is_tried_after_the_likeliest_reading(
    attempts: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(memory.VARIABLE, "200000")
    with pytest.raises(ModelError) as caught:
        from_snntorch(image_net(), torch.zeros(1, 2, 64, 64), check=0)
    [problem] = caught.value.problems
    assert problem.hint.startswith("give one sample of one time step, or set NIRBRIDGE_RECORDING_BYTES=400000")
    assert attempts[:2] == [(2, 2, 64, 64), (1, 2, 64, 64)]
    assert all(torch.Size(shape).numel() < 2 * 64 * 64 for shape in attempts[2:])


def test_the_way_out_works(attempts: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 200_000
    for _ in range(6):
        monkeypatch.setenv(memory.VARIABLE, str(limit))
        try:
            graph = from_snntorch(image_net(), torch.zeros(1, 2, 64, 64), check=0)
        except ModelError as error:
            limit = int(error.problems[0].hint.split("=")[1].split(":")[0])
        else:
            assert graph.nodes["0"].weight.shape == (8, 2, 3, 3)
            return
    pytest.fail(f"not even {limit:,} bytes are enough")


def test_a_smaller_batch_is_tried_and_what_it_shows_is_said(
    attempts: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two samples do not fit, one does, and has an operation that NIR lacks: that is said, and not the lack of room."""
    module = spiking(torch.nn.Conv2d(2, 8, 3, padding=1), torch.nn.LPPool2d(2, 2))
    monkeypatch.setenv(memory.VARIABLE, "1100000")
    with pytest.raises(ModelError, match="a power-average pool"):
        from_snntorch(module, torch.zeros(1, 2, 64, 64), check=0)
    assert attempts[:2] == [(2, 2, 64, 64), (1, 2, 64, 64)]


def test_results_are_weighed_before_they_are_made() -> None:
    made: list[str] = []
    budget = memory.MemoryBudget(3_000_000)
    large = torch.zeros(2**19)  # 2 MiB

    def doubled(x: Any, **_: Any) -> Any:
        made.append(x.device.type)
        return torch.cat([x, x])

    budget.check_result(doubled, (large[: 2**18 - 1],), {})
    with pytest.raises(memory.TooLarge, match="4,194,304 bytes"):
        budget.check_result(doubled, (large,), {})
    assert made == ["meta"]
    budget.check_result(torch.Tensor.view, (large, 2, -1), {})  # a view
    budget.check_result(torch.nonzero, (large,), {})  # its shape depends on values: it is weighed afterwards
    with pytest.raises(memory.TooLarge):
        budget.check_result(torch.stack, ([large, large],), {"dim": 1})


def test_what_forward_makes_itself_counts_once() -> None:
    budget = memory.MemoryBudget(1_000_000)
    zeros = budget.counted(torch.zeros(50_000), (50_000,))
    budget.add(zeros)
    assert budget.held == 200_000
    budget.counted(torch.relu_(zeros), (zeros,))
    budget.counted(zeros.detach(), (zeros,))
    assert budget.held == 200_000
    del zeros
    assert budget.held == 0
    assert not budget.known


class Buffered(torch.nn.Module):
    """Makes a large tensor that no value of the input reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.net = image_net()

    def forward(self, x: Any) -> Any:
        torch.zeros(64, 8, 64, 64)
        return self.net(x)


def test_a_large_tensor_of_forward_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from_snntorch(Buffered(), torch.zeros(1, 2, 64, 64), check=0)
    monkeypatch.setenv(memory.VARIABLE, "8000000")
    from_snntorch(image_net(), torch.zeros(1, 2, 64, 64), check=0)
    with pytest.raises(ModelError, match="its values take 8,"):
        from_snntorch(Buffered(), torch.zeros(1, 2, 64, 64), check=0)


UNET = """
import sys, time, warnings
warnings.simplefilter("ignore")
import torch, snntorch as snn
from torch.nn import Conv2d, ConvTranspose2d, Module, Sequential
import nirbridge.importers.lowering.build
from nirbridge.errors import ModelError
from nirbridge.importers import from_snntorch

def status(word):
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith(word))

def block(a, b):
    def neuron():
        return snn.Leaky(0.9, init_hidden=True)
    return Sequential(Conv2d(a, b, 3, padding=1), neuron(), Conv2d(b, b, 3, padding=1), neuron())

class UNet(Module):
    def __init__(self, c):
        super().__init__()
        self.down, self.below, self.up = block(3, c), block(c, 2 * c), ConvTranspose2d(2 * c, c, 2, 2)
        self.out, self.pool = block(2 * c, c), torch.nn.AvgPool2d(2)

    def forward(self, x):
        kept = self.down(x)
        return self.out(torch.cat([self.up(self.below(self.pool(kept))), kept], 1))

net, sample = UNet(32), torch.zeros(1, 3, {size}, {size})
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before, begin, said = status("VmRSS"), time.process_time(), ""
try:
    from_snntorch(net, sample)
except ModelError as error:
    said = str(error)
print(status("VmHWM") - before, sum(p.numel() * 4 for p in net.parameters()), time.process_time() - begin)
print(said)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")
@pytest.mark.parametrize(("size", "said"), [(256, "transposed convolution"), (512, "bytes or more at one time")])
def test_a_unet_is_refused_within_the_rule(size: int, said: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", UNET.replace("{size}", str(size))], capture_output=True, text=True, check=True
    )
    numbers, _, message = run.stdout.partition("\n")
    peak, parameters, seconds = (float(word) for word in numbers.split())
    assert peak <= 2.5 * parameters + 300e6
    assert seconds < 15
    assert said in message


def test_fewer_time_steps_are_read_before_a_batch_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve time steps of two samples take too much memory; a single sample looked like no batch at all."""
    package = "spikingjelly.activation_based"
    functional, layer, neuron = (pytest.importorskip(f"{package}.{name}") for name in ("functional", "layer", "neuron"))
    module = torch.nn.Sequential(
        layer.Conv2d(1, 8, 3, padding=1), neuron.IFNode(), layer.Conv2d(8, 8, 3), neuron.IFNode()
    )
    functional.set_step_mode(module, "m")
    monkeypatch.setenv(memory.VARIABLE, "600000")
    for steps in (4, 100):
        graph = from_spikingjelly(module, torch.zeros(steps, 1, 1, 16, 16), check=0)
        assert "was read as [time, batch, 1, 16, 16]" in graph.metadata["nirbridge:notes"]
    monkeypatch.setenv(memory.VARIABLE, "60000")
    with pytest.raises(ModelError) as caught:
        from_spikingjelly(module, torch.zeros(4, 1, 1, 16, 16), check=0)
    assert "bytes or more at one time" in str(caught.value)
    assert "leading axes" not in str(caught.value)
