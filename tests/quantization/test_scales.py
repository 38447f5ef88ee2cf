"""The scale of a population: the one within an octave with the least rounding error, and its doubling."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Conv, Dense, Identity
from nirbridge.quantization import QuantizationOptions, quantize, scales
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import OutputRange
from nirbridge.quantization.scales import IncomingOperator
from nirbridge.quantization.weights import weight_range
from tests.quantization.nets import TIMING, layer, lif, one

CHIP = read_chip("loihi2")


def looped(seed: int, ratio: float, size: int = 12) -> Network:
    """Recurrent weights ``ratio`` times as large as those of the input."""
    random = np.random.default_rng(seed)
    return layer(
        random.normal(0.1, 0.4, (size, 8)), lif(a_mem=0.875, theta=1.0), loop=random.normal(0, 0.4 * ratio, (size,) * 2)
    )


def error(network: Network, quantized: Any) -> float:
    """The sum of squared differences between the real weights and what the integers stand for."""
    (p,) = quantized.populations
    lost = 0.0
    for made in quantized.projections:
        real = network.projections[made.index].operator
        stands_for = weights_of(made.operator) * 2.0**made.weight_exp * 64 / float(p.neuron.scale)
        lost += float(((stands_for - real.weight) ** 2).sum())  # type: ignore[union-attr]
    return lost


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("ratio", [0.3, 0.7, 1.3, 2.9])
def test_of_an_octave_the_scale_with_the_least_rounding_is_taken(ratio: float, bits: int) -> None:
    """Scales of the octave are asked for one by one, and the weights of each compared with the real ones."""
    network = looped(int(10 * ratio), ratio)
    chosen = quantize(network, CHIP, QuantizationOptions(bits))
    scale = float(chosen.populations[0].neuron.scale)
    tried = [scale * 2.0 ** (k / scales.TRIED) for k in range(-scales.TRIED, scales.TRIED)]
    errors = [error(network, quantize(network, CHIP, QuantizationOptions(bits, scales={"p": s}))) for s in tried]
    assert error(network, chosen) <= min(errors) * (1 + 1e-9)
    assert max(errors) > 1.2 * min(errors)


def test_the_search_gains_a_fifth_over_thirty_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    networks = [looped(seed, 10 ** (-1 + seed / 15)) for seed in range(30)]
    found = [error(n, quantize(n, CHIP)) for n in networks]
    monkeypatch.setattr(scales, "TRIED", 1)
    before = [error(n, quantize(n, CHIP)) for n in networks]
    gains = np.sqrt(np.array(found) / np.array(before))
    assert np.all(gains <= 1 + 1e-9)
    assert gains.mean() < 0.82


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("ratio", [0.4, 0.55, 0.75, 0.95])
def test_no_projection_is_rounded_away_for_the_sake_of_another(bits: int, ratio: float) -> None:
    """Few excitatory weights at few bits: half the scale would leave none of the smaller ones."""
    network = layer(np.full((3, 1), 0.5), lif(a_mem=0.875, theta=1.0), loop=np.full((3, 3), 0.5 * ratio))
    for made in quantize(network, CHIP, QuantizationOptions(bits)).projections:
        assert np.all(weights_of(made.operator))


def test_a_limited_scale_leaves_every_projection_a_weight() -> None:
    """0.78 of the largest scale fits the many weights exactly, and would leave nothing of the one of the input."""
    loop, small = np.full((6, 6), 0.5), 0.061
    network = layer(np.full((6, 1), small), lif(a_mem=0.875, theta=100.0), loop=loop * 1.0000007)
    found = quantize(network, CHIP, QuantizationOptions(1))
    assert found.report[0].decays["limited_by"] == "the widest threshold"
    assert all(np.all(weights_of(made.operator)) for made in found.projections)


def test_one_projection_still_fills_its_grid() -> None:
    weights = np.random.default_rng(0).normal(0.1, 0.4, (5, 8))
    made = quantize(layer(weights, lif(a_mem=0.875, theta=1.0)), CHIP).projections[0]
    integers = weights_of(made.operator)
    assert integers.min() == -256 or integers.max() == 254


def test_a_scale_that_a_limit_holds_is_searched_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    network = layer(random.normal(0, 0.02, (6, 5)), lif(a_mem=0.5, theta=100.0), loop=random.normal(0, 0.7, (6, 6)))
    found = quantize(network, CHIP)
    assert found.report[0].decays["limited_by"] == "the widest threshold"
    monkeypatch.setattr(scales, "TRIED", 1)
    assert error(network, found) <= error(network, quantize(network, CHIP))
    assert float(found.populations[0].neuron.scale) * 100 <= ((1 << 17) - 1) * 64


def conv_network() -> Network:
    """A convolution with padding and a dense loop into the same neurons."""
    random = np.random.default_rng(3)
    kernel = random.normal(0, 0.3, (2, 1, 3, 3))
    conv = Conv(freeze(kernel), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (1, 5, 5))
    cells = Population("p", (2, 5, 5), lif(a_mem=0.875, theta=1.0))
    flat = Dense(freeze(random.normal(0, 0.2, (50, 7))))
    from nirbridge.network.compose import compose
    from nirbridge.network.operators import Reshape

    loop, _ = compose([flat, Reshape((50,), (2, 5, 5))], ("d", "r"), (7,))
    ports = (Port("image", (1, 5, 5)), Port("more", (7,)))
    projections = (
        Projection("image", "p", conv, delay_steps=one()),
        Projection("more", "p", loop, delay_steps=one()),
        Projection("p", "out", Identity((2, 5, 5))),
    )
    return Network(1.0, TIMING, (cells,), projections, ports, (Port("out", (2, 5, 5)),))


def test_a_weight_counts_as_often_as_it_is_a_synapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a 3 x 3 kernel with padding over 5 x 5, 169 of 225 taps lie inside; graded sources count with their square."""
    conv = conv_network().projections[0].operator
    assert isinstance(conv, Conv)
    sent = OutputRange(0, 1)
    whole = scales._sample(IncomingOperator(0, conv, weight_range(weights_of(conv), 8), sent))
    assert whole.count * whole.weights.size == 2 * 169
    graded = scales._sample(IncomingOperator(0, conv, weight_range(weights_of(conv), 8), OutputRange(-5, 5)))
    assert graded.count == 25 * whole.count
    monkeypatch.setattr(scales, "SAMPLED", 4)
    some = scales._sample(IncomingOperator(0, conv, weight_range(weights_of(conv), 8), sent))
    assert some.weights.tolist() == weights_of(conv).reshape(-1)[::5].tolist()
    assert some.count * some.weights.size == 2 * 169


