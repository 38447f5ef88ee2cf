"""Kernels of Triton in its interpreter, bit-equal where every sum is exact; compiled for GPUs that are not there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.emitters.own_time import listen_to_own_time
from nirbridge.emitters.triton.emit import TRITON, TritonOptions
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Reshape, Scale, Sparse, SumPool
from nirbridge.pipeline import load_network
from nirbridge.simulators.simulate import simulate
from nirbridge.testing import check_conformance
from tests.dialect.networks import late_sums, no_input, one_axis, several_ports
from tests.emitters.oracles import ORACLES, check_every_bit, convolutions, drawn, grid, lif, side_by_side, whole
from tests.stack.needs import needs
from tests.stack.trained import DIGITS, RECORD, assert_equal

pytestmark = needs("triton", "torch", where="compilers")
FORMS = ("layers", "mega")


def long_lists(rng: np.random.Generator) -> Network:
    """Rows of 0 to 40 synapses, windows along one axis, scales after sums, biases alone, delays per neuron."""
    counts = np.append(rng.integers(0, 4, 39), 40)
    indices = np.concatenate([np.sort(rng.choice(40, int(n), False)) for n in counts])
    starts = np.append(0, np.cumsum(counts))
    listed = Sparse(freeze(starts), freeze(indices), grid(rng, len(indices)), (40,), (40,))
    line = Conv(grid(rng, 4, 2, 3), (2,), ((1, 2),), (2,), 2, (4, 10))
    pool = SumPool((2,), (2,), ((1, 0),), line.output_shape, 0.5)
    a = Population("a", (40,), lif(refractory_steps=np.arange(40) % 3))
    b = Population("b", line.output_shape, lif(bias=1 / 64))
    c = Population("c", (5,), lif(v_init=np.arange(5) / 64))
    folded, flat = Chain((Reshape((40,), (4, 10)), line)), int(np.prod(pool.output_shape))
    to_rows = Reshape(pool.output_shape, (flat,))
    scaled = Chain(
        (pool, Scale(grid(rng, *pool.output_shape)), to_rows, Dense(grid(rng, 5, flat)), Scale(grid(rng, 5)))
    )
    edges = (
        Projection("in", "a", listed, freeze(grid(rng, 40)), target_delay_steps=freeze(np.arange(40) % 4)),
        Projection("a", "b", folded, freeze(grid(rng, 4, 5)), freeze(np.int64(1)), freeze(np.int64(2))),
        Projection("b", "c", scaled),
    )
    return whole((a, b, c, Population("d", (3,), lif(bias=1 / 32))), edges, "c", (40,))


@pytest.mark.parametrize("form", FORMS)
def test_every_bit_of_networks(form: Any) -> None:
    """Side by side, so that one process runs all of them: networks of one to four layers."""
    rng = np.random.default_rng(0)
    networks = [
        *(make(rng) for make in (*ORACLES, several_ports, one_axis, no_input, late_sums, long_lists)),
        *map(drawn, range(20)),
    ]
    check_every_bit(TRITON, side_by_side(networks), TritonOptions(form))


@pytest.mark.parametrize("name", DIGITS)
def test_digits(name: str, root: Path) -> None:
    """Sums of float32 are not exact there; their order is the reference's."""
    network = load_network(root / "examples/models" / f"{name}.nir")
    x = (np.random.default_rng(0).random((25, 8, *network.inputs[0].shape)) < 0.15).astype(np.float32)
    reference = simulate(network, x, record=RECORD).recording.arrays
    for form in FORMS:
        assert_equal(TRITON.run(TRITON.emit(network, TritonOptions(form)), x, record=RECORD).arrays, reference)
    assert all(values.any() for values in reference.values())


def test_a_network_without_input_tells_its_time() -> None:
    rng = np.random.default_rng(0)
    a, b = Population("a", (4,), lif(bias=np.arange(4) / 64)), Population("b", (4,), lif())
    network = replace(whole((a, b), (Projection("a", "b", Dense(grid(rng, 4, 4))),), "b", (2,)), inputs=())
    reference = simulate(network, {}, steps=30, record=RECORD, backend="numpy").recording.arrays
    with listen_to_own_time() as seconds:
        found = TRITON.run(TRITON.emit(network), {}, steps=30, record=RECORD).arrays
    assert_equal(found, reference)
    assert reference["b", "s"].any()
    assert len(seconds) == 1


@pytest.mark.parametrize(("target", "endings"), [("cuda:90", ("ptx", "cubin")), ("hip:gfx942", ("amdgcn", "hsaco"))])
def test_kernels_compile_without_a_gpu(target: str, endings: tuple[str, str], tmp_path: Path) -> None:
    """No product is fused with a sum; quotients are rounded."""
    rng = np.random.default_rng(0)
    networks = side_by_side([convolutions(rng), *(make(rng) for make in ORACLES[2:]), long_lists(rng)])
    words = [sys.executable, "compile.py", target, "out"]
    for form in FORMS:
        TRITON.emit(networks, TritonOptions(form)).save(tmp_path / form)
        (tmp_path / form / "out").mkdir()
        subprocess.run(words, cwd=tmp_path / form, check=True, env={"TRITON_CACHE_DIR": str(tmp_path / "cache")})
    text, binary = ([p.read_bytes() for p in sorted(tmp_path.glob(f"*/out/*.{ending}"))] for ending in endings)
    kernels = (tmp_path / "layers" / "network.py").read_text().count("_kernel(\n")
    assert len(text) == len(binary) == kernels + 1
    assert all(content.startswith(b"\x7fELF") for content in binary)
    if target == "cuda:90":
        assert all(b".target sm_90" in content for content in text)
        assert not any(b"fma.rn.f32" in content for content in text)
        assert any(b"div.rn.f32" in content for content in text)
        (mega,) = (tmp_path / "mega" / "out").glob("*.ptx")
        layers = (tmp_path / "mega" / "network.py").read_text().count("tl.debug_barrier()")
        assert mega.read_text().count("bar.sync") >= layers == kernels
    failed = subprocess.run([*words[:2], "z80"], cwd=tmp_path / "mega", capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert "python compile.py [TARGET [FOLDER]]" in failed.stderr


def test_the_program_runs_alone(root: Path, tmp_path: Path) -> None:
    model = root / "examples/models/digits_mlp.nir"
    TRITON.emit(load_network(model), TritonOptions("mega")).save(tmp_path / "p")
    np.save(tmp_path / "x.npy", np.ones((5, 2, 64), np.float32))
    ran = subprocess.run(
        [sys.executable, "p/run.py", "x.npy", "out.npz"], cwd=tmp_path, check=True, capture_output=True
    )
    assert b"time steps took" in ran.stderr
    assert np.array_equal(np.load(tmp_path / "out.npz")["out0"], nb.simulate(model, np.ones((5, 2, 64)))["output"])
    assert subprocess.run([sys.executable, "p/run.py"], cwd=tmp_path, capture_output=True).returncode == 2


def test_the_emitter_keeps_to_its_protocol() -> None:
    check_conformance("emitters", "triton")
