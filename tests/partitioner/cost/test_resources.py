"""The cost vector against brute force."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import SynapseFormat
from nirbridge.network.model import Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Identity
from nirbridge.partitioner.cost.resources import (
    axon_list_words,
    delay_on_chip_steps,
    exceeded,
    profile_ids,
    run_words,
)
from tests.cases import cases


def synapse_format(**changed: object) -> SynapseFormat:
    """Loihi 1's synapse format with some fields changed."""
    fields: dict[str, object] = {
        "word_bits": 64,
        "words": 16_384,
        "weight_bits": (8,),
        "weight_bits_default": 8,
        "run_targets_max": 64,
        "run_free": True,
        "run_header_bits": 10,
        "index_bits": None,
        "delay_bits": 6,
        "shared_kernels": False,
    }
    return SynapseFormat(**(fields | changed))  # type: ignore[arg-type]


def brute_force(n: int, bits: int, fmt: SynapseFormat) -> int:
    """Least words over every way to cut n into runs, tried recursively from below."""

    @cache
    def least(k: int) -> int:
        if k == 0:
            return 0
        longest = min(k, fmt.run_targets_max or k)
        return min(
            least(k - m) + math.ceil((m * bits + fmt.run_header_bits) / fmt.word_bits) for m in range(1, longest + 1)
        )

    for k in range(n):
        least(k)
    return least(n)


def test_loihi_closed_form_below_1000() -> None:
    n = np.arange(1000)
    expected = -(-(n + 2 * -(-n // 62)) // 8)
    assert np.array_equal(run_words(n, synapse_format(), 8, delayed=False), expected)


@pytest.mark.parametrize(("n", "words"), [(0, 0), (1, 1), (62, 8), (64, 9), (124, 16), (1024, 133)])
def test_loihi_known_values(n: int, words: int) -> None:
    assert run_words(n, synapse_format(), 8, delayed=False) == words


def test_fixed_runs() -> None:
    fixed = synapse_format(run_free=False)
    assert run_words(1024, fixed, 8, delayed=False) == 144
    assert run_words(65, fixed, 8, delayed=False) == 9 + 1


def test_one_run_of_any_length() -> None:
    assert run_words(1000, synapse_format(run_targets_max=None), 8, delayed=False) == math.ceil(8010 / 64)
    assert run_words(0, synapse_format(run_targets_max=None), 8, delayed=False) == 0


formats = st.builds(
    synapse_format,
    word_bits=st.integers(1, 70),
    run_targets_max=st.one_of(st.none(), st.integers(1, 12)),
    run_header_bits=st.integers(0, 40),
    index_bits=st.one_of(st.none(), st.integers(0, 12)),
    delay_bits=st.integers(0, 6),
)


@given(fmt=formats, bits=st.integers(1, 9), n=st.integers(0, 260), delayed=st.booleans(), sparse=st.booleans())
@settings(max_examples=cases(50, 150), deadline=None)
def test_equal_to_brute_force(fmt: SynapseFormat, bits: int, n: int, delayed: bool, sparse: bool) -> None:
    sparse = sparse and fmt.index_bits is not None
    of_synapse = bits + (fmt.delay_bits if delayed else 0) + ((fmt.index_bits or 0) if sparse else 0)
    assert run_words(n, fmt, bits, delayed=delayed, sparse=sparse) == brute_force(n, of_synapse, fmt)


def test_large_n_costs_no_large_table() -> None:
    assert run_words(62 * 10**8, synapse_format(), 8, delayed=False) == 8 * 10**8


def test_sparse_run_on_a_chip_without() -> None:
    with pytest.raises(ValueError, match="^the chip has no sparse runs"):
        run_words(3, synapse_format(), 8, delayed=False, sparse=True)


def test_axon_words_by_stretch_or_sparse() -> None:
    positions, axons = np.array([0, 1, 2, 9, 20, 21]), np.zeros(6, np.int64)
    dense = synapse_format()
    assert axon_list_words(axons, positions, dense, 8, delayed=False)[1].tolist() == [
        3
    ]  # three stretches, one word each
    sparse = synapse_format(index_bits=4)
    words = axon_list_words(axons, positions, sparse, 8, delayed=False)[1].tolist()
    assert words == [math.ceil((6 * 12 + 10) / 64)]
    assert axon_list_words(axons[:0], positions[:0], dense, 8, delayed=False)[1].tolist() == []


@given(st.lists(st.sets(st.integers(0, 40), min_size=1), min_size=1, max_size=6), formats)
@settings(max_examples=cases(20, 60), deadline=None)
def test_many_axons_at_once(lists: list[set[int]], fmt: SynapseFormat) -> None:
    ids = np.concatenate([np.full(len(s), 3 * k) for k, s in enumerate(lists)])
    positions = np.concatenate([np.array(sorted(s)) for s in lists])
    axons, words = axon_list_words(ids, positions, fmt, 4, delayed=True)
    assert axons.tolist() == [3 * k for k in range(len(lists))]
    for s, found in zip(lists, words, strict=True):
        stretches = [[p] for p in sorted(s) if p - 1 not in s]
        for stretch in stretches:
            while stretch[-1] + 1 in s:
                stretch.append(stretch[-1] + 1)
        expected = sum(brute_force(len(x), 4 + fmt.delay_bits, fmt) for x in stretches)
        if fmt.index_bits is not None:
            expected = min(expected, brute_force(len(s), 4 + fmt.delay_bits + fmt.index_bits, fmt))
        assert found == expected


@pytest.mark.parametrize(("delay", "is_back", "stored"), [(0, False, 0), (1, True, 0), (3, True, 2), (2, False, 2)])
def test_a_back_edge_needs_no_delay_bits(delay: int, is_back: bool, stored: int) -> None:
    projection = Projection("a", "b", Identity((2,)), delay_steps=np.array(delay), is_back=is_back)
    assert delay_on_chip_steps(projection) == stored


def test_exceeded_names_each_resource() -> None:
    used = {"neurons": 5, "input_axons": 9, "output_axons": 1}
    assert exceeded(used, {"neurons": 4, "input_axons": None, "output_axons": 1}) == (("neurons", 5, 4),)


def test_profiles_uniform() -> None:
    found = profile_ids(neuron("LIF", a_mem=0.9, theta=1.5), (2, 3))
    assert found.decay.shape == (2, 3)
    assert found.decay_values == ((0.0, 0.9, 0.0),)
    assert found.threshold_values == (1.5,)


def test_profiles_of_each_neuron() -> None:
    cell = neuron("CubaLIF", a_mem=[0.9, 0.8, 0.9], a_syn=0.5, theta=[1.0, 1.0, 2.0], refractory_steps=[0, 0, 1])
    found = profile_ids(cell, (3,))
    assert [found.decay_values[i] for i in found.decay] == [(0.5, 0.9, 0.0), (0.5, 0.8, 0.0), (0.5, 0.9, 1.0)]
    assert [found.threshold_values[i] for i in found.threshold] == [1.0, 1.0, 2.0]


def test_read_out_has_no_threshold() -> None:
    found = profile_ids(neuron("LI", a_mem=0.9, theta=None), (4,))
    assert found.threshold_values == ()
    assert found.threshold.tolist() == [-1] * 4
