"""Values that a module keeps between calls: traced with the module's own spikes, or refused by name."""

from __future__ import annotations

import collections
import copy
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.ann.from_torch import convert_torch
from nirbridge.importers.frameworks.snntorch import from_snntorch
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
nn = torch.nn

STEPS, BATCH, PRE, POST = 60, 2, 10, 6


class Named(nn.Module):
    """An argument has the name of a function that copies, and a copy is taken by name."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.lif = nn.Linear(PRE, POST), snn.Leaky(beta=0.75)

    def forward(self, x: Any, data: Any) -> Any:
        return self.lif(self.fc(x), torch.clone(input=data))


def test_names_of_copies_are_not_taken_for_copies() -> None:
    graph = from_snntorch(Named(), (torch.zeros(BATCH, PRE), torch.zeros(BATCH, POST)))
    assert [p.name for p in from_nir(graph).populations] == ["lif"]


class Base(nn.Module):
    """A layer whose spikes come back through ``rec``; how, is for the cases to say."""

    bias = True

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.rec = nn.Linear(PRE, POST), nn.Linear(POST, POST, bias=self.bias)
        self.lif = snn.Leaky(beta=0.75, init_hidden=True, reset_mechanism="zero")
        self.prev: Any = None
        self.register_buffer("kept", torch.zeros(BATCH, POST))


class Attribute(Base):
    def forward(self, x: Any) -> Any:
        prev = torch.zeros(x.shape[0], POST) if self.prev is None else self.prev
        self.prev = self.lif(self.fc(x) + self.rec(prev))
        return self.prev


class FirstStepApart(Base):
    """Nothing is added in the first step, which is the same only where ``rec`` has no bias."""

    bias = False

    def forward(self, x: Any) -> Any:
        current = self.fc(x) if self.prev is None else self.fc(x) + self.rec(self.prev)
        self.prev = self.lif(current)
        return self.prev


class Buffer(Base):
    def forward(self, x: Any) -> Any:
        spikes = self.lif(self.fc(x) + self.rec(self.kept))
        self.kept.copy_(spikes)
        return spikes


class Data(Base):
    def forward(self, x: Any) -> Any:
        spikes = self.lif(self.fc(x) + self.rec(self.kept))
        self.kept.data = spikes
        return spikes


class Queue(Base):
    def __init__(self) -> None:
        super().__init__()
        self.queue = collections.deque([torch.zeros(BATCH, POST)], maxlen=1)

    def forward(self, x: Any) -> Any:
        self.queue.append(self.lif(self.fc(x) + self.rec(self.queue[0])))
        return self.queue[-1]


class KeptCurrent(Base):
    """What is kept is computed from the spikes already."""

    bias = False

    def forward(self, x: Any) -> Any:
        back = 0.5 * self.prev if self.prev is not None else torch.zeros(x.shape[0], POST)
        spikes = self.lif(self.fc(x) - back)
        self.prev = self.rec(spikes)
        return spikes


class Argument(Base):
    def forward(self, x: Any, prev: Any = None) -> Any:
        prev = torch.zeros(x.shape[0], POST) if prev is None else prev
        spikes = self.lif(self.fc(x) + self.rec(prev))
        return spikes, spikes


class ByName(Base):
    """A dictionary comes back, and one of its entries goes in again."""

    def forward(self, x: Any, prev: Any = None, mask: Any = None) -> Any:
        prev = torch.zeros(x.shape[0], POST) if prev is None else prev
        spikes = self.lif(self.fc(x if mask is None else x * mask) + self.rec(prev))
        return {"spikes": spikes, "prev": spikes}


class InOrder(Base):
    """More arguments than states."""

    def forward(self, x: Any, prev: Any = None, mask: Any = None) -> Any:
        found = ByName.forward(self, x, prev, mask)
        return found["spikes"], found["prev"]


class OwnMembrane(Base):
    """The state of the neuron is an attribute of the user's module; so are the spikes."""

    def __init__(self) -> None:
        super().__init__()
        self.lif = snn.Leaky(beta=0.75, reset_mechanism="zero")
        self.mem: Any = None

    def forward(self, x: Any) -> Any:
        if self.mem is None:
            self.mem, self.prev = torch.zeros(x.shape[0], POST), torch.zeros(x.shape[0], POST)
        self.prev, self.mem = self.lif(self.fc(x) + self.rec(self.prev), self.mem)
        return self.prev


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = Attribute(), nn.Linear(POST, 3)
        self.out = snn.Leaky(beta=0.5, init_hidden=True, reset_mechanism="zero")

    def forward(self, x: Any) -> Any:
        return self.out(self.head(self.block(x)))


