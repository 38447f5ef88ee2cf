"""The self-check detects wrong imports: graphs that were changed on purpose."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("snntorch")
from torch import nn  # noqa: E402

from benchmarks.equivalence_model import quiet  # noqa: E402
from nirbridge.errors import UnequalImport, UsageError  # noqa: E402
from nirbridge.importers import from_snntorch  # noqa: E402
from nirbridge.importers.frameworks.snntorch import neuron_specs  # noqa: E402
from nirbridge.verification.self_check import self_check  # noqa: E402

with quiet():
    import snntorch as snn

pytestmark = pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
KEY = "nirbridge:self_check"


def net(**options: Any) -> Any:
    torch.manual_seed(0)
    neuron = {"beta": 0.9, "init_hidden": True, **options}
    module = nn.Sequential(nn.Linear(12, 16), snn.Leaky(**neuron), nn.Linear(16, 4), snn.Leaky(**neuron))
    for weight in (p for p in module.parameters() if p.ndim == 2):
        weight.data *= 3  # so that most neurons fire
    return module


def outcome(graph: Any) -> dict[str, Any]:
    return json.loads(graph.metadata[KEY])


def checked(module: Any, graph: Any, sample: Any = None) -> dict[str, Any]:
    return self_check(module, torch.zeros(12) if sample is None else sample, graph, neuron_specs(), None)


def changed(graph: Any, change: Callable[[Any], None]) -> Any:
    other = copy.deepcopy(graph)
    change(other)
    return other


def test_a_right_import_is_identical_and_says_on_how_many_outputs() -> None:
    module = net()
    found = outcome(from_snntorch(module, torch.zeros(12)))
    assert (found["outcome"], found["inputs"], found["ties"]) == ("identical", 2, [])
    assert found["outputs"] == 3 * 32 * 4 * 4  # two inputs in float64, one in float32: steps x batch x neurons
    assert found["text"].startswith("identical on 1,536 outputs")
    assert outcome(from_snntorch(module, torch.zeros(12), check=5))["outputs"] == 6 * 32 * 4 * 4


def test_no_check_leaves_no_outcome_and_a_check_is_a_whole_number() -> None:
    assert KEY not in from_snntorch(net(), torch.zeros(12), check=0).metadata
    for wrong in (-1, 1.5, True):
        with pytest.raises(UsageError, match="check: .* a whole number from 0"):
            from_snntorch(net(), torch.zeros(12), check=wrong)  # pyright: ignore[reportArgumentType]


def _weight(graph: Any) -> None:
    graph.nodes["2"].weight[1, 3] += 1e-3


def _bias(graph: Any) -> None:
    graph.nodes["0"].bias[2] += 1e-3


def _decay(graph: Any) -> None:
    tau = graph.nodes["1"].tau
    tau[5] /= 1 - (1e-6 / 0.1)  # the decay 1 - dt / tau grows by 1e-6
    graph.nodes["1"].metadata.pop("nirbridge:decay", None)


def _threshold(graph: Any) -> None:
    graph.nodes["3"].v_threshold *= 1.05


def _reset(graph: Any) -> None:
    for name in ("1", "3"):
        graph.nodes[name].metadata["nirbridge:reset"] = "to-value"
    graph.metadata["nirbridge:reset"] = "to-value"


def _swapped(graph: Any) -> None:
    graph.nodes["0"].weight[[0, 1]] = graph.nodes["0"].weight[[1, 0]]


def _delay(graph: Any) -> None:
    import nir

    dt = graph.metadata["nirbridge:dt"]
    graph.nodes["late"] = nir.Delay(np.full(16, dt))
    graph.edges = [e for e in graph.edges if e != ("1", "2")] + [("1", "late"), ("late", "2")]


@pytest.mark.parametrize("change", [_weight, _bias, _decay, _threshold, _reset, _swapped, _delay])
def test_a_wrong_import_is_caught_with_the_place(change: Callable[[Any], None]) -> None:
    module = net()
    graph = from_snntorch(module, torch.zeros(12), check=0)
    assert checked(module, graph)["outcome"] == "identical"
    with pytest.raises(UnequalImport) as caught:
        checked(module, changed(graph, change))
    text = str(caught.value)
    assert re.search(r"time step \d+, sample \d, neuron \(\d+,\): .*the module gives", text)
    assert caught.value.exit_code == 1


def test_the_first_population_that_differs_is_named() -> None:
    module = net()
    graph = changed(from_snntorch(module, torch.zeros(12), check=0), _swapped)
    with pytest.raises(UnequalImport, match=r"the first population that differs: population '1', time step"):
        checked(module, graph)


# -- faults of importers that were silent once -----------------------------------------------------------------------


class BatchFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.lif = nn.Linear(6, 5), snn.Leaky(beta=0.8)

    def forward(self, x: Any) -> Any:
        mem, out = self.lif.init_leaky(), []
        for t in range(x.shape[1]):
            spikes, mem = self.lif(self.layer(x[:, t]), mem)
            out.append(spikes)
        return torch.stack(out)


class OneStep(BatchFirst):
    def forward(self, x: Any) -> Any:
        spikes, _ = self.lif(self.layer(x), torch.zeros(5))
        return spikes


def _last_row_alone() -> Any:
    """The graph of a misreading: an input of whole sequences, of which every time step hears the last row."""
    import nir

    right = from_snntorch(OneStepKept(), torch.zeros(6), check=0)
    weight = np.zeros((5, 7 * 6), np.float32)
    weight[:, -6:] = right.nodes["layer"].weight
    nodes = dict(right.nodes)
    nodes["input"] = nir.Input({"input": np.array([7, 6])})
    nodes["flat"] = nir.Flatten({"input": np.array([7, 6])}, 0, -1)
    nodes["layer"] = nir.Affine(weight, right.nodes["layer"].bias)
    edges = [("input", "flat"), ("flat", "layer"), *(e for e in right.edges if e[0] != "input")]
    return nir.NIRGraph(nodes, edges, metadata=right.metadata, type_check=False)


class OneStepKept(BatchFirst):
    def forward(self, x: Any) -> Any:
        spikes, self.mem = self.lif(self.layer(x), getattr(self, "mem", None))
        return spikes


@pytest.mark.parametrize("shape", [(4, 7, 6), (1, 7, 6), (7, 6)])
def test_a_batch_first_sequence_read_as_its_last_row_is_caught(shape: tuple[int, ...]) -> None:
    with pytest.raises(UnequalImport):
        checked(BatchFirst(), _last_row_alone(), torch.zeros(shape))


@pytest.mark.parametrize("shape", [(4, 7, 6), (7, 4, 6)])
def test_whole_sequences_are_compared_in_the_axes_that_the_module_means(shape: tuple[int, ...]) -> None:
    graph = from_snntorch(OneStepKept(), torch.zeros(6), check=0)
    found = checked(BatchFirst(), graph, torch.zeros(shape))
    assert "[batch, time, 6], one call" in found["text"]


class TimeInTheMiddle(torch.nn.Module):
    """Video: time after the channels, of the input and of the output."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.lif = torch.nn.Conv2d(2, 3, 3), snn.Leaky(beta=0.9)

    def forward(self, x: Any) -> Any:
        mem, out = self.lif.init_leaky(), []
        for t in range(x.shape[2]):
            spikes, mem = self.lif(3 * self.conv(x[:, :, t]), mem)
            out.append(spikes)
        return torch.stack(out, dim=2)


