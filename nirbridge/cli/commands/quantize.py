"""``nirbridge quantize``: a model in a chip's integers, with the error of each layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import (
    ChipFile,
    Command,
    ModelFile,
    OutputFile,
    data_options,
    graded_inputs,
    read_data_file,
    widths,
)
from nirbridge.cli.options import clipping_options, early_option, model_options
from nirbridge.cli.output import is_quiet, is_verbose, print_result, progress_on_stderr, reported_faults, verbose_option

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.network.model import Timing
    from nirbridge.quantization import QuantizedNetwork

EXAMPLE = """\b
Example:
  nirbridge quantize model.nir --chip loihi1 -o model.q.npz
  nirbridge quantize model.nir --chip loihi2 --bits 4 --bits fc1=8 --calibrate data.npz --method error -o model.q.npz"""


@click.command(
    name="quantize",
    cls=Command,
    epilog=EXAMPLE,
    usual=("--chip", "--output", "--bits", "--calibrate", "--method", "--json"),
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--chip",
    "chip_name",
    required=True,
    metavar="NAME|FILE.toml",
    type=ChipFile(),
    help="Chip whose number formats are used.",
)
@click.option("-o", "--output", required=True, metavar="OUT.q.npz", type=OutputFile(), help="The quantized network.")
@click.option(
    "--bits",
    "--weight-bits",
    "bits",
    multiple=True,
    metavar="N|LAYER=N",
    help="Weight bits, of all layers or of one (weight_bits in Python). Repeatable.",
)
@click.option(
    "--calibrate", metavar="DATA.npz|npy", type=click.Path(), help="Calibration inputs by name, and 'labels'."
)
@data_options
@clipping_options
@click.option(
    "--memory-kib",
    type=click.IntRange(min=1),
    metavar="N",
    help="Search weight bits by layer within this synaptic memory.",
)
@click.option(
    "--run-steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Also prove that v does not saturate within N time steps.",
)
@click.option(
    "--graded",
    multiple=True,
    metavar="INPUT=MAX:BITS",
    help="A graded input of values up to MAX, in BITS bits. Repeatable.",
)
@early_option
@model_options
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
def command(model: str, chip_name: str | Chip, output: str, as_json: bool, **options: Any) -> None:
    """Quantize a model to a chip's integers.

    Weights, decays, thresholds and biases become integers. The report gives the error of each layer and the bounds that
    hold for every input. DATA.npz holds arrays by input, with the axes of --axes, and labels [samples].
    """
    from nirbridge.report.quantize import quantize_document, quantize_text

    quantized = run(model, chip_name, **options)
    digest = pipeline.write_quantized(quantized, output)
    document = {"output": output, "faults": reported_faults(), **quantize_document(quantized, digest)}
    print_result(document if as_json else quantize_text(quantized, notes=not is_quiet(), every=is_verbose()))


def run(
    model: str,
    chip_name: str | Chip,
    timing: Timing,
    max_bytes: int,
    repairs: tuple[str, ...],
    bits: tuple[str, ...],
    calibrate: str | None,
    axes: str | None,
    method: str,
    percentile: float,
    tight: bool,
    memory_kib: int | None,
    run_steps: int | None,
    graded: tuple[str, ...],
    keep_early_spikes: bool = False,
    rewrite: Any = None,
) -> QuantizedNetwork:
    """The network that the command saves."""
    network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
    chip = pipeline.load_chip(chip_name)
    arrays = read_data_file(network, calibrate, axes, max_bytes).with_labels
    options = {"weight_bits": widths(bits), "graded": graded_inputs(graded), "run_steps": run_steps}
    memory = None if memory_kib is None else memory_kib * 8192
    with progress_on_stderr() as progress:
        plan = {"method": method, "percentile": percentile, "tight": tight, "memory_bits": memory, "progress": progress}
        planned = pipeline.quantize_plan(network, options, arrays, plan)
        return pipeline.quantize_network(network, chip, *planned, keep_early_spikes=keep_early_spikes)
