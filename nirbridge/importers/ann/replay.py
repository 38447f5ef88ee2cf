"""The ANN and the spiking network made of it, run on the user's data: activations, start potentials, rates, bounds.

Population by population, all steps of one before the next, as nothing here goes back in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, ModelError, UsageError, counted, quoted
from nirbridge.importers.ann.spiking import HALF, count_spikes, fair_start, magnitude
from nirbridge.importers.lowering.analysis import torch_apply
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Port
from nirbridge.network.operators import Conv, Dense, Operator, Sparse

Values = dict[str, Array]
Visit = Callable[[Population, Array], Array]
"""``visit(population, drive [samples, *shape]) -> output of the population``."""


def check_replayable(network: Network) -> None:
    """Raises ModelError where a network is no feed-forward ANN: loops and delays."""
    problems = [
        Diagnostic(
            f"projection {quoted(p.source)} -> {quoted(p.target)}",
            "a loop or a delay",
            "a converted network is feed-forward: every value stands for a whole run of steps",
            "convert the part without it",
        )
        for p in network.projections
        if p.is_back or p.max_delay_steps
    ]
    ModelError.raise_all(problems)


def ceiling(population: Population) -> float:
    """The largest value that the rectifier lets through: theta of the unscaled network (infinity for a ReLU)."""
    theta = population.neuron.theta
    return np.inf if theta is None or float(theta) >= UNBOUNDED else float(theta)


UNBOUNDED = 1e300
"""Theta of a rectifier without ceiling (populations hold finite numbers only)."""


def rectify(population: Population, drive: Array) -> Array:
    """``min(max(drive, 0), ceiling)``."""
    return np.clip(drive, 0.0, ceiling(population)).astype(drive.dtype, copy=False)


def walk_populations(network: Network, inputs: Mapping[str, Array], visit: Visit = rectify) -> Values:
    """Goes through the populations in order and gives the values that reach the outputs, ``[samples, *shape]``.

    ``network`` in causal order. A value is released after its last use.
    """
    samples = len(next(iter(inputs.values())))
    values: Values = dict(inputs)
    last = {p.source: p.target for p in network.projections}
    reached: Values = {}
    for node in (*network.populations, *network.outputs):
        drive = summed_input(network, node.name, node.shape, values, samples)
        if isinstance(node, Population):
            values[node.name] = visit(node, drive)
        else:
            reached[node.name] = drive
        for name in [n for n, target in last.items() if target == node.name]:
            values.pop(name, None)
    return reached


def summed_input(
    network: Network, target: str, shape: tuple[int, ...], values: Mapping[str, Array], samples: int
) -> Array:
    """The summed input of a node, biases included: ``[..., samples, *shape]``, float32 unless sources are float64.

    ``values``: ``[..., samples, *shape]`` by source; axes in front of the samples broadcast.
    """
    total: Array | None = None
    for p in network.projections:
        if p.target != target:
            continue
        part = torch_apply(p.operator, values[p.source])
        if p.bias is not None:
            part += p.bias.astype(part.dtype)
        total = part if total is None else total + part
    return np.zeros((samples, *shape), np.float32) if total is None else total


ENOUGH = 64
"""Counts that a start potential of its own needs; a channel with fewer shares that of its population."""


@dataclass(frozen=True, slots=True, eq=False)
class SpikeMeasurement:
    """By population: start potential, spikes per time step ``[samples, *shape]``, mean surplus, bound in spikes.

    ``reached``: by output, the mean over the steps of its input.
    """

    starts: dict[str, Array]
    rates: dict[str, Array]
    surplus: dict[str, float]
    bounds: dict[str, float]
    reached: dict[str, Array]


def measure_spikes(
    network: Network,
    inputs: Mapping[str, Array],
    target_rates: Mapping[str, Array],
    steps: int,
    choices: tuple[bool, bool],
    progress: Progress | None = None,
) -> SpikeMeasurement:
    """Runs ``network`` for ``steps`` steps of the constant ``inputs [samples, *shape]``.

    ``target_rates``: by population, those of the ANN (activation over scale). ``choices``: start potentials
    per channel or per population, and whether they are looked for at all (else they stay at half the threshold).
    """
    measurement = SpikeMeasurement({}, {}, {}, {}, {})
    sent = {name: values.astype(np.float32)[None] for name, values in inputs.items()}
    bounds = {port.name: np.zeros(port.shape) for port in network.inputs}
    last = {p.source: p.target for p in network.projections}
    for k, population in enumerate(network.populations):
        sent[population.name] = _population(network, population, sent, steps, target_rates, choices, measurement)
        bounds[population.name] = _bound(network, population, bounds, measurement)
        for name in [n for n, target in last.items() if target == population.name]:
            sent.pop(name, None)
        if progress is not None:
            progress("convert", (k + 1) / len(network.populations))
    samples = len(next(iter(inputs.values())))
    means = {name: values.mean(axis=0, dtype=np.float32) for name, values in sent.items()}
    for port in network.outputs:
        measurement.reached[port.name] = summed_input(network, port.name, port.shape, means, samples)
    return measurement


def _population(
    network: Network,
    population: Population,
    sent: Mapping[str, Array],
    steps: int,
    target_rates: Mapping[str, Array],
    choices: tuple[bool, bool],
    measurement: SpikeMeasurement,
) -> Array:
    """Output of a population, ``[steps or 1, samples, *shape]``: spikes, or the mean input of a readout."""
    samples = next(iter(sent.values())).shape[1]
    drive = summed_input(network, population.name, population.shape, sent, samples)
    drive = np.broadcast_to(drive, (steps, samples, *population.shape))  # a constant input is a view
    if not population.neuron.fires:
        return drive.mean(axis=0, dtype=np.float32)[None]
    name, (per_channel, fair) = population.name, choices
    start = np.asarray(HALF)
    if name in target_rates:
        goal = np.clip(target_rates[name], 0, 1) * steps
        measurement.surplus[name] = float(np.mean(count_spikes(drive, start) - goal))
        varies = any(len(sent[p.source]) > 1 for p in network.projections if p.target == name)
        if fair and varies:  # at a constant input half the threshold rounds fairly
            start = fair_start(drive, goal, per_channel=per_channel and goal[:, 0].size >= ENOUGH)
    spikes = np.zeros(drive.shape, np.bool_)
    measurement.starts[name] = np.broadcast_to(start, population.shape)
    measurement.rates[name] = count_spikes(drive, start, spikes) / steps
    return spikes


def _bound(
    network: Network, population: Population, bounds: Mapping[str, Array], measurement: SpikeMeasurement
) -> Array:
    """The bound in spikes of each neuron (see ``ann.spiking``)."""
    total = np.zeros(population.shape)
    for p in network.projections:
        if p.target == population.name:
            part = bounds[p.source]
            for operator in magnitude(p.operator):
                part = torch_apply(operator, part)
            total = total + part
    if population.neuron.fires:
        start = measurement.starts[population.name]
        total = total + np.maximum(np.abs(start), np.abs(1 - start))
    measurement.bounds[population.name] = float(total.max(initial=0.0))
    return total


# -- data ----------------------------------------------------------------------------------------------------------
# The user's calibration data, checked, and the outputs of the user's module on it.
#
# Also the number of samples that each stage of a conversion uses: all that are given, unless a network is large.


BATCH = 256
_SEED = 761_203
AGREES = 1e-3
"""Largest difference between the module and the imported network, as a share of the largest output."""


def calibration_arrays(data: Any, inputs: Sequence[Port]) -> dict[str, Array]:
    """Data as float32 ``[samples, *shape]`` by input.

    ``data``: a tensor or array for one input, a tuple or list of them in the order of the module's arguments, or a
    mapping by name (where there is one input, its name is free). A tuple or list of several arrays for one input are
    consecutive batches.

    Raises:
        UsageError: missing inputs, wrong shapes, numbers of samples that differ, values that are not finite; all of it.
    """
    by_name = arrays_by_input(data, inputs, "calibration data")
    problems: list[Diagnostic] = []
    arrays: dict[str, Array] = {}
    for port in inputs:
        array = by_name[port.name]
        problem = _wrong(array, port)
        if problem:
            problems.append(Diagnostic(f"calibration data of input {quoted(port.name)}", *problem))
        arrays[port.name] = array
    if not problems and len({len(a) for a in arrays.values()}) > 1:
        counts = ", ".join(f"{len(a):,}" for a in arrays.values())
        limit = "every input needs the same number"
        problems.append(
            Diagnostic("calibration data", f"{counts} samples", limit, "give the same samples to every input")
        )
    UsageError.raise_all(problems)
    return {name: np.ascontiguousarray(a, np.float32) for name, a in arrays.items()}


def arrays_by_input(data: Any, inputs: Sequence[Port], subject: str) -> dict[str, Array]:
    """The user's data as one array per input; ``subject`` names the data in messages. Raises UsageError."""
    return {name: _array(values) for name, values in _by_name(data, inputs, subject).items()}


