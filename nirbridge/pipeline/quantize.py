"""A network in the integers of a chip: quantized, saved, simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nirbridge._types import Progress, no_progress
from nirbridge.chips.model import Chip
from nirbridge.errors import UsageError
from nirbridge.network.model import Network
from nirbridge.pipeline.fit import retime
from nirbridge.pipeline.load import load_chip
from nirbridge.pipeline.map import map_retimed
from nirbridge.pipeline.map_files import load_runnable
from nirbridge.pipeline.options import MapOptions

if TYPE_CHECKING:
    from nirbridge.pipeline.calibrated import CalibrationPlan
    from nirbridge.quantization import QuantizationOptions as Quantization
    from nirbridge.quantization import QuantizedNetwork
    from nirbridge.simulators.simulate import Recording


def quantize_network(
    network: Network,
    chip: Chip,
    options: Quantization | None = None,
    data: Any = None,
    plan: CalibrationPlan | None = None,
    *,
    keep_early_spikes: bool = False,
) -> QuantizedNetwork:
    """Retimes a network for a chip and puts it into the chip's integers.

    ``data``: ``CalibrationData`` to calibrate and measure on, ``plan``: how; ``keep_early_spikes`` as of
    ``passes.Retime``.
    Raises ModelError (what the chip cannot do), DoesNotFit (no widths within the requested memory), UsageError.
    """
    from nirbridge.pipeline.calibrated import CalibrationPlan, quantize_with_data
    from nirbridge.quantization import QuantizationOptions

    retimed = retime(network, chip, keep_early_spikes=keep_early_spikes)
    return quantize_with_data(retimed, chip, options or QuantizationOptions(), data, plan or CalibrationPlan())


def quantize_plan(
    network: Network, options: Mapping[str, Any], arrays: Any, plan: Mapping[str, Any]
) -> tuple[Quantization, Any, CalibrationPlan]:
    """The arguments of ``quantize_network`` after the chip, from plain values (of a command). Raises UsageError."""
    from nirbridge.pipeline.calibrated import CalibrationPlan, calibration_data
    from nirbridge.quantization import QuantizationOptions

    data = None if arrays is None else calibration_data(network, arrays)
    return QuantizationOptions(**options), data, CalibrationPlan(**plan)


def save_quantized(quantized: QuantizedNetwork, path: str | Path) -> str:
    """Writes a ``.q.npz`` file and returns its digest. Raises FileError."""
    from nirbridge.quantization.storage.file import write_quantized

    return write_quantized(quantized, path)


def simulate_on_chip(
    network: Network,
    inputs: Any,
    *,
    backend: str,
    chip: str | Path | Chip | None,
    map_file: str | Path | None = None,
    steps: int | None = None,
    record: Sequence[Any] | None = None,
    keep_early_spikes: bool = False,
    threads: int = 1,
    drain: bool = False,
    progress: Progress = no_progress,
) -> Recording:
    """The integers of a chip ('fixed'), or those on the cores of a map ('mapped'; None: mapped here).

    ``threads``, ``drain``: as of ``simulate_fixed``; 'mapped' runs in one thread.

    Raises:
        UsageError: options that do not go together, or inputs that the network does not take.
        ModelError: what the chip cannot do.
        DoesNotFit, IllegalMapping: as of ``map_network`` and ``simulate_mapped``.
    """
    from nirbridge.quantization.options import QuantizationOptions
    from nirbridge.quantization.quantize import quantize
    from nirbridge.simulators.fixed.simulate import simulate_fixed
    from nirbridge.simulators.mapped.simulate import simulate_mapped
    from nirbridge.simulators.threads import refuse_threads

    if backend not in ("fixed", "mapped") or chip is None or (map_file is not None and backend != "mapped"):
        found = (
            f"--backend {backend}{'' if chip is None else ' with --chip'}{'' if map_file is None else ' with --map'}"
        )
        limit = "fixed and mapped take --chip, mapped also --map, other backends neither"
        raise UsageError.of("simulate", found, limit, "as in --backend mapped --chip loihi1")
    if backend == "mapped":
        refuse_threads(backend, threads)
    target = load_chip(chip) if isinstance(chip, str | Path) else chip
    saved = None if map_file is None else load_runnable(map_file)
    early = keep_early_spikes or bool(saved and saved.early_spikes)
    retimed = retime(network, target, splits=dict(saved.splits) if saved else None, keep_early_spikes=early)
    quantized = quantize(retimed, target, QuantizationOptions(weight_bits=None if saved is None else saved.weight_bits))
    shared: dict[str, Any] = {"steps": steps, "record": record, "drain": drain, "progress": progress}
    if backend == "fixed":
        return simulate_fixed(quantized, inputs, threads=threads, **shared).recording
    mapping = saved or map_retimed(retimed, target, MapOptions(effort="fast", progress=progress), quantized)
    return simulate_mapped(quantized, mapping, inputs, **shared)
