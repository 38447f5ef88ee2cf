"""Display of the values of every stage: one line, a summary, escaped HTML, a table, a file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.network import to_nir
from nirbridge.network.operators import SumPool
from nirbridge.pipeline import network_of_shapes

HOSTILE = "<b>\n\x1b[31m'\"&"
"""A name as a file may have it: markup, a line break, an escape sequence."""


def _renamed(network: nb.Network) -> nb.Network:
    """The network with one population of a hostile name."""
    old = network.populations[0].name

    def named(name: str) -> str:
        return HOSTILE if name == old else name

    populations = tuple(replace(p, name=named(p.name)) for p in network.populations)
    projections = tuple(replace(p, source=named(p.source), target=named(p.target)) for p in network.projections)
    return replace(network, populations=populations, projections=projections, notes=(f"note of {HOSTILE}",))


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    """One of every kind of value, with a hostile name in it."""
    network = _renamed(network_of_shapes("4 dense3 lif dense2 lif"))
    x = np.ones((4, 2, 4), np.uint8)
    mapped = nb.map(network, "loihi1", splits={HOSTILE: 2})
    quantized = nb.quantize(network, "loihi1", calibrate=x)
    run = nb.simulate(network, x, record="*:s")
    return {
        "network": network,
        "population": network.populations[0],
        "projection": network.projections[0],
        "neuron": network.populations[0].neuron,
        "timing": network.timing,
        "chip": nb.chip("loihi1"),
        "options": nb.MapOptions(method="packed", splits={HOSTILE: 2}),
        "probe": nb.Probe(HOSTILE, ("s",)),
        "partition": nb.check_fit(network, "loihi1"),
        "mapped": mapped,
        "quantized": quantized,
        "recording": run,
        "comparison": nb.compare(run, nb.simulate(quantized, x, record="*:s")),
        "verification": nb.verify(network, "loihi1", x),
        "artifact": nb.emit(quantized),
    }


KINDS = (
    *("network", "population", "projection", "neuron", "timing", "chip", "options", "probe", "partition", "mapped"),
    *("quantized", "recording", "comparison", "verification", "artifact"),
)
DRAWN = {"network", "chip", "partition", "mapped", "quantized", "recording", "comparison", "verification"}
"""Kinds with a picture in a notebook."""


@pytest.mark.parametrize("kind", KINDS)
def test_one_line_of_plain_text(kind: str, values: dict[str, Any]) -> None:
    line = repr(values[kind])
    assert line.isprintable()
    assert line.startswith(type(values[kind]).__name__)
    assert len(line) < 240


@pytest.mark.parametrize("kind", KINDS)
def test_a_summary_that_begins_with_the_line(kind: str, values: dict[str, Any]) -> None:
    lines = values[kind].summary().split("\n")
    assert lines[0] == repr(values[kind])
    assert len(lines) > 3
    assert all(line.isprintable() and len(line) <= 240 for line in lines)
    assert all(len(line) <= 120 for line in lines[1:])


class _Tags(HTMLParser):
    """The tags of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [key for key, _ in attrs if key in ("style", "href") or key.startswith("on")]


