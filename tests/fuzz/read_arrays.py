"""Readers of arrays: inputs, recordings, rates, calibration data, labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from nirbridge import pipeline
from nirbridge.errors import UsageError
from nirbridge.simulators.simulate import Recording
from tests.fuzz import models
from tests.fuzz.archives import mutate_array, mutate_npz, npy, npz
from tests.fuzz.choices import Choices
from tests.fuzz.shown import page, shown
from tests.fuzz.values import mutate_json


def make_npy(c: Choices) -> bytes:
    """An array for one input."""
    return mutate_array(next(iter(models.inputs().values())).astype(c.pick(("u1", "<f4", "<f8", "|b1"))), c)


def read_npy(path: Path) -> object:
    """As ``simulate --input`` does with one array, for a network of one input."""
    network = models.network()
    one = replace(
        network, inputs=network.inputs[:1], projections=tuple(p for p in network.projections if p.source != "more")
    )
    return pipeline.simulate_network(one, pipeline.load_inputs(path), backend="auto")


def make_npz(c: Choices) -> bytes:
    """Arrays for all inputs."""
    return mutate_npz(models.inputs(), c)


def read_npz(path: Path) -> object:
    """As ``simulate --input`` does with arrays by name."""
    return pipeline.simulate_network(models.network(), pipeline.load_inputs(path), backend="auto")


def make_recording(c: Choices) -> bytes:
    """A recording; its description is changed as JSON."""
    arrays = dict(models.recording_arrays())
    if c.chance(3):
        document = json.loads(str(arrays["meta"]))
        for _ in range(c.several(2)):
            document = mutate_json(document, c)
        arrays["meta"] = np.array(json.dumps(document))
        return npz([(f"{name}.npy", npy(a)) for name, a in arrays.items()])
    return mutate_npz(arrays, c)


def read_recording(path: Path) -> object:
    """As ``compare``, ``show``, ``diff`` and ``report --recording`` do."""
    from nirbridge.report.compare import compare_document, compare_text

    found = pipeline.load_recording(path)
    shown(pipeline.SavedFile("recording", found))
    page(recordings={"r.npz": found})
    good = models.recording_arrays()
    arrays = {(k.rpartition("/")[0], k.rpartition("/")[2]): a for k, a in good.items() if k != "meta"}
    other = Recording(arrays, json.loads(str(good["meta"])))
    compared = pipeline.compare_recordings(found, other, latency="auto")
    return compare_text(compared), compare_document(compared, "a", "b"), pipeline.compare_recordings(found, other)


def make_rates(c: Choices) -> bytes:
    """Rates of some populations and inputs."""
    return mutate_npz({"in": np.full(5, 0.1), "a": np.float64(0.02), "b": np.full(3, 0.5, np.float32)}, c)


def read_rates(path: Path) -> object:
    """As ``map --rates`` does."""
    return pipeline.load_rates(path, models.network())


def make_calibration(c: Choices) -> bytes:
    """Data for ``quantize --calibrate`` or, without time steps, for ``import --calibrate``."""
    given = models.inputs()
    return mutate_npz({**given, "labels": np.array([0, 2])} if c.chance(2) else {n: a[0] for n, a in given.items()}, c)


def read_calibration(path: Path) -> object:
    """As ``import --calibrate`` does, and, where that refuses it, as ``quantize --calibrate`` does."""
    from nirbridge.cli.options import importer_arguments
    from nirbridge.importers.ann.data import calibration_arrays
    from nirbridge.pipeline.calibrated import calibration_data, observe_reference

    network = models.network()
    given = importer_arguments("torch", {"calibration": str(path)})["calibration"]
    try:
        return calibration_arrays(given, network.inputs)
    except UsageError:
        return observe_reference(network, calibration_data(network, pipeline.load_inputs(path)))


def make_labels(c: Choices) -> bytes:
    """The right class of each sample."""
    return mutate_array(np.array([0, 2]), c)


def read_labels(path: Path) -> object:
    """As ``compare --labels`` does."""
    good = models.recording_arrays()
    arrays = {(k.rpartition("/")[0], k.rpartition("/")[2]): a for k, a in good.items() if k != "meta"}
    both = Recording(arrays, json.loads(str(good["meta"])))
    return pipeline.compare_recordings(both, both, labels=pipeline.load_labels(path))
