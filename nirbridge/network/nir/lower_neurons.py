"""Lowering of a NIR neuron to the canonical neuron record.

With k the share of the distance to rest covered per time step: euler ``k = dt/tau``, zoh and exponential
``k = 1 - exp(-dt/tau)``; the decay is ``a = 1 - k``. The input gain is ``k * r`` (euler, zoh) or ``dt/tau * r``
(exponential), the constant drive ``k * v_leak``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, all_finite, compact, stored_part
from nirbridge.errors import ModelError, quoted
from nirbridge.network.neurons import Adaptation, Compare, Neuron, Reset, neuron
from nirbridge.network.nir.fields import NEURONS, kind_of, label
from nirbridge.network.nir.timing import PREFIX, Metadata, ResolvedTiming, read_choice

_LONGEST_KIND = 40
_STORED = ("reset_amount", "v_init", "i_init", "v_min")
CONSISTENT = 1e-6
"""Stored exact coefficients count as long as they agree with the plain parameters to this relative error."""
TAU_IS_DT = float(np.finfo(np.float32).eps)
"""A tau this close to dt (relative error) is dt, and the decay is 0 and not -2.5e-8.

A float32 tau differs from the number that was meant by half of this (one rounding, 2^-24), and by all of it where it
was computed in float32 from a dt that is float32 itself (two roundings, 2^-23).
"""


def uniform_value(value: Any) -> Array:
    """A parameter as float64, one value of shape ``()`` where all are equal (a broadcast view costs nothing)."""
    array = np.asarray(value)
    core = stored_part(array)
    if core.size == 1 or (core.size and bool(np.all(core == core.flat[0]))):
        return np.asarray(core.flat[0], dtype=np.float64)
    return np.asarray(array, dtype=np.float64)


def decay_coefficients(tau: Array, dt: float, integrator: str) -> tuple[Array, Array, Array]:
    """(a, k, gain): decay, share of the way to rest, and gain of a unit input at r = 1, per step of ``dt``."""
    ratio = np.asarray(dt / tau)
    if integrator == "euler":
        ratio = np.asarray(np.where(np.abs(1.0 - ratio) <= TAU_IS_DT, 1.0, ratio))
        return np.asarray(1.0 - ratio), ratio, ratio
    k = np.asarray(-np.expm1(-ratio))
    return np.asarray(np.exp(-ratio)), k, (k if integrator == "zoh" else ratio)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def lower_neuron(
    name: str, node: Any, shape: Shape, metadata: Metadata, timing: ResolvedTiming
) -> tuple[Neuron, tuple[str, ...]]:
    """The canonical record of the neuron ``node`` called ``name``, and the notes on it.

    Raises:
        ModelError: metadata of a wrong shape or value, or parameters so extreme that a coefficient is not finite.
    """
    subject = label(name, node)
    integrator = timing.choice("integrator", metadata, subject)
    per_step = timing.choice("if_gain", metadata, subject) == "per-step"
    plain = plain_coefficients(node, timing.dt, integrator, per_step=per_step, unit_gain=timing.unit_gain)
    _check_finite(plain, subject)
    notes = list(_warnings(name, node, plain, timing, integrator, per_step=per_step))
    values = dict(plain)
    for key in EXACT:
        stored = _stored_array(metadata, key, shape, subject)
        if stored is None or key not in plain:
            continue
        beyond_plain = key == "v_reset" and "v_reset" not in NEURONS[kind_of(node)]
        if beyond_plain or _agrees(key, stored, plain[key]):
            values[key] = stored
        else:
            notes.append(f"{subject}: metadata {PREFIX}{key} differs from the plain parameters, which are used")
    return _record(node, values, shape, metadata, timing, subject), tuple(notes)


def _check_finite(plain: Mapping[str, Array], subject: str) -> None:
    for key, value in plain.items():
        if not all_finite(value):
            found = f"its parameters make {key} infinite at this dt"
            raise ModelError.of(
                subject, found, "coefficients are finite", "correct tau, r or w_in, or give another --dt"
            )


EXACT = ("a_mem", "g_mem", "bias", "theta", "a_syn", "g_syn", "v_reset")
"""Coefficients that the plain parameters give, perhaps a rounding off."""


def plain_coefficients(
    node: Any, dt: float, integrator: str, *, per_step: bool, unit_gain: bool = False
) -> Mapping[str, Array]:
    """The coefficients that plain NIR parameters alone give; no ``theta`` for a readout."""
    kind = kind_of(node)
    out: dict[str, Array] = {"a_syn": np.asarray(0.0), "g_syn": np.asarray(1.0), "bias": np.asarray(0.0)}
    p = {field: uniform_value(getattr(node, field)) for field in NEURONS[kind] if getattr(node, field) is not None}
    if kind == "Threshold":
        zero, one = np.asarray(0.0), np.asarray(1.0)
        return {**out, "a_mem": zero, "g_mem": one, "theta": p["threshold"], "v_reset": zero}
    if kind in ("IF", "I"):
        gain = p["r"] if per_step else np.asarray(1.0) if unit_gain else np.asarray(p["r"] * dt)
        out |= {"a_mem": np.asarray(1.0), "g_mem": gain}
    else:
        a, k, gain = decay_coefficients(p["tau" if "tau" in p else "tau_mem"], dt, integrator)
        out |= {"a_mem": a, "g_mem": gain * p["r"], "bias": k * p["v_leak"]}
    if "tau_syn" in p:
        a, _, gain = decay_coefficients(p["tau_syn"], dt, integrator)
        out |= {"a_syn": a, "g_syn": gain * p["w_in"]}
    if "v_threshold" in p:
        out["theta"] = p["v_threshold"]
    out["v_reset"] = p.get("v_reset", np.asarray(0.0))
    return out


def _record(
    node: Any, values: Mapping[str, Array], shape: Shape, metadata: Metadata, timing: ResolvedTiming, subject: str
) -> Neuron:
    kind = kind_of(node)
    fires, stateful = "theta" in values, kind in ("IF", "LIF", "CubaLIF")
    stored_kind = metadata.get(PREFIX + "kind")
    # a node without state, or that never fires, resets and compares only if its own metadata says so
    reset = timing.choice("reset", metadata, subject) if stateful else read_choice(metadata, "reset", subject) or "none"
    compare = timing.choice("compare", metadata, subject) if fires else read_choice(metadata, "compare", subject) or ">"
    stored = {key: _stored_array(metadata, key, shape, subject) for key in _STORED}
    stored_adaptation = _adaptation(metadata, shape, subject)
    default = {"reset_amount": values["theta"] if stateful else np.asarray(0.0)}
    return neuron(
        kind if stored_kind is None else _stored_kind(stored_kind, subject),
        theta=values.get("theta"),
        reset=cast(Reset, reset),
        compare=cast(Compare, compare),
        max_spikes=int(_stored_counts(metadata, "max_spikes", (), 1, subject)),
        refractory_steps=_stored_counts(metadata, "refractory_steps", shape, 0, subject),
        **{key: values[key] for key in ("a_mem", "g_mem", "bias", "a_syn", "g_syn", "v_reset")},
        adaptation=stored_adaptation,
        **default | {key: value for key, value in stored.items() if value is not None},
    )


def _adaptation(metadata: Metadata, shape: Shape, subject: str) -> Adaptation | None:
    names, head = ("decay", "jump", "init", "in_reset"), f"{PREFIX}adaptation."
    unknown = [key for key in metadata if key.startswith(head) and key.removeprefix(head) not in names]
    if unknown:
        limit = f"an adaptation has {', '.join(names)}"
        raise ModelError.of(subject, f"metadata {quoted(unknown[0])}", limit, "correct the metadata")
    shapes = dict.fromkeys(names[:3], shape) | {"in_reset": ()}
    found = {name: _stored_array(metadata, f"adaptation.{name}", shapes[name], subject) for name in names}
    given = {name: values for name, values in found.items() if values is not None}
    if not given:
        return None
    if missing := [name for name in names if name not in given]:
        raise ModelError.of(subject, f"metadata without {PREFIX}adaptation.{missing[0]}", "", "correct the metadata")
    return Adaptation(*(compact(given[name]) for name in names[:3]), in_reset=bool(given["in_reset"]))


def _stored_kind(value: Any, subject: str) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if not text.isidentifier() or len(text) > _LONGEST_KIND:
        found = f"metadata {PREFIX}kind is {quoted(text)}"
        raise ModelError.of(subject, found, f"a name of at most {_LONGEST_KIND} letters", "correct the metadata")
    return text


def _stored_array(metadata: Metadata, key: str, shape: Shape, subject: str) -> Array | None:
    """Stored finite numbers, one for all or one per neuron, as float64."""
    value = metadata.get(PREFIX + key)
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "iufb" or not bool(np.all(np.isfinite(array))):
        raise ModelError.of(subject, f"metadata {PREFIX}{key} does not hold finite numbers", "", "correct the metadata")
    if array.size != 1 and array.shape != shape:
        limit = f"the node has {shape}"
        raise ModelError.of(subject, f"metadata {PREFIX}{key} has shape {array.shape}", limit, "correct the metadata")
    return uniform_value(array)


def _stored_counts(metadata: Metadata, key: str, shape: Shape, least: int, subject: str) -> Array:
    """Stored whole numbers of at least ``least``, which stands where none are stored."""
    counts = _stored_array(metadata, key, shape, subject)
    if counts is None:
        return np.asarray(least, dtype=np.int64)
    wrong = counts[(counts < least) | (counts != np.floor(counts)) | (counts > 2**31 - 1)]
    if wrong.size:
        limit = f"whole numbers from {least} to {2**31 - 1:,}"
        raise ModelError.of(subject, f"metadata {PREFIX}{key} is {wrong[0]:g}", limit, "correct the metadata")
    return counts.astype(np.int64)


def _agrees(key: str, stored: Array, plain: Array) -> bool:
    if key in ("a_mem", "a_syn"):  # near 1 the distance from 1 is what counts
        stored, plain = 1.0 - stored, 1.0 - plain
    tolerance = CONSISTENT * np.abs(plain) + 1e-15
    return bool(np.all(np.abs(stored - plain) <= tolerance))


def _warnings(
    name: str, node: Any, plain: Mapping[str, Array], timing: ResolvedTiming, integrator: str, *, per_step: bool
) -> Iterator[str]:
    subject = label(name, node)
    for key, tau in (("a_mem", "tau" if hasattr(node, "tau") else "tau_mem"), ("a_syn", "tau_syn")):
        if integrator == "euler" and hasattr(node, tau) and bool(np.any(plain[key] < 0)):
            shortest = float(np.min(np.asarray(getattr(node, tau))))
            yield (
                f"{subject}: {tau} = {shortest:g} s is below dt = {timing.dt:g} s, its Euler decay is negative; "
                "give a smaller --dt, or --integrator zoh"
            )
    if kind_of(node) == "IF" and not per_step and not timing.unit_gain:
        small = np.abs(plain["g_mem"]) < 1e-3 * np.abs(plain["theta"])
        if bool(np.any(small)):
            yield (
                f"{subject}: r * dt = {float(np.min(np.abs(plain['g_mem']))):g} is below a thousandth of the "
                "threshold; if the file means 'add the input each step', give --if-gain per-step"
            )
