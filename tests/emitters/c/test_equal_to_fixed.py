"""Compiled C programs and the fixed-point simulator: every spike, u and v of every population."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge.emitters.c.emit import C
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.network.model import Network
from nirbridge.network.operators import Dense
from nirbridge.pipeline import load_chip, load_network, verify_network
from nirbridge.quantization.model import FixedInput
from nirbridge.quantization.overflow import OutputRange, input_bounds, prove
from nirbridge.simulators.types import Probe
from nirbridge.testing import networks
from nirbridge.verification.verify import verification_failures
from tests.cases import cases
from tests.emitters.c.programs import (
    assert_equal_to_fixed,
    random_inputs,
    random_networks,
    whole,
    wide_matrices,
)
from tests.emitters.hand_made import conv, dense, ints, neuron, population, projection, quantized, sparse

FILES = {"cnn_sinabs": "02_cnn/cnn_sinabs.nir", "braille": "03_rnn/braille_noDelay_bias_zero.nir"}


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
@pytest.mark.parametrize("chip", ["loihi1", "loihi2"])
def test_digits(name: str, chip: str, root: Path) -> None:
    network = load_network(root / "examples" / "models" / f"{name}.nir")
    found = verify_network(network, load_chip(chip), target="c", steps=40)
    assert verification_failures(found) == []
    assert found.recordings["c"].arrays[network.outputs[0].name, "s"].any()


@pytest.mark.parametrize("name", list(FILES))
def test_models_of_the_paper(name: str, root: Path) -> None:
    path = root.parent / "shared" / "data" / "nir_paper" / FILES[name]
    if not path.exists():
        pytest.skip(f"{path.name} is not there: real files lie beside the checkout")
    found = nb.quantize(path, "loihi2")
    arrays = assert_equal_to_fixed(found, random_inputs(found, 25, samples=1))
    assert all(a.any() for (name, v), a in arrays.items() if v == "s" and a.ndim > 2)


@pytest.mark.parametrize("first", cases(range(0, 40, 20), range(0, 100, 20)))
def test_random_networks(first: int) -> None:
    """Networks of all neurons, synapses, delays, loops and shifts to both sides, twenty in a program."""
    one = random_networks(range(first, first + 20))
    arrays = assert_equal_to_fixed(one, random_inputs(one, 25, seed=first))
    assert sum(a.any() for (_, v), a in arrays.items() if v == "s") > 20


@settings(max_examples=12, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
@given(networks(), st.sampled_from(["loihi1", "loihi2"]))
def test_random_nir_graphs(network: Network, chip: str) -> None:
    try:
        found = verify_network(network, load_chip(chip), target="c", steps=16)
    except (ModelError, DoesNotFit):
        return  # nothing that this chip computes
    assert verification_failures(found) == []


def test_graded_inputs_read_outs_floors_and_values_per_neuron() -> None:
    """An image of whole numbers, a readout that drives another population, floors, and one parameter per row."""
    rng = np.random.default_rng(1)
    image = FixedInput("image", (2, 5, 4), value_max=100, scale=0.25)
    by_row = np.repeat([[[300]], [[900]], [[0]]], 20, axis=1).reshape(3, 5, 4)
    floors = {"v_min": rng.integers(-900, -100, (3, 5, 4)), "reset": "subtract", "reset_amount": by_row + 2000}
    first = population("first", (3, 5, 4), neuron(dv=by_row, bias_mant=by_row, **floors))
    silent = population("silent", (4,), neuron(du=3000, fires_above=None))
    last = population("last", (4,), neuron(du=700, dv=4096, fires_above=3000, max_spikes=3, spike_size=500))
    q = quantized(
        [image, FixedInput("button", (3,))],
        [first, silent, last],
        [
            projection("image", "first", conv(rng, (2, 5, 4), 3, (3, 3))),
            projection("first", "silent", sparse(rng, (3, 5, 4), (4,))),
            projection("button", "silent", dense(rng, 4, 3), delay_steps=[1, 4, 2]),
            projection("silent", "last", dense(rng, 4, 4, 3), weight_exp=-5),
            projection("last", "last", dense(rng, 4, 4, 12), delay_steps=9),
        ],
        ["first", "silent", "last"],
    )
    arrays = assert_equal_to_fixed(whole(q), random_inputs(q, 40))
    assert arrays["last", "s"].max() == 3
    assert (arrays["first", "v"] == np.broadcast_to(floors["v_min"], (3, 5, 4))).any()
    assert arrays["silent", "v"].min() < 0 < arrays["silent", "v"].max()
    assert_equal_to_fixed(whole(q), random_inputs(q, 10), None)  # the outputs alone


@pytest.mark.parametrize("settings_", [{"stride": (2, 3)}, {"dilation": (2, 1)}, {"stride": (2, 2), "dilation": (2, 3)},
                                       {"padding": ((0, 2), (3, 1))}])  # fmt: skip
def test_convolutions(settings_: dict[str, tuple[int, ...]]) -> None:
    rng = np.random.default_rng(3)
    operator = conv(rng, (4, 9, 8), 6, (3, 2), groups=2, **settings_)
    p = population("p", operator.output_shape, neuron())
    q = whole(quantized([FixedInput("in", (4, 9, 8))], [p], [projection("in", "p", operator)], ["p"]))
    assert assert_equal_to_fixed(q, random_inputs(q, 12))["p", "s"].any()


def test_rows_of_a_matrix_in_groups() -> None:
    q = wide_matrices()
    assert len(re.findall("static void nb_s[0-9]+_events", C.emit(q).files["model.c"].decode())) == 4  # not by delays
    arrays = assert_equal_to_fixed(q, random_inputs(q, 60))
    assert all(arrays[name, "s"].any() for name in ("plain", "large", "huge"))
    assert abs(arrays["huge", "v"]).max() > 2**33


def test_sums_of_more_than_32_bits() -> None:
    """Wide accumulators and potentials: 64-bit state, and values that wrap and saturate there."""
    rng = np.random.default_rng(5)
    wide = replace(neuron(du=100, dv=3, fires_above=1 << 37), u_bits=40, v_bits=41)
    p = population("p", (6,), wide)
    operator = dense(rng, 6, 5, 60)
    big = FixedInput("in", (5,), value_max=1 << 20)
    q = whole(quantized([big], [p], [projection("in", "p", operator, weight_exp=6)], ["p"]))
    arrays = assert_equal_to_fixed(q, random_inputs(q, 200))
    assert abs(arrays["p", "v"]).max() > 2**36
    assert arrays["p", "s"].any()


@pytest.mark.parametrize(("most", "field"), [(32767, "int16_t sums16[2]"), (32768, "int32_t sums32[2]")])
def test_sums_take_16_bits_where_their_bounds_fit(most: int, field: str) -> None:
    """Inputs of two projections reach the bounds, in units of their weights of 2."""
    ports = [FixedInput("a", (1,), value_max=most - 1000), FixedInput("b", (1,), value_max=1000)]
    p = population("p", (2,), neuron(du=4095, dv=4095, fires_above=1 << 23))
    edges = [projection(port.name, "p", Dense(ints([[2], [-2]]))) for port in ports]
    q = whole(quantized(ports, [p], edges, ["p"]))
    ends = {x.name: np.array([[[k * x.value_max]] for k in (1, -1, 0, 1)]) for x in ports}
    arrays = assert_equal_to_fixed(q, ends)
    assert abs(arrays["p", "u"]).max() == 2 * most << 6
    assert field in C.emit(q).files["model.h"].decode()


def test_a_readout_that_drives_needs_wider_sums() -> None:
    """A readout sends its potential, not 0 or 1: sums of it exceed 32 bits where sums of spikes would not."""
    rng = np.random.default_rng(3)
    silent = population("silent", (6,), neuron(dv=0, bias_mant=30_000, fires_above=None))
    last = population("last", (3,), neuron(du=100, dv=300, fires_above=1 << 20))
    edges = [projection("in", "silent", dense(rng, 6, 4)), projection("silent", "last", dense(rng, 3, 6, 60))]
    q = whole(quantized([FixedInput("in", (4,))], [silent, last], edges, ["last"]))
    assert prove(q)["last"].a_in[1] > 2**25
    assert_equal_to_fixed(q, random_inputs(q, 60))


def test_currents_that_leave_their_register() -> None:
    """A drive of more than 2 to the u_bits is not taken back by the wrap: the current grows beyond 32 bits."""
    rng = np.random.default_rng(6)
    p = population("p", (3,), replace(neuron(du=1, dv=4096, fires_above=1 << 20), u_bits=16))
    edge = projection("in", "p", dense(rng, 3, 8, 60), weight_exp=12)
    q = whole(quantized([FixedInput("in", (8,))], [p], [edge], ["p"]))
    assert_equal_to_fixed(q, random_inputs(q, 80))


def test_refractory_periods_of_more_than_16_bits() -> None:
    rng = np.random.default_rng(4)
    p = population("p", (5,), neuron(refractory_steps=[0, 1, 1 << 16, (1 << 16) + 3, 3]))
    q = whole(quantized([FixedInput("in", (4,))], [p], [projection("in", "p", dense(rng, 5, 4, 60))], ["p"]))
    spikes = assert_equal_to_fixed(q, random_inputs(q, 60))["p", "s"].sum(axis=(0, 1))
    assert spikes[2] == spikes[3] == 2
    assert spikes[4] > 4


def test_probes_and_samples() -> None:
    one = random_networks([3])
    inputs = random_inputs(one, 20)
    name = one.populations[0].name
    record = [Probe(name, ("s",), every=3), Probe(one.outputs[0].name, ("s",)), Probe(name, ("count",))]
    assert_equal_to_fixed(one, inputs, record)
    single = {key: values[:, 0] for key, values in inputs.items()}
    assert C.run(C.emit(one), single).arrays[one.outputs[0].name, "s"].ndim == 2
    assert ints(0) == 0


def test_bounds_of_a_sum_that_is_shifted_to_the_right() -> None:
    """Sums are bounded before neurons see them; a shift to the right rounds down, and shrinks both ends."""
    p = projection("in", "p", dense(np.random.default_rng(2), 6, 9), weight_exp=-3)
    low, high = input_bounds(p, OutputRange(0, 1))
    plain_low, plain_high = input_bounds(replace(p, weight_exp=0), OutputRange(0, 1))
    assert low.tolist() == [int(x) // 8 for x in plain_low]
    assert high.tolist() == [int(x) // 8 for x in plain_high]
    assert high.any()
