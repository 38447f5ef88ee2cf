"""The canonical neuron: the frozen record that every NIR neuron is lowered to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from nirbridge._values import ReportedValue
from nirbridge.arrays import Array, compact
from nirbridge.errors import Diagnostic, ModelError, quoted

Reset = Literal["to-value", "subtract", "none"]
Compare = Literal[">", ">="]


@dataclass(frozen=True, slots=True, eq=False)
class Adaptation:
    """A threshold that each spike raises by ``jump``, and that returns by ``decay`` (0 to 1) per time step.

    Arrays of shape ``()`` or the population's, in units of v; ``decay`` in a chip's integers: the parts of 4096 kept.
    ``in_reset``: a spike also subtracts b, so that it subtracts the threshold as it is ('subtract' alone).
    """

    decay: Array
    jump: Array
    init: Array
    in_reset: bool = False

    @classmethod
    def of(cls, decay: object, jump: object, init: object = 0.0, *, in_reset: bool = False) -> Adaptation:
        """From real numbers; arrays are compacted and frozen."""
        return cls(*(compact(np.asarray(x, np.float64)) for x in (decay, jump, init)), in_reset=in_reset)

    def reach(self, most_spikes: int, one: int = 1) -> tuple[Array, Array]:
        """The least and the greatest b of any time step, for any spikes; infinite where nothing decays.

        With ``high = max(init, 0, jump * most / (1 - decay))`` a time step leads from b <= high to no more than that.
        """
        push, gone = self.jump * float(most_spikes * one), one - self.decay
        still = np.where(push == 0, 0.0, np.copysign(np.inf, push))
        limit = np.where(gone > 0, push / np.where(gone > 0, gone, 1), still)
        return np.minimum(np.minimum(self.init, limit), 0.0), np.maximum(np.maximum(self.init, limit), 0.0)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Neuron(ReportedValue):
    """The neuron record of one population, in discrete time (one step = dt).

    With ``x[t]`` the summed input of all projections (their constant biases included)::

        i[t] = a_syn * i[t-1] + g_syn * x[t]
        u[t] = a_mem * v[t-1] + g_mem * i[t] + bias
        k[t] = 1 if u[t] > theta else 0            ('>=' where compare says so;
                                                    floor(u/theta), at most max_spikes, where max_spikes > 1)
        v[t] = v_reset where k > 0                 (reset 'to-value')
             = u[t] - k * reset_amount             (reset 'subtract')
             = u[t]                                (reset 'none')
        v[t] = max(v[t], v_min)                   (where there is a floor)

    where there is an ``Adaptation``, theta is ``theta + b[t]`` above, reset_amount ``reset_amount + b[t]`` (in_reset)::

        b[t+1] = decay * b[t] + jump * k[t]       (b[0] = init)

    and for ``refractory_steps`` time steps after a spike v stays at v_reset and input is ignored. The floor comes last,
    after a reset, as ``min_v_mem`` of Sinabs does (measured in ``tests/importers/frameworks/test_sinabs_floor.py``).
    Source: the project's semantics text, sections 1 and 2.

    Every array has shape ``()`` (one value for all) or the population's shape; floats are float64, counts int64.
    ``theta`` is None for a readout (LI, CubaLI, I), which never fires. ``v_min`` is None where the membrane has no
    floor, as that of every readout. ``kind`` is the NIR class it came from.

    Example:
        >>> neuron = nb.load("model.nir").populations[0].neuron
        >>> neuron.kind, neuron.reset
        ('LIF', 'to-value')
    """

    kind: str
    a_mem: Array
    g_mem: Array
    bias: Array
    theta: Array | None
    a_syn: Array
    g_syn: Array
    v_reset: Array
    reset: Reset
    reset_amount: Array
    compare: Compare
    max_spikes: int
    refractory_steps: Array
    v_init: Array
    i_init: Array
    v_min: Array | None = None
    adaptation: Adaptation | None = None

    @property
    def fires(self) -> bool:
        """False for a readout."""
        return self.theta is not None

    @property
    def has_synapse(self) -> bool:
        """True if the neuron has a synaptic current of its own."""
        return self.kind in ("CubaLIF", "CubaLI")


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional field of the neuron: what it is, what other tools do with a NIR file that has it, and a way out.

    ``short``: in tables. ``of_v``: it changes v alone, so nothing where a neuron forgets v in every time step.
    ``faults``: what is wrong with it in a neuron: pairs of what was found, and what is allowed.
    """

    noun: str
    short: str
    portability: str
    hint: str
    of_v: bool = False
    faults: Callable[[Neuron], Iterable[tuple[str, str]]] = lambda n: ()


def _adaptation_faults(n: Neuron) -> Iterable[tuple[str, str]]:
    """Adaptations without a meaning, or without bounds."""
    a = n.adaptation
    assert a is not None
    if bool(np.any((a.decay < 0) | (a.decay > 1))):
        yield "an adaptation whose decay leaves 0 to 1", "it keeps a share of b"
    if a.in_reset and n.reset != "subtract":
        yield f"an adaptation in reset {n.reset!r}", "b is subtracted with reset 'subtract' alone"
    if n.max_spikes > 1 and bool(np.any(a.jump < 0) or np.any(a.init < 0)):
        yield "an adaptation that lowers the threshold", "several spikes per time step need a threshold above 0"


