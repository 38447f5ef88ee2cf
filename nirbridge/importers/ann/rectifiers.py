"""Activations of a traced ANN as neurons: which ones a spike rate can stand for, and hints for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.ann.replay import UNBOUNDED
from nirbridge.importers.dataflow import DataflowGraph, Operation
from nirbridge.importers.frameworks import importer_hint, packages_of
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronSpec
from nirbridge.importers.tracing.advice import advice_on
from nirbridge.network.neurons import neuron

_POOL = "use AvgPool2d, or a convolution with a stride, and retrain"
_NORM = "use BatchNorm, which folds into weights, and retrain"
_ADVICE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "max_pool": ("the largest of several rates is not a sum of spikes", _POOL),
        "maxpool": ("the largest of several rates is not a sum of spikes", _POOL),
        "softmax": (
            "its outputs depend on all others",
            "leave it out of the module: the largest output stays the largest",
        ),
        "layer_norm": ("it normalizes by its own input", _NORM),
        "layernorm": ("it normalizes by its own input", _NORM),
        "group_norm": ("it normalizes by its own input", _NORM),
        "groupnorm": ("it normalizes by its own input", _NORM),
        "instance_norm": ("it normalizes by its own input", _NORM),
        "instancenorm": ("it normalizes by its own input", _NORM),
    }
)
"""Part of an operation's name -> (reason, hint)."""
_ACTIVATIONS = (
    *("sigmoid", "tanh", "gelu", "silu", "swish", "elu", "leaky", "prelu", "rrelu", "softplus", "softsign", "mish"),
    *("hardshrink", "softshrink", "threshold", "glu", "relu", "clamp", "hardtanh"),
)


@dataclass(frozen=True, slots=True)
class Rectifier:
    """Stands in for an activation ``min(max(x, 0), ceiling)``; its class is looked up, it is never run."""

    ceiling: float = UNBOUNDED


def _read(module: Rectifier, shape: tuple[int, ...], dt: float) -> ImportedNeuron:
    return ImportedNeuron(neuron("IF", theta=module.ceiling, reset="subtract"))


FORMS: Mapping[type, NeuronSpec] = MappingProxyType({Rectifier: NeuronSpec(_read)})


_WITHOUT_RATE = ("unknown", "pair", "pointwise")
"""Kinds of functions that no sum of spikes computes."""


def with_rectifiers(flow: DataflowGraph) -> tuple[DataflowGraph, tuple[Diagnostic, ...]]:
    """The flow with every ReLU and ReLU6 as a neuron, and every operation that prevents a conversion."""
    calls: list[Operation] = []
    problems: list[Diagnostic] = []
    for call in flow.calls:
        top = _ceiling(call)
        if top is not None:
            calls.append(replace(call, kind="neuron", target=Rectifier(top), arguments=MappingProxyType({})))
            continue
        calls.append(call)
        if call.kind in ("max_pool", "neuron", *_WITHOUT_RATE):
            problems.append(_problem(call))
    return replace(flow, calls=tuple(calls)), tuple(problems)


def _ceiling(call: Operation) -> float | None:
    """The largest value that a rectifier lets through, None for any other call."""
    if call.kind == "relu":
        return UNBOUNDED
    name = _operation(call)
    if call.kind in _WITHOUT_RATE and "relu6" in name:
        return 6.0
    low, high = getattr(call.target, "min_val", None), getattr(call.target, "max_val", None)
    if call.kind in _WITHOUT_RATE and "hardtanh" in name and low == 0 and high is not None and high > 0:
        return float(high)
    return None


def _operation(call: Operation) -> str:
    return str(call.arguments.get("function", type(call.target).__name__)).lower()


def _neuron_advice(part: object) -> tuple[str, str]:
    return "a spiking neuron is not an activation of an ANN", importer_hint(packages_of(part))


def _problem(call: Operation) -> Diagnostic:
    name = "max_pool" if call.kind == "max_pool" else _operation(call)
    limit, hint = _neuron_advice(call.target) if call.kind == "neuron" else _advice(name, call.arguments)
    shown = call.arguments.get("function", type(call.target).__name__ if call.kind == "max_pool" else name)
    return Diagnostic(
        call.subject, f"{quoted(shown)}", limit, hint, MappingProxyType({"module": call.path, "call": call.name})
    )


def _advice(name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    for part, advice in _ADVICE.items():
        if part in name:
            return advice
    if any(part in name for part in _ACTIVATIONS):
        return "a spike rate is at least 0 and proportional to its input up to a limit", "use ReLU or ReLU6 and retrain"
    general = advice_on(name)
    return str(arguments.get("reason") or general[0]), str(arguments.get("hint") or general[1])
