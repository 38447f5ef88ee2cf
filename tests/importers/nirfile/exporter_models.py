"""Two layers of each neuron that a framework's exporter supports, run in the framework and from the graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.importers.nirfile.faults import SHAPES_ONLY, diagnose_exporter
from nirbridge.importers.nirfile.repairs import repair_graph
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.simulators.simulate import simulate
from tests.simulators.reference.frameworks import grid_weights

STEPS, BATCH, SIZES = 200, 4, (8, 12, 6)
LOST = "—"


@dataclass(frozen=True)
class Case:
    """A model, what its exporter made of it, what it puts out, and the repair for it (or none)."""

    framework: str
    neuron: str
    repair: str
    graph: Any
    theirs: Array

    @property
    def spikes(self) -> int:
        return int(self.theirs.sum())

    def differ(self, names: tuple[str, ...]) -> float:
        """Per cent of spikes, counted against the framework's, that the graph with these repairs has otherwise."""
        shapes = tuple(name for name in SHAPES_ONLY if name in {f.name for f in diagnose_exporter(self.graph)})
        network = from_nir(repair_graph(self.graph, (*shapes, *names)))
        (ours,) = simulate(network, inputs().astype(np.uint8), backend="reference").recording.arrays.values()
        return 100 * float(np.abs(ours - self.theirs).sum()) / float(np.abs(self.theirs).sum())

    def row(self) -> str:
        """As it stands in the table of docs/nir-files.md."""
        mended = f"{self.differ((self.repair,)):.1f}" if self.repair != LOST else "import it"
        name = self.repair if self.repair == LOST else f"`{self.repair}`"
        return f"| {self.framework} | {self.neuron} | {self.differ(()):.1f} | {name} | {mended} |"


def inputs() -> Array:
    return (np.random.default_rng(0).random((STEPS, BATCH, SIZES[0])) < 0.3).astype(np.float32)


