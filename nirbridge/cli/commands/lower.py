"""``nirbridge lower``: a model through the stages of the MLIR dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import ChipFile, Command, ModelFile, OutputFile, refuse_given
from nirbridge.cli.options import model_options
from nirbridge.cli.output import print_result, print_text, reported_faults
from nirbridge.errors import UsageError, counted, quoted

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.dialect.lower import Lowering

EXAMPLE = """\b
Example:
  nirbridge lower model.nir -o model.mlir
  nirbridge lower model.nir --until dialect
  nirbridge lower model.nir --until snn-mlir -o model.mlir
  nirbridge lower model.nir --chip loihi2 --batch 1 --print-ir-after-all
  nirbridge lower model.nir --map model.map.json --until cores"""
EXTENT_MAX = 2**31 - 1
"""Far beyond any run; MLIR holds an extent in 64 bits."""


@click.command(
    name="lower", cls=Command, epilog=EXAMPLE, usual=("--until", "--chip", "--output", "--batch", "--steps", "--json")
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--until",
    type=click.Choice(["dialect", "forms", "linalg", "cores", "snn-mlir"]),
    default="linalg",
    show_default=True,
    help="The last stage; cores: a function for each core of --map; snn-mlir: the dialect of that project.",
)
@click.option(
    "--chip",
    "chip_name",
    metavar="NAME|FILE.toml",
    type=ChipFile(),
    help="Lower the integers of this chip; default: real numbers.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    show_default=True,
    help="Real numbers of the module.",
)
@click.option(
    "--batch", type=click.IntRange(1, EXTENT_MAX), metavar="N", help="Samples that the module takes; default: any."
)
@click.option(
    "--steps", type=click.IntRange(1, EXTENT_MAX), metavar="N", help="Time steps that it takes; default: any."
)
@click.option(
    "--map",
    "map_file",
    metavar="FILE.map.json",
    type=click.Path(),
    help="Lower the network of this map, with the cores of its populations; --chip: its integers.",
)
@click.option("--print-ir-after-all", "shows_all", is_flag=True, help="Show the module after every stage.")
@click.option("--irdl", metavar="FILE.irdl", type=OutputFile(), help="Write the dialect for mlir-opt --irdl-file.")
@click.option("-o", "--output", metavar="FILE.mlir", type=OutputFile(), help="Write the module; default: show it.")
@model_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the stages, arguments and results.")
def command(
    output: str | None,
    irdl: str | None,
    shows_all: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Lower a model to MLIR: the dialect, the forms that are chosen for it, and loops over tensors.

    The last stage is one function over time with inputs, outputs and state as arguments and results, for mlir-opt,
    IREE and others. Needs the extra mlir, but for snn-mlir: one time step in the dialect of that project.
    """
    if irdl is not None and options["until"] in ("snn-mlir", "cores"):
        limit = f"the stage {options['until']} has no operations of this dialect"
        raise UsageError.of("--irdl", "does not apply here", limit, "leave it out")
    lowering = run(**options)
    for path, text in ((output, lowering.text), (irdl, lowering.definition)):
        if path is not None:
            pipeline.save_module(text, path)
    if as_json:
        print_result(lowering.document() | {"faults": reported_faults()})
    elif shows_all:
        print_text("\n".join(f"// -----// after {name} //----- //\n{text}" for name, text in lowering.stages.items()))
    elif output is None:
        print_text(lowering.text.rstrip("\n"))
    else:
        stage = tuple(lowering.stages)[-1]
        print_text(f"saved {quoted(output)}: stage {stage}, {counted(len(lowering.text.splitlines()), 'line')}")


def run(
    model: str,
    until: str,
    chip_name: str | Chip | None,
    map_file: str | None,
    timing: Any,
    max_bytes: int,
    repairs: tuple[str, ...],
    rewrite: Any = None,
    **settings: Any,
) -> Lowering:
    """The stages that the command shows."""
    if until == "dialect":
        refuse_given({f"--{name}": settings[name] for name in ("batch", "steps")}, "the dialect has no extents")
    refuse_given({"--dtype": chip_name and settings["dtype"] != "float32"}, "a chip computes in integers")
    network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
    chip = None if chip_name is None else pipeline.load_chip(chip_name)
    if map_file is not None:
        mapping = pipeline.load_mapped(map_file, network, pipeline.file_sha256(model), chip)
        placed = pipeline.model_on_cores(mapping, in_integers=chip is not None or until == "cores")
        return pipeline.lower_model(placed, until, mapping=mapping, **settings)
    return pipeline.lower_model(
        network if chip is None else pipeline.quantize_network(network, chip), until, **settings
    )