def _by_name(data: Any, inputs: Sequence[Port], subject: str) -> Mapping[str, Any]:
    names = [p.name for p in inputs]
    if isinstance(data, Mapping):
        if len(data) == 1 and len(names) == 1:
            return {names[0]: next(iter(data.values()))}
        if set(data) == set(names):
            return data
        found = "arrays " + ", ".join(quoted(n) for n in data)
    else:
        values = list(data) if isinstance(data, tuple | list) else [data]
        if len(values) == len(names):
            return dict(zip(names, values, strict=True))
        if len(names) == 1 and _are_batches(values, inputs[0]):
            return {names[0]: np.concatenate([_array(v) for v in values])}
        found = f"{counted(len(values), 'array')}"
    limit = "the module has the inputs " + ", ".join(quoted(n) for n in names)
    step = "give one array per input: [samples, *shape]; concatenate batches with torch.cat"
    raise UsageError.of(subject, found, limit, step)


def _are_batches(values: Sequence[Any], port: Port) -> bool:
    """True if every one is an array ``[samples, *shape]``."""
    return bool(values) and all(hasattr(v, "shape") and tuple(v.shape[1:]) == port.shape and v.ndim for v in values)


def _array(values: Any) -> Array:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def value_problem(array: Array) -> tuple[str, str, str] | None:
    """Why an array holds no data, in three parts of a message; None where it does."""
    if array.dtype == object:
        step = "concatenate some of its batches, without labels: torch.cat([x for x, _ in loader])"
        return "no array", "the samples are read several times: give one array or tensor", step
    if array.dtype.kind not in "biuf":
        return f"values of type {array.dtype}", "numbers are needed", "convert them"
    if array.ndim and not len(array):
        return "no samples", "at least one is needed, some hundreds are better", "give the network's typical inputs"
    if not bool(np.all(np.isfinite(array))):
        return "values that are not finite", "", "remove those samples"
    return None


