"""Rows of converted ANNs: decisions of trained networks, from spikes and from the original values."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.equivalence_causes import causes
from benchmarks.equivalence_measure import Cell, Row
from benchmarks.equivalence_model import Model, quiet, whole
from benchmarks.equivalence_rivals import IMPORTERS, Failed, rerun
from nirbridge.arrays import Array
from nirbridge.importers import from_torch, load_nir, save_nir
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import Probe, simulate

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
STEPS = 64
_NETS = {"cnn": "CNN (BatchNorm, ReLU, AvgPool)", "residual": "residual CNN"}


def rows(*, others: bool = True) -> Iterator[Row]:
    """One row for each of the trained networks: decisions on scikit-learn's digits, beside the ANN's own."""
    for model, title in _NETS.items():
        yield _row(model, title, others=others)


def names() -> tuple[str, ...]:
    """The rows, without running them."""
    return tuple(f"converted {title}" for title in _NETS.values())


def _row(name: str, title: str, *, others: bool) -> Row:
    import torch

    net, images, test, labels = _trained(name)
    with quiet(), torch.no_grad():
        wanted = net(torch.from_numpy(test)).numpy().argmax(1)
        network = from_nir(from_torch(net, images[:1], images))
    record = [
        Probe("output_readout", ("v",)),
        *(Probe(p.name, ("s",)) for p in network.populations if p.neuron.fires),
    ]
    fed = np.broadcast_to(test, (STEPS, *test.shape))
    arrays = simulate(network, fed, record=record).recording.arrays
    found = arrays["output_readout", "v"][-1].argmax(1)
    total = sum(int(array.sum(dtype=np.float64)) for (_, variable), array in arrays.items() if variable == "s")
    fired = sum(int(np.count_nonzero(array)) for (_, variable), array in arrays.items() if variable == "s")
    before, after = float(np.mean(wanted == labels)), float(np.mean(found == labels))
    reason = (
        f"decisions of {len(test)} test images after {STEPS} time steps; "
        "spike rates represent values, exactly in the limit;"
        f" accuracy {before:.2%} as ANN, {after:.2%} as spikes"
    )
    model = Model("torch", f"converted {title}", lambda: net, whole, kind="decisions", is_exact=False, reason=reason)
    cells = _others(net, images, test, wanted) if others else {}
    return Row(model, total, fired, 0.0, Cell(int(np.sum(found == wanted)), len(wanted)), cells)


def _trained(name: str) -> tuple[Any, Array, Array, Array]:
    """(the network in eval mode, training images, test images, labels)."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import train_digits_ann as digits_ann
    finally:
        sys.path.remove(str(EXAMPLES))
    net, _ = digits_ann.load(EXAMPLES / "models" / f"digits_ann_{name}.npz")
    images, _, test, labels = (tensor.numpy() for tensor in digits_ann.images_as_tensors())
    return net, images, test, labels


def _others(net: Any, images: Array, test: Array, wanted: Array) -> dict[str, Cell]:
    """The network that answers in spikes, in other tools."""
    import torch

    graph = from_torch(net, images[:1], images, readout="spikes")
    fed = torch.from_numpy(np.broadcast_to(test, (STEPS, *test.shape)).copy())
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "net.nir"
        save_nir(graph, path)
        network = from_nir(load_nir(path))
        return {tool: _theirs(tool, path, network, fed, wanted) for tool in IMPORTERS}


def _theirs(tool: str, path: Path, network: Any, fed: Any, wanted: Array) -> Cell:
    try:
        counts = np.asarray(rerun(tool, path, network.dt, (fed,)).sum(0))
    except Failed as error:
        return Cell(reason=str(error))
    if counts.shape[1:] != (10,):
        return Cell(reason=f"runs, its output has shape {counts.shape[1:]}, not (10,)")
    found = counts.argmax(1)
    return Cell(int(np.sum(found == wanted)), len(wanted), causes=causes(network, tool))