def test_a_right_import_with_time_after_the_channels_is_identical() -> None:
    torch.manual_seed(0)
    graph = from_snntorch(TimeInTheMiddle(), torch.zeros(3, 2, 9, 6, 6))
    found = json.loads(graph.metadata["nirbridge:self_check"])
    assert found["outcome"] == "identical"
    assert "[batch, 2, time, 6, 6], one call" in found["text"]


def _copied_twice(graph: Any) -> Any:
    """The graph for samples of shape (2, 6): two copies of every neuron, as of a batch that was read as values."""
    import nir

    weight = np.kron(np.eye(2, dtype=np.float32), graph.nodes["layer"].weight)
    lif = copy.deepcopy(graph.nodes["lif"])
    for name in ("tau", "r", "v_leak", "v_threshold", "v_reset"):
        value = getattr(lif, name, None)
        if value is not None:
            setattr(lif, name, np.tile(np.broadcast_to(value, (5,)), (2, 1)).reshape(10))
    nodes = {
        "input": nir.Input({"input": np.array([2, 6])}),
        "flat": nir.Flatten({"input": np.array([2, 6])}, 0, -1),
        "layer": nir.Affine(weight, np.tile(graph.nodes["layer"].bias, 2)),
        "lif": lif,
        "output": nir.Output({"output": np.array([10])}),
    }
    edges = [("input", "flat"), ("flat", "layer"), ("layer", "lif"), ("lif", "output")]
    return nir.NIRGraph(nodes, edges, metadata=graph.metadata, type_check=False)


