"""Names of networks as identifiers of Python."""

from __future__ import annotations

import ast
import keyword
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from nirbridge.emitters.modules.emit import SNNTORCH, TORCH
from nirbridge.emitters.modules.planning import RESERVED, identifiers
from tests.emitters.oracles import dense

HOSTILE = [
    '"""',
    "'",
    "\\",
    "line\nbreak",
    "é",
    "层",
    "\u202e",
    "self",
    "class",
    "forward",
    "1",
    "",
    "..",
    "a b",
    "a_b",
]
HOSTILE += ["__init__", "__import__('os')", "spk_a", "torch", "out_", "#", "{}", "{id}", "a\rb", "\udc80"]


def test_no_attribute_of_a_module_is_hidden() -> None:
    assert {name for name in dir(nn.Module()) if not name.startswith("_")} <= RESERVED


def test_names_that_can_stay_do() -> None:
    assert identifiers(["lif1", "a b", "a_b", "fc.1"]) == {
        "lif1": "lif1", "a_b": "a_b", "a b": "a_b_2", "fc.1": "fc_1"
    }  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=6))))
def test_every_name_has_an_identifier_of_its_own(names: list[str]) -> None:
    found = identifiers(names)
    assert set(found) == set(names)
    assert len(set(found.values())) == len(found)
    assert not set(found.values()) & RESERVED
    for name in found.values():
        assert name.isidentifier()
        assert name.isascii()
        assert not keyword.iskeyword(name)
        assert not name.startswith("_")


def test_hostile_names_stay_in_their_strings() -> None:
    for name in HOSTILE:
        network = dense(np.random.default_rng(0))
        populations = tuple(replace(p, name=name if p.name == "a" else p.name) for p in network.populations)
        ways = tuple(
            replace(p, source=name if p.source == "a" else p.source, target=name if p.target == "a" else p.target)
            for p in network.projections
        )
        for emitter in (TORCH, SNNTORCH):
            text = emitter.emit(replace(network, populations=populations, projections=ways)).files["model.py"]
            tree = ast.parse(text)
            (model,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model")
            assert [n.name for n in model.body if isinstance(n, ast.FunctionDef)] == ["__init__", "forward"]
            assert ascii(name).encode() in text
