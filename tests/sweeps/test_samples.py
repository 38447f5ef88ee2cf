"""A batch over processes and over the workers of a cluster: the recording of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import UsageError
from nirbridge.simulators.types import Recording
from nirbridge.testing.examples import example_inputs, example_networks


def assert_equal(found: Recording, wanted: Recording) -> None:
    assert list(found.arrays) == list(wanted.arrays)
    for key, array in found.arrays.items():
        assert (array.dtype, array.shape) == (wanted.arrays[key].dtype, wanted.arrays[key].shape)
        assert np.ascontiguousarray(array).tobytes() == np.ascontiguousarray(wanted.arrays[key]).tobytes()
        assert not array.flags.writeable
    assert found.meta == wanted.meta


def test_processes_give_the_recording_of_one() -> None:
    network = example_networks()[0]
    inputs = example_inputs(network, 5)
    record = ["*:s", "*:count"]
    assert_equal(nb.simulate(network, inputs, record=record, jobs=2), nb.simulate(network, inputs, record=record))
    mapped = nb.map(network, "loihi2", effort="fast")
    wanted = nb.simulate(mapped, inputs)
    assert wanted.arrays[next(iter(wanted.arrays))].any()
    assert_equal(nb.simulate(mapped, inputs, jobs=2), wanted)


@pytest.mark.filterwarnings("ignore")  # of the cluster, which is not ours
def test_workers_of_a_cluster_give_the_recording_of_one_process() -> None:
    from distributed import LocalCluster

    network = example_networks()[0]
    inputs = example_inputs(network, 5)
    options: dict[str, Any] = {
        "host": "127.0.0.1",
        "dashboard_address": None,
        "silence_logs": 50,
        "processes": False,
        "protocol": "tcp",
    }
    with LocalCluster(n_workers=1, threads_per_worker=2, **options) as cluster:
        found = nb.simulate(network, inputs, backend="fixed", chip="loihi2", scheduler=cluster.scheduler_address)
    assert_equal(found, nb.simulate(network, inputs, backend="fixed", chip="loihi2"))


def test_splits_that_make_no_sense(tmp_path: Path) -> None:
    network = example_networks()[0]
    with pytest.raises(UsageError, match="jobs: 4 for 3 samples, a process takes at least one sample; give 3"):
        nb.simulate(network, example_inputs(network, 3), jobs=4)
    with pytest.raises(UsageError, match="jobs: 2 for 1 sample"):
        nb.simulate(network, example_inputs(network), jobs=2)
    (name,) = example_inputs(network, 3)
    inputs = {name: lambda start, stop: np.zeros((stop - start, 3, *network.inputs[0].shape))}
    with pytest.raises(UsageError, match="is a function, which is called in one process"):
        nb.simulate(network, inputs, jobs=2, steps=4)
    with pytest.raises(UsageError, match="an integer from 1"):
        nb.simulate(network, example_inputs(network, 3), jobs=0)
