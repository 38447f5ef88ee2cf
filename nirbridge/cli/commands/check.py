"""``nirbridge check``: does a model fit a chip, from shapes alone; and is a saved map legal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import ChipFile, Command, ModelFile, refuse_given
from nirbridge.cli.options import early_option, model_options
from nirbridge.cli.output import noted, print_result, progress_on_stderr, reported_faults
from nirbridge.errors import IllegalMapping, UsageError, quoted
from nirbridge.files.places import file_name

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.network.model import Network, Timing

EXAMPLE = """\b
Example:
  nirbridge check model.nir --chip loihi1
  nirbridge check --shapes "2x34x34 conv16k5s2p1 if sumpool2 flatten dense10 if" --chip loihi1
  nirbridge check model.nir --map model.map.json"""


@click.command(
    name="check",
    cls=Command,
    epilog=EXAMPLE,
    usual=("--chip", "--map", "--shapes", "--chips", "--bits", "--json"),
)
@click.argument("model", metavar="[MODEL.nir|MODEL.net.npz|FILE.py:ATTR]", type=ModelFile(), required=False)
@click.option("--shapes", metavar="TEXT", help="Layer shapes instead of a file, before training.")
@click.option("--chip", metavar="NAME|FILE.toml", type=ChipFile(), help="The chip to fit.")
@click.option("--map", "saved", metavar="FILE.map.json", type=click.Path(), help="The map to check.")
@click.option("--chips", type=int, default=1, show_default=True, metavar="N", help="Chips of the board to use.")
@click.option(
    "--bits",
    "--weight-bits",
    "weight_bits",
    type=int,
    metavar="N",
    help="Bits of a stored weight; default: the chip's own.",
)
@click.option(
    "--placement-only", is_flag=True, help="Check only whether it can be placed, even if the chip cannot run it."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
@early_option
@model_options
def command(
    model: str | None,
    shapes: str | None,
    chip: str | Chip | None,
    saved: str | None,
    chips: int,
    weight_bits: int | None,
    placement_only: bool,
    keep_early_spikes: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Can a chip run a model, and does it fit? Is a saved map legal?

    The first question is answered from neurons and shapes alone, without weights. Everything that the chip cannot run
    or hold is listed with its layer, the value found, the limit, and changes that would help.
    """
    if (model is None) == (shapes is None):
        raise UsageError.of("check", "needs one of MODEL.nir and --shapes", "", "see nirbridge check --help")
    network = _network(model, shapes, **reading)
    if saved is not None:
        if model is None:
            raise UsageError.of("--map", "needs the model that was mapped", "", "give MODEL.nir")
        stored = {"--chips": chips != 1, "--bits": weight_bits, "--keep-early-spikes": keep_early_spikes}
        refuse_given(stored, "a map is checked as it is stored")
        read = _as_mapped(model, saved, network, **reading)
        _check_map(model, saved, chip, read, placement_only=placement_only, as_json=as_json)
    elif chip is None:
        raise UsageError.of("check", "needs --chip or --map", "", "as in --chip loihi1; nirbridge chips lists them")
    else:
        limits = {"chips": chips, "weight_bits": weight_bits, "placement_only": placement_only}
        _check_fit(network, chip, {**limits, "keep_early_spikes": keep_early_spikes}, as_json=as_json)


def _network(model: str | None, shapes: str | None, timing: Timing, **reading: Any) -> Network:
    if model is not None:
        return pipeline.load_network(model, timing, **reading)
    if reading["repairs"]:
        raise UsageError.of("--shapes", "given with --repair", "it repairs a file", "leave it out")
    network = pipeline.network_of_shapes(shapes or "", timing)
    return network if reading["rewrite"] is None else reading["rewrite"](network)


def _as_mapped(model: str, saved: str, network: Network, timing: Timing, **reading: Any) -> Network:
    """The model read with the timing that the map was made with, where the options leave it open."""
    timing_asked = pipeline.timing_of_map(saved, network, timing)
    return network if timing_asked == timing else _network(model, None, timing_asked, **reading)


def _check_map(
    model: str, saved: str, chip: str | Chip | None, network: Network, *, placement_only: bool, as_json: bool
) -> None:
    target = None if chip is None else pipeline.load_chip(chip)
    problems = pipeline.check_map(saved, network, pipeline.file_sha256(model), target, placement_only=placement_only)
    IllegalMapping.raise_all(problems)
    marks = {"placement_only": True} if placement_only else {}
    map_name, model_name = Path(saved).name, file_name(model)
    document = {"legal": True, **marks, "map": map_name, "model": model_name, "faults": reported_faults()}
    text = f"legal: {quoted(map_name)} maps {quoted(model_name)} within every limit"
    if placement_only:
        text = f"legal as a placement only: {quoted(map_name)} places {quoted(model_name)}"
    print_result(document if as_json else [text])


def _check_fit(network: Network, chip: str | Chip, limits: dict[str, Any], *, as_json: bool) -> None:
    target = pipeline.load_chip(chip)
    with progress_on_stderr() as progress:
        options = pipeline.MapOptions(**limits, effort="fast", progress=progress)
        prepared, partition = pipeline.check_fit(network, target, options)
    report, chips = partition.report, limits["chips"]
    marks = {"placement_only": True} if limits["placement_only"] else {}
    about = {"chip": target.name, "chips": chips, "faults": reported_faults(), "notes": prepared.notes}
    numbers = {
        name: getattr(report, name) for name in ("cores", "cores_lower_bound", "cores_lower_bound_sliced", "status")
    }
    available = chips * target.mesh.cores - len(target.dead_cores)
    fits = "fits, placement only" if marks else "fits"
    line = (
        f"{fits}: {report.cores:,} of {available:,} cores of {chips} x {target.name} "
        f"({report.status}; at least {report.cores_lower_bound:,} in any map)"
    )
    from nirbridge.report.lines import short_notes

    faults = pipeline.faults_of(prepared.notes)  # stderr tells of them
    notes = [note for note in prepared.notes if note not in faults]

    document = {"fits": True, **marks, **about, **numbers}
    print_result(document if as_json else [line, *noted("note", short_notes(notes))])
