"""Synaptic memory run by run, and the search for widths, each against its definition."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.chips.model import SynapseFormat
from nirbridge.errors import DoesNotFit, ModelError
from nirbridge.network.apply import matrix
from nirbridge.network.operators import Conv, Dense, Sparse
from nirbridge.quantization import FixedProjection
from nirbridge.quantization.memory import fan_outs, projection_bits
from nirbridge.quantization.mixed_precision import choose_widths, memory_of

LOIHI2 = read_chip("loihi2")


def ints(values: Any) -> Any:
    return freeze(np.asarray(values, np.int64))


FORM = SynapseFormat(16, None, (2, 4, 8), 8, 4, True, 3, 5, 2, False)


def by_runs(p: FixedProjection, form: SynapseFormat, bits: int) -> int:
    """Each axon's targets in runs, each run in whole words, one after the other."""
    rows = matrix(p.operator).toarray() if not isinstance(p.operator, Sparse) else matrix(p.operator)
    fans = [int(n) for n in fan_outs(p)] if isinstance(p.operator, Sparse) else [len(rows)] * rows.shape[1]
    dense = isinstance(p.operator, Dense) or form.index_bits is None
    each = bits + (form.delay_bits if (p.delay_steps > 1).any() else 0) + (0 if dense else form.index_bits or 0)
    words = 0
    for fan in fans:
        while fan > 0:
            run = min(fan, form.run_targets_max or fan)
            words += -(-(run * each + form.run_header_bits) // form.word_bits)
            fan -= run
    return words * form.word_bits


@pytest.mark.parametrize("targets", [1, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("own", [{}, {"index_bits": None}, {"run_targets_max": None}, {"word_bits": 7}])
def test_memory_is_counted_run_by_run(targets: int, steps: int, own: dict[str, Any]) -> None:
    form = replace(FORM, **own)
    chip = replace(LOIHI2, synapses=form)
    dense = Dense(ints(np.ones((targets, 3))))
    sparse = Sparse(
        ints(np.arange(targets + 1)), ints([0] * (targets - 1) + [2]), ints([1] * targets), (3,), (targets,)
    )
    for operator, bits in itertools.product((dense, sparse), (4, 8)):
        p = FixedProjection("a", "b", operator, 8, delay_steps=ints([1, 1, steps]))
        assert projection_bits(p, chip, bits) == by_runs(p, form, bits)
        assert projection_bits(p, chip) == by_runs(p, form, 8)


def test_a_shared_kernel_is_counted_once_for_each_channel() -> None:
    conv = Conv(ints(np.ones((6, 1, 3))), (1,), ((1, 1),), (1,), 2, (2, 9))
    p = FixedProjection("a", "b", conv, 8)
    shared = replace(LOIHI2, synapses=replace(FORM, shared_kernels=True))
    per_channel = 4 * -(-(4 * 13 + 3) // 16) + -(-(2 * 13 + 3) // 16)  # 18 weights: four runs of 4, one of 2
    assert projection_bits(p, shared) == 2 * per_channel * 16
    alone = replace(LOIHI2, synapses=FORM)
    fans = [int(n) for n in fan_outs(p)]
    assert fans == ([6] + [9] * 7 + [6]) * 2
    words = {6: 4 + 2, 9: 4 + 4 + 1}  # 55, 55, 29 and 16 bits in words of 16
    assert projection_bits(p, alone) == 16 * sum(words[n] for n in fans)


def test_the_search_takes_the_layer_that_loses_least_for_its_bits() -> None:
    chip = replace(LOIHI2, synapses=replace(FORM, weight_bits=(1, 2, 4, 8, 16)))
    sizes, names = {"a": (4, 6), "b": (8, 9)}, ("a", "b")
    arcs = [SimpleNamespace(target=n) for n in names]
    net: Any = SimpleNamespace(populations=[SimpleNamespace(name=n) for n in (*names, "alone")], projections=arcs)
    refused = {("a", 4)}

    def make(widths: Any) -> Any:
        if any((n, w) in refused for n, w in widths.items()):
            raise ModelError.of("a", "b")
        ways = [FixedProjection("in", n, Dense(ints(np.ones(sizes[n]))), widths[n]) for n in names]
        return SimpleNamespace(projections=tuple(ways), widths=dict(widths))

    lost = {("a", 8): 0.0, ("a", 2): 3.0, ("b", 8): 0.0, ("b", 4): 4.0, ("b", 2): 9.0}

    def score(q: Any) -> float:
        return -sum(lost[n, q.widths[n]] for n in names)

    def bits(**widths: int) -> int:
        return memory_of(make(widths), chip)

    said: list[str] = []
    choice = choose_widths(net, chip, bits(a=2, b=2), make, score, lambda text, done: said.append(text))
    rounds = [{"a": 8, "b": 8}]
    while rounds[-1] != {"a": 2, "b": 2}:
        now, options = rounds[-1], []
        for n in names:
            narrower = [w for w in (4, 2) if w < now[n] and (n, w) not in refused]
            if narrower:
                then = {**now, n: narrower[0]}
                drop = -score(make(then)) + score(make(now))
                options.append((drop / (bits(**now) - bits(**then)), then))
        rounds.append(min(options, key=lambda o: o[0])[1])
    assert [dict(w) for w, _, _ in choice.tried] == rounds
    assert [b for _, b, _ in choice.tried] == [bits(**w) for w in rounds]
    assert [s for _, _, s in choice.tried] == [score(make(w)) for w in rounds]
    assert (dict(choice.weight_bits), choice.synapse_bits, choice.score) == (rounds[-1], bits(a=2, b=2), -12.0)
    assert said == [f"mixed precision: {bits(**w):,} bits" for w in rounds[1:]]
    assert len(choose_widths(net, chip, bits(a=8, b=8), make, score).tried) == 1
    least = f"synaptic memory: {bits(a=2, b=2):,} bits at the narrowest weights"
    limit = f"{bits(a=2, b=2) - 1:,} bits are allowed; allow more, or make the layers smaller"
    with pytest.raises(DoesNotFit) as caught:
        choose_widths(net, chip, bits(a=2, b=2) - 1, make, score)
    assert str(caught.value) == f"{least}, {limit}"
    with pytest.raises(DoesNotFit, match=r"at the narrowest weights, and those that were requested, 1 bits are"):
        choose_widths(net, chip, 1, make, score, asked={"b": 4, "*": 8})
