"""Surrogate derivatives of a spike by name, for the modules that learn: their expressions, slopes, and thresholds."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Literal

from nirbridge.errors import UsageError
from nirbridge.program.terms import Term

Name = Literal["fast-sigmoid", "atan", "sigmoid"]
SurrogateField = Annotated[Name, "Derivative of a spike, for training"]
SlopeField = Annotated[float | None, "Slope of that derivative, by default 25, and 2 for atan"]
DEFAULT: Name = "fast-sigmoid"


@dataclass(frozen=True, slots=True)
class Surrogate:
    """The derivative of a spike by the distance of the potential from the thresholds.

    ``of``: the function that it is the derivative of. ``formula``: in words, with ``slope`` and the distance ``d``.
    ``code``: that times ``grad``, as Python over the array library ``{xp}``, with ``{slope}`` and ``distance``.
    """

    of: str
    formula: str
    code: str
    slope: float

    @property
    def sentence(self) -> str:
        """Follows "the gradient of a spike is"."""
        return f"the derivative of {self.of}, {self.formula}, d the distance to the thresholds"


SURROGATES: dict[Name, Surrogate] = {
    "fast-sigmoid": Surrogate("a fast sigmoid", "1 / (1 + slope d)^2", "grad / (1 + {slope} * distance) ** 2", 25.0),
    "atan": Surrogate(
        "an arc tangent",
        "slope / 2 / (1 + (pi / 2 slope d)^2)",
        "grad * {slope} / 2 / (1 + ({xp}.pi / 2 * {slope} * distance) ** 2)",
        2.0,
    ),
    "sigmoid": Surrogate(
        "a sigmoid", "slope / (2 + 2 cosh(slope d))", "grad * {slope} / (2 + 2 * {xp}.cosh({slope} * distance))", 25.0
    ),
}
"""As snnTorch has them, with its defaults: ``fast_sigmoid``, ``atan`` (whose slope is its ``alpha``), ``sigmoid``."""


def slope_of(surrogate: Name, slope: float | None, emitter: str) -> float:
    """The slope, or that of the surrogate.

    Raises:
        UsageError: a slope that is no positive number.
    """
    if slope is None:
        return SURROGATES[surrogate].slope
    is_number = isinstance(slope, Real) and not isinstance(slope, bool)
    if not is_number or not 0 < slope <= sys.float_info.max:
        subject, found = f"options of emitter '{emitter}'", f"slope {slope!r:.30}"
        raise UsageError.of(subject, found, "a slope is a finite number above 0", "--slope 25")
    return float(slope)


def threshold_of(sent: Term) -> tuple[Term, ...]:
    """``u``, ``theta`` and a further condition of a spike, for its gradient; none where nothing is compared."""
    conditions = [sent.args[0]] if sent.op == "where" else []
    while conditions and conditions[0].op == "and":
        conditions[:1] = conditions[0].args
    if not conditions or conditions[0].op not in ("gt", "ge"):
        return ()
    free = conditions[1] if len(conditions) > 1 else Term("const", "bool", (), True)
    for other in conditions[2:]:
        free = free & other
    return (*conditions[0].args, free)
