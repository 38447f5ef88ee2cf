"""Refusals by a chip, by options and by a file's types: each limit on both sides, each message in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.network.model import Network
from nirbridge.network.storage.codec import fits, hints_of
from nirbridge.quantization import FixedNeuron, FixedPopulation, legality
from nirbridge.quantization.legality import with_known_resets
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.overflow import bounds_of
from nirbridge.quantization.quantize import quantization_problems
from tests.quantization.nets import layer, lif

LOIHI1, LOIHI2, CROSSBAR = (read_chip(name) for name in ("loihi1", "loihi2", "crossbar256"))
OTHERS = "choose a chip that can (crossbar256, halapoint, loihi2), or"


def net(weights: Any = ((0.5, -0.25), (0.25, 0.5)), **own: Any) -> Network:
    return layer(weights, lif(**own))


def told(network: Network, chip: Any, bits: int = 8) -> list[str]:
    return [str(p) for p in legality.feature_problems(network, chip, lambda p: bits)]


SLOW = replace(LOIHI1, numbers=replace(LOIHI1.numbers, dv_max=4094))  # type: ignore[type-var]
TO_1 = "per time step, integers decay by a factor of 0 to 1"
SOFT, NONE = "a soft reset, chip 'loihi1' resets the membrane to a value", "no reset, chip 'loihi1' resets every neuron"
SEVERAL, BELOW = "several spikes per time step", "a threshold below the value that it resets to"
ONE_BIT = "1 bit with both signs holds -256 and 0; give 2 bits or more"
LONG = f"a refractory time of 64 time steps, chip 'loihi1' has at most 63; {OTHERS} make dt larger"
NEURONS: list[tuple[Any, dict[str, Any], list[str]]] = [
    (LOIHI1, {"a_mem": 1.0}, []),
    (LOIHI1, {"a_mem": 0.0}, []),  # 1/4096 is kept in place of nothing
    (SLOW, {"a_mem": [0.5, 0.5 / 4096]}, []),
    (SLOW, {"a_mem": [0.5, 0.25 / 4096]}, ["its membrane is multiplied by 6.10352e-05 per time step, the decays of"]),
    (LOIHI2, {"a_mem": [0.5, 1.25]}, [f"its membrane is multiplied by 1.25 {TO_1}"]),
    (LOIHI2, {"a_mem": [-0.5, 1.25]}, [f"its membrane is multiplied by -0.5 {TO_1}"]),
    (
        LOIHI2,
        {"a_mem": [-0.5, 2.0], "a_syn": -0.125, "kind": "CubaLIF"},
        [f"its membrane is multiplied by 2 {TO_1}", f"its synaptic current is multiplied by -0.125 {TO_1}"],
    ),
    (LOIHI2, {"kind": "CubaLIF", "a_syn": [0.5, 1.0]}, ["its synaptic current never decays, the chip's loses 1/4096"]),
    (LOIHI1, {"reset": "subtract"}, [f"{SOFT}; {OTHERS} train with a reset to a value"]),
    (LOIHI1, {"reset": "none"}, [f"{NONE} that fires; {OTHERS} train with a reset to a value"]),
    (LOIHI1, {"reset": "none", "theta": None, "kind": "LI"}, []),
    (LOIHI1, {"reset": "none", "a_mem": 0.0}, []),
    (LOIHI1, {"reset": "none", "a_mem": [0.0, 0.5]}, [f"{NONE} that fires; {OTHERS} train with a reset to a value"]),
    (
        CROSSBAR,
        {"reset": "subtract", "max_spikes": 1_000},
        ["up to 1,000 spikes per time step, chip 'crossbar256' sends 0"],
    ),
    (LOIHI2, {"max_spikes": 2}, []),
    (LOIHI2, {"max_spikes": 2, "v_reset": [0.0, 0.5]}, [f"{SEVERAL} and a reset to another value than 0; "]),
    (LOIHI2, {"max_spikes": 2, "reset": "subtract", "v_reset": [0.0, 0.5]}, []),
    (LOIHI2, {"max_spikes": 2, "theta": [0.5, 0.0]}, [f"{SEVERAL} with a threshold of 0 or less; "]),
    (LOIHI1, {"refractory_steps": [1, 63]}, []),
    (LOIHI1, {"refractory_steps": [1, 64]}, [LONG]),
    (LOIHI1, {"theta": [0.5, 0.0]}, []),
    (LOIHI1, {"theta": [0.5, 0.25], "v_reset": 0.25}, []),
    (
        LOIHI1,
        {"theta": [0.5, 0.25], "v_reset": 0.375},
        [f"{BELOW}, chip 'loihi1' has thresholds from 0 up; {OTHERS} train"],
    ),
]


@pytest.mark.parametrize(("chip", "own", "lines"), NEURONS)
def test_what_the_neurons_of_a_chip_cannot_do(chip: Any, own: dict[str, Any], lines: list[str]) -> None:
    given = {key: np.asarray(value) if isinstance(value, list) else value for key, value in own.items()}
    found = told(net(**{"a_mem": 0.5, **given}), chip)
    assert len(found) == len(lines)
    for line, start in zip(found, lines, strict=True):
        assert line.startswith(f"population 'p': {start}")


@pytest.mark.parametrize(
    ("chip", "bits", "weights", "lines"),
    [
        (LOIHI1, 8, [[0.5, -1.0]], []),
        (LOIHI1, 7, [[0.5]], ["weights of 7 bits, chip 'loihi1' has 1, 2, 3, 4, 5, 6, 8; choose one of these"]),
        (LOIHI1, 1, [[0.5, 0.25]], []),
        (LOIHI1, 1, [[0.5, -0.25]], [f"weights of both signs, {ONE_BIT}"]),
        (LOIHI1, 2, [[0.5, -0.25]], []),
    ],
)  # fmt: skip
def test_widths_that_a_chip_stores(chip: Any, bits: int, weights: Any, lines: list[str]) -> None:
    assert told(net(weights, a_mem=0.5), chip, bits) == [f"projection 'in' -> 'p': {line}" for line in lines]


def refused(options: QuantizationOptions, steps: Any = 1, chip: Any = LOIHI1, late: Any = 0) -> list[str]:
    base = net(a_mem=0.5)
    first = replace(
        base.projections[0], delay_steps=freeze(np.asarray(steps)), target_delay_steps=freeze(np.asarray(late))
    )
    network = replace(base, projections=(first, *base.projections[1:]))
    return [str(p) for p in quantization_problems(network, chip, options)]


RETIME = "every hop on a chip takes a time step; retime the network first (passes.Retime)"
LONGER = (
    "a hop of chip 'loihi1' and its synapse delay by at most 63 time steps; retime the network with "
    "delay_steps_max (passes.Retime)"
)


@pytest.mark.parametrize(
    ("steps", "late", "line"),
    [
        ([1, 63], 0, None),
        ([1, 64], 0, f"a delay of 64 time steps, {LONGER}"),
        ([0, 64], 0, f"a delay of 0 time steps, {RETIME}"),
        (1, [0, 1], f"a delay per target, {RETIME}"),
        (0, [0, 1], f"a delay per target, {RETIME}"),
    ],
)
def test_delays_that_a_hop_and_a_synapse_hold(steps: Any, late: Any, line: str | None) -> None:
    assert refused(QuantizationOptions(), steps, late=late) == (
        [] if line is None else [f"projection 'in' -> 'p': {line}"]
    )
    if steps == [1, 64]:
        free = replace(LOIHI1, core=replace(LOIHI1.core, delay_steps=None))
        assert refused(QuantizationOptions(), steps, free) == []


SIZES = "sizes are above 0, bits 2 to 24"
CODE = (
    "graded values, chip 'loihi1' sends 0 or 1; turn values into spikes first "
    "(simulators.encoders: rate or latency code)"
)

NO_INPUT = "input 'p': the network has no input of that name, its inputs are 'in'"


@pytest.mark.parametrize(
    ("own", "chip", "lines"),
    [
        ({"scales": {"p": 1e-9}}, LOIHI1, []),
        ({"scales": {"p": 0.0}}, LOIHI1, ["scale of 'p': 0, a number above 0, of a population of the network"]),
        ({"scales": {"p": np.inf}}, LOIHI1, ["scale of 'p': inf, a number above 0, of a population of the network"]),
        ({"scales": {"in": 2.0}}, LOIHI1, ["scale of 'in': 2, a number above 0, of a population of the network"]),
        ({"graded": {"in": (0.5, 2)}}, LOIHI2, []),
        ({"graded": {"in": (0.5, 24)}}, LOIHI2, []),
        ({"graded": {"in": (0.5, 1)}}, LOIHI2, [f"input 'in': values up to 0.5 in 1 bit, {SIZES}"]),
        ({"graded": {"in": (0.5, 25)}}, LOIHI2, [f"input 'in': values up to 0.5 in 25 bits, {SIZES}"]),
        ({"graded": {"in": (0.0, 8)}}, LOIHI2, [f"input 'in': values up to 0 in 8 bits, {SIZES}"]),
        ({"graded": {"in": (np.nan, 8)}}, LOIHI2, [f"input 'in': values up to nan in 8 bits, {SIZES}"]),
        ({"graded": {"p": (1.0, 8)}}, LOIHI2, [NO_INPUT]),
        ({"graded": {"in": (1.0, 8)}}, LOIHI1, [f"input 'in': {CODE}"]),
        ({"weight_bits": {"in": 8}}, LOIHI1, ["weight_bits of 'in': the network has no such population or projection"]),
        ({"weight_bits": {"in -> p": 8, "p": 8, "*": 8}}, LOIHI1, []),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(own: dict[str, Any], chip: Any, lines: list[str]) -> None:
    assert refused(QuantizationOptions(**own), chip=chip) == lines


@pytest.mark.parametrize(
    ("own", "chip", "reset"),
    [
        ({"reset": "none", "a_mem": 0.0}, LOIHI1, "to-value"),
        ({"reset": "subtract", "a_mem": 0.0}, LOIHI1, "to-value"),
        ({"reset": "none", "a_mem": 0.5}, LOIHI1, "none"),
        ({"reset": "none", "a_mem": 0.0}, LOIHI2, "none"),
        ({"reset": "subtract", "a_mem": 0.0}, LOIHI2, "subtract"),
        ({"reset": "none", "a_mem": 0.0, "theta": None, "kind": "LI"}, LOIHI1, "none"),
    ],
)
def test_resets_of_neurons_without_memory_are_known_ones(own: Any, chip: Any, reset: str) -> None:
    network = net(**own, v_reset=0.5)
    made = with_known_resets(network, chip)
    assert made.populations[0].neuron.reset == reset
    assert (made is network) == (reset == own["reset"])
    if made is not network:
        assert made.populations[0].neuron.v_reset == 0.0
        waits = with_known_resets(net(**own, v_reset=0.5, refractory_steps=np.array([0, 1])), chip)
        assert waits.populations[0].neuron.v_reset == 0.5


@dataclass(frozen=True)
class Some:
    a: int = 0
    b: float | None = None


FITS: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [0, -(2**53), 2**53], [2**53 + 1, -(2**53) - 1, True, 1.0, "1", None]),
    (float, [0.5, 3, 2**53, -1e300], [2**53 + 1, np.inf, np.nan, True, "1", None]),
    (bool, [True, False], [0, 1.0, None]),
    (str, ["", "x"], [1, b"x", None]),
    (type(None), [None], [0, ""]),
    (Any, [None, 1, "x"], []),
    (float | None, [None, 1.5], ["x", np.nan]),
    (Literal["a", "b"], ["a", "b"], ["c", 1, None]),
    (tuple[int, ...], [(), (1, 2)], [(1, "x"), ("x", 1), [1], 1]),
    (tuple[int, str], [(1, "x")], [(1,), (1, "x", 2), ("x", 1), ()]),
    (Mapping[str, int], [{}, MappingProxyType({}), {"a": "b"}], [[], 1]),
    (np.ndarray, [np.zeros(1)], [[0], 0]),
    (Some, [Some()], [{}, 1]),
]


@pytest.mark.parametrize(("hint", "right", "wrong"), FITS)
def test_values_are_of_their_declared_types(hint: Any, right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in right if not fits(value, hint)] == []
    assert [value for value in wrong if fits(value, hint)] == []


def test_declared_types_are_read_through_their_text() -> None:
    assert hints_of(Some) == {"a": int, "b": float | None}


def bounds(a_low: int, a_high: int, **own: Any) -> Any:
    whole = {
        k: freeze(np.int64(v)) if isinstance(v, int) and k not in ("max_spikes", "v_bits") else v
        for k, v in own.items()
    }
    usual: dict[str, Any] = dict.fromkeys(
        ("bias_mant", "reset_amount", "refractory_steps", "v_init", "u_init"), freeze(np.int64(0))
    )
    usual |= {"du": freeze(np.int64(4095)), "dv": freeze(np.int64(0)), "fires_above": freeze(np.int64(640))}
    usual |= {"bias_exp": 0, "reset": "zero", "max_spikes": 1, "spike_size": freeze(np.int64(640))}
    real = {"scale": freeze(np.float64(1)), "v_offset": freeze(np.float64(0))}
    p = FixedPopulation("p", (1,), FixedNeuron(**{**usual, **real, **whole}), "custom")
    found = bounds_of(p, np.array([a_low]), np.array([a_high]))
    return found.u, found.v, found.v_steps


LAST = 2**23 - 1


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        # u of one step; v: the threshold and one step above, nothing below without negative input
        (bounds(0, 3), ((0, 192), (0, 640 + 192), None)),
        (bounds(-3, 0), ((-192, 0), (-LAST, 640), LAST // 192)),
        (bounds(-3, 3, dv=2048), ((-192, 192), (-384, 832), None)),
        (bounds(-3, 3, dv=4096), ((-192, 192), (-192, 832), None)),
        (bounds(-3, 3, du=2047, dv=4096), ((-384, 384), (-384, 1024), None)),
        (bounds(-1, 1, du=2999, dv=4096), ((-88, 88), (-88, 728), None)),  # 64 * 4096 / 3000 = 87.4
        (bounds(0, 1, du=4095, u_init=100), ((0, 100), (0, 740), None)),
        (bounds(-1, 0, du=4095, u_init=-100, dv=4096), ((-100, 0), (-100, 640), None)),
        (bounds(0, 3, bias_mant=8), ((0, 192), (0, 840), None)),
        (bounds(0, 3, bias_mant=-8), ((0, 192), (-LAST, 824), LAST // 8)),
        (bounds(0, 3, v_init=700), ((0, 192), (0, 892), None)),
        (bounds(0, 3, fires_above=-64), ((0, 192), (0, 192), None)),
        (bounds(0, 3, fires_above=None), ((0, 192), (0, LAST), LAST // 192)),
        (bounds(0, 3, reset="none"), ((0, 192), (0, LAST), LAST // 192)),
        (bounds(0, 3, reset="none", v_init=-700), ((0, 192), (-700, LAST), LAST // 192)),
        (bounds(0, 3, reset="subtract", reset_amount=192), ((0, 192), (0, 832), None)),
        (bounds(0, 3, reset="subtract", reset_amount=191), ((0, 192), (0, LAST), LAST // 192)),
        (bounds(0, 3, reset="subtract", reset_amount=700), ((0, 192), (-60, 832), None)),
        (bounds(0, 3, reset="subtract", reset_amount=700, max_spikes=2), ((0, 192), (-120, 832), None)),
        (bounds(0, 10, reset="subtract", reset_amount=640, max_spikes=2), ((0, 640), (0, 1280), None)),
        (bounds(0, 20, reset="subtract", reset_amount=640, max_spikes=2), ((0, 1280), (0, LAST), LAST // 1280)),
        (bounds(0, 20, reset="subtract", reset_amount=640, max_spikes=3), ((0, 1280), (0, 1920), None)),
        (bounds(0, 3, reset="none", v_bits=10), ((0, 192), (0, 511), 2)),
        (bounds(0, 9, reset="none", v_bits=10), ((0, 576), (0, 511), 1)),
        (bounds(0, 0), ((0, 0), (0, 640), None)),
        (bounds(-3, 3, reset="none", v_bits=10, v_init=200), ((-192, 192), (-511, 511), 1)),
    ],
)
def test_bounds_of_one_neuron_by_hand(given: Any, wanted: Any) -> None:
    assert given == wanted