def test_copies_of_the_network_are_caught_unless_the_user_gave_the_axes() -> None:
    graph = _copied_twice(from_snntorch(OneStepKept(), torch.zeros(6), check=0))
    with pytest.raises(UnequalImport, match="the import holds 2 copies of its neurons, one for each part of axis 0"):
        checked(OneStepKept(), graph, torch.zeros(2, 6))
    given = self_check(OneStepKept(), torch.zeros(2, 6), graph, neuron_specs(), None, are_axes_given=True)
    assert given["outcome"] == "identical"


def test_a_state_that_forward_sets_anew_in_every_call_is_caught() -> None:
    graph = from_snntorch(OneStepKept(), torch.zeros(6))
    with pytest.raises(UnequalImport):
        checked(OneStep(), graph, torch.zeros(6))


def test_an_early_subtraction_is_caught() -> None:
    module = net(beta=0.8, reset_delay=False)
    graph = from_snntorch(module, torch.zeros(12), accept=("early-subtraction",))
    assert outcome(graph)["outcome"] == "accepted"
    assert "with the deviations accepted: early-subtraction" in outcome(graph)["text"]
    with pytest.raises(UnequalImport):
        checked(module, graph)


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = net()

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.net(x).float()


def test_bfloat16_inside_forward_is_caught() -> None:
    graph = from_snntorch(net(), torch.zeros(12), check=0)
    for old, new in (("0", "net_0"), ("1", "net_1"), ("2", "net_2"), ("3", "net_3")):
        graph.nodes[new] = graph.nodes.pop(old)
        graph.edges = [tuple(new if n == old else n for n in e) for e in graph.edges]
    with pytest.raises(UnequalImport):
        checked(Autocast(), graph)


# -- what is told apart ----------------------------------------------------------------------------------------------


class Noisy(nn.Sequential):
    def forward(self, input: Any) -> Any:
        return super().forward(input + torch.rand_like(input))


def test_a_module_with_noise_is_not_called_unequal() -> None:
    graph = from_snntorch(net(), torch.zeros(12), check=0)
    found = checked(Noisy(*net()), graph)
    assert found["outcome"] == "noise"
    assert "the module itself gives different outputs" in found["text"]


def test_dropout_in_training_mode_is_said() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(12, 8), nn.Dropout(0.5), snn.Leaky(beta=0.9, init_hidden=True))
    assert "dropout is off" in outcome(from_snntorch(module.train(), torch.zeros(12)))["text"]
    assert module.training
    assert "dropout" not in outcome(from_snntorch(module.eval(), torch.zeros(12)))["text"]


def test_dear_modules_are_sampled_by_default_and_compared_by_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from nirbridge.verification import self_check as checks
    from nirbridge.verification.large import check as large

    monkeypatch.setattr(checks, "AFFORDABLE", 1000)
    monkeypatch.setattr(large, "REDUCED", 1000)
    module = net()
    assert outcome(from_snntorch(module, torch.zeros(12)))["outcome"] == "sampled"
    monkeypatch.setattr(large, "SAMPLED", 100)
    found = outcome(from_snntorch(module, torch.zeros(12)))
    assert found["outcome"] == "skipped"
    assert "force it with check=1" in found["text"]
    assert outcome(from_snntorch(module, torch.zeros(12), check=1))["outcome"] == "identical"


