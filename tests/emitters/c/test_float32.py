"""C programs in float32: every bit of the reference, on the dyadic oracle and on ordinary numbers."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.cli.main import run as run_command
from nirbridge.emitters.artifact import write_artifact
from nirbridge.emitters.c.emit import C
from nirbridge.emitters.c.options import COptions
from nirbridge.emitters.c.plan import c_plan
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse, SumPool
from nirbridge.pipeline import load_network
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from nirbridge.testing import networks
from tests.cases import cases
from tests.emitters.c.programs import STRICT, run
from tests.emitters.held_out import dyadic_network
from tests.emitters.oracles import ORACLES, check_every_bit, drawn, lif, side_by_side, whole
from tests.tools import needs

REALS = COptions(dtype="float32")
RECORD = [Probe("*", ("s", "u", "v"))]
SANITIZERS = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")


def assert_reference(network: Network, x: dict[str, Any], steps: int | None = None) -> dict[Any, Any]:
    """Every recorded array of the program is that of the reference in float32, in every bit but the sign of a zero."""
    expected = simulate(network, x, record=RECORD, steps=steps, backend="numpy").recording.arrays
    found = C.run(C.emit(network, REALS), x, record=RECORD, steps=steps).arrays
    assert set(found) == set(expected)
    for key, array in expected.items():
        assert found[key].dtype == array.dtype, key
        assert np.array_equal(found[key], array, equal_nan=True), key
    return dict(expected)


def values(network: Network, seed: int, steps: int = 30, grid: int | None = None) -> dict[str, Any]:
    """Spikes, and in every third time step real numbers, of a grid where one is given."""
    rng, found = np.random.default_rng(seed), {}
    for port in network.inputs:
        shape = (steps, 2, *port.shape)
        real = rng.normal(0, 1, shape) if grid is None else rng.integers(-8, 20, shape) / grid
        spikes = (rng.random(shape) < 0.3).astype(np.float32)
        found[port.name] = np.where(np.arange(steps).reshape(-1, *[1] * (len(shape) - 1)) % 3 == 2, real, spikes)
    return found


@pytest.mark.parametrize("make", ORACLES)
def test_oracles(make: Any) -> None:
    check_every_bit(C, make(np.random.default_rng(0)), REALS)


@pytest.mark.parametrize("first", cases(range(0, 100, 20), range(0, 400, 20)))
def test_drawn_networks(first: int) -> None:
    """Twenty in a program: layers, convolutions and pools, loops, delays to both sides, branches, adaptations."""
    check_every_bit(C, side_by_side([drawn(seed) for seed in range(first, first + 20)]), REALS)


@pytest.mark.parametrize(
    "seeds", [cases(range(12), range(60)), pytest.param(range(1000, 1200), marks=pytest.mark.slow)]
)
def test_held_out_networks(seeds: Any) -> None:
    fired = 0
    for seed in seeds:
        network = dyadic_network(seed)
        arrays = assert_reference(network, values(network, seed, grid=4), None if network.inputs else 30)
        fired += sum(bool(a.any()) for (_, v), a in arrays.items() if v == "s")
    assert fired > len(seeds)


@settings(max_examples=cases(15, 100), deadline=None, database=None, derandomize=True, phases=[Phase.generate])
@given(networks(), st.integers(0, 99))
def test_ordinary_numbers(network: Network, seed: int) -> None:
    """Sums keep the order of the reference, so that numbers of no grid have its bits, too."""
    if network.inputs:
        assert_reference(network, values(network, seed, steps=16))


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_digits(name: str, root: Path) -> None:
    network = load_network(root / "examples/models" / f"{name}.nir")
    arrays = assert_reference(network, values(network, 3))
    assert arrays[network.outputs[0].name, "s"].any()


def odd_operators() -> Network:
    """A pool whose factor is no power of 2, scales in a chain, weights of 0 with a bias, wide rows in groups."""
    rng = np.random.default_rng(2)
    pool = SumPool((3, 2), (2, 1), ((1, 0), (0, 1)), (2, 7, 6), 1 / 9)
    kernels = Conv(freeze(rng.normal(0, 0.3, (4, 1, 3, 3))), (1, 1), ((1, 1), (1, 1)), (1, 1), 2, pool.output_shape)
    scaled = Chain((pool, Scale(freeze(rng.normal(1, 0.1, pool.output_shape))), kernels))
    wide = Dense(freeze(rng.normal(0, 0.1, (150, 4 * int(np.prod(pool.output_shape[1:]))))))
    none = Sparse(freeze(np.zeros(151, np.int64)), freeze(np.zeros(0, np.int64)), freeze(np.zeros(0)), (150,), (150,))
    a = Population("a", (4, *pool.output_shape[1:]), lif(theta=0.07, a_mem=0.83, g_mem=0.31))
    b = Population("b", (150,), lif(theta=0.11, refractory_steps=np.arange(150) % 4, v_reset=-0.013))
    flat = Chain((Reshape(a.shape, (a.size,)), wide))
    edges = (
        Projection("in", "a", scaled),
        Projection("a", "b", flat, freeze(rng.normal(0, 0.1, 150)), target_delay_steps=freeze(np.arange(150) % 3)),
        Projection("b", "b", Dense(freeze(rng.normal(0, 0.05, (150, 150)))), delay_steps=freeze(np.int64(3))),
        Projection("b", "b", none, freeze(rng.normal(0, 0.1, 150)), freeze(np.int64(1))),
    )
    network = whole((a, b), edges, "b", (2, 7, 6))
    reads = (
        Projection("in", "seen", Identity((2, 7, 6)), delay_steps=freeze(np.int64(2))),
        Projection("in", "seen", Scale(freeze(rng.normal(0, 1, (2, 7, 6))))),
    )
    ports = (*network.outputs, Port("seen", (2, 7, 6)))
    return replace(network, projections=(*network.projections, *reads), outputs=ports)


def test_odd_operators() -> None:
    network = odd_operators()
    arrays = assert_reference(network, values(network, 5, 40))
    assert all(arrays[name, "s"].any() for name in "ab")
    assert "s1_events(" in C.emit(network, REALS).files["model.c"].decode()


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_thresholds_and_floors_that_float32_does_not_have() -> None:
    network = ORACLES[0](np.random.default_rng(1))
    a, b = network.populations
    never = replace(a, neuron=replace(a.neuron, theta=freeze(np.array(1e300)), v_min=freeze(np.array(-1e300))))
    arrays = assert_reference(replace(network, populations=(never, b)), values(network, 1, grid=8))
    assert not arrays["a", "s"].any()
    assert arrays["a", "v"].any()


def folder_of(network: Network, path: Path) -> Path:
    write_artifact(C.emit(network, REALS), path)
    return path


def test_no_warning_and_nothing_undefined(tmp_path: Path) -> None:
    """The sanitizers of gcc end a program at the first access outside of an array; its text is the reference's."""
    for k, network in enumerate([side_by_side([drawn(seed) for seed in range(40, 52)]), odd_operators()]):
        folder = folder_of(network, tmp_path / str(k))
        for options in (["-O2"], ["-O1", "-fanalyzer"], ["-Os", "-DNB_TRACE"]):
            run(["gcc", *STRICT, "-Wdouble-promotion", *options, "-c", "model.c", "main.c"], folder)
        run(["gcc", "-std=c99", "-O1", *SANITIZERS, "-o", "model", "model.c", "main.c"], folder)
        x = values(network, 7, 20)
        assert run([folder / "model"], folder, _as_text(network, x)) == _expected_text(network, x)


