"""``nirbridge simulate``: run a model on inputs and save the recording."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import (
    ChipFile,
    Choice,
    Command,
    ModelFile,
    OutputFile,
    RegisteredName,
    check_plot,
    data_options,
    names_module,
    read_data_file,
    refuse_given,
    summary,
    summary_lines,
)
from nirbridge.cli.options import early_option, model_options, options_of_networks
from nirbridge.cli.output import print_result, progress_on_stderr, reported_faults
from nirbridge.errors import ExporterFaultWarning, NirbridgeError, UsageError, counted, quoted

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.network.model import Network, Port, Timing
    from nirbridge.quantization.model import FixedInput, QuantizedNetwork
    from nirbridge.simulators.simulate import Probe, Recording

EXAMPLE = """\b
Example:
  nirbridge simulate model.nir --input spikes.npy -o out.npz
  nirbridge simulate model.nir --input in.npz --record 'fc1:s,v' --record '*:count' -o out.npz"""


class _Input(click.Option):
    """Where it is missing the error says what the model takes, if that can be read."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """As click does. Raises UsageError."""
        try:
            return super().process_value(ctx, value)
        except click.MissingParameter:
            from nirbridge.report.lines import shape_line

            ports = _ports(ctx.params.get("model"))
            if not ports:
                raise
            takes = ", ".join(f"{quoted(port.name)} of {shape_line(port.shape)}" for port in ports)
            axes = ", ".join(map(str, ("time", "sample", *ports[0].shape)))
            file = f"IN.npy with axes {axes}" if len(ports) == 1 else "IN.npz with an array for each, by name"
            limit = f"the model has {counted(len(ports), 'input')}: {takes}"
            raise UsageError.of("--input", "is missing", limit, f"give --input {file}") from None


def _ports(model: str | None) -> tuple[Port | FixedInput, ...]:
    """The inputs of a model's file; none of one that cannot be read as it is."""
    if model is None or names_module(model):
        return ()
    with suppress(NirbridgeError), warnings.catch_warnings():
        warnings.simplefilter("ignore", ExporterFaultWarning)
        load = pipeline.load_quantized if pipeline.holds_integers(model) else pipeline.load_network
        return load(model).inputs
    return ()


@click.command(
    name="simulate",
    cls=Command,
    epilog=EXAMPLE,
    usual=("--input", "--output", "--steps", "--record", "--backend", "--plot"),
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|MODEL.q.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--input",
    "source",
    cls=_Input,
    required=True,
    metavar="IN.npy|npz",
    type=click.Path(),
    help="Input spikes or currents.",
)
@data_options
@click.option("-o", "--output", required=True, metavar="OUT.npz", type=OutputFile(), help="The recording.")
@click.option("--steps", type=int, metavar="N", help="Time steps to run; default: the length of the input.")
@click.option(
    "--record",
    "record",
    multiple=True,
    metavar="NODE:s,v",
    help="Variables to record of a node, or of all ('*:s'). Repeatable.",
)
@click.option("--every", type=click.IntRange(min=1), default=1, metavar="N", help="Record every N-th time step.")
@click.option("--dtype", type=Choice(["float32", "float64"]), default="float32", show_default=True)
@click.option(
    "--backend",
    type=RegisteredName("simulators"),
    default="auto",
    show_default=True,
    metavar="NAME",
    help="Simulator; best: the fastest in a short trial; fixed and mapped: the chip's integers.",
)
@click.option("--chip", metavar="NAME|FILE.toml", type=ChipFile(), help="Chip that fixed and mapped simulate.")
@click.option(
    "--map",
    "map_file",
    metavar="FILE.map.json",
    type=click.Path(),
    help="Map that mapped simulates; default: a new one.",
)
@click.option("--library", metavar="NAME", help="numpy, torch, jax, cupy or dpnp; default: chosen by the device.")
@click.option("--device", default="cpu", show_default=True, metavar="NAME", help="cpu, or cuda.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Threads that share the samples of a batch; any number gives the same result.",
)
@click.option(
    "--plot",
    metavar="FILE.svg|pdf|png",
    type=OutputFile(),
    help="Plot spikes or potentials of a node (matplotlib).",
)
@click.option("--node", metavar="NAME", help="Node to plot; default: the first with spikes, else the first recorded.")
@early_option
@model_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
def command(
    model: str, source: str, output: str, as_json: bool, plot: str | None, node: str | None, **options: Any
) -> None:
    """Run a model on inputs, exactly, and save spikes and potentials.

    IN.npy holds the axes of --axes, then those of the model's one input; IN.npz holds one such array per input, by
    name. Without the axis of samples it is one sample. 0 and 1 are spikes, other values graded currents. Integers (of
    a chip, or of a quantized MODEL) run on until the last output is there, each node recorded from its latency on.
    """
    check_plot(plot, node)
    recording = run(model, source, output=output, **options)
    if plot is not None:
        draw(recording, plot, node)
    pipeline.write_recording(recording, output)
    document = {"output": output, "faults": reported_faults(), **summary(recording)}
    print_result(document if as_json else summary_lines(recording, "see nirbridge inspect"))


