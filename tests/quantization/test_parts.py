"""The parts of quantization, each compared with an independent computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.network.apply import apply, matrix
from nirbridge.network.operators import Chain, Conv, Dense, Reshape, Scale, SumPool
from nirbridge.passes import Retime
from nirbridge.pipeline.quantize import (
    CalibrationPlan,
    ReferenceScore,
    calibration_data,
    observe_reference,
    quantize_with_data,
)
from nirbridge.quantization import FixedProjection, QuantizationOptions, quantize
from nirbridge.quantization.calibration import clip_shares
from nirbridge.quantization.decays import dec, undo
from nirbridge.quantization.memory import fan_outs
from nirbridge.quantization.mixed_precision import choose_widths, memory_of
from nirbridge.quantization.operators import gained_operator, weights_of, with_weights
from nirbridge.quantization.weights import quantum
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe, simulate
from tests.cases import cases
from tests.quantization.nets import layer, lif

SEEDS = st.integers(0, 2**32 - 1)


def windows(rng: np.random.Generator, shape: tuple[int, ...], axes: int) -> Any:
    """A random pool or convolution on ``shape``; None where the window does not fit."""
    kernel = tuple(int(k) for k in rng.integers(1, 4, axes))
    stride = tuple(int(k) for k in rng.integers(1, 3, axes))
    padding = tuple((int(a), int(b)) for a, b in rng.integers(0, 2, (axes, 2)))
    dilation = tuple(int(k) for k in rng.integers(1, 3, axes))
    if rng.random() < 0.5:
        made: Any = SumPool(kernel, stride, padding, shape, 1.0 / np.prod(kernel))
    else:
        groups = shape[0] if rng.random() < 0.3 else 1
        weight = rng.normal(size=(groups * int(rng.integers(1, 3)), shape[0] // groups, *kernel))
        made = Conv(freeze(weight), stride, padding, dilation, groups, shape)
    return made if min(made.output_shape) > 0 else None


@settings(max_examples=cases(50, 150))
@given(SEEDS)
def test_chains_become_one_operator_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = int(rng.integers(1, 3))
    parts: list[Any] = []
    shape: tuple[int, ...] = (int(rng.integers(1, 3)), *(int(n) for n in rng.integers(3, 9, axes)))
    for _ in range(int(rng.integers(1, 4))):
        part = windows(rng, shape, axes)
        if part is not None:
            parts.append(part)
            shape = part.output_shape
    if rng.random() < 0.3:
        parts.append(Scale(freeze(rng.normal(size=shape))))
    if rng.random() < 0.3 or not parts:
        parts += [Reshape(shape, (int(np.prod(shape)),)), Dense(freeze(rng.normal(size=(3, int(np.prod(shape))))))]
    operator = parts[0] if len(parts) == 1 else Chain(tuple(parts))
    gain = rng.normal(size=operator.output_shape if rng.random() < 0.5 else ())
    made = gained_operator(operator, np.asarray(gain))
    x = rng.normal(size=operator.input_shape)
    wanted = gain * apply(operator, x)
    np.testing.assert_allclose(apply(made, x.reshape(made.input_shape)).reshape(wanted.shape), wanted, atol=1e-9)
    ones = with_weights(made, np.ones(weights_of(made).shape, np.int64))
    counted = np.bincount(matrix(ones).indices, minlength=int(np.prod(made.input_shape)))
    np.testing.assert_array_equal(fan_outs(FixedProjection("a", "b", made, 8)), counted)


def test_a_pool_before_a_convolution_stays_a_convolution() -> None:
    rng = np.random.default_rng(0)
    pool = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (3, 8, 8), 0.25)
    conv = Conv(freeze(rng.normal(size=(4, 3, 3, 3))), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (3, 4, 4))
    made = gained_operator(Chain((pool, conv)), np.ones(()))
    assert isinstance(made, Conv)
    assert (made.kernel, made.stride, made.padding) == ((6, 6), (2, 2), ((2, 2), (2, 2)))


@given(st.integers(-(2**62), 2**62), st.integers(0, 4096))
def test_decays_of_every_integer_are_those_of_exact_arithmetic(x: int, k: int) -> None:
    left = (abs(x) * (4096 - k)) >> 12
    assert dec(np.int64(x), np.int64(k)) == (left if x >= 0 else -left)


@settings(max_examples=cases(70, 200))
@given(st.integers(-(2**23) + 1, 2**23 - 1), st.integers(0, 4096))
def test_every_value_has_a_value_before_it(y: int, k: int) -> None:
    y = y >> 8 if k > 3000 else y
    parts = np.asarray(k)
    x = undo(np.asarray(y), parts)
    assert dec(x, parts) == (0 if k == 4096 else y)
    if k < 4096 and y:
        assert dec(x - np.sign(y), parts) != y  # the least of them


@settings(max_examples=cases(20, 60))
@given(SEEDS)
def test_a_population_enters_its_first_step_in_the_rounded_state_of_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    synapse = rng.random() < 0.5
    cell = lif(
        kind="CubaLIF" if synapse else "LIF",
        theta=4.0,
        a_mem=rng.choice([1.0, 0.5, 0.9]),
        bias=rng.normal(0, 0.1, 3),
        a_syn=0.7 if synapse else 0.0,
        v_init=rng.normal(0, 0.5, 3),
        i_init=rng.normal(0, 0.2, 3) if synapse else 0.0,
    )
    net = layer(rng.normal(size=(3, 2)), cell, bias=rng.normal(0, 0.1, 3))
    early = type("Late", (), {"network": net, "latency": {"p": 3}})()
    try:
        q = quantize(early, read_chip("loihi2"))
    except ModelError:  # it would fire before its first input
        assume(False)
        return
    wanted = [Probe("p", ("v", "i"))]
    real = simulate(net, np.zeros((3, 2)), record=wanted, dtype="float64").recording.arrays
    fixed = simulate_fixed(q, np.zeros((3, 2)), record=[Probe("p", ("s", "u", "v"))]).recording.arrays
    scale = float(q.populations[0].neuron.scale)
    assert not fixed["p", "s"].any()
    np.testing.assert_array_equal(fixed["p", "v"][-1], np.rint(real["p", "v"][-1] * scale))


@given(st.lists(st.integers(-60, 60), min_size=1, max_size=20), st.sampled_from([1.0, 0.05, 0.375, 1e-3]))
def test_the_common_unit_of_weights(whole: list[int], unit: float) -> None:
    values = np.array(whole) * unit
    found = quantum(values, 127)
    if not any(whole):
        assert found is None
        return
    assert found == pytest.approx(np.gcd.reduce(np.array(whole)) * unit)
    assert quantum(np.append(values, values.max() + np.pi * unit / 1000), 127) is None or len(set(map(abs, whole))) == 1


def dense_of(net: Any) -> Any:
    return np.asarray(net.projections[0].operator.weight)


def digits_like(seed: int = 0, posts: int = 5) -> Any:
    """Two layers, spikes, and the labels that the reference itself gives."""
    rng = np.random.default_rng(seed)
    net = layer(rng.normal(0, 0.4, (posts, 40)), lif(a_mem=0.875))
    values = (rng.random((20, 30, 40)) < 0.2).astype(np.uint8)
    counts = simulate(net, values, record=[Probe("out", ("count",))]).recording.arrays["out", "count"]
    return net, {"in": values, "labels": counts.argmax(-1)}


def test_calibration_sees_what_the_reference_does() -> None:
    net, arrays = digits_like()
    seen = observe_reference(net, calibration_data(net, arrays))
    drive = arrays["in"].astype(float) @ dense_of(net).T
    assert seen.seen["p"].x == pytest.approx((drive[:-1].min(), drive[:-1].max()))
    assert seen.samples["in"].shape == (512, 40)


def test_tight_scales_are_finer_and_say_that_they_are_not_proved() -> None:
    rng = np.random.default_rng(1)
    net = layer(np.abs(rng.normal(0, 1, (4, 2000))), lif(a_mem=0.5, theta=30.0))
    data = calibration_data(net, {"in": (rng.random((20, 3, 2000)) < 0.02).astype(int)})
    chip = read_chip("loihi1")
    safe = quantize_with_data(net, chip, QuantizationOptions(), data, CalibrationPlan())
    tight = quantize_with_data(net, chip, QuantizationOptions(), data, CalibrationPlan(tight=True))
    assert safe.report[0].bounds.proved
    assert not tight.report[0].bounds.proved
    assert safe.report[0].decays["limited_by"] == "the worst input of a step (a_in)"
    assert tight.report[0].weights[0]["error"] < safe.report[0].weights[0]["error"] / 2


def test_a_neuron_that_would_fire_before_its_first_input_is_refused() -> None:
    net = layer([[1.0]], lif(kind="Threshold", a_mem=0.0, bias=2.0))
    late = type("Late", (), {"network": net, "latency": {"p": 2}})()
    with pytest.raises(ModelError, match="would make it fire in the 2 time steps before its first input"):
        quantize(late, read_chip("loihi2"))


def test_lost_weights_are_told_without_the_early_spikes_that_follow() -> None:
    net = layer([[1e-9]], lif(kind="Threshold", a_mem=0.0, bias=2.0))
    late = type("Late", (), {"network": net, "latency": {"p": 2}})()
    with pytest.raises(ModelError, match="all weights become 0 at 8 bits") as caught:
        quantize(late, read_chip("loihi2"), QuantizationOptions(weight_bits=8))
    assert len(caught.value.problems) == 1


def test_the_error_is_least_where_the_search_says() -> None:
    net, arrays = digits_like()
    seen = observe_reference(net, calibration_data(net, arrays))
    rng = np.random.default_rng(0)
    heavy = layer(np.append(rng.normal(0, 0.1, (5, 39)), np.full((5, 1), 2.0), axis=1), lif())
    for bits in (3, 4):
        assert clip_shares(heavy, {0: bits}, "range") == {0: 1.0}
        assert 0 < clip_shares(heavy, {0: bits}, "percentile", percentile=90.0)[0] < 0.2
        share = clip_shares(heavy, {0: bits}, "error", seen)[0]
        made = {
            s: quantize(heavy, read_chip("loihi2"), QuantizationOptions(weight_bits=bits, clip={0: s}))
            for s in (1.0, share)
        }
        sample = seen.samples["in"].astype(float)
        off = {
            s: weights_of(q.projections[0].operator) / q.projections[0].scale - dense_of(heavy) for s, q in made.items()
        }
        assert np.square(sample @ off[share].T).mean() <= np.square(sample @ off[1.0].T).mean() + 1e-12


def test_mixed_precision_keeps_within_the_memory_and_is_the_same_every_time() -> None:
    net, arrays = digits_like(posts=20)
    chip, data = read_chip("loihi1"), calibration_data(net, arrays)
    judge = ReferenceScore(net, {}, data)

    def make(widths: Any) -> Any:
        return quantize(net, chip, QuantizationOptions(weight_bits=widths))

    full = memory_of(make(8), chip)
    choice = choose_widths(net, chip, full - 1, make, judge.score)
    assert choice.synapse_bits < full
    assert choice.weight_bits["p"] < 8
    assert choice == choose_widths(net, chip, full - 1, make, judge.score)
    with pytest.raises(DoesNotFit, match="at the narrowest weights"):
        choose_widths(net, chip, 8, make, judge.score)


def test_the_search_keeps_to_the_widths_that_were_asked_for() -> None:
    """A pinned layer stays, '*' is where the others start, an unknown name is told and not passed over."""
    net, arrays = digits_like(posts=20)
    chip, data = read_chip("loihi1"), calibration_data(net, arrays)
    full = memory_of(quantize(net, chip, QuantizationOptions(weight_bits=8)), chip)
    plan = CalibrationPlan(memory_bits=full * 2 // 3)
    assert quantize_with_data(net, chip, QuantizationOptions(), data, plan).projections[0].weight_bits < 8
    with pytest.raises(DoesNotFit, match="and those that were requested"):
        quantize_with_data(net, chip, QuantizationOptions(weight_bits={"p": 8}), data, plan)
    kept = quantize_with_data(net, chip, QuantizationOptions(weight_bits={"p": 4}), data, plan)
    assert kept.projections[0].weight_bits == 4
    assert quantize_with_data(net, chip, QuantizationOptions(weight_bits=3), data, plan).projections[0].weight_bits == 3
    with pytest.raises(ModelError, match="weight_bits of 'q'"):
        quantize_with_data(net, chip, QuantizationOptions(weight_bits={"q": 4}), data, plan)
    with pytest.raises(ModelError, match="weights of 7 bits"):
        quantize_with_data(net, chip, QuantizationOptions(weight_bits=7), data, plan)


def test_measured_ranges_lie_within_the_proved_ones() -> None:
    net, arrays = digits_like()
    q = quantize_with_data(
        net, read_chip("loihi1"), QuantizationOptions(), calibration_data(net, arrays), CalibrationPlan()
    )
    layer_report = q.report[0]
    for name, (low, high) in (("u", layer_report.bounds.u), ("v", layer_report.bounds.v)):
        least, greatest = layer_report.measured[name]
        assert low <= least < 0 < greatest <= high
    got = simulate_fixed(q, arrays["in"], record=[Probe("p", ("u",))]).recording.arrays["p", "u"]
    assert layer_report.measured["u"] == [got.min(), got.max()]


def test_a_read_out_says_what_it_is_off() -> None:
    rng = np.random.default_rng(0)
    net = layer(rng.normal(size=(3, 8)), lif(kind="LI", theta=None, a_mem=0.9))
    values = (rng.random((30, 4, 8)) < 0.3).astype(int)
    data = calibration_data(net, {"in": values})
    off = {}
    for bits in (8, 4):
        q = quantize_with_data(net, read_chip("loihi2"), QuantizationOptions(weight_bits=bits), data, CalibrationPlan())
        off[bits] = q.report[0].measured["read_error"]
        wanted = simulate(net, values, dtype="float64").recording.arrays["out", "v"]
        got = simulate_fixed(q, values).recording.arrays["out", "v"]
        assert off[bits] == pytest.approx(np.sqrt(np.square(got - wanted).sum() / np.square(wanted).sum()))
    assert 0 < off[8] < off[4] < 0.3


def test_measured_layers_say_spikes_changed_and_accuracy() -> None:
    net, arrays = digits_like()
    retimed = Retime().retimed(layer_without_hops(net))
    q = quantize_with_data(
        retimed, read_chip("loihi1"), QuantizationOptions(), calibration_data(net, arrays), CalibrationPlan()
    )
    said = q.report[0].measured
    assert said["accuracy_reference"] == 1.0
    assert said["spikes_changed"] < 0.1
    assert said["accuracy"] > 0.85


def layer_without_hops(net: Any) -> Any:
    from dataclasses import replace

    still = freeze(np.int64(0))
    return replace(net, projections=tuple(replace(p, delay_steps=still) for p in net.projections))


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_fake_weights_are_what_the_integers_stand_for(bits: int) -> None:
    torch = pytest.importorskip("torch")
    from nirbridge.quantization.qat import attach, detach, factor_of, fake_weights, real_weights

    weight = np.random.default_rng(bits).normal(size=(6, 9))
    q = quantize(layer(weight, lif()), read_chip("loihi2"), QuantizationOptions(weight_bits=bits))
    factor, width, mode = factor_of(q, "in", "p")
    tensor = torch.tensor(weight, dtype=torch.float64, requires_grad=True)
    made = fake_weights(tensor, width, factor, mode)
    np.testing.assert_array_equal(made.detach().numpy(), real_weights(q, 0))
    made.sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), 1.0)
    clipped = torch.tensor([100.0, 0.1], dtype=torch.float64, requires_grad=True)
    fake_weights(clipped, bits, factor, "mixed").sum().backward()
    assert clipped.grad.tolist() == pytest.approx([0.0, 1.0])
    linear = attach(torch.nn.Linear(9, 6, bias=False, dtype=torch.float64), bits)
    rounded = linear.weight.detach().clone()
    assert len(torch.unique(rounded)) <= 2**bits
    assert torch.equal(detach(linear).weight, rounded)


@pytest.mark.parametrize("place", ["before", "behind", "both", "several"])
def test_reshapes_at_the_ends_leave_a_convolution_a_convolution(place: str) -> None:
    from nirbridge.network.apply import matrix
    from nirbridge.network.operators import Chain, Conv, Reshape
    from nirbridge.quantization.operators import gained_operator

    conv = Conv(freeze(np.arange(1.0, 13.0).reshape(2, 1, 2, 3)), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 3, 4))
    before = [Reshape((12,), (1, 3, 4))] if place != "several" else [Reshape((12,), (3, 4)), Reshape((3, 4), (1, 3, 4))]
    behind = [Reshape((2, 2, 2), (8,))] if place != "several" else [Reshape((2, 2, 2), (2, 4)), Reshape((2, 4), (8,))]
    parts = [*(before if place != "behind" else []), conv, *(behind if place != "before" else [])]
    made = gained_operator(Chain(tuple(parts)), freeze(np.float64(2.0)))
    assert isinstance(made, Conv)
    assert made.weight.tolist() == (2 * conv.weight).tolist()
    between = Chain(
        (
            conv,
            Reshape((2, 2, 2), (1, 4, 2)),
            Conv(freeze(np.ones((1, 1, 1, 2))), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 4, 2)),
        )
    )
    mixed = gained_operator(between, freeze(np.float64(1.0)))
    assert not isinstance(mixed, Conv)
    assert matrix(mixed).toarray().tolist() == matrix(between).toarray().tolist()
