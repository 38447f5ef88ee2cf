"""Loops that omit time steps, outputs as lists, named arguments: supported, or refused with a hint."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.tracing.trace import trace_module
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
from nirbridge.importers import from_snntorch  # noqa: E402

nn = torch.nn
Returned = Callable[[Any], Any]


class Loop(nn.Module):
    """Runs its neuron on the slices that ``slices`` takes out of the input, and returns ``returned`` of its spikes."""

    def __init__(self, slices: Callable[[Any], Any], returned: Returned = torch.stack) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.slices, self.returned = slices, returned
        self.fc, self.lif = nn.Linear(6, 4), snn.Leaky(beta=0.75)
        self.fc.weight.data *= 4

    def forward(self, x: Any) -> Any:
        mem, spikes = self.lif.init_leaky(), []
        for now in self.slices(x):
            spk, mem = self.lif(self.fc(now), mem)
            spikes.append(spk)
        return self.returned(spikes)


def is_equal(module: Any, graph: Any, steps: int, *, is_batch_first: bool) -> bool:
    """True if module and network send the same spikes, and some, on a sequence of random ones and zeros."""
    network = from_nir(graph)
    x = (np.random.default_rng(1).random((steps, 3, 6)) < 0.5).astype(np.float32)
    with torch.no_grad():
        theirs = module(torch.from_numpy(np.swapaxes(x, 0, 1) if is_batch_first else x)).numpy()
    run = simulate(network, {network.inputs[0].name: x}, backend="numpy")
    ours = run.recording.arrays[network.outputs[0].name, "s"]
    return bool(np.array_equal(ours, theirs) and 0 < ours.mean() < 1)


MEANS: dict[str, tuple[Returned, float]] = {
    "mean": (lambda s: torch.stack(s).mean(0), 1 / 12),
    "twice the mean": (lambda s: 2 * torch.stack(s).mean(0), 1 / 12),
    "a layer after the mean": (lambda s: nn.functional.linear(torch.stack(s).mean(0), TWO_ROWS, torch.ones(2)), 1 / 12),
    "sum by the length": (lambda s: torch.stack(s).sum(0) / len(s), 1 / 12),
    "sum by another number": (lambda s: torch.stack(s).sum(0) / 5, 1.0),
    "a layer after the sum": (lambda s: nn.functional.linear(torch.stack(s).sum(0), TWO_ROWS), 1.0),
}
TWO_ROWS = torch.arange(8.0).reshape(2, 4) - 3


@pytest.mark.parametrize("name", MEANS)
def test_means_over_time_are_exact_for_sequences_of_any_length(name: str) -> None:
    returned, share = MEANS[name]
    module = Loop(lambda x: x, returned)
    network = from_nir(from_snntorch(module, torch.zeros(20, 3, 6)))
    x = (np.random.default_rng(1).random((12, 3, 6)) < 0.5).astype(np.float32)
    ours = simulate(network, x, backend="numpy").recording.arrays[network.outputs[0].name, "s"]
    theirs = module(torch.from_numpy(x)).detach().numpy()
    assert np.allclose(ours.sum(axis=0) * share, theirs, rtol=1e-5, atol=1e-6)
    assert theirs.any()


def test_a_bias_after_a_sum_over_time_is_refused() -> None:
    module = Loop(lambda x: x, lambda s: nn.functional.linear(torch.stack(s).sum(0), TWO_ROWS, torch.ones(2)))
    with pytest.raises(ModelError, match="linear works on values summed over time"):
        from_snntorch(module, torch.zeros(20, 3, 6))


# -- loops -----------------------------------------------------------------------------------------------------------

FIRST_ONES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], str]] = {
    "half, time first": (lambda x: [x[t] for t in range(x.shape[0] // 2)], (20, 4, 6), "10 of 20"),
    "half, batch first": (lambda x: [x[:, t] for t in range(x.shape[1] // 2)], (4, 20, 6), "10 of 20"),
    "half, time last": (lambda x: [x[..., t] for t in range(x.shape[-1] // 2)], (4, 6, 20), "10 of 20"),
    "half, no batch": (lambda x: [x[t] for t in range(x.shape[0] // 2)], (20, 6), "6 of 12"),
    "a third": (lambda x: [x[t] for t in range(x.shape[0] // 3)], (20, 4, 6), "6 of 20"),
    "all but the last": (lambda x: [x[t] for t in range(len(x) - 1)], (20, 4, 6), "19 of 20"),
    "the first five": (lambda x: [now for _, now in zip(range(5), x, strict=False)], (20, 4, 6), "5 of 20"),
    "the first five, unbound": (lambda x: x.unbind(1)[:5], (4, 20, 6), "5 of 20"),
}


@pytest.mark.parametrize("name", FIRST_ONES)
def test_a_loop_over_the_first_time_steps_only_is_refused(name: str) -> None:
    slices, shape, count = FIRST_ONES[name]
    words = f"it loops over the first {count} time steps, and leaves the rest out"
    with pytest.raises(ModelError, match=f"{words}.*if their number is fixed, give a sample of that length"):
        from_snntorch(Loop(slices), torch.zeros(shape), check=0)


@pytest.mark.parametrize("steps", [5, 12, 25])
@pytest.mark.parametrize("is_batch_first", [False, True])
def test_a_fixed_number_of_time_steps_is_read_from_a_sample_of_as_many(steps: int, is_batch_first: bool) -> None:
    module = Loop(lambda x: [x[:, t] if is_batch_first else x[t] for t in range(steps)])
    shape = (4, steps, 6) if is_batch_first else (steps, 4, 6)
    graph = from_snntorch(module, torch.zeros(shape), check=0)
    assert from_nir(graph).inputs[0].shape == (6,)
    assert is_equal(module, graph, steps, is_batch_first=is_batch_first)


@pytest.mark.parametrize("steps", [12, 25])
def test_a_fixed_number_of_time_steps_is_read_from_one_time_step(steps: int) -> None:
    module = Loop(lambda x: [x[t] for t in range(steps)])
    assert is_equal(module, from_snntorch(module, torch.zeros(4, 6), check=0), steps, is_batch_first=False)


def test_twelve_time_steps_of_more_are_seen_in_a_longer_trace() -> None:
    """Twelve is the length that forward is tried with."""
    with pytest.raises(ModelError, match="the first 12 of 120 time steps"):
        from_snntorch(Loop(lambda x: [x[t] for t in range(12)]), torch.zeros(40, 4, 6), check=0)


def test_a_loop_over_all_time_steps_leaves_none_out() -> None:
    flow = trace_module(Loop(lambda x: list(x)), torch.zeros(20, 4, 6), _forms())
    assert (flow.loop.iterations, flow.loop.time_steps, flow.loop.leaves_steps_out) == (12, 12, False)
    flow = trace_module(Loop(lambda x: list(x)[:3]), torch.zeros(20, 4, 6), _forms())
    assert (flow.loop.iterations, flow.loop.time_steps, flow.loop.leaves_steps_out) == (3, 20, True)


def _forms() -> Any:
    from nirbridge.importers.frameworks.snntorch import neuron_specs

    return neuron_specs()


OTHER_ORDERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], str]] = {
    "backwards": (
        lambda x: [x[t] for t in reversed(range(len(x)))],
        (9, 4, 6),
        "12 times, on the slices 11, 10, 9, 8, …",
    ),
    "backwards, batch first": (lambda x: x.unbind(1)[::-1], (4, 9, 6), "12 times, on the slices 11, 10, 9, 8, …"),
    "every second": (lambda x: [x[t] for t in range(0, len(x), 2)], (9, 4, 6), "6 times, on the slices 0, 2, 4, 6, …"),
    "not the first": (lambda x: list(x)[1:], (9, 4, 6), "11 times, on the slices 1, 2, 3, 4, …"),
    "turned pairs": (lambda x: [x[t ^ 1] for t in range(len(x))], (10, 4, 6), "12 times, on the slices 1, 0, 3, 2, …"),
}


@pytest.mark.parametrize("name", OTHER_ORDERS)
def test_loops_in_another_order_are_refused_and_say_which(name: str) -> None:
    slices, shape, words = OTHER_ORDERS[name]
    with pytest.raises(ModelError) as caught:
        from_snntorch(Loop(slices), torch.zeros(shape), check=0)
    problem = caught.value.problems[0]
    assert problem.found == f"called {words} of its input"
    assert problem.hint == "loop from 0 on and skip none; reverse the input before the loop"


# -- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("returned", [list, tuple, lambda s: {"spikes": s}, lambda s: [2 * now for now in s]])
@pytest.mark.parametrize("shape", [(20, 4, 6), (20, 6)])
def test_a_list_with_an_output_per_time_step_is_refused_with_stack(returned: Returned, shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError) as caught:
        from_snntorch(Loop(list, returned), torch.zeros(shape), check=0)
    (problem,) = caught.value.problems
    assert problem.found == "it returns a list with one output per time step"
    assert problem.hint == "return one tensor: torch.stack(outputs) instead of outputs"


def test_every_list_is_counted_and_single_outputs_stay() -> None:
    with pytest.raises(ModelError, match="it returns 2 lists with one output per time step"):
        from_snntorch(Loop(list, lambda s: (s, s[-1], s)), torch.zeros(20, 4, 6), check=0)
    graph = from_snntorch(Loop(list, lambda s: (torch.stack(s), s[-1])), torch.zeros(20, 4, 6), check=0)
    assert len(from_nir(graph).outputs) == 1


# -- arguments by name -----------------------------------------------------------------------------------------------

NAMED: dict[str, tuple[Callable[[Any], Any], Returned]] = {
    "select": (lambda x: [torch.select(input=x, dim=0, index=t) for t in range(len(x))], torch.stack),
    "unbind": (lambda x: torch.unbind(input=x), torch.stack),
    "unbind, dim first": (lambda x: torch.unbind(dim=0, input=x), torch.stack),
    "flatten": (lambda x: [torch.flatten(input=now, start_dim=1) for now in x], torch.stack),
    "movedim": (lambda x: torch.movedim(input=torch.movedim(input=x, source=0, destination=1), source=1, destination=0),
                torch.stack),
    "stack": (list, lambda s: torch.stack(tensors=s)),
    "cat": (list, lambda s: torch.cat(tensors=[torch.unsqueeze(input=now, dim=0) for now in s], dim=0)),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_first_argument_by_name_is_the_first_argument(name: str) -> None:
    module = Loop(*NAMED[name])
    assert is_equal(module, from_snntorch(module, torch.zeros(20, 4, 6), check=0), 20, is_batch_first=False)


def test_positions_that_are_computed_are_refused_by_name_too() -> None:
    def moved(x: Any) -> Any:
        return [torch.index_select(input=now, dim=1, index=now[0].argsort()) for now in x]

    with pytest.raises(ModelError, match="positions that are computed from the input"):
        from_snntorch(Loop(moved), torch.zeros(20, 4, 6), check=0)


# -- notes -----------------------------------------------------------------------------------------------------------

EITHER = re.compile(r"the sample of shape \(10, 6\) was read as \[(.*), 6\], one time step as \(6,\)")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "batch or time"),
        ({"batched": True}, "batch"),
        ({"time_axis": "none"}, "batch"),
        ({"time_axis": 0}, "time"),
        ({"batched": False, "time_axis": 0}, "time"),
    ],
)
def test_an_axis_that_may_be_batch_or_time_is_called_both(options: Any, words: str) -> None:
    module = nn.Sequential(nn.Linear(6, 4), snn.Leaky(beta=0.75, init_hidden=True))
    found = EITHER.search(from_snntorch(module, torch.zeros(10, 6), check=0, **options).metadata["nirbridge:notes"])
    assert found is not None
    assert found[1] == words


def test_a_batch_of_one_is_a_batch() -> None:
    module = nn.Sequential(nn.Linear(6, 4), snn.Leaky(beta=0.75, init_hidden=True))
    graph = from_snntorch(module, torch.zeros(1, 6), check=0)
    assert "was read as [batch, 6], one time step as (6,)" in graph.metadata["nirbridge:notes"]
