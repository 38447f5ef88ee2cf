"""A network through the stages of the dialect; xDSL is imported where a stage needs it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nirbridge.dialect.passes.forms import Forms, apply_forms, choose_forms
from nirbridge.dialect.placement import placements_of
from nirbridge.errors import ToolMissing, UsageError, did_you_mean, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork

if TYPE_CHECKING:
    from nirbridge.dialect.lowering.program import LoweredProgram
    from nirbridge.dialect.module import DialectModule
    from nirbridge.dialect.passes.estimate import Compiler


def dialect_module(
    model: Network | QuantizedNetwork,
    *,
    dtype: str = "float32",
    records: Sequence[tuple[str, str]] = (),
    mapping: MappedNetwork | None = None,
) -> DialectModule:
    """The module of a network in ``dtype``, or of a quantized network in a chip's integers.

    Args:
        model: a network, or a quantized one.
        dtype: ``float32`` or ``float64``; of no effect on a quantized network.
        records: variables of nodes that become further results: ``("population", "v")``.
        mapping: a map of the model's populations, kept as their placement; None: there is none.

    Raises:
        ToolMissing: xDSL is not installed.
        ModelError: a network that ``check_network`` refuses, or a map of other populations.
        UsageError: no variable of that name.
    """
    need_xdsl()
    from nirbridge.dialect.build import network_module, quantized_module

    placement = None if mapping is None else placements_of(mapping)
    if isinstance(model, QuantizedNetwork):
        return quantized_module(model, records, placement)
    return network_module(model, dtype, records, placement)


def model_on_cores(mapping: MappedNetwork, *, in_integers: bool) -> Network | QuantizedNetwork:
    """The network of a map, with its copies, relays and delays, or the integers that its cores hold.

    Raises:
        IllegalMapping: integers of a map that is only a placement.
        ModelError: integers of a network that the chip cannot compute.
    """
    return integers_of(mapping) if in_integers else mapping.network


def linalg_program(
    model: Network | QuantizedNetwork,
    *,
    dtype: str = "float32",
    records: Sequence[tuple[str, str]] = (),
    batch: int | None = None,
    steps: int | None = None,
    activity: Mapping[str, float] | None = None,
    compiler: Compiler = "iree",
    forms: Forms | None = None,
) -> LoweredProgram:
    """The program of a network in linalg, scf, arith and tensor.

    Args:
        model: see ``dialect_module``.
        dtype: see ``dialect_module``.
        records: see ``dialect_module``.
        batch: number of samples that the program takes; None: any.
        steps: number of time steps that it takes; None: any.
        activity: see ``choose_forms``.
        compiler: see ``choose_forms``.
        forms: forms to use instead of those that ``choose_forms`` finds.

    Raises:
        ToolMissing: xDSL is not installed.
        ModelError: a network that ``check_network`` refuses.
    """
    module = dialect_module(model, dtype=dtype, records=records)
    from nirbridge.dialect.lowering.program import lowered

    if forms is None:
        forms = choose_forms(module, batch=batch, steps=steps, activity=activity, compiler=compiler)
    return lowered(apply_forms(module, forms), batch=batch, steps=steps)


STAGES = ("dialect", "forms", "linalg")
"""Stages in order: the network as it is, in the chosen forms, and as loops over tensors."""
CORES = "cores"
"""The stage of a map instead of ``linalg``: one function for each core, in the integers that it holds."""
SNN_MLIR = "snn-mlir"
"""The stage of another dialect, made from the network itself: one time step of one sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Lowering:
    """A network after each stage, as MLIR text.

    ``definition`` is the dialect for ``mlir-opt --irdl-file``, which the stages before ``linalg`` need; ``program``
    describes arguments and results of the functions of ``linalg``, None where that was not reached. The stage
    ``snn-mlir`` is alone, and has no ``definition``, and so is ``cores``.

    Example:
        >>> lowering = nb.lower("model.nir")
        >>> list(lowering.stages)
        ['dialect', 'forms', 'linalg']
        >>> [(t.node, t.shape) for t in lowering.program.inputs]
        [('input', (64,))]
    """

    stages: Mapping[str, str]
    definition: str
    program: LoweredProgram | None

    @property
    def text(self) -> str:
        """The module after the last stage."""
        return tuple(self.stages.values())[-1]

    def document(self) -> dict[str, Any]:
        """The stages, and the arguments and results of ``linalg``, as plain values."""
        tensors: dict[str, Any] = {}
        for kind in ("inputs", "states", "outputs") if self.program is not None else ():
            listed = getattr(self.program, kind)
            tensors[kind] = [
                {"node": t.node, "variable": t.variable, "shape": list(t.shape), "dtype": t.dtype} for t in listed
            ]
        return {"stages": dict(self.stages), "irdl": self.definition, **tensors}


