"""The checks of a pass on one network."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.check import diagnose_network
from nirbridge.network.model import Network
from nirbridge.simulators.types import Probe
from nirbridge.testing.examples import STEPS, example_inputs
from nirbridge.testing.faults import Faults, fingerprint

LATEST = 2 * STEPS
"""Time steps by which outputs may be later."""


def check_rewrite(faults: Faults, rewrite: Any, network: Network) -> None:
    """A valid network with the same ports, the same twice; the argument unchanged; outputs as the pass promises."""
    before = fingerprint(network)
    changed = faults.call("the pass", partial(rewrite, network))
    faults.unchanged("the network", before, network)
    if not faults.is_a("the pass", changed, Network):
        return
    problems = list(diagnose_network(changed))
    for problem in problems[:4]:
        faults.add(f"it returned a network that is not valid: {problem}", "valid networks stay valid")
    ports = [(p.name, p.shape) for p in (*network.inputs, *network.outputs)]
    if [(p.name, p.shape) for p in (*changed.inputs, *changed.outputs)] != ports:
        faults.add("it changed inputs or outputs", "inputs and outputs of the network are kept")
        return
    faults.repeatable("the network", changed, faults.call("the pass", partial(rewrite, network)))
    if not problems:
        _check_promise(faults, rewrite, network, changed)


def _check_promise(faults: Faults, rewrite: Any, network: Network, changed: Network) -> None:
    promise = getattr(rewrite, "promise", None)
    if promise not in ("same", "later", "changed"):
        faults.add(f"promise is {promise!r}", "promise is 'same', 'later' or 'changed'")
    if promise not in ("same", "later"):
        return
    before, after = _outputs(network), _outputs(changed)
    for name, values in before.items():
        latencies = range(1 if promise == "same" else LATEST + 1)
        if not any(np.array_equal(after[name][late : late + STEPS], values[:STEPS]) for late in latencies):
            faults.add(f"output {name!r} is another", f"the pass promises {promise!r}")


def _outputs(network: Network) -> dict[str, Array]:
    from nirbridge.simulators.simulate import simulate

    every = [Probe(port.name, ("s",)) for port in network.outputs]
    outcome = simulate(network, example_inputs(network), steps=STEPS + LATEST, record=every, backend="reference")
    return {node: values for (node, _), values in outcome.recording.arrays.items()}
