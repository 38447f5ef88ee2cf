"""Spike rates given as a mapping, checked against the network like those of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge import pipeline
from nirbridge.api.arguments import kind_of
from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, UsageError, did_you_mean, quoted
from nirbridge.mapping.rates import assumed_rates
from nirbridge.network.model import Network

NAMES_SHOWN = 8


def rates_of(given: Any, network: Network) -> tuple[Mapping[str, Array], str] | None:
    """Rates as ``MapOptions.rates`` takes them, from the path of a file, a mapping, or a mapping and where it is from.

    Raises:
        UsageError: unknown names, other shapes, rates that are not finite or below 0, each of them.
        FileError: a file that cannot be read.
    """
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        return pipeline.load_rates(os.fspath(given), network)
    rates, origin = given if isinstance(given, tuple) else (given, "given by hand")
    UsageError.raise_all(_problems(rates, network))
    assumed, sentence = assumed_rates(network)
    given_rates = {name: freeze(np.asarray(value, np.float64)) for name, value in rates.items()}
    others = "" if set(assumed) <= set(given_rates) else f"; the others {sentence}"
    return MappingProxyType({**assumed, **given_rates}), f"{origin}{others}"


def _problems(rates: Mapping[str, Any], network: Network) -> Iterator[Diagnostic]:
    shapes = {p.name: p.shape for p in (*network.inputs, *network.populations)}
    for name, value in rates.items():
        subject = f"rate of {quoted(name)}"
        if name not in shapes:
            limit = f"there are {', '.join(map(quoted, list(shapes)[:NAMES_SHOWN]))}"
            hint = did_you_mean(name, shapes) or "name one of these"
            yield Diagnostic(subject, "no population or input of that name", limit, hint)
            continue
        fault = _fault(value, shapes[name])
        if fault:
            yield Diagnostic(subject, fault, "spikes per neuron and time step, from 0", "correct it")


def _fault(value: Any, shape: tuple[int, ...]) -> str:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return kind_of(value)
    if array.shape not in ((), shape):
        return f"an array of shape {array.shape}, its neurons have {shape}"
    return "" if np.all(np.isfinite(array)) and np.all(array >= 0) else "values that are not finite, or below 0"