def lower_model(
    model: Network | QuantizedNetwork,
    until: str = STAGES[-1],
    *,
    dtype: str = "float32",
    batch: int | None = None,
    steps: int | None = None,
    records: Sequence[tuple[str, str]] = (),
    activity: Mapping[str, float] | None = None,
    compiler: Compiler = "iree",
    mapping: MappedNetwork | None = None,
) -> Lowering:
    """A network through the stages of the dialect.

    Args:
        model: see ``dialect_module``.
        until: the last stage, one of ``STAGES``; or ``cores``, of integers and their map; or ``snn-mlir``.
        dtype: see ``dialect_module``.
        batch: see ``linalg_program``.
        steps: see ``linalg_program``.
        records: see ``dialect_module``.
        activity: see ``choose_forms``.
        compiler: see ``choose_forms``.
        mapping: see ``dialect_module``; ``model_on_cores`` gives the model of a map.

    Raises:
        ToolMissing: xDSL is not installed.
        UsageError: no stage or variable of that name, an activity that is none, or settings that ``snn-mlir`` does not
            have; ``cores`` without a map or integers.
        ModelError: a network that ``check_network`` refuses or that snn-mlir does not hold, or a map of other
            populations.
    """
    names = (*STAGES, CORES, SNN_MLIR)
    if until not in names:
        hint = did_you_mean(until, names) or "choose one of them"
        raise UsageError.of("lower, until", f"no stage {quoted(until)}", f"stages: {', '.join(names)}", hint)
    settings = {"records": records or None, "activity": activity}
    if until == SNN_MLIR:
        return _interchanged(model, dtype, settings | {"batch": batch, "steps": steps, "mapping": mapping})
    if until == CORES:
        _refuse(settings, "cores have forms of their own, and outputs alone")
        return _by_core(model, mapping, batch, steps)
    _check_activity(model, activity or {})
    module = dialect_module(model, dtype=dtype, records=records, mapping=mapping)
    from nirbridge.dialect.definition import irdl_text
    from nirbridge.dialect.lowering.program import lowered

    program, texts = None, {"dialect": module.text()}
    if until != "dialect":
        module = apply_forms(
            module, choose_forms(module, batch=batch, steps=steps, activity=activity, compiler=compiler)
        )
        texts["forms"] = module.text()
    if until == "linalg":
        program = lowered(module, batch=batch, steps=steps)
        texts["linalg"] = program.text
    return Lowering(MappingProxyType(texts), irdl_text(), program)


def _refuse(settings: Mapping[str, object], limit: str) -> None:
    for name in (name for name, value in settings.items() if value is not None):
        raise UsageError.of(f"lower, {name}", "does not apply here", limit, "leave it out")


def _by_core(
    model: Network | QuantizedNetwork, mapping: MappedNetwork | None, batch: int | None, steps: int | None
) -> Lowering:
    """The stage of a map."""
    if mapping is None or not isinstance(model, QuantizedNetwork):
        found = "no map" if mapping is None else "a network in real numbers"
        raise UsageError.of(f"lower, stage {quoted(CORES)}", found, "it is of a map in integers", "give one by --map")
    need_xdsl()
    from nirbridge.dialect.lowering.cores import cores_program

    program = cores_program(model, mapping, batch=batch, steps=steps)
    return Lowering(MappingProxyType({CORES: program.text}), "", program)


def _interchanged(model: Network | QuantizedNetwork, dtype: str, settings: Mapping[str, object]) -> Lowering:
    """The stage of snn-mlir, for which no setting but the number format counts."""
    from nirbridge.dialect.snn_mlir.write import snn_mlir_text

    _refuse(settings, f"a module of {SNN_MLIR} is one time step of one sample")
    if isinstance(model, QuantizedNetwork):
        limit = f"{SNN_MLIR} has integers of its own (8 bits, potentials of 12 bits after the point)"
        raise UsageError.of("lower, chip", "does not apply here", limit, "leave it out")
    return Lowering(MappingProxyType({SNN_MLIR: snn_mlir_text(model, dtype)}), "", None)


def _check_activity(model: Network | QuantizedNetwork, activity: Mapping[str, float]) -> None:
    names = [p.name for p in (*model.inputs, *model.populations)]
    for name, share in activity.items():
        if name not in names:
            hint = did_you_mean(name, names) or "leave it out"
            raise UsageError.of("lower, activity", f"no input or population {quoted(name)}", "", hint)
        if not 0 <= share <= 1:
            raise UsageError.of(f"lower, activity of {quoted(name)}", f"it is {share}", "a share, 0 to 1", "correct it")


def save_module(text: str, path: str | Path) -> None:
    """Writes a module or the dialect's definition as a file of UTF-8 text. Raises FileError."""
    atomic_write_bytes(Path(path), text.encode("utf-8"), subject=f"module {quoted(path)}")


# -- needed --------------------------------------------------------------------------------------------------------
# The optional package that the dialect is made of.


def need_xdsl() -> None:
    """Raises ToolMissing where xDSL, the extra ``mlir``, is not installed."""
    if importlib.util.find_spec("xdsl") is None:
        raise ToolMissing.of("dialect", "the package xdsl is not installed", "", "install nirbridge[mlir]")
