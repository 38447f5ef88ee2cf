"""One model computed in several ways: required equalities, and the distance of the integers from real numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge._values import ReportedValue, SavedValue
from nirbridge.arrays import Array
from nirbridge.comparison.compare import compare
from nirbridge.comparison.types import Comparison
from nirbridge.errors import quoted
from nirbridge.network.graph import grouped
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Key, Probe, Recording
from nirbridge.verification.bounds import LayerBound, layer_bounds
from nirbridge.verification.program import OTHER_WAYS, REALS, VARIABLES, Program

if TYPE_CHECKING:
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.mapping.storage.record import MapRecord

RATE = 0.1
"""Spikes per time step and element of random inputs, the default where no inputs are given."""
PROVED = "proved"
SUMS = 1e-12
"""Share of the largest value by which sums of the same reals may differ."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparedPair:
    """Two ways of computing, compared.

    ``required``: whether they have to be equal. ``variables``: those compared of each population.
    """

    a: str
    b: str
    required: bool
    comparison: Comparison
    variables: tuple[str, ...] = VARIABLES


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Verification(SavedValue, ReportedValue):
    """Result of ``nirbridge verify``.

    ``latency``: output -> hardware steps that it is late. ``recordings``: by way ('reference', 'fixed', 'mapped' and
    the target of the program), steps of the reference in hardware time. ``layers``: how far the integers of each
    population are from its real neurons on the same spikes, and how far they may be. ``left_out``: ways that were not
    run, and why.
    ``early_spikes``: where early spikes are kept, population -> spikes of the integers before its first step; 'retimed'
    then is the way of the real numbers with these spikes. ``proofs``: population -> 'proved', or why not, where the
    program's neurons were held against their rule for every input.
    """

    chip: str
    steps: int
    input_said: str
    latency: Mapping[str, int]
    pairs: tuple[ComparedPair, ...]
    layers: tuple[LayerBound, ...]
    recordings: Mapping[str, Recording]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    early_spikes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    proofs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def holds(self) -> bool:
        """True if equalities and proofs hold, and no population is further from the reference than its bound."""
        equal = all(p.comparison.equal for p in self.pairs if p.required)
        return equal and all(x.holds for x in self.layers) and all(x == PROVED for x in self.proofs.values())


