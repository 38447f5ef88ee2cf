"""Every array of a quantized network with one wrong element among valid ones; limits at their last valid value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Conv, Dense, Identity, Sparse
from nirbridge.network.storage import file as network_file
from nirbridge.quantization import FixedInput, FixedNeuron, FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.quantization.storage import file as storage
from tests.one_wrong import one_wrong_element

SHAPE = (2, 3)


def whole(values: Any) -> Array:
    return freeze(np.asarray(values, np.int64))


def each(value: int) -> Array:
    return whole(np.full(SHAPE, value))


def cell(**own: Any) -> FixedNeuron:
    """A neuron with an array for each of its values."""
    made = FixedNeuron(
        du=each(100), dv=each(200), bias_mant=each(3), bias_exp=2, fires_above=each(640), reset="subtract",
        reset_amount=each(640), spike_size=each(640), max_spikes=1, refractory_steps=each(2), v_init=each(5),
        u_init=each(7), scale=freeze(np.full(SHAPE, 64.0)), v_offset=freeze(np.full(SHAPE, 0.5)),
    )  # fmt: skip
    return replace(made, **own)


DENSE = Dense(whole(np.full((6, 4), 16)))
SPARSE = Sparse(whole([0, 1, 2, 3, 4, 4, 4]), whole([0, 1, 2, 3]), whole([16] * 4), (4,), (6,))
CONV = Conv(whole(np.full((2, 1, 2), 16)), (1,), ((0, 0),), (1,), 1, (1, 4))


def projection(operator: Any = DENSE, **own: Any) -> FixedProjection:
    made = FixedProjection(
        "in", "p", operator, weight_exp=0, weight_bits=8, sign_mode="mixed", delay_steps=whole([1, 2, 3, 4]),
        target_delay_steps=whole(0), scale=freeze(np.float64(2.0)), index=0,
    )  # fmt: skip
    return replace(made, **own)


def network(neuron: FixedNeuron | None = None, way: FixedProjection | None = None, **own: Any) -> QuantizedNetwork:
    made = QuantizedNetwork(
        chip="loihi2",
        dt=1.0,
        populations=(FixedPopulation("p", SHAPE, neuron or cell(), "custom"),),
        projections=(way or projection(),),
        inputs=(FixedInput("in", (4,), 1, 1.0),),
        outputs=(Port("out", SHAPE),),
        reads=(Projection("p", "out", Identity(SHAPE)),),
        latency={"in": 0, "p": 1, "out": 1},
        formats={},
    )
    return replace(made, **own)


def found(made: QuantizedNetwork) -> list[str]:
    return [str(p) for p in storage.diagnose_quantized(made)]


@pytest.mark.parametrize("operator", [DENSE, SPARSE, CONV], ids=["dense", "sparse", "conv"])
def test_right_ones_are_right(operator: Any) -> None:
    assert found(network(way=projection(operator))) == []


# -- neurons ---------------------------------------------------------------------------------------------------------

LIMITS = {
    "du": (0, 4095),
    "dv": (0, 4096),
    "refractory_steps": (0, 2**31 - 1),
    "spike_size": (-(2**47), 2**47),
    "bias_mant": (-(2**47), 2**47),
    "fires_above": (-(2**47), 2**47),
    "reset_amount": (-(2**47), 2**47),
    "v_init": (-(2**47), 2**47),
    "u_init": (-(2**47), 2**47),
}


@pytest.mark.parametrize("field", LIMITS)
def test_one_value_of_a_neuron_beyond_its_limits(field: str) -> None:
    low, high = LIMITS[field]
    for value in (low, high):
        for values in one_wrong_element(getattr(cell(), field), value):
            assert found(network(cell(**{field: values}))) == []
    for value in (low - 1, high + 1):
        for values in one_wrong_element(getattr(cell(), field), value):
            (line,) = found(network(cell(**{field: values})))
            assert line.startswith(f"population 'p', {field}: values from ")
            assert line.endswith(f"{low} to {high}")


@pytest.mark.parametrize("field", LIMITS)
@pytest.mark.parametrize("wrong", [np.zeros(SHAPE), np.zeros(SHAPE, np.int32), whole([1, 2, 3]), 3])
def test_one_array_of_a_neuron_of_another_type_or_shape(field: str, wrong: Any) -> None:
    assert found(network(cell(**{field: wrong}))) == [
        f"population 'p', {field}: not whole numbers of its population's shape"
    ]


@pytest.mark.parametrize("field", ["scale", "v_offset"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_one_real_value_of_a_neuron_that_is_not_finite(field: str, wrong: float) -> None:
    for values in one_wrong_element(getattr(cell(), field), wrong):
        assert found(network(cell(**{field: values}))) == [
            f"population 'p', {field}: not finite numbers of its population's shape"
        ]
    for other in (freeze(np.ones(3)), freeze(np.ones(SHAPE, np.float32))):
        assert len(found(network(cell(**{field: other})))) == 1


@pytest.mark.parametrize("wrong", [0.0, -1.0])
def test_one_scale_that_is_not_above_0(wrong: float) -> None:
    for values in one_wrong_element(cell().scale, wrong):
        assert found(network(cell(scale=values))) == ["population 'p', scale: not above 0"]
    for values in one_wrong_element(cell().v_offset, wrong):
        assert found(network(cell(v_offset=values))) == []
    with_many = projection(scale=freeze(np.ones(6)))
    assert found(network(way=with_many)) == []
    for values in one_wrong_element(np.ones(6), wrong):
        assert found(network(way=projection(scale=values))) == [
            "projection 'in' -> 'p', scale: not finite numbers above 0"
        ]


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [("u_bits", 8, 48), ("v_bits", 8, 48), ("bias_exp", 0, 15), ("max_spikes", 1, 2**31 - 1)],
)
def test_one_number_of_a_neuron(field: str, least: int, most: int) -> None:
    for right in (least, most):
        assert found(network(cell(**{field: right}))) == []
    for wrong in (least - 1, most + 1):
        assert found(network(cell(**{field: wrong}))) == [
            "population 'p': a width, exponent or number of spikes that no chip has"
        ]


PLAIN = {
    "du": whole(100), "dv": whole(4095), "fires_above": whole(640), "reset": "zero", "refractory_steps": whole(0)
}  # fmt: skip
UNUSUAL: list[dict[str, Any]] = [
    {"du": each(100)},
    {"dv": each(100)},
    {"dv": whole(4096)},
    {"fires_above": each(640)},
    {"fires_above": whole(641)},
    {"fires_above": whole(-64)},
    {"reset": "subtract"},
    {"max_spikes": 2},
    {"refractory_steps": each(1)},
    {"refractory_steps": whole([[0, 0, 0], [0, 0, 1]])},
]


USUAL: list[dict[str, Any]] = [{}, {"fires_above": whole(0)}, {"fires_above": None, "reset": "none"}]


@pytest.mark.parametrize(("own", "is_plain"), [(own, True) for own in USUAL] + [(own, False) for own in UNUSUAL])
def test_lavas_own_neuron_computes_plain_ones_only(own: dict[str, Any], is_plain: bool) -> None:
    made = FixedPopulation("p", SHAPE, cell(**{**PLAIN, **own}), "lif")
    lines = found(network(populations=(made,)))
    wanted = ["population 'p': process 'lif', its neurons need more than Lava's LIF; quantize again"]
    assert lines == ([] if is_plain else wanted)
    assert found(network(populations=(replace(made, process="custom"),))) == []


# -- projections -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", [DENSE, SPARSE, CONV], ids=["dense", "sparse", "conv"])
def test_one_weight_off_its_grid(operator: Any) -> None:
    field = "data" if isinstance(operator, Sparse) else "weight"
    for mode, bits, right, wrong in (
        ("mixed", 8, (-256, 254), (1, -258, 256)),
        ("excitatory", 8, (0, 255), (-1, 256)),
        ("inhibitory", 8, (-255, 0), (1, -256)),
        ("mixed", 4, (-256, 224), (16, 254, -288)),
    ):
        values = np.full_like(getattr(operator, field), 0)
        for value, is_right in [(v, True) for v in right] + [(v, False) for v in wrong]:
            for weights in one_wrong_element(values, value):
                own = replace(operator, **{field: weights})
                lines = found(network(way=projection(own, weight_bits=bits, sign_mode=mode)))
                assert lines == ([] if is_right else [
                    f"projection 'in' -> 'p': weights off the grid of {bits} bits, {mode}; quantize again"
                ])  # fmt: skip
    real = replace(operator, **{field: getattr(operator, field).astype(float)})
    assert len(found(network(way=projection(real)))) == 1


@pytest.mark.parametrize("wrong", [0, -1, 2**20 + 1])
def test_one_delay_beyond_its_limits(wrong: int) -> None:
    for steps in one_wrong_element(np.array([1, 2, 3, 4]), wrong):
        lines = found(network(way=projection(delay_steps=steps)))
        assert lines[0].startswith("projection 'in' -> 'p', delay_steps: values from ")
        assert lines[0].endswith(f", 1 to {2**20}")
    for steps in one_wrong_element(np.array([1, 2, 3, 4]), 2**20):
        assert found(network(way=projection(delay_steps=steps))) == []


@pytest.mark.parametrize(
    ("own", "is_right"),
    [
        ({"weight_bits": 1, "operator": Dense(whole(np.zeros((6, 4))))}, True),
        ({"weight_bits": 0}, False),
        ({"weight_bits": 9}, False),
        ({"weight_exp": 15}, True),
        ({"weight_exp": -15}, True),
        ({"weight_exp": 16}, False),
        ({"weight_exp": -16}, False),
        ({"operator": Identity((4,))}, False),
    ],
)
def test_one_number_of_a_projection(own: dict[str, Any], is_right: bool) -> None:
    lines = found(network(way=projection(**own)))
    assert lines[:1] == (
        [] if is_right else ["projection 'in' -> 'p': an operator, width or exponent that no chip has"]
    )


# -- the whole -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 2**31])
def test_one_input_whose_values_no_chip_takes(value: int) -> None:
    other = FixedInput("other", (2,), value, 1.0)
    made = network(inputs=(FixedInput("in", (4,), 1, 1.0), other), latency={"in": 0, "other": 0, "p": 1, "out": 1})
    assert found(made) == [f"input 'other': values up to {value}, scale 1, above 0"]
    right = replace(other, value_max=2**31 - 1)
    assert found(replace(made, inputs=(made.inputs[0], right))) == []
    for scale in (0.0, -1.0, np.inf, np.nan):
        assert len(found(replace(made, inputs=(made.inputs[0], replace(right, scale=scale))))) == 1


def test_what_a_run_keeps_is_counted_to_the_last_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four inputs for their longest delay of 4 steps and now, six neurons for that of their read-out, six outputs."""
    late = Projection("p", "out", Identity(SHAPE), delay_steps=whole(3))
    made = network(reads=(late, Projection("p", "out", Identity(SHAPE))))
    monkeypatch.setattr(network_file, "ELEMENTS_MAX", 4 * 5 + 6 * 4 + 6)
    assert found(made) == []
    monkeypatch.setattr(network_file, "ELEMENTS_MAX", 4 * 5 + 6 * 4 + 6 - 1)
    assert found(made) == [
        "network: 50 values to keep (neurons, and spikes on their way), 49 are allowed; shorten delays"
    ]
    far = replace(made.projections[0], delay_steps=whole([1, 1, 2**20, 1]))
    monkeypatch.setattr(network_file, "ELEMENTS_MAX", 4 * (2**20 + 1) + 6 * 4 + 6)
    assert found(replace(made, projections=(far,))) == []
    monkeypatch.setattr(network_file, "ELEMENTS_MAX", 4 * (2**20 + 1) + 6 * 4 + 6 - 1)
    assert len(found(replace(made, projections=(far,)))) == 1


