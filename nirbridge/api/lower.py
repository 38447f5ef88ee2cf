"""``nirbridge.lower``: a model through the stages of the MLIR dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from nirbridge import pipeline
from nirbridge.api.arguments import Count, checked
from nirbridge.api.models import ChipLike, network_of
from nirbridge.api.models import chip as find_chip
from nirbridge.dialect.lower import Lowering
from nirbridge.errors import UsageError
from nirbridge.quantization.model import QuantizedNetwork


@checked
def lower(
    model: object,
    until: str = "linalg",
    *,
    chip: ChipLike | None = None,
    sample: object = None,
    dtype: Literal["float32", "float64"] = "float32",
    batch: Count | None = None,
    steps: Count | None = None,
    records: Sequence[tuple[str, str]] = (),
    activity: Mapping[str, float] | None = None,
    compiler: Literal["iree", "loops"] = "iree",
) -> Lowering:
    """Lower a model to MLIR, to one function over time in linalg, scf, arith and tensor.

    Args:
        model: as ``load`` takes it, or a quantized network.
        until: the last stage: ``dialect``, ``forms`` or ``linalg``; or ``snn-mlir``, the dialect of that project.
        chip: by name, path or value: its integers are lowered; None: real numbers.
        sample: of a module, as ``load`` takes it.
        dtype: the real numbers of the module.
        batch: number of samples that the module takes; None: any.
        steps: number of time steps that it takes; None: any.
        records: variables that become further results, as ``("population", "v")``.
        activity: share of active elements per time step of a source, measured on data: products of a source that is
            mostly silent add a row of weights per active element, where the compiler is ``loops``.
        compiler: that forms are chosen for: ``iree``, or ``loops`` for those that make plain loops of linalg
            (``mlir-opt`` and LLVM).

    Raises:
        ToolMissing: xDSL (the extra ``mlir``) is not installed; snn-mlir does not need it.
        UsageError: no stage of that name, a chip for a network that is already quantized, or settings that snn-mlir
            does not have.
        ModelError: the chip, or snn-mlir, cannot hold the network.

    Example:
        >>> print(nb.lower("model.nir").text.splitlines()[1][:48])
          func.func @run(%in0: tensor<?x?x64xf32>, %stat
    """
    if isinstance(model, QuantizedNetwork):
        if chip is not None:
            limit = "its integers are fixed"
            raise UsageError.of("nirbridge.lower(), chip", "given with a quantized network", limit, "leave it out")
        known: object = model
    else:
        network = network_of(model, sample)
        known = network if chip is None else pipeline.quantize_network(network, find_chip(chip))
    settings = {"dtype": dtype, "batch": batch, "steps": steps, "records": tuple(records), "activity": activity}
    settings["compiler"] = compiler
    return pipeline.lower_model(known, until, **settings)  # type: ignore[arg-type]
