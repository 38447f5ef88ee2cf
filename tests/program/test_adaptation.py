"""Thresholds that adapt: the equation by hand, the oracles, the program, a chip, files, and who refuses them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array, freeze
from nirbridge.chips import builtin_chips, chip_from_dict, read_chip
from nirbridge.chips.model import Chip
from nirbridge.dialect.snn_mlir.write import snn_mlir_text
from nirbridge.errors import ModelError
from nirbridge.importers.nirfile.reader import read_nir, save_nir
from nirbridge.network.check import diagnose_network
from nirbridge.network.equality import network_differences
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import Adaptation, Neuron, neuron
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.portability import export_warnings
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.network.operators import Dense, Identity
from nirbridge.network.storage.file import read_network, write_network
from nirbridge.passes import Retime
from nirbridge.pipeline import MapOptions, map_retimed
from nirbridge.plugins.registry import get, names
from nirbridge.program.evaluate import Evaluator, ProgramEvaluator
from nirbridge.program.interval import first_values, settled
from nirbridge.program.rules import traced_step
from nirbridge.program.step import step_program
from nirbridge.program.text import program_text, read_program
from nirbridge.quantization.error_bounds import v_bounds
from nirbridge.quantization.model import FixedNeuron, QuantizedNetwork
from nirbridge.quantization.overflow import prove, raised_by
from nirbridge.quantization.quantize import quantize
from nirbridge.quantization.storage.file import diagnose_quantized, read_quantized, write_quantized
from nirbridge.report.inspect import inspect_network
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.mapped.simulate import simulate_mapped
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from nirbridge.verification.bounds import layer_bounds
from tests.cases import cases
from tests.program.test_rules_as_terms import need
from tests.quantization.nets import TIMING

ALL = [Probe("*", ("s", "u", "v"))]
SPIKES = [Probe("p0", ("s",)), Probe("p1", ("s",))]
SHAPE = (5,)


def by_hand(n: Neuron, x: Array) -> tuple[Array, Array]:
    """Spikes and membranes ``[steps, neurons]`` of an adaptive neuron without a synapse, a floor or a rest."""
    a = n.adaptation
    assert a is not None
    assert n.theta is not None
    v, b, spikes, potentials = n.v_init + np.zeros(x.shape[1]), a.init + np.zeros(x.shape[1]), [], []
    for now in x:
        u = n.a_mem * v + n.g_mem * now + n.bias
        k = (u > n.theta + b if n.compare == ">" else u >= n.theta + b).astype(float)
        k = k if n.max_spikes == 1 else k * np.minimum(np.floor(u / (n.theta + b)), n.max_spikes)
        v = {
            "to-value": np.where(k > 0, n.v_reset, u),
            "subtract": u - k * (n.reset_amount + b * a.in_reset),
            "none": u,
        }[n.reset]
        b = a.decay * b + a.jump * k
        spikes, potentials = [*spikes, k], [*potentials, v]
    return np.array(spikes), np.array(potentials)


def adaptive(rng: np.random.Generator, shape: tuple[int, ...] = SHAPE, **own: Any) -> Neuron:
    """Any reset and comparison, values for all or for each."""

    def some(low: float, high: float) -> Any:
        return rng.uniform(low, high, shape if rng.random() < 0.5 else ())

    most, reset = int(rng.choice([1, 1, 4])), str(rng.choice(["to-value", "subtract", "none"]))
    jump = some(0.05, 0.6) if most > 1 or rng.random() < 0.7 else some(-0.1, 0.3)
    in_reset = reset == "subtract" and bool(rng.integers(2))
    usual: dict[str, Any] = {
        "a_mem": some(0.5, 1.0),
        "bias": some(-0.05, 0.05),
        "theta": some(0.6, 1.2),
        "reset": reset,
        "compare": str(rng.choice([">", ">="])),
        "max_spikes": most,
        "adaptation": Adaptation.of(some(0.5, 0.98), jump, some(0, 0.3) * rng.integers(2), in_reset=in_reset),
    }
    return neuron("LIF", **usual | own)


def chain(*neurons: Neuron, seed: int = 0, size: int = SHAPE[0], delay: int = 0) -> Network:
    """Populations one after the other, of random weights."""
    rng = np.random.default_rng(seed)
    names = [f"p{k}" for k in range(len(neurons))]
    populations = tuple(Population(name, (size,), n) for name, n in zip(names, neurons, strict=True))
    wires = [
        Projection(a, b, Dense(freeze(rng.normal(0.25, 0.5, (size, size)))), delay_steps=freeze(np.int64(delay)))
        for a, b in pairwise(["in", *names])
    ]
    read = Projection(names[-1], "out", Identity((size,)), delay_steps=freeze(np.int64(0)))
    return Network(
        float(TIMING.dt or 1), TIMING, populations, (*wires, read), (Port("in", (size,)),), (Port("out", (size,)),)
    )


def spikes(seed: int, steps: int = 60, batch: int = 3) -> Array:
    return (np.random.default_rng(seed).random((steps, batch, *SHAPE)) < 0.4).astype(np.float64)


def able_chip() -> Chip:
    record: dict[str, Any] = dict(read_chip("loihi2").record)
    neurons, sources = {**record["neuron"], "adaptation": True}, {**record["source"], "neuron.adaptation": "for tests"}
    return chip_from_dict({**record, "name": "able", "neuron": neurons, "source": sources})


# -- in reals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", cases(range(0, 40, 20), range(0, 400, 20)))
def test_reference_and_program_are_the_equation(first: int) -> None:
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        n = adaptive(rng)
        network = replace(chain(n), projections=(Projection("in", "p0", Identity(SHAPE)), chain(n).projections[-1]))
        x = rng.normal(0.4, 0.8, (50, *SHAPE))
        expected, potentials = by_hand(n, x)
        found = simulate(network, x, dtype="float64", record=ALL).recording.arrays
        assert np.array_equal(found["p0", "s"], expected), seed
        assert np.array_equal(found["p0", "v"], potentials), seed
        assert expected.any()
        types: Any = {"real": np.float64, "count": np.int64, "bool": np.bool_}
        run = ProgramEvaluator(step_program(network), np, types, lambda operator, kind: lambda values: values)
        computed = run.run({"in": x[:, None]}, run.first(1)).arrays
        assert np.array_equal(computed["p0", "s"][:, 0], expected), seed
        assert np.array_equal(computed["p0", "v"][:, 0], potentials), seed


def test_the_threshold_rises_falls_and_is_subtracted() -> None:
    """Theta 1, and 1 more for each spike, half of it kept: u is 3, 3, 2.75 and 3.25, or 3, 3, 1.75 and 3.25."""
    for in_reset, expected in ((False, [2.0, 2.0, 1.75, 2.25]), (True, [2.0, 1.0, 1.75, 1.5])):
        n = neuron("IF", reset="subtract", adaptation=Adaptation.of(0.5, 1.0, in_reset=in_reset))
        network = replace(chain(n), projections=(Projection("in", "p0", Identity(SHAPE)), chain(n).projections[-1]))
        x = np.broadcast_to(np.array([3.0, 1.0, 0.75, 1.5])[:, None], (4, *SHAPE))
        found = simulate(network, x, record=ALL, dtype="float64").recording.arrays
        assert found["p0", "v"][:, 0].tolist() == by_hand(n, x)[1][:, 0].tolist() == expected


@pytest.mark.parametrize("backend", ["numpy", "fast", "event"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_backend_has_the_bits_of_the_reference_however_a_run_is_cut(backend: str, dtype: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        network, x = chain(adaptive(rng), adaptive(rng), neuron("IF"), seed=seed), spikes(seed)
        expected = simulate(network, x, record=ALL, dtype=dtype, backend="reference").recording
        first = simulate(network, x[:25], record=ALL, dtype=dtype, backend=backend)
        rest = simulate(network, x[25:], record=ALL, dtype=dtype, backend=backend, state=first.state)
        for key, values in expected.arrays.items():
            found = np.concatenate([first.recording.arrays[key], rest.recording.arrays[key]])
            assert np.array_equal(values, found), (seed, key)
        assert ("p0", "b") in rest.state.arrays
        assert ("p2", "b") not in rest.state.arrays


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ({"adaptation": Adaptation.of(1.5, 0.1)}, "an adaptation whose decay leaves 0 to 1"),
        ({"adaptation": Adaptation.of(0.5, 0.1, in_reset=True)}, "an adaptation in reset 'to-value'"),
        ({"adaptation": Adaptation.of(0.5, -0.1), "max_spikes": 3}, "an adaptation that lowers the threshold"),
        ({"adaptation": Adaptation.of(0.5, [0.1, 0.2])}, "neuron adaptation.jump has shape (2,)"),
        ({"adaptation": Adaptation.of(0.5, np.nan)}, "neuron adaptation.jump is not finite"),
        ({"adaptation": Adaptation.of(0.5, 0.1), "theta": None}, "a readout with an adaptive threshold (adaptation)"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(own: dict[str, Any], found: str) -> None:
    assert [d.found for d in diagnose_network(chain(neuron("LIF", **own)))] == [found]


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_bring_it_back_exactly(tmp_path: Path) -> None:
    networks = [chain(adaptive(np.random.default_rng(seed)), neuron("LIF", a_mem=0.5)) for seed in range(8)]
    for seed, network in enumerate(networks):
        save_nir(to_nir(network), tmp_path / "n.nir")
        assert network_differences(network, from_nir(read_nir(tmp_path / "n.nir"))) == (), seed
        write_network(network, tmp_path / "n.net.npz")
        assert network_differences(network, read_network(tmp_path / "n.net.npz")) == (), seed
        text, arrays = program_text(step_program(network))
        assert program_text(read_program(text, arrays))[0] == text
    assert any("'p0': an adaptive threshold: plain NIR has none" in text for text in export_warnings(networks[0]))
    node = to_nir(networks[0]).nodes["p0"]
    del node.metadata["nirbridge:adaptation.init"]
    graph = to_nir(networks[0])
    graph.nodes["p0"] = node
    with pytest.raises(ModelError, match=r"metadata without nirbridge:adaptation\.init"):
        from_nir(graph)


def test_reports_show_it() -> None:
    network = chain(neuron("LIF", a_mem=0.5, adaptation=Adaptation.of(0.75, 0.5)))
    shown = "adaptation decay 0.75, adaptation jump 0.5, adaptation init 0"
    assert repr(network.populations[0].neuron).endswith(f"reset to-value, {shown}")
    assert inspect_network(network)["populations"][0]["adaptation.decay"] == [0.75, 0.75]
    assert shown in " ".join(network.summary().split())
    assert "adaptation.in_reset  False" in network.populations[0].summary()


# -- in integers -------------------------------------------------------------------------------------------------------


def fixed_by_hand(n: FixedNeuron, drives: Array) -> tuple[list[int], list[int], list[int]]:
    """Spikes, v and b of one integer neuron, by plain Python."""
    a, last = n.adaptation, (1 << (n.v_bits - 1)) - 1
    assert a is not None
    assert n.fires_above is not None
    lose = lambda x, keep: (-1 if x < 0 else 1) * ((abs(x) * keep) >> 12)  # noqa: E731
    u, v, b, found = int(n.u_init), int(n.v_init), int(a.init), ([], [], [])
    for drive in drives.tolist():
        u = lose(u, 4095 - int(n.du)) + (drive << 6)
        v = max(-last, min(last, lose(v, 4096 - int(n.dv)) + u + int(n.bias)))
        k = 0
        if v > int(n.fires_above) + b:
            k = 1 if n.max_spikes == 1 else min(n.max_spikes, v // max(int(n.spike_size) + b, 1))
        amount = int(n.reset_amount) + (b if a.in_reset else 0)
        v = v - k * amount if n.reset == "subtract" else 0 if n.reset == "zero" and k else v
        b = lose(b, int(a.decay)) + int(a.jump) * k
        for values, value in zip(found, (k, v, b), strict=True):
            values.append(value)
    return found


@pytest.mark.parametrize("first", cases(range(0, 40, 20), range(0, 400, 20)))
def test_a_chip_follows_the_equation_within_what_is_proved(first: int) -> None:
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        q = quantize(Retime().retimed(chain(adaptive(rng, (), adaptation=at_rest(rng)))), able_chip())
        made = q.populations[0].neuron
        made = replace(made, v_init=freeze(np.int64(0)), u_init=freeze(np.int64(0)))
        assert made.adaptation is not None
        drives = rng.integers(-(1 << 10), 1 << 11, 80)
        sent, v, b = fixed_by_hand(made, drives)
        step = traced_step(made)
        types: Any = {"int": np.int64, "count": np.int64, "bool": np.bool_}
        run, state = Evaluator(step, np, types), {"u": 0, "v": 0, "b": int(made.adaptation.init), "refractory": 0}
        bounds, (low, high) = settled(step, first_values(made, (-(1 << 10), 1 << 11))), raised_by(made)
        for t, drive in enumerate(drives):
            found = run({"drive": drive, **{f"state.{name}": np.int64(x) for name, x in state.items()}})
            state |= {name: int(x) for name, x in found.state.items()}
            assert (int(found.sent), state["v"], state["b"]) == (sent[t], v[t], b[t]), (seed, t)
            assert low <= b[t] <= high
            assert bounds["state.b"][0] <= b[t] <= bounds["state.b"][1]


@pytest.mark.parametrize("first", cases(range(0, 20, 10), range(0, 200, 10)))
def test_fixed_mapped_and_program_are_equal_and_near_the_reference(first: int) -> None:
    for seed in range(first, first + 10):
        rng = np.random.default_rng(seed)
        subtracted = replace(at_rest(rng), in_reset=True)
        neurons = [adaptive(rng, adaptation=subtracted, reset="subtract"), adaptive(rng, adaptation=at_rest(rng))]
        network, x = chain(*neurons, seed=seed), spikes(seed)
        retimed = Retime().retimed(network)
        q = quantize(retimed, able_chip())
        expected = simulate_fixed(q, x, record=ALL, backend="reference").recording.arrays
        for backend in ("auto", "fast"):
            found = simulate_fixed(q, x, record=ALL, backend=backend).recording.arrays
            assert all(np.array_equal(values, found[key]) for key, values in expected.items()), (seed, backend)
        options = MapOptions(method="sequential", effort="fast", relays=False)
        mapped = simulate_mapped(q, map_retimed(retimed, able_chip(), options), {"in": x}, record=ALL).arrays
        assert all(np.array_equal(values, mapped[key]) for key, values in expected.items()), seed
        for name, bounds in prove(q).items():
            v = expected[name, "v"]
            assert bounds.v[0] <= v.min(), (seed, name)
            assert v.max() <= bounds.v[1], (seed, name)
        run = simulate_fixed(q, x, record=ALL).recording
        assert all(layer.holds for layer in layer_bounds(q, {"in": x}, run)), seed


def test_the_stated_bound_of_v_holds_while_spikes_agree() -> None:
    compared = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = adaptive(rng, adaptation=replace(at_rest(rng), in_reset=True), reset="subtract", max_spikes=1)
        network, x = chain(n, seed=seed), spikes(seed, 40)
        q = quantize(Retime().retimed(network), able_chip())
        fixed = simulate_fixed(q, x, record=[*ALL, Probe("in", ("s",))]).recording.arrays
        real = simulate(network, x, record=ALL, dtype="float64").recording.arrays
        bound, late = v_bounds(q, fixed)["p0"], q.latency["p0"]
        same = np.cumprod((fixed["p0", "s"][late:] == real["p0", "s"][: 40 - late]).all(axis=(1, 2)))
        far = np.abs(fixed["p0", "v"][late:] / float(q.populations[0].neuron.scale) - real["p0", "v"][: 40 - late])
        assert (far <= bound[late:])[same > 0].all(), seed
        compared += int(same.sum())
    assert compared > 100


def test_a_quantized_file_brings_it_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    q = quantize(Retime().retimed(chain(adaptive(rng, adaptation=at_rest(rng)))), able_chip())
    write_quantized(q, tmp_path / "n.q.npz")
    found, made = (
        read_quantized(tmp_path / "n.q.npz").populations[0].neuron.adaptation,
        q.populations[0].neuron.adaptation,
    )
    assert found is not None
    assert made is not None
    assert found.in_reset == made.in_reset
    assert all(np.array_equal(getattr(found, k), getattr(made, k)) for k in ("decay", "jump", "init"))
    wrong = replace(
        q.populations[0],
        neuron=replace(q.populations[0].neuron, adaptation=replace(made, decay=freeze(np.int64(5000)))),
    )
    assert "adaptation.decay: values from 5000 to 5000, 0 to 4096" in str(
        next(iter(diagnose_quantized(replace(q, populations=(wrong,)))))
    )


def test_a_neuron_that_forgets_v_adapts_on_a_chip_without_soft_resets() -> None:
    """Its reset has no effect, so that it is made one to a value; its spikes stay those of the reference."""
    record: dict[str, Any] = dict(able_chip().record)
    chip = chip_from_dict({**record, "neuron": {**record["neuron"], "soft_reset": False}})
    n = neuron("LIF", a_mem=0.0, theta=0.5, reset="subtract", adaptation=Adaptation.of(0.75, 0.5, in_reset=True))
    network = chain(n)
    network = replace(network, projections=(Projection("in", "p0", Identity(SHAPE)), network.projections[-1]))
    q, x = quantize(Retime().retimed(network), chip), spikes(1, 40)
    assert q.network is not None
    assert [*diagnose_network(q.network)] == []
    fixed = simulate_fixed(q, x, record=SPIKES[:1], drain=True).recording.arrays["p0", "s"]
    real = simulate(network, x, record=SPIKES[:1]).recording.arrays["p0", "s"]
    assert np.array_equal(fixed, real)
    assert 0 < real.sum() < x.sum()


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", builtin_chips())
def test_chips_refuse_it_by_name(name: str) -> None:
    n = neuron("LIF", a_mem=0.5, adaptation=Adaptation.of(0.9, 0.25))
    with pytest.raises(ModelError) as caught:
        quantize(Retime().retimed(chain(n)), read_chip(name))
    (problem,) = [x for x in caught.value.problems if "adaptive" in x.found]
    assert problem.subject == "population 'p0'"
    assert (
        problem.found == "an adaptive threshold (adaptation.decay = 0.9, adaptation.jump = 0.25, adaptation.init = 0)"
    )
    assert problem.limit == f"neurons of chip '{name}' have none"
    assert problem.hint.endswith("train with a fixed threshold (LIF in place of ALIF or LSNN)")


@pytest.mark.parametrize(
    ("own", "found"),
    [
        (Adaptation.of(1.0, 0.25), "its adaptive threshold may grow beyond"),
        (Adaptation.of(0.5, 1e-9), "the jump of its adaptive threshold becomes 0 at a scale of"),
        (Adaptation.of(0.5, 0.1, 0.2), "it would leave its start in the 1 step before its input arrives"),
    ],
)
def test_what_no_integers_of_a_chip_hold_is_refused(own: Adaptation, found: str) -> None:
    n = neuron("LIF", a_mem=0.5, adaptation=own)
    with pytest.raises(ModelError, match=found):
        quantize(Retime().retimed(chain(n, n)), able_chip())


EMITTERS: dict[str, Any] = {name: get("emitters", name) for name in names("emitters")}
TARGETS = [name for name, emitter in EMITTERS.items() if set(emitter.carries) == {"v_min"}]


@pytest.mark.parametrize("name", TARGETS)
def test_targets_refuse_it_by_name(name: str) -> None:
    n, emitter = neuron("LIF", a_mem=0.5, adaptation=Adaptation.of(0.9, 0.25)), EMITTERS[name]
    retimed = Retime().retimed(chain(n))
    models: list[Any] = [chain(n), quantize(retimed, able_chip())]
    models += [
        map_retimed(retimed, able_chip(), MapOptions(method="sequential", effort="fast", relays=False), models[1])
    ]
    taken = [model for model in models if isinstance(model, emitter.takes)]
    assert taken
    for model in taken:
        with pytest.raises(ModelError) as caught:
            emitter.emit(model)
        (problem,) = caught.value.problems
        assert (problem.subject, problem.found) == ("population 'p0'", "an adaptive threshold")
        assert problem.limit == f"a program of emitter '{name}' has none"


def test_the_dialect_carries_it_and_snn_mlir_refuses_it() -> None:
    pytest.importorskip("xdsl", reason="the dialect is written with xDSL")
    from nirbridge.dialect.build import network_module, quantized_module
    from nirbridge.dialect.lowering.program import lowered
    from nirbridge.dialect.module import parse_module
    from nirbridge.dialect.read import module_model

    adaptation = Adaptation.of(0.9, np.linspace(0.1, 0.5, SHAPE[0]), in_reset=True)
    network = chain(neuron("LIF", a_mem=0.5, reset="subtract", adaptation=adaptation))
    text = network_module(network).text()
    assert not network_differences(module_model(parse_module(text)), network)  # type: ignore[arg-type]
    quantized = quantize(Retime().retimed(network), able_chip())
    for module in (parse_module(text), quantized_module(quantized)):
        assert [s.variable for s in lowered(module).states if s.node == "p0"][:2] == ["b", "v"]
    with pytest.raises(ModelError, match="'p0': an adaptive threshold, snn-mlir has none"):
        snn_mlir_text(network)


def at_rest(rng: np.random.Generator) -> Adaptation:
    return Adaptation.of(rng.uniform(0.5, 0.98), rng.uniform(0.05, 0.6))


# -- printed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in EMITTERS if name not in TARGETS])
def test_targets_that_print_programs_follow_it(name: str) -> None:
    emitter = EMITTERS[name]
    runtimes = {"jax": "jax", "onnx": "onnxruntime", "iree": "iree.compiler"}
    runtimes |= {each: each for each in ("openvino", "tvm", "triton", "tinygrad")} | {"inductor": "triton"}
    pytest.importorskip(runtimes.get(name, "numpy"), reason="it runs the program")
    need(emitter)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        subtracted = replace(at_rest(rng), in_reset=True)
        neurons = [adaptive(rng, adaptation=subtracted, reset="subtract", max_spikes=1 + 2 * seed), neuron("IF")]
        network, x = chain(*neurons, seed=seed), spikes(seed)
        q = quantize(Retime().retimed(network), able_chip())
        runs = {
            QuantizedNetwork: (q, lambda q=q, x=x: simulate_fixed(q, x, record=SPIKES).recording),
            Network: (network, lambda network=network, x=x: simulate(network, x, record=SPIKES).recording),
        }
        taken = [runs[kind] for kind in emitter.takes if kind in runs]
        assert taken
        for model, expected in taken:
            found = emitter.run(emitter.emit(model), {"in": x}, record=SPIKES)
            assert expected().arrays["p0", "s"].any()
            for node in ("p0", "p1"):
                assert np.array_equal(found.arrays[node, "s"], expected().arrays[node, "s"]), (seed, node)


def test_modules_of_torch_bring_it_back() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    import torch

    from nirbridge.importers.emitted import network_of
    from tests.emitters.modules.loaded import loaded

    for seed in range(6):
        rng = np.random.default_rng(seed)
        network = chain(adaptive(rng), adaptive(rng, (), adaptation=at_rest(rng)), seed=seed)
        module = loaded(EMITTERS["torch"].emit(network), dtype=torch.float64)
        assert network_differences(network_of(module), network) == ()
