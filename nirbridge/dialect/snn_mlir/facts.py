"""What a module says beside its operations: the time step, and names of ports and populations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from nirbridge.dialect.snn_mlir.grammar import FACTS, unescaped
from nirbridge.dialect.snn_mlir.syntax import Module
from nirbridge.errors import Diagnostic, FileError, UsageError, quoted
from nirbridge.network.model import Network, Timing

DEFAULT_DT = 1e-4
_DEFAULT = Timing(DEFAULT_DT, "euler", "to-value", ">", "per-second")
_WORDS = {"integrator": ("euler", "zoh", "exponential"), "reset": ("to-value", "subtract", "none"),
          "compare": (">", ">="), "if_gain": ("per-second", "per-step")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Facts:
    """Names in the order of the module, and its timing; ``assumed`` where it states none."""

    timing: Timing
    populations: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


def facts_of(module: Module, subject: str) -> Facts:
    """The facts that nirbridge wrote, else defaults. Raises FileError for facts of another form."""
    stated = module.attributes.get(FACTS)
    if stated is None:
        return Facts(_DEFAULT, assumed=(f"dt = {DEFAULT_DT:g} s (the module states none)",))
    try:
        return _facts(stated)
    except (TypeError, ValueError, KeyError) as error:
        raise FileError.of(f"{subject}, attribute {FACTS}", quoted(error), "", "leave the attribute out") from None


def _facts(stated: Mapping[str, Any]) -> Facts:
    dt, names, words = stated["dt"], stated["names"], stated["timing"]
    if not isinstance(dt, float) or not (math.isfinite(dt) and dt > 0):
        raise ValueError("dt is no number of seconds above 0")
    choices = dict(zip((f.name for f in fields(Timing) if f.name != "dt"), words, strict=True))
    if any(word not in _WORDS[key] for key, word in choices.items()):
        raise ValueError("unknown words of timing")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) < 2:
        raise ValueError("names are no list of texts")
    read = tuple(unescaped(name) for name in names)
    return Facts(Timing(dt, **choices), read[1:-1], (read[0], read[-1]))


def with_timing(network: Network, timing: Timing | None, subject: str) -> Network:
    """The network with a requested time step, where the module states none; other requests have to agree with it."""
    asked = timing or Timing()
    own = network.timing
    if network.assumed and asked.dt is not None:
        own = replace(own, dt=asked.dt)
        network = replace(network, dt=asked.dt, timing=own, assumed=())
    UsageError.raise_all(
        Diagnostic(subject, f"{f.name} {getattr(asked, f.name)} is requested", f"it has {getattr(own, f.name)}",
                   "leave the option out")
        for f in fields(Timing)
        if getattr(asked, f.name) not in (None, getattr(own, f.name))
    )  # fmt: skip
    return network