@pytest.mark.parametrize("kind", KINDS)
def test_html_in_which_no_name_is_markup(kind: str, values: dict[str, Any]) -> None:
    seen = _Tags()
    seen.feed(values[kind]._repr_html_())
    of_card = "style div strong details summary table thead tbody tr th td p img pre"
    assert set(seen.tags) <= set(of_card.split())
    assert (seen.tags.count("img"), seen.tags.count("style"), seen.tags.count("pre")) == (kind in DRAWN, 1, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_with_a_row_per_part(kind: str, values: dict[str, Any]) -> None:
    pytest.importorskip("pandas")
    frame = values[kind].to_frame()
    assert len(frame) > 0
    assert len(frame.columns) > 1


def test_pandas_that_is_missing_is_named_with_its_extra(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(nb.errors.UsageError, match=r"pandas is not installed.*nirbridge\[frame\]"):
        values["network"].to_frame()


def test_a_small_network_is_a_few_lines() -> None:
    network = network_of_shapes("64 dense100 lif dense10 lif")
    assert repr(network) == "Network: 110 neurons, 2 populations, dt 1 ms"
    assert len(network.summary()) < 1200
    assert repr(network_of_shapes("1 dense1 lif")) == "Network: 1 neuron, 1 population, dt 1 ms"


def test_a_map_has_a_row_per_slice(values: dict[str, Any]) -> None:
    pytest.importorskip("pandas")
    mapped = values["mapped"]
    frame = mapped.to_frame()
    assert len(frame) == sum(len(b.slices) for b in mapped.partition.blocks)
    assert frame["neurons"].sum() == mapped.network.neurons
    assert {"core", "population", "slice", "core_synapse_words", "core_input_axons"} <= set(frame.columns)


# -- where a neuron is ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> nb.MappedNetwork:
    """A map in which populations are cut into several slices, one of them copied twice over."""
    network = network_of_shapes("1x6x6 conv4k3 if conv3k3 if flatten dense6 if")
    return nb.map(network, SMALL, splits={"2_if": 3, "2_if_copy": 2})


SMALL = nb.chip("loihi1")
SMALL = replace(SMALL, core=replace(SMALL.core, neurons=24))


def _holding(mapped: nb.MappedNetwork, name: str, at: tuple[int, ...]) -> Iterator[Any]:
    """By brute force: the cores with a slice of that very population around the neuron."""
    for block, core in zip(mapped.partition.blocks, mapped.cores, strict=True):
        for piece in block.slices:
            if piece.population == name and all(a <= k < b for k, (a, b) in zip(at, piece.box, strict=True)):
                yield core


def test_every_neuron_is_where_its_slices_are(small: nb.MappedNetwork) -> None:
    copies = {"2_if": ["2_if", "2_if_copy", "2_if_copy_copy", "2_if_copy_2"], "2_if_copy": ["2_if_copy"]}
    assert len({p.name for p in small.network.populations}) == 6
    for p in small.network.populations:
        if p.name not in ("2_if", "4_if", "7_if"):
            continue
        for at in np.ndindex(p.shape):
            found = small.where(p.name, at)
            expected = [core for name in copies.get(p.name, [p.name]) for core in _holding(small, name, at)]
            assert list(found) == expected


def test_one_number_stands_for_one_axis(small: nb.MappedNetwork) -> None:
    assert small.where("7_if", 3) == small.where("7_if", (3,))
    assert small.where("7_if", np.int64(3)) == small.where("7_if", (3,))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("name", "at", "said"),
    [
        ("2_fi", (0, 0, 0), "population '2_fi': unknown.*did you mean '2_if'"),
        ("0_input", (0, 0, 0), "population '0_input': unknown, the map has '2_if'"),
        ("2_if", (0, 0), "no neuron .0, 0., it has the shape 4 x 4 x 4"),
        ("2_if", (4, 0, 0), "no neuron .4, 0, 0."),
        ("2_if", (0, 0, -1), "no neuron"),
        ("7_if", 6, "no neuron 6, it has the shape 6"),
        ("7_if", "x", "no neuron x"),
        ("7_if", None, "no neuron None"),
        (None, 0, "population 'None': unknown"),
    ],
)
def test_no_such_neuron(name: Any, at: Any, said: str, small: nb.MappedNetwork) -> None:
    with pytest.raises(nb.errors.UsageError, match=said):
        small.where(name, at)


# -- recordings ------------------------------------------------------------------------------------------------------


def test_a_recording_by_name() -> None:
    network = network_of_shapes("4 dense3 lif dense2 li")
    x = np.ones((6, 4), np.uint8)
    run = nb.simulate(network, x, record=["2_lif:s,v", "4_li:v"])
    assert run["2_lif"] is run.arrays["2_lif", "s"]
    assert run["4_li"] is run.arrays["4_li", "v"]
    assert run["2_lif", "v"] is run.arrays["2_lif", "v"]
    assert "2_lif" in run
    assert ("2_lif", "v") in run
    assert "2_li" not in run
    assert None not in run


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("2_liff", "node '2_liff': not recorded.*did you mean '2_lif'"),
        (("2_lif", "u"), "node '2_lif': variable 'u' was not recorded, recorded of it: s"),
        (3, "node '3': not recorded, recorded: '2_lif'"),
        (("2_lif",), "the variable was not recorded"),
        (slice(2), "not recorded"),
        ([], "not recorded"),
    ],
)
def test_what_was_not_recorded_is_named(key: Any, said: str) -> None:
    run = nb.simulate(network_of_shapes("4 dense3 lif"), np.ones((6, 4), np.uint8), record="2_lif:s")
    with pytest.raises(nb.errors.UsageError, match=said):
        run[key]
    with pytest.raises(TypeError, match="not iterable"):
        list(run)  # pyright: ignore[reportArgumentType, reportCallIssue]


