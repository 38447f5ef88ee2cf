"""Checks of a module before it is copied and run."""

from __future__ import annotations

import numbers
from typing import Any

from nirbridge.errors import Diagnostic, ModelError, UsageError, quoted, type_text

ROUNDED = "its float64 parameters are rounded to float32"


def check_module(module: Any, dt: Any = None) -> None:
    """Nothing, where ``module`` is one that can be run and read.

    Raises:
        UsageError: no torch module, or a ``dt`` that is no number (None: the importer's own).
        ModelError: TorchScript; parameters without values, or of a number format that rounds otherwise; every one.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise UsageError.of("module", type_text(module), "a torch.nn.Module is needed", "give the module")
    if dt is not None and not isinstance(dt, numbers.Real):
        raise UsageError.of("dt", type_text(dt), "seconds per time step, a number", "for example 1e-3")
    scripted = [name for name, inner in torch.nn.Module.named_modules(module) if _is_scripted(inner)]
    if scripted:
        outer = [name for name in scripted if not name.startswith(tuple(f"{other}." for other in scripted))]
        label = f"module{'s' * (len(outer) > 1)} {', '.join(map(quoted, outer))}" if outer != [""] else "module"
        raise ModelError.of(
            label, "TorchScript, whose code cannot be traced", "", "give the modules before compilation"
        )
    places: dict[tuple[str, str, str], list[str]] = {}
    for name, value in torch.nn.Module.named_parameters(module):
        reason = _unfit(value)
        if reason:
            places.setdefault(reason, []).append(quoted(name))
    ModelError.raise_all(Diagnostic(f"parameters {', '.join(names)}", *reason) for reason, names in places.items())


def _is_scripted(module: Any) -> bool:
    import torch

    return isinstance(module, torch.jit.ScriptModule)


def _unfit(value: Any) -> tuple[str, str, str] | None:
    """Reason why a parameter cannot be imported: found, limit, hint; None if it can."""
    import torch

    if torch.nn.parameter.is_lazy(value):
        return "they have no values yet (lazy layers)", "", "run the module once, or load its weights"
    if value.is_meta:
        return "they have no values (device 'meta')", "", "load the weights on the CPU"
    if value.is_floating_point() and value.dtype not in (torch.float32, torch.float64):
        limit = "networks compute in float32, which rounds differently"
        return f"their numbers are {value.dtype}", limit, "call module.float() and check its outputs again"
    return None


def has_float64(module: Any) -> bool:
    """True if a parameter is in float64."""
    import torch

    return any(value.dtype == torch.float64 for _, value in torch.nn.Module.named_parameters(module))
