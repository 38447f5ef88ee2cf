"""Every way to compute a model, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nirbridge.errors import DoesNotFit
from nirbridge.pipeline.options import MapOptions, Progress, quiet
from nirbridge.pipeline.retiming import map_retimed, retime

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.network.model import Network
    from nirbridge.passes import Retimed
    from nirbridge.simulators.verify import Verification

VERIFY_STEPS = 100
"""Steps of random spikes where ``verify_network`` gets no input."""


def verify_network(
    network: Network,
    chip: Chip,
    inputs: Any = None,
    *,
    target: str | None = None,
    steps: int | None = None,
    labels: Any = None,
    map_file: str | Path | None = None,
    weight_bits: int | None = None,
    seed: int = 0,
    progress: Progress = quiet,
) -> Verification:
    """Reference, integers, map and (``target`` 'lava') the emitted program on the same input, compared.

    ``inputs``: by name or one alone; None: random spikes, said in the result. ``map_file``: a saved map of this model;
    None: it is mapped here, and where it does not fit that is said and the map is left out.

    Raises:
        ModelError: what the chip or the tool can not do, or a program that failed.
        UsageError: inputs or options that make no sense, no Lava environment.
        IllegalMapping: the saved map is not of this network.
    """
    from nirbridge.emitters.lava.emit import emit
    from nirbridge.quantization.quantize import Options, quantize
    from nirbridge.simulators.verify import drawn_inputs, input_arrays, verify

    retimed = retime(network, chip)
    quantized = quantize(retimed, chip, Options(weight_bits=weight_bits, progress=progress))
    count = steps or (None if inputs is not None else VERIFY_STEPS)
    said = "as given"
    if inputs is None:
        inputs, said = drawn_inputs(network, count or VERIFY_STEPS, seed)
    given, count = input_arrays(network, inputs, count)
    mapping, left_out = _map_to_verify(retimed, chip, map_file, weight_bits, progress)
    return verify(
        retimed.reference,
        quantized,
        given,
        steps=count,
        mapping=mapping,
        program=emit(quantized) if target == "lava" else None,
        labels=labels,
        input_said=said,
        left_out=left_out,
        progress=progress,
    )


def _map_to_verify(
    retimed: Retimed, chip: Chip, map_file: str | Path | None, weight_bits: int | None, progress: Progress
) -> tuple[Any, dict[str, str]]:
    from nirbridge.mapping import file

    if map_file is not None:
        return file.load(map_file), {}
    try:
        options = MapOptions(effort="fast", weight_bits=weight_bits, progress=progress)
        return map_retimed(retimed, chip, options), {}
    except DoesNotFit as error:
        return None, {"mapped": f"does not fit ({error.problems[0]})"}
