"""Runs of a module for the check: its mode, precision, state and neurons, on modules of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402

from nirbridge.importers.neuron_specs import NeuronSpec  # noqa: E402
from nirbridge.verification.original_runs import (  # noqa: E402
    NeuronObservation,
    OriginalRun,
    _membrane,
    run_original,
)


class Cell(nn.Module):
    """Counts its calls; fires where its input is above 1."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.mem = x * 2
        return (x > 1).to(x.dtype), x * 3


class Outer(nn.Module):
    """A neuron with a neuron inside."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()

    def forward(self, x: Any) -> Any:
        return self.cell(x)[0] * 2


class Refused(Cell):
    """A neuron that has no form."""


def form(**options: Any) -> NeuronSpec:
    return NeuronSpec(read=lambda *_: None, **options)  # type: ignore[arg-type, return-value]


FORMS = {Cell: form(), Outer: form(), Refused: form(is_refusal=True)}


class Model(nn.Module):
    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.act = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.act(self, *args, **kwargs)


def run(model: Any, *calls: Any, wide: bool = True, seed: int = 0, stops: bool = False) -> OriginalRun:
    given = [call if isinstance(call, tuple) else (call,) for call in calls]
    return run_original(lambda: model, FORMS, given, wide=wide, seed=seed, stops_at_loops=stops)


ONE = np.array([[0.1, 2.0]])


# -- mode and precision --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [True, False])
def test_mode_and_precision_of_a_run(wide: bool) -> None:
    seen: list[Any] = []

    def forward(self: Any, x: Any) -> Any:
        made = torch.zeros(1)  # float32 by default
        seen.append((self.training, x.dtype, self.lin.weight.dtype, (x + made).dtype, x.requires_grad))
        return self.lin(x), x, [torch.ones(1) / 3]

    model = Model(forward, lin=nn.Linear(2, 2)).train()
    (returned,) = run(model, ONE, wide=wide).returned
    kind = torch.float64 if wide else torch.float32
    assert seen == [(False, kind, kind, kind, False)]
    values = dict(returned)
    assert [v.dtype for v in values.values()] == [np.float64] * 3
    same, third = (v for name, v in list(values.items())[1:])
    precision = np.float64 if wide else np.float32
    np.testing.assert_array_equal(same, ONE.astype(precision))
    assert third.item() == (precision(1) / precision(3) if wide else np.float64(np.float32(1) / np.float32(3)))


def test_every_tensor_of_a_call_is_widened_and_nothing_else() -> None:
    def forward(self: Any, x: Any) -> Any:
        small = [torch.full((1,), 0.5).float(), torch.ones(1, dtype=torch.float16), torch.ones(1, dtype=torch.int32)]
        joined = torch.cat([small[0].float(), x[0].float()])
        pair = torch.stack((small[0], small[0]), dim=0)
        named = torch.add(input=small[0], other=small[0])
        kept = torch.zeros(2, dtype=torch.float32)
        kept[0] = 1.0
        kept.add_(1)
        names = [small[0], joined, pair, named, kept, small[1], small[2], torch.max(x, dim=1).values]
        self.kinds = [t.dtype for t in names]
        return x

    model = Model(forward)
    run(model, ONE)
    wide = torch.float64
    assert model.kinds == [wide, wide, wide, wide, wide, torch.float16, torch.int32, wide]


def test_random_numbers_follow_the_seed_and_leave_those_outside_alone() -> None:
    model = Model(lambda self, x: torch.rand(3))
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    found = [run(model, ONE, seed=seed).returned[0][0][1].tolist() for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    assert torch.equal(torch.random.get_rng_state(), state)


# -- calls and states ----------------------------------------------------------------------------------------------


def counting(self: Any, x: Any, mem: Any = None) -> Any:
    mem = x if mem is None else mem + x
    return mem * 10, mem


def test_a_state_that_is_returned_is_handed_to_the_next_call() -> None:
    class Kept(nn.Module):
        forward = counting

    found = run(Kept(), ONE, ONE, ONE)
    sums = [ONE * 10, (ONE + ONE) * 10, (ONE + ONE + ONE) * 10]
    assert [call[0][1].tolist() for call in found.returned] == [each.tolist() for each in sums]
    assert not found.is_stopped


def test_a_module_whose_return_values_are_not_its_arguments_is_called_without_them() -> None:
    class Odd(nn.Module):
        def forward(self, x: Any, state: Any = None) -> Any:
            if state is not None:
                raise TypeError("a state of another kind")
            return x, x

    assert len(run(Odd(), ONE, ONE).returned) == 2

    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Any, state: Any = None) -> Any:
            self.calls += 1
            raise TypeError("never")

    for calls in (1, 2):
        model = Failing()
        with pytest.raises(TypeError, match="never"):
            run(model, *[ONE] * calls)
        assert model.calls == calls, "one call fails at once, of several each is tried without states once more"

    class Plain(Failing):
        def forward(self, x: Any) -> Any:  # type: ignore[override]
            return super().forward(x)

    model = Plain()
    with pytest.raises(TypeError, match="never"):
        run(model, ONE, ONE)
    assert model.calls == 1, "it takes no state"


def twice(self: Any, x: Any) -> Any:
    first = self.cell(x)[0]
    return first + self.cell(x)[0] if self.cell.calls > 1 or self.loops else first


def test_a_run_that_has_to_stop_does_so_after_a_first_call_with_several_time_steps() -> None:
    found = run(Model(twice, cell=Cell(), loops=True), ONE, ONE, stops=True)
    assert (found.is_stopped, len(found.returned), found.iterations) == (True, 1, 2)
    found = run(Model(twice, cell=Cell(), loops=True), ONE, ONE)
    assert (found.is_stopped, len(found.returned), found.iterations) == (False, 2, 4)
    found = run(Model(twice, cell=Cell(), loops=False), ONE, ONE, stops=True)
    assert (found.is_stopped, len(found.returned), found.iterations) == (False, 2, 3)
    assert run(Model(lambda self, x: x), ONE).iterations == 0


# -- neurons -------------------------------------------------------------------------------------------------------


def test_only_neurons_with_a_form_that_were_reached_are_recorded_and_only_the_outer_one() -> None:
    parts = {"cell": Cell(), "unused": Cell(), "outer": Outer(), "refused": Refused()}
    model = Model(lambda self, x: self.cell(x)[0] + self.outer(x) + self.refused(x)[0], **parts)
    found = run(model, ONE, ONE)
    assert list(found.probes) == ["cell", "outer"]
    cell, outer = found.probes.values()
    assert [s.tolist() for s in cell.spikes] == [[[0.0, 1.0]]] * 2
    assert [s.tolist() for s in outer.spikes] == [[[0.0, 2.0]]] * 2
    assert [m if m is None else m.tolist() for m in cell.membranes] == [(ONE * 2).tolist()] * 2
    assert outer.membranes == [None, None]


def test_a_neuron_that_failed_once_is_recorded_again() -> None:
    class Fragile(Cell):
        def forward(self, x: Any) -> Any:
            self.calls += 1
            if self.calls == 1:
                raise ValueError("once")
            return x

    def forward(self: Any, x: Any) -> Any:
        try:
            self.cell(x)
        except ValueError:
            return self.cell(x)

    given = [(ONE,)]
    model = Model(forward, cell=Fragile())
    found = run_original(lambda: model, {Fragile: form()}, given, wide=True, seed=0)
    assert [s.tolist() for s in found.probes["cell"].spikes] == [ONE.tolist()]


class Pair(nn.Module):
    """Returns twice and three times its input; its membrane is 20."""

    def __init__(self) -> None:
        super().__init__()
        self.mem = torch.tensor(20.0)

    def forward(self, x: Any) -> Any:
        return x * 2, x * 3


@pytest.mark.parametrize(
    ("options", "spikes", "membrane"),
    [
        ({}, 2.0, 20.0),
        ({"potential": 1}, 2.0, 3.0),
        ({"potential": 0}, 2.0, 2.0),
        ({"potential": 2}, 2.0, 20.0),
    ],
)
def test_spikes_and_membranes_among_the_returned_tensors(options: Any, spikes: float, membrane: float) -> None:
    found = run_original(Pair, {Pair: form(**options)}, [(np.ones(1),)], wide=True, seed=0)
    (probe,) = found.probes.values()
    (shown,) = probe.membranes
    assert shown is not None
    assert (probe.spikes[0].item(), shown.item()) == (spikes, membrane)


def test_the_first_attribute_that_holds_a_membrane() -> None:
    def shown(**own: Any) -> Any:
        found = _membrane(NeuronObservation(form(), SimpleNamespace(**own)), [])
        return found if found is None else found.item()

    mem, v, v_mem, vmem = (torch.tensor(float(k)) for k in range(1, 5))
    every = {"mem": mem, "v": v, "v_mem": v_mem, "vmem": vmem}
    for k, name in enumerate(every):
        assert shown(**dict(list(every.items())[k:])) == k + 1, name
    assert shown(mem=None, v=v) == 2.0
    assert shown(v=0.0) is None
    assert shown(mem=0.0, v=v) is None
    assert shown() is None
    returned = [torch.tensor(7.0), torch.tensor(8.0)]
    for place, value in ((0, 7.0), (1, 8.0), (2, 1.0)):
        found = _membrane(NeuronObservation(form(potential=place), SimpleNamespace(mem=mem)), returned)
        assert found is not None
        assert found.item() == value


def test_time_steps_of_a_probe() -> None:
    def steps(layout: Any, *shapes: tuple[int, ...]) -> int:
        return NeuronObservation(form(layout=layout), SimpleNamespace(), [np.zeros(s) for s in shapes]).steps

    assert steps(None, (5, 3), (5, 3)) == 2
    assert steps(("time", "batch"), (5, 3), (4, 3)) == 9
    assert steps(("batch", "time"), (5, 3), (5,)) == 4
    assert steps(lambda module: ("batch", "time"), (5, 3)) == 3
    assert steps(None) == 0
