"""A network through the stages of the dialect; xDSL is imported where a stage needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nirbridge.dialect.needed import need_xdsl
from nirbridge.dialect.passes.forms import Forms, apply_forms, choose_forms
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork

if TYPE_CHECKING:
    from nirbridge.dialect.lowering.program import LoweredProgram
    from nirbridge.dialect.module import DialectModule


def dialect_module(
    model: Network | QuantizedNetwork, *, dtype: str = "float32", records: Sequence[tuple[str, str]] = ()
) -> DialectModule:
    """The module of a network in ``dtype``, or of a quantized network in a chip's integers.

    Args:
        model: a network, or a quantized one.
        dtype: ``float32`` or ``float64``; of no effect on a quantized network.
        records: variables of nodes that become further results: ``("population", "v")``.

    Raises:
        ToolMissing: xDSL is not installed.
        ModelError: a network that ``check_network`` refuses.
    """
    need_xdsl()
    from nirbridge.dialect.build import network_module
    from nirbridge.dialect.build_fixed import quantized_module

    if isinstance(model, QuantizedNetwork):
        return quantized_module(model, records)
    return network_module(model, dtype, records)


def linalg_program(
    model: Network | QuantizedNetwork,
    *,
    dtype: str = "float32",
    records: Sequence[tuple[str, str]] = (),
    batch: int | None = None,
    steps: int | None = None,
    activity: Mapping[str, float] | None = None,
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
        forms: forms to use instead of those that ``choose_forms`` finds.

    Raises:
        ToolMissing: xDSL is not installed.
        ModelError: a network that ``check_network`` refuses.
    """
    module = dialect_module(model, dtype=dtype, records=records)
    from nirbridge.dialect.lowering.program import lowered

    chosen = choose_forms(module, batch=batch, activity=activity) if forms is None else forms
    return lowered(apply_forms(module, chosen), batch=batch, steps=steps)
