"""Emitted modules loaded into this process, and networks compared where a framework leaves a choice of words."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact
from nirbridge.network.model import Network
from nirbridge.simulators.simulate import simulate


def loaded(program: Artifact, **options: Any) -> Any:
    """The module of a program with its weights."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("model.py", "weights.npz"):
            (Path(folder) / name).write_bytes(program.files[name])
        spec: Any = spec_from_file_location(f"emitted_{program.digest}", Path(folder) / "model.py")
        code: Any = module_from_spec(spec)
        sys.modules[spec.name] = code
        spec.loader.exec_module(code)
        return code.load(**options).eval()


def ran(module: Any, network: Network, inputs: dict[str, Array], dtype: Any = np.float32) -> dict[str, Array]:
    """Its outputs by name, ``[steps, batch, *shape]``."""
    import torch

    with torch.no_grad():
        found = module(*(torch.from_numpy(inputs[p.name].astype(dtype)) for p in network.inputs))
    found = found if isinstance(found, dict) else {network.outputs[0].name: found}
    return {name: value.numpy() for name, value in found.items()}


def expected(network: Network, inputs: dict[str, Array], dtype: str = "float32") -> dict[str, Array]:
    """The outputs of the reference."""
    recording = simulate(network, inputs, backend="numpy", dtype=dtype).recording
    return {name: array for (name, _), array in recording.arrays.items()}


def random_inputs(network: Network, seed: int, steps: int = 12, batch: int = 2) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {p.name: (rng.random((steps, batch, *p.shape)) < 0.4).astype(np.uint8) for p in network.inputs}


def normal(network: Network) -> Network:
    """Without what means nothing: the word for a neuron, an amount that nothing takes off, marks of back edges."""
    populations = []
    for p in network.populations:
        unused = {"reset_amount": np.zeros(())} if p.neuron.reset == "none" else {}
        populations.append(replace(p, neuron=replace(p.neuron, kind="", **unused)))
    timing = replace(network.timing, reset="none", compare=">", integrator="euler", if_gain="per-second")
    projections = tuple(replace(p, is_back=False) for p in network.projections)
    return replace(network, timing=timing, populations=tuple(populations), projections=projections)