def _as_text(network: Network, x: dict[str, Any]) -> str:
    rows = np.concatenate([x[p.name][:, 0].reshape(len(x[p.name]), -1) for p in network.inputs], axis=1)
    rows = rows.astype(np.float32)
    return "".join(" ".join(f"{i}:{row[i]!s}" for i in np.nonzero(row)[0]) + "\n" for row in rows)


def _expected_text(network: Network, x: dict[str, Any]) -> str:
    """Populations that outputs are, in their order, then the outputs that are computed."""
    plan, one = c_plan(network), {name: a[:, :1] for name, a in x.items()}
    shown = [(n.name, "s" if n.population.neuron.fires else "v", n.source.is_binary) for n in plan.shown] + [
        (o.name, "s", False) for o in plan.outputs
    ]
    arrays = simulate(network, one, record=RECORD, backend="numpy").recording.arrays
    parts = [arrays[name, v].astype(np.float32).reshape(len(arrays[name, v]), -1) for name, v, _ in shown]
    binary = np.repeat([b for *_, b in shown], [part.shape[1] for part in parts])
    rows = np.concatenate(parts, axis=1)
    return "".join(
        " ".join(f"{i}" if binary[i] else f"{i}:{row[i]:.9g}" for i in np.nonzero(row)[0]) + "\n" for row in rows
    )