EXTRAS: dict[str, Extra] = {
    "v_min": Extra(
        "a membrane floor",
        "floor",
        "plain NIR has none; Sinabs loses its min_v_mem in a NIR file",
        "train without one (Sinabs: min_v_mem = None)",
        of_v=True,
    ),
    "adaptation": Extra(
        "an adaptive threshold",
        "adaptation",
        "plain NIR has none, and every other tool ignores it",
        "train with a fixed threshold (LIF in place of ALIF or LSNN)",
        faults=_adaptation_faults,
    ),
}
"""The optional fields of a neuron that fires, None where it has none; files leave them out then. A chip file's table
``[neuron]`` has a key of the same name."""
USUAL = ("v_min",)
"""Those that every kernel, target and dialect knows, or refuses itself."""
ALL = tuple(EXTRAS)


def extras_of(n: Any) -> dict[str, Any]:
    """The optional fields that a neuron record has."""
    return {name: getattr(n, name) for name in EXTRAS if getattr(n, name, None) is not None}


def first_state(n: Any) -> dict[str, Array]:
    """The state of a neuron record before its first time step by name: v, its current i or u, b, time steps left."""
    found = {name: getattr(n, f"{name}_init") for name in ("v", "i", "u") if hasattr(n, f"{name}_init")}
    found |= {} if getattr(n, "adaptation", None) is None else {"b": n.adaptation.init}
    return found | {"refractory": np.zeros((), np.int64)}


def beyond_kernels(n: Any) -> bool:
    """True for neurons with optional fields that compiled kernels do not know: plain code steps them."""
    return not extras_of(n).keys() <= set(USUAL)


def check_extras(populations: Iterable[Any], carried: Collection[str], what: str, hint: str = "") -> None:
    """Raises ModelError for every population with an optional field that is not carried by ``what``."""
    lost = [(p, EXTRAS[name]) for p in populations for name in extras_of(p.neuron) if name not in carried]
    limit = f"{what} has none"
    ModelError.raise_all(Diagnostic(f"population {quoted(p.name)}", x.noun, limit, hint or x.hint) for p, x in lost)


def is_extra(name: str) -> bool:
    """True for the name of an optional field, or of a part of one."""
    return name.partition(".")[0] in EXTRAS


def extra_arrays(n: Any) -> dict[str, Array]:
    """The arrays of the optional fields that a neuron record has, by name as of ``flat_fields``."""
    return {name: values for name, values in arrays_of(n).items() if is_extra(name)}


def extra_label(name: str) -> str:
    """One of ``extra_arrays`` in a table."""
    field, _, part = name.partition(".")
    return f"{EXTRAS[field].short} {part}".rstrip()


def flat_fields(record: Any) -> dict[str, Any]:
    """The fields of a record by name; those of a record in it as ``field.name``."""
    found: dict[str, Any] = {}
    for f in fields(record):
        value = getattr(record, f.name)
        inner = {f"{f.name}.{name}": each for name, each in flat_fields(value).items()} if is_dataclass(value) else None
        found |= {f.name: value} if inner is None else inner
    return found


def arrays_of(record: Any) -> dict[str, Array]:
    """The arrays of a neuron record by name, as of ``flat_fields``."""
    return {name: value for name, value in flat_fields(record).items() if isinstance(value, np.ndarray)}


Record = TypeVar("Record")


def with_arrays(record: Record, change: Callable[[Array], Array]) -> Record:
    """A neuron record with other arrays in place of its own, those of records in it included."""
    made: dict[str, Any] = {}
    for f in fields(record):  # pyright: ignore[reportArgumentType]
        value = getattr(record, f.name)
        if isinstance(value, np.ndarray):
            made[f.name] = change(value)
        elif is_dataclass(value):
            made[f.name] = with_arrays(value, change)
    return replace(record, **made)  # pyright: ignore[reportArgumentType]


def floored(n: Any, v: Any) -> Any:
    """V where the membrane of a neuron record has no floor, else no less than this."""
    return v if n.v_min is None else np.maximum(v, n.v_min)


def neuron(
    kind: str,
    *,
    a_mem: object = 1.0,
    g_mem: object = 1.0,
    bias: object = 0.0,
    theta: object | None = 1.0,
    a_syn: object = 0.0,
    g_syn: object = 1.0,
    v_reset: object = 0.0,
    reset: Reset = "to-value",
    reset_amount: object | None = None,
    compare: Compare = ">",
    max_spikes: int = 1,
    refractory_steps: object = 0,
    v_init: object = 0.0,
    i_init: object = 0.0,
    v_min: object | None = None,
    adaptation: Adaptation | None = None,
) -> Neuron:
    """A ``Neuron`` with defaults (an integrate-and-fire neuron); arrays are compacted and frozen.

    ``reset_amount`` defaults to ``theta``.
    """

    def real(value: object) -> Array:
        return compact(np.asarray(value, dtype=np.float64))

    amount = next(value for value in (reset_amount, theta, 0.0) if value is not None)
    return Neuron(
        kind=kind,
        a_mem=real(a_mem),
        g_mem=real(g_mem),
        bias=real(bias),
        theta=None if theta is None else real(theta),
        a_syn=real(a_syn),
        g_syn=real(g_syn),
        v_reset=real(v_reset),
        reset=reset,
        reset_amount=real(amount),
        compare=compare,
        max_spikes=int(max_spikes),
        refractory_steps=compact(np.asarray(refractory_steps, dtype=np.int64)),
        v_init=real(v_init),
        i_init=real(i_init),
        v_min=None if v_min is None else real(v_min),
        adaptation=adaptation,
    )