def test_the_module_its_mode_and_the_random_numbers_stay_untouched() -> None:
    module = net().train()
    module(torch.ones(3, 12))
    before = {name: value.clone() for name, value in module.state_dict(keep_vars=False).items()}
    membranes = [layer.mem.clone() for layer in (module[1], module[3])]
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    from_snntorch(module, torch.zeros(12), check=2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(torch.equal(layer.mem, kept) for layer, kept in zip((module[1], module[3]), membranes, strict=True))
    assert module[0].weight.dtype == torch.float32


class FixedLength(nn.Module):
    """Takes 25 time steps of a longer sequence, time first."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.lif = nn.Linear(6, 5), snn.Leaky(beta=0.9)

    def forward(self, x: Any) -> Any:
        mem, out = self.lif.init_leaky(), []
        for t in range(25):
            spk, mem = self.lif(self.layer(x[t]), mem)
            out.append(spk)
        return torch.stack(out)


def test_what_was_not_run_is_said_with_the_axes_of_each_reason() -> None:
    found = outcome(from_snntorch(FixedLength(), torch.zeros(4, 6)))
    assert found["outcome"] == "not-run"
    first = "as [time, batch, 6], one call: it returns values of shape (25, 4, 5), which hold no output of each of 32"
    assert found["text"].startswith(
        f"not run: the module and the import could not be compared on any random input ({first} time steps; as ["
    )


def test_the_reading_that_the_import_used_is_the_first_of_those_that_failed() -> None:
    from nirbridge.verification.trials import Trials

    trials = object.__new__(Trials)
    trials.failures = {f"[{axes}, 6], one call": f"Error: {axes}" for axes in ("a", "b", "c", "d")}
    trials.unmatched = {"[c, 6], one call": "other values"}
    others = "as [a, 6], one call: Error: a; and 2 other readings"
    assert trials.why() == f"as [c, 6], one call: other values; {others}"
    assert trials.why("sample of shape (4, 6) was read as [c, 6], one").startswith("as [c, 6], one call: other values")
    assert trials.why("was read as [d, 6], one time step as (6,)") == (
        "as [d, 6], one call: Error: d; as [c, 6], one call: other values; and 2 other readings"
    )
    trials.failures, trials.unmatched = {}, {}
    assert trials.why() == "no reading of the sample's shape fits the network's inputs"


# -- ties ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "is_tie"), [(2**-23, True), (2**-16, False)])
def test_a_first_difference_that_rounding_may_decide_is_a_tie(error: float, is_tie: bool) -> None:
    module = nn.Sequential(nn.Linear(1, 1, bias=False), snn.Leaky(beta=0.5, threshold=1.0, init_hidden=True))
    next(module.parameters()).data[:] = 1.0  # each input spike lifts the membrane to the threshold, not above it
    graph = from_snntorch(module, torch.zeros(1), check=0)
    graph.nodes["0"].weight[:] = np.float32(1 + error)
    if not is_tie:
        with pytest.raises(UnequalImport, match="the module gives"):
            checked(module, graph, torch.zeros(1))
        return
    found = checked(module, graph, torch.zeros(1))
    assert found["outcome"] == "identical"
    assert found["ties"]
    assert "rounding decides the first difference of" in found["text"]


# -- numbers that are none, and fake quantization ----------------------------------------------------------------------


def test_spikes_that_are_not_numbers_are_one_error_with_their_place() -> None:
    layers = pytest.importorskip("sinabs.layers")
    from nirbridge.importers import from_sinabs
    from nirbridge.importers.frameworks import sinabs

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 6), layers.IAF())
    sample = torch.rand(2, 9, 5)
    graph = from_sinabs(module, sample, check=0)
    module[0].weight.data[3, 1] = float("nan")
    place = r"population '1', time step \d+, sample \d, neuron \(3,\): the module gives nan, the import"
    with pytest.raises(UnequalImport, match=place) as caught:
        self_check(module, sample, graph, sinabs.neuron_specs(), 2)
    assert "correct the parameters by which values overflow or are not numbers" in str(caught.value)


@pytest.mark.parametrize("has_run", [False, True])
def test_fake_quantization_rounds_in_single_precision(has_run: bool) -> None:
    """A weight between two integers, where the scale that an observer computes in float64 rounds to the other one."""
    from torch.ao import quantization

    torch.manual_seed(5)
    neuron = {"beta": 0.9, "init_hidden": True}
    module = nn.Sequential(nn.Linear(20, 30), snn.Leaky(**neuron), nn.Linear(30, 4), snn.Leaky(**neuron)).train()
    module.qconfig = quantization.QConfig(nn.Identity, quantization.default_weight_fake_quant)
    with quiet():
        quantization.prepare_qat(module, inplace=True)
    if has_run:
        module(torch.rand(3, 20))
    state = copy.deepcopy(module.state_dict())
    assert outcome(from_snntorch(module, torch.rand(1, 20)))["outcome"] == "identical"
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items() if "mem" not in name)
