"""Networks, quantized networks, maps and recordings as the page reads them, against what Python reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.chips import chip_from_dict
from nirbridge.mapping.cost import missing_figures
from nirbridge.mapping.storage.file import read_map
from nirbridge.network.compose import parts_of
from nirbridge.report.map_facts import figure_with_prefix, is_approximate_table
from nirbridge.testing.examples import example_networks
from tests.viewer.reader import Reader

MODELS = Path(__file__).resolve().parents[2] / "examples/models"


def shaped(param: dict[str, Any]) -> Any:
    return param["values"].reshape(param["shape"])


def check_values(shown: list[dict[str, Any]], record: Any, prefix: str = "") -> None:
    """The parameters that are shown of an object are its arrays, value by value."""
    for param in shown:
        if not param["name"].startswith(prefix):
            continue
        value = np.asarray(getattr(record, param["name"].removeprefix(prefix)))
        assert np.array_equal(shaped(param), value), param["name"]


# -- networks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(3))
def test_a_network_file(index: int, reader: Reader, tmp_path: Path) -> None:
    nb.save(example_networks()[index], tmp_path / "model.net.npz")
    network = nb.load(tmp_path / "model.net.npz")
    document = reader.file(tmp_path / "model.net.npz")
    nodes = {node["id"]: node for node in document["graph"]["nodes"]}
    assert document["kind"] == "network"
    assert {p.name for p in (*network.inputs, *network.populations, *network.outputs)} <= set(nodes)
    for p in network.populations:
        assert nodes[p.name]["type"] == p.neuron.kind
        assert {"a_mem", "g_mem", "theta"} - {param["name"] for param in nodes[p.name]["params"]} <= {"theta"}
        check_values(nodes[p.name]["params"], p.neuron)
    check_projections(network.projections, document["graph"])


def check_projections(projections: Any, graph: dict[str, Any]) -> None:
    """Every projection is a way from its source to its target: an edge, or a node that holds its weights."""
    nodes = {node["id"]: node for node in graph["nodes"]}
    ways = [(edge["source"], edge["target"]) for edge in graph["edges"]]
    left = list(ways)
    for p in projections:
        if (p.source, p.target) in left:
            left.remove((p.source, p.target))
            continue
        ids = [
            target for source, target in left if source == p.source and target.startswith(f"{p.source} → {p.target}")
        ]
        left.remove((p.source, ids[0]))
        left.remove((ids[0], p.target))
        node, parts = nodes[ids[0]], parts_of(p.operator)
        assert node["type"] == " + ".join(type(part).__name__ for part in parts)
        for k, part in enumerate(parts):
            prefix = f"{k}." if len(parts) > 1 else ""
            arrays = [param for param in node["params"] if hasattr(part, param["name"].removeprefix(prefix))]
            check_values([param for param in arrays if "." in param["name"] or not prefix], part, prefix)
    assert left == []


def test_a_quantized_file(reader: Reader, tmp_path: Path) -> None:
    nb.quantize(MODELS / "digits_cnn.nir", "loihi1").save(tmp_path / "model.q.npz")
    quantized = nb.load_quantized(tmp_path / "model.q.npz")
    document = reader.file(tmp_path / "model.q.npz")
    nodes = {node["id"]: node for node in document["graph"]["nodes"]}
    assert document["kind"] == "quantized"
    assert dict(document["facts"])["chip"] == "loihi1"
    for p, layer in zip(quantized.populations, quantized.report, strict=True):
        check_values(nodes[p.name]["params"], p.neuron)
        low, high = layer.bounds.v
        assert ["v, proved", f"{low:,} to {high:,}"] in nodes[p.name]["facts"]
    for p in quantized.projections:
        node = nodes[f"{p.source} → {p.target}"]
        check_values([param for param in node["params"] if param["name"] == "weight"], p.operator)
        assert ["weight_bits", str(p.weight_bits)] in node["facts"]
        assert ["weight_exp", str(p.weight_exp)] in node["facts"]


# -- maps --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "chip"), [("digits_mlp", "loihi1"), ("digits_cnn", "loihi2"), ("digits_cnn", "small")]
)
def test_a_map_file(model: str, chip: str, reader: Reader, tmp_path: Path) -> None:
    target = Path(__file__).resolve().parents[2] / "examples/chips/my_chip.toml" if chip == "small" else chip
    nb.map(MODELS / f"{model}.nir", target).save(tmp_path / "model.map.json")
    record = read_map(tmp_path / "model.map.json")
    document = reader.file(tmp_path / "model.map.json")
    plan = document["plan"]
    names = [p.name for p in record.populations]
    assert document["kind"] == "map"
    assert [(p["name"], tuple(p["shape"]), p["neurons"]) for p in plan["populations"]] == [
        (p.name, p.shape, p.neurons) for p in record.populations
    ]
    assert [(c["chip"], c["x"], c["y"], c["core"]) for c in plan["cores"]] == [tuple(b.core) for b in record.blocks]
    assert [[(names[s["population"]], tuple(map(tuple, s["box"]))) for s in c["slices"]] for c in plan["cores"]] == [
        [(s.population, s.box) for s in b.slices] for b in record.blocks
    ]
    assert [c["used"] for c in plan["cores"]] == [dict(b.used) for b in record.blocks]
    assert sum(s["neurons"] for c in plan["cores"] for s in c["slices"]) == sum(p.neurons for p in record.populations)
    assert [(r["source"], r["input"], r["target"], r["spikes"], r["hops"]) for r in plan["routes"]] == [
        (r.source_block, r.source_input, r.target_block, r.spikes_per_step, r.hops) for r in record.routes
    ]
    is_rough = is_approximate_table(record.raw["approximate"], "energy")
    energy = figure_with_prefix(record.raw["totals"]["energy_per_step_j"], "J", approximate=is_rough)
    missing = missing_figures(chip_from_dict(record.chip))["energy"]
    partial = f" (partial: no data for {', '.join(missing)})" if missing else ""
    assert dict(document["facts"])["energy"] == f"{energy} per time step{partial}"
    mesh = record.chip["mesh"]
    assert [plan["width"], plan["height"], plan["coresPerTile"]] == [
        mesh["width_tiles"], mesh["height_tiles"], mesh["cores_per_tile"]
    ]  # fmt: skip
    assert plan["limits"]["neurons"] == record.raw["totals"]["neurons"]["limit"]
    assert [(e["source"], e["target"]) for e in document["graph"]["edges"]] == [
        (p.source, p.target) for p in record.projections
    ]


# -- recordings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [None, 3])
def test_a_recording(samples: int | None, reader: Reader, tmp_path: Path) -> None:
    network = nb.load(MODELS / "digits_cnn.nir")
    shape = (9, *(() if samples is None else (samples,)), *network.inputs[0].shape)
    spikes = np.random.default_rng(5).random(shape) < 0.3
    recording = nb.simulate(network, spikes, record="*:s,u,v,i")
    nb.save(recording, tmp_path / "run.npz")
    check_recording(reader.file(tmp_path / "run.npz"), recording, samples)


def test_odd_names_and_orders_of_axes(reader: Reader, tmp_path: Path) -> None:
    arrays = {
        ("a/b", "s"): np.arange(12, dtype=np.int16).reshape(4, 3),
        ("..//%:\\名\x1b", "v"): np.asfortranarray(np.arange(24, dtype=np.float64).reshape(4, 3, 2)),
        ("count", "count"): np.arange(3),
        ("long", "i"): (np.arange(8, dtype=np.int64) << 40).reshape(4, 2),
    }
    recording = nb.Recording(arrays, {"dt": 1e-3, "steps": 4, "batch": None})
    nb.save(recording, tmp_path / "run.npz")
    document = reader.file(tmp_path / "run.npz")
    assert document["notes"] == ["spike counts of 'count' are not drawn: they are sums over time, without time steps"]
    kept = {key: value for key, value in arrays.items() if key[1] != "count"}
    check_recording(document, nb.Recording(kept, recording.meta), None)


def check_recording(document: dict[str, Any], recording: Any, samples: int | None) -> None:
    shown = {(node["name"], node["variable"]): node for node in document["recording"]["nodes"]}
    assert document["kind"] == "recording"
    assert document["recording"]["dt"] == recording.meta["dt"]
    assert document["recording"]["steps"] == recording.meta["steps"]
    assert set(shown) == set(recording.arrays)
    for key, values in recording.arrays.items():
        node = shown[key]
        assert (node["steps"], node["samples"]) == (len(values), samples or 1)
        assert tuple(node["shape"]) == values.shape[1 if samples is None else 2 :]
        assert node["size"] == np.prod(node["shape"])
        assert np.array_equal(node["values"].reshape(values.shape), values)


def test_a_verification_shows_every_way(reader: Reader, tmp_path: Path) -> None:
    verification = nb.verify(MODELS / "digits_mlp.nir", "loihi1", inputs=np.ones((6, 64)))
    nb.save(verification, tmp_path / "verified.npz")
    document = reader.file(tmp_path / "verified.npz")
    names = {(node["name"], node["variable"]) for node in document["recording"]["nodes"]}
    assert names == {
        (f"{way}: {node}", v)
        for way, each in verification.recordings.items()
        for node, v in each.arrays
        if v != "count"
    }
