"""Programs for TorchInductor: bit-equal where every sum is exact, the spikes of trained models, what a package has."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.inductor.emit import INDUCTOR, InductorOptions
from nirbridge.emitters.own_time import listen_to_times
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity
from nirbridge.pipeline import load_network
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.emitters.oracles import (
    ORACLES,
    TIMING,
    check_every_bit,
    drawn,
    grid,
    lif,
    recurrent,
    residual,
    side_by_side,
    whole,
)
from tests.stack.needs import needs
from tests.stack.trained import DIGITS

# Torch is in the environment of `make test` too, where the compilations would take minutes; Triton is not.
pytestmark = needs("torch", "triton", where="compilers")


def test_every_bit_of_fixed_and_random_networks() -> None:
    fixed = [make(np.random.default_rng(0)) for make in ORACLES]
    check_every_bit(INDUCTOR, side_by_side([*fixed, *map(drawn, range(20))]), InductorOptions(unroll=1))


def subnormal() -> Network:
    """Its potential is halved from 2^-120, so that after 6 of 24 time steps float32 has it as a subnormal number."""
    faint = Population("faint", (3,), lif(a_mem=1 / 2, v_init=2.0**-120, theta=1.0))
    return whole((faint,), (), "faint", (2,))


def scalar() -> Network:
    """Ports without axes, and a neuron without a memory."""
    a = Population("a", (), neuron("Threshold", a_mem=0.0, theta=1 / 64))
    edges = (Projection("in", "a", Identity(())), Projection("a", "out", Identity(())))
    return Network(1e-3, TIMING, (a,), edges, (Port("in", ()),), (Port("out", ()),))


def biased(rng: np.random.Generator) -> Network:
    """An input without targets, and biases alone."""
    a, b = Population("a", (4,), lif(bias=np.arange(4) / 64)), Population("b", (5,), lif(refractory_steps=np.arange(5)))
    return whole((a, b), (Projection("a", "b", Dense(freeze(grid(rng, 5, 4)))),), "b", (2,))


@pytest.fixture(scope="module")
def unrolled() -> tuple[Network, Artifact]:
    """Delays longer and shorter than a call, and its package of five time steps a call."""
    parts = [recurrent(np.random.default_rng(0)), residual(np.random.default_rng(0))]
    network = side_by_side([*parts, subnormal(), scalar(), biased(np.random.default_rng(0))])
    return network, INDUCTOR.emit(network, InductorOptions(unroll=5, package=True))


def test_one_package_for_any_number_of_samples_and_time_steps(unrolled: tuple[Network, Artifact]) -> None:
    network, program = unrolled
    emitted = SimpleNamespace(records=INDUCTOR.records, emit=lambda *_: program, run=INDUCTOR.run)
    with listen_to_times() as times:
        for batch, steps in ((1, 24), (3, 25), (32, 26)):
            check_every_bit(emitted, network, batch=batch, steps=steps)
    assert (len(times.own), times.compilation) == (3, []), "the package was used"


def test_what_a_package_has(unrolled: tuple[Network, Artifact], tmp_path: Path) -> None:
    """The generated C++ and a library without a fused multiply-add."""
    with zipfile.ZipFile(io.BytesIO(unrolled[1].files["step.pt2"])) as archive:
        archive.extractall(tmp_path)
    (kernels,) = tmp_path.rglob("*.kernel.cpp")
    (library,) = tmp_path.rglob("*.so")
    assert kernels.read_text().count('extern "C"') > 5
    assert "-ffp-contract=off" in kernels.read_text()
    code = subprocess.run(["objdump", "-d", library], check=True, capture_output=True, text=True).stdout
    assert "mulps" in code
    assert not re.search(r"vfn?m(add|sub)", code)


def test_the_program_runs_alone_and_leaves_nothing(tmp_path: Path) -> None:
    network = recurrent(np.random.default_rng(0))
    program = INDUCTOR.emit(network, InductorOptions(unroll=2))
    assert program.digest == INDUCTOR.emit(network, InductorOptions(unroll=2)).digest, "the same bytes"
    program.save(tmp_path / "p")
    x = (np.random.default_rng(0).random((7, 2, 6)) < 0.4).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    run = [sys.executable, "p/run.py", "x.npy", "out.npz"]
    found = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert (found.returncode, found.stderr) == (1, "no step.pt2: python compile.py makes it\n")
    subprocess.run([sys.executable, "p/compile.py"], cwd=tmp_path, check=True, env=environment)
    subprocess.run(run, cwd=tmp_path, check=True, env=environment)
    assert not [*(tmp_path / "home").iterdir(), *(tmp_path / "tmp").iterdir()]
    expected = simulate(network, x).recording.arrays["out", "s"]
    assert expected.any()
    assert np.array_equal(np.load(tmp_path / "out.npz")["out0"], expected)


def test_digits(root: Path) -> None:
    """Sums are not exact in float32 there, and each spike is that of the reference."""
    network = side_by_side([load_network(root / "examples/models" / f"{name}.nir") for name in DIGITS])
    rng = np.random.default_rng(0)
    x = {p.name: (rng.random((50, 4, *p.shape)) < 0.15).astype(np.float32) for p in network.inputs}
    record = [Probe("*", ("s",))]
    reference = simulate(network, x, record=record).recording.arrays
    found = INDUCTOR.run(INDUCTOR.emit(network), x, record=record).arrays
    assert all(reference[p.name, "s"].any() for p in network.populations)
    assert {key: np.array_equal(found[key], array) for key, array in reference.items()} == dict.fromkeys(found, True)
