"""Reference, fixed-point model, mapped model and emitted program on the same input."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nirbridge import plugins as registry
from nirbridge._types import Progress, no_progress
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, UsageError, quoted
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.network.model import Network
from nirbridge.passes import RetimedNetwork
from nirbridge.pipeline.emit import check_takes, emitter_options, model_to_emit, takes_integers
from nirbridge.pipeline.fit import retime
from nirbridge.pipeline.map import map_retimed
from nirbridge.pipeline.options import MapOptions
from nirbridge.pipeline.quantize import CalibrationPlan, quantize_with_data
from nirbridge.pipeline.saved_files import load_runnable, mapped_network
from nirbridge.quantization import QuantizationOptions, QuantizedNetwork
from nirbridge.verification.program import Program
from nirbridge.verification.verify import Verification, draw_inputs, input_arrays, verify

VERIFY_STEPS = 100
"""Steps of random spikes where ``verify_network`` gets no input."""


def verify_network(
    network: Network,
    chip: Chip,
    inputs: Any = None,
    *,
    target: str | None = None,
    dtype: str | None = None,
    steps: int | None = None,
    labels: Any = None,
    input_said: str = "as given",
    map_file: str | Path | None = None,
    weight_bits: int | None = None,
    quantization: tuple[QuantizationOptions, Any, CalibrationPlan] | None = None,
    per_core: bool = False,
    keep_early_spikes: bool = False,
    seed: int = 0,
    prove: bool = False,
    progress: Progress = no_progress,
) -> Verification:
    """Reference, integers, map and (with ``target``) an emitted program on the same input, compared.

    Args:
        network: what to verify.
        chip: whose integers and cores.
        inputs: by name or one alone; None: random ones, said in the result.
        target: the emitter whose program is run; None: no program.
        dtype: the numbers of its program, real ones but for ``integers``; None: the chip's, or all that it takes.
        steps: of the reference; default: as many as the inputs have.
        labels: the right class of each sample, for accuracy.
        input_said: where the inputs are from, in words.
        map_file: a saved map of this model; None: it is mapped here, and where it does not fit that is said and the map
            is left out.
        weight_bits: of all weights, where ``quantization`` does not say.
        quantization: options, data and plan of ``quantize_plan``: bits by layer, graded inputs, calibration.
        per_core: the program has one process for each core and population of the map.
        keep_early_spikes: as of ``passes.Retime``; also where the saved map keeps them. The reference then is
            another network, which the result says and counts.
        seed: of random inputs.
        prove: decide, too, whether the program's neurons are their rule for every input.
        progress: called with a stage and the share that is done.

    Raises:
        ModelError: what the chip or the tool cannot do, or a program that failed.
        UsageError: inputs or options that make no sense; no emitter of that name, nothing runs its programs, or its
            tool is not installed.
        IllegalMapping: the saved map is not of this network.
        DoesNotFit: no widths within the requested memory, or ``per_core`` without a map that fits.
    """
    saved = None if map_file is None else load_runnable(map_file)
    early = keep_early_spikes or bool(saved and saved.early_spikes)
    retimed = retime(network, chip, splits=dict(saved.splits) if saved else None, keep_early_spikes=early)
    options, data, plan = quantization or (QuantizationOptions(weight_bits, progress=progress), None, CalibrationPlan())
    if saved is not None and options.weight_bits is None:
        options = replace(options, weight_bits=saved.weight_bits)
    quantized = quantize_with_data(retimed, chip, options, data, plan)
    count = steps or (None if inputs is not None else VERIFY_STEPS)
    if inputs is None:
        inputs, input_said = draw_inputs(network, count or VERIFY_STEPS, seed, graded=options.graded)
    arrays, count = input_arrays(network, inputs, count)
    mapping, left_out = (saved, {}) if saved else map_to_verify(retimed, chip, quantized, progress, needed=per_core)
    return verify(
        retimed.reference,
        quantized,
        arrays,
        steps=count,
        mapping=mapping,
        program=_program(
            target, dtype, network, retimed, chip, quantized, mapping, per_core=per_core, prove=prove, progress=progress
        ),
        labels=labels,
        input_said=input_said,
        left_out=left_out,
        progress=progress,
    )


def _program(
    target: str | None,
    dtype: str | None,
    network: Network,
    retimed: RetimedNetwork,
    chip: Chip,
    quantized: QuantizedNetwork,
    mapping: Any,
    *,
    per_core: bool,
    prove: bool,
    progress: Progress,
) -> Program | None:
    """The program of an emitter: of the integers, or of the network in a real ``dtype`` or all that it takes."""
    if target is None:
        return None
    emitter = registry.get("emitters", target)
    if not emitter.records:
        limit = "nothing runs its programs, so there is nothing to compare"
        raise UsageError.of(f"emitter {quoted(target)}", "records nothing", limit, "verify another target")
    check_takes(target, emitter, {}, {"--per-core": per_core})
    proof = getattr(emitter, "prove", None)
    if prove and proof is None:
        limit = f"programs that can be proved: {', '.join(provable())}"
        raise UsageError.of(f"emitter {quoted(target)}", "given with --prove", limit, "leave it out")
    model: Model = retimed.reference
    options = emitter_options(target, dtype=dtype)
    equals = "reference" if getattr(emitter, "exact_reals", False) else None
    if takes_integers(emitter) and dtype in (None, "integers"):
        equals = "fixed"
        placed = partial(_placed, network, retimed, chip, quantized, mapping, progress)
        model = model_to_emit(target, emitter, quantized, placed, per_core=per_core)
    artifact = emitter.emit(model, options)
    more = {"prove": partial(proof, artifact)} if prove and proof else {}
    run = partial(emitter.run, artifact)
    return Program(target, run, emitter.records, equals, **more)


def provable() -> list[str]:
    """The emitters whose programs have proofs."""
    return [name for name in registry.names("emitters") if getattr(registry.get("emitters", name), "prove", None)]


def _placed(
    network: Network, retimed: RetimedNetwork, chip: Chip, quantized: QuantizedNetwork, mapping: Any, progress: Progress
) -> MappedNetwork:
    """The map that the mapped simulator runs. Raises DoesNotFit."""
    if isinstance(mapping, MapRecord):
        return mapped_network(mapping, network, chip)
    if mapping is None:
        return map_to_verify(retimed, chip, quantized, progress, needed=True)[0]
    return mapping


def map_to_verify(
    retimed: RetimedNetwork, chip: Chip, quantized: QuantizedNetwork, progress: Progress, *, needed: bool
) -> tuple[Any, dict[str, str]]:
    """A map, or the reason for its absence; every weight is counted with the widest format."""
    bits = max((p.weight_bits for p in quantized.projections), default=None)
    try:
        options = MapOptions(effort="fast", weight_bits=bits, progress=progress)
        return map_retimed(retimed, chip, options, quantized), {}
    except DoesNotFit as error:
        if needed:
            raise
        return None, {"mapped": f"does not fit ({error.problems[0]})"}