def test_the_same_scale_comes_of_the_same_network() -> None:
    first, second = quantize(conv_network(), CHIP), quantize(conv_network(), CHIP)
    assert first.populations[0].neuron.scale == second.populations[0].neuron.scale


@pytest.mark.parametrize(
    ("a_mem", "a_syn", "lost"),
    [
        (0.0, 0.0, 32),  # half of 64 that a threshold is rounded by
        (1.0, 0.0, 32),
        (0.75, 0.0, 32 + 4),  # a decay cuts 1 per time step, which stays for 1 / leak of them
        ([0.5, 0.75, 1.0], 0.0, 32 + 4),
        (0.0, 0.5, 32 + 2),
        (0.0, [0.0, 0.5, 1.0], 32 + 2),
        (0.75, 0.5, 32 + 4 + 8),
    ],
)
@pytest.mark.parametrize("theta", [1.0, 4.0])
def test_a_scale_is_doubled_until_rounding_costs_a_512th_of_the_threshold(
    a_mem: Any, a_syn: Any, lost: float, theta: float
) -> None:
    cell: Any = SimpleNamespace(a_mem=np.asarray(a_mem), a_syn=np.asarray(a_syn), theta=np.asarray(theta))
    incoming: Any = [SimpleNamespace(range=SimpleNamespace(low=-0.5, high=0.25))]
    enough = 512 * lost / theta
    assert scales._doubled(enough, 1e9, cell, incoming) == enough
    assert scales._doubled(0.999 * enough, 1e9, cell, incoming) == 2 * 0.999 * enough
    assert scales._doubled(enough / 5, 1e9, cell, incoming) == enough / 5 * 8
    assert scales._doubled(enough / 8, enough / 4, cell, incoming) == enough / 4
    assert scales._doubled(enough / 8, enough / 4 - 1, cell, incoming) == enough / 8
    read_out: Any = SimpleNamespace(a_mem=np.asarray(a_mem), a_syn=np.asarray(a_syn), theta=None)
    assert scales._doubled(512 * lost / 0.5, 1e9, read_out, incoming) == 512 * lost / 0.5
    assert scales._doubled(511 * lost / 0.5, 1e9, read_out, incoming) == 2 * 511 * lost / 0.5


@pytest.mark.parametrize("levels", [1, 3, 7, 15, 31, 63, 127])
@pytest.mark.parametrize("unit", [0.1, 0.0123456, 3e-4])
def test_weights_on_a_coarser_grid_stay_on_it(levels: int, unit: float) -> None:
    """Integers times a scale in single precision, as brevitas and ``torch.ao`` make weights of few bits."""
    random = np.random.default_rng(levels)
    whole = random.integers(-levels, levels, (12, 8), endpoint=True)
    whole[0, :2] = levels, 1
    weights = (whole.astype(np.float32) * np.float32(unit)).astype(np.float32)
    quantized = quantize(layer(weights, lif(a_mem=0.875, theta=8 * unit)), CHIP)
    (projection,) = quantized.projections
    integers = weights_of(projection.operator)
    assert np.array_equal(integers * levels, whole * integers.max())
    assert integers.max() > 127