def package(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(name)


def weights(layer: int, scale: float) -> Any:
    import torch

    pre, post = SIZES[layer : layer + 2]
    return torch.from_numpy(grid_weights((post, pre), scale, layer))


def linear(layer: int, scale: float, kind: Any = None) -> Any:
    import torch

    made = (kind or torch.nn.Linear)(*SIZES[layer : layer + 2], bias=False)
    made.weight.data = weights(layer, scale)
    return made


def stack(cell: Callable[[int], Any], scale: float, kind: Any = None) -> Any:
    import torch

    return torch.nn.Sequential(linear(0, scale, kind), cell(SIZES[1]), linear(1, scale, kind), cell(SIZES[2]))


def snntorch_cases() -> Iterator[Case]:
    for reset in ("subtract", "zero", "none"):
        for name in ("Leaky", "Synaptic", "RLeaky", "RSynaptic"):
            yield snntorch_case(name, reset, late=True)
    for name in ("Leaky", "Synaptic", "RLeaky"):  # RSynaptic itself fails with reset_delay=False and a hidden state
        yield snntorch_case(name, "zero", late=False)
    yield snntorch_case("Leaky", "subtract", late=False)


def snntorch_case(name: str, reset: str, *, late: bool) -> Case:
    import torch

    snn, export = package("snntorch"), package("snntorch.export_nir")

    def cell(size: int) -> Any:
        decays = [torch.full((size,), value) for value in (0.7, 0.85)]
        own = {"linear_features": size} if name.startswith("R") else {}
        made = getattr(snn, name)(
            *decays[-1 if name.endswith("Leaky") else 0 :], threshold=torch.ones(size), init_hidden=True,
            reset_mechanism=reset, reset_delay=late, **own,
        )  # fmt: skip
        if own:
            made.recurrent.weight.data = torch.from_numpy(grid_weights((size, size), 0.2, 5))
            made.recurrent.bias.data = torch.full((size,), 1 / 16)
        return made

    model = stack(cell, 0.3)
    with torch.no_grad():
        graph = export.export_to_nir(model, torch.zeros(1, SIZES[0]), ignore_dims=[0])
        package("snntorch.utils").reset(model)
        theirs = torch.stack([model(x) for x in torch.from_numpy(inputs())]).numpy()
    words = f"`{name}`, reset {reset}" + ("" if late else ", `reset_delay=False`")
    early = LOST if reset == "subtract" else "snntorch-zero-early"
    return Case("snnTorch", words, f"snntorch-{reset}" if late else early, graph, theirs)


def norse_cases() -> Iterator[Case]:
    import torch

    norse = package("norse.torch")
    for name, scale in (("LIFCell", 0.6), ("LIFBoxCell", 4.0), ("IAFCell", 0.4)):
        model = norse.SequentialState(*stack(lambda size, name=name: getattr(norse, name)(), scale))
        state, out = None, []
        with torch.no_grad():
            for x in torch.from_numpy(inputs()):
                y, state = model(x, state)
                out.append(y)
        graph = norse.to_nir(model, torch.zeros(1, SIZES[0]))
        yield Case("Norse", f"`{name}`", "norse", graph, torch.stack(out).numpy())


def sinabs_cases() -> Iterator[Case]:
    default, off, on = "sinabs", "sinabs-unnormalized", "sinabs-normalized"
    forms: tuple[tuple[str, dict[str, Any], str, float], ...] = (
        ("LIF", {"tau_mem": 20.0}, default, 4.0),
        ("LIF", {"tau_mem": 20.0, "norm_input": False}, off, 0.4),
        ("IAF", {}, default, 0.3),
        ("ExpLeak", {"tau_mem": 10.0}, default, 0.5),
        ("ExpLeak", {"tau_mem": 10.0, "norm_input": True}, on, 2.0),
        ("LIF", {"tau_mem": 20.0, "tau_syn": 10.0}, LOST, 4.0),
        ("IAF", {"min_v_mem": -0.1}, LOST, 0.3),
    )
    for name, options, mend, scale in forms:
        yield sinabs_case(name, options, mend, scale)


def sinabs_case(name: str, options: dict[str, Any], mend: str, scale: float) -> Case:
    import torch

    layers, exporter = package("sinabs.layers"), package("sinabs.nir")
    model = stack(lambda size: getattr(layers, f"{name}Squeeze")(batch_size=BATCH, **options), scale)
    with torch.no_grad():
        flat = torch.from_numpy(inputs()).transpose(0, 1).flatten(0, 1)
        theirs = model(flat).unflatten(0, (BATCH, STEPS)).transpose(0, 1).numpy()
    for layer in (model[1], model[3]):
        layer.reset_states()
    said = ", ".join(f"`{key}={value}`" for key, value in options.items() if key != "tau_mem")
    graph = exporter.to_nir(model, torch.zeros(BATCH, SIZES[0]))
    return Case("Sinabs", f"`{name}`" + (f", {said}" if said else ""), mend, graph, theirs)


def spikingjelly_cases() -> Iterator[Case]:
    import torch

    jelly = package("spikingjelly.activation_based")
    exchange = package("spikingjelly.activation_based.nir_exchange")
    forms: tuple[tuple[str, dict[str, Any], float], ...] = (
        ("IFNode", {"v_reset": -0.25}, 0.5),
        ("LIFNode", {"tau": 4.0, "decay_input": False}, 0.5),
        ("CUBALIFNode", {"c_decay": 0.5, "v_decay": 0.75}, 0.5),
    )
    for name, options, scale in forms:
        model = stack(lambda size, n=name, o=options: getattr(jelly.neuron, n)(**o), scale, jelly.layer.Linear)
        for layer in (model[0], model[2]):  # a coarse grid, so that the threshold is met exactly
            layer.weight.data = torch.round(layer.weight.data * 4) / 4
        graph = exchange.export_to_nir(model, torch.zeros(1, SIZES[0]))
        jelly.functional.reset_net(model)
        with torch.no_grad():
            theirs = torch.stack([model(x) for x in torch.from_numpy(inputs())]).numpy()
        said = ", ".join(f"`{key}={value}`" for key, value in options.items())
        yield Case("spikingjelly", f"`{name}`, {said}", "spikingjelly", graph, theirs)


def rockpool_cases() -> Iterator[Case]:
    import torch

    modules, exporter = package("rockpool.nn.modules.torch"), package("rockpool.nn.modules.torch.nir")
    combinators = package("rockpool.nn.combinators")
    forms: tuple[tuple[str, dict[str, Any], str, float], ...] = (
        ("LIFTorch", {"tau_mem": 0.02, "tau_syn": 0.01, "dt": 2e-3}, "rockpool", 0.1),
        ("LIFNeuronTorch", {"tau_mem": 0.02, "dt": 2e-3}, "rockpool", 0.3),
        ("ExpSynTorch", {"tau": 0.01, "dt": 2e-3}, "rockpool", 0.3),
        ("LIFTorch", {"tau_mem": 0.02, "tau_syn": 0.01, "dt": 2e-3, "bias": 0.1}, LOST, 0.1),
    )
    for name, options, mend, scale in forms:
        layers = []
        for k, size in enumerate(SIZES[1:]):
            layers.append(modules.LinearTorch((SIZES[k], size), weight=weights(k, scale).T.contiguous()))
            layers.append(getattr(modules, name)(size, **options))
        model = combinators.Sequential(*layers)
        with torch.no_grad():
            theirs = model(torch.from_numpy(inputs()).transpose(0, 1).contiguous())[0].transpose(0, 1).numpy()
        model.reset_state()
        said = ", with a bias" if "bias" in options else ""
        yield Case("Rockpool", f"`{name}`{said}", mend, exporter.to_nir(model, torch.zeros(1, 1, SIZES[0])), theirs)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "snntorch": snntorch_cases,
    "norse": norse_cases,
    "sinabs": sinabs_cases,
    "spikingjelly": spikingjelly_cases,
    "rockpool": rockpool_cases,
}
