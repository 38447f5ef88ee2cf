"""Integers beyond the registers of Lava: each limit on both sides, each message in full."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.emitters.lava.plan.fixed import population_slice, split_by_core, synapses_between
from nirbridge.emitters.lava.plan.processes import lava_layer, lava_synapse, register_problems, synapse_problems, v_max
from nirbridge.emitters.program import ProcessPart
from nirbridge.errors import ModelError
from nirbridge.network.apply import matrix
from nirbridge.network.operators import Conv, Dense, Sparse
from nirbridge.quantization.model import FixedInput, FixedNeuron
from tests.emitters import hand_made as made

AGAIN = "quantize it again"


def told(n: Any, process: str = "custom") -> list[str]:
    found = [str(p) for p in register_problems(replace(made.population("p", (2,), n), process=process))]  # type: ignore[arg-type]
    assert all(line.startswith("population 'p': ") for line in found)
    return [line.removeprefix("population 'p': ") for line in found]


NO_LIF = (
    "is marked as a plain LIF, but is not one, one du, dv and vth, reset to zero, no refractory time, no floor; "
    "mark it 'custom'"
)
REGISTERS: list[tuple[str, int, int, str]] = [
    ("du", 0, 4_095, "custom"),
    ("dv", 0, 4_096, "custom"),
    ("dv", 0, 4_095, "lif"),
    ("bias_mant", -4_096, 4_095, "custom"),
    ("bias_exp", 0, 7, "custom"),
    ("v_init", -8_388_607, 8_388_607, "custom"),
    ("u_init", -8_388_607, 8_388_608, "custom"),
    ("refractory_steps", 0, 2_147_483_647, "custom"),
]


@pytest.mark.parametrize(("field", "low", "high", "process"), REGISTERS)
def test_one_integer_beyond_its_register(field: str, low: int, high: int, process: str) -> None:
    one = field == "bias_exp" or process == "lif"
    for value in (low, high):
        assert told(made.neuron(**{field: value if one else [low, value]}), process) == []
    for value in (low - 1, high + 1):
        shown = (value, value) if one else (min(low, value), max(low, value))
        wanted = f"{field} from {shown[0]:,} to {shown[1]:,}, the register holds {low:,} to {high:,}; {AGAIN}"
        if field != "bias_exp" or value >= 0:
            assert told(made.neuron(**{field: value if one else [low, value]}), process) == [
                wanted,
                *([NO_LIF] if process == "lif" and value > high else []),
            ]


def test_registers_of_other_widths() -> None:
    wide = replace(made.neuron(v_init=[511, -511], u_init=[64, -63], bias_mant=[5, -511]), v_bits=10, u_bits=7)
    assert told(wide) == []
    assert told(replace(wide, v_bits=32, u_bits=32)) == []
    assert told(replace(wide, u_bits=33)) == [f"width of u and v from 10 to 33, the register holds 1 to 32; {AGAIN}"]
    assert told(replace(wide, bias_mant=made.ints([0, 512]))) == [
        f"bias from 0 to 512, the register holds -511 to 511; {AGAIN}"
    ]
    assert told(replace(wide, v_init=made.ints([0, -512]), u_init=made.ints([65, 0]))) == [
        f"v_init from -512 to 0, the register holds -511 to 511; {AGAIN}",
        f"u_init from 0 to 65, the register holds -63 to 64; {AGAIN}",
    ]


@pytest.mark.parametrize(
    ("own", "lines"),
    [
        ({}, []),
        ({"fires_above": None, "reset": "none"}, []),
        ({"fires_above": 131_071 << 6}, []),
        ({"fires_above": 131_072 << 6}, [f"vth from 131,072 to 131,072, the register holds 0 to 131,071; {AGAIN}"]),
        ({"fires_above": -64}, [f"vth from -1 to -1, the register holds 0 to 131,071; {AGAIN}", NO_LIF]),
        ({"fires_above": 65}, [NO_LIF]),
        ({"fires_above": [64, 64]}, [NO_LIF]),
        ({"du": [1, 1]}, [NO_LIF]),
        ({"dv": [1, 1]}, [NO_LIF]),
        ({"reset": "subtract"}, [NO_LIF]),
        ({"max_spikes": 2}, [NO_LIF]),
        ({"refractory_steps": [0, 1]}, [NO_LIF]),
    ],
)
def test_a_plain_lif_is_one(own: dict[str, Any], lines: list[str]) -> None:
    assert told(made.neuron(**own), "lif") == lines
    if lines in ([], [NO_LIF]):
        assert told(made.neuron(**own)) == []


@pytest.mark.parametrize(
    ("own", "process", "proved", "wanted"),
    [
        ({}, "lif", None, "LIF"),
        ({}, "custom", None, "IntegerNeuron"),
        ({"fires_above": None}, "lif", None, "IntegerNeuron"),
        ({"fires_above": None}, "lif", 131_071 << 6, "LIF"),
        ({"fires_above": None}, "lif", (131_071 << 6) + 1, "IntegerNeuron"),
    ],
)
def test_lavas_own_neuron_where_it_does_the_same(own: Any, process: Any, proved: int | None, wanted: str) -> None:
    p = replace(made.population("p", (2,), made.neuron(bias_mant=[1, 2], v_init=[3, 3], **own)), process=process)
    found = lava_layer("id", p, proved)
    assert (found.id, found.process, found.shape) == ("id", wanted, (2,))
    assert found.arguments["v"] == 3
    if wanted == "LIF":
        keys = {k: found.arguments[k] for k in ("du", "dv", "vth", "bias_exp", "u")}
        assert keys == {"du": 4095, "dv": 400, "vth": 131_071 if own else 64, "bias_exp": 0, "u": 0}
        assert np.asarray(found.arguments["bias_mant"]).tolist() == [1, 2]
    assert lava_layer("id", replace(p, neuron=replace(p.neuron, v_bits=23)), proved).process == "IntegerNeuron"


def test_the_greatest_v_is_the_proved_one_of_that_population() -> None:
    entries = [
        SimpleNamespace(population=name, bounds=SimpleNamespace(proved=proved, v=(-5, top)))
        for name, proved, top in (("a", True, 1), ("b", False, 2), ("c", True, 3))
    ]
    q: Any = SimpleNamespace(report=entries)
    assert [v_max(q, name) for name in ("a", "b", "c", "d")] == [1, None, 3, None]


def way(operator: Any = None, **own: Any) -> Any:
    return made.projection("a", "b", operator or Dense(made.ints([[2, -4], [6, 0]])), **own)


RELAYS = "steps, at most 64; retime it with relay populations"
OF_IT = f"8 mixed bits hold multiples of it; {AGAIN}"
ON_ITS_OWN = "Lava truncates the input of each delay separately, not their sum; quantize it with an exponent of 0"
SYNAPSES: list[tuple[Any, list[str]]] = [
    (way(), []),
    (way(Dense(made.ints([[254, -256]]))), []),
    (way(Dense(made.ints([[256, 0]]))), [f"weights from 0 to 256, mixed weights are -256 to 254; {AGAIN}"]),
    (way(Dense(made.ints([[0, -258]]))), [f"weights from -258 to 0, mixed weights are -256 to 254; {AGAIN}"]),
    (way(Dense(made.ints([[2, 3]]))), [f"weights that are not multiples of 2, {OF_IT}"]),
    (way(delay_steps=[1, 64]), []),
    (way(delay_steps=[1, 60], target_delay_steps=[0, 5]), [f"a delay of 65 {RELAYS}"]),
    (way(delay_steps=[0, 3]), ["a delay of 0 time steps, a synaptic process takes one time step; retime the network "
                                 "first"]),
    (way(delay_steps=[0, 3], target_delay_steps=[1, 2]), []),
    (way(delay_steps=3, weight_exp=-1), []),
    (way(delay_steps=[1, 2], weight_exp=0), []),
    (
        way(delay_steps=[1, 2], weight_exp=-1),
        [f"uneven delays and a negative exponent, {ON_ITS_OWN}"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("p", "lines"), SYNAPSES)
def test_one_weight_or_delay_that_lava_would_cut(p: Any, lines: list[str]) -> None:
    assert [str(x) for x in synapse_problems(p)] == [f"projection 'a' to 'b': {line}" for line in lines]


CONV = Conv(made.ints(2 * np.arange(12).reshape(2, 1, 2, 3)), (1, 1), ((1, 1), (0, 0)), (1, 1), 1, (1, 4, 5))


@pytest.mark.parametrize(
    ("own", "bits", "wanted"),
    [
        ({}, 0, "Conv"),
        ({}, 5, "Conv"),
        ({"weight_exp": 1}, 5, "Sparse"),
        ({"delay_steps": 2}, 5, "DelaySparse"),
        ({"operator": replace(CONV, padding=((1, 0), (0, 0)))}, 0, "Sparse"),
        ({"operator": replace(CONV, padding=((127, 127), (0, 0)))}, 0, "Conv"),
        ({"operator": replace(CONV, padding=((128, 128), (0, 0)))}, 0, "Sparse"),
        ({"operator": way().operator}, 3, "Dense"),
        ({"operator": way().operator, "delay_steps": 4}, 0, "DelayDense"),
    ],
)
def test_the_process_of_a_projection(own: dict[str, Any], bits: int, wanted: str) -> None:
    p = way(**{"operator": CONV, **own})
    found = lava_synapse("s", p, ("x", "y"), (p.operator.input_shape, p.operator.output_shape), bits)
    assert (found.process, found.source, found.target) == (wanted, "x", "y")
    assert found.arguments.get("num_message_bits", 0) == bits
    if wanted == "DelayDense":
        assert found.arguments["delays"] == 3


def small() -> Any:
    rng = np.random.default_rng(0)
    populations = [made.population("a", (2, 3), made.neuron(dv=np.arange(6).reshape(2, 3)))]
    return made.quantized(
        [FixedInput("in", (4,))], populations, [made.projection("in", "a", made.dense(rng, 6, 4))], ["a"]
    )


def cut(*boxes: Any, name: str = "a") -> list[Any]:
    return [SimpleNamespace(population=name, box=box) for box in boxes]


def test_a_map_is_cut_as_it_says() -> None:
    found = split_by_core(small(), cut(((0, 2), (0, 1)), ((0, 1), (1, 3)), ((1, 2), (1, 3))))
    assert [at.tolist() for at in found["a"] if at is not None] == [[0, 3], [1, 2], [4, 5]]
    piece = population_slice(small().populations[0], found["a"][0])
    assert (piece.shape, piece.neuron.dv.tolist(), piece.neuron.du.tolist()) == ((2,), [0, 3], 4095)
    whole = small().populations[0]
    assert population_slice(whole, None) is whole


@dataclass(frozen=True, slots=True, eq=False)
class Inner:
    """A record within a neuron."""

    each: Any
    one: Any


@dataclass(frozen=True, slots=True, eq=False)
class Odd(FixedNeuron):
    """A neuron with a field that Lava's plan does not know."""

    inner: Inner | None = None


