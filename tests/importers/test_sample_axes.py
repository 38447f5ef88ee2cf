"""Samples in every layout: sequences and time steps are recognised or refused, never imported as copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError, UsageError
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
norse = package("norse.torch")
from nirbridge.importers import from_norse, from_snntorch  # noqa: E402
from nirbridge.importers.sample import SampleReading, order_of, sample_readings  # noqa: E402
from tests.importers.frameworks.layouts import PLACES, Case, cases, laid_out, outcome, samples  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's
ALL = list(cases())
LIGHT = ALL[::11]


@pytest.mark.parametrize("case", LIGHT, ids=lambda case: case.name)
def test_a_whole_sequence_is_read_as_it_lies(case: Case) -> None:
    assert outcome(case, case.given(60, 4)) == "equal"


@pytest.mark.parametrize("case", LIGHT[::3], ids=lambda case: case.name)
def test_other_samples_are_read_or_refused(case: Case) -> None:
    given = samples(case)
    for name in list(given)[len(case.name) % 5 :: 5]:
        found = outcome(case, given[name])
        assert found == "equal" or found.startswith("refused: "), (name, given[name])


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_every_layout_and_sample(case: Case) -> None:
    for name, shape in samples(case).items():
        found = outcome(case, shape)
        if name.startswith(("natural", "one step")):
            assert found == "equal", (name, shape)
        assert found == "equal" or found.startswith("refused: "), (name, shape)


def loop(take: Callable[[Any, int], Any], axis: int) -> Any:
    """A module that loops over an axis of its input."""

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.fc, self.lif = nn.Linear(6, 4), snn.Leaky(beta=0.75)

        def forward(self, x: Any) -> Any:
            mem, out = self.lif.init_leaky(), []
            for t in range(x.size(axis)):
                spk, mem = self.lif(self.fc(take(x, t)), mem)
                out.append(spk)
            return torch.stack(out, 1)

    return Loop()


def batch_first() -> Any:
    return loop(lambda x, t: x[:, t], 1)


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ((1, 60, 6), "read as [batch, time, 6]"),
        ((4, 60, 6), "read as [batch, time, 6]"),
        ((60, 6), "read as [batch or time, 6]"),
        ((6,), "read as [6]"),
    ],
)
def test_the_reading_is_in_the_notes(sample: tuple[int, ...], words: str) -> None:
    graph = from_snntorch(batch_first(), torch.zeros(sample))
    assert from_nir(graph).inputs[0].shape == (6,)
    assert (
        f"input 'input': the sample of shape {sample} was {words}, one time step as (6,)"
        in (graph.metadata["nirbridge:notes"])
    )


def mlp() -> Any:
    return nn.Sequential(nn.Linear(20, 8), snn.Leaky(beta=0.9, init_hidden=True))


@pytest.mark.parametrize("sample", [(10, 2, 20), (1, 60, 20), (5, 4, 3, 20)])
def test_copies_of_a_network_are_refused_with_the_way_out(sample: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"no layer mixes its axis of size .*batched=…, time_axis=…") as caught:
        from_snntorch(mlp(), torch.zeros(sample))
    assert str(sample) in str(caught.value)


def test_the_way_out() -> None:
    def shape(**options: Any) -> tuple[int, ...]:
        return from_nir(from_snntorch(mlp(), torch.zeros(10, 2, 20), **options)).inputs[0].shape

    assert shape(time_axis=0) == (20,)
    assert shape(time_axis=1) == (20,)
    assert shape(time_axis=-2, batched=True) == (20,)
    assert shape(time_axis="none", batched=True) == (2, 20)
    assert shape(time_axis="none", batched=False) == (10, 2, 20)
    with pytest.raises(ModelError, match="no layer mixes"):
        shape(time_axis="none")


def test_layers_shared_along_an_axis_that_is_joined_later_are_no_copies() -> None:
    lif = lambda: snn.Leaky(beta=0.9, init_hidden=True)  # noqa: E731
    module = nn.Sequential(nn.Linear(20, 8), lif(), nn.Flatten(), nn.Linear(24, 5), lif())
    assert from_nir(from_snntorch(module, torch.zeros(10, 3, 20))).inputs[0].shape == (3, 20)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time_axis": 3}, "time_axis: 3"),
        ({"time_axis": True}, "time_axis: 'True'"),
        ({"time_axis": "first"}, "time_axis: 'first'"),
        ({"batched": "yes"}, "batched: a str"),
    ],
)
def test_options_without_sense(options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        from_snntorch(mlp(), torch.zeros(10, 2, 20), **options)


ODD: dict[str, Callable[[Any, int], Any]] = {
    "the last step": lambda x, t: x[:, t] + x[:, -1],
    "the first step": lambda x, t: x[:, t] - x[:, 0],
    "backwards": lambda x, t: x[:, -1 - t],
    "one step late": lambda x, t: x[:, max(t - 1, 0)],
    "a window": lambda x, t: x[:, max(t - 1, 0) : t + 1].sum(1),
    "mean of all": lambda x, t: x[:, t] + x.mean(1),
    "flipped": lambda x, t: x.flip(1)[:, t],
}


@pytest.mark.parametrize("name", ODD)
def test_steps_that_look_elsewhere_in_the_sequence_are_refused(name: str) -> None:
    """A time step has its own input alone, whatever is accepted."""
    for sample in ((4, 60, 6), (60, 6)):
        with pytest.raises(ModelError):
            from_snntorch(loop(ODD[name], 1), torch.zeros(sample), accept=("kept-states",))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_loop_of_one_turn_is_no_single_step(axis: int) -> None:
    """A sample of one row lets a loop over rows turn once: the reading as a step is not taken for it."""
    last = lambda x, t: x.select(axis, t) + x.select(axis, -1)  # noqa: E731
    for accept in ((), ("kept-states",)):
        with pytest.raises(ModelError):
            from_snntorch(loop(last, axis), torch.zeros(1, 6), accept=accept)


def test_a_slice_that_moves_along_values_is_refused() -> None:
    class Rows(nn.Module):
        """Reads a row of an image in every turn, and the whole image besides: no axis of it is time."""

        def __init__(self) -> None:
            super().__init__()
            self.rows, self.all = nn.Linear(5, 4), nn.Linear(35, 4)
            self.lif = snn.Leaky(beta=0.75)

        def forward(self, x: Any) -> Any:
            mem, out = self.lif.init_leaky(), []
            for t in range(7):
                spk, mem = self.lif(self.rows(x[:, t]) + self.all(x.flatten(1)), mem)
                out.append(spk)
            return torch.stack(out)

    with pytest.raises(ModelError):
        from_snntorch(Rows(), torch.zeros(2, 7, 5))
    with pytest.raises(ModelError, match=r"moves with the loop, along an axis of values.*time_axis"):
        from_snntorch(Rows(), torch.zeros(2, 7, 5), batched=True, time_axis="none")


def test_rows_of_an_image_may_be_time() -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.fc, self.lif = nn.Linear(5, 6), snn.Leaky(beta=0.5, reset_mechanism="zero")

        def forward(self, x: Any) -> Any:
            mem, out = self.lif.init_leaky(), []
            for t in range(7):
                spk, mem = self.lif(self.fc(x[:, 0, t]) * 4, mem)
                out.append(spk)
            return torch.stack(out)

    graph = from_snntorch(Rows(), torch.zeros(2, 1, 7, 5))  # two axes are sliced at once
    assert [p.shape for p in from_nir(graph).inputs] == [(1, 5)]
    assert '"outcome": "identical"' in graph.metadata["nirbridge:self_check"]


def repeated(x: Any, steps: int) -> list[Any]:
    return [
        x.unsqueeze(1).repeat(1, steps, 1),
        x.unsqueeze(1).expand(-1, steps, -1),
        x.repeat(steps, 1, 1).transpose(0, 1),
        x.expand(steps, *x.shape).transpose(0, 1),
    ]


@pytest.mark.parametrize("way", range(4))
def test_one_input_repeated_for_all_steps(way: int) -> None:
    class Repeats(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(2)
            self.fc, self.lif = nn.Linear(6, 4), snn.Leaky(beta=0.75)

        def forward(self, x: Any) -> Any:
            mem, out = self.lif.init_leaky(), []
            sequence = repeated(x, 9)[way]
            for t in range(9):
                spk, mem = self.lif(self.fc(sequence[:, t]) * 3, mem)
                out.append(spk)
            return torch.stack(out)

    module, x = Repeats(), torch.rand(4, 6)
    network = from_nir(from_snntorch(module, x[:1]))
    fed = np.broadcast_to(x.numpy(), (9, 4, 6)).reshape(9, 4, *network.inputs[0].shape)
    (found,) = simulate(network, fed, backend="reference").recording.arrays.values()
    with torch.no_grad():
        wanted = module(x).numpy()
    assert wanted.any()
    np.testing.assert_array_equal(found, wanted)


# --- values of a loop put together and taken apart again ------------------------------------------------------------


class TwoLoops(nn.Module):
    """Layer by layer: what the first loop sends is stacked, and the second one takes it apart."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.way, self.fc, self.head = way, nn.Linear(6, 5), nn.Linear(5, 5)
        self.first, self.second = snn.Leaky(beta=0.75), snn.Leaky(beta=0.5, reset_mechanism="zero")

    def forward(self, x: Any) -> Any:
        mem, hidden, out = self.first.init_leaky(), [], []
        for now in x:
            spk, mem = self.first(self.fc(now) * 3, mem)
            hidden.append(spk)
        mem = self.second.init_leaky()
        for t in range(x.size(0)):
            spk, mem = self.second(self.taken(hidden, t) * 2, mem)
            out.append(spk)
        return torch.stack(out)

    def taken(self, hidden: list[Any], t: int) -> Any:
        if self.way == "stacked":
            return torch.stack(hidden)[t]
        if self.way == "stacked, batch first":
            return torch.stack(hidden, dim=1)[:, t]
        if self.way == "joined":
            return torch.cat([h.unsqueeze(0) for h in hidden])[t : t + 1].squeeze(0)
        if self.way == "another step":
            return torch.stack(hidden)[t - 1]
        if self.way == "a sample, not a step":  # of the right shape, and along the wrong axis
            return torch.stack(hidden, dim=1)[t % 2].repeat(2, 1)[:2]
        return torch.stack(hidden)[-1]