class Trace(Base):
    def forward(self, x: Any) -> Any:
        trace = torch.zeros(x.shape[0], POST) if self.prev is None else self.prev
        spikes = self.lif(self.fc(x) + self.rec(trace))
        self.prev = 0.5 * trace + spikes
        return spikes


class Counter(Base):
    def forward(self, x: Any) -> Any:
        self.prev = (self.prev or 0) + 1
        return self.lif(self.fc(x) * (1.0 / self.prev))


class TwoBack(Base):
    def __init__(self) -> None:
        super().__init__()
        self.queue = collections.deque([torch.zeros(BATCH, POST)] * 2, maxlen=2)

    def forward(self, x: Any) -> Any:
        self.queue.append(self.lif(self.fc(x) + self.rec(self.queue[0])))
        return self.queue[-1]


class Accumulates(Base):
    def forward(self, x: Any) -> Any:
        spikes = self.lif(self.fc(x))
        self.prev = spikes if self.prev is None else self.prev + spikes
        return self.prev


class LastInput(Base):
    def forward(self, x: Any) -> Any:
        before = torch.zeros_like(x) if self.prev is None else self.prev
        self.prev = x
        return self.lif(self.fc(x - before))


class StartsFiring(Base):
    def forward(self, x: Any) -> Any:
        prev = torch.ones(x.shape[0], POST) if self.prev is None else self.prev
        self.prev = self.lif(self.fc(x) + self.rec(prev))
        return self.prev


class BiasFromTheSecondStepOn(FirstStepApart):
    bias = True


class LoopKeeps(Base):
    """A loop over time in forward, and something left over from the sequence before."""

    def __init__(self) -> None:
        super().__init__()
        self.lif = snn.Leaky(beta=0.75, reset_mechanism="zero")

    def forward(self, x: Any) -> Any:
        mem, spikes, out = torch.zeros(x.shape[1], POST), None, []
        drive = torch.zeros(x.shape[1], POST) if self.prev is None else self.prev
        for now in x:
            spikes, mem = self.lif(self.fc(now) + self.rec(drive), mem)
            out.append(spikes)
        self.prev = spikes
        return torch.stack(out)


class OtherState(Base):
    """The state of one neuron is handed to another in the next step."""

    def __init__(self) -> None:
        super().__init__()
        self.lif, self.lif2 = snn.Leaky(beta=0.75), snn.Leaky(beta=0.5)

    def forward(self, x: Any) -> Any:
        zeros = torch.zeros(x.shape[0], POST)
        spikes, mem = self.lif(self.fc(x), zeros if self.prev is None else self.prev)
        out, self.prev = self.lif2(self.rec(spikes), mem)
        return out


FOLLOWED = (
    Attribute, FirstStepApart, Buffer, Data, Queue, KeptCurrent, Argument, ByName, InOrder, OwnMembrane, Nested,
    TwoBack, LastInput,
)  # fmt: skip
REFUSED = (
    (Trace, "'lif'"),
    (Counter, "'lif'"),
    (Accumulates, "output"),
    (StartsFiring, "'lif'"),
    (BiasFromTheSecondStepOn, "'lif'"),
    (LoopKeeps, "'rec'"),
    (OtherState, "state"),
)


