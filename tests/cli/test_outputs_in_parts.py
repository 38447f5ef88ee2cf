"""Parts of the output of commands: documents, lines, numbers; streams that fail; insufficient memory."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.cli import common
from nirbridge.cli import options as conversion_options
from nirbridge.cli.commands import doctor, import_, simulate
from nirbridge.emitters.lava.runtime.environment import LavaStatus
from nirbridge.errors import UsageError
from nirbridge.simulators.types import Recording
from tests.partitioner.nets import network_of

# -- import ------------------------------------------------------------------------------------------------------------

LAYERS = [
    {"name": "a", "scale": [0.5, 0.5], "clipped": 0.0123, "error": 0.5, "error_share": 0.125, "bound_spikes": 1.5},
    {"name": "b", "scale": [0.25, 1.0], "clipped": 0, "error": 12, "error_share": 0.5, "bound_spikes": 1e-3},
]
REPORT: dict[str, Any] = {
    "steps": 64,
    "samples": 1000,
    "given_samples": 1200,
    "measured_samples": 1100,
    "layers": LAYERS,
    "output_error": 0.0123,
    "decisions": 0.987,
}


def test_the_report_of_a_conversion_in_lines() -> None:
    lines = conversion_options.report_lines(REPORT)
    assert [" ".join(line.split()) for line in lines] == [
        "conversion for 64 steps on 1,000 of 1,200 samples, spikes counted on 1,100",
        "population scale clipped error of size bound",
        "'a' 0.5 1.23% 0.5 12.5% 1.5",
        "'b' 0.25 to 1 0.00% 12 50.0% 0.001",
        "outputs: root mean square error 0.0123",
        "decisions: 98.7% equal to the original's",
    ]
    assert len({len(line) for line in lines[1:4]}) == 1
    short = conversion_options.report_lines(REPORT | {"given_samples": 1000, "output_error": None, "decisions": None})
    assert short[0] == "conversion for 64 steps on 1,000 samples, spikes counted on 1,100"
    assert len(short) == 4


def imported(**metadata: Any) -> Any:
    return SimpleNamespace(metadata={f"nirbridge:{key}": value for key, value in metadata.items()})


def test_an_import_in_words_and_as_a_document() -> None:
    network = network_of("4 dense3 lif dense2 lif")
    check = {"text": "identical on 12 outputs", "n": 2}
    graph = imported(source="norse 1", self_check=json.dumps(check), notes="n1\n\nn2", warnings="w")
    named = [(p.name, list(p.shape), p.neuron.kind) for p in network.populations]
    assert import_._lines("m.nir", graph, network, False) == [
        f"'m.nir': 5 neurons in 2 populations, 3 projections, from norse 1, dt {network.dt:g} s",
        *(f"  '{name}' {shape} {kind}" for name, shape, kind in named),
        "self-check: identical on 12 outputs",
        "note: n1",
        "note: n2",
        "other tools: 1 point in which they would run this file differently; nirbridge inspect m.nir --portability "
        "lists them",
    ]
    document = import_._document("m.nir", graph, network, True)
    assert document == {
        "output": "m.nir",
        "source": "norse 1",
        "dt": network.dt,
        "dt_is_assumed": True,
        "inputs": [{"name": "0_input", "shape": [4]}],
        "outputs": [{"name": p.name, "shape": [2]} for p in network.outputs],
        "populations": [{"name": name, "shape": shape, "neuron": kind} for name, shape, kind in named],
        "neurons": 5,
        "projections": len(network.projections),
        "self_check": check,
        "notes": ["n1", "n2"],
        "warnings": ["w"],
    }
    bare = import_._lines("m", imported(), network, True)
    assert bare[0].endswith(f"from a module, dt {network.dt:g} s (assumed: the module stores none; set it with --dt)")
    assert len(bare) == 3
    assert import_._document("m", imported(), network, False)["self_check"] is None
    converted = imported(conversion=json.dumps(REPORT))
    assert import_._document("m", converted, network, False)["conversion"] == REPORT
    assert len(import_._lines("m", converted, network, False)) == 3 + 6


# -- simulate ----------------------------------------------------------------------------------------------------------

ARRAYS: dict[tuple[str, str], Any] = {
    ("a", "s"): np.full((700, 2), 1, np.uint8),
    ("a", "v"): np.ones((700, 2)),
    ("b\n", "s"): np.ones((3, 1), np.float32),
    ("b\n", "count"): np.array([5, 6]),
    ("c", "u"): np.ones(2, np.int32),
}


def test_a_recording_in_numbers_and_words() -> None:
    meta: dict[str, Any] = {"batch": None, "steps": 1234, "dt": 1e-3, "backend": "dense"}
    recording = Recording(ARRAYS, meta)
    spikes = [entry.get("spikes") for entry in common.summary(recording)["recorded"]]
    assert spikes == [1400, None, None, 11, None]
    assert common.summary(recording)["recorded"][0] == {
        **{"node": "a", "variable": "s", "shape": [700, 2], "type": "uint8"},
        "spikes": 1400,
    }
    assert common.summary_lines(recording, "here") == [
        "1,234 time steps of 0.001 s, integers, backend dense",
        "'a' s: [700, 2] uint8, 1,400 spikes",
        "'a' v: [700, 2] float64",
        "'b\\n' s: [3, 1] float32",
        "'b\\n' count: [2] int64, 11 spikes",
        "'c' u: [2] int32",
    ]
    more = Recording({}, meta | {"batch": 3, "dtype": "float32", "assumed": ["dt"]})
    assert common.summary_lines(more, "here") == [
        "1,234 time steps of 0.001 s, batch 3, float32, backend dense",
        "1 assumption on the model: here",
    ]


@pytest.mark.parametrize(
    ("arrays", "node", "drawn"),
    [
        (("av", "bs", "cs"), None, "raster b"),
        (("av", "bu"), None, "traces a"),
        (("ai", "bu", "cv"), None, "traces b"),
        (("av", "as"), "a", "raster a"),
        (("as", "bv"), "b", "traces b"),
        (("as",), "z", "raster z"),
    ],
)
def test_a_raster_where_there_are_spikes(
    arrays: tuple[str, ...], node: str | None, drawn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nirbridge.report.plots import recordings as pictures
    from nirbridge.report.plots import style as files

    saved: list[Any] = []
    for name in ("raster", "traces"):
        monkeypatch.setattr(pictures, f"plot_{name}", lambda _, chosen, *__, _name=name, **___: f"{_name} {chosen}")
    monkeypatch.setattr(files, "save_picture", lambda figure, path: saved.append((figure, path)))
    recording = Recording({(key[0], key[1]): np.ones(1) for key in arrays}, {})
    simulate.draw(recording, "p.png", node)
    assert saved == [(drawn, "p.png")]


def test_nothing_to_draw() -> None:
    with pytest.raises(UsageError) as caught:
        simulate.draw(Recording({("a", "i"): np.ones(1), ("a", "count"): np.ones(1)}, {}), "p.png", "a")
    assert str(caught.value) == "--plot: no node has spikes or potentials to draw; add --record '*:s,v'"


# -- lava --------------------------------------------------------------------------------------------------------------


def test_the_environment_in_words_and_as_a_document() -> None:
    works = LavaStatus(Path("/p"), "cache", MappingProxyType({"python": "3.10.1", "lava-nc": "0.10.0"}))
    assert doctor.summary_lines(works) == [
        "Lava works",
        "python   /p (from cache)",
        "lava-nc  0.10.0",
        "python   3.10.1",
    ]
    not_there = LavaStatus(None, "X", trouble="none", hint="install it")
    assert doctor.summary_lines(not_there) == ["Lava does not work", "problem  none", "hint     install it"]
    assert doctor.status_document(not_there) == {
        **{"ready": False, "python": None, "source": "X", "versions": {}},
        **{"trouble": "none", "hint": "install it"},
    }
    assert doctor.status_document(works)["python"] == "/p"
    assert doctor.status_document(works)["ready"] is True
