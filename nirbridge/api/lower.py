"""``nirbridge.lower``: a model through the stages of the MLIR dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from nirbridge import pipeline
from nirbridge.api.arguments import Count, checked
from nirbridge.api.files import model_file
from nirbridge.api.models import ChipLike, FilePath, network_of
from nirbridge.api.models import chip as find_chip
from nirbridge.chips.model import Chip
from nirbridge.dialect.lower import Lowering
from nirbridge.errors import IllegalMapping, UsageError, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.equality import same_network
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
    mapping: MappedNetwork | FilePath | None = None,
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
        mapping: a map of the model, or its file, whose cores become the placement of the populations. The network of
            the map is lowered, with its copies, relays and delays; with ``chip``, that of the map, its integers.

    Raises:
        ToolMissing: xDSL (the extra ``mlir``) is not installed; snn-mlir does not need it.
        UsageError: no stage or variable of that name, a chip for a network that is already quantized or that is not the
            map's, or settings that snn-mlir does not have.
        FileError: a map that cannot be read.
        IllegalMapping: a map that breaks a limit or is of another model.
        ModelError: the chip, or snn-mlir, cannot hold the network.

    Example:
        >>> print(nb.lower("model.nir").text.splitlines()[1][:48])
          func.func @run(%in0: tensor<?x?x64xf32>, %stat
    """
    settings = {"dtype": dtype, "batch": batch, "steps": steps, "records": tuple(records), "activity": activity}
    settings["compiler"] = compiler
    if mapping is not None:
        return _on_cores(model, mapping, None if chip is None else find_chip(chip), sample, until, settings)
    if isinstance(model, QuantizedNetwork):
        if chip is not None:
            limit = "its integers are fixed"
            raise UsageError.of("nirbridge.lower(), chip", "given with a quantized network", limit, "leave it out")
        known: object = model
    else:
        network = network_of(model, sample)
        known = network if chip is None else pipeline.quantize_network(network, find_chip(chip))
    return pipeline.lower_model(known, until, **settings)  # type: ignore[arg-type]


def _on_cores(
    model: object,
    mapping: MappedNetwork | FilePath,
    chip: Chip | None,
    sample: object,
    until: str,
    settings: Mapping[str, Any],
) -> Lowering:
    if isinstance(model, QuantizedNetwork):
        limit = "the integers of a map are those of its cores"
        raise UsageError.of("nirbridge.lower(), mapping", "given with a quantized network", limit, "give the network")
    network = network_of(model, sample)
    if not isinstance(mapping, MappedNetwork):
        mapping = pipeline.load_mapped(Path(mapping), network, model_file(network, str(mapping)).sha256, chip)
    elif not same_network(network, mapping.model or mapping.network):
        raise IllegalMapping.of("nirbridge.lower(), mapping", "of another model", "", "map this model")
    elif chip is not None and chip.name != mapping.chip.name:
        found = f"{quoted(chip.name)}, and the map is of {quoted(mapping.chip.name)}"
        raise UsageError.of("nirbridge.lower(), chip", found, "", "give the chip of the map")
    placed = pipeline.model_on_cores(mapping, in_integers=chip is not None)
    return pipeline.lower_model(placed, until, mapping=mapping, **settings)
