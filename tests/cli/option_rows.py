"""A row for each option of each command: a line without it, one with it, and what must be seen of the difference.

``@`` stands for the folder of ``option_files``. A row of a text adds it to the line of its command; a pair or a
``Row`` has lines of its own. An option that is refused, or that changes nothing by design, says so.
"""

from __future__ import annotations

import io
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import click
import pytest

from nirbridge import pipeline
from nirbridge.errors import ModelError
from nirbridge.network.model import Network


class Row(NamedTuple):
    without: str
    given: str
    code: int | None = 0
    """The exit code of the line with the option; None: any, where a tool may be there or not."""
    says: str = ""
    """A part of its output."""
    no_effect: str = ""
    """Why nothing changes; then nothing may."""
    patch: Callable[[pytest.MonkeyPatch], None] | None = None


def added(line: str, more: Mapping[str, str | tuple[str, str] | Row]) -> dict[str, Row]:
    """The rows of options that are added to one line."""
    rows = {}
    for option, row in more.items():
        if isinstance(row, str):
            rows[option] = Row(line, f"{line} {row}")
        else:
            rows[option] = row if isinstance(row, Row) else Row(*row)
    return rows


def refused(line: str, option: str, says: str, code: int = 2) -> Row:
    """A line in which the option is refused."""
    return Row(line, f"{line} {option}", code, says)


def event_rows(line: str) -> dict[str, Row]:
    """The options of events of a line that reads them."""
    more = {"--bin": "--bin 2e-4", "--events": "--events origin=first"}
    return added(line, more) | {"--sensor": refused(line, "--sensor 0x3", "WIDTHxHEIGHT, both from 1")}


def silent(line: str) -> dict[str, Row]:
    """``--json``, and ``--quiet`` of a command without notes."""
    return added(line, {"--json": "--json", "--quiet": Row(line, f"{line} --quiet", no_effect=QUIET)})


QUIET = "nothing but the result is printed; accepted so that a script may give it to every command"


def model_rows(line: str) -> dict[str, Row]:
    """The options of reading a model; ``line`` has ``{}`` for the model."""

    def of(model: str, option: str, line: str = line) -> Row:
        return Row(line.format(model), f"{line.format(model)} {option}")

    def read(model: str, option: str) -> Row:
        return of(model, option, on_loihi2)._replace(patch=keep_network)

    module = line.format("@nets.py:net")
    weighted = f"{module} --sample-shape 1,4"
    on_loihi2 = line.replace("loihi1", "loihi2")
    faulty = line.replace("--json", "") + " --integrator exponential"
    return {
        "--sample-shape": Row(module, weighted),
        "--from": Row(weighted, f"{weighted} --from norse", 2, "it has neurons of snntorch, none of norse"),
        "--weights": read("@nets.py:net --sample-shape 1,4", "--weights @state.pt"),
        "--dt": read("@tiny.nir", "--dt 2e-4"),
        "--integrator": read("@tiny.nir", "--integrator exponential"),
        "--reset": read("@tiny.nir", "--reset subtract"),
        "--compare": read("@tiny.nir", "--compare ge"),
        "--if-gain": read("@tiny.nir", "--if-gain per-step"),
        "--repair": of("@norse.nir", "--repair norse", faulty),
        "--passes": of("@dead.nir", "--passes eliminate-dead"),
        "--max-bytes": refused(line.format("@tiny.nir"), "--max-bytes 100", "at most 100 are read"),
        "--quiet": of("@norse.nir", "--quiet", faulty),
    }


def keep_network(patches: pytest.MonkeyPatch, real: Any = pipeline.load_network) -> None:
    """What the command reads is a file beside what it writes; not all of it shows in every result."""

    def load(*args: Any, **options: Any) -> Network:
        network = real(*args, **options)
        pipeline.write_network(network, "read.net.npz")
        return network

    patches.setattr(pipeline, "load_network", load)


