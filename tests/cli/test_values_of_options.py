"""Values of options: every bound on both sides, every refusal in full."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge import plugins as registry
from nirbridge.cli import common, main, model_target
from nirbridge.cli import options as conversion_options
from nirbridge.cli.commands import compare, import_, simulate
from nirbridge.cli.commands import emit as emit_command
from nirbridge.cli.mapping_options import _pin, _split, core_numbers
from nirbridge.errors import NirbridgeError, UsageError
from nirbridge.simulators.simulate import Probe
from tests.partitioner.nets import network_of


def refused(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    with pytest.raises(NirbridgeError) as caught:
        call(*args, **options)
    return str(caught.value)


# -- import ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("1", (1,)),
        ("3,4", (3, 4)),
        (" 2 , 3", (2, 3)),
        ("1,1,1,1,1,2", (1, 1, 1, 1, 1, 2)),
        ("10000,10000", (10**4,) * 2),
    ],
)
def test_a_sample_is_zeros_of_its_shape(text: str, shape: tuple[int, ...]) -> None:
    sample = model_target.sample_of(text)
    assert (sample.shape, sample.dtype) == (shape, np.float32)
    assert not sample.flat[:5].any()


@pytest.mark.parametrize(
    "text", ["", "0", "3,0", "-1,4", "1,,2", "a", "1.5", "1,1,1,1,1,1,1", "10000,10001", "100000001"]
)
def test_a_sample_that_is_none(text: str) -> None:
    limit = "whole numbers from 1, at most six, with commas, whose product is at most 100,000,000"
    assert refused(model_target.sample_of, text) == f"--sample-shape: '{text}', {limit}; for example 1,34,34"


def test_one_sample_or_all_of_them() -> None:
    assert import_.one_or_all((1,)) == 1
    assert import_.one_or_all((1, 2)) == (1, 2)


@pytest.mark.parametrize(
    ("dt", "options"), [(None, {}), (1e-3, {"dt": 1e-3}), (1e-300, {"dt": 1e-300}), (1e300, {"dt": 1e300})]
)
def test_a_time_step_that_was_given_goes_to_the_importer(dt: float | None, options: dict[str, float]) -> None:
    assert import_._step(dt) == options


@pytest.mark.parametrize("dt", [0.0, -1e-3, float("inf"), float("nan")])
def test_a_time_step_that_is_none(dt: float) -> None:
    assert refused(import_._step, dt) == f"--dt: {dt:g} s, above 0; give seconds per step, for example 1e-3"


def test_options_of_a_sample_that_the_importer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def importer(module: Any, sample: Any, *, batched: Any = None, time_axis: Any = None) -> None: ...

    monkeypatch.setattr(registry, "get", lambda kind, name: {"importers": importer}[kind])
    fitting = import_.sample_arguments
    assert fitting("x", {}) == {}
    assert fitting("x", {"time_axis": "1", "batched": False}) == {"time_axis": 1, "batched": False}
    assert fitting("x", {"time_axis": "none"}) == {"time_axis": "none"}
    assert fitting("x", {"time_axis": "-2"}) == {"time_axis": -2}
    limit = "the axis of the sample that is time, a whole number, or none; for example --time-axis 1"
    assert refused(fitting, "x", {"time_axis": "a"}) == f"--time-axis: 'a', {limit}"
    monkeypatch.setattr(registry, "get", lambda kind, name: lambda module, sample, *, batched=None: None)
    assert refused(fitting, "x", {"batched": True, "time_axis": "a", "accept": ("b",)}).split("\n") == [
        "--time-axis: does not apply here, --from x has no such option; leave it out",
        "--accept: does not apply here, --from x has no such option; leave it out",
    ]


def test_options_of_a_sample_that_were_given() -> None:
    seen: list[dict[str, Any]] = []

    @import_.sample_options
    def wrapped(reading: dict[str, Any]) -> None:
        seen.append(reading)

    wrapped(batched=None, time_axis=None, accept=())
    wrapped(batched=False, time_axis="0", accept=("a", "b"))
    wrapped(accept=("a", "replaced-maxpool"), measure="d.npz")
    assert seen == [
        {},
        {"batched": False, "time_axis": "0", "accept": ("a", "b")},
        {"accept": ("a", "replaced-maxpool"), "measure": "d.npz"},
    ]


def test_labelled_data_of_a_file(tmp_path: Path) -> None:
    path, step = tmp_path / "d.npz", "save them with numpy.savez('data.npz', inputs=x, labels=y)"
    np.savez(path, x=np.zeros((2, 3)), labels=np.arange(2))
    found = import_._labelled(str(path))
    assert (sorted(found), found["labels"].tolist()) == (["labels", "x"], [0, 1])
    np.savez(path, x=np.zeros((2, 3)), y=np.arange(2))
    needed = f"it needs the inputs and 'labels'; {step}"
    assert refused(import_._labelled, str(path)) == f"--measure '{path}': arrays 'x', 'y', {needed}"
    np.save(tmp_path / "d.npy", np.zeros(3))
    assert refused(import_._labelled, str(tmp_path / "d.npy")).endswith(f": one array, {needed}")


def test_options_of_a_conversion_that_were_given() -> None:
    seen: list[dict[str, Any]] = []

    @conversion_options.conversion_options
    def wrapped(conversion: dict[str, Any]) -> None:
        seen.append(conversion)

    none = dict.fromkeys(("calibration", "steps", "percentile", "readout", "per_channel", "fair_start"))
    wrapped(**none)
    wrapped(**(none | {"per_channel": False, "steps": 0}))
    assert seen == [{}, {"per_channel": False, "steps": 0}]


def test_options_of_a_conversion_for_its_importer(tmp_path: Path) -> None:
    arguments = conversion_options.importer_arguments
    assert arguments("norse", {}) == {}
    assert refused(arguments, "norse", {"steps": 3, "fair_start": False}).split("\n") == [
        "--steps: does not apply here, it belongs to --from torch, not to --from norse; leave it out",
        "--fair-start/--half-start: does not apply here, it belongs to --from torch, not to --from norse; leave it out",
    ]
    assert refused(arguments, "torch", {"steps": 3}) == (
        "--calibrate: is missing, the scales of a converted network come from typical inputs, some hundreds of "
        "training samples; give an .npy or .npz file of shape [samples, *shape]"
    )
    np.save(tmp_path / "one.npy", np.arange(3))
    np.savez(tmp_path / "two.npz", b=np.arange(2), a=np.arange(4))
    np.savez(tmp_path / "one.npz", x=np.arange(5))
    sizes = []
    for name in ("one.npy", "two.npz", "one.npz"):
        found = arguments("torch", {"calibration": str(tmp_path / name), "percentile": "99.5"})
        data = found["calibration"]
        sizes.append([a.size for a in data] if isinstance(data, tuple) else data.size)
        assert found["percentile"] == 99.5
    assert sizes == [3, [4, 2], 5]
    assert conversion_options._percentile("least-error") == "least-error"
    assert conversion_options._percentile("max") == "max"
    assert refused(conversion_options._percentile, "min") == (
        "--percentile: 'min', least-error, max or a number above 0 and up to 100; 99.9 is a usual one"
    )


# -- map ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"), [("", ()), (" , ", ()), ("3", (3,)), ("17, 3,3,", (3, 17)), ("999999999", (999_999_999,))]
)
def test_numbers_of_cores(text: str, numbers: tuple[int, ...]) -> None:
    assert core_numbers("--x", text) == numbers


@pytest.mark.parametrize("text", ["a", "3,a", "-1", "1.5", "1000000000", "٣", "3,²"])
def test_one_number_of_a_core_that_is_none(text: str) -> None:
    assert (
        refused(core_numbers, "--x", text)
        == f"--x: '{text}', expected core numbers separated by commas; as in --x 3,17"
    )


def test_pins_and_copies() -> None:
    assert _pin("a=b=4,3") == ("a=b", (3, 4))
    assert _split("a=b=2") == ("a=b", 2)
    assert _split("a=999999999") == ("a", 999_999_999)
    for text in ("a", "a=", "=3", "3", "a= "):
        limit = "expected a population and its core; as in --pin fc1=12 or --pin fc1=12,13"
        assert refused(_pin, text) == f"--pin: '{text}', {limit}"
    for text in ("a", "2", "=2", "a=", "a=x", "a=-2", "a=1000000000", "a=٣", "a=²"):
        limit = "expected a population and a number of copies; as in --split fc1=2"
        assert refused(_split, text) == f"--split: '{text}', {limit}"


# -- simulate and compare ----------------------------------------------------------------------------------------------


def test_records_of_nodes() -> None:
    network = network_of("4 dense3 lif")
    assert simulate.parse_probes(network, (), 1) is None
    assert simulate.parse_probes(network, ("a:b:s, v,", "*:u"), 3) == [
        Probe("a:b", ("s", "v"), 3),
        Probe("*", ("u",), 3),
    ]
    defaults = simulate.parse_probes(network, (), 2)
    assert defaults is not None
    assert {r.every for r in defaults} == {2}
    for text in ("a", ":s", "a:", "a: ,", "s,v"):
        found = "names no node or no variable, NODE:s,v with variables s, v, u, i, count; for example '*:s'"
        assert refused(simulate.parse_probes, network, ("a:s", text), 1) == f"--record '{text}': {found}"


@pytest.mark.parametrize(("text", "steps"), [("auto", "auto"), ("0", 0), ("-3", -3), ("999999999", 999_999_999)])
def test_a_latency(text: str, steps: Any) -> None:
    assert compare._latency(text) == steps


@pytest.mark.parametrize("text", ["", "-", "--1", "1.0", "x", "1000000000", "²", "٣", "Auto"])
def test_a_latency_that_is_none(text: str) -> None:
    assert (
        refused(compare._latency, text)
        == f"--latency: '{text}', a whole number of time steps, or 'auto'; as in --latency 2"
    )


def test_a_node_is_drawn_into_a_picture() -> None:
    check = common.check_plot
    check(None, None)
    alone = "--node: given without --plot, it names the node to draw; add --plot FILE.png"
    assert refused(check, None, "a") == alone
    assert refused(check, None, "") == alone
    assert refused(check, "a.jpg", "a").startswith("picture 'a.jpg': not a name of a picture")


def test_notes_of_a_recording_that_tell_of_faults() -> None:
    notes = ["exporter: a", "b", 3]
    for meta, faults in (({"notes": notes}, ["exporter: a"]), ({"notes": tuple(notes)}, ["exporter: a"])):
        assert compare._faults(SimpleNamespace(meta=meta)) == faults  # type: ignore[arg-type]
    for other in ({}, {"notes": "exporter: a"}, {"notes": {"exporter: a": 1}}, {"notes": None}):
        assert compare._faults(SimpleNamespace(meta=other)) == []  # type: ignore[arg-type]


# -- emit --------------------------------------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {"per_core": False, "own": {}, "graded": (), "map_file": None, "weight_bits": None}
PLAIN |= {
    "repairs": (),
    "keep_early_spikes": False,
    "timing": pipeline.Timing(),
    "max_bytes": 9,
    "rewrite": None,
    "chip": None,
}
BOTH = "--floating: given with --per-core or --map, cores hold the chip's integers; choose one of them"
FLOATING = "emitter 'c': given with --floating, it has no such option; leave it out"
CHOSEN = (
    "given with other options, its integers are fixed, so only --to and options of the target apply; leave them out"
)


@pytest.mark.parametrize(
    ("model", "target", "changes", "message"),
    [
        ("m.nir", "lava", {"own": {"floating": True}, "per_core": True}, BOTH),
        ("m.nir", "lava", {"own": {"floating": True}, "map_file": "a"}, BOTH),
        ("m.nir", "c", {"own": {"floating": True}}, FLOATING),
        *(
            ("m.q.npz", "lava", {name: value}, f"model 'm.q.npz': {CHOSEN}")
            for name, value in (
                *(
                    ("per_core", True),
                    ("own", {"floating": True}),
                    ("graded", ("a",)),
                    ("map_file", "a"),
                    ("weight_bits", 3),
                ),
                ("own", {"dtype": "float64"}),
                *(("repairs", ("a",)), ("keep_early_spikes", True), ("timing", pipeline.Timing(1e-3)), ("chip", "c")),
            )
        ),
    ],
)
def test_options_of_a_program_that_do_not_go_together(model: str, target: str, changes: Any, message: str) -> None:
    assert refused(emit_command.emitted, model, target, **(PLAIN | changes)) == message


def test_a_model_of_integers_is_emitted_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(pipeline, "emit_quantized", lambda path, **options: asked.append((path, options)))
    for target in ("lava", "x"):
        emit_command.emitted("m.q.npz", target, **PLAIN)
    emit_command.emitted("m.q.npz", "jax", **(PLAIN | {"own": {"stablehlo": False}}))
    assert asked[:2] == [("m.q.npz", {"target": t, "max_bytes": 9, "options": None}) for t in ("lava", "x")]
    assert asked[2][1]["options"] == pipeline.emitter_options("jax", stablehlo=False)


def test_a_model_is_emitted_for_loihi2_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emit_command, "progress_on_stderr", lambda: contextlib.nullcontext("p"))
    monkeypatch.setattr(pipeline, "load_network", lambda *args, **options: ("network", args, options))
    monkeypatch.setattr(pipeline, "load_chip", lambda name: f"chip {name}")
    monkeypatch.setattr(pipeline, "default_chip", lambda target, options=None: "loihi2")
    monkeypatch.setattr(pipeline, "file_sha256", lambda path: f"sha of {path}")
    monkeypatch.setattr(pipeline, "load_map", lambda *args: ("map", *args))
    monkeypatch.setattr(pipeline, "emit_with", lambda *args, **options: (args, options))
    network = ("network", ("m", pipeline.Timing()), {"max_bytes": 9, "repairs": (), "rewrite": None})
    own = {"weight_bits": None, "keep_early_spikes": False, "progress": "p", "per_core": False, "graded": {}}
    own |= {"mapping": None}
    lava: Any = emit_command.emitted("m", "lava", **PLAIN)
    assert lava == (("lava", network, "chip loihi2", None), own)
    options: dict[str, Any] = PLAIN | {"own": {"floating": True}}
    floating: Any = emit_command.emitted("m", "lava", **options)
    assert floating == (("lava", network, "chip loihi2", pipeline.emitter_options("lava", floating=True)), own)
    mapped: Any = emit_command.emitted("m", "lava", **(PLAIN | {"map_file": "f", "chip": "c", "graded": ("a=2:3",)}))
    assert mapped[1]["mapping"] == ("map", "f", network, "sha of m", "chip c")
    assert mapped[1]["graded"] == {"a": (2.0, 3)}
    other: Any = emit_command.emitted("m", "x", **(PLAIN | {"keep_early_spikes": True, "weight_bits": 3}))
    assert other == (("x", network, "chip loihi2", None), own | {"keep_early_spikes": True, "weight_bits": 3})


@pytest.mark.parametrize(
    ("model", "target", "options", "chip"),
    [
        ("m.nir", "c", {}, "loihi2"),
        ("m.nir", "c", {"chip": "loihi1"}, None),
        ("m.nir", "onnx", {}, None),
        ("m.nir", "lava", {"own": {"floating": True}}, None),
        ("m.q.npz", "c", {}, None),
    ],
)
def test_a_chip_that_was_not_named_is_told(model: str, target: str, options: Any, chip: str | None) -> None:
    assert emit_command.assumed_chip(model, target, **(PLAIN | options)) == chip


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "flag"), [([], False), (["a", "--json"], True), (["--", "--json"], False), (["--json", "--"], True)]
)
def test_a_flag_counts_before_two_dashes(args: list[str], flag: bool) -> None:
    assert main._has_flag(args, "--json") is flag


@pytest.mark.parametrize(
    ("args", "before"), [([], []), (["--debug"], ["--debug"]), (["-x", "map", "a"], ["-x"]), (["map", "--debug"], [])]
)
def test_flags_of_the_group_stand_before_the_command(args: list[str], before: list[str]) -> None:
    assert main._before_command(args) == before


def test_an_option_that_takes_one_value_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", "m.nir", "--chip", "loihi1", "--chip", "loihi2"]) == 2
    said = "error: --chip: given 2 times, last with 'loihi2', it takes one value; give it once\n"
    assert capsys.readouterr().err == said


def test_a_flag_and_an_option_of_several_values_are_given_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["chips", "--json", "--json"]) == 0
    assert main.run(["check", "m.nir", "--repair", "a", "--repair", "b", "--chip", "loihi1"]) == 2
    assert "given 2 times" not in capsys.readouterr().err


def test_a_missing_input_is_told_with_its_axes(capsys: pytest.CaptureFixture[str]) -> None:
    model = Path(__file__).resolve().parents[2] / "examples/models/digits_cnn.nir"
    assert main.run(["simulate", str(model), "-o", "out.npz"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --input: is missing, the model has 1 input: 'input' of 1 x 8 x 8")
    assert error.endswith("; give --input IN.npy with axes time, sample, 1, 8, 8\n")
    assert main.run(["simulate", "none.nir", "-o", "out.npz"]) == 2
    assert "missing option '--input'" in capsys.readouterr().err


def test_a_text_that_no_option_takes_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        model_target.sample_of("x")
