"""Readers of options, lists of passes, command lines, plugins and emitted programs."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import types
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nirbridge import pipeline
from nirbridge import plugins as registry
from nirbridge.errors import Bug, NirbridgeError, UsageError
from tests.fuzz import models
from tests.fuzz.choices import Choices
from tests.fuzz.values import TEXTS, json_bytes, mutate_bytes, mutate_json, near

if TYPE_CHECKING:
    from nirbridge.network import Network
    from nirbridge.passes.base import Pass

OPTIONS: dict[str, tuple[str, ...]] = {
    "sample-shape": ("1,34,34", "784", "2, 3"),
    "pin": ("a=12", "a=3,4,5", "a=b=0"),
    "without-cores": ("3,17", "", "0"),
    "split": ("a=2", "in=3"),
    "bits": ("8", "a=4", "a=b=3"),
    "graded": ("in=1.0:8", "in=0.5:1"),
    "record": ("a:s,v", "*:s", "in:s"),
    "percentile": ("99.9", "max", "least-error", "1e2"),
    "latency": ("auto", "0", "-3"),
    "dt": ("1e-3", "0.5"),
    "target": ("a.py:net", "a.b:C", "a:b.c"),
}


def make_option(c: Choices) -> tuple[str, tuple[str, ...]]:
    """An option and what is given for it."""
    name = c.pick(list(OPTIONS))
    texts = []
    for _ in range(c.several(3)):
        text = c.pick(OPTIONS[name])
        for _ in range(c.several(3)):
            kind = c.below(4)
            if kind == 0:
                text = near(text, c)
            elif kind == 1:
                text = c.pick((*TEXTS, "999999999999", "²", "٣", "1_0", "+1", " 1", "1e999", "=", ",", ":", "=,"))
            elif kind == 2:
                text = mutate_bytes(text.encode("utf-8", "replace"), c).decode("utf-8", "replace")
            else:
                at = c.below(len(text) + 1)
                text = text[:at] + c.pick(("=", ",", ":", "1", "0", "-", "e", "x", "99999")) + text[at:]
        texts.append(text)
    return name, tuple(texts)


def read_option(given: tuple[str, tuple[str, ...]]) -> object:
    """As the commands do; numbers that are not refused are used once."""
    name, texts = given
    return _PARSERS[name](texts)


def _pins(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.mapping_options import _pin

    pins = dict(_pin(text) for text in texts)
    quick = pipeline.MapOptions(method="sequential", effort="fast", pins=pins)
    return pipeline.map_network(models.network(), models.chip(), quick)


def _splits(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.mapping_options import _split

    return pipeline.replicate_sources(models.network(), dict(_split(text) for text in texts))


def _without(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.mapping_options import core_numbers

    return [pipeline.load_chip("loihi1", core_numbers("--without-cores", text)) for text in texts]


def _samples(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.model_target import sample_of

    return [sample_of(text).shape for text in texts]


def _bits(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.common import widths
    from nirbridge.quantization import QuantizationOptions

    options, data, plan = pipeline.quantize_plan(models.network(), {"weight_bits": widths(texts)}, None, {})
    assert isinstance(options, QuantizationOptions)
    return pipeline.quantize_network(models.network(), models.chip(), options, data, plan)


def _graded(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.common import graded_inputs

    options, data, plan = pipeline.quantize_plan(models.network(), {"graded": graded_inputs(texts)}, None, {})
    return pipeline.quantize_network(models.network(), models.chip(), options, data, plan)


def _records(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.commands.simulate import parse_probes

    wanted = parse_probes(models.network(), texts, 1)
    return pipeline.simulate_network(models.network(), models.inputs(), record=wanted)


def _percentile(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.options import _percentile

    return [_percentile(text) for text in texts]


def _latency(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.commands.compare import _latency

    return [_latency(text) for text in texts]


def _target(texts: tuple[str, ...]) -> object:
    from nirbridge.cli.model_target import module_of

    return [module_of(f"{text}.nothing-of-this-name:x" if ":" in text else text, of_torch=False) for text in texts]


def _dt(texts: tuple[str, ...]) -> object:
    return [_run(["check", "--shapes", "4 dense3 if", "--chip", "loihi2", "--dt", text]) for text in texts]


_PARSERS: dict[str, Any] = {
    "sample-shape": _samples,
    "pin": _pins,
    "without-cores": _without,
    "split": _splits,
    "bits": _bits,
    "graded": _graded,
    "record": _records,
    "percentile": _percentile,
    "latency": _latency,
    "dt": _dt,
    "target": _target,
}


# -- passes ----------------------------------------------------------------------------------------------------------

PASSES = (
    "eliminate-dead,replicate-source{name=a,ways=2}",
    "relay-pools{names=[pool]},uniform-delays",
    'relay-pools{graded_spikes=true},replicate-source{name="a",ways=3}',
    "retime{delay_steps_max=62,graded_spikes=false}",
    "relay-projection{projection=1,part=0},retime{delay_steps_max=none,keep_early_spikes=true}",
    "uniform-delays,uniform-delays",
)
_PIECE = re.compile(r'[\w-]+|"[^"]*"|.', re.DOTALL)
OTHER_WORDS = (
    *("eliminate-dead", "relay-pools", "relay-projection", "replicate-source", "retime", "uniform-delays"),
    *("names", "graded_spikes", "projection", "part", "name", "ways", "delay_steps_max", "keep_early_spikes"),
    *("a", "b", "in", "more", "out", "true", "false", "none", "0", "1", "2", "3", "5", "-1", "62", "9" * 30),
)
ODD_PIECES = (
    *("{", "}", "[", "]", ",", "=", '"', " ", "none", "true", "-1", "0", "1e9", "nan", "9" * 4000, "9" * 30, "in", "b"),
    *('"\\ud800"', '"\\u001b[31m"', '"\\x"', "ways", "name", "projection", "[a,b]", "[[]]", "no-such-pass", "{" * 300),
)


def make_passes(c: Choices) -> str:
    """A list of passes: words, marks and values are changed."""
    pieces = _PIECE.findall(c.pick(PASSES))
    for _ in range(c.several(3)):
        at, kind = c.below(len(pieces) or 1), c.below(8)
        words = [k for k, piece in enumerate(pieces) if piece[:1] not in "{}[],="]
        if kind < 3 and words:
            pieces[c.pick(words)] = c.pick(OTHER_WORDS)
        elif kind == 3 and pieces:
            pieces[at] = c.pick((*ODD_PIECES, *TEXTS))
        elif kind == 4:
            pieces.insert(at, c.pick(ODD_PIECES))
        elif kind == 5 and pieces:
            del pieces[at]
        elif kind == 6 and pieces:
            pieces[at] = near(pieces[at], c)
        else:
            return mutate_bytes("".join(pieces).encode("utf-8", "replace"), c).decode("utf-8", "replace")
    return "".join(pieces)


def read_passes(text: str) -> object:
    """As ``--passes`` with ``--print-after all`` does, on two models; what is taken is also written and read again."""
    passes = pipeline.parse_passes(text)
    written = pipeline.format_passes(passes)
    assert pipeline.format_passes(pipeline.parse_passes(written)) == written
    try:
        return _rewritten(models.pooled(), passes)
    except NirbridgeError:
        return _rewritten(models.network(), passes)


def _rewritten(network: Network, passes: tuple[Pass, ...]) -> Network:
    def check(rewrite: Pass, changed: Network) -> None:
        text = f"{pipeline.format_passes([rewrite])}\n{changed.summary()}"
        assert all(line.isprintable() for line in text.split("\n")), repr(text)[:160]

    return pipeline.apply_passes(network, passes, after=check)


# -- command lines ---------------------------------------------------------------------------------------------------

LINES: tuple[tuple[str, ...], ...] = (
    ("inspect", "MODEL", "--json"),
    ("inspect", "MODEL", "--repair", "norse", "--repair", "batch-axis"),
    ("check", "MODEL", "--chip", "loihi2", "--weight-bits", "8"),
    ("check", "--shapes", "2x8x8 conv4k3 if flatten dense10 if", "--chip", "loihi1", "--chips", "2"),
    ("check", "MODEL", "--map", "MAP"),
    ("map", "MODEL", "--chip", "loihi2", "--pin", "a=3", "--effort", "fast", "-o", "OUT"),
    ("map", "MODEL", "--chip", "loihi1", "--split", "a=2", "--retime", "never", "--json"),
    ("quantize", "MODEL", "--chip", "loihi2", "--bits", "a=4", "--graded", "in=1:8", "-o", "OUT"),
    ("simulate", "MODEL", "--input", "INPUT", "--record", "a:s,v", "--every", "2", "-o", "OUT"),
    ("simulate", "MODEL", "--input", "INPUT", "--backend", "mapped", "--chip", "loihi2", "--map", "MAP", "-o", "OUT"),
    ("compare", "RECORDING", "RECORDING", "--latency", "auto", "--tau", "5", "--json"),
    ("chips", "loihi1", "--json"),
)
PAST_OPTIONS = tuple(
    f"nirbridge.{place}"
    for place in (
        "pipeline:map_network",
        "pipeline:replicate_sources",
        "pipeline:quantize_network",
        "pipeline:simulate_network",
    )
)
"""Called with what the parser took; the others only parse, and what they take is not counted."""
PAST_COMMANDS = (
    "nirbridge.pipeline:load_network",
    "nirbridge.pipeline:network_of_shapes",
    "nirbridge.pipeline:load_chip",
)
WORDS = (
    "--json",
    "--dt",
    "1e-3",
    "--compare",
    "ge",
    "--steps",
    "3",
    "--max-bytes",
    "--integrator",
    "zoh",
    "--chips",
    "0",
)


def make_line(c: Choices) -> list[str]:
    """The arguments of a command, files as words in capitals."""
    line = list(c.pick(LINES))
    for _ in range(c.several(3)):
        at, kind = 1 + c.below(len(line)), c.below(6)
        if kind == 0:
            line[at:at] = [c.pick(WORDS)]
        elif kind == 1:
            line[at:at] = [c.pick((*WORDS, *c.pick(LINES))) for _ in range(2)]
        elif kind == 2 and at < len(line):
            del line[at]
        elif kind == 3 and at < len(line):
            line[at] = c.pick((*TEXTS, "MODEL", "MAP", "INPUT", "RECORDING", ".", "-1", "0", "99999999999", "=", "*:s"))
        elif at < len(line):
            line[at] = near(line[at], c)
    return [text.replace("\0", "").replace("\ud800", "\udc80") for text in line]  # what a shell can give


def read_line(line: list[str]) -> object:
    """The whole command, in the folder of the watch; a file that it writes is taken away again."""
    here = Path.cwd()
    files = {"MODEL": "a.nir", "MAP": "a.map.json", "INPUT": "in.npz", "RECORDING": "r.npz", "OUT": "out"}
    code = _run([files.get(text, text) for text in line])
    for path in here.iterdir():
        if path.name not in files.values() and not path.name.startswith("decoy") and path.suffix != ".part":
            path.unlink() if not path.is_dir() else shutil.rmtree(path)
    if code:
        raise UsageError.of("command", "exit code", str(code))
    return code


def _run(arguments: list[str]) -> int:
    from nirbridge.cli.main import run

    said, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        code = run(arguments)
    if code not in (0, 1, 2):
        raise Bug.of(f"command {arguments}", f"exit code {code}: {errors.getvalue()[-300:]}")
    return code


# -- plugins and programs --------------------------------------------------------------------------------------------


def make_plugin(c: Choices) -> tuple[str, Any, str]:
    """Where an entry point leads, what is there, and which name is asked for."""
    tables: dict[str, Any] = {kind: {"x": "json:loads"} for kind in registry.KINDS} | {
        "chips": {"x": "nirbridge:x.toml"}
    }
    for _ in range(c.several(2)):
        tables = mutate_json(tables, c)
    name = c.pick(TEXTS) if c.chance(4) else "x"
    return c.pick(("json:loads", "nothing.there:x", "json", ":", "json:nothing", *TEXTS)), tables, name


def read_plugin(given: tuple[str, Any, str]) -> object:
    """As every command looks its names up; a plugin that cannot be loaded is named, never raised."""
    where, tables, name = given
    broken = registry.installed_plugins([metadata.EntryPoint("p", where, registry.GROUP)])
    assert len(broken) == 1
    plugin = registry.Plugin(**tables) if isinstance(tables, dict) and set(tables) <= set(registry.KINDS) else tables
    point: Any = types.SimpleNamespace(name="p", value="p", dist=None, load=lambda: plugin)
    known = (*broken, *registry.installed_plugins([point]))
    found = [registry.get(kind, name, known) for kind in registry.KINDS if kind != "chips" and _has(tables, kind, name)]
    names = registry.chip_names(known)
    return found, names, registry.find_chip(name if name in names else "loihi1", known)


def _has(tables: Any, kind: str, name: str) -> bool:
    """Names that no plugin has are asked for as well, but not of kinds that would import a framework."""
    table = tables.get(kind) if isinstance(tables, dict) else None
    return kind in ("emitters", "simulators") or (isinstance(table, dict) and name in table)


def make_program(c: Choices) -> bytes:
    """The two documents of an emitted program, one behind the other with their lengths before them."""
    documents = [models.program_files()[name] for name in ("manifest.json", "program.json")]
    for _ in range(c.several(2)):
        at = c.below(2)
        if c.chance(8):
            documents[at] = mutate_bytes(documents[at], c)
            continue
        try:
            documents[at] = json_bytes(mutate_json(json.loads(documents[at]), c))
        except (ValueError, RecursionError):
            continue
    return b"".join(len(d).to_bytes(4, "big") + d for d in documents)


def read_program(data: bytes) -> object:
    """As ``run`` does before it starts anything, and as ``emit`` does before it replaces a folder."""
    from nirbridge.emitters import artifact
    from nirbridge.emitters.lava.runtime import run

    length = int.from_bytes(data[:4], "big")
    folder = Path.cwd()
    (folder / "manifest.json").write_bytes(data[4 : 4 + length])
    (folder / "program.json").write_bytes(data[8 + length :])
    known = artifact.known_files(folder)
    program = run._program(folder)
    _, steps, samples = run.opened_inputs(models.inputs(), program, None)
    return known, steps, samples, run.RunLimits().seconds(5, program["processes"])
