from __future__ import annotations

import json
from pathlib import Path

import h5py
import nir
import numpy as np
import pytest
from rich.console import Console

from nirbridge.cli.main import run
from nirbridge.importers import save_nir
from nirbridge.network import Timing
from nirbridge.network.naming import folded
from nirbridge.report.inspect import inspect_graph, inspect_text, name_text
from nirbridge.report.lines import shape_line
from tests.network.graphs import chain, graph_of, lif, out, port


@pytest.fixture
def model(tmp_path: Path) -> str:
    conv = nir.Conv2d((4, 4), np.ones((3, 2, 3, 3)), 1, 1, 1, 1, np.ones(3))
    pool = nir.SumPool2d(kernel_size=np.array([2, 2]), stride=np.array([2, 2]), padding=np.array([0, 0]))
    flat = nir.Flatten({"input": np.array([3, 2, 2])}, 0, -1)
    nodes = [port(2, 4, 4), conv, lif(3, 4, 4), pool, flat, nir.Linear(np.ones((5, 12))), lif(5), out(5)]
    save_nir(chain(*nodes), tmp_path / "model.nir")
    return str(tmp_path / "model.nir")


def document(model: str, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    assert run(["inspect", model, "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_totals_and_nodes(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(model, capsys)
    border_taps = (3 * 4 - 2) ** 2  # taps of a padded 3 x 3 window that fall inside 4 x 4
    assert found["totals"] == {
        "neurons": 53,
        "synapses": 2 * 3 * border_taps + 5 * 48,
        "weights": 54 + 3 + 60,
        "parameters": 54 + 3 + 60 + 5 * 48 + 5 * 5,
    }
    nodes = found["nodes"]
    assert isinstance(nodes, list)
    assert [node["name"] for node in nodes] == ["in", "0", "1", "2", "3", "4", "5", "out"]
    assert nodes[1] == {
        "name": "0",
        "type": "Conv2d",
        "input_shape": [2, 4, 4],
        "output_shape": [3, 4, 4],
        "feeds": ["1"],
        "window": {"kernel": [3, 3], "stride": [1, 1], "groups": 1},
        "weights": {"range": [1.0, 1.0], "zeros": 0.0},
        "parameters": {"bias": [1.0, 1.0]},
    }
    assert found["dead"] == {"no_input": [], "no_output": []}


def test_options_are_read(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--dt", "1e-3", "--integrator", "zoh", "--reset", "subtract", "--compare", "ge", "--if-gain", "per-step"]
    found = document(model, capsys, *options)
    assert found["timing"] == {
        "dt": 1e-3,
        "integrator": "zoh",
        "reset": "subtract",
        "compare": ">=",
        "if_gain": "per-step",
    }
    assert found["assumed"] == []


def test_tables(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", model]) == 0
    text = capsys.readouterr().out
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "0 Conv2d 2x4x4 to 3x4x4 3x3, all 1, bias 1 1" in rows
    assert "1 48 0.9 600 from in (bias)" in rows
    assert "5 5 0.9 240 from 1" in rows
    assert "network 53 neurons, 840 synapses" in rows
    assert "stored 382 parameters, 117 of them weights and biases" in rows
    assert "timing dt 100 us (assumed), euler, reset to-value, spike if v > threshold" in rows
    assert "- dt = 0.0001 s: the file stores none" in rows


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--dt", "0"], 2, "error: timing option dt: 0.0, a finite number of seconds above 0; correct it\n"),
        (["--max-bytes", "10"], 2, "error: 'model.nir': it has"),
        (["--reset", "soft"], 2, "error: --reset: 'soft', expected one of to-value, "),
    ],
)
def test_wrong_usage(
    arguments: list[str], code: int, message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", model, *arguments]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(message)
    assert captured.out == ""


def test_a_model_without_exact_meaning_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_nir(chain(port(1), nir.Delay(np.array([1.5e-4])), lif(1), out(1)), tmp_path / "late.nir")
    assert run(["inspect", str(tmp_path / "late.nir")]) == 1
    assert capsys.readouterr().err.startswith("error: node '0' (Delay): a delay of 0.00015 s is 1.5 steps of dt")


def test_names_notes_and_loops_are_shown_safely() -> None:
    nodes = {"in": port(1), "a\nb": lif(1), "[red]": lif(1), "out": out(1), "end": lif(1)}
    edges = [("in", "a\nb"), ("a\nb", "[red]"), ("[red]", "a\nb"), ("[red]", "out"), ("in", "end")]
    console = Console(width=160, file=None, record=True, markup=True)
    with console.capture() as captured:
        console.print(inspect_text(inspect_graph(graph_of(nodes, edges), Timing())))
    text = captured.get()
    assert "'a\\nb'" in text
    assert "[red]" in text
    assert "closes a cycle" in text
    assert "- population 'end': no output can be reached from it" in text


def test_names_and_shapes() -> None:
    assert (name_text("fc1"), name_text(" x"), name_text(""), shape_line((2, 3000))) == (
        "fc1",
        "' x'",
        "''",
        "2 x 3,000",
    )
    assert shape_line(()) == "1"


def test_nodes_follow_the_edges_and_loops_begin_at_their_entry() -> None:
    step = nir.Linear(np.array([[0.0, 0.5], [-1.5, 0.0]]))
    nodes = {"out": out(2), "b": step, "a": lif(2), "loop": step, "2": lif(2), "10": lif(2), "in": port(2)}
    edges = [
        ("in", "a"),
        ("a", "loop"),
        ("loop", "a"),
        ("a", "b"),
        ("b", "10"),
        ("b", "2"),
        ("2", "out"),
        ("10", "out"),
    ]
    found = inspect_graph(graph_of(nodes, edges), Timing())["nodes"]
    assert [node["name"] for node in found] == ["in", "a", "b", "2", "10", "loop", "out"]
    assert {node["name"]: node["feeds"] for node in found} == {
        "in": ["a"], "a": ["loop", "b"], "b": ["10", "2"], "2": ["out"], "10": ["out"], "loop": ["a"], "out": [],
    }  # fmt: skip
    assert found[2]["weights"] == {"range": [-1.5, 0.5], "zeros": 0.5}
    assert found[1]["parameters"]["v_threshold"] == [1.0, 1.0]


def told(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[object, object, object]:
    found = document(str(path), capsys, *options)
    return found["exporter"], found["nir_version"], found["dt_from"]


def test_the_tool_that_wrote_a_file_and_where_dt_comes_from(
    tmp_path: Path, from_norse: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(Path(from_norse), capsys, "--repair", "batch-axis") == (["Norse", "likely"], nir.version, "assumed")
    assert told(Path(model), capsys, "--dt", "1e-3") == (None, nir.version, "given")
    graph = chain(port(1), lif(1), out(1), dt=1e-3)
    save_nir(graph, tmp_path / "ours.nir")
    assert told(tmp_path / "ours.nir", capsys) == (["nirbridge", "certain"], nir.version, "stored")
    graph.metadata["nirbridge:source"] = "snntorch 1.0.0"
    save_nir(graph, tmp_path / "ours.nir")
    assert told(tmp_path / "ours.nir", capsys)[0] == ["nirbridge, from snntorch 1.0.0", "certain"]
    counter = nir.IF(r=np.ones(1), v_threshold=np.ones(1))
    save_nir(chain(port(1), counter, out(1)), tmp_path / "either.nir")
    assert told(tmp_path / "either.nir", capsys)[0] == ["Sinabs or Norse", "possible"]


# -- known faults of exporters ------------------------------------------------------------------------------------


@pytest.fixture
def from_norse(tmp_path: Path) -> str:
    """As Norse writes: tau times its dt, and the batch counted as an axis of the ports."""
    n, m = 4, 3
    nodes = {
        "in": nir.Input({"input": np.array([1, n])}),
        "fc": nir.Linear(np.ones((m, n))),
        "lif": nir.LIF(np.full(m, 1e-5), np.ones(m), np.zeros(m), np.ones(m)),
        "fc2": nir.Linear(np.ones((m, m))),
        "lif2": nir.LIF(np.full(m, 1e-5), np.ones(m), np.zeros(m), np.ones(m)),
        "out": nir.Output({"output": np.array([1, m])}),
    }
    edges = [("in", "fc"), ("fc", "lif"), ("lif", "fc2"), ("fc2", "lif2"), ("lif2", "out")]
    nir.write(tmp_path / "norse.nir", nir.NIRGraph(nodes, edges, type_check=False))
    return str(tmp_path / "norse.nir")


def test_a_batch_that_is_counted_names_the_option(from_norse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", from_norse]) == 2
    assert capsys.readouterr().err.endswith(
        "error: 'norse.nir', ports 'in', 'out': have an axis of size 1 more than their neighbours; "
        "--repair batch-axis (in Python repairs=['batch-axis']) takes it off\n"
    )


def test_faults_are_found_and_repaired_only_on_request(from_norse: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(from_norse, capsys, "--repair", "batch-axis")
    assert [(f["name"], f["node"], f["sure"], f["repair"]) for f in found["findings"]] == [  # type: ignore[attr-defined]
        ("norse", "lif", "likely", "norse"),
        ("norse", "lif2", "likely", "norse"),
    ]
    assert found["timing"]["dt"] == 1e-4  # type: ignore[index]
    mended = document(from_norse, capsys, "--repair", "norse", "--repair", "batch-axis")
    assert mended["timing"]["dt"] == 1e-3  # type: ignore[index]
    assert mended["populations"][0]["membrane_decay"] == pytest.approx([0.9, 0.9])  # type: ignore[index]
    assert mended["findings"] == found["findings"]
    assert (len(found["faults"]), mended["faults"]) == (1, [])  # type: ignore[arg-type]
    assert (found["dt_from"], mended["dt_from"]) == ("assumed", "assumed by the repair")
    assert mended["repaired"] == ["norse", "batch-axis"]


def test_faults_are_shown_once_with_the_option_that_mends_them(
    from_norse: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", from_norse, "--repair", "batch-axis"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    said = "tau up to 1e-05 s with r = 1: Norse writes tau multiplied by its dt (likely); repair it with --repair norse"
    assert text.count(f"known faults of exporters - in 2 nodes ('lif', 'lif2'): {said}") == 1
    assert text.endswith("repaired on request - batch-axis")


def test_an_unknown_repair(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", model, "--repair", "nrse"]) == 2
    assert capsys.readouterr().err.startswith("error: repair 'nrse': unknown, known repairs: batch-axis, ")


def test_a_floor_of_the_membrane_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = nir.IF(r=np.full(3, 1e4), v_threshold=np.ones(3))
    node.metadata = {"nirbridge:v_min": np.array([-1.0, -0.5, -0.5]), "nirbridge:reset": "subtract"}
    nodes = {"in": port(3), "cell": node, "out": out(3)}
    save_nir(graph_of(nodes, [("in", "cell"), ("cell", "out")], dt=1e-4), tmp_path / "floor.nir")
    assert run(["inspect", str(tmp_path / "floor.nir")]) == 0
    assert "1, reset subtract, floor -1 to -0.5" in " ".join(capsys.readouterr().out.split())
    assert run(["inspect", "--json", str(tmp_path / "floor.nir")]) == 0
    assert json.loads(capsys.readouterr().out)["populations"][0]["v_min"] == [-1.0, -0.5]


# -- sentences of several nodes -------------------------------------------------------------------------------------


def test_sentences_of_several_nodes_are_said_once() -> None:
    said = [f"node '{name}' (LIF): late" for name in ("n10", "n2", "n1", "n3", "n4")]
    assert folded([*said, "population 'n1': late", "node 'n1': late, too", "late"]) == [
        "in 5 nodes ('n1', 'n2', 'n3', 'n4' and 1 more): late",
        "population 'n1': late",
        "node 'n1': late, too",
        "late",
    ]
    assert folded(["node 'a\\'): b' (IF): c", "node 'a' (LIF): c"]) == ["in 2 nodes ('a', 'a\\'): b'): c"]
    assert folded(["late", "late"]) == ["late"]


def test_parameters_that_a_file_leaves_out_are_assumed_and_not_counted(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    full = document(model, capsys)
    with h5py.File(model, "r+") as file:
        del file["node/nodes/1/v_reset"]
    found = document(model, capsys)
    assert full["totals"]["parameters"] - found["totals"]["parameters"] == 3 * 4 * 4
    assert [text for text in found["assumed"] if text not in full["assumed"]] == ["v_reset = 0 of '1': not in the file"]


def test_portability_says_where_dt_comes_from(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assumed, *rest = document(model, capsys, "--portability")["portability"]
    given, *same = document(model, capsys, "--portability", "--dt", "1e-4")["portability"]
    assert assumed == "dt = 0.0001 s is assumed, the file has none: other tools run the file with their own dt"
    assert given == "dt = 0.0001 s is kept in metadata only: other tools run the file with their own dt"
    assert rest == same


def test_the_page_of_view_needs_a_file_beside_it(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", model, "--view", "-o", "/dev/stdout"]) == 2
    expected = "--view: writes a page beside that of -o, the page of -o goes to a stream; name a file with -o"
    assert expected in capsys.readouterr().err
