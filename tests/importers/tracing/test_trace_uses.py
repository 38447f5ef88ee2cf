"""A neuron module used several times per time step with separate states: several populations, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError
from nirbridge.importers import from_norse, from_snntorch
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.simulators.simulate import simulate
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
snn = package("snntorch")
norse = package("norse.torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks warn of is not this project's
Forward = Callable[..., Any]


def zero() -> Any:
    return torch.zeros(())


def leaky() -> Any:
    return snn.Leaky(beta=0.8, threshold=0.75)


def module(make: Callable[[], Any], forward: Forward) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l1, self.l2, self.lif = nn.Linear(12, 16), nn.Linear(16, 16), make()

    return type("Written", (Net,), {"forward": forward})()


def leaky_step(net: Any, x: Any, mem1: Any = None, mem2: Any = None) -> Any:
    mem1 = net.lif.init_leaky() if mem1 is None else mem1
    mem2 = net.lif.init_leaky() if mem2 is None else mem2
    spk1, mem1 = net.lif(net.l1(x), mem1)
    spk2, mem2 = net.lif(net.l2(spk1), mem2.detach())
    return spk2, mem1, mem2


def synaptic_step(net: Any, x: Any, state: Any = None) -> Any:
    syn1, mem1, syn2, mem2 = (zero(), zero(), zero(), zero()) if state is None else state
    spk1, syn1, mem1 = net.lif(net.l1(x), syn1, mem1)
    spk2, syn2, mem2 = net.lif(net.l2(spk1), syn2, mem2)
    return spk2, (syn1, mem1, syn2, mem2)


def norse_step(net: Any, x: Any, s1: Any = None, s2: Any = None) -> Any:
    z1, s1 = net.lif(net.l1(x), s1)
    z2, s2 = net.lif(net.l2(z1), s2)
    return z2, s1, s2


def norse_tuple(net: Any, x: Any, state: Any = None) -> Any:
    z, s1, s2 = norse_step(net, x, *(state or (None, None)))
    return z, (s1, s2)


def leaky_loop(net: Any, x: Any) -> Any:
    mem1, mem2, out = net.lif.init_leaky(), net.lif.init_leaky(), []
    for now in x:
        spk, mem1, mem2 = leaky_step(net, now, mem1, mem2)
        out.append(spk)
    return torch.stack(out)


def norse_loop(net: Any, x: Any) -> Any:
    s1 = s2 = None
    out = []
    for now in x:
        z, s1, s2 = norse_step(net, now, s1, s2)
        out.append(z)
    return torch.stack(out)


def on_a_grid(net: Any, seed: int) -> Any:
    draw = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in (*net.l1.parameters(), *net.l2.parameters()):
            values = np.round(draw.uniform(-0.5, 0.8, tuple(parameter.shape)) * 1024) / 1024
            parameter.copy_(torch.from_numpy(values))
    return net


def ran(net: Any, x: Any, *, is_loop: bool) -> Any:
    with torch.no_grad():
        if is_loop:
            return net(x).numpy()
        state, out = (), []
        for now in x:
            spikes, *state = net(now, *state)
            out.append(spikes)
    return torch.stack(out).numpy()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("load", "make", "forward"),
    [
        (from_snntorch, leaky, leaky_step),
        (from_snntorch, lambda: snn.Synaptic(0.5, 0.8, threshold=2.5), synaptic_step),
        (from_snntorch, leaky, leaky_loop),
        (from_norse, norse.LIFCell, norse_step),
        (from_norse, norse.LIFCell, norse_tuple),
        (from_norse, norse.LIFCell, norse_loop),
    ],
    ids=["leaky", "synaptic", "leaky-loop", "norse", "norse-tuple", "norse-loop"],
)
def test_each_use_is_a_population_with_a_state_of_its_own(load: Any, make: Any, forward: Forward, seed: int) -> None:
    net = on_a_grid(module(make, forward), seed)
    network = from_nir(load(net, torch.zeros(12)))
    assert [p.name for p in network.populations] == ["lif", "lif_2"]
    source = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 2, (100, 4, 12), generator=source).float()
    wanted = ran(net, x, is_loop=forward in (leaky_loop, norse_loop))
    assert 0.01 < wanted.mean() < 0.9
    (found,) = simulate(network, x.numpy()).recording.arrays.values()
    np.testing.assert_array_equal(found, wanted)


def hidden(net: Any, x: Any) -> Any:
    return net.lif(net.l2(net.lif(net.l1(x))))


def none_first(net: Any, x: Any, mem1: Any = None, mem2: Any = None) -> Any:
    """snnTorch takes the state that it keeps where None is given: in the first step both uses share it."""
    spk1, mem1 = net.lif(net.l1(x), mem1)
    spk2, mem2 = net.lif(net.l2(spk1), mem2)
    return spk2, mem1, mem2


def anew(net: Any, x: Any) -> Any:
    return norse_step(net, x)[0]


def passed_through(net: Any, x: Any) -> Any:
    mem, out = zero(), []
    for now in x:
        spk, mem = net.lif(net.l1(now), mem)
        spk, mem = net.lif(net.l2(spk), mem)
        out.append(spk)
    return torch.stack(out)


def one_for_both(net: Any, x: Any) -> Any:
    mem, out = zero(), []
    for now in x:
        spk, _ = net.lif(net.l1(now), mem)
        spk, mem = net.lif(net.l2(spk), mem)
        out.append(spk)
    return torch.stack(out)


def changed_over(net: Any, x: Any, mem1: Any = None, mem2: Any = None) -> Any:
    spk, mem1, mem2 = leaky_step(net, x, mem1, mem2)
    return spk, mem2, mem1


def reset_every_third(net: Any, x: Any) -> Any:
    out, mem = [], zero()
    for step in range(12):
        spk, mem = net.lif(net.l1(x), mem if step % 3 else zero())
        out.append(spk)
    return torch.stack(out)


def half_handed(net: Any, x: Any, state: Any = None) -> Any:
    """The current that is left out is the one that the module kept: that of the other use."""
    mem1, mem2 = (zero(), zero()) if state is None else state
    spk1, _, mem1 = net.lif(net.l1(x), mem=mem1)
    spk2, _, mem2 = net.lif(net.l2(spk1), mem=mem2)
    return spk2, (mem1, mem2)


@pytest.mark.parametrize(
    ("make", "forward", "words"),
    [
        (lambda: snn.Leaky(beta=0.8, init_hidden=True), hidden, "called 2 times.*all calls share one state"),
        (leaky, none_first, "called 2 times.*all calls share one state"),
        (norse.LIFCell, anew, "each time with a new state.*returned in the previous time step"),
        (leaky, passed_through, "'lif'"),
        (leaky, one_for_both, "'lif'"),
        (leaky, changed_over, "'lif'"),
        (leaky, reset_every_third, "'lif'.*not the one that it returned before"),
        (lambda: snn.Synaptic(0.5, 0.8), half_handed, "'lif'"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_uses_that_share_a_state_are_refused(make: Any, forward: Forward, words: str) -> None:
    load = from_norse if make is norse.LIFCell else from_snntorch
    with pytest.raises(ModelError, match=words):
        load(module(make, forward), torch.zeros(12))
