"""Summaries of every stage for six models on three chips, and digests of their files.

``python -m tests.golden`` writes them again, after a change of meaning or of words that is meant; the difference
of the files then shows it.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nirbridge as nb
from nirbridge.mapping.storage.file import map_bytes, map_to_dict
from nirbridge.program.step import step_program
from nirbridge.program.text import program_text
from tests.golden.models import CHIPS, MODELS, inputs_of, network_of

KNOWN = Path(__file__).parent / "known"
DIGESTS = KNOWN / "digests.json"
VERSIONS = ("versions", "choices", "backend", "kernel", "reading")
"""Keys of a recording's meta that depend on what is installed, and the reading of the data in words."""


def texts_of(name: str) -> str:
    """The summaries of every stage for one model."""
    return "\n".join(f"{'=' * 20} {heading}\n{text.rstrip()}\n" for heading, text in _stages(name))


def digests_of(name: str) -> dict[str, str]:
    """SHA-256 of what the files of every stage hold, for one model."""
    return dict(_digests(name))


def _stages(name: str) -> Iterator[tuple[str, str]]:
    network = network_of(name)
    inputs = inputs_of(network)
    reference = nb.simulate(network, inputs)
    yield "network", network.summary()
    yield "reference", reference.summary()
    for chip, place in CHIPS.items():
        yield f"{chip}: fit", _said(lambda place=place: nb.check_fit(network, place))
        yield f"{chip}: map", _said(lambda place=place: nb.map(network, place))
        try:
            quantized = nb.quantize(network, place)
        except nb.errors.NirbridgeError as error:
            yield f"{chip}: integers", f"{type(error).__name__}: {error}"
            continue
        yield f"{chip}: integers", quantized.summary()
        fixed = nb.simulate(quantized, inputs, drain=False)
        yield f"{chip}: run", fixed.summary()
        yield f"{chip}: comparison", nb.compare(reference, fixed).summary()
        yield f"{chip}: verification", nb.verify(network, place, inputs).summary()


def _said(make: Callable[[], Any]) -> str:
    try:
        return make().summary()
    except nb.errors.NirbridgeError as error:
        return f"{type(error).__name__}: {error}"


def _digests(name: str) -> Iterator[tuple[str, str]]:
    network = network_of(name)
    inputs = inputs_of(network)
    every = [nb.Probe("*", ("s", "v"))]
    yield "reference", _archive(nb.simulate(network, inputs, record=every))
    yield "program", _program(network)
    for chip, place in CHIPS.items():
        mapped = nb.map(network, place)
        yield f"{chip}: map", _map(mapped)
        try:
            quantized = nb.quantize(network, place)
        except nb.errors.UsageError:  # a chip without number formats
            continue
        yield f"{chip}: integers", _archive(quantized)
        yield f"{chip}: program", _program(quantized)
        yield f"{chip}: fixed", _archive(nb.simulate(quantized, inputs, record=every, drain=False))
        yield f"{chip}: mapped", _archive(nb.simulate(mapped, inputs, record=every, drain=False))


def _program(model: nb.Network | nb.QuantizedNetwork) -> str:
    """The text of one time step; arrays are in it by their digests."""
    return hashlib.sha256(program_text(step_program(model))[0].encode()).hexdigest()


def _map(mapped: nb.MappedNetwork) -> str:
    document = map_to_dict(mapped, "model.nir", "0" * 64)
    return hashlib.sha256(map_bytes({k: v for k, v in document.items() if k != "nirbridge"})).hexdigest()


def _archive(value: Any) -> str:
    """Over the members of an archive as they are unpacked: a library that packs in another way changes nothing."""
    import tempfile

    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("value.q.npz" if isinstance(value, nb.QuantizedNetwork) else "value.npz")
        nb.save(value, path)
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                digest.update(member.encode())
                digest.update(_content(member, archive.read(member)))
    return digest.hexdigest()


def _content(member: str, data: bytes) -> bytes:
    import numpy as np

    text = np.load(io.BytesIO(data)) if member == "meta.npy" else np.zeros(0)
    if text.dtype.kind != "U":  # other members, and that of quantized networks, say nothing of what is installed
        return data
    meta = json.loads(str(text))
    return json.dumps({k: v for k, v in meta.items() if k not in VERSIONS}, sort_keys=True).encode()


def write() -> None:
    """Every known text and digest, anew."""
    KNOWN.mkdir(exist_ok=True)
    for name in MODELS:
        (KNOWN / f"{name}.txt").write_text(texts_of(name), encoding="utf-8")
    digests = {name: digests_of(name) for name in MODELS}
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