def _wrong(array: Array, port: Port) -> tuple[str, str, str] | None:
    is_shaped = array.shape[1:] == port.shape and array.ndim == len(port.shape) + 1
    if array.dtype.kind in "biuf" and not is_shaped:
        limit = f"[samples, {', '.join(map(str, port.shape))}] is needed"
        return f"shape {array.shape}", limit, "reshape it, with the samples along the first axis"
    return value_problem(array)


HOST = frozenset({"softmax", "log_softmax", "sigmoid"})
"""Functions that are taken off the outputs and left to the host; they keep the order of the values."""


def _without_host() -> Any:
    """A context in which the functions of the host return their input."""
    from torch.overrides import TorchFunctionMode

    class WithoutHost(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.__name__ in HOST:
                return args[0] if args else kwargs["input"]
            return func(*args, **(kwargs or {}))

    return WithoutHost()


def module_outputs(
    module: Any, data: Mapping[str, Array], outputs: Sequence[Port], places: Sequence[int]
) -> dict[str, Array]:
    """Outputs of the module (in eval mode) on the data, by name.

    ``places``: where each stands among the values that the module computes, which may return one of them twice.
    """
    import torch
    from torch.utils import _pytree as pytree

    samples = len(next(iter(data.values())))
    like = next((p for p in module.parameters()), torch.zeros(()))
    collected: list[list[Array]] = [[] for _ in outputs]
    with torch.no_grad(), torch.random.fork_rng(devices=[]), _without_host():
        torch.manual_seed(_SEED)  # not that of the trace, so that a random module shows
        for start in range(0, samples, BATCH):
            batch = [torch.from_numpy(np.array(a[start : start + BATCH])).to(like) for a in data.values()]
            given = {id(tensor) for tensor in batch}
            leaves = [
                v for v in pytree.tree_leaves(module(*batch)) if isinstance(v, torch.Tensor) and id(v) not in given
            ]
            for batches, place in zip(collected, places, strict=True):
                batches.append(leaves[place].detach().to("cpu", torch.float32).numpy())
    return {p.name: np.concatenate(k).reshape(-1, *p.shape) for p, k in zip(outputs, collected, strict=True)}


def folding_error(
    network: Network, expected: Mapping[str, Array], computed: Mapping[str, Array]
) -> tuple[float, float]:
    """(largest absolute difference, largest absolute output) of the module and the imported network.

    Raises:
        ModelError: they differ by more than a rounding: the module is random, or depends on its data in a way that
            the trace did not show.
    """
    largest, size = 0.0, 0.0
    for port in network.outputs:
        largest = max(largest, float(np.max(np.abs(expected[port.name] - computed[port.name]), initial=0.0)))
        size = max(size, float(np.max(np.abs(expected[port.name]), initial=0.0)))
    if largest > AGREES * size or not math.isfinite(largest):
        difference = f"its outputs differ by {largest:.3g} from those of the imported network"
        limit = f"at most {AGREES:g} of the largest output, {size:.3g}"
        hint = "make it a deterministic function of its inputs; if it is one, report this"
        raise ModelError.of("module", difference, limit, hint)
    return largest, size


KEPT_ELEMENTS = 50_000_000
"""Activations of the measured samples that are kept, over all populations."""
DRIVE_ELEMENTS = 30_000_000
"""Inputs of a population over steps and samples that are held at once."""
WORK = 5e9
"""Multiplications spent on running the converted network."""
FEWEST, MOST = 2, 256
"""Samples that are run as spikes."""
SEEN_WORK, SEEN_FEWEST = 1e10, 32
"""Multiplications spent on activations that scales of least error are searched on, and the fewest samples for them."""
CHECKED_WORK, CHECKED_FEWEST = 2.5e9, 8
"""The same for the comparison of the imported network with the module."""


def select_samples(data: Mapping[str, Array], samples: Array) -> dict[str, Array]:
    """The data of these samples."""
    return {name: values[samples] for name, values in data.items()}


def scale_samples(network: Network, samples: int, *, searches: bool) -> Array:
    """Indices of the samples on which scales are chosen: all, for a maximum or a percentile."""
    allowed = int(SEEN_WORK / _work(network)) if searches else samples
    return _spread(samples, max(SEEN_FEWEST, allowed))


def checked_samples(network: Network, samples: int) -> Array:
    """Indices of the samples on which the module and the imported network are compared."""
    return _spread(samples, max(CHECKED_FEWEST, int(CHECKED_WORK / _work(network))))


def measured_samples(network: Network, samples: int, steps: int) -> Array:
    """Indices of the samples that are run as spikes: as many as memory and time allow."""
    largest = max((p.size for p in network.populations), default=1)
    allowed = (
        KEPT_ELEMENTS // max(1, network.neurons),
        DRIVE_ELEMENTS // (largest * steps),
        int(WORK / (_work(network) * steps)),
    )
    return _spread(samples, max(FEWEST, min(MOST, *allowed)))


def _spread(samples: int, count: int) -> Array:
    """Indices of evenly spaced samples."""
    return np.linspace(0, samples - 1, min(samples, count)).astype(np.int64)


def _work(network: Network) -> int:
    return 1 + sum(operator_multiplications(p.operator) for p in network.projections)


def operator_multiplications(operator: Operator) -> int:
    """Multiplications of one application."""
    total = 0
    for part in parts_of(operator):
        if isinstance(part, Dense):
            total += part.weight.size
        elif isinstance(part, Conv):
            total += part.weight.size * math.prod(part.output_shape[1:])
        else:
            total += part.data.size if isinstance(part, Sparse) else math.prod(part.output_shape)
    return total
