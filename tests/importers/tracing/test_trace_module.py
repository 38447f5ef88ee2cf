"""Modules that cannot be run or read: refused before anything is run, by every importer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError, UsageError
from nirbridge.importers import FRAMEWORKS, importer
from nirbridge.network import from_nir
from nirbridge.simulators.simulate import simulate

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of what the frameworks import
    for package in FRAMEWORKS:
        pytest.importorskip(package, reason=f"{package} is not installed")
    import sinabs.from_torch
    import sinabs.layers as sl
    import snntorch as snn
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")  # what the frameworks and torch.jit call deprecated is theirs


def imported(framework: str, module: Any, sample: Any = None, **options: Any) -> Any:
    more = {"calibration": torch.zeros(3, 12)} if framework == "torch" else {}
    return importer(framework)(module, torch.zeros(12) if sample is None else sample, **more, **options)


def small() -> Any:
    return nn.Sequential(nn.Linear(12, 8), snn.Leaky(beta=0.5, init_hidden=True))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_is_no_module_no_sample_or_no_dt_is_an_error_of_use(framework: str) -> None:
    for module in ("net", nn.Linear, None):
        with pytest.raises(UsageError, match=r"torch\.nn\.Module is needed"):
            imported(framework, module)
    with pytest.raises(UsageError, match="an empty tuple"):
        imported(framework, nn.Linear(12, 8), ())
    with pytest.raises(UsageError, match="a str, seconds per time step"):
        imported(framework, nn.Linear(12, 8), dt="1 ms")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_parameters_without_values_are_refused_and_stay_without(framework: str) -> None:
    lazy = nn.Sequential(nn.LazyLinear(8), nn.LazyLinear(3))
    with pytest.raises(ModelError, match=r"'0.weight', '0.bias', '1.weight', '1.bias': they have no values yet"):
        imported(framework, lazy)
    assert nn.parameter.is_lazy(lazy[0].weight)
    with pytest.raises(ModelError, match="device 'meta'"):
        imported(framework, nn.Linear(12, 8, device="meta"))


def test_half_precision_and_torchscript_are_refused() -> None:
    for number_format in (torch.float16, torch.bfloat16):
        with pytest.raises(ModelError, match=r"call module.float\(\)"):
            imported("snntorch", small().to(number_format))
    with pytest.raises(ModelError, match="TorchScript"):
        imported("snntorch", torch.jit.script(nn.Linear(12, 8)))


def test_float64_parameters_are_read_as_float32_which_a_note_says() -> None:
    plain = small()
    double: Any = nn.Sequential(nn.Linear(12, 8).double(), snn.Leaky(beta=0.5, init_hidden=True))
    double[0].load_state_dict(plain[0].state_dict())
    graph = imported("snntorch", double)
    assert "its float64 parameters are rounded to float32" in graph.metadata["nirbridge:notes"]
    assert double[0].weight.dtype == torch.float64
    fed = np.random.default_rng(0).integers(0, 2, (20, 2, 12)).astype(np.float32)
    found, wanted = (
        simulate(from_nir(g), fed).recording.arrays["output", "s"] for g in (graph, imported("snntorch", plain))
    )
    assert wanted.any()
    assert (found == wanted).all()


def test_counters_of_sinabs_and_tensors_kept_deep_inside_are_no_hindrance() -> None:
    ann = nn.Sequential(nn.Linear(12, 8), nn.ReLU())
    options: Any = {"min_v_mem": None, "synops": True, "add_spiking_output": False}
    network = sinabs.from_torch.from_model(ann, batch_size=4, **options)
    inputs = torch.randint(0, 2, (40, 12)).float()
    network(inputs)
    hooks = [len(m._forward_hooks) for m in network.modules()]
    graph = imported("sinabs", network)
    assert hooks == [len(m._forward_hooks) for m in network.modules()]
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, sl.StatefulLayer):
                layer.reset_states()
        wanted = network(inputs).unflatten(0, (4, 10)).transpose(0, 1).numpy()
    fed = inputs.unflatten(0, (4, 10)).transpose(0, 1).numpy()
    assert wanted.any()
    assert (simulate(from_nir(graph), fed).recording.arrays["output", "s"] == wanted).all()
