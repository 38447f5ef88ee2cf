"""States that the user keeps in attributes, left over from a run: as after a reset, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from nirbridge.errors import ModelError
from nirbridge.importers.neuron_specs import quietly
from tests.importers.small_nets import FEATURES, TwoLayers, imported, nn, notes_of_equal, on_grid, snn, spikes, torch

with quietly():
    norse = pytest.importorskip("norse.torch", reason="norse is not installed")
    pytest.importorskip("spikingjelly.activation_based", reason="spikingjelly is not installed")
    from spikingjelly.activation_based import neuron
pytestmark = pytest.mark.filterwarnings("ignore")
NOTE = "holds a state left over from a run: imported as after a reset"


def after_training(module: Any, batch: int = 3) -> Any:
    """The module after steps on a batch, with weights that the states were not made of."""
    source = torch.Generator().manual_seed(1)
    on_grid(module, 4.0)
    total: Any = 0.0
    for _ in range(4):
        total = total + module(torch.rand((batch, FEATURES), generator=source) * 4).sum()
    return on_grid(module)


class OwnMembranes(TwoLayers):
    """Membranes in attributes; ``start``: what they are at first."""

    def __init__(self, start: Any = None) -> None:
        super().__init__()
        self.lif1, self.lif2 = (snn.Leaky(beta=beta, reset_mechanism="zero") for beta in (0.75, 0.5))
        self.mem1, self.mem2 = start, start

    def forward(self, x: Any) -> Any:
        if self.mem1 is None:
            self.mem1, self.mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spk, self.mem1 = self.lif1(self.fc1(x), self.mem1)
        spk, self.mem2 = self.lif2(self.fc2(spk), self.mem2)
        return spk


class FedBack(nn.Module):
    """Spikes of the previous time step in an attribute."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.fc, self.back, self.cell = nn.Linear(FEATURES, 8), nn.Linear(8, 8, bias=False), cell
        self.spk: Any = None

    def forward(self, x: Any) -> Any:
        if self.spk is None:
            self.spk = torch.zeros(x.shape[0], 8)
        self.spk = self.cell(self.fc(x) + self.back(self.spk))
        return self.spk


class NorseState(nn.Module):
    """A NamedTuple in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.cell, self.state = nn.Linear(FEATURES, 8), norse.LIFCell(), None

    def forward(self, x: Any) -> Any:
        out, self.state = self.cell(self.fc(x), self.state)
        return out


class Held(nn.Module):
    """A membrane in a container, or in a tensor that is never None."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.fc, self.lif, self.kind = nn.Linear(FEATURES, 8), snn.Leaky(beta=0.75, reset_mechanism="zero"), kind
        self.held: Any = {"dict": {}, "list": [], "tuple": (None, None), "row": torch.zeros(1, 8)}.get(kind)
        if kind == "buffer":
            del self.held
            self.register_buffer("held", torch.zeros(1, 8))

    def forward(self, x: Any) -> Any:
        held: Any = self.held
        before = {
            "dict": lambda: held["mem"] if held else None,
            "list": lambda: held[0] if held else None,
            "tuple": lambda: held[1],
        }.get(self.kind, lambda: held)()
        spk, mem = self.lif(self.fc(x), self.lif.init_leaky() if before is None else before)
        mem = mem.detach()
        if self.kind == "dict":
            held["mem"] = mem
        else:
            self.held = {"list": [mem], "tuple": (spk.detach(), mem)}.get(self.kind, mem)
        return spk


def leaky() -> Any:
    return snn.Leaky(beta=0.75, init_hidden=True, reset_mechanism="zero")


MODULES = {
    "membranes": ("snntorch", OwnMembranes, ("mem1", "mem2")),
    "spikes": ("snntorch", lambda: FedBack(leaky()), ("spk",)),
    "spikes-jelly": ("spikingjelly", lambda: FedBack(neuron.LIFNode()), ("spk",)),
    "named-tuple": ("norse", NorseState, ("state",)),
    **{k: ("snntorch", lambda k=k: Held(k), ("held",)) for k in ("dict", "list", "tuple", "row", "buffer")},
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("batch", [1, 3])
def test_states_left_over_are_reset_and_said(name: str, batch: int) -> None:
    framework, make, attributes = MODULES[name]
    module = after_training(make(), batch)
    if name == "named-tuple":
        on_grid(module, 8.0)
    before = {a: getattr(module, a) for a in attributes}
    notes = notes_of_equal(imported(module, spikes(batch, FEATURES), framework))
    for attribute in attributes:
        assert f"module, attribute '{attribute}' {NOTE}" in notes
        assert getattr(module, attribute) is before[attribute]  # the user's module stays as it is


def test_a_module_that_never_ran_has_no_note_and_needs_no_reset() -> None:
    assert NOTE not in notes_of_equal(imported(on_grid(OwnMembranes())))


def test_the_state_of_an_inner_module_is_named_with_its_path() -> None:
    module = after_training(nn.Sequential(nn.Linear(FEATURES, FEATURES), FedBack(leaky())))
    assert f"module '1', attribute 'spk' {NOTE}" in notes_of_equal(imported(module))


def test_an_initial_state_that_was_chosen_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"module, attribute 'mem1': it holds a state, a network starts from zero"):
        imported(on_grid(OwnMembranes(torch.full((1, 1), 0.3))))


def test_what_no_reset_lets_be_followed_is_refused_with_the_attribute() -> None:
    class Twice(FedBack):
        def forward(self, x: Any) -> Any:
            out = super().forward(x)
            self.older, older = out, getattr(self, "older", torch.zeros(x.shape[0], 8))
            self.oldest, oldest = older, getattr(self, "oldest", torch.zeros(x.shape[0], 8))
            return out + oldest

    with pytest.raises(ModelError, match=r"attribute 'spk': it holds a state left over from a run") as error:
        imported(after_training(Twice(leaky())), spikes(3, FEATURES))
    assert "module 'cell': its input depends on a value that forward keeps between calls" in str(error.value)


def test_constants_in_attributes_are_no_states() -> None:
    class Masked(TwoLayers):
        def __init__(self) -> None:
            super().__init__()
            self.mask = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])

        def forward(self, x: Any) -> Any:
            return self.lif2(self.fc2(self.lif1(self.fc1(x * self.mask))))

    assert NOTE not in notes_of_equal(imported(on_grid(Masked())))


def test_torchscript_inside_is_refused_by_its_path() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(FEATURES, 8), nn.Linear(8, 8)))
    traced = torch.jit.trace(nn.Linear(8, 8), torch.zeros(1, 8))
    module = nn.Sequential(scripted, leaky(), traced, leaky())
    with pytest.raises(ModelError, match=r"modules '0', '2': TorchScript, whose code cannot be traced"):
        imported(module)
    with pytest.raises(ModelError, match=r"module '1': TorchScript"):
        imported(nn.Sequential(nn.Linear(FEATURES, 8), traced, leaky()))
