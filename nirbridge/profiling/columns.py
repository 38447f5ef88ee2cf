"""The columns of a profile: names that do not change, units and meanings. Scripts and sweeps rely on them."""

from __future__ import annotations

from typing import Literal, NamedTuple

Basis = Literal["measured", "published", "assumed"]
"""Where a figure is from: counted in a simulation of the data; counted events times figures that the chip file has a
source for; the same with a figure that the chip file marks as approximate, or with rates that were not measured."""


class Column(NamedTuple):
    """A column: its name, its unit ('' for counts and texts), and its meaning."""

    name: str
    unit: str
    meaning: str


POINT = (
    Column("model", "", "name of the model"),
    Column("chip", "", "name of the chip"),
    Column("chips", "", "chips of the board"),
    Column("weight_bits", "bits", "bits of a stored weight"),
    Column("objective", "", "objective of the mapping"),
    Column("effort", "", "effort of the mapping"),
    Column("method", "", "partitioner"),
    Column("seed", "", "seed of the mapping"),
    Column("samples", "", "samples of the data"),
    Column("steps", "time steps", "time steps of a sample"),
    Column("hardware_steps", "time steps", "time steps of an inference on the chip, with the latency of its hops"),
    Column("dt_s", "s", "length of a time step of the model"),
    Column("cores", "", "cores in use"),
    Column("cores_lower_bound", "", "proved lower bound on the cores"),
    Column("status", "", "status of the proof"),
    Column("neurons", "", "neurons on the chip"),
    Column("synapses", "", "synapses on the chip"),
    Column("rates", "", "where the spike rates are from"),
)
"""Columns that say which network was profiled, and on what."""
FIGURES = (
    Column("input_spikes_per_inference", "", "events of all inputs in an inference"),
    Column("spikes_per_inference", "", "spikes of all neurons in an inference"),
    Column("spikes_per_step", "", "spikes of all neurons in a time step"),
    Column("synaptic_ops_per_inference", "", "synaptic operations of an inference"),
    Column("synaptic_ops_per_step", "", "synaptic operations of a time step"),
    Column("energy_per_inference_j", "J", "energy of an inference"),
    Column("energy_per_step_j", "J", "energy of a time step"),
    Column("energy_per_synaptic_op_j", "J", "energy of an inference over its synaptic operations"),
    Column("time_per_inference_s", "s", "time of an inference"),
    Column("time_per_step_s", "s", "mean time of a time step"),
    Column("longest_step_s", "s", "longest time step of the data"),
    Column("guaranteed_step_s", "s", "time step in which every neuron and every input fires"),
    Column("inferences_per_s", "1/s", "sustained throughput: inferences one after the other, at their mean time"),
    Column("guaranteed_inferences_per_s", "1/s", "throughput that no input can fall below"),
    Column("power_w", "W", "energy over time"),
    Column("energy_delay_js", "J s", "energy-delay product of an inference"),
    Column("accuracy_reference", "", "accuracy of the model in real numbers"),
    Column("accuracy", "", "accuracy in the chip's integers"),
    Column("same_decisions", "", "share of samples that both decide alike"),
    Column("activation_sparsity", "", "share of neurons and time steps without a spike, in the chip's integers"),
    Column("memory_bytes", "B", "synaptic memory in use, in whole words"),
)
"""Figures of a point; each has a basis."""
RANGES = ("energy_per_inference_j", "energy_per_step_j", "time_per_inference_s", "time_per_step_s")
"""Figures with a range, in columns of their own that end in ``_low`` and ``_high``."""
NEUROBENCH = (
    Column("Footprint", "B", "bytes of parameters and states"),
    Column("ParameterCount", "", "weights and biases"),
    Column("ConnectionSparsity", "", "share of weights that are 0"),
    Column("ActivationSparsity", "", "share of activations that are 0"),
    Column("Effective_MACs", "", "multiply-accumulates of a sample: synapses that a value other than 0 and 1 reaches"),
    Column("Effective_ACs", "", "accumulates of a sample: synapses that a spike reaches, weights of 0 left out"),
    Column("Dense", "", "synaptic operations of a sample if every source sent in every time step"),
    Column("MembraneUpdates", "", "changes of membrane potentials in a sample"),
    Column("ClassificationAccuracy", "", "share of correct decisions"),
)
"""Metrics under the names that NeuroBench gives them (``profiling.neurobench`` has the definitions)."""
WITNESS = (
    Column("witness", "", "independent simulator that ran the same map"),
    Column("witness_spikes_equal", "", "whether its spikes are the same"),
    Column("witness_energy_per_inference_j", "J", "its energy of an inference"),
    Column("witness_time_per_inference_s", "s", "its time of an inference"),
)
BASES = (
    Column("energy_basis", "", "basis of the energy: published or assumed"),
    Column("time_basis", "", "basis of the time: published or assumed"),
)


def _all() -> tuple[str, ...]:
    names = [c.name for c in (*POINT, *FIGURES, *BASES)]
    names += [f"{name}_{end}" for name in RANGES for end in ("low", "high")]
    return (*names, *(c.name for c in (*NEUROBENCH, *WITNESS)))


COLUMNS: tuple[str, ...] = _all()
"""Names of all columns of ``Profile.rows()``, in order; None where a point has no such value."""