def verify(
    reference: Network,
    quantized: QuantizedNetwork,
    inputs: Mapping[str, Array],
    *,
    steps: int,
    mapping: MappedNetwork | MapRecord | None = None,
    program: Program | None = None,
    labels: Any = None,
    input_said: str = "",
    left_out: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Run a model on every requested simulator and target, and compares them.

    Reference against fixed: spikes of populations and outputs, at their latency; they may differ, but every population
    has to stay within its bound (``verify_bound``). Fixed against mapped, and fixed against an emitted program: every
    ``s``, ``u`` and ``v`` of every population that is recorded, and every output, which have to be the same. Reference
    against a program in real numbers: spikes, and ``s`` and ``v`` where that has to equal the reference.

    Args:
        reference: the network before it was retimed.
        quantized: the same in integers.
        inputs: arrays by input name, ``[steps, *shape]`` or ``[steps, batch, *shape]``.
        steps: of the reference; the hardware runs longer by the largest latency, without input.
        mapping: the map that the mapped simulator runs; None: it is left out.
        program: the emitted program; None: it is left out.
        labels: the right class of each sample, for accuracy.
        input_said: in words where the input is from.
        left_out: other ways that are left out, and why.
        progress: called with a stage and the share that is done.

    Raises:
        UsageError: inputs that the network does not take; the tool of the program is not installed.
        IllegalMapping: the map lacks something.
        ModelError: the program failed; its log is in the message.
    """
    from nirbridge.simulators.fixed.simulate import simulate_fixed
    from nirbridge.simulators.mapped.simulate import simulate_mapped
    from nirbridge.simulators.simulate import simulate

    longest = steps + max(quantized.latency.values(), default=0)
    every = all_probes(quantized)
    spikes = [Probe("*", ("s",))]
    both = [Probe("*", REALS)]  # potentials for pictures, and for a program in float32
    runs = {"reference": simulate(reference, inputs, steps=steps, record=both, progress=progress).recording}
    if quantized.early and quantized.network is not None:
        runs["retimed"] = simulate(quantized.network, inputs, steps=longest, record=spikes).recording
    runs["fixed"] = simulate_fixed(quantized, inputs, steps=longest, record=every, progress=progress).recording
    if mapping is not None:
        runs["mapped"] = simulate_mapped(quantized, mapping, inputs, steps=longest, record=every, progress=progress)
    if program is not None:
        outputs, padded = {port.name for port in quantized.outputs}, _padded(inputs, longest)
        runs[program.way] = program.recording(every, outputs, padded, longest, progress or no_progress)
    return Verification(
        chip=quantized.chip,
        steps=steps,
        input_said=input_said,
        latency=MappingProxyType({port.name: quantized.latency[port.name] for port in quantized.outputs}),
        pairs=tuple(_pairs(runs, quantized, steps, labels, program)),
        layers=layer_bounds(quantized, inputs, runs["fixed"]),
        recordings=MappingProxyType(runs),
        left_out=MappingProxyType(dict(left_out or {})),
        notes=quantized.notes,
        early_spikes=early_spikes(quantized, runs["fixed"]),
        proofs=MappingProxyType({} if program is None else dict(program.prove(progress or no_progress))),
    )


def early_spikes(quantized: QuantizedNetwork, fixed: Recording) -> Mapping[str, int]:
    """Spikes of each population before its first step, where they are kept; none elsewhere."""
    firing = [p.name for p in quantized.populations if p.neuron.fires] if quantized.early else []
    counts = {name: int(fixed.arrays[name, "s"][: quantized.latency[name]].sum(dtype=np.int64)) for name in firing}
    return MappingProxyType({name: count for name, count in counts.items() if count or name in quantized.early})


def all_probes(quantized: QuantizedNetwork) -> list[Probe]:
    """Probes of all that the integers compute: spikes, currents and potentials, and the input of each output."""
    populations = [Probe(p.name, ("s", "u", "v") if p.neuron.fires else ("u", "v")) for p in quantized.populations]
    return [*populations, *(Probe(port.name, ("s",)) for port in quantized.outputs)]


def draw_inputs(
    network: Network,
    steps: int,
    seed: int,
    rate: float = RATE,
    graded: Mapping[str, tuple[float, int]] | None = None,
) -> tuple[dict[str, Array], str]:
    """Random input, the same for the same seed, and its description: spikes; values of either sign where graded."""
    rng, sizes = np.random.default_rng(seed), {name: size for name, (size, _) in (graded or {}).items()}
    arrays: dict[str, Array] = {}
    for port in network.inputs:
        shape = (steps, *port.shape)
        spikes = (rng.random(shape) < rate).astype(np.uint8)
        arrays[port.name] = spikes * rng.uniform(-1, 1, shape) * sizes[port.name] if port.name in sizes else spikes
    kind = "random spikes" if not sizes else "random spikes and graded values"
    return arrays, f"{kind}, {rate:g} per time step and element, seed {seed}"


def input_arrays(network: Network, inputs: Any, steps: int | None) -> tuple[dict[str, Array], int]:
    """Inputs by name, and how many time steps they have or were requested. Raises UsageError."""
    from nirbridge.simulators.inputs import open_inputs

    opened = open_inputs(network, inputs, steps, 0, "float32")
    return {name: np.asarray(values)[: opened.steps] for name, values in opened.values.items()}, opened.steps


def _padded(inputs: Mapping[str, Array], steps: int) -> dict[str, Array]:
    """Zero-padded or cut to the number of time steps."""
    arrays = {name: np.asarray(values)[:steps] for name, values in inputs.items()}
    silence = {name: np.zeros((steps - len(a), *a.shape[1:]), a.dtype) for name, a in arrays.items()}
    return {name: np.concatenate([array, silence[name]]) for name, array in arrays.items()}


def _pairs(
    runs: Mapping[str, Recording],
    quantized: QuantizedNetwork,
    steps: int,
    labels: Any,
    program: Program | None = None,
) -> Iterator[ComparedPair]:
    fixed, reference = runs["fixed"], runs["reference"]
    for name in (name for name in ("fixed", "retimed") if name in runs):
        compared = _in_reals(reference, runs[name], quantized.latency, steps, labels)
        yield ComparedPair("reference", name, False, compared)
    if "mapped" in runs:
        yield ComparedPair("fixed", "mapped", True, compare(fixed, _settled(fixed, runs["mapped"]), labels=labels))
    if program is None:
        return
    if program.equals != "fixed":
        variables = ("s",) if program.equals is None else REALS
        compared = _in_reals(reference, runs[program.way], {}, steps, labels, variables)
        yield ComparedPair("reference", program.way, program.equals is not None, compared, variables)
        return
    outputs = {port.name for port in quantized.outputs}
    keys = [key for key in fixed.arrays if key[0] in outputs or key[1] in program.records]
    recorded = _part(fixed, keys, fixed.arrays)
    compared = compare(recorded, _settled(recorded, runs[program.way]), labels=labels)
    yield ComparedPair("fixed", program.way, True, compared, program.records)


def _in_reals(
    reference: Recording,
    later: Recording,
    latency: Mapping[str, int],
    steps: int,
    labels: Any,
    variables: Sequence[str] = ("s",),
) -> Comparison:
    """Compares the reference with a later run, node by node at its latency, over the reference's time steps."""
    common = [key for key in reference.arrays if key in later.arrays and key[1] in variables]
    latencies = {node: latency.get(node, 0) for node, _ in common}
    cut = {key: later.arrays[key][: steps + latencies[key[0]]] for key in common}
    recorded = _part(reference, common, reference.arrays)
    return compare(recorded, _part(later, common, cut), latency=latencies, labels=labels)


def _settled(fixed: Recording, run: Recording) -> Recording:
    """The run, with the sums of reals that the host computes for an output equal where only their last digits differ.

    Integers of the chip are compared bit by bit; such a sum depends on the order of its terms.
    """
    arrays = dict(run.arrays)
    for key, expected in fixed.arrays.items():
        values = arrays.get(key)
        if expected.dtype.kind == "f" and values is not None and values.shape == expected.shape:
            size = float(np.abs(expected).max(initial=0.0))
            arrays[key] = expected if np.allclose(values, expected, rtol=0, atol=SUMS * size) else values
    return Recording(MappingProxyType(arrays), run.meta)


def _part(recording: Recording, keys: Sequence[Key], arrays: Mapping[Key, Array]) -> Recording:
    return Recording(MappingProxyType({key: arrays[key] for key in keys}), recording.meta)


def verification_verdict(verification: Verification) -> str:
    """One sentence: which required equalities hold."""
    required = [pair for pair in verification.pairs if pair.required]
    broken = verification_failures(verification)
    if broken:
        return f"not as required: {'; '.join(broken)}"
    equalities = _equalities(required) if required else _not_required(verification)
    left_out = "".join(f"; {quoted(way)} left out: {why}" for way, why in verification.left_out.items())
    first = "retimed" if verification.early_spikes else "reference"
    near = f"{first} ~ fixed: within the bound{_widest(verification.layers)} in every population"
    if verification.early_spikes:
        near += "; not the reference: early spikes are kept"
    if verification.proofs:
        near += f"; proved for every input: the neurons of {', '.join(map(quoted, verification.proofs))}"
    return f"{equalities}; {near}{left_out}"


def _widest(layers: Sequence[LayerBound]) -> str:
    """A bound of more than a threshold says little: the widest of them, ``5 thresholds in 'leaky_1'``."""
    wide = {x.population: x.bound / x.theta for x in layers if x.theta and x.bound > abs(x.theta)}
    if not wide:
        return ""
    name = max(wide, key=lambda each: wide[each])
    return f", which is wide ({wide[name]:.3g} thresholds in {quoted(name)}),"


def _not_required(verification: Verification) -> str:
    other = [quoted(pair.b) for pair in verification.pairs if pair.b not in OTHER_WAYS]
    return (
        f"no equality is required of {', '.join(other)}"
        if other
        else "no equality is required: only the fixed simulator ran"
    )


def _equalities(required: Sequence[ComparedPair]) -> str:
    """The ways that are equal to another, together where the same variables were compared."""
    ways = grouped(((pair.a, pair.variables), pair.b) for pair in required)
    return "; ".join(f"{' == '.join([a, *names])}: {_in_words(variables)}" for (a, variables), names in ways.items())


def _in_words(variables: Sequence[str]) -> str:
    words = [{"s": "spike"}.get(v, v) for v in VARIABLES if v in variables]
    return f"every {' and '.join([', '.join(words[:-1]), words[-1]] if words[1:] else words)}" if words else "outputs"


def verification_failures(verification: Verification) -> list[str]:
    """Every requirement that does not hold, in a few words."""
    unequal = [f"{p.a} and {p.b} differ" for p in verification.pairs if p.required and not p.comparison.equal]
    beyond = [f"{quoted(x.population)} is beyond its bound" for x in verification.layers if not x.holds]
    unproved = [
        f"the neurons of {quoted(name)} are {how}" for name, how in verification.proofs.items() if how != PROVED
    ]
    return [*unequal, *beyond, *unproved]
