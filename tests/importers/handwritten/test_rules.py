"""Random rules of neurons: imported as what they compute, or refused; none is taken for something else."""

from __future__ import annotations

from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
for framework in ("snntorch", "norse", "spikingjelly"):
    pytest.importorskip(framework, reason=f"{framework} is not installed")

import nirbridge as nb  # noqa: E402
from nirbridge.network import from_nir  # noqa: E402
from nirbridge.network.nir.to_nir import to_nir  # noqa: E402
from tests.importers.handwritten.expressed import network_of  # noqa: E402
from tests.importers.handwritten.forms import outcome  # noqa: E402
from tests.importers.handwritten.rules import COUNT, EVERY, rule, twin  # noqa: E402

PARTS, SLOW = 10, 8
"""Parts that the rules are tested in, canonical and broken ones in each; those of every day, and slow ones."""
RULES = [rule(number) for number in range(COUNT)]


def test_the_drawn_rules_are_many_and_a_third_is_broken() -> None:
    assert sum(each.twin is None for each in RULES) == COUNT // EVERY == 100
    for name, least in (("reset", 4), ("decay", 6), ("synapse", 4), ("fires", 8), ("when", 3), ("takes", 4)):
        counts = Counter(getattr(each.choices, name) for each in RULES if each.twin is not None)
        assert len(counts) >= least
        assert min(counts.values()) >= 5


@pytest.mark.parametrize("part", range(PARTS))
def test_a_rule_computes_what_its_canonical_neuron_does_unless_it_is_broken(part: int) -> None:
    for drawn in RULES[part::PARTS]:
        net = drawn.module()
        for seed in (11, 12):
            x = drawn.inputs(seed)
            out = drawn.run(net, x)
            with torch.no_grad():
                is_canonical = torch.equal(out, twin(net, x))
            assert is_canonical == (drawn.twin is not None), drawn.name
        assert 0.0 < (out != 0).float().mean() < 1.0, drawn.name


@pytest.mark.parametrize("part", range(PARTS))
def test_the_canonical_neuron_of_a_rule_can_be_written_as_nir(part: int) -> None:
    for drawn in RULES[part::PARTS]:
        if drawn.twin is not None:
            net, x = drawn.module(), drawn.inputs(11)
            network = from_nir(to_nir(network_of(net)))
            (spikes,) = nb.simulate(network, x.numpy(), axes="time,sample").arrays.values()
            assert torch.equal(torch.tensor(spikes).float(), drawn.run(net, x)), drawn.name


@pytest.mark.parametrize(
    "part", [pytest.param(k, marks=[pytest.mark.slow] * (k >= PARTS - SLOW)) for k in range(PARTS)]
)
def test_a_rule_is_imported_exactly_or_refused(part: int) -> None:
    found = {each.name: (outcome(each), each.twin is not None) for each in RULES[part::PARTS]}
    wrong = {name: text for name, (text, _) in found.items() if text.startswith("wrong")}
    assert not wrong
    assert [name for name, (text, is_canonical) in found.items() if text == "equal" and not is_canonical] == []
    assert not any("convert=" in text for text, _ in found.values())
    canonical = [text for text, is_canonical in found.values() if is_canonical]
    assert set(canonical) == {"equal"}