def on_grid(module: Any) -> Any:
    """Weights on a grid of 2^-10, where float32 sums are exact in any order."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            with torch.no_grad():
                for values in (layer.weight, *(() if layer.bias is None else (layer.bias,))):
                    values.copy_(torch.round(torch.randn_like(values) * 700) / 1024)
    return module.eval()


@pytest.mark.parametrize("kind", FOLLOWED, ids=lambda k: k.__name__)
def test_spikes_of_the_step_before_are_followed(kind: Any) -> None:
    torch.manual_seed(1)
    module = on_grid(kind())
    inputs = (torch.rand(STEPS, BATCH, PRE) < 0.4).float()
    before = copy.deepcopy(module.state_dict())
    graph = from_snntorch(module, inputs[0])
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    wanted, prev = [], None
    with torch.no_grad():
        for now in inputs:
            found = module(now, prev) if kind in (Argument, ByName, InOrder) else module(now)
            found = tuple(found.values()) if isinstance(found, dict) else found
            spikes, prev = found if isinstance(found, tuple) else (found, None)
            wanted.append(spikes.clone())
    network = from_nir(graph)
    assert [p.shape for p in network.inputs] == [(PRE,)]
    found = simulate(network, inputs.numpy()).recording.arrays["output", "s"]
    assert 0.02 < found.mean() < 0.98
    np.testing.assert_array_equal(found, torch.stack(wanted).numpy())
    assert "keeps values between calls" in graph.metadata["nirbridge:notes"]


@pytest.mark.parametrize(("kind", "place"), REFUSED, ids=lambda k: getattr(k, "__name__", ""))
def test_all_else_that_is_kept_is_refused_by_its_place(kind: Any, place: str) -> None:
    torch.manual_seed(1)
    sample = torch.zeros(BATCH, PRE)
    with pytest.raises(ModelError) as caught:
        from_snntorch(on_grid(kind()), sample)
    assert place in str(caught.value)


def test_a_converted_network_keeps_nothing() -> None:
    class Averages(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.old = nn.Linear(4, 3), torch.zeros(3)

        def forward(self, x: Any) -> Any:
            self.old = 0.5 * self.old + torch.relu(self.fc(x))
            return self.old

    with pytest.raises(ModelError, match="between calls"):
        convert_torch(Averages(), torch.zeros(1, 4), torch.rand(8, 4))


def test_a_membrane_that_is_fed_back_is_refused() -> None:
    class Membrane(Base):
        def __init__(self) -> None:
            super().__init__()
            self.lif = snn.Leaky(beta=0.75)

        def forward(self, x: Any) -> Any:
            prev = torch.zeros(x.shape[0], POST) if self.prev is None else self.prev
            spikes, self.prev = self.lif(self.fc(x) + self.rec(prev), torch.zeros(x.shape[0], POST))
            return spikes

    with pytest.raises(ModelError, match="works on a state of 'lif'"):
        from_snntorch(on_grid(Membrane()), torch.zeros(1, PRE))


def test_an_argument_that_is_no_state_is_refused_with_a_hint() -> None:
    class Gain(Base):
        def forward(self, x: Any, gain: Any = None) -> Any:
            current = self.fc(x) if gain is None else self.fc(x) * gain
            spikes = self.lif(current)
            return spikes, 0.5 * spikes

    with pytest.raises(ModelError) as caught:
        from_snntorch(on_grid(Gain()), torch.zeros(1, PRE))
    assert "'gain' were given its outputs" in str(caught.value)


def test_another_default_is_said() -> None:
    class Leaks(Base):
        def forward(self, x: Any, prev: Any = 0.0, is_quick: bool = False) -> Any:
            return self.lif(self.fc(x) + prev)

    notes = from_snntorch(on_grid(Leaks()), torch.zeros(1, PRE)).metadata["nirbridge:notes"]
    assert "'prev' is 0.0 in every time step" in notes
    assert "is_quick" not in notes


def test_an_argument_that_stays_none_is_said() -> None:
    class Masked(Base):
        def forward(self, x: Any, mask: Any = None) -> Any:
            return self.lif(self.fc(x if mask is None else x * mask))

    assert "'mask'" in from_snntorch(on_grid(Masked()), torch.zeros(1, PRE)).metadata["nirbridge:notes"]


def test_states_left_over_from_a_run_are_said() -> None:
    module = nn.Sequential(nn.Linear(PRE, POST), snn.Leaky(beta=0.9, init_hidden=True))
    assert "left over" not in from_snntorch(module, torch.zeros(PRE)).metadata["nirbridge:notes"]
    module(torch.ones(2, PRE) * 3)
    assert "left over" in from_snntorch(module, torch.zeros(PRE)).metadata["nirbridge:notes"]
    neuron = pytest.importorskip("spikingjelly.activation_based.neuron", reason="spikingjelly is not installed")
    from nirbridge.importers.frameworks.spikingjelly import from_spikingjelly

    module = nn.Sequential(nn.Linear(PRE, POST), neuron.LIFNode(v_reset=-0.5))
    assert "left over" not in from_spikingjelly(module, torch.zeros(1, PRE)).metadata["nirbridge:notes"]
    module(torch.ones(2, PRE) * 3)  # with its graph: such a module cannot be deep-copied as it is
    assert "left over" in from_spikingjelly(module, torch.zeros(1, PRE)).metadata["nirbridge:notes"]


def test_states_left_over_in_sinabs_are_said() -> None:
    layers = pytest.importorskip("sinabs.layers", reason="sinabs is not installed")
    from nirbridge.importers.frameworks.sinabs import from_sinabs

    module = nn.Sequential(nn.Linear(PRE, POST), layers.IAFSqueeze(batch_size=1))
    assert "left over" not in from_sinabs(module, torch.zeros(1, PRE)).metadata["nirbridge:notes"]
    module(torch.ones(3, PRE))
    notes = from_sinabs(module, torch.zeros(1, PRE)).metadata["nirbridge:notes"]
    assert "'v_mem' is left over" in notes


@pytest.mark.parametrize(("leak", "start"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5)])
def test_a_first_state_is_the_neurons_own_or_zero_or_refused(leak: float, start: float) -> None:
    norse = pytest.importorskip("norse.torch", reason="norse is not installed")
    from nirbridge.importers.frameworks.norse import from_norse

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(PRE, POST)
            self.cell = norse.LIFBoxCell(norse.LIFBoxParameters(v_leak=torch.tensor(leak)))

        def forward(self, x: Any, state: Any = None) -> Any:
            if state is None:
                state = norse.LIFBoxFeedForwardState(v=torch.full((x.shape[0], POST), start))
            return self.cell(self.fc(x), state)

    if start == 0:
        graph = from_norse(Model(), torch.zeros(1, PRE), check=2)
        assert "anew" not in graph.metadata["nirbridge:notes"]
        assert not np.any(from_nir(graph).populations[0].neuron.v_init)
        return
    with pytest.raises(ModelError, match="'cell'"):
        from_norse(Model(), torch.zeros(1, PRE))


class Late(Base):
    """Does something in a later call or step only, or sets its neuron's state by itself."""

    how = ""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        if self.how == "every call" or (self.how == "every 20th call" and self.calls % 20 == 0):
            self.lif.reset_mem()
        return self.lif(self.fc(x) * (2.0 if self.how == "call 30" and self.calls > 30 else 1.0))


