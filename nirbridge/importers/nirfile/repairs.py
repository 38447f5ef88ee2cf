"""Repairs of graphs that other frameworks' exporters wrote, by name, on request only (see ``faults``).

A repair restores the meaning that the exporter lost: plain parameters are corrected, the rest goes into
``nirbridge:*`` metadata. Parameters that are not in the file stay lost; import the module itself for those.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError, UsageError, did_you_mean, quoted
from nirbridge.importers.nirfile.faults import (
    SNNTORCH_DT,
    TAUS,
    adds_one,
    leading_ones,
    node_value,
    port_shape,
    rockpool_dt,
    walk_nodes,
)
from nirbridge.network.nir.fields import ELEMENTWISE, NEURONS, kind_of, label
from nirbridge.network.nir.shapes import infer_shapes
from nirbridge.network.nir.timing import PREFIX

NORSE_DT = 1e-3
MOST_SPIKES = 2**16
SHOWN = 8
"""Neurons that an error names."""

Settings = dict[str, Any]
Neurons = Sequence[tuple[str, Any]]


def repair_graph(graph: Any, names: Collection[str], *, dt: float | None = None) -> Any:
    """A copy of ``graph`` with the repairs ``names`` (those of ``diagnose``, or others of ``REPAIRS``) made.

    Args:
        graph: a ``nir.NIRGraph``; not changed.
        names: at most one framework among them. ``NAME=NODE,NODE`` repairs these neurons, where layers were made with
            other options than the rest of the model.
        dt: seconds per time step, if it is not the exporter's default (norse 1e-3, snntorch and spikingjelly 1e-4).

    Raises:
        UsageError: a name that is none, two frameworks at once, or a dt that is no positive number; neurons that are
            named twice or not at all.
        ModelError: a graph that the repair does not fit.
    """
    out = copy.deepcopy(graph)
    chosen = _chosen(names, dict(_neurons(out)), dt)
    for _, node in walk_nodes(out):
        _use_arrays(node)
    if "batch-axis" in names:
        drop_batch_axes(out)
    if "zero-dimensional" in names:
        _give_axes(out)
    neurons, of_graph = dict(_neurons(out)), Settings()
    for name, nodes in chosen.items():
        part = [(node, neurons[node]) for node in nodes]
        for key, setting in REPAIRS[name](out, part, dt).items():
            if of_graph.setdefault(PREFIX + key, setting) != setting:
                for _, node in part:
                    node.metadata = {PREFIX + key: setting, **(node.metadata or {})}
    out.metadata.update(of_graph)
    return out


def _chosen(names: Collection[str], neurons: Mapping[str, Any], dt: float | None) -> dict[str, list[str]]:
    """The neurons of each repair of a framework; the first one is that of the neurons that no other repair names."""
    problems = [p for name in names for p in _name_problems(*name.partition("="))]
    pairs = [name.partition("=") for name in dict.fromkeys(names)]
    of_all = [name for name in REPAIRS if (name, "", "") in pairs]
    chosen: dict[str, list[str]] = {}
    for name, equals, listed in pairs:
        if equals and name in REPAIRS:
            chosen.setdefault(name, []).extend(listed.split(","))
    frameworks = {name.partition("-")[0] for name in (*of_all, *chosen)}
    if len(frameworks) > 1 or len(of_all) > 1:
        found = f"more than one {'framework' if len(frameworks) > 1 else 'repair of all neurons'}: "
        limit = "one wrote the file" if len(frameworks) > 1 else "NAME=NODE,NODE repairs some of them otherwise"
        problems.append(Diagnostic("repairs", found + ", ".join((*of_all, *chosen)), limit, "choose one of them"))
    rest, more = _rest(chosen, neurons, is_repaired=bool(of_all))
    if dt is not None and not (math.isfinite(dt) and dt > 0):
        more.append(Diagnostic("repair option dt", f"{dt:g}", "a finite number of seconds above 0", "correct it"))
    UsageError.raise_all([*problems, *more])
    return {**dict.fromkeys(of_all, rest), **chosen}


def _name_problems(name: str, equals: str, listed: str) -> Iterator[Diagnostic]:
    known_names = ("batch-axis", "zero-dimensional", *REPAIRS)
    if name not in known_names:
        hint = did_you_mean(name, known_names) or "choose one"
        yield Diagnostic(f"repair {quoted(name)}", "unknown", "known repairs: " + ", ".join(known_names), hint)
    elif equals and name not in REPAIRS:
        yield Diagnostic(
            f"repair {quoted(name)}", "given with nodes", "it is made of all nodes", f"give --repair {name}"
        )


def _rest(
    chosen: Mapping[str, list[str]], neurons: Mapping[str, Any], *, is_repaired: bool
) -> tuple[list[str], list[Diagnostic]]:
    """Neurons that no repair names, and what is wrong with those that are named."""
    counts = Counter(node for nodes in chosen.values() for node in nodes)
    problems = [
        Diagnostic(f"repair of node {quoted(node)}", "no such neuron", _some(neurons), did_you_mean(node, neurons))
        for node in counts
        if node not in neurons
    ]
    twice = [node for node, count in counts.items() if count > 1]
    problems += [Diagnostic(f"repair of node {quoted(node)}", "given twice", "", "give one") for node in twice]
    rest = [node for node in neurons if node not in counts]
    if chosen and rest and not is_repaired:
        found = f"no repair of {quoted(rest[0])}" + (f" and of {len(rest) - 1} more" if rest[1:] else "")
        hint = "name them, or give the repair of the others without nodes"
        problems.append(Diagnostic("repairs", found, "one framework wrote all neurons", hint))
    return rest, problems


def _some(neurons: Mapping[str, Any]) -> str:
    shown = ", ".join(map(quoted, [*neurons][:SHOWN]))
    return f"its neurons: {shown}" + (f" and {len(neurons) - SHOWN} more" if len(neurons) > SHOWN else "")


def _use_arrays(node: Any) -> None:
    """Replace torch tensors that an exporter left by arrays: neurons in float64, weights in their own type."""
    for field in NEURONS.get(kind_of(node), ()):
        if getattr(node, field, None) is not None:
            setattr(node, field, np.array(node_value(node, field)))
    for field in ("weight", "bias"):
        tensor: Any = getattr(node, field, None)
        if hasattr(tensor, "detach"):
            setattr(node, field, tensor.detach().cpu().numpy().copy())


def drop_batch_axes(graph: Any) -> None:
    """Takes the axes of size 1 off the ports that have more axes than their neighbours, in place."""
    for name, count in leading_ones(graph).items():
        node, shape = graph.nodes[name], np.array(port_shape(graph.nodes[name])[count:])
        node.input_type = dict.fromkeys(node.input_type, shape)
        node.output_type = dict.fromkeys(node.output_type, shape.copy())


def _give_axes(graph: Any) -> None:
    shapes = infer_shapes(graph)
    for name, node in walk_nodes(graph):
        if kind_of(node) not in ELEMENTWISE:
            continue
        for field in ELEMENTWISE[kind_of(node)]:
            if getattr(node, field, None) is not None:
                full = np.broadcast_to(getattr(node, field), shapes[name].output_shape)
                setattr(node, field, np.array(full))
        node.input_type = {"input": np.array(shapes[name].input_shape)}
        node.output_type = {"output": np.array(shapes[name].output_shape)}


# --- one per framework: changes its neurons, gives the graph's metadata ----------------------------------------------


def _say(node: Any, **settings: Any) -> None:
    node.metadata = {**(node.metadata or {}), **{PREFIX + key: setting for key, setting in settings.items()}}


def _neurons(graph: Any) -> list[tuple[str, Any]]:
    return [(name, node) for name, node in walk_nodes(graph) if kind_of(node) in NEURONS]


def _norse(graph: Any, neurons: Neurons, dt: float | None) -> Settings:
    """The file's tau is dt times the module's; an input spike adds 1 to the current; v starts at v_leak."""
    step = dt or NORSE_DT
    for _, node in neurons:
        for field in TAUS:
            if hasattr(node, field):
                setattr(node, field, node_value(node, field) / step)
        if hasattr(node, "w_in"):
            node.w_in = node_value(node, "tau_syn") / step
        if hasattr(node, "v_leak"):
            _say(node, v_init=node_value(node, "v_leak"))
        if kind_of(node) in ("IF", "I"):
            _say(node, if_gain="per-step")
    return {"dt": step, "integrator": "euler", "reset": "to-value", "compare": ">"}


def _snntorch(graph: Any, neurons: Neurons, dt: float | None, *, reset: str, early: bool = False) -> Settings:
    """Which reset the neurons have; ``early``: they were made with reset_delay=False.

    A late subtraction of th is one of th / beta at once. A late reset to 0 takes one more time step, except for Leaky;
    of the early ones only RSynaptic stays late. Decays and gains are those that the module computes with.
    """
    step = dt or SNNTORCH_DT
    names = {name for name, _ in walk_nodes(graph)}
    problems: list[Diagnostic] = []
    for name, node in neurons:
        if kind_of(node) not in ("LIF", "CubaLIF"):
            continue
        current, loops = kind_of(node) == "CubaLIF", name.endswith(".lif") and f"{name[:-4]}.w_rec" in names
        beta = _decay(node, "tau_mem" if current else "tau", step)
        _say(node, a_mem=beta, **({"a_syn": _decay(node, "tau_syn", step)} if current else {}))
        _say(node, **_unit_gains(node, step))
        if reset == "subtract" and not bool(np.all(beta > 0)):
            found = f"its decay is {beta.min():g}, and its late subtraction stands for one of threshold / decay"
            hint = "give --dt where it is not 1e-4 s, or import the model itself"
            problems.append(Diagnostic(label(name, node), found, "the decay must be above 0", hint))
        elif reset == "subtract":
            _say(node, reset="subtract", reset_amount=node_value(node, "v_threshold") / beta)
        elif reset == "to-value" and (current and loops if early else current or loops):
            _say(node, refractory_steps=1)
    ModelError.raise_all(problems)
    return {"dt": step, "integrator": "euler", "reset": "none" if reset == "none" else "to-value", "compare": ">"}


def _decay(node: Any, field: str, dt: float) -> Array:
    """The float32 factor from which snnTorch computed tau, where there is one; else that of the plain file.

    It computes ``dt / (1 - beta)`` in float32 for Leaky and Synaptic, in float64 for RLeaky and RSynaptic.
    """
    tau = node_value(node, field)
    for number in (np.float64, np.float32):
        beta = (1 - number(dt) / tau).astype(np.float32)
        with np.errstate(divide="ignore"):
            again = number(dt) / (1 - beta.astype(number))
        if bool(np.all(again.astype(number) == tau.astype(number))):
            return beta.astype(np.float64)
    return np.asarray(1 - dt / tau)


def _unit_gains(node: Any, dt: float) -> Settings:
    """Gains that are 1 but for the rounding of tau / dt."""
    if dt != SNNTORCH_DT or not adds_one(node):
        return {}
    ones = np.ones(np.shape(node.r))
    return {"g_mem": ones, "g_syn": ones.copy()} if kind_of(node) == "CubaLIF" else {"g_mem": ones}


def _sinabs(graph: Any, neurons: Neurons, dt: float | None, *, normed: tuple[str, ...] = ("LIF",)) -> Settings:
    """Time steps of 1 s; soft, several spikes. ``normed``: the kinds of neurons whose layers have norm_input=True."""
    for _, node in neurons:
        kind = kind_of(node)
        if kind in ("IF", "LIF"):
            _say(node, max_spikes=MOST_SPIKES)
        if kind == "IF":
            _say(node, if_gain="per-step")
        if kind in ("LI", "LIF") and kind not in normed:  # zoh multiplies by 1 - exp(-1 / tau)
            node.r = 1 / -np.expm1(-1 / node_value(node, "tau"))
            _say(node, g_mem=np.ones(np.shape(node.r)))
    return {"dt": 1.0, "integrator": "zoh", "reset": "subtract", "compare": ">="}


def _rockpool(graph: Any, neurons: Neurons, dt: float | None) -> Settings:
    """The input adds exp(-dt/tau_syn) to the current, all of which the membrane gets; soft, several spikes."""
    steps = sorted({step for _, node in neurons if (step := dt or rockpool_dt(node)) is not None})
    if len(steps) != 1:
        found = f"{len(steps)} different dt in the gains" if steps else "its gains are not Rockpool's"
        raise ModelError.of("graph", found, "r = tau exp(-dt/tau) / dt with one dt", "give dt")
    for _, node in neurons:
        field = "tau_mem" if hasattr(node, "tau_mem") else "tau"
        if kind_of(node) == "LI":  # i = B (i + x)
            node.r = node_value(node, field) / steps[0] * np.exp(-steps[0] / node_value(node, field))
            continue
        node.r = node_value(node, field) / steps[0]
        if hasattr(node, "w_in"):
            tau = node_value(node, "tau_syn")
            node.w_in = tau / steps[0] * np.exp(-steps[0] / tau)
        _say(node, max_spikes=MOST_SPIKES)
    return {"dt": steps[0], "integrator": "exponential", "reset": "subtract", "compare": ">="}


def _spikingjelly(graph: Any, neurons: Neurons, dt: float | None) -> Settings:
    """Fires at the threshold too, and starts at v_reset."""
    for _, node in neurons:
        if getattr(node, "v_reset", None) is not None:
            _say(node, v_init=node_value(node, "v_reset"))
    return {"dt": dt or SNNTORCH_DT, "integrator": "euler", "reset": "to-value", "compare": ">="}


Repair = Callable[[Any, Neurons, float | None], Settings]
REPAIRS: MappingProxyType[str, Repair] = MappingProxyType(
    {
        "norse": _norse,
        "snntorch-subtract": partial(_snntorch, reset="subtract"),
        "snntorch-zero": partial(_snntorch, reset="to-value"),
        "snntorch-zero-early": partial(_snntorch, reset="to-value", early=True),
        "snntorch-none": partial(_snntorch, reset="none"),
        "sinabs": _sinabs,
        "sinabs-normalized": partial(_sinabs, normed=("LIF", "LI")),
        "sinabs-unnormalized": partial(_sinabs, normed=()),
        "rockpool": _rockpool,
        "spikingjelly": _spikingjelly,
    }
)
"""Repairs that say which framework, and which of its resets, wrote the file."""
