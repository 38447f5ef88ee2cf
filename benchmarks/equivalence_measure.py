"""One row of the equivalence page: the original compared with the reference simulator and other tools' readers."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.equivalence_causes import causes
from benchmarks.equivalence_model import SEEDS, Model, fill, quiet, spikes
from benchmarks.equivalence_rivals import IMPORTERS, Failed, rerun
from nirbridge.arrays import Array
from nirbridge.errors import ModelError
from nirbridge.importers import importer, load_nir, save_nir
from nirbridge.importers.frameworks import framework_of
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate

QUIETEST, LIVELIEST, HIGHEST = 0.005, 0.97, 100
"""Share of output cells that fire: outside of these, a row would compare silence with silence. And most spikes of a
cell in a step: beyond it float32 has no room for the grid."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one program makes of the file: ``equal`` of ``cells`` outputs, or in words why there are none.

    ``worst``: the largest difference of a readout. ``causes``: known reasons for what is not equal.
    """

    equal: int = 0
    cells: int = 0
    worst: float = 0.0
    reason: str = ""
    causes: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Equal outputs, 0 to 1."""
        return self.equal / self.cells if self.cells else 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """A model and what was found. ``fired``: output cells of the original that are not 0; ``span``: of a readout."""

    model: Model
    spikes: int
    fired: int
    span: float
    reference: Cell
    others: Mapping[str, Cell]


def measure(model: Model, *, grid: bool = True, others: bool = True) -> Row:
    """The row of a model.

    Raises:
        ValueError: the original is silent, or fires everywhere: the row would say nothing.
        ModelError: a model that has a form is refused.
    """
    if model.is_refused:
        return _refused(model)
    tools = tuple(IMPORTERS) if others else ()
    reference, found = Cell(), dict.fromkeys(tools, Cell())
    total = fired = 0
    span = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            path = Path(folder) / f"{seed}.nir"
            wanted, network, inputs = _original(model, seed, path, grid)
            reference = _joined(reference, _compared(wanted, _ours(network, inputs), model))
            for tool in tools:
                found[tool] = _joined(found[tool], _theirs(tool, path, network, inputs, wanted, model))
            values = list(wanted.values())
            _check_lively(model, values, seed)
            total += sum(int(v.sum(dtype=np.float64)) for v in values) if model.kind == "spikes" else 0
            fired += sum(int(np.count_nonzero(v)) for v in values)
            span = max(span, *(float(np.ptp(v)) for v in values))
    return Row(model, total, fired, span, reference, found)


def _refused(model: Model) -> Row:
    try:
        with quiet():
            _imported(model, model.make())
    except ModelError as error:
        problem = error.problems[0]
        return Row(model, 0, 0, 0.0, Cell(reason=f"{problem.found}; {problem.hint}"), {})
    raise ValueError(f"{model.framework}, {model.name}: it was to be refused, and is not")


def _imported(model: Model, module: Any) -> Any:
    import torch

    samples = tuple(torch.zeros(1, *shape) for shape in model.shapes)
    sample = model.sample() if model.sample else samples if len(samples) > 1 else samples[0]
    options: dict[str, Any] = {} if model.dt is None else {"dt": model.dt}
    options |= {"accept": model.accept} if model.accept else {}
    name = model.framework.lower()
    return importer(framework_of(module) or name if name == "torch" else name)(module, sample, **options)


def _original(model: Model, seed: int, path: Path, grid: bool) -> tuple[dict[str, Array], Any, tuple[Array, ...]]:
    """(outputs of the module by output name, the network of the file that was written, the inputs)."""
    import torch

    inputs = spikes(model, seed)
    with quiet(), torch.no_grad():
        torch.manual_seed(seed)
        module = model.make().eval()
        if not model.is_filled:
            fill(module, model.scale, seed, grid=grid)
        save_nir(_imported(model, module), path)
        network = from_nir(load_nir(path))
        found = model.run(module, tuple(torch.from_numpy(v) for v in inputs))
    return _by_name(found, [p.name for p in network.outputs]), network, inputs


def _by_name(found: Any, names: list[str]) -> dict[str, Array]:
    """Outputs of a module under the names that the importer gives them."""
    if not isinstance(found, dict | tuple):
        return {names[0]: found.numpy()}
    pairs = found.items() if isinstance(found, dict) else enumerate(found)
    values = {f"output_{key}": v.numpy() for key, v in pairs}
    assert sorted(values) == sorted(names), (sorted(values), names)
    return values


def _ours(network: Any, inputs: tuple[Array, ...]) -> dict[str, Array]:
    pairs = zip(network.inputs, inputs, strict=True)
    fed = {port.name: array.reshape(*array.shape[:2], *port.shape) for port, array in pairs}
    return {node: array for (node, _), array in simulate(network, fed).recording.arrays.items()}


def _theirs(tool: str, path: Path, network: Any, inputs: tuple[Any, ...], wanted: Any, model: Model) -> Cell:
    import torch

    try:
        with torch.no_grad():
            found = rerun(tool, path, network.dt, tuple(torch.from_numpy(v) for v in inputs))
        cell = _compared(wanted, found, model)
    except Failed as error:
        return Cell(reason=str(error))
    return cell if cell.equal == cell.cells else Cell(cell.equal, cell.cells, cell.worst, "", causes(network, tool))


def _compared(wanted: dict[str, Array], found: Any, model: Model) -> Cell:
    if not isinstance(found, dict):
        if len(wanted) > 1:
            raise Failed("runs, with one output only")
        found = dict.fromkeys(wanted, found)
    equal = cells = 0
    worst = 0.0
    for name, array in wanted.items():
        other = np.asarray(found[name], np.float32)
        if other.shape != array.shape:
            raise Failed(f"runs, its output has shape {other.shape[2:]}, not {array.shape[2:]}")
        equal += int(np.count_nonzero(other == array))
        cells += array.size
        worst = max(worst, float(np.abs(other.astype(np.float64) - array).max()))
    return Cell(equal, cells, worst if model.kind == "potential" else 0.0)


def _joined(a: Cell, b: Cell) -> Cell:
    """Both, added up; a refusal of any is a refusal."""
    if a.reason or b.reason:
        return Cell(reason=a.reason or b.reason)
    known = tuple(dict.fromkeys((*a.causes, *b.causes)))
    return Cell(a.equal + b.equal, a.cells + b.cells, max(a.worst, b.worst), "", known)


def _check_lively(model: Model, values: list[Array], seed: int) -> None:
    for array in values:
        share = float(np.count_nonzero(array)) / array.size
        if model.kind == "spikes" and not QUIETEST < share < LIVELIEST:
            raise ValueError(f"{model.framework}, {model.name}, seed {seed}: {share:.1%} of its outputs are not 0")
        if float(np.abs(array).max()) > HIGHEST:
            raise ValueError(f"{model.framework}, {model.name}, seed {seed}: outputs up to {np.abs(array).max():g}")
