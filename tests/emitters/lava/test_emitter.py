"""Lava as an emitter: accepted models and options, and recordings of a program."""

from __future__ import annotations

import json
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.artifact import make_artifact
from nirbridge.emitters.lava.emit import LAVA, LavaOptions, emit
from nirbridge.emitters.lava.runtime.probes import requested
from nirbridge.errors import UsageError
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Probe
from nirbridge.testing import example_models

NODES = [{"name": "p", "shape": [2], "fires": True}, {"name": "r", "shape": [3], "fires": False}]
PORTS = {"inputs": [{"name": "in", "shape": [2]}], "outputs": [{"name": "out", "shape": [3]}]}
PROGRAM = make_artifact({"program.json": json.dumps({"dt": 1e-3, "nodes": NODES, **PORTS}).encode()}, {"kind": "lava"})


def ran(arrays: dict[tuple[str, str], Any]) -> Any:
    kept = {key: np.asarray(values) for key, values in arrays.items()}
    return SimpleNamespace(arrays=MappingProxyType(kept), meta=MappingProxyType({"steps": 4}))


def test_programs_are_those_of_emit() -> None:
    for model in example_models(QuantizedNetwork):
        assert isinstance(model, QuantizedNetwork)
        assert LAVA.emit(model).digest == emit(model).digest
        assert LAVA.emit(model, LavaOptions(floating=True)).digest == emit(model, floating=True).digest
    for model in example_models(MappedNetwork):
        assert isinstance(model, MappedNetwork)
        whole = emit(integers_of(model), mapped=model)
        assert LAVA.emit(model).digest == whole.digest


def test_probes_become_texts_and_arrays() -> None:
    probes = [Probe("p", ("s",), every=2), Probe("p", ("count", "v")), Probe("r", ("u",)), Probe("out", ("v",))]
    wanted = requested(PROGRAM, probes)
    assert wanted.texts == ("p:s", "p:v", "r:u", "out:s")
    spikes = np.array([[1, 0], [0, 1], [1, 1], [0, 1]], np.uint8)
    found = wanted.recording(ran({("p", "s"): spikes, ("p", "v"): [1], ("r", "u"): [2], ("out", "v"): [3]}))
    assert {key: array.tolist() for key, array in found.arrays.items()} == {
        ("p", "s"): [[0, 1], [0, 1]], ("p", "count"): [2, 3], ("p", "v"): [1], ("r", "u"): [2], ("out", "v"): [3],
    }  # fmt: skip
    assert dict(found.meta) == {"steps": 4, "every": {"p/s": 2}}


def test_all_and_the_default() -> None:
    assert requested(PROGRAM, [Probe("*", ("s", "v"))]).texts == ("p:s", "p:v", "r:v", "out:s")
    default = requested(PROGRAM, None)
    assert default.texts == ()
    assert default.recording(ran({("out", "v"): [3]})).arrays["out", "v"].tolist() == [3]


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (Probe("q", ("s",)), "record 'q': no population, input or output of that name"),
        (Probe("p", ("i",)), "record 'p': variable i; the current is u here"),
        (Probe("in", ("s",)), "record 'in': is an input, a program records populations and outputs"),
        (Probe("r", ("s",)), "record 'r', variable s: "),
    ],
)
def test_probes_that_a_program_does_not_take(probe: Probe, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        requested(PROGRAM, [probe])
    assert str(caught.value).startswith(words)