def test_a_slice_has_every_array_of_a_neuron() -> None:
    whole = small().populations[0]
    values = {f.name: getattr(whole.neuron, f.name) for f in fields(whole.neuron)}
    odd = Odd(**values, inner=Inner(np.arange(whole.size).reshape(whole.shape), np.int64(7)))
    inner = population_slice(replace(whole, neuron=odd), np.array([1])).neuron.inner  # type: ignore[attr-defined]
    assert (inner.each.tolist(), int(inner.one)) == ([1], 7)


@pytest.mark.parametrize(
    ("pieces", "found"),
    [
        (cut(((0, 2), (0, 3)), name="z"), "has a population 'z'"),
        (cut(((0, 2), (0, 2))), "does not cover population 'a'"),
        (cut(((0, 2), (0, 3)), ((0, 1), (0, 1))), "does not cover population 'a'"),
        (cut(((0, 1), (0, 3)), ((0, 1), (0, 3))), "does not cover population 'a'"),
        ([], "does not cover population 'a'"),
    ],
)
def test_a_map_of_another_network(pieces: list[Any], found: str) -> None:
    with pytest.raises(ModelError, match=f"^map: {found}; map this network$"):
        split_by_core(small(), pieces)


def test_synapses_go_between_the_pieces_that_share_some() -> None:
    some = Sparse(made.ints([0, 2, 3, 4]), made.ints([0, 2, 2, 0]), made.ints([2, 4, 6, 8]), (3,), (3,))
    p = way(some, delay_steps=[1, 2, 3], target_delay_steps=[0, 1, 2])
    left, right = ProcessPart("l", freeze(np.array([0, 1]))), ProcessPart("r", freeze(np.array([2])))
    top, low = ProcessPart("t", freeze(np.array([0, 1]))), ProcessPart("b", freeze(np.array([2])))
    found = {(s, t): q for q, s, t in synapses_between(p, (left, right), (top, low))}
    assert list(found) == [("l", "t"), ("r", "t"), ("l", "b")]  # from r to b there is none
    weights = [matrix(q.operator).toarray().tolist() for q in found.values()]
    assert weights == [[[2, 0], [0, 0]], [[4], [6]], [[8, 0]]]
    assert [q.delay_steps.tolist() for q in found.values()] == [[1, 2], [3], [1, 2]]
    assert [q.target_delay_steps.tolist() for q in found.values()] == [[0, 1], [0, 1], [2]]
    whole = replace(p, operator=Dense(made.ints([[2, 0, 4], [0, 0, 6], [8, 0, 0]])))  # a dense one stores its zeros
    cuts = {(s, t): q.operator for q, s, t in synapses_between(whole, (left, right), (top, low))}
    assert [np.asarray(op.weight).tolist() for op in cuts.values() if isinstance(op, Dense)] == [*weights, [[0]]]
    assert [(q is p, s, t) for q, s, t in synapses_between(p, (ProcessPart("x"),), (ProcessPart("y"),))] == [
        (True, "x", "y")
    ]