def patched(rows: Mapping[str, Row], patch: Callable[[pytest.MonkeyPatch], None]) -> dict[str, Row]:
    """Rows whose lines end, with exit code 1, where the library is called; its arguments are printed."""
    return {name: row._replace(patch=patch, code=row.code or 1) for name, row in rows.items()}


def tell(*args: Any, **options: Any) -> Any:
    """Stands for a call of the library: an error that has the arguments, and the network as a file."""
    for value in args:
        if isinstance(value, Network):
            pipeline.write_network(value, "network.net.npz")
    shown = [value for value in args if not isinstance(value, Network)]
    raise ModelError.of("called", f"{shown} {options}")


def no_search(patches: pytest.MonkeyPatch) -> None:
    """What a search does with its options takes models that are larger: tests/partitioner and tests/mapping."""
    for name in ("map_network", "profile_network"):
        patches.setattr(pipeline, name, tell)


def no_bench(patches: pytest.MonkeyPatch) -> None:
    """Each back end is a process of its own, a second each: tests/benchmarking."""
    patches.setattr(pipeline, "bench_network", tell)


def one_bench(patches: pytest.MonkeyPatch, made: list[Any] = [], real: Any = pipeline.bench_network) -> None:  # noqa: B006
    """Times are others in each run: the first result stands for all."""
    patches.setattr(pipeline, "bench_network", lambda *args: made[0] if made else made.append(real(*args)) or made[0])


def no_sweep(patches: pytest.MonkeyPatch) -> None:
    """Processes and clusters give the same table: tests/sweeps."""
    patches.setattr("nirbridge.api.measures.sweep", tell)


def no_browser(patches: pytest.MonkeyPatch) -> None:
    """A machine without a browser."""
    patches.setattr(webbrowser, "open", lambda url: False)


def mapping_rows(line: str) -> dict[str, Row]:
    """The options of ``mapping_options``."""
    searched = {
        "--effort": (line, line.replace("--effort fast", "--effort max")),
        "--bound": "--bound quick",
        "--seed": "--seed 3",
        "--keep-zeros": "--keep-zeros",
        "--no-relays": "--no-relays",
        "--retime": "--retime never",
    }
    rows = {
        "--method": "--method sequential",
        "--pin": "--pin lif=5",
        "--without-cores": refused(line, f"--without-cores {','.join(map(str, range(128)))}", "", 1),
        "--chips": "--chips 2",
        "--split": "--split lif=2",
        "--placement-only": "--placement-only",
    }
    return added(line, rows) | patched(added(line, searched), no_search)


SET = "--set core.neurons=7"
MAP, PROFILE = "map @tiny.nir --chip loihi1 --effort fast --json", "profile @tiny.nir --chip loihi1 --input @in.npy"
SHOWN = "inspect @dead.nir --passes eliminate-dead"
POOLED = "import @nets.py:pooled --sample-shape 1,1,8,8 -o o.nir"
REPLACED = f"{POOLED} --accept replaced-maxpool"
SIMULATE = "simulate @tiny.nir --input @in.npy -o o.npz"
WIDE = "quantize @wide.nir --chip loihi1 --calibrate @sparse.npy -o o.q.npz"
WIDER = "verify @wide.nir --chip loihi1 --input @sparse.npy --calibrate @sparse.npy"
QUANTIZE = "quantize @tiny.nir --chip loihi1 -o o.q.npz"
VERIFY = "verify @tiny.nir --chip loihi1"
BENCH = "bench @tiny.nir --backend reference --batch 1 --repeats 1 --steps 5"
EMIT = "emit @tiny.nir --to torch -o o"
IN_C, IN_LAVA, IN_JAX, IN_IREE = (EMIT.replace("torch", name) for name in ("c", "lava --chip loihi1", "jax", "iree"))
SCRIPT_TOOL = "nirbridge.emitters.script_runs.ScriptTool"
IN_TVM, IN_INDUCTOR = EMIT.replace("torch", "tvm"), EMIT.replace("torch", "inductor")
IN_VERILOG = f"{EMIT.replace('torch', 'verilog')} --json"
OF_VERILOG = {"--board": "icebreaker", "--lanes": "2", "--rate": "1000", "--activity": "0.5"}
IN_OPENVINO = EMIT.replace("torch", "openvino")
IN_SANAFE = "emit @early.nir --to sanafe --keep-early-spikes -o o"
OF_JAX = {"--dtype": "float64", "--platforms": "cpu,tpu", "--surrogate": "atan", "--slope": "5"}
OF_IREE = {"--steps": "7", "--cpu": "host", "--device": "vulkan-spirv", "--batch": "2"}
LOWER, LINALG = "lower @tiny.nir --until dialect", "lower @tiny.nir"
IMPORT = "import @nets.py:net --sample-shape 1,4 -o o.nir"
TORCH = "import @nets.py:ann --from torch --sample-shape 4 --calibrate @calibrate.npy -o o.nir"
RUN = "run @onnx --input @in.npy -o o.npz"
COMPARE = "compare @a.npz @b.npz"
REPORT = "report @tiny.nir --map @m.map.json -o o.html"


