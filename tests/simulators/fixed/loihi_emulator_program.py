"""Runs one network on brian2-loihi; called by path in an environment of its own, so it imports nothing of nirbridge.

python loihi_emulator_program.py JOB.npz OUT.npz

What is said otherwise there: ``decay_I`` is ``du + 1``; a refractory time counts the step of the spike; a current
decays behind its step, not before it; a spike of an input arrives in its own step at delay 0, one of a neuron in the
next.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import brian2_loihi as loihi  # pyright: ignore[reportMissingImports]
import numpy as np
from brian2 import prefs  # pyright: ignore[reportMissingImports]

MODES = {"mixed": 1, "excitatory": 2, "inhibitory": 3}


def generator(spikes: Any) -> Any:
    """An input that sends ``spikes: [steps, neurons]``."""
    times, neurons = np.nonzero(spikes)  # sorted by time
    return loihi.LoihiSpikeGeneratorGroup(spikes.shape[1], neurons, times)


def decayed(value: int, decay: int) -> int:
    """What a decay of so many parts of 4096 leaves, cut towards zero."""
    left = abs(value) * (4096 - decay) // 4096
    return left if value >= 0 else -left


def group(told: dict[str, Any]) -> Any:
    """The neurons of a population."""
    made = loihi.LoihiNeuronGroup(
        told["size"],
        refractory=told["refractory_steps"] + 1,
        threshold_v_mant=told["vth"],
        decay_v=told["dv"],
        decay_I=told["du"] + 1,
    )
    made.v, made.I = told["v_init"], [decayed(x, told["du"] + 1) for x in told["u_init"]]
    return made


def synapses(told: dict[str, Any], weights: Any, source: Any, target: Any, delay: int) -> Any:
    """The synapses of one delay of a projection, ``weights: [target, source]`` with 0 where there is none."""
    made = loihi.LoihiSynapses(
        source,
        target,
        delay=delay,
        w_exp=told["weight_exp"],
        sign_mode=MODES[told["sign_mode"]],
        num_weight_bits=told["weight_bits"],
    )
    targets, sources = np.nonzero(weights)
    made.connect(i=sources, j=targets)
    made.w = weights[targets, sources].astype(np.int64)
    return made


def all_synapses(job: Any, plan: dict[str, Any], nodes: dict[str, Any]) -> list[Any]:
    """Every projection, a group of synapses for each of its delays."""
    made = []
    for k, told in enumerate(plan["projections"]):
        weights, delays = job[f"weights {k}"], job[f"delays {k}"]
        early = 0 if told["source"] in plan["inputs"] else 1
        for delay in np.unique(delays):
            part = np.where(delays == delay, weights, 0)
            if part.any():
                made.append(synapses(told, part, nodes[told["source"]], nodes[told["target"]], int(delay) - early))
    return made


def main(job_path: str, out_path: str) -> None:
    """Reads the job, runs it, writes ``s``, ``u`` and ``v`` of every population, ``[steps, neurons]``."""
    prefs.codegen.target = "numpy"
    with np.load(job_path) as job:
        plan = json.loads(str(job["plan"]))
        nodes = {name: generator(job[f"spikes {name}"]) for name in plan["inputs"]}
        nodes |= {name: group(told) for name, told in plan["populations"].items()}
        links = all_synapses(job, plan, nodes)
    populations = list(plan["populations"])
    # the current as the neurons get it: in the slot of the synapses, behind them
    monitors = {
        name: (
            loihi.LoihiStateMonitor(nodes[name], "I", order=1),
            loihi.LoihiStateMonitor(nodes[name], "v"),
            loihi.LoihiSpikeMonitor(nodes[name]),
        )
        for name in populations
    }
    loihi.LoihiNetwork(*nodes.values(), *links, *(m for all_of in monitors.values() for m in all_of)).run(plan["steps"])
    found = {}
    for name, (current, membrane, spikes) in monitors.items():
        found[f"u {name}"], found[f"v {name}"] = np.array(current.I).T, np.array(membrane.v).T
        sent = np.zeros(found[f"v {name}"].shape, np.int64)
        sent[np.rint(np.array(spikes.t)).astype(int), np.array(spikes.i)] = 1  # its monitors count steps
        found[f"s {name}"] = sent
    np.savez(out_path, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
