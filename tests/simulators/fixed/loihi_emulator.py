"""brian2-loihi, an independent integer model of Loihi, in a separate environment.

The environment is made at first use, in ``$NIRBRIDGE_CACHE`` (else the user's cache folder), one folder per set of pins
and Python version. ``loihi_emulator_program.py`` runs there and imports nothing of nirbridge.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.files.scratch import cache_folder
from nirbridge.network.apply import matrix
from nirbridge.quantization import FixedPopulation, FixedProjection, QuantizedNetwork

REQUIREMENTS = Path(__file__).with_name("loihi_emulator_requirements.txt")
PROGRAM = Path(__file__).with_name("loihi_emulator_program.py")
READY = "ready"
PYTHONS = ((3, 11), (3, 12))
"""What both NumPy 1.26 and Brian2 2.9 have wheels for."""


class Unavailable(Exception):
    """The emulator cannot be had here; says why."""


def interpreter() -> Path:
    """The Python that has the emulator; makes its environment where there is none.

    Raises:
        Unavailable: another Python version, or pip failed; its last lines are in the message.
    """
    version = sys.version_info[:2]
    if version not in PYTHONS:
        raise Unavailable(f"brian2-loihi needs NumPy 1.26, which has no wheel for Python {version[0]}.{version[1]}")
    pins = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:8]
    folder = cache_folder() / "brian2-loihi" / f"py{version[0]}{version[1]}-{pins}"
    if not (folder / READY).is_file():
        _make(folder)
    return folder / "bin" / "python"


def _make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _call([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    _call([*pip, "--quiet", "--no-deps", "--requirement", str(REQUIREMENTS)])
    _call([str(folder / "bin" / "python"), "-I", "-c", "import brian2_loihi"])
    (folder / READY).touch()


def _call(command: list[str]) -> None:
    """Runs a command that must succeed; the surrounding Python's paths are not handed on."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, check=False)
    if done.returncode != 0:
        last = " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise Unavailable(f"{Path(command[0]).name} {' '.join(command[1:4])} failed: {last}")


def run_emulator(q: QuantizedNetwork, inputs: Mapping[str, Any], folder: Path) -> dict[tuple[str, str], Any]:
    """``s``, ``u`` and ``v`` of every population, ``[steps, neurons]``; ``inputs``: ``[steps, neurons]`` of 0 and 1.

    Raises:
        Unavailable: as ``interpreter``.
        AssertionError: the network has what the emulator has not, or the emulator failed.
    """
    python, job, out = interpreter(), folder / "job.npz", folder / "out.npz"
    steps = len(next(iter(inputs.values())))
    plan = {
        "steps": steps,
        "inputs": [p.name for p in q.inputs],
        "populations": {p.name: told_population(p) for p in q.populations},
        "projections": [told_projection(p) for p in q.projections],
    }
    arrays = {f"spikes {name}": np.asarray(values, np.int64) for name, values in inputs.items()}
    for k, p in enumerate(q.projections):
        arrays[f"weights {k}"] = matrix(p.operator).toarray().astype(np.int64)
        arrays[f"delays {k}"] = np.broadcast_to(p.delay_steps.ravel(), arrays[f"weights {k}"].shape)
    np.savez(job, plan=json.dumps(plan), **arrays)  # pyright: ignore[reportArgumentType]
    (folder / "brian_preferences").write_text("logging.file_log = False\n", encoding="utf-8")  # read from where it runs
    command = [str(python), "-I", str(PROGRAM), str(job), str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(out) as found:
        return {(name, x): found[f"{x} {name}"] for name in plan["populations"] for x in "suv"}


def told_population(p: FixedPopulation) -> dict[str, Any]:
    """A population as the program takes it; what the emulator does not have is refused."""
    n = p.neuron
    one = all(x.ndim == 0 for x in (n.du, n.dv, n.refractory_steps)) and n.fires_above is not None
    assert one, "du, dv, vth and refractory time are one value per group there"
    assert n.fires_above is not None
    assert n.fires_above.ndim == 0
    assert int(n.fires_above) % 64 == 0
    assert not n.bias.any(), "it has no bias"
    assert n.reset == "zero", "it resets to 0"
    assert n.max_spikes == 1
    return {
        "size": p.size,
        "du": int(n.du),
        "dv": int(n.dv),
        "vth": int(n.fires_above) >> 6,
        "refractory_steps": int(n.refractory_steps),
        "u_init": np.broadcast_to(n.u_init, p.shape).ravel().tolist(),
        "v_init": np.broadcast_to(n.v_init, p.shape).ravel().tolist(),
    }


def told_projection(p: FixedProjection) -> dict[str, Any]:
    """A projection as the program takes it."""
    assert p.weight_exp >= 0, "a negative exponent is rounded there weight by weight"
    return {
        "source": p.source,
        "target": p.target,
        "weight_exp": p.weight_exp,
        "weight_bits": p.weight_bits,
        "sign_mode": p.sign_mode,
    }