@pytest.mark.parametrize("way", ["stacked", "stacked, batch first", "joined"])
def test_steps_that_are_stacked_and_sliced_again(way: str) -> None:
    module = TwoLoops(way)
    inputs = torch.from_numpy((np.random.default_rng(0).random((20, 3, 6)) < 0.4).astype(np.float32))
    with torch.no_grad():
        wanted = module(inputs).numpy()
    assert wanted.any()
    network = from_nir(from_snntorch(module, torch.zeros(20, 3, 6)))
    assert [p.max_delay_steps for p in network.projections] == [0, 0, 0]
    (found,) = simulate(network, inputs.numpy(), backend="reference").recording.arrays.values()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("way", ["another step", "a sample, not a step", "the last one"])
def test_steps_that_are_sliced_otherwise_are_refused(way: str) -> None:
    with pytest.raises(ModelError):
        from_snntorch(TwoLoops(way), torch.zeros(20, 3, 6))


# --- modules that take whole sequences in one call ------------------------------------------------------------------


def sequence_models() -> dict[str, tuple[Any, Callable[[], Any], int, Callable[[Any], Any]]]:
    """Name -> (importer, module of 6 inputs, axis of time, how it is run)."""
    layers = pytest.importorskip("sinabs.layers", reason="sinabs is not installed")
    jelly = pytest.importorskip("spikingjelly.activation_based", reason="spikingjelly is not installed")
    rockpool = pytest.importorskip("rockpool.nn.modules.torch", reason="rockpool is not installed")
    from rockpool.nn.combinators import Sequential
    from spikingjelly.activation_based import layer, neuron

    from nirbridge.importers import from_rockpool, from_sinabs, from_spikingjelly

    assert jelly
    first = lambda module: lambda x: module(x)[0]  # noqa: E731
    plain = lambda module: module  # noqa: E731
    return {
        "norse": (from_norse, lambda: norse.SequentialState(
            norse.Lift(nn.Linear(6, 5)), norse.LIF(), norse.LIFRecurrent(5, 4)), 0, first),
        "sinabs": (from_sinabs, lambda: nn.Sequential(
            nn.Linear(6, 5), layers.LIF(10.0), nn.Linear(5, 4), layers.IAF()), 1, plain),
        "spikingjelly": (from_spikingjelly, lambda: nn.Sequential(
            layer.Linear(6, 5, step_mode="m"), neuron.LIFNode(step_mode="m"), layer.Linear(5, 4, step_mode="m"),
            neuron.IFNode(step_mode="m")), 0, plain),
        "rockpool": (from_rockpool, lambda: Sequential(
            rockpool.LinearTorch((6, 5)), rockpool.LIFTorch(5), rockpool.LinearTorch((5, 4)), rockpool.LIFTorch(4)),
            1, first),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["norse", "sinabs", "spikingjelly", "rockpool"])
