"""The self-check of an import from a JAX framework: the module's own run and the network on the same random inputs.

The importer says how its framework runs a module; the judgement is that of ``self_check``: both in float64, the module
once more in float32, differences within the bounds of rounding. The outputs alone are compared, since a scan of JAX
shows no value from inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.importers.frameworks.jax_runs import JaxModule
from nirbridge.importers.tracing.memory import limit_of_user
from nirbridge.network.model import Network
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.verification.module_facts import network_multiplications, run_bytes
from nirbridge.verification.original_runs import OriginalRun
from nirbridge.verification.random_inputs import finite_samples
from nirbridge.verification.sample_axes import EFFORTS, TrialReading
from nirbridge.verification.self_check import AFFORDABLE, INPUTS, ROOM, outcome_of, skipped
from nirbridge.verification.trials import Trials


class JaxTrials(Trials):
    """Trials of a module that a function runs, from its initial state on."""

    def __init__(self, network: Network, module: JaxModule, sample: Any) -> None:
        super().__init__(network, {}, finite_samples((sample,)), lambda: None, module.parameters)
        self.outputs = module.outputs

    def run_module(self, calls: Iterable[Sequence[Array]], seed: int, *, stops: bool) -> OriginalRun:
        """One call with all time steps; ``seed`` is of no use: the layers that are imported draw nothing."""
        del seed, stops
        (values,) = next(iter(calls))
        return OriginalRun([[("output", self.outputs(values, wide=self.wide))]], {})


def jax_self_check(module: JaxModule, sample: Any, graph: Any, inputs: int | None) -> dict[str, Any]:
    """Compare ``graph`` with the module that it was imported from.

    Args:
        module: how it is run, and its parameters.
        sample: the sample that was given to the importer; its values are drawn from.
        graph: the ``nir.NIRGraph``.
        inputs: how many random inputs to compare; None: two, where the network is small enough.

    Returns:
        The outcome, as ``SelfCheck.document`` gives it.

    Raises:
        UnequalImport: the two differ by more than rounding.
    """
    network, count = from_nir(graph), INPUTS if inputs is None else inputs
    shape, per_step = network.inputs[0].shape, network_multiplications(network)
    costs = {e: (count + 1) * e.steps * e.batch * per_step for e in EFFORTS}
    effort = next((e for e in EFFORTS if costs[e] <= AFFORDABLE), EFFORTS[-1])
    if inputs is None and costs[effort] > AFFORDABLE:
        return skipped(f"about {costs[effort]:.1e} multiplications").document()
    parameters = sum(math.prod(np.shape(p)) for p in module.parameters)
    size, limit = run_bytes(network, parameters, effort.steps, effort.batch), limit_of_user() or ROOM
    if inputs is None and size > limit:
        return skipped(f"about {size:,} bytes of memory").document()
    reading = TrialReading(0, 1, (shape,), effort.steps, effort.batch)
    return outcome_of(JaxTrials(network, module, sample), [reading], count).document()
