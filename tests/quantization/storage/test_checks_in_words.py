# ruff: noqa: E501  (tables of messages read better in one line)
"""Problems of quantized networks in words, invalid records, and the stated bound of a layer."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Chain, Dense, Scale
from nirbridge.network.storage.codec import fits
from nirbridge.quantization import FixedInput, FixedPopulation, FixedProjection, quantize, v_bounds
from nirbridge.quantization.error_bounds import RoundingLoss, WeightLoss, _arrived, _delayed, report_bound
from nirbridge.quantization.model import AccumulatorBounds
from nirbridge.quantization.storage import file as storage
from nirbridge.quantization.storage.file import quantized_from_dict, quantized_to_dict
from tests.quantization.nets import layer, lif
from tests.quantization.test_one_wrong_element import (
    DENSE,
    SHAPE,
    SPARSE,
    cell,
    each,
    found,
    network,
    projection,
    whole,
)

LOIHI2 = read_chip("loihi2")
NO_SUCH = "projection 'in' -> 'p': an operator from {} to {}, or a node that is not there, other sizes than its nodes"


@pytest.mark.parametrize(
    ("own", "lines"),
    [
        ({"dt": 5e-324}, []),
        ({"dt": 0.0}, ["dt: 0, it is above 0", "network: dt is 0.0 s, a finite number above 0; correct dt"]),
        ({"outputs": (Port("z", SHAPE), Port("out", SHAPE), Port("b", SHAPE)), "latency": dict.fromkeys(("in", "p", "out", "z", "b"), 0)}, ["output 'b': no projection leads to it", "output 'z': no projection leads to it"]),
        ({"outputs": (Port("z", ()), Port("y", (1, 0)), Port("x", (0,)))}, ["node 'y': a shape with an axis below 1", "node 'x': a shape with an axis below 1"]),
        ({"inputs": (FixedInput("in", (4,), 0, 1.0),)}, ["input 'in': values up to 0, scale 1, above 0"]),
        ({"inputs": (FixedInput("in", (4,), 1, 5e-324),)}, []),
        ({"way": replace(projection(), source="x")}, ["projection 'x' -> 'p': names a node that is not there", "projection 'x' -> 'p': an operator from 4 to 6, or a node that is not there, other sizes than its nodes"]),
        ({"way": replace(projection(), target="out")}, ["projection 'in' -> 'out': names a node that is not there", "projection 'in' -> 'out': an operator from 4 to 6, or a node that is not there, other sizes than its nodes"]),
        ({"way": projection(Dense(whole(np.full((6, 3), 16))))}, [NO_SUCH.format(3, 6)]),
        ({"way": projection(Dense(whole(np.full((5, 4), 16))))}, [NO_SUCH.format(4, 5)]),
        ({"neuron": cell(reset="x")}, ["population 'p': reset 'x', process 'custom', not known"]),
        ({"populations": (FixedPopulation("p", SHAPE, cell(), "x"),)}, ["population 'p': reset 'subtract', process 'x', not known"]),  # type: ignore[arg-type]
        ({"neuron": cell(fires_above=None)}, []),
        ({"neuron": cell(du=None)}, ["population 'p', du: not whole numbers of its population's shape"]),
        ({"way": projection(target_delay_steps=whole(1))}, ["projection 'in' -> 'p', target_delay_steps: values from 1 to 1, 0 to 0"]),
        ({"way": projection(scale=freeze(np.float32(1)))}, ["projection 'in' -> 'p', scale: not finite numbers above 0"]),
        ({"reads": ()}, ["output 'out': no projection leads to it"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_words(own: Any, lines: list[str]) -> None:
    assert found(network(**own)) == lines


def test_rows_of_two_projections_that_do_not_hold_are_both_told() -> None:
    broken = replace(SPARSE, indptr=whole([]))
    ways = (projection(broken), projection(DENSE), replace(projection(broken), index=1))
    lines = found(network(projections=ways))
    assert lines == ["projection 'in' -> 'p': rows that do not hold together"] * 2
    chain = Chain((Scale(freeze(np.ones(SHAPE))), Scale(freeze(np.ones(SHAPE)))))
    assert found(network(reads=(Projection("p", "out", chain),))) == []


def test_names_that_are_there_twice_are_told_in_order() -> None:
    made = network(inputs=(FixedInput("in", (4,)), FixedInput("out", (4,)), FixedInput("in", (4,))))
    lines = found(made)
    assert lines[:2] == ["node 'in': occurs twice", "node 'out': occurs twice"]
    with pytest.raises(ModelError) as caught:
        storage.check_quantized(made)
    assert [str(p) for p in caught.value.problems] == lines
    storage.check_quantized(network())


# -- records -----------------------------------------------------------------------------------------------------------


def record() -> tuple[dict[str, Any], dict[str, Any]]:
    made, arrays = quantized_to_dict(network())
    return json.loads(json.dumps(made)), arrays


def test_equal_arrays_are_stored_once() -> None:
    made, arrays = quantized_to_dict(network(cell(v_init=each(7))))
    neuron = made["populations"][0]["neuron"]
    assert neuron["v_init"] == neuron["u_init"] != neuron["du"]
    assert list(arrays) == [f"a{k}" for k in range(len(arrays))]
    keys = {(a.dtype.str, a.shape, a.tobytes()) for a in arrays.values()}
    assert len(keys) == len(arrays)
    back = quantized_from_dict(*record())
    assert json.dumps(quantized_to_dict(back)[0]) == json.dumps(record()[0])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda r: r.update(chip=1), ValueError, "chip is of another type"),
        (lambda r: r.update(dt="1"), ValueError, "dt is of another type"),
        (lambda r: r.update(latency=[]), ValueError, "latency is of another type"),
        (lambda r: r["latency"].update({"in": -1}), ValueError, "latency counts steps"),
        (lambda r: r["latency"].update({"out": 0.5}), ValueError, "latency counts steps"),
        (lambda r: r["latency"].update({"out": 10**6}), None, ""),
        (lambda r: r["inputs"][0].pop("scale"), ValueError, "FixedInput has other fields"),
        (lambda r: r["inputs"][0].update(more=1), ValueError, "FixedInput has other fields"),
        (lambda r: r["inputs"].__setitem__(0, 3), ValueError, "FixedInput has other fields"),
        (lambda r: r["inputs"][0].update(value_max="1"), ValueError, "FixedInput.value_max is of another type"),
        (lambda r: r["inputs"][0].update(scale=True), ValueError, "FixedInput.scale is of another type"),
        (lambda r: r["inputs"][0].update(shape=[1.5]), ValueError, "FixedInput.shape is of another type"),
        (lambda r: r["populations"][0]["neuron"].update(reset="soft"), ValueError, "FixedNeuron.reset is of another type"),
        (lambda r: r["populations"][0]["neuron"].update(du={"array": "none"}), KeyError, "none"),
        (lambda r: r["populations"][0]["neuron"].update(du={"array": "a0", "x": 1}), ValueError, "FixedNeuron.du is of another type"),
        (lambda r: r["reads"][0]["operator"].update(kind="None"), KeyError, "None"),
        (lambda r: r["reads"][0].update(operator={"kind": "Chain", "parts": [r["reads"][0]["operator"]]}), ValueError, "a chain of chains"),
        (lambda r: r["reads"][0].update(operator={"kind": "Chain", "parts": [r["reads"][0]["operator"]] * 2}), None, ""),
        (lambda r: r["reads"][0].update(operator={"kind": "Chain", "parts": [{"kind": "Chain", "parts": [r["reads"][0]["operator"]] * 2}, r["reads"][0]["operator"]]}), ValueError, "a chain of chains"),
        (lambda r: r.pop("notes"), KeyError, "notes"),
        (lambda r: r.update(notes=["a", 1]), None, ""),
    ],
)  # fmt: skip
def test_a_record_that_is_none_is_refused(change: Any, error: Any, message: str) -> None:
    made, arrays = record()
    change(made)
    if error is None:
        assert quantized_from_dict(made, arrays).chip == "loihi2"
        return
    with pytest.raises(error, match=message):
        quantized_from_dict(made, arrays)


def test_numbers_and_mappings_of_a_record_are_plain() -> None:
    made, _ = quantized_to_dict(
        network(formats=MappingProxyType({"a": np.int64(3), "b": (np.float64(0.5), None)}), notes=("n",))
    )
    assert (made["formats"], made["notes"], made["dt"]) == ({"a": 3, "b": [0.5, None]}, ["n"], 1.0)
    assert [type(v) for v in (made["formats"]["a"], made["formats"]["b"][0])] == [int, float]
    assert fits(made["latency"], dict) or isinstance(made["latency"], dict)


# -- distance ----------------------------------------------------------------------------------------------------------


def lost(**own: Any) -> RoundingLoss:
    usual = dict.fromkeys(
        ("keeps_u", "keeps_v", "u_decay", "v_decay", "cut_u", "cut_v", "bias", "amount", "floor", "far"), (0.0, 0.0)
    )
    return RoundingLoss(**{k: freeze(np.asarray(v, float)) for k, v in (usual | own).items()})


def ways_of(*errors: Any) -> list[WeightLoss]:
    p = FixedProjection("a", "p", Dense(whole([[0, 0]])), 8)
    return [
        WeightLoss(p, Dense(freeze(np.asarray(e, float))), Dense(freeze(np.asarray(e, float))), None) for e in errors
    ]


@pytest.mark.parametrize("most", [(1, 1), (3, 2)])
def test_the_stated_bound_is_that_of_the_worst_neuron(most: tuple[int, int]) -> None:
    own: dict[str, Any] = {
        "keeps_u": (0.5, 0.25),
        "keeps_v": (0.75, 0.5),
        "u_decay": (0.001, 0.002),
        "v_decay": (0.003, 0.001),
        "cut_u": (1, 1),
        "cut_v": (1, 0),
        "bias": (0.25, 0.5),
        "amount": (0.125, 2.0),
    }
    first, second = [[0.5, 0.25], [1.0, 0.0]], [[0.125, 2.0], [0.0, 0.0]]
    found = report_bound(
        lost(**own), ways_of(first, second), most, AccumulatorBounds((0, 1), (-300, 200), (-100, 1000), True), 4.0
    )
    per, grows, sums = [], [], []
    for k in range(2):
        arrived = sum(first[k]) * most[0] + sum(second[k]) * most[1]
        u = own["u_decay"][k] * 300 + own["cut_u"][k] + arrived
        step = (
            u / (1 - own["keeps_u"][k]) + own["v_decay"][k] * 1000 + own["cut_v"][k] + own["bias"][k] + own["amount"][k]
        )
        sums.append(arrived)
        per.append(step)
        grows.append(step / (1 - own["keeps_v"][k]))
    wanted = {
        "weight": 2.0, "weights": max(sums), "u_decay": 0.6, "v_decay": 3.0, "cuts": 2.0, "bias": 0.5, "reset": 2.0, "start": 0.5, "per_step": max(per), "limit": max(grows),
    }  # fmt: skip
    for name, value in wanted.items():
        assert getattr(found, name) == pytest.approx(value / 4.0, rel=1e-12), name
    still = report_bound(lost(keeps_v=(0.5, 1.0)), [], (), AccumulatorBounds((0, 0), (0, 0), (0, 0), True), 2.0)
    assert (still.limit, still.weight, still.weights, still.per_step, still.start) == (None, 0.0, 0.0, 0.0, 0.25)


def test_what_arrives_late_arrives_by_its_own_delay() -> None:
    p = FixedProjection("a", "p", Dense(whole([[0, 0]])), 8, delay_steps=whole([1, 3]))
    sent = np.arange(1.0, 11.0).reshape(5, 1, 2)
    for worth in (None, 0.5):
        one = WeightLoss(p, Dense(freeze([[1.0, 2.0]])), Dense(freeze([[1.0, 2.0]])), worth)
        late = _delayed(sent, one)[:, 0]
        scale = 1.0 if worth is None else 2.0
        assert late.tolist() == [
            [0.0, 0.0],
            [1 * scale, 0.0],
            [3 * scale, 0.0],
            [5 * scale, 2 * scale],
            [7 * scale, 4 * scale],
        ]


def test_a_graded_value_is_off_by_half_of_one_and_a_shift_by_64() -> None:
    sent = np.array([[[2.0, -3.0]]])
    for exponent, worth, extra in (
        (0, None, 0.0),
        (2, None, 0.0),
        (-1, None, 64.0),
        (0, 1.0, 0.5 * 30 + 0.5 * 3),
        (-2, 1.0, 0.5 * 33 + 64),
    ):
        p = FixedProjection("a", "p", Dense(whole([[0, 0]])), 8, weight_exp=exponent)
        one = WeightLoss(p, Dense(freeze([[1.0, 2.0]])), Dense(freeze([[10.0, 20.0]])), worth)
        assert _arrived(one, sent).tolist() == [[[2.0 + 6.0 + extra]]]


def test_bounds_need_the_real_network_and_its_recordings() -> None:
    q = quantize(layer([[0.5, 0.25]], lif(a_mem=0.5)), LOIHI2)
    with pytest.raises(UsageError) as caught:
        v_bounds(replace(q, network=None), {})
    assert (
        str(caught.value)
        == "bounds of the distance: the real weights are not in a .q.npz file; quantize the model again in this run"
    )
    arrays = {("p", "v"): np.zeros((3, 1)), ("p", "u"): np.zeros((3, 1)), ("in", "s"): np.zeros((3, 2))}
    for node, what in (("p", "v"), ("p", "u"), ("in", "s"), ("p", "s")):
        with pytest.raises(UsageError) as caught:
            v_bounds(q, {k: a for k, a in arrays.items() if k != (node, what)})
        assert str(caught.value) == f"bounds of the distance, '{node}': {what} was not recorded; record it"
    whole_run = v_bounds(q, arrays | {("p", "s"): np.zeros((3, 1))})["p"]
    batch = v_bounds(q, {k: a[:, None] for k, a in (arrays | {("p", "s"): np.zeros((3, 1))}).items()})["p"]
    assert (whole_run.shape, batch.shape) == ((3, 1), (3, 1, 1))
    assert whole_run.reshape(-1).tolist() == batch.reshape(-1).tolist()
