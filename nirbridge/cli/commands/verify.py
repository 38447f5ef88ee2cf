"""``nirbridge verify``: the model, its integers, its map and the emitted program, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import (
    RANDOM_ONLY,
    ChipFile,
    Choice,
    ModelFile,
    OutputFile,
    RegisteredName,
    check_plot,
    data_options,
    graded_inputs,
    read_data_file,
    refuse_given,
    widths,
)
from nirbridge.cli.options import clipping_options, early_option, model_options
from nirbridge.cli.output import (
    is_quiet,
    is_verbose,
    print_error,
    print_result,
    progress_on_stderr,
    reported_faults,
    verbose_option,
)
from nirbridge.cli.target_options import TargetCommand
from nirbridge.errors import NirbridgeError, UsageError, quoted
from nirbridge.files.places import file_name

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.network.model import Network
    from nirbridge.verification.verify import Verification

EXAMPLE = """\b
Example:
  nirbridge verify model.nir --chip loihi1 --to lava -o verified.npz
  nirbridge verify model.nir --chip loihi2 --input spikes.npy --labels labels.npy --plot difference.png
  nirbridge verify model.nir --chip loihi2 --calibrate data.npz --method error --bits 4 --bits fc1=8"""


@click.command(
    name="verify",
    cls=TargetCommand,
    epilog=EXAMPLE,
    usual=("--chip", "--to", "--input", "--labels", "--output", "--plot"),
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--chip",
    "chip_name",
    required=True,
    metavar="NAME|FILE.toml",
    type=ChipFile(),
    help="Chip to quantize and map for.",
)
@click.option(
    "--to",
    "target",
    metavar="NAME",
    type=RegisteredName("emitters"),
    help="Also run the program emitted for this tool.",
)
@click.option(
    "--dtype",
    type=Choice(("integers", "float32", "float64")),
    help="Numbers of the program: the chip's, or the network's own reals. Default: the chip's where it takes them.",
)
@click.option(
    "--input",
    "source",
    metavar="IN.npy|npz",
    type=click.Path(),
    help="Input spikes or currents; default: random spikes.",
)
@data_options
@click.option("--labels", metavar="FILE.npy", type=click.Path(), help="Class of each sample, for accuracy.")
@click.option(
    "--steps", type=click.IntRange(min=1), metavar="N", help="Time steps; default: the length of the input, or 100."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of the random spikes."
)
@click.option("--map", "map_file", metavar="FILE.map.json", type=click.Path(), help="Run this map; default: a new one.")
@click.option("--prove", is_flag=True, help="Prove the program's neurons for every input, where a target can.")
@click.option("--per-core", is_flag=True, help="Emit one process per core and population. Slow to run.")
@click.option(
    "--bits",
    "--weight-bits",
    "bits",
    multiple=True,
    metavar="N|LAYER=N",
    help="Weight bits, of all layers or of one (weight_bits in Python). Repeatable.",
)
@click.option("--calibrate", metavar="DATA.npz|npy", type=click.Path(), help="Calibration data, as in quantize.")
@clipping_options
@click.option(
    "--graded",
    multiple=True,
    metavar="INPUT=MAX:BITS",
    help="A graded input of values up to MAX, in BITS bits. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE.npz",
    type=OutputFile(),
    help="Keep the recordings and distances, for nirbridge report.",
)
@click.option("--plot", metavar="FILE.svg|pdf|png", type=OutputFile(), help="Plot the spikes that differ.")
@click.option("--node", metavar="NAME", help="Node to plot; default: the first that differs.")
@early_option
@model_options
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(model: str, output: str | None, plot: str | None, node: str | None, as_json: bool, **options: Any) -> int:
    """Compare a model with its quantized and mapped forms, and with an emitted program.

    The reference, the quantized model, the mapped model and (--to NAME) the emitted program run on the same input. All
    but the reference must agree in every spike, current and potential, and each population must stay within its bound
    on rounding errors; otherwise the exit code is 1.
    """
    from nirbridge.report.compare import verification_failures, verify_document, verify_text

    check_plot(plot, node)
    verification = run(model, **options)
    if output is not None:
        pipeline.write_verification(verification, output)
    if plot is not None:
        _draw(verification, plot, node)
    print_result(
        verify_document(verification) | {"faults": reported_faults()}
        if as_json
        else verify_text(verification, notes=not is_quiet(), every=is_verbose())
    )
    if verification.holds:
        return 0
    broken = "; ".join(verification_failures(verification))
    print_error(NirbridgeError.of(f"model {quoted(file_name(model))}", broken, "verification failed"), as_json=False)
    return 1


def run(
    model: str,
    chip_name: str | Chip,
    source: str | None,
    labels: str | None,
    timing: Any,
    max_bytes: int,
    repairs: tuple[str, ...],
    rewrite: Any = None,
    **options: Any,
) -> Verification:
    """The verification that the command reports."""
    for name, target in (("per_core", "lava"), ("prove", "verilog"), ("dtype", "c")):
        if options.get(name) and options["target"] is None:
            flag, hint = f"--{name.replace('_', '-')}", f"add --to {target}"
            raise UsageError.of(flag, "given without --to", "it applies to the emitted program", hint)
    refuse_given({"--seed": source and options.get("seed")}, RANDOM_ONLY)
    network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
    chip = pipeline.load_chip(chip_name)
    classes = None if labels is None else pipeline.load_npy(labels)
    axes = options["axes"] if source is not None or options["calibrate"] is None else None
    given = read_data_file(network, source, axes, max_bytes, labels=classes, steps=options["steps"])
    told = f"as given, {given.reading}" if given.reading else "as given"
    with progress_on_stderr() as progress:
        quantization = _quantization(network, max_bytes, progress, options)
        return pipeline.verify_network(
            network,
            chip,
            given.inputs,
            labels=given.labels,
            input_said=told,
            quantization=quantization,
            progress=progress,
            **options,
        )


def _quantization(network: Network, max_bytes: int, progress: Any, options: dict[str, Any]) -> Any:
    """Takes the options that choose the integers out of ``options``."""
    bits, data, axes = options.pop("bits"), options.pop("calibrate"), options.pop("axes")
    graded = graded_inputs(options.pop("graded"))
    numbers = {"weight_bits": widths(bits), "graded": graded, "progress": progress}
    plan = {name: options.pop(name) for name in ("method", "percentile", "tight")}
    arrays = None if data is None else read_data_file(network, data, axes, max_bytes).with_labels
    return pipeline.quantize_plan(network, numbers, arrays, {**plan, "progress": progress})


def _draw(verification: Verification, plot: str, node: str | None) -> None:
    """The first required pair whose spikes differ, else reference and fixed; of samples the first that differs."""
    from nirbridge.report.plots.recordings import plot_rows
    from nirbridge.report.plots.style import save_picture

    broken = [p for p in verification.pairs if p.required and any(r.spikes and not r.equal for r in p.comparison.rows)]
    pair = next(iter(broken), verification.pairs[0])
    recordings = verification.recordings[pair.a], verification.recordings[pair.b]
    axes = plot_rows(pair.comparison, recordings, node, sample=None, names=(pair.a, pair.b))
    save_picture(axes, plot)
