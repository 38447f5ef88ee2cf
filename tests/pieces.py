"""Work that is done piece by piece, with pieces so small that a small test enters every such loop several times."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SMALL = {
    "nirbridge.simulators:CHUNK_STEPS": 2,
    "nirbridge.simulators.fixed:CHUNK_STEPS": 2,
    "nirbridge.simulators.inputs:SCAN_ELEMENTS": 2,
    "nirbridge.simulators.quantize_data:SAMPLES": 2,
    "nirbridge.simulators.distances:_PIECE": 2,
    "nirbridge.mapping.expand:_TARGETS_AT_ONCE": 2,
    "nirbridge.importers.torch_ann_data:BATCH": 2,
    "nirbridge.importers.torch_ann_apply:AT_ONCE": 40,
}
"""Sizes of pieces by ``module:constant``; what is done in one piece by default is done in many with these."""


@contextmanager
def small_pieces() -> Iterator[None]:
    """Every size of ``SMALL`` is small; one that no module has is an error."""
    with pytest.MonkeyPatch.context() as patch:
        for place, size in SMALL.items():
            module, _, name = place.partition(":")
            found = importlib.import_module(module)
            assert getattr(found, name) > size
            patch.setattr(found, name, size)
        yield