@pytest.mark.parametrize("latency", [{"in": 0, "p": 1}, {"in": 0, "p": 1, "out": 1, "more": 0}])
def test_every_node_has_a_latency(latency: dict[str, int]) -> None:
    assert found(network(latency=latency)) == ["latency: does not name every node, and no other"]


@pytest.mark.parametrize("dt", [0.0, -1.0, np.nan, np.inf])
def test_dt_is_a_number_above_0(dt: float) -> None:
    assert found(network(dt=dt))[0].startswith("dt: ")


def test_one_name_that_is_there_twice_and_one_shape() -> None:
    assert "node 'p': occurs twice" in found(network(outputs=(Port("p", SHAPE),)))
    for shape in ((0, 3), (2, 0)):
        assert found(network(outputs=(Port("out", SHAPE), Port("more", shape)))) == [
            "node 'more': a shape with an axis below 1"
        ]
    more = network(outputs=(Port("out", SHAPE), Port("more", SHAPE)), latency={"in": 0, "p": 1, "out": 1, "more": 1})
    assert found(more) == ["output 'more': no projection leads to it"]


@pytest.mark.parametrize(
    "own",
    [
        {"indptr": SPARSE.indptr.astype(np.int32)},
        {"indices": SPARSE.indices.astype(np.int32)},
        {"indices": SPARSE.indices.reshape(1, 4)},
        {"indptr": whole([])},
        {"data": whole([16] * 3)},
    ],
)
def test_one_list_of_sparse_rows(own: dict[str, Array]) -> None:
    assert found(network(way=projection(replace(SPARSE, **own)))) == [
        "projection 'in' -> 'p': rows that do not hold together"
    ]
