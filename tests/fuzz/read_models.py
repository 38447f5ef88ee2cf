"""Readers of models, chips, maps and quantized networks: generation of inputs, and reading."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nirbridge import pipeline
from nirbridge.errors import NirbridgeError, UsageError
from tests.fuzz import models
from tests.fuzz.archives import mutate_npz, npy, npz
from tests.fuzz.choices import Choices
from tests.fuzz.hdf5 import mutate_hdf5
from tests.fuzz.shown import page, shown
from tests.fuzz.values import json_bytes, mutate_bytes, mutate_json, resize

if TYPE_CHECKING:
    from nirbridge.files.npy import RecordFormat

RUN_MAX = 100_000
"""Neurons, inputs and outputs of a network that is run."""

# -- models ----------------------------------------------------------------------------------------------------------


def make_nir(c: Choices) -> bytes:
    """A ``.nir`` file."""
    return mutate_hdf5(c.pick(models.nir_images()), c)


def read_nir(path: Path) -> object:
    """As every command reads a model, with what ``inspect`` says of it."""
    from nirbridge.importers.nirfile.reader import load_repaired
    from nirbridge.importers.nirfile.repairs import REPAIRS, repair_graph
    from nirbridge.network import from_nir, to_nir

    graph, _ = load_repaired(path)
    network = from_nir(graph)
    names = (*REPAIRS, "batch-axis", "zero-dimensional")
    with contextlib.suppress(NirbridgeError):  # a repair may not fit
        repair_graph(graph, [names[path.stat().st_size % len(names)]])
    return to_nir(network), pipeline.file_sha256(path)


LINES = (
    "2x8x8 conv4k3s1p1 if sumpool2 avgpool2 conv6k2x1g2d1 lif:rec flatten dense10 li",
    "2x34x34 conv16k5s2p1 if sumpool2 flatten dense10 lif",
    "784 dense100 cubalif:rec dense10 threshold",
    "2x40 conv8k5s2 lif avgpool2 flatten dense3 li",
)


def make_shapes(c: Choices) -> str:
    """A line of shapes."""
    words = c.pick(LINES).split()
    for _ in range(c.several(4)):
        at, kind = c.below(len(words) or 1), c.below(8)
        if kind < 2 and words:
            del words[at]
        elif kind == 2 and words:
            words[at] = (
                c.pick(("conv", "dense", "sumpool", "avgpool", "if", "2x", "")) + _digits(c) + words[at][c.below(9) :]
            )
        elif kind < 5 and words:
            words[at] = re.sub("[0-9]+", lambda n: c.pick((n[0], "1", "2", "3", "0", "8", "77", "99999999")), words[at])
        elif kind == 5:
            words.insert(at, c.pick(("cubalif", "threshold", "if:rec", "dense" + _digits(c), "flatten", _digits(c))))
        else:
            return mutate_bytes(" ".join(words).encode(), c).decode("utf-8", "replace")
    return " ".join(words)


def read_shapes(text: str) -> object:
    """As ``check --shapes`` does."""
    return pipeline.network_of_shapes(text)


def _digits(c: Choices) -> str:
    return c.pick(
        ("", "0", "1", "2x3", "3s2p1", "16k3", "100000000", "999999999999", "1x1x1x1", "k0", "k3g3", "-1", "٣")
    )


# -- maps, integers, chips -------------------------------------------------------------------------------------------


def make_map(c: Choices) -> bytes:
    """A map file."""
    if c.chance(10):
        return mutate_bytes(models.map_text().encode(), c)
    document = json.loads(models.map_text())
    if c.chance(3):
        _reorder(document, c)
    for _ in range(c.several(3)):
        document = mutate_json(document, c)
    return json_bytes(document)


def _reorder(document: dict[str, Any], c: Choices) -> None:
    """Orders of neurons: permutations, mostly, of populations that the map knows."""
    document["schema"] = 2
    for population in document["populations"]:
        left = list(range(population["neurons"] + c.chance(8)))
        order = [left.pop(c.below(len(left))) for _ in range(len(left))]
        population["order"] = mutate_json(order, c) if c.chance(8) else order


def read_map(path: Path) -> object:
    """As ``check --map``, ``show``, ``diff`` and ``report --map`` do."""
    shown(pipeline.load_saved(path))
    problems = pipeline.check_map(path, models.network(), models.sha256(), models.chip())
    if problems:
        raise UsageError(*problems)
    page(mapped=pipeline.load_mapped(path, models.network(), models.sha256(), models.chip()))
    return problems


def make_quantized(c: Choices) -> bytes:
    """A ``.q.npz`` file, mostly with the digest that belongs to its content."""
    from nirbridge.quantization.storage.file import FORMAT, quantized_to_dict

    return _record_file(FORMAT, *quantized_to_dict(models.quantized()), c)


def make_network(c: Choices) -> bytes:
    """A ``.net.npz`` file, mostly with the digest that belongs to its content."""
    from nirbridge.network.storage.file import FORMAT

    return _record_file(FORMAT, *models.sparse_network(), c)


def make_verification(c: Choices) -> bytes:
    """A verification, mostly with the digest that belongs to its content."""
    from nirbridge.verification.storage import FORMAT

    return _record_file(FORMAT, *models.verification(), c)


def make_state(c: Choices) -> bytes:
    """The state of a session, mostly with the digest that belongs to its content."""
    from nirbridge.simulators.state_file import FORMAT

    return _record_file(FORMAT, *models.state(), c)


def _record_file(form: RecordFormat, record: Any, arrays: dict[str, Any], c: Choices) -> bytes:
    from nirbridge.files.npy import digest_of

    record = json.loads(json.dumps(record))
    kind = c.below(8)
    if kind < 5:
        for _ in range(c.several(2)):
            record = mutate_json(record, c)
    elif kind == 5:
        name = c.pick(list(arrays))
        arrays = arrays | {name: _changed(arrays[name], c)}
    try:
        digest = digest_of(record, arrays)
    except (ValueError, TypeError):
        digest = "0" * 64
    header = {"schema": form.schema, "kind": form.kind, "digest": digest}
    whole = {**header, **(record if isinstance(record, dict) else {"x": record})}
    members = {"meta": np.frombuffer(json_bytes(whole), np.uint8), **arrays}
    if kind == 6:
        return mutate_npz(members, c)
    data = npz([(f"{name}.npy", npy(a)) for name, a in members.items()])
    return mutate_bytes(data, c) if kind == 7 else data


def _changed(array: Any, c: Choices) -> Any:
    """Another array of a type that the file may hold."""
    array = np.array(array).astype(c.pick((array.dtype, "<i8", "<f8", "|b1")))
    if array.size:
        with np.errstate(all="ignore"):
            value = np.float64(c.pick((-1, 0, 1, 2**31, 2**62, -(2**62), 0.5, float("nan"), float("inf"))))
            array.reshape(-1)[c.below(array.size)] = value.astype(array.dtype)
    return c.pick((array, array, array.reshape(-1), array[None], array.reshape(-1)[:1]))


def read_quantized(path: Path) -> object:
    """A file that is not refused has to run and to be emitted."""
    from nirbridge.emitters.lava.emit import emit
    from nirbridge.quantization.storage.file import read_quantized
    from nirbridge.simulators.fixed.simulate import simulate_fixed

    quantized = read_quantized(path)
    shown(pipeline.SavedFile("quantized", quantized))
    page(quantized=quantized)
    given = {p.name: np.zeros((2, *p.shape), np.uint8) for p in quantized.inputs}
    simulate_fixed(quantized, given, backend="reference")
    return emit(quantized)


def read_verification(path: Path) -> object:
    """As ``show``, ``diff``, ``verify --json`` and ``report --verify`` do."""
    saved = pipeline.load_saved(path)
    shown(saved)
    page(quantized=models.quantized(), verification=saved.value)
    return saved


def read_state(path: Path) -> object:
    """As ``Session.resume`` does: a state that is not refused is one that the session goes on from."""
    import nirbridge as nb

    session = nb.open(models.network(), backend="numpy")
    session.resume(path)
    with np.errstate(all="ignore"):
        session.run({name: values[:2] for name, values in models.inputs().items()})
        session.step({name: values[0] for name, values in models.inputs().items()})
    return session.state()


def read_network(path: Path) -> object:
    """As every command reads a model: a network that is not refused is shown, saved again and run."""
    from nirbridge.network.storage.file import network_from_dict, network_to_dict
    from nirbridge.report.inspect import inspect_file, inspect_text

    network = pipeline.load_network(path)
    inspect_text(inspect_file(str(path), pipeline.Timing()))
    shown(pipeline.SavedFile("network", network))
    again = network_from_dict(*network_to_dict(network))
    assert network_to_dict(again)[0] == network_to_dict(network)[0]
    if sum(x.size for x in (*network.inputs, *network.populations, *network.outputs)) > RUN_MAX:
        return network
    with np.errstate(all="ignore"):
        return pipeline.simulate_network(
            network, {p.name: np.ones((2, *p.shape), np.uint8) for p in network.inputs}, backend="auto"
        )


def make_mlir(c: Choices) -> bytes:
    """A module of snn-mlir: extents of types, lines and bytes are changed."""
    text = models.mlir_text()
    if c.chance(4):
        return mutate_bytes(text.encode(), c)
    for _ in range(c.several(3)):
        kind, lines = c.below(4), text.split("\n")
        at = c.below(len(lines))
        if kind < 2:
            extents = [*re.finditer(r"\d+(?=x)", text)]
            match = c.pick(extents)
            size = c.pick(("0", "1", "2", "5", "12", "1000", "20000", "99999999", "999999999999"))
            old, new = match[0] + "x", size + "x"
            text = text.replace(old, new) if c.chance(2) else text[: match.start()] + size + text[match.end() :]
        elif kind == 2:
            lines.insert(c.below(len(lines)), lines.pop(at))
            text = "\n".join(lines)
        else:
            text = re.sub(
                r"dense<\[.*\]>", f"dense<{c.pick(('0.5', '1.0e99', 'nan', '[]', '0'))}>", text, count=1 + c.below(3)
            )
    return text.encode()


def make_dialect(c: Choices) -> bytes:
    """A module of the dialect: tokens of one sort are exchanged, once or everywhere, or bytes changed."""
    text = models.dialect_text()
    if c.chance(6):
        return mutate_bytes(text.encode(), c)
    for _ in range(1 + c.below(3)):
        pattern = c.pick(
            (r"dense<[^<>\[]*>", r'"[^"\n]{1,20}"', r"array<i64[^>]*>", r"\b(?:f32|f64|i1|i64)\b", r"%\d+", r"\d+")
        )
        found = [*re.finditer(pattern, text.partition("{-#")[0])]
        if not found:
            continue
        match = c.pick(found)
        others = (
            *re.findall(pattern, text.partition("{-#")[0])[:40],
            "dense<-1>",
            "dense<0x7FF8000000000000>",
            "0",
            "999999999999",
        )
        new = c.pick(others)
        text = text.replace(match[0], new) if c.chance(2) else text[: match.start()] + new + text[match.end() :]
    return text.encode()


def read_mlir(path: Path) -> object:
    """As every command reads a ``.mlir`` file: a network that is not refused is shown and run."""
    network = pipeline.load_network(path)
    shown(pipeline.SavedFile("network", network))
    sizes = [x.size for x in (*network.inputs, *network.populations, *network.outputs)]
    if sum(sizes) * max(sizes) > RUN_MAX:
        return network
    with np.errstate(all="ignore"):
        given = {p.name: np.ones((2, *p.shape), np.uint8) for p in network.inputs}
        return pipeline.simulate_network(network, given, backend="auto")


def make_chip(c: Choices) -> bytes:
    """A chip file."""
    if c.chance(10):
        return mutate_bytes(models.toml(json.loads(models.chip_text())), c)
    record = json.loads(models.chip_text())
    if c.chance(3):
        resize(record, c)
        return models.toml(record)
    for _ in range(c.several(3)):
        record = mutate_json(record, c)
    return models.toml(record)


SWEEP: dict[str, Any] = {
    "models": ["a.nir", {"file": "./a.nir", "input": "r.npz"}],
    "chips": ["loihi1", "loihi2"],
    "bits": [4, 8],
    "objectives": ["cores", "latency"],
    "seeds": [0, 1],
    "effort": "fast",
    "input": "in.npz",
    "labels": "r.npz",
    "steps": 9,
    "samples": 2,
    "encoder": {"kind": "rate", "steps": 9},
}


def make_sweep(c: Choices) -> bytes:
    """The file of a sweep."""
    record: Any = json.loads(json.dumps(SWEEP))
    if c.chance(10):
        return mutate_bytes(models.toml(record), c)
    for _ in range(c.several(3)):
        record = mutate_json(record, c)
    return models.toml(record)


def read_sweep(path: Path) -> object:
    """As ``sweep --dry-run`` does: every file that is named is read for its digest."""
    from nirbridge.sweeps.plan import make_plan
    from nirbridge.sweeps.spec import load_spec
    from nirbridge.sweeps.table import plan_text

    plan = make_plan(load_spec(path))
    text = plan_text(plan)
    assert all(line.isprintable() for line in text.split("\n")), repr(text)[:160]
    return plan


def read_chip(path: Path) -> object:
    """A chip that is not refused is one that models can be held against."""
    chip = pipeline.load_chip(path)
    pipeline.load_chip(path, (0,))
    options = pipeline.MapOptions(effort="fast", method="sequential")
    return pipeline.check_fit(models.network(), chip, options)