# -- comparisons -----------------------------------------------------------------------------------------------------


def test_an_array_is_compared_with_the_node_of_its_shape() -> None:
    network = network_of_shapes("4 dense3 lif dense2 lif")
    x = (np.arange(80).reshape(20, 4) % 3 == 0).astype(np.uint8)
    run = nb.simulate(network, x, record=["2_lif:s,v", "4_lif:s"])
    assert nb.compare(run["4_lif"], run).equal
    assert nb.compare(run, run["4_lif"]).equal
    assert [row.node for row in nb.compare(run, run["2_lif"]).rows] == ["2_lif"]
    other = run["2_lif"].copy()
    other[7, 1] ^= 1
    found = nb.compare(run, other)
    assert not found.equal
    assert found.rows[0].first_step == 7
    assert found.rows[0].first_neuron == (1,)
    with pytest.raises(nb.errors.UsageError, match=r"array of shape \(20, 5\), recorded: '2_lif'/s"):
        nb.compare(np.zeros((20, 5)), run)
    with pytest.raises(nb.errors.UsageError, match="did you mean '2_lif'"):
        nb.compare(other, run, node="2_liff")
    with pytest.raises(nb.errors.UsageError, match="two arrays"):
        nb.compare(other, other)


def test_the_integers_are_compared_at_their_latency() -> None:
    network = network_of_shapes("4 dense3 lif dense2 lif")
    x = (np.arange(160).reshape(40, 4) % 3 == 0).astype(np.uint8)
    reference, integers = nb.simulate(network, x), nb.simulate(nb.quantize(network, "loihi2"), x, drain=False)
    late = nb.compare(reference, integers).rows[0].latency_steps
    assert late > 0
    assert nb.compare(reference["5_output"], integers).rows[0].latency_steps == late


def test_integers_run_by_name_of_the_backend_too() -> None:
    """On a small chip and with a copy, so that routes between cores carry spikes; bits of another width."""
    network = network_of_shapes("1x6x6 conv4k3 if conv3k3 if flatten dense6 if")
    x = (np.random.default_rng(0).random((12, 1, 6, 6)) < 0.5).astype(np.uint8)
    fixed = nb.simulate(network, x, backend="fixed", chip=SMALL, record="*:s")
    assert nb.compare(fixed, nb.simulate(nb.quantize(network, SMALL), x, record="*:s")).equal
    mapped = nb.simulate(network, x, backend="mapped", chip=SMALL, record="*:s")
    assert nb.compare(fixed, mapped).equal
    assert fixed["2_if"].any()
    copied = nb.map(network, SMALL, splits={"2_if": 3})
    assert nb.compare(fixed["7_if"], nb.simulate(copied, x, record="*:s"), latency=0).equal
    narrow = nb.simulate(nb.map(network, SMALL, weight_bits=4), x, record="*:s")
    assert nb.compare(narrow, nb.simulate(nb.quantize(network, SMALL, weight_bits=4), x, record="*:s")).equal


def test_integers_have_their_chip_and_backend() -> None:
    network = network_of_shapes("4 dense3 lif")
    quantized, mapped = nb.quantize(network, "loihi1"), nb.map(network, "loihi1")
    x = np.ones((3, 4), np.uint8)
    with pytest.raises(nb.errors.UsageError, match="'chip': does not apply here, a QuantizedNetwork has its chip"):
        nb.simulate(quantized, x, chip="loihi1")
    with pytest.raises(nb.errors.UsageError, match="a MappedNetwork runs with backend 'mapped'"):
        nb.simulate(mapped, x, backend="fixed")
    with pytest.raises(nb.errors.UsageError, match="'weight_bits': does not apply here"):
        nb.emit(quantized, weight_bits=4)
    with pytest.raises(nb.errors.NirbridgeError, match="placement"):
        nb.simulate(nb.map(network, "loihi1", placement_only=True), x)


