"""Known faults of other frameworks' exporters, as findings in a graph.

Nothing is changed here; ``repair_graph`` does that, on request and by name. The facts were measured with
snntorch 1.0.0, norse 1.1.0, sinabs 3.1.3, spikingjelly 2.0.0, rockpool 3.1.0, nir 1.0.8 and nirtorch 2.6
(``tests/importers/nirfile/test_exporter_faults.py`` runs the exporters). All write neither dt nor reset nor
comparison; a fault that leaves no trace in the graph (a lost v_reset, a lost recurrence) is not found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.importers.neuron_specs import as_float64
from nirbridge.network.naming import folded
from nirbridge.network.nir.fields import NEURONS, WEIGHTED, kind_of, label
from nirbridge.network.nir.flatten import flatten_graph
from nirbridge.network.nir.timing import PREFIX

Sure = Literal["certain", "likely", "possible"]
TAUS = ("tau", "tau_mem", "tau_syn")
NORSE_BELOW = 1e-4
"""Norse writes tau times its dt (1e-3 by default): 1e-5 for 10 ms. Real time constants are longer than this."""
SNNTORCH_DT = 1e-4
_CLOSE = 1e-5


ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "batch-axis": "repair it with --repair batch-axis",
        "zero-dimensional": "repair it with --repair zero-dimensional",
        "missing-edge": "it cannot be repaired: import the model itself (nirbridge import)",
        "norse": "repair it with --repair norse",
        "snntorch": "repair it with --repair snntorch-subtract (snnTorch's default), snntorch-zero, "
        "snntorch-zero-early or snntorch-none, as the model was trained, or spikingjelly where that wrote it",
        "sinabs": "repair it with --repair sinabs (defaults of its layers), or sinabs-unnormalized where norm_input is "
        "False, sinabs-normalized where it is True; import a model with tau_syn or min_v_mem itself (nirbridge import)",
        "rockpool": "repair it with --repair rockpool; import a model with biases or recurrent weights itself "
        "(nirbridge import)",
        "spikingjelly": "repair it with --repair spikingjelly",
    }
)
"""Advice for each finding, by its name."""
_TOOLS: Mapping[str, str] = MappingProxyType(
    {
        "norse": "Norse",
        "rockpool": "Rockpool",
        "sinabs": "Sinabs",
        "snntorch": "snnTorch or spikingjelly",
        "spikingjelly": "spikingjelly",
    }
)
"""Findings that tell which tool wrote the file."""
SHAPES_ONLY = ("batch-axis", "zero-dimensional")
"""Findings about shapes: each is settled by the repair of its own name, all others but a lost edge by a framework's."""


@dataclass(frozen=True, slots=True)
class ExporterFinding:
    """One thing that an exporter got wrong or left out.

    ``repair``: the name that ``repair`` takes for it (the first of several, see ``ADVICE``), None where nothing in the
    graph tells what is right.
    """

    name: str
    node: str
    what: str
    sure: Sure
    repair: str | None

    def __str__(self) -> str:
        return f"{self.what} ({self.sure}); {ADVICE[self.name]}"


def fault_sentences(findings: Iterable[ExporterFinding]) -> tuple[str, ...]:
    """One line for each kind of finding: the nodes that it was found in, what it is, and a hint."""
    kinds: dict[tuple[str, str], list[ExporterFinding]] = {}
    for finding in findings:
        kinds.setdefault((finding.name, finding.sure), []).append(finding)
    return tuple(
        f"{'; '.join(folded(f.what for f in alike))} ({sure}); {ADVICE[name]}" for (name, sure), alike in kinds.items()
    )


def exporter_of(metadata: Mapping[str, Any], findings: Iterable[ExporterFinding]) -> tuple[str, Sure] | None:
    """The tool that wrote a graph, from its metadata and its findings; None where neither tells."""
    if PREFIX + "dt" in metadata:
        source = metadata.get(PREFIX + "source")
        return "nirbridge" + (f", from {source}" if isinstance(source, str) else ""), "certain"
    first = next((f for f in findings if f.name in _TOOLS), None)
    if first is None:
        return None
    either = " or Norse" if first.name == "sinabs" and first.sure == "possible" else ""
    return _TOOLS[first.name] + either, first.sure


def unsettled_findings(findings: Iterable[ExporterFinding], repairs: Collection[str]) -> tuple[ExporterFinding, ...]:
    """The findings that ``repairs`` leave open; the repair of any framework settles those about frameworks."""
    framework = any(name not in SHAPES_ONLY for name in repairs)
    return tuple(
        f
        for f in findings
        if f.name == "missing-edge" or (f.name not in repairs if f.name in SHAPES_ONLY else not framework)
    )


def diagnose_exporter(graph: Any) -> tuple[ExporterFinding, ...]:
    """Known faults of a graph, node by node; empty for a graph that nirbridge wrote.

    Args:
        graph: a ``nir.NIRGraph``, as read from a file or returned by an exporter; not changed.
    """
    if PREFIX + "dt" in (graph.metadata or {}):
        return ()
    nodes = dict(walk_nodes(graph))
    neurons = {name: node for name, node in nodes.items() if kind_of(node) in NEURONS}
    findings = (*_batch_axes(graph), *_scalars(neurons), *_loose_ends(graph))
    return (*findings, *_norse(neurons), *_sinabs(neurons), *_rockpool(neurons), *_unit_input(neurons))


