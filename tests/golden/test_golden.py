"""Summaries and digests of every stage equal the stored ones; ``python -m tests.golden`` regenerates them."""

from __future__ import annotations

import json

import pytest

from tests.golden.models import MODELS
from tests.golden.texts import DIGESTS, KNOWN, digests_of, texts_of


@pytest.mark.usefixtures("searched_once")  # each search is made anew for the bytes
@pytest.mark.parametrize("name", MODELS)
def test_every_stage_says_what_is_written_down(name: str) -> None:
    assert texts_of(name) == (KNOWN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MODELS)
def test_every_stage_writes_the_same_bytes(name: str) -> None:
    assert digests_of(name) == json.loads(DIGESTS.read_text(encoding="utf-8"))[name]


def test_every_known_text_belongs_to_a_model() -> None:
    assert {p.stem for p in KNOWN.glob("*.txt")} == set(MODELS)