def test_no_fused_operation_whatever_the_dialect(tmp_path: Path) -> None:
    """gcc fuses products and sums unless -std=c99 or the pragma of the program says otherwise."""
    folder = folder_of(ORACLES[3](np.random.default_rng(0)), tmp_path / "p")
    fpu = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
    run([needs("arm-gcc"), *fpu, "-O2", "-std=gnu11", "-S", "model.c"], folder)
    assembly = (folder / "model.s").read_text()
    assert "vmul.f32" in assembly
    assert not [line for line in assembly.splitlines() if "vfma" in line or "vfms" in line or "vfnm" in line]


@pytest.mark.parametrize("option", ["-ffast-math", "-funsafe-math-optimizations", "-freciprocal-math",
                                    "-fassociative-math -fno-signed-zeros -fno-trapping-math"])  # fmt: skip
def test_gcc_refuses_to_change_the_order(option: str, tmp_path: Path) -> None:
    folder = folder_of(ORACLES[0](np.random.default_rng(0)), tmp_path / "p")
    command = ["gcc", "-O3", *option.split(), "-c", "model.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "reals need float arithmetic as it is written" in done.stderr


def test_command(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, x = root / "examples/models/digits_mlp.nir", tmp_path / "x.npy"
    np.save(x, np.random.default_rng(0).random((12, 2, 64)).astype(np.float32))
    out, reference = tmp_path / "out.npz", tmp_path / "reference.npz"
    assert run_command(["emit", str(model), "--to", "c", "--dtype", "float32", "-o", str(tmp_path / "p")]) == 0
    assert run_command(["run", str(tmp_path / "p"), "--input", str(x), "-o", str(out)]) == 0
    assert run_command(["simulate", str(model), "--input", str(x), "-o", str(reference)]) == 0
    found, expected = (nb.load_recording(path).arrays for path in (out, reference))
    assert all(np.array_equal(found[key], array) for key, array in expected.items())
    verify = ["verify", str(model), "--chip", "loihi2", "--to", "c", "--dtype", "float32", "--steps", "12"]
    assert run_command(verify) == 0
    assert "; reference == c: every spike and v; " in " ".join(capsys.readouterr().out.split())


def test_refusals(root: Path) -> None:
    network = load_network(root / "examples/models/digits_mlp.nir")
    with pytest.raises(UsageError, match=r"numbers in float32, dtype is integers; quantize it for a chip"):
        C.emit(network, COptions(dtype="integers"))
    with pytest.raises(UsageError, match=r"numbers in integers, dtype is float32; emit the network itself"):
        C.emit(nb.quantize(network, "loihi2"), REALS)
    with pytest.raises(UsageError, match=r"dtype 'float16', integers or float32"):
        C.emit(network, COptions(dtype="float16"))  # pyright: ignore[reportArgumentType]
    assert C.emit(network).digest == C.emit(network, REALS).digest