class LateStep(Base):
    """A loop over time that does something in later steps only."""

    how = ""

    def __init__(self) -> None:
        super().__init__()
        self.lif = snn.Leaky(beta=0.75, init_hidden=self.how == "hidden")

    def forward(self, x: Any) -> Any:
        mem, out = self.lif.reset_mem(), []
        for k, now in enumerate(x):
            if k and k % 20 == 0 and self.how != "all alike":
                mem = self.lif.reset_mem()
            spikes = self.lif(self.fc(now)) if self.how == "hidden" else None
            if spikes is None:
                spikes, mem = self.lif(self.fc(now), mem)
            out.append(spikes)
        return torch.stack(out)


@pytest.mark.parametrize(
    ("base", "how", "words"),
    [
        (Late, "every 20th call", "reset in some calls of forward"),
        (Late, "call 30", "a value that forward keeps between calls"),
        (LateStep, "every 20th step", "not the one that it returned before"),
        (LateStep, "hidden", "reset in time step 20"),
    ],
)
def test_what_happens_in_later_steps_only_is_refused(base: Any, how: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        from_snntorch(type("It", (base,), {"how": how})(), torch.zeros(PRE))


def test_a_state_that_every_call_sets_anew_is_refused_or_noted() -> None:
    module = type("It", (Late,), {"how": "every call"})()
    with pytest.raises(ModelError, match=r"'lif': forward resets its state.*--accept kept-states"):
        from_snntorch(module, torch.zeros(PRE))
    graph = from_snntorch(module, torch.zeros(PRE), accept=("kept-states",))
    assert "'lif': forward resets its state" in graph.metadata["nirbridge:notes"]
    for kind in (Late, type("It", (LateStep,), {"how": "all alike"})):
        assert "anew" not in from_snntorch(kind(), torch.zeros(PRE)).metadata.get("nirbridge:notes", "")
