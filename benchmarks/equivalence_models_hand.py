"""Published structures, written again for the tests: delays, attention, and neurons by hand in plain PyTorch.

Neurons are those of papers, tutorials and courses, and forms without an exact one. Those that return a sum or mean over
time are left out here: what is compared are outputs of every time step.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.equivalence_model import Model, quiet, step_by_step, whole, with_states

with quiet():
    from tests.importers.handwritten import cells, papers, refused
    from tests.importers.handwritten.forms import MAY_BE_REFUSED
    from tests.importers.test_delays import FEATURES, Delayed, DelaysLearned
    from tests.importers.transformers import neurons
    from tests.importers.transformers.test_blocks import BLOCKS

_RUNS = {"step": step_by_step, "states": with_states, "time": whole}


def published() -> Iterator[Model]:
    """Networks of spikingjelly with delays, and attention of spiking transformers whose outputs are spikes."""
    makes = {
        "layer.Delay": lambda: Delayed(2, mode="m"),
        "DCLS, a delay per synapse": lambda: DelaysLearned().rounded(),
        "DCLS, delays of axons and synapses": lambda: DelaysLearned(groups=FEATURES).rounded(),
    }
    for name, make in makes.items():
        yield _whole(name, make, (FEATURES,))
    for name in ("QKTA", "QKFormer's SSA"):
        make, shape = BLOCKS[name]
        yield _whole(name, partial(neurons.built, make, neurons.spikingjelly_lif), shape[2:])


def _whole(name: str, make: Any, shape: tuple[int, ...]) -> Model:
    return Model("spikingjelly", name, make, whole, (shape,), sample=lambda: torch.zeros(20, 1, *shape), is_filled=True)


def models() -> Iterator[Model]:
    """Forms that have the canonical neuron, then those that are refused."""
    for form in (*papers.forms(), *cells.forms()):
        if not form.over and form.name not in MAY_BE_REFUSED:
            yield _model(form, kind="potential" if "readout" in form.name else "spikes")
    without = (form for form in (*papers.forms(), *cells.forms()) if form.name in MAY_BE_REFUSED)
    for form in (*without, *refused.forms()):
        yield _model(form, is_exact=False, is_refused=True)


def _model(form: Any, **options: Any) -> Model:
    run = _RUNS.get(form.takes, _samples_first)
    return Model("torch", form.name, form.module, run, (form.shape,), sample=form.sample, is_filled=True, **options)


def _samples_first(module: Any, inputs: tuple[Any, ...]) -> Any:
    """A module whose input has axes [batch, steps, ...]."""
    return module(inputs[0].transpose(0, 1)).transpose(0, 1)