def walk_nodes(graph: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(full name, node) of every node but the subgraphs themselves."""
    for name, node in graph.nodes.items():
        if kind_of(node) == "NIRGraph":
            yield from walk_nodes(node, f"{prefix}{name}.")
        else:
            yield prefix + name, node


def node_value(node: Any, field: str) -> Array:
    """A parameter as float64; an exporter may have left a torch tensor there."""
    return as_float64(getattr(node, field))


def taus(node: Any) -> list[Array]:
    """The time constants of a neuron."""
    return [node_value(node, field) for field in TAUS if getattr(node, field, None) is not None]


def port_shape(node: Any) -> tuple[int, ...]:
    """The shape of an Input or Output."""
    return tuple(int(n) for n in np.asarray(next(iter(node.input_type.values()))).reshape(-1))


# --- what every exporter does --------------------------------------------------------------------------------------


def leading_ones(graph: Any) -> Mapping[str, int]:
    """Axes of size 1 that ports of the top graph have more than their neighbours: a batch or time axis counted in."""
    extra: dict[str, int] = {}
    for source, target in graph.edges:
        for name, other in ((source, target), (target, source)):
            node = graph.nodes.get(name)
            if kind_of(node) not in ("Input", "Output") or other not in graph.nodes:
                continue
            shape, axes = port_shape(node), _axes(graph, other)
            if axes and len(shape) > axes and set(shape[: len(shape) - axes]) == {1}:
                extra[name] = len(shape) - axes
    return {name: extra[name] for name in graph.nodes if name in extra}


def batch_problems(graph: Any) -> list[Diagnostic]:
    """What to say of a graph whose shapes do not fit, where an axis of a batch may be the reason."""
    ports = ", ".join(quoted(name) for name in [*leading_ones(graph)][:3])
    step = "--repair batch-axis (in Python repairs=['batch-axis']) takes it off"
    found = "have an axis of size 1 more than their neighbours"
    return [Diagnostic(f"ports {ports}", found, "", step)] if ports else []


def _axes(graph: Any, name: str) -> int:
    """Number of axes of a node's input and output, from the node or the first before it that tells; 0 if none does."""
    before = {b: a for a, b in reversed(graph.edges)}
    for _ in range(len(graph.nodes)):
        if name not in graph.nodes:
            return 0
        axes = _own_axes(graph.nodes[name])
        if axes or kind_of(graph.nodes[name]) not in NEURONS:
            return axes
        name = before.get(name, "")
    return 0


def _own_axes(node: Any) -> int:
    kind = kind_of(node)
    if kind in WEIGHTED:
        return len(np.shape(node.weight)) - 1
    if kind in ("SumPool2d", "AvgPool2d"):
        return 3
    if kind in NEURONS:
        return max(len(np.shape(getattr(node, field))) for field in NEURONS[kind])
    return 0


def _batch_axes(graph: Any) -> Iterator[ExporterFinding]:
    for name, count in leading_ones(graph).items():
        axes = "1 axis" if count == 1 else f"{count} axes"
        text = f"{label(name, graph.nodes[name])}: its shape counts {axes} of a batch or of time"
        yield ExporterFinding("batch-axis", name, text, "certain", "batch-axis")


def _scalars(neurons: Mapping[str, Any]) -> Iterator[ExporterFinding]:
    for name, node in neurons.items():
        fields = [f for f in NEURONS[kind_of(node)] if getattr(node, f) is not None and np.ndim(getattr(node, f)) == 0]
        if fields:
            faulty = f"{', '.join(fields)} without an axis: nir cannot write it, other tools refuse it"
            text = f"{label(name, node)}: {faulty}"
            yield ExporterFinding("zero-dimensional", name, text, "certain", "zero-dimensional")


def _loose_ends(graph: Any) -> Iterator[ExporterFinding]:
    try:
        flat = flatten_graph(graph)
    except ModelError:
        return  # an unreadable graph is an error elsewhere
    sources, targets = {a for a, _ in flat.edges}, {b for _, b in flat.edges}
    for name, node in flat.nodes.items():
        kind = kind_of(node)
        ways = (("in", name in targets or kind == "Input"), ("out", name in sources or kind == "Output"))
        for way in (way for way, is_there in ways if not is_there):
            text = f"{label(name, node)}: no edge leads {way}: the exporter may have lost it (residuals, branches)"
            yield ExporterFinding("missing-edge", name, text, "likely", None)


# --- what one exporter does ----------------------------------------------------------------------------------------


def _norse(neurons: Mapping[str, Any]) -> Iterator[ExporterFinding]:
    timed = {name: node for name, node in neurons.items() if taus(node)}
    short = bool(timed) and all(bool(np.all(tau < NORSE_BELOW)) for node in timed.values() for tau in taus(node))
    if not short or not all(_equals(node, "r", 1.0) and _equals(node, "w_in", 1.0) for node in timed.values()):
        return
    longest = max(float(tau.max()) for node in timed.values() for tau in taus(node))
    for name, node in timed.items():
        text = f"{label(name, node)}: tau up to {longest:g} s with r = 1: Norse writes tau multiplied by its dt"
        lost = ", and loses that an input spike adds 1 to the current" if hasattr(node, "w_in") else ""
        yield ExporterFinding("norse", name, text + lost, "likely", "norse")


def _sinabs(neurons: Mapping[str, Any]) -> Iterator[ExporterFinding]:
    timed = [node for node in neurons.values() if taus(node)]
    steps = all(bool(np.all(tau >= 1)) for node in timed for tau in taus(node))
    gains = all(_equals(node, "r", 1.0) for node in neurons.values() if hasattr(node, "r"))
    if not neurons or not steps or not gains:
        return
    who = ": Sinabs counts tau in steps" if timed else ", as Sinabs (soft reset) and Norse (reset to 0) write it"
    lost = "Sinabs' soft reset, several spikes per time step, norm_input, tau_syn and min_v_mem are not in the file"
    for name, node in neurons.items():
        text = f"{label(name, node)}: r = 1{who}; {lost}"
        yield ExporterFinding("sinabs", name, text, "likely" if timed else "possible", "sinabs")


def rockpool_dt(node: Any) -> float | None:
    """The dt for which ``r = tau exp(-dt/tau) / dt``, as rockpool writes, if it is one short decimal number."""
    field = "tau_mem" if hasattr(node, "tau_mem") else "tau"
    if getattr(node, field, None) is None or getattr(node, "r", None) is None:
        return None
    tau, gain = node_value(node, field), node_value(node, "r")
    if bool(np.any(gain <= 0)) or bool(np.any(tau <= 0)):
        return None
    ratio = np.log1p(1 / gain)
    for _ in range(50):  # Newton for ratio * exp(ratio) = 1 / gain
        ratio = ratio - (ratio - np.exp(-ratio) / gain) / (1 + ratio)
    dt = float(f"{float(np.median(ratio * tau)):.1e}")
    return dt if bool(np.all(np.abs(ratio * tau - dt) <= _CLOSE * 10 * dt)) else None


def _rockpool(neurons: Mapping[str, Any]) -> Iterator[ExporterFinding]:
    timed = {name: node for name, node in neurons.items() if taus(node)}
    dt: float | None = None
    for node in timed.values():
        node_dt = rockpool_dt(node)
        if node_dt is None or node_dt != (dt or node_dt):
            return
        dt = node_dt
    if dt is None:
        return
    for name, node in timed.items():
        text = f"{label(name, node)}: r = tau exp(-dt/tau) / dt with dt = {dt:g} s: Rockpool's gain"
        lost = "; its bias, its recurrent weights, soft reset and several spikes per time step are not in the file"
        yield ExporterFinding("rockpool", name, text + lost, "likely", "rockpool")


def _unit_input(neurons: Mapping[str, Any]) -> Iterator[ExporterFinding]:
    """Exporters that write dt = 1e-4 and gains that make an input add 1: snnTorch, and some nodes of spikingjelly."""
    counts = {name for name, node in neurons.items() if kind_of(node) == "IF" and _equals(node, "r", 1 / SNNTORCH_DT)}
    for name, node in neurons.items():
        unit = kind_of(node) in ("LIF", "CubaLIF") and adds_one(node)
        if name in counts or (unit and (counts or not _at_rest(node))):  # snnTorch writes no IF, and resets to 0
            gain = "r = 1e4" if name in counts else "r = tau / 1e-4 s"
            text = f"{label(name, node)}: {gain}: spikingjelly, which fires at v >= threshold and starts at v_reset"
            yield ExporterFinding("spikingjelly", name, text, "likely" if counts else "possible", "spikingjelly")
        elif unit:
            lost = "the reset is not in the file and is read as a reset to v_reset in the time step of the spike"
            text = f"{label(name, node)}: r = tau / 1e-4 s, as snnTorch and spikingjelly write it: {lost}"
            yield ExporterFinding("snntorch", name, text, "possible", "snntorch-subtract")


def adds_one(node: Any) -> bool:
    """True if an input of 1 adds 1 to the membrane (via the current, if there is one) at dt = 1e-4 s."""
    pairs = [("r", "tau")] if kind_of(node) == "LIF" else [("r", "tau_mem"), ("w_in", "tau_syn")]
    gains = [node_value(node, gain) * SNNTORCH_DT / node_value(node, tau) for gain, tau in pairs]
    return all(bool(np.all(np.abs(gain - 1) <= _CLOSE)) for gain in gains)


def _at_rest(node: Any) -> bool:
    levels = [field for field in ("v_leak", "v_reset") if getattr(node, field, None) is not None]
    return not any(bool(np.any(node_value(node, field))) for field in levels)


def _equals(node: Any, field: str, target: float) -> bool:
    """True where the node has no such field."""
    parameter = getattr(node, field, None)
    return parameter is None or bool(np.all(np.abs(node_value(node, field) - target) <= _CLOSE * target))
