"""Fixed-point model, map and Lava program, bit-identical in spikes, u and v: models, structures, random networks.

All pass through the complete pipeline and end in ``verify_network``. Many random networks are combined into one,
because most of the time is spent on starting Lava.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nirbridge.arrays import Array, freeze
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.network import Network, from_nir
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Identity
from nirbridge.pipeline import load_chip, load_network, quantize_plan, verify_network
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe
from nirbridge.testing import networks
from nirbridge.verification.verify import Verification, verification_failures
from tests.cases import cases
from tests.emitters.lava.digits import some_digits
from tests.network.graphs import graph_of, lif, out, port
from tests.pipeline.test_early_spikes import mixed
from tests.simulators.mapped.test_mapped import at_rest, on_chip, small_chip, spikes

NETWORKS, GROUPS, STEPS = 30, 5, 24


def assert_all_equal(found: Verification) -> None:
    """Every spike, u and v of every population, and every output, in all ways; and within the stated bound."""
    assert [(p.a, p.b) for p in found.pairs if p.required] == [("fixed", "mapped"), ("fixed", "lava")]
    assert verification_failures(found) == [], [x for x in found.layers if not x.holds]
    recorded = found.recordings["fixed"].arrays
    for other in ("mapped", "lava"):
        own = found.recordings[other].arrays
        assert set(own) == set(recorded)
        for key, array in recorded.items():
            if array.dtype.kind in "iu":
                assert np.array_equal(own[key], array), (other, key)


def fires(found: Verification, *names: str) -> bool:
    return all(found.recordings["lava"].arrays[name, "s"].any() for name in names)


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_digits(name: str, root: Path, lava_python: Path) -> None:
    """On real images; what Lava decides is what the integers decide."""
    network = load_network(root / "examples" / "models" / f"{name}.nir")
    values, labels = some_digits(network.inputs[0].shape, 3)
    found = verify_network(network, load_chip("loihi1"), values, target="lava", labels=labels)
    assert_all_equal(found)
    output = network.outputs[0].name
    [decided] = [r.decisions for r in found.pairs[2].comparison.rows if r.node == output]
    assert decided is not None
    assert (decided.samples, decided.alike) == (3, 3)
    assert decided.accuracy_a == decided.accuracy_b
    assert decided.right_a == decided.right_b in (2, 3)


def test_a_program_of_one_process_per_core(root: Path, lava_python: Path) -> None:
    """The digits network on cores of 200 neurons: as many processes as pieces, and the same bits as of the whole."""
    network = load_network(root / "examples" / "models" / "digits_cnn.nir")
    chip = small_chip(200, "loihi1")
    found = verify_network(network, chip, target="lava", steps=20, per_core=True)
    assert_all_equal(found)
    assert found.recordings["mapped"].meta["cores"] >= 3
    assert fires(found, *(p.name for p in network.populations))


# -- structures --------------------------------------------------------------------------------------------------------


def residual() -> Network:
    """A block of two convolutions that a skip path goes round."""
    rng = np.random.default_rng(0)

    def conv() -> nir.Conv2d:
        return nir.Conv2d((6, 6), rng.normal(0.1, 0.4, (3, 3, 3, 3)), 1, 1, 1, 1, np.zeros(3))

    nodes = {"in": port(3, 6, 6), "stem": conv(), "a": lif(3, 6, 6, tau=3e-4, r=2.0), "c1": conv()}
    nodes |= {"b": lif(3, 6, 6, tau=3e-4, r=2.0), "c2": conv(), "c": lif(3, 6, 6, tau=3e-4, r=2.0), "out": out(3, 6, 6)}
    edges = [
        ("in", "stem"),
        ("stem", "a"),
        ("a", "c1"),
        ("c1", "b"),
        ("b", "c2"),
        ("c2", "c"),
        ("a", "c"),
        ("c", "out"),
    ]
    return from_nir(graph_of(nodes, edges, dt=1e-4))


def recurrent() -> Network:
    """A loop over a matrix with a delay of its own per neuron, and one through a second population."""
    rng = np.random.default_rng(1)
    late = nir.Delay(np.array([1, 3, 2, 5, 1, 4]) * 1e-4)
    back = nir.Delay(np.full(4, 3e-4))
    nodes = {"in": port(5), "w": nir.Linear(rng.normal(0.4, 0.6, (6, 5))), "a": lif(6, tau=4e-4, r=2.0), "late": late}
    nodes |= {"loop": nir.Linear(rng.normal(0, 0.5, (6, 6))), "to": nir.Linear(rng.normal(0.3, 0.5, (4, 6)))}
    nodes |= {"b": lif(4, tau=2e-4, r=2.0), "back": back, "from": nir.Linear(rng.normal(0, 0.5, (6, 4))), "out": out(4)}
    edges = [("in", "w"), ("w", "a"), ("a", "late"), ("late", "loop"), ("loop", "a"), ("a", "to"), ("to", "b")]
    edges += [("b", "back"), ("back", "from"), ("from", "a"), ("b", "out")]
    return from_nir(graph_of(nodes, edges, dt=1e-4))


def soft_reset() -> Network:
    """IF and LIF that keep what is above the threshold, one of them with several spikes a step."""
    rng = np.random.default_rng(2)
    one = nir.IF(r=np.full(8, 1e4), v_threshold=np.full(8, 0.8))
    one.metadata = {"nirbridge:reset": "subtract"}
    many = lif(5, theta=0.5, tau=4e-4, r=3.0)
    many.metadata = {"nirbridge:reset": "subtract", "nirbridge:max_spikes": 3, "nirbridge:compare": ">="}
    nodes = {"in": port(6), "w": nir.Linear(rng.normal(0.3, 0.5, (8, 6))), "one": one}
    nodes |= {"x": nir.Linear(rng.normal(0.3, 0.4, (5, 8))), "many": many, "out": out(5)}
    edges = [("in", "w"), ("w", "one"), ("one", "x"), ("x", "many"), ("many", "out")]
    return from_nir(graph_of(nodes, edges, dt=1e-4))


def per_neuron() -> Network:
    """Time constants, thresholds and biases of every neuron; a current of its own; a refractory time."""
    rng = np.random.default_rng(3)
    cuba = nir.CubaLIF(
        tau_syn=rng.uniform(2e-4, 9e-4, 7),
        tau_mem=rng.uniform(2e-4, 2e-3, 7),
        r=np.full(7, 4.0),
        v_leak=rng.uniform(0, 0.3, 7),
        v_threshold=rng.uniform(0.4, 1.2, 7),
        w_in=rng.uniform(0.5, 2.0, 7),
    )
    held = nir.LIF(rng.uniform(2e-4, 1e-3, 5), np.full(5, 2.0), np.zeros(5), rng.uniform(0.3, 0.9, 5))
    held.metadata = {"nirbridge:refractory_steps": 2}
    nodes = {"in": port(6), "w": nir.Affine(rng.normal(0.2, 0.5, (7, 6)), rng.normal(0, 0.05, 7)), "cuba": cuba}
    nodes |= {"x": nir.Linear(rng.normal(0.4, 0.5, (5, 7))), "held": held, "out": out(5)}
    edges = [("in", "w"), ("w", "cuba"), ("cuba", "x"), ("x", "held"), ("held", "out")]
    return from_nir(graph_of(nodes, edges, dt=1e-4))


def several_ports() -> Network:
    """Two inputs, three outputs: spikes, spikes summed by the host, and v of a read-out that must not fire."""
    rng = np.random.default_rng(4)
    read = nir.LI(tau=np.full(3, 5e-4), r=np.full(3, 900.0), v_leak=np.zeros(3))
    nodes = {"left": port(4), "right": port(2, 3), "flat": nir.Flatten({"input": np.array([2, 3])}, 0, -1)}
    nodes |= {"l": nir.Linear(rng.normal(0.3, 0.5, (5, 4))), "r": nir.Linear(rng.normal(0.3, 0.5, (5, 6)))}
    nodes |= {"a": lif(5, tau=3e-4, r=2.0), "x": nir.Linear(rng.normal(0, 0.4, (3, 5))), "read": read}
    nodes |= {"sum": nir.Linear(rng.normal(size=(2, 5))), "spikes": out(5), "summed": out(2), "potential": out(3)}
    edges = [("left", "l"), ("l", "a"), ("right", "flat"), ("flat", "r"), ("r", "a"), ("a", "x"), ("x", "read")]
    edges += [("a", "sum"), ("a", "spikes"), ("sum", "summed"), ("read", "potential")]
    return from_nir(graph_of(nodes, edges, dt=1e-4))


def floors() -> Network:
    """Membranes with a floor, one for all and one for each neuron, under inhibition that reaches it."""
    network, rng = per_neuron(), np.random.default_rng(5)
    cuba, held = network.populations
    cuba = replace(cuba, neuron=replace(cuba.neuron, v_min=freeze(rng.uniform(-0.2, 0.0, 7)), reset="subtract"))
    held = replace(held, neuron=replace(held.neuron, v_min=freeze(np.float64(-0.05))))
    return replace(network, populations=(cuba, held))


@pytest.mark.parametrize("make", [residual, recurrent, soft_reset, per_neuron, floors, several_ports])
def test_structures(make: Callable[[], Network], lava_python: Path) -> None:
    network = make()
    inputs = {p.name: drawn(p.shape, k) for k, p in enumerate(network.inputs)}
    found = verify_network(network, load_chip("loihi2"), inputs, target="lava")
    assert_all_equal(found)
    assert fires(found, *(p.name for p in network.populations if p.neuron.fires))
    for port_ in network.outputs:
        assert found.recordings["lava"].arrays[port_.name, "s"].any()


def drawn(shape: tuple[int, ...], seed: int) -> Array:
    return (np.random.default_rng(seed).random((60, *shape)) < 0.35).astype(np.uint8)


def test_graded_input(lava_python: Path) -> None:
    """Values of either sign as whole numbers of 6 bits, beside an input of spikes; one output gives them back."""
    network = several_ports()
    through = Projection("left", "raw", Identity((4,)))
    ports = (*network.outputs, Port("raw", (4,)))
    network = replace(network, outputs=ports, projections=(*network.projections, through))
    values = np.random.default_rng(0).normal(0, 0.4, (60, 4)).clip(-1, 1)
    inputs = {"left": values, "right": drawn((2, 3), 1)}
    options = quantize_plan(network, {"graded": {"left": (1.0, 6)}}, None, {})
    found = verify_network(network, load_chip("loihi2"), inputs, target="lava", quantization=options)
    assert_all_equal(found)
    assert fires(found, "a")
    for way in ("fixed", "mapped", "lava"):
        seen = found.recordings[way].arrays["raw", "s"]
        np.testing.assert_allclose(seen[: len(values)], values, atol=0.5 / 31)  # half of 1/31: whole numbers of 6 bits


@pytest.mark.parametrize("seed", [1, 2])
def test_early_spikes_that_are_kept(seed: int, lava_python: Path) -> None:
    """What fires before its first input fires in the program too, spike for spike."""
    found = verify_network(mixed(seed), load_chip("loihi2"), steps=30, keep_early_spikes=True, target="lava")
    assert_all_equal(found)
    assert sum(found.early_spikes.values()) > 0


# -- random networks ---------------------------------------------------------------------------------------------------


def random_networks(count: int, chip: Chip) -> list[Network]:
    """The first so many random networks that the chip can do and that do something."""
    found: list[Network] = []

    @settings(max_examples=3 * count, phases=[Phase.generate], derandomize=True, deadline=None, database=None)
    @given(networks(), st.integers(0, 2**16))
    def collect(network: Network, seed: int) -> None:
        if len(found) < count and works(at_rest(network, seed), chip):
            found.append(at_rest(network, seed))

    collect()
    assert len(found) == count
    return found


def works(network: Network, chip: Chip) -> bool:
    try:
        q, _ = on_chip(network, chip)
    except (ModelError, DoesNotFit):
        return False
    ran = simulate_fixed(q, spikes(q, STEPS), record=[Probe(p.name, ("s",)) for p in q.populations if p.neuron.fires])
    return any(a.any() for a in ran.recording.arrays.values())


def side_by_side(many: list[Network]) -> Network:
    """Several networks as one that falls apart into them."""

    def own(k: int, values: tuple[Any, ...]) -> tuple[Any, ...]:
        ends = ("source", "target") if values and hasattr(values[0], "source") else ("name",)
        return tuple(replace(x, **{end: f"{k} {getattr(x, end)}" for end in ends}) for x in values)

    parts = {
        name: sum((own(k, getattr(n, name)) for k, n in enumerate(many)), ())
        for name in ("populations", "projections", "inputs", "outputs")
    }
    return replace(many[0], **parts)


@pytest.fixture(scope="module")
def groups() -> list[list[Network]]:
    found = random_networks(NETWORKS, small_chip(12))
    return [found[k :: NETWORKS // GROUPS] for k in range(NETWORKS // GROUPS)]


@pytest.mark.parametrize("group", cases(range(3), range(NETWORKS // GROUPS)))
def test_random_networks_in_all_ways(group: int, groups: list[list[Network]], lava_python: Path) -> None:
    network = side_by_side(groups[group])
    inputs = {p.name: drawn(p.shape, k)[:STEPS] for k, p in enumerate(network.inputs)}
    found = verify_network(network, small_chip(12), inputs, target="lava")
    assert_all_equal(found)
    assert found.recordings["mapped"].meta["cores"] > 1
    for k in range(GROUPS):
        sent = [a for (node, v), a in found.recordings["lava"].arrays.items() if v == "s" and node.startswith(f"{k} ")]
        assert any(a.any() for a in sent)
