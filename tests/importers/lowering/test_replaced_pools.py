"""``lif(pool(conv))`` as ``pool(lif(conv))``: refused unless accepted, then exactly that, and measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import ModelError, UsageError
from nirbridge.importers import from_sinabs, from_snntorch

torch = pytest.importorskip("torch", reason="the importer reads torch modules")
snn = pytest.importorskip("snntorch", reason="the neurons of the modules are snnTorch's")
utils = pytest.importorskip("snntorch.utils", reason="the neurons of the modules are snnTorch's")
nn = torch.nn

ACCEPT = ("replaced-maxpool",)
STEPS = 12


def lif(**options: Any) -> Any:
    return snn.Leaky(**{"beta": 0.5, "init_hidden": True, "threshold": 0.3, **options})


def net(*between: Any, neuron: Any = None, pool: Any = None, moved: bool = False) -> Any:
    """conv, pool, ``between``, neuron, linear, neuron; ``moved``: the pool after the neuron. Weights on a grid."""
    torch.manual_seed(0)
    first, cells = pool or nn.MaxPool2d(2), neuron or lif()
    middle = [*between, cells, first] if moved else [first, *between, cells]
    made = nn.Sequential(nn.Conv2d(1, 4, 3), *middle, nn.Flatten(), nn.Linear(36, 5), lif())
    for parameter in made.parameters():
        if parameter.ndim > 1:
            parameter.data = torch.round(parameter.data * 64) / 64
    return made.eval()


def drive(steps: int = STEPS, samples: int = 3, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 5, (steps, samples, 1, 8, 8)) / 4).float()


def outputs(module: Any, x: Any) -> Any:
    utils.reset(module)
    with torch.no_grad():
        return np.stack([module(step).numpy() for step in x])


def normed(weights: list[float]) -> Any:
    norm = nn.BatchNorm2d(4)
    norm.weight.data = torch.tensor(weights)
    norm.running_var[:] = 1 - norm.eps  # a factor of 1: sums stay exact
    return norm.eval()


BETWEEN: dict[str, Callable[[], list[Any]]] = {
    "nothing": list,
    "BatchNorm": lambda: [normed([0.5, 1.0, 2.0, 0.25])],
}


@pytest.mark.parametrize("name", BETWEEN)
def test_the_import_is_the_module_with_the_pool_behind_its_neuron(name: str) -> None:
    module = net(*BETWEEN[name]())
    with pytest.raises(ModelError, match=r"'1': a maximum of currents is not linear.*--accept replaced-maxpool"):
        from_snntorch(module, torch.zeros(1, 1, 8, 8))
    graph = from_snntorch(module, torch.zeros(1, 1, 8, 8), accept=ACCEPT)
    network, x = nb.load(graph), drive()
    cells = str(2 + len(BETWEEN[name]()))
    shapes = {p.name: (p.shape, p.neuron.kind) for p in network.populations}
    assert shapes[f"{cells}_unpooled"] == ((4, 6, 6), "LIF")
    assert shapes[cells] == ((4, 3, 3), "Threshold")
    found = nb.simulate(network, x.numpy())["output"]
    wanted = outputs(net(*BETWEEN[name](), moved=True), x)
    np.testing.assert_array_equal(found, wanted)
    assert (found != outputs(module, x)).any(), "it computes something else than the module"
    notes = graph.metadata["nirbridge:notes"]
    assert (
        f"module '1': its maximum of currents is taken of the spikes of '{cells}', 144 neurons in place of 36; "
        in notes
    )
    assert "accepted as 'replaced-maxpool'" in notes


def test_two_pools_in_a_row() -> None:
    module = net(pool=nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2, 1)), neuron=lif())
    module[4] = nn.Linear(16, 5)
    graph = from_snntorch(module, torch.zeros(1, 1, 8, 8), accept=ACCEPT)
    kinds = [(p.shape, p.neuron.kind) for p in nb.load(graph).populations]
    assert kinds[:3] == [((4, 6, 6), "LIF"), ((4, 3, 3), "Threshold"), ((4, 2, 2), "Threshold")]


class Loop(nn.Module):
    """A loop over time around conv, pool, neuron; ``kind`` says what is special."""

    def __init__(self, kind: str = "", neuron: Any = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.pool, self.fc = nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Linear(36, 5)
        self.a, self.b = neuron or lif(init_hidden=False), lif(init_hidden=False)
        self.kind = kind

    def step(self, now: Any, mems: list[Any]) -> tuple[Any, Any]:
        pooled = self.pool(self.conv(now))
        spk, *rest = self.a(pooled, *mems[0]) if mems[0] else self.a(pooled)
        mems[0] = rest if self.kind != "recurrent" else [spk, *rest]
        more = pooled if self.kind == "read twice" else 0
        out, mems[1] = self.b(
            self.fc((spk + more + (mems[0][0] if self.kind == "mem read" else 0)).flatten(1)), mems[1]
        )
        return out, rest[-1]

    def forward(self, x: Any) -> Any:
        axis = 1 if self.kind == "batch first" else 0
        mems = [[self.a.init_leaky()] if self.kind != "recurrent" else list(self.a.init_rleaky()), self.b.init_leaky()]
        steps = [x] * 7 if self.kind == "static" else x.unbind(axis)[: 7 if self.kind == "seven steps" else None]
        out, states = zip(*(self.step(now, mems) for now in steps), strict=True)
        if self.kind.endswith("states"):
            return (torch.stack(out), torch.stack(states)) if self.kind == "with states" else torch.stack(states)
        return torch.stack(out).sum(0) if self.kind == "sums" else torch.stack(out, axis)


def shape_of(kind: str, samples: int = 3, steps: int = 7) -> tuple[int, ...]:
    lead = {"static": (samples,), "batch first": (samples, steps)}.get(kind, (steps, samples))
    return (*lead, 1, 8, 8)


REFUSED: dict[str, tuple[Callable[[], Any], tuple[int, ...], str]] = {
    "a negative factor": (
        lambda: net(normed([0.5, -1.0, 2.0, 0.25])), (1, 1, 8, 8), "cannot be moved after '3': what is between them"
    ),
    "another layer": (lambda: net(nn.Conv2d(4, 4, 1)), (1, 1, 8, 8), "cannot be moved: its values reach another layer"),
    "no neuron": (lambda: nn.Sequential(*net()[:2]), (1, 1, 8, 8), "cannot be moved: its values are not read by one"),
    "a state that is returned": (lambda: Loop("states"), shape_of(""), "a state of its neuron is read, or returned"),
    "a state that is read": (lambda: Loop("mem read"), shape_of(""), "a state of its neuron is read, or returned"),
    "two readers": (lambda: Loop("read twice"), shape_of(""), "cannot be moved: its values are not read by one"),
    "recurrent": (
        lambda: Loop("recurrent", snn.RLeaky(beta=0.5, conv2d_channels=4, kernel_size=3)), shape_of(""),
        "its neurons have weights among them",
    ),
    "numbers per neuron": (
        lambda: net(neuron=lif(beta=torch.linspace(0.1, 0.9, 36).reshape(4, 3, 3))), (1, 1, 8, 8),
        r"beta has shape \(4, 3, 3\).*its neurons have shape \(4, 6, 6\)",
    ),
    "a neuron that is not supported": (
        lambda: net(neuron=snn.Alpha(0.9, 0.8, init_hidden=True)), (1, 1, 8, 8), "its neuron cannot be imported"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_maximum_that_cannot_be_moved_is_refused_with_the_reason(name: str) -> None:
    make, shape, text = REFUSED[name]
    with pytest.raises(ModelError, match=rf"(?s){text}"):
        from_snntorch(make(), torch.zeros(shape), accept=ACCEPT)


def test_spikes_and_parameters_per_channel_are_kept() -> None:
    beta = torch.tensor([0.25, 0.5, 0.75, 0.0]).reshape(4, 1, 1)
    x = drive()
    graph = from_snntorch(net(neuron=lif(beta=beta)), torch.zeros(1, 1, 8, 8), accept=ACCEPT)
    found = nb.simulate(nb.load(graph), x.numpy())["output"]
    np.testing.assert_array_equal(found, outputs(net(neuron=lif(beta=beta), moved=True), x))
    of_spikes = net(moved=True)
    same = from_snntorch(of_spikes, torch.zeros(1, 1, 8, 8), accept=ACCEPT)
    assert json.loads(same.metadata["nirbridge:self_check"])["outcome"] == "identical", "maxima of spikes stay"


def test_the_self_check_states_outputs_and_spikes() -> None:
    graph = from_snntorch(net(), torch.zeros(1, 1, 8, 8), accept=ACCEPT, check=1)
    outcome = json.loads(graph.metadata["nirbridge:self_check"])
    assert outcome["outcome"] == "accepted"
    assert (
        "of the outputs are equal, with the deviations accepted: replaced-maxpool; spikes of the module"
        in outcome["text"]
    )
    pool, last = outcome["populations"]
    assert (pool["name"], last["name"]) == ("2", "5")
    assert 0 < pool["unequal"] < pool["values"]
    assert (pool["values"], last["values"]) == (32 * 36, 32 * 5), "32 time steps of one sample, once"
    assert (
        f"'2' {pool['module']:,} and {pool['imported']:,} ({pool['unequal'] / pool['values']:.2%})" in outcome["text"]
    )


def test_states_that_come_with_other_values_are_noted() -> None:
    graph = from_snntorch(Loop("with states"), torch.zeros(shape_of("")), accept=ACCEPT)
    assert [p.shape for p in nb.load(graph).outputs] == [(5,)]
    assert "not an output of the network, record v of population 'a_unpooled'" in graph.metadata["nirbridge:notes"]


def test_a_maximum_of_single_currents_is_exact() -> None:
    """The self-check compares the maximum with the neuron of the module, which has a membrane."""
    graph = from_snntorch(net(pool=nn.MaxPool2d(1, 2)), torch.zeros(1, 1, 8, 8), accept=ACCEPT)
    assert json.loads(graph.metadata["nirbridge:self_check"])["outcome"] == "identical"


# -- measured on data ------------------------------------------------------------------------------------------------


def measured(module: Any, sample: tuple[int, ...], *data: Any) -> dict[str, Any]:
    graph = from_snntorch(module, torch.zeros(sample), accept=ACCEPT, measure=data)
    return json.loads(graph.metadata["nirbridge:self_check"])["measured"]


@pytest.mark.parametrize("kind", ["", "batch first", "sums", "static", "called", "called, held"])
def test_accuracy_is_that_of_both_on_the_data(kind: str) -> None:
    """Labels are the decisions of the module, or of the module with the pool after its neuron."""
    is_called = kind.startswith("called")
    module = net() if is_called else Loop(kind)
    x = drive(9, 40)
    if kind in ("static", "called, held"):
        x = x[:1].repeat(7 if kind == "static" else 32, 1, 1, 1, 1)
    given = {"batch first": x.swapaxes(0, 1), "static": x[0], "called, held": x[0]}.get(kind, x)
    sample = (2, 1, 8, 8) if is_called else shape_of(kind)
    with torch.no_grad():
        returned = outputs(module, x) if is_called else module(given).numpy()
    counts = returned if kind == "sums" else returned.sum(1 if kind == "batch first" else 0)
    network = nb.load(from_snntorch(module, torch.zeros(sample), accept=ACCEPT))
    sent = nb.simulate(network, x.numpy(), axes="time,sample" if kind == "batch first" else None)["output"]
    own, imported = counts.argmax(-1), sent.sum(0).argmax(-1)
    found = measured(module, sample, given, own)
    assert (found["samples"], found["steps"], found["module_accuracy"]) == (40, len(x), 1.0)
    assert found["import_accuracy"] == found["alike"] == np.mean(own == imported)
    assert 0.3 < found["alike"] < 1.0
    assert f"{found['alike']:.1%} of the decisions" in found["text"]
    (last,) = [p for p in found["populations"] if p["name"] == ("5" if is_called else "b")]
    assert last["imported"] == int(sent.sum())
    assert last["module"] == int(counts.sum())
    other = measured(module, sample, given, imported)
    assert (other["module_accuracy"], other["import_accuracy"]) == (found["alike"], 1.0)


@pytest.mark.parametrize("kind", ["called", "batch first"])
def test_batches_do_not_change_what_is_measured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from nirbridge.verification import measured as measuring

    x, labels = drive(5, 27), np.arange(27) % 5
    x = x.swapaxes(0, 1) if kind == "batch first" else x
    module, sample = (Loop(kind), shape_of(kind)) if kind == "batch first" else (net(), (2, 1, 8, 8))
    whole = measured(module, sample, x, labels)
    sizes: list[int] = []
    really: Any = measuring.run_original

    def counted_run(*args: Any, **options: Any) -> Any:
        calls = list(args[2])
        sizes.append(len(calls[0][0]))  # the last batch is one sample, which has no order of time and batch
        return really(*args[:2], calls, **options)

    monkeypatch.setattr(measuring, "run_original", counted_run)
    monkeypatch.setattr(measuring, "BATCH", 13)
    assert measured(module, sample, x, labels) == whole
    assert sizes == [13, 13, 1]


WRONG: dict[str, tuple[Any, str]] = {
    "no pair": (3, "measure: a value of type int, it needs two"),
    "no labels": ({"x": np.zeros((4, 1, 8, 8))}, "arrays 'x', it needs the inputs and 'labels'"),
    "labels of numbers": ((np.zeros((4, 1, 8, 8)), np.zeros(4)), "labels of measure: 4 values of type float64"),
    "negative": ((np.zeros((4, 1, 8, 8)), np.arange(4) - 1), "a whole number from 0"),
    "too few": ((np.zeros((4, 1, 8, 8)), np.arange(3)), "3 labels for 4 samples"),
    "too large": ((np.zeros((4, 1, 8, 8)), np.arange(4) + 2), "class 5, output 'output' has 5 values"),
    "another shape": (
        (np.zeros((4, 8, 8)), np.arange(4)),
        r"shape \(4, 8, 8\).*give \[samples, 1, 8, 8\] or \[time, samples, 1, 8, 8\]",
    ),
    "not finite": (
        (np.full((4, 1, 8, 8), np.nan), np.arange(4)),
        "data of measure of input 'input': values that are not",
    ),
    "two arrays": (([np.zeros((4, 8, 8))] * 2, np.arange(4)), "data of measure: 2 arrays, the module has the inputs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_data_that_do_not_fit(name: str) -> None:
    data, text = WRONG[name]
    with pytest.raises(UsageError, match=text):
        from_snntorch(net(), torch.zeros(2, 1, 8, 8), accept=ACCEPT, measure=data, check=1)


def test_data_of_another_layout_and_a_module_that_fails_on_them() -> None:
    with pytest.raises(UsageError, match=r"shape \(5, 1, 8, 8\).*give \[time, samples, 1, 8, 8\]"):
        from_snntorch(Loop(), torch.zeros(shape_of("")), accept=ACCEPT, measure=(np.zeros((5, 1, 8, 8)), np.arange(5)))

    class Picky(Loop):
        def forward(self, x: Any) -> Any:
            assert x.shape[1] < 10, "at most nine samples"
            return super().forward(x)

    with pytest.raises(UsageError, match=r"the module fails on the data: AssertionError: at most nine samples"):
        from_snntorch(Picky(), torch.zeros(shape_of("")), accept=ACCEPT, measure=(drive(7, 12), np.zeros(12, int)))


def test_data_need_a_check() -> None:
    with pytest.raises(UsageError, match=r"it is given without a self-check.*--no-check"):
        from_snntorch(net(), torch.zeros(2, 1, 8, 8), accept=ACCEPT, check=0, measure=(drive(), np.zeros(3, int)))


def test_steps_that_the_module_does_not_run() -> None:
    data = (drive(9, 4), np.zeros(4, int))
    with pytest.raises(UsageError, match=r"the module's neurons run 7 time steps on data of 9.*give data of as many"):
        from_snntorch(Loop("seven steps"), torch.zeros(shape_of("")), accept=ACCEPT, measure=data)


def test_layers_that_take_time_out_of_the_batch_are_run_step_by_step() -> None:
    layers = pytest.importorskip("sinabs.layers", reason="the module is one of sinabs")
    from sinabs.activation import SingleSpike

    torch.manual_seed(0)
    cells = [layers.IAFSqueeze(batch_size=2, spike_fn=SingleSpike, spike_threshold=0.5) for _ in range(2)]
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), cells[0], nn.Flatten(), nn.Linear(36, 5), cells[1])
    data = (drive(9, 6), np.arange(6) % 5)
    graph = from_sinabs(module.eval(), torch.zeros(14, 1, 8, 8), accept=ACCEPT, measure=data)
    found = json.loads(graph.metadata["nirbridge:self_check"])["measured"]
    assert (found["samples"], found["steps"]) == (6, 9)
    with torch.no_grad():
        sent = module(data[0].swapaxes(0, 1).reshape(-1, 1, 8, 8)[:18])  # two samples, each of nine time steps
    assert 0 < sent.sum() <= found["populations"][-1]["module"]
