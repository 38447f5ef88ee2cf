"""Small models and data on disk for sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nir
import numpy as np

from nirbridge.importers import save_nir
from tests.network.graphs import chain, lif, out, port


def write_model(path: Path, neurons: int = 4, seed: int = 0) -> str:
    """A dense layer of 3 inputs."""
    weight = np.random.default_rng(seed).normal(size=(neurons, 3)) * 40
    save_nir(chain(port(3), nir.Linear(weight), lif(neurons), out(neurons), dt=1e-4), path)
    return path.name


def write_files(folder: Path) -> dict[str, Any]:
    """Two models, one too large for a chip of the test, data and labels; the sweep of both models on two chips."""
    names = [write_model(folder / "a.nir"), write_model(folder / "b.nir", 5, 1)]
    rng = np.random.default_rng(3)
    np.save(folder / "x.npy", (rng.random((12, 6, 3)) < 0.5).astype(np.uint8))
    np.save(folder / "y.npy", rng.integers(0, 4, 6))
    np.save(folder / "values.npy", rng.random((6, 3)))
    return {"models": names, "chips": ["loihi1", "loihi2"], "seeds": [0, 1], "effort": "fast"}