def test_whole_sequences_of_sequence_layers(name: str) -> None:
    importer, make, axis, run = sequence_models()[name]
    torch.manual_seed(0)
    module = make()
    for key, parameter in torch.nn.Module.named_parameters(module):
        if "weight" in key:
            parameter.data = torch.round(torch.randn_like(parameter) * 1024) / 1024
    fed = (np.random.default_rng(0).random((12, 3, 6)) < 0.4).astype(np.float32)
    networks = [from_nir(importer(module, torch.zeros(laid_out((batch, 6), 30, axis)))) for batch in (1, 4)]
    networks.append(from_nir(importer(module, torch.zeros(6))))
    with torch.no_grad():
        wanted = run(module)(torch.from_numpy(fed).movedim(0, axis).contiguous()).movedim(axis, 0).numpy()
    assert wanted.any()
    for network in networks:
        assert network.inputs[0].shape == (6,)
        found = next(iter(simulate(network, fed, backend="reference").recording.arrays.values()))
        np.testing.assert_array_equal(found, wanted)


# --- readings -------------------------------------------------------------------------------------------------------


def test_every_reading_gives_the_batch_and_the_time_that_are_told() -> None:
    for shape in ((5,), (4, 5), (3, 4, 5), (2, 3, 4, 5)):
        for axis in range(len(shape)):
            for reading in sample_readings([shape], True, axis):
                roles = reading.roles(len(shape))
                assert roles[axis] == "time"
                assert "batch" in roles
        for reading in sample_readings([shape], False, "none"):
            assert set(reading.roles(len(shape))) == {"value"}


def test_axes_of_a_reading() -> None:
    reading = SampleReading(own=((2, "time"), (0, "batch")))
    assert reading.fed((7, 5, 60)) == ((2, 5, 12), ("batch", "value", "time"))
    assert order_of(("batch", "value", "time")) == (0, 2, 1)
    assert order_of(("time", "batch", "value")) == ()
    taken = SampleReading(own=((1, "time"), (0, "batch")), takes_steps=True)
    assert taken.fed((7, 60, 5)) == ((2, 5), ("batch", "value"))
    assert PLACES["time last"] == -1