@contextmanager
def _ends(listen: str | None) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Frames of ``tiny.nir`` as lines and as bytes, and what becomes of them as text."""
    sink = io.BytesIO()
    yield io.BytesIO(b"".join(b"%d %d\n" % (t, t % 4) for t in range(100, 400))), sink
    click.echo(f"{sink.getvalue().hex()} {listen}")


def _streamed(row: Row) -> Row:
    """The row with frames in place of standard input."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nirbridge.cli.stream._ends", _ends)
        if row.patch is not None:
            row.patch(monkeypatch)

    return row._replace(patch=patch)


STREAM = "stream @tiny.nir --period 100"
STREAM_CHIP = f"{STREAM} --format events --chip loihi1"


ROWS: dict[str, dict[str, Row]] = {
    "": {
        "--version": Row("", "--version", says="nirbridge"),
        "--debug": Row("show none.npz", "--debug show none.npz", 2, "Traceback"),
    },
    "map": model_rows("map {} --chip loihi1 --effort fast --json")
    | mapping_rows(MAP)
    | event_rows(f"{MAP} --input @events.npz")
    | added(
        MAP,
        {
            "--chip": (MAP, MAP.replace("loihi1", "loihi2")),
            "--set": SET,
            "--output": "-o o.map.json",
            "--objective": "--objective latency",
            "--bits": "--bits 4",
            "--rates": "--rates @rates.npz",
            "--input": "--input @in.npy",
            "--axes": (f"{MAP} --input @in.npy", f"{MAP} --input @in.npy --axes sample,time"),
            "--report": "--report pages",
            "--plot": "--plot p.svg",
            "--picture": (f"{MAP} --plot p.svg", f"{MAP} --plot p.svg --picture matrix"),
            "--summary": (
                "map @tiny.nir --chip loihi1 --effort fast",
                "map @tiny.nir --chip loihi1 --effort fast --summary",
            ),
            "--verbose": (MAP.replace(" --json", ""), MAP.replace("--json", "--verbose")),
            "--json": ("map @tiny.nir --chip loihi1 --effort fast", MAP),
            "--keep-early-spikes": (
                "map @early.nir --chip loihi1 --effort fast",
                "map @early.nir --chip loihi1 --effort fast --keep-early-spikes",
            ),
        },
    ),
    "check": model_rows("check {} --chip loihi1 --json")
    | added(
        "check @tiny.nir --chip loihi1",
        {
            "--shapes": ("check --chip loihi1", "check --chip loihi1 --shapes '4 dense5 lif'"),
            "--chip": ("check @tiny.nir --chip loihi1", "check @tiny.nir --chip loihi2"),
            "--set": SET,
            "--map": "--map @m.map.json",
            "--chips": "--chips 2",
            "--bits": (
                "check --shapes '600 dense600 lif' --chip loihi1",
                "check --shapes '600 dense600 lif' --chip loihi1 --bits 1",
            ),
            "--placement-only": "--placement-only",
            "--json": "--json",
            "--keep-early-spikes": (
                "check @early.nir --chip loihi1",
                "check @early.nir --chip loihi1 --keep-early-spikes",
            ),
        },
    ),
    "simulate": model_rows("simulate {} --input @in.npy -o o.npz --json")
    | event_rows(SIMULATE.replace("in.npy", "events.npz"))
    | added(
        SIMULATE,
        {
            "--input": (SIMULATE, SIMULATE.replace("in.npy", "other.npy")),
            "--output": (SIMULATE, SIMULATE.replace("o.npz", "p.npz")),
            "--axes": "--axes sample,time",
            "--steps": "--steps 5",
            "--record": "--record lif:s",
            "--every": "--every 2",
            "--dtype": "--dtype float64",
            "--backend": "--backend reference",
            "--chip": Row(f"{SIMULATE} --backend fixed", f"{SIMULATE} --backend fixed --chip loihi1"),
            "--set": (
                f"{SIMULATE} --backend fixed --chip loihi1",
                f"{SIMULATE} --backend fixed --chip loihi1 --set synapses.weight_bits_default=2",
            ),
            "--map": (
                f"{SIMULATE} --backend mapped --chip loihi1",
                f"{SIMULATE} --backend mapped --chip loihi1 --map @n.map.json",
            ),
            "--library": "--library torch",
            "--device": refused(SIMULATE, "--device nosuch", "nosuch"),
            "--threads": refused(f"{SIMULATE} --backend mapped --chip loihi1", "--threads 2", "threads"),
            "--plot": "--plot p.svg",
            "--node": (f"{SIMULATE} --record *:s --plot p.svg", f"{SIMULATE} --record *:s --plot p.svg --node last"),
            "--json": "--json",
            "--keep-early-spikes": (
                "simulate @early.nir --input @in.npy --backend fixed --chip loihi1 -o o.npz",
                "simulate @early.nir --input @in.npy --backend fixed --chip loihi1 -o o.npz --keep-early-spikes",
            ),
        },
    ),
    "stream": {
        option: _streamed(row)
        for option, row in {
            **model_rows("stream {} --period 100 --json"),
            **silent(STREAM),
            **added(
                STREAM,
                {
                    "--format": "--format events",
                    "--listen": "--listen 7",
                    "--period": ("stream @tiny.nir --period 9", "stream @tiny.nir --period 1e-9"),
                    "--realtime": Row(
                        "stream @tiny.nir --period 1e-9",
                        "stream @tiny.nir --period 1e-9 --realtime",
                        no_effect="time steps begin later; test_stream sees it",
                    ),
                    "--passes": Row(
                        "stream @dead.nir --period 100",
                        "stream @dead.nir --period 100 --passes eliminate-dead",
                        patch=keep_network,
                    ),
                    "--times": "--times",
                    "--backend": refused(STREAM, "--backend nothing", "backend 'nothing': unknown"),
                    "--chip": (f"{STREAM} --format events", STREAM_CHIP),
                    "--set": (STREAM_CHIP, f"{STREAM_CHIP} --set synapses.weight_bits_default=2"),
                    "--map": (STREAM_CHIP, f"{STREAM_CHIP} --map @n.map.json"),
                    "--keep-early-spikes": (
                        STREAM_CHIP.replace("tiny", "early"),
                        f"{STREAM_CHIP.replace('tiny', 'early')} --keep-early-spikes",
                    ),
                },
            ),
        }.items()
    },
    "quantize": model_rows("quantize {} --chip loihi1 -o o.q.npz --json")
    | event_rows(f"{QUANTIZE} --calibrate @events.npz --tight")
    | added(
        QUANTIZE,
        {
            "--chip": (QUANTIZE, QUANTIZE.replace("loihi1", "loihi2")),
            "--set": "--set synapses.weight_bits_default=2",
            "--output": (QUANTIZE, QUANTIZE.replace("o.q.npz", "p.q.npz")),
            "--verbose": "--verbose",
            "--bits": "--bits lif=4",
            "--calibrate": "--calibrate @data.npz",
            "--axes": (
                f"{WIDE} --method percentile --percentile 60",
                f"{WIDE} --method percentile --percentile 60 --axes sample,time",
            ),
            "--method": (f"{QUANTIZE} --bits 3", f"{QUANTIZE} --bits 3 --method error"),
            "--percentile": (f"{QUANTIZE} --method percentile", f"{QUANTIZE} --method percentile --percentile 60"),
            "--tight": (WIDE, f"{WIDE} --tight"),
            "--memory-kib": (f"{QUANTIZE} --calibrate @data.npz", f"{QUANTIZE} --calibrate @data.npz --memory-kib 1"),
            "--run-steps": "--run-steps 100",
            "--graded": (
                QUANTIZE.replace("loihi1", "loihi2"),
                QUANTIZE.replace("loihi1", "loihi2") + " --graded in=1.0:8",
            ),
            "--json": "--json",
            "--keep-early-spikes": (
                QUANTIZE.replace("tiny", "early"),
                QUANTIZE.replace("tiny", "early") + " --keep-early-spikes",
            ),
        },
    ),
    "profile": model_rows("profile {} --chip loihi1 --input @in.npy --effort fast --json")
    | mapping_rows(f"{PROFILE} --effort fast --json")
    | event_rows(PROFILE.replace("in.npy", "events.npz"))
    | added(
        PROFILE,
        {
            "--verbose": "--verbose",
            "--chip": "--chip loihi2",
            "--set": SET,
            "--input": (PROFILE, PROFILE.replace("in.npy", "other.npy")),
            "--labels": "--labels @labels.npy",
            "--axes": "--axes sample,time",
            "--steps": "--steps 20",
            "--samples": "--samples 1",
            "--bits": "--bits 4",
            "--objective": "--objective latency",
            "--to": refused(PROFILE, "--to torch", "torch"),
            "--output": "-o o.csv",
            "--plot": "--plot p.svg",
            "--json": "--json",
            "--keep-early-spikes": (
                PROFILE.replace("tiny", "early"),
                PROFILE.replace("tiny", "early") + " --keep-early-spikes",
            ),
        },
    ),
    "sweep": added(
        "sweep @sweep.toml",
        {
            "--output": "-o o.csv",
            "--dry-run": "--dry-run",
            "--plot": "--plot p.svg",
            "--set": SET,
            "--picture": (
                "sweep @axes.toml --plot p.svg",
                "sweep @axes.toml --plot p.svg --picture cores",
            ),
            "--json": "--json",
            "--quiet": Row("sweep @sweep.toml", "sweep @sweep.toml --quiet", no_effect=QUIET),
        },
    )
    | patched(
        added("sweep @sweep.toml", {"--jobs": "--jobs 2", "--scheduler": "--scheduler tcp://127.0.0.1:1"}), no_sweep
    ),
    "bench": patched(model_rows("bench {}"), no_bench)
    | {
        option: row._replace(patch=one_bench)
        for option, row in added(BENCH, {"--output": "-o o.json", "--plot": "--plot p.svg", "--json": "--json"}).items()
    }
    | {"--verbose": Row(BENCH, f"{BENCH} --verbose", patch=one_bench)}
    | patched(event_rows("bench @tiny.nir --input @events.npz"), no_bench)
    | patched(
        added(
            "bench @tiny.nir",
            {
                "--chip": "--chip loihi1",
                "--set": ("bench @tiny.nir --chip loihi1", f"bench @tiny.nir --chip loihi1 {SET}"),
                "--backend": "--backend fast",
                "--input": "--input @in.npy",
                "--axes": ("bench @tiny.nir --input @in.npy", "bench @tiny.nir --input @in.npy --axes sample,time"),
                "--rate": "--rate 0.9",
                "--seed": "--seed 3",
                "--steps": "--steps 6",
                "--batch": "--batch 2",
                "--repeats": "--repeats 2",
                "--limit": "--limit 9",
                "--best": "--best",
            },
        ),
        no_bench,
    ),
    "verify": model_rows("verify {} --chip loihi1 --steps 5 --json")
    | event_rows(f"{VERIFY} --input @events.npz")
    | added(
        VERIFY,
        {
            "--chip": (VERIFY, VERIFY.replace("loihi1", "loihi2")),
            "--verbose": "--verbose",
            "--set": "--set synapses.weight_bits_default=2",
            "--to": "--to onnx",
            "--dtype": (f"{VERIFY} --to c", f"{VERIFY} --to c --dtype float32"),
            "--input": "--input @in.npy",
            "--axes": (f"{VERIFY} --input @in.npy", f"{VERIFY} --input @in.npy --axes sample,time"),
            "--labels": (f"{VERIFY} --input @in.npy", f"{VERIFY} --input @in.npy --labels @labels.npy"),
            "--steps": "--steps 5",
            "--seed": "--seed 3",
            "--map": "--map @n.map.json",
            "--per-core": refused(VERIFY, "--to onnx --per-core", "emitter 'onnx': given with --per-core"),
            "--prove": refused(VERIFY, "--to onnx --prove", "emitter 'onnx': given with --prove"),
            "--bits": "--bits 4",
            "--calibrate": "--calibrate @data.npz",
            "--method": (f"{VERIFY} --bits 3", f"{VERIFY} --bits 3 --method error"),
            "--percentile": (f"{VERIFY} --method percentile", f"{VERIFY} --method percentile --percentile 60"),
            "--tight": (WIDER, f"{WIDER} --tight"),
            "--graded": (VERIFY.replace("loihi1", "loihi2"), VERIFY.replace("loihi1", "loihi2") + " --graded in=1.0:8"),
            "--output": "-o o.npz",
            "--plot": "--plot p.svg",
            "--node": (f"{VERIFY} --plot p.svg", f"{VERIFY} --plot p.svg --node lif"),
            "--json": "--json",
            "--keep-early-spikes": (
                VERIFY.replace("tiny", "early"),
                VERIFY.replace("tiny", "early") + " --keep-early-spikes",
            ),
        },
    ),
    "report": model_rows("report {} -o o.html --json")
    | event_rows(f"{REPORT} --input @events.npz")
    | added(
        "report @tiny.nir -o o.html",
        {
            "--map": "--map @m.map.json",
            "--input": (REPORT, f"{REPORT} --input @in.npy"),
            "--axes": (f"{REPORT} --input @in.npy", f"{REPORT} --input @in.npy --axes sample,time"),
            "--quantized": "--quantized @m.q.npz",
            "--verify": "--verify @verified.npz",
            "--recording": "--recording @a.npz",
            "--circuit": "--circuit @circuit",
            "--output": ("report @tiny.nir -o o.html", "report @tiny.nir -o p.html"),
            "--view": "--view",
            "--open": Row(
                "report @tiny.nir -o o.html", "report @tiny.nir -o o.html --open", says="no browser", patch=no_browser
            ),
            "--json": "--json",
        },
    ),
    "view": added(
        "view @tiny.nir",
        {
            "--output": "-o o.html",
            "--open": Row("view @tiny.nir", "view @tiny.nir --open", says="no browser", patch=no_browser),
            "--json": "--json",
            "--quiet": Row("view @tiny.nir", "view @tiny.nir --quiet", no_effect=QUIET),
        },
    ),
    "inspect": model_rows("inspect {}")
    | {"--print-after": Row(SHOWN, f"{SHOWN} --print-after all", says="network after eliminate-dead")}
    | added(
        "inspect @tiny.nir",
        {"--portability": "--portability", "--plot": "--plot p.svg", "--verbose": "--verbose", "--json": "--json"},
    ),
    "compare": added(
        COMPARE,
        {
            "--verbose": "--verbose",
            "--latency": "--latency 1",
            "--tau": "--tau 2",
            "--labels": "--labels @labels.npy",
            "--expect-equal": refused(COMPARE, "--expect-equal", "--expect-equal", 1),
            "--plot": "--plot p.svg",
            "--node": (f"{COMPARE} --plot p.svg", f"{COMPARE} --plot p.svg --node lif"),
            "--json": "--json",
            "--quiet": "--quiet",
        },
    ),
    "emit": model_rows("emit {} --to torch -o o --json")
    | added(IN_C, {"--chip": "--chip loihi1", "--bits": "--bits 4", "--graded": "--graded in=1.0:8"})
    | added(f"{IN_C} --chip loihi1", {"--set": "--set synapses.weight_bits_default=2"})
    | added(IN_LAVA, {"--map": "--map @n.map.json", "--per-core": "--per-core", "--floating": "--floating"})
    | added(IN_C, {"--prefix": "--prefix net", "--layout": "--layout cmake", "--selftest": "--selftest 9"})
    | added(IN_SANAFE, {"--floating-currents": "--floating-currents"})
    | added(IN_JAX, {option: f"{option} {value}" for option, value in OF_JAX.items()})
    | added(IN_IREE, {option: f"{option} {value}" for option, value in OF_IREE.items()})
    | added(
        IN_OPENVINO,
        {  # int8 takes nncf, which the environment of make test lacks
            "--int8": refused(IN_OPENVINO, "--int8 @in.npy", "cannot be read ('File is not a zip file')"),
            "--max-drop": refused(IN_OPENVINO, "--max-drop 0.1", "max_drop without int8"),
        },
    )
    | added(EMIT.replace("torch", "triton"), {"--form": "--form mega"})
    | added(IN_VERILOG, {option: f"{option} {value}" for option, value in OF_VERILOG.items()})
    | added(
        EMIT,
        {
            "--to": (EMIT, EMIT.replace("torch", "snntorch")),
            "--output": (EMIT, EMIT.replace("-o o", "-o p")),
            "--stablehlo": (IN_JAX, f"{IN_JAX} --no-stablehlo"),
            "--vmfb": (IN_IREE, f"{IN_IREE} --no-vmfb"),
            "--tune": Row(
                IN_TVM,
                f"{IN_TVM} --tune 2",
                2,
                "the package tvm is not installed",
                patch=lambda monkeypatch: monkeypatch.setattr(f"{SCRIPT_TOOL}._missing", lambda _: ["tvm"]),
            ),
            "--unroll": (IN_INDUCTOR, f"{IN_INDUCTOR} --unroll 3"),
            "--package": Row(
                IN_INDUCTOR,
                f"{IN_INDUCTOR} --package",
                2,
                "no C++ compiler is installed",
                patch=lambda monkeypatch: monkeypatch.setenv("CXX", "none"),  # else a minute of compilation
            ),
            "--hops": (IN_C, f"{IN_C} --no-hops"),
            # takes jax, which the environment of make test lacks
            "--source": Row(IN_IREE, f"{IN_IREE} --source stablehlo", None),
            "--json": "--json",
            "--synthesize": refused(EMIT, "--synthesize", "its programs are no circuits"),
            "--keep-early-spikes": (
                IN_C.replace("tiny", "early"),
                IN_C.replace("tiny", "early") + " --keep-early-spikes",
            ),
        },
    ),
    "lower": model_rows("lower {} --until dialect")
    | added(
        LOWER,
        {
            "--until": (LOWER, LOWER.replace("dialect", "linalg")),
            "--chip": "--chip loihi1",
            "--set": (f"{LOWER} --chip loihi1", f"{LOWER} --chip loihi1 --set synapses.weight_bits_default=2"),
            "--dtype": "--dtype float64",
            "--batch": (LINALG, f"{LINALG} --batch 2"),
            "--steps": (LINALG, f"{LINALG} --steps 3"),
            "--map": "--map @m.map.json",
            "--print-ir-after-all": "--print-ir-after-all",
            "--irdl": "--irdl o.irdl",
            "--output": "-o o.mlir",
            "--json": "--json",
        },
    ),
    "run": event_rows(RUN.replace("in.npy", "events.npz"))
    | added(
        RUN,
        {
            "--input": (RUN, RUN.replace("in.npy", "other.npy")),
            "--output": (RUN, RUN.replace("o.npz", "p.npz")),
            "--axes": "--axes sample,time",
            "--steps": "--steps 5",
            "--record": "--record lif:s",
            "--json": "--json",
            "--quiet": "--quiet",
        },
    ),
    "import": added(
        IMPORT,
        {
            "--sample-shape": ("import @nets.py:net -o o.nir", IMPORT),
            "--from": refused(IMPORT, "--from norse", "it has neurons of snntorch, none of norse"),
            "--weights": "--weights @state.pt",
            "--batched": (f"{IMPORT} --batched", f"{IMPORT} --no-batched"),
            "--time-axis": "--time-axis 0",
            "--accept": (POOLED, REPLACED),
            "--measure": (REPLACED, f"{REPLACED} --measure @images.npz"),
            "--output": (IMPORT, IMPORT.replace("o.nir", "p.nir")),
            "--dt": "--dt 1e-3",
            "--check": "--check 1",
            "--no-check": "--no-check",
            "--calibrate": (TORCH.replace("--calibrate @calibrate.npy", ""), TORCH),
            "--steps": (TORCH, f"{TORCH} --steps 16"),
            "--percentile": (TORCH, f"{TORCH} --percentile 90"),
            "--readout": (TORCH, f"{TORCH} --readout spikes"),
            "--per-channel": (f"{TORCH} --per-channel", f"{TORCH} --per-population"),
            "--fair-start": (f"{TORCH} --fair-start", f"{TORCH} --half-start"),
            "--json": "--json",
            "--quiet": "--quiet",
        },
    ),
    "show": added("show @m.map.json", {"--json": "--json", "--quiet": "--quiet", "--verbose": "--verbose"}),
    "diff": {option: row._replace(code=1) for option, row in silent("diff @m.map.json @n.map.json").items()},
    "doctor": silent("doctor")
    | added(
        "doctor",
        {
            "--examples": "--examples o",
            "--install": refused("doctor", "--install", "doctor lava --install"),
            "--python": refused("doctor", "--python python3", "it belongs to doctor lava --install"),
            "--again": refused("doctor", "--again", "it belongs to doctor lava --install"),
        },
    ),
    "chips": silent("chips")
    | added("chips loihi1", {"--set": SET, "--verbose": "--verbose"})
    | added(
        "chips",
        {
            "--new": refused("chips", "--new my.toml", "--new: given with no chip"),
            "--like": ("chips --new my.toml", "chips --new my.toml --like loihi1"),
        },
    ),
    "completion": silent("completion bash"),
}

ALONE: dict[str, tuple[str, ...]] = {
    "check @tiny.nir --map @m.map.json --chips 2 --bits 4 --keep-early-spikes": (
        "--chips",
        "--bits",
        "--keep-early-spikes",
    ),
    f"{SIMULATE} --backend fixed --chip loihi1 --dtype float64 --library torch --device cuda": (
        "--dtype",
        "--library",
        "--device",
    ),
    f"{VERIFY} --input @in.npy --seed 3": ("--seed",),
    f"{VERIFY} --percentile 60": ("--percentile",),
    f"{QUANTIZE} --method error --percentile 60": ("--percentile",),
    "bench @tiny.nir --input @in.npy --rate 0.5 --seed 3": ("--rate", "--seed"),
    "sweep @sweep.toml --dry-run --jobs 2 --scheduler tcp://127.0.0.1:1": ("--jobs", "--scheduler"),
    f"{MAP} --summary": ("--summary",),
    f"{LOWER} --batch 2 --steps 3": ("--batch", "--steps"),
    "lower @tiny.nir --chip loihi1 --dtype float64": ("--dtype",),
}
"""Lines whose options have no effect beside the others: these are refused."""
