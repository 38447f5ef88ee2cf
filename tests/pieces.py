"""Blocks of work made so small that a small test enters every blocked loop several times."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SMALL = {
    "nirbridge.simulators.simulate:CHUNK_STEPS": 2,
    "nirbridge.simulators.fixed.runs:CHUNK_STEPS": 2,
    "nirbridge.simulators.inputs:SCAN_ELEMENTS": 2,
    "nirbridge.pipeline.quantize:SAMPLES": 2,
    "nirbridge.comparison.distances:_PIECE": 2,
    "nirbridge.mapping.synapses:_TARGETS_AT_ONCE": 2,
    "nirbridge.importers.ann.replay:BATCH": 2,
    "nirbridge.importers.lowering.analysis:AT_ONCE": 40,
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