def draw(recording: Recording, plot: str, node: str | None) -> None:
    """A raster of the node's spikes; traces of its first neurons where it has none. Raises UsageError."""
    from nirbridge.report.plots.recordings import plot_recording
    from nirbridge.report.plots.style import save_picture

    spiking = [name for name, variable in recording.arrays if variable == "s"]
    drawn = [name for name, variable in recording.arrays if variable in ("s", "u", "v")]
    if not drawn:
        raise UsageError.of("--plot", "no node has spikes or potentials to draw", "", "add --record '*:s,v'")
    save_picture(plot_recording(recording, node if node is not None else (spiking or drawn)[0]), plot)


def run(
    model: str,
    source: str,
    output: str,
    axes: str | None,
    timing: Timing,
    max_bytes: int,
    repairs: tuple[str, ...],
    steps: int | None,
    record: tuple[str, ...],
    every: int,
    dtype: str,
    backend: str,
    library: str | None,
    device: str,
    chip: str | Chip | None = None,
    map_file: str | None = None,
    keep_early_spikes: bool = False,
    threads: int = 1,
    rewrite: Any = None,
) -> Recording:
    """The recording that the command saves."""
    real = {"--dtype": dtype != "float32", "--library": library, "--device": device != "cpu"}
    if pipeline.holds_integers(model):
        of_networks = {"--chip": chip, "--map": map_file, "--keep-early-spikes": keep_early_spikes}
        of_networks |= real | options_of_networks(timing, repairs, rewrite)
        refuse_given(of_networks, "a quantized network has its numbers")
        integers = pipeline.load_quantized(model, max_bytes=max_bytes)
        given = read_data_file(integers, source, axes, max_bytes, steps=steps)
        return run_integers(integers, given, output, backend, steps, parse_probes(integers, record, every), threads)
    network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
    given = read_data_file(network, source, axes, max_bytes, steps=steps)
    wants = parse_probes(network, record, every)
    pipeline.check_output(output, lambda: pipeline.simulate_network(network, given.inputs, steps=1, record=wants))
    shared: dict[str, Any] = {"backend": backend, "steps": steps, "record": wants, "threads": threads}
    if backend in ("fixed", "mapped") or chip is not None or map_file is not None or keep_early_spikes:
        refuse_given(real, "a chip's integers run in NumPy on the CPU")
        with progress_on_stderr() as progress:
            shared |= {"chip": chip, "map_file": map_file, "keep_early_spikes": keep_early_spikes, "drain": True}
            recording = pipeline.simulate_on_chip(network, given.inputs, **shared, progress=progress)
            return pipeline.with_reading(recording, given)
    array_library = library or ("torch" if device.startswith("cuda") else "numpy")
    with progress_on_stderr() as progress:
        shared |= {"dtype": dtype, "library": array_library, "device": device}
        recording = pipeline.simulate_network(network, given.inputs, **shared, progress=progress)
    return pipeline.with_reading(recording, given)


def run_integers(
    model: QuantizedNetwork,
    given: Any,
    output: str,
    backend: str,
    steps: int | None,
    record: list[Probe] | None,
    threads: int,
) -> Recording:
    """The recording of a model that is quantized already."""
    from nirbridge.api.runs import simulated

    def recorded(**options: Any) -> Recording:
        return simulated(model, backend, {"chip": None}, True, {"record": record}, given.inputs, **options)

    pipeline.check_output(output, lambda: recorded(steps=1))
    with progress_on_stderr() as progress:
        return pipeline.with_reading(recorded(steps=steps, threads=threads, progress=progress), given)


def parse_probes(network: Network | QuantizedNetwork, texts: tuple[str, ...], every: int) -> list[Probe] | None:
    """``NODE:s,v`` each; a name may hold colons, the last one counts."""
    probes = []
    for text in texts:
        node, colon, variables = text.rpartition(":")
        names = tuple(v.strip() for v in variables.split(",") if v.strip())
        if not colon or not node or not names:
            limit = "NODE:s,v with variables s, v, u, i, count"
            raise UsageError.of(f"--record {quoted(text)}", "names no node or no variable", limit, "for example '*:s'")
        probes.append((node, names))
    return pipeline.probes(network, probes, every)