def test_a_comparison_draws_what_differs() -> None:
    pytest.importorskip("matplotlib")
    network = network_of_shapes("4 dense3 lif")
    run = nb.simulate(network, np.ones((30, 4), np.uint8))
    other = run["3_output"].copy()
    other[5, 0] ^= 1
    assert "3_output" in nb.compare(run, other).plot().get_title()
    both = nb.simulate(network, np.ones((30, 4), np.uint8), record="*:s")
    changed = replace(both, arrays={**both.arrays, ("3_output", "s"): other})
    assert "3_output" in nb.compare(both, changed).plot().get_title()
    assert "2_lif" in nb.compare(both, changed).plot("2_lif").get_title()
    assert "2_lif" in nb.compare(both, both).plot().get_title()
    with pytest.raises(nb.errors.UsageError, match="population 'x': 's' was not recorded"):
        nb.compare(run, other).plot("x")
    bare = replace(nb.compare(run, other), recordings=None)
    with pytest.raises(nb.errors.UsageError, match="has no recordings"):
        bare.plot()


# -- files -----------------------------------------------------------------------------------------------------------


def test_the_map_of_a_network_that_nir_cannot_express_names_a_network_file(tmp_path: Path) -> None:
    flat = network_of_shapes("12 dense6 lif")
    pool = replace(flat.projections[0], operator=SumPool((2,), (2,), ((0, 0),), (2, 6)))
    populations = (replace(flat.populations[0], shape=(2, 3)),)
    inputs = (replace(flat.inputs[0], shape=(2, 6)),)
    network = replace(flat, inputs=inputs, populations=populations, projections=(pool,), outputs=())
    nb.map(network, "loihi1").save(tmp_path / "n.map.json")
    network.save(tmp_path / "n.net.npz")
    for model in (network, tmp_path / "n.net.npz"):
        assert nb.load_map(tmp_path / "n.map.json", model).model_file == "n.net.npz"


@pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
def test_every_value_with_a_format_is_written_and_read(values: dict[str, Any], tmp_path: Path) -> None:
    network = network_of_shapes("4 dense3 lif dense2 lif")
    network.save(tmp_path / "n.nir")
    again = nb.load(tmp_path / "n.nir")
    assert again.file is not None
    assert again.file.name == "n.nir"
    mapped = nb.map(network, "loihi1")
    mapped.save(tmp_path / "n.map.json")
    assert nb.load_map(tmp_path / "n.map.json", again, "loihi1").model_file == "n.nir"
    with pytest.raises(nb.errors.IllegalMapping, match="is of a model with SHA-256"):
        nb.load_map(tmp_path / "n.map.json", network_of_shapes("4 dense3 lif dense3 lif"))
    mapped.report(tmp_path / "r.html")
    assert re.match("<!doctype html>", (tmp_path / "r.html").read_text())
    values["quantized"].save(tmp_path / "q.q.npz")
    assert repr(nb.load_quantized(tmp_path / "q.q.npz")) == repr(values["quantized"])
    values["recording"].save(tmp_path / "r.npz")
    assert nb.compare(tmp_path / "r.npz", values["recording"]).equal
    values["artifact"].save(tmp_path / "program")
    assert (tmp_path / "program" / "manifest.json").is_file()
    with pytest.raises(nb.errors.UsageError, match="a Chip, a Network, NIRGraph"):
        nb.save(values["chip"], tmp_path / "c")


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("network", "x.json", "x.nir"),
        ("graph", "x.npz", "x.nir"),
        ("network", "x", "x.nir"),
        ("mapped", "x.json", "x.map.json"),
        ("mapped", "x.nir", "x.map.json"),
        ("quantized", "x.npz", "x.q.npz"),
        ("recording", "x.q.npz", "x.npz"),
        ("recording", "x.map.json", "x.npz"),
        ("artifact", "x.nir", "x"),
    ],
)
def test_a_file_is_named_as_its_kind_is(
    values: dict[str, Any], kind: str, name: str, meant: str, tmp_path: Path
) -> None:
    value = to_nir(values["network"]) if kind == "graph" else values[kind]
    with pytest.raises(nb.errors.UsageError) as raised:
        nb.save(value, tmp_path / name)
    (problem,) = raised.value.problems
    assert (problem.subject, problem.hint) == (f"path '{name}'", f"did you mean '{meant}'?")
    assert all(f"{end} (" in problem.limit for end in (".nir", ".map.json", ".q.npz", ".npz"))
    assert not list(tmp_path.iterdir())
    with warnings.catch_warnings(action="ignore"):
        nb.save(value, tmp_path / meant)
    assert [path.name for path in tmp_path.iterdir()] == [meant]


