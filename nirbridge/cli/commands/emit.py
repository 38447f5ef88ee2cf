"""``nirbridge emit``: write a model as a program of another tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group
from rich.text import Text

from nirbridge import pipeline
from nirbridge.cli.common import ChipFile, ModelFile, OutputFolder, RegisteredName, graded_inputs
from nirbridge.cli.options import early_option, model_options
from nirbridge.cli.output import is_quiet, print_result, progress_on_stderr, reported_faults
from nirbridge.cli.target_options import EmitCommand
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.report.quantize import precision_line
from nirbridge.report.tables import facts_table, table

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.emitters.artifact import Artifact
    from nirbridge.emitters.verilog.synthesis import Synthesis
    from nirbridge.network.model import Timing

OF_REALS = {"dtype", "surrogate", "slope"}
"""Options of targets that integers have no use for."""
EXAMPLE = """\b
Example:
  nirbridge emit model.nir --to lava --chip loihi2 -o program
  nirbridge run program --input spikes.npy -o out.npz
  nirbridge quantize model.nir --chip loihi2 --calibrate data.npz -o model.q.npz
  nirbridge emit model.q.npz --to c -o program
  nirbridge emit model.nir --to verilog --board icebreaker --synthesize -o program"""


@click.command(
    name="emit",
    cls=EmitCommand,
    epilog=EXAMPLE,
    usual=("--to", "--chip", "--output", "--map", "--synthesize", "--json"),
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|MODEL.q.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--to",
    "target",
    required=True,
    metavar="NAME",
    type=RegisteredName("emitters"),
    help="The tool to write for.",
)
@click.option(
    "--chip",
    metavar="NAME|FILE.toml",
    type=ChipFile(),
    help="Chip to quantize for; default: loihi2, or none where the target takes real numbers.",
)
@click.option("-o", "--output", required=True, metavar="DIR", type=OutputFolder(), help="Folder of the program.")
@click.option(
    "--map", "map_file", metavar="FILE.map.json", type=click.Path(), help="Emit one process per slice of this map."
)
@click.option("--per-core", is_flag=True, help="Map it, and emit one process per core and population. Slow to run.")
@click.option(
    "--bits",
    "--weight-bits",
    "weight_bits",
    type=click.IntRange(1, 8),
    metavar="N",
    help="Weight bits; default: the chip's.",
)
@click.option(
    "--graded",
    multiple=True,
    metavar="INPUT=MAX:BITS",
    help="A graded input of values up to MAX, in BITS bits. Repeatable.",
)
@click.option("--synthesize", is_flag=True, help="Synthesize, place and route it: figures, and a bitstream of a board.")
@early_option
@model_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(model: str, target: str, output: str, as_json: bool, synthesize: bool, **options: Any) -> None:
    """Write a model as a self-contained program: a folder that needs the other tool, not nirbridge.

    A .nir file is quantized as nirbridge quantize does without data; a .q.npz file of nirbridge quantize is used as it
    is. Targets that take real numbers get these unless a chip is named. An existing folder is replaced only if
    nirbridge wrote it and everything in it.
    """
    pipeline.check_folder(output)
    synthesizer = pipeline.synthesizer(target) if synthesize else None
    lossy: list[str] = []
    program, figures = emitted(model, target, **options, on_quantized=lambda q: lossy.append(precision_line(q))), None
    if synthesizer is not None:
        with progress_on_stderr() as progress:
            program, figures = synthesizer(program, progress=progress)
    manifest = pipeline.write_program(program, output)
    assumed = assumed_chip(model, target, **options)
    about = {"output": output, "digest": program.digest, "target": target, "faults": reported_faults()}
    about["assumed_chip"] = assumed
    of_lava = f", {manifest['processes']} Lava processes, {manifest['tag']}" if target == "lava" else ""
    lines = [f"{output}: {counted(len(program.files), 'file')}{of_lava}", f"digest {program.digest}"]
    if assumed is not None:
        lines.append(f"integers of the chip {assumed}, the default of --to {target}; --chip names another")
    ends = [f"run with: nirbridge run {output} --input IN.npy -o OUT.npz"] if pipeline.can_run(target) else []
    ends += [] if is_quiet() else manifest.get("notes", [])
    if as_json:
        made = {} if figures is None else {"synthesis": {k: v for k, v in figures.record.items() if k != "floor_plan"}}
        print_result({**about, "manifest": manifest, **made})
        return
    print_result(lines)
    facts = [("weights", line) for line in lossy if line]
    if facts := [*pipeline.program_facts(target, program), *facts]:
        print_result(facts_table(facts))
    if ends:
        print_result(ends)
    if figures is not None:
        print_result(_figures_table(figures, manifest.get("cycles_per_step")))


def _figures_table(figures: Synthesis, cycles: float | None) -> Group:
    """What a circuit takes of its device, its clock, and the time of a time step at that clock."""
    words = {"luts": "logic cells" if figures.device.startswith("ice40") else "LUTs", "block_rams": "block RAMs"}
    rows = [
        (words.get(name, name.replace("_", "-")), f"{used:,}", f"{most:,}", f"{used / most:.1%}" if most else "")
        for name, (used, most) in figures.counts.items()
    ]
    lines = [f"clock {figures.mhz:.1f} MHz, routed; {', '.join(figures.versions)}"]
    if cycles is not None:
        times = f"{cycles / figures.mhz:,.1f} us at that clock, {cycles / figures.board_mhz:,.1f} us"
        lines.append(f"{cycles:,.0f} cycles a time step: {times} at {figures.board_mhz:g} MHz")
    title = f"{figures.board} ({figures.device})"
    return Group(table((title, "used", "of", ""), "LR", rows, padding=(0, 2, 0, 0)), *map(Text, lines))


def assumed_chip(model: str, target: str, *, chip: str | Chip | None, own: Mapping[str, Any], **_: Any) -> str | None:
    """The chip whose integers the program computes where none was named; None: named, in the model, or no integers."""
    if chip or own.get("floating") or pipeline.holds_integers(model):
        return None
    return pipeline.default_chip(target, pipeline.emitter_options(target, **own))


def emitted(model: str, target: str, chip: str | Chip | None, own: Mapping[str, Any], **options: Any) -> Artifact:
    """The program that the command writes; ``own``: the options of the target."""
    if own.get("floating") and (options["per_core"] or options["map_file"] is not None):
        limit = "cores hold the chip's integers"
        raise UsageError.of("--floating", "given with --per-core or --map", limit, "choose one of them")
    in_reals = {name for name in OF_REALS & own.keys() if own[name] != "integers"}
    is_quantized = pipeline.holds_integers(model)
    for name in in_reals if chip and not is_quantized else ():
        limit = "a chip computes in integers"
        raise UsageError.of(f"--{name} {own[name]}", "given with --chip", limit, "leave one of them out")
    if is_quantized:
        named = ("weight_bits", "repairs", "rewrite", "keep_early_spikes", "per_core", "graded", "map_file")
        has_options = chip or any(options[name] for name in named) or options["timing"] != pipeline.Timing()
        has_options = has_options or not own.keys().isdisjoint({"floating", *OF_REALS})
        return _of_integers(model, target, bool(has_options), options["max_bytes"], own)
    return _of_network(model, target, chip, own, **options)


def _of_integers(model: str, target: str, has_options: bool, max_bytes: int, own: Mapping[str, Any]) -> Artifact:
    if has_options:
        limit = "its integers are fixed, so only --to and options of the target apply"
        raise UsageError.of(f"model {quoted(model)}", "given with other options", limit, "leave them out")
    return pipeline.emit_quantized(
        model, target=target, max_bytes=max_bytes, options=pipeline.emitter_options(target, **own)
    )


def _of_network(
    model: str,
    target: str,
    chip: str | Chip | None,
    own: Mapping[str, Any],
    map_file: str | None,
    weight_bits: int | None,
    graded: tuple[str, ...],
    timing: Timing,
    max_bytes: int,
    repairs: tuple[str, ...],
    rewrite: Any,
    **options: Any,
) -> Artifact:
    chosen = pipeline.emitter_options(target, **own)
    network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
    name = chip or pipeline.default_chip(target, chosen)
    target_chip = None if name is None else pipeline.load_chip(name)
    mapping = None
    if map_file is not None:
        mapping = pipeline.load_map(
            map_file, network, pipeline.file_sha256(model), target_chip or pipeline.load_chip("loihi2")
        )
    with progress_on_stderr() as progress:
        settings: dict[str, Any] = {"weight_bits": weight_bits, "mapping": mapping, **options}
        settings["graded"] = graded_inputs(graded)
        return pipeline.emit_with(target, network, target_chip, chosen, progress=progress, **settings)