def test_saving_a_network_says_what_other_tools_drop(tmp_path: Path) -> None:
    """A map that needs the digest of that file writes it for itself, and says nothing."""
    network = network_of_shapes("4 dense3 lif dense2 lif")
    first, *others = network.populations
    network = replace(network, populations=(replace(first, neuron=replace(first.neuron, reset="none")), *others))
    with pytest.warns(nb.errors.ExportWarning, match="plain NIR cannot express population '2_lif': no reset") as caught:
        nb.save(network, tmp_path / "n.nir")
    assert (len(caught), Path(caught[0].filename).name) == (1, "test_values.py")
    nb.map(network, "loihi2").save(tmp_path / "n.map.json")


def test_a_saved_map_says_where_a_neuron_is(tmp_path: Path) -> None:
    network = network_of_shapes("2x6x6 conv4k3p1 lif sumpool2 flatten dense7 lif")
    first = network.populations[-1].name
    mapped = nb.map(network, "loihi2", splits={network.populations[0].name: 2})
    mapped.save(tmp_path / "m.map.json")
    record = nb.load_map(tmp_path / "m.map.json")
    for p in network.populations:
        for index in ((0,) * len(p.shape), tuple(n - 1 for n in p.shape)):
            assert record.where(p.name, index) == mapped.where(p.name, index)
    assert len(record.where(network.populations[0].name, (0, 0, 0))) == 2
    with pytest.raises(nb.errors.UsageError, match="unknown"):
        record.where("nope", 0)
    empty = replace(record, blocks=())
    with pytest.raises(nb.errors.IllegalMapping, match=r"no core holds neuron 6 .*nirbridge.load_map\(path, model\)"):
        empty.where(first, 6)


@pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
def test_the_map_of_a_file_names_that_file(tmp_path: Path) -> None:
    """Also after rewrites for the chip; not after passes on request, which make another network of it."""
    network_of_shapes("4 dense3 lif dense2 lif").save(tmp_path / "model.nir")
    nb.map(tmp_path / "model.nir", "loihi2").save(tmp_path / "other.map.json")
    assert nb.load_map(tmp_path / "other.map.json", tmp_path / "model.nir").model_file == "model.nir"
    rewritten = nb.apply(tmp_path / "model.nir", "replicate-source{name=2_lif,ways=2}")
    assert rewritten.file is None


@pytest.mark.parametrize("dt", [None, 1e-3])
def test_an_assumed_dt_is_stated_in_line_notes_and_summary(tmp_path: Path, dt: float | None) -> None:
    nir = pytest.importorskip("nir")
    one = np.ones(3)
    node = nir.CubaLIF(tau_mem=one * 0.01, tau_syn=one * 0.005, r=one, v_leak=one * 0, v_threshold=one, w_in=one)
    nodes = {"input": nir.Input(np.array([3])), "n": node, "output": nir.Output(np.array([3]))}
    graph = nir.NIRGraph(nodes, [("input", "n"), ("n", "output")], metadata={} if dt is None else {"nirbridge:dt": dt})
    nir.write(tmp_path / "n.nir", graph)
    note = "dt is assumed to be 0.0001 s, since the model states none: give dt where time steps differ"
    for model in (tmp_path / "n.nir", graph):
        network = nb.load(model)
        assert repr(network).endswith("dt 100 us (assumed)" if dt is None else "dt 1 ms")
        assert (note in network.notes) is (dt is None)
        assert (note in network.summary()) is (dt is None)
    assert repr(nb.load(tmp_path / "n.nir", dt=1e-3)).endswith("dt 1 ms")
