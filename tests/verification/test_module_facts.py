"""Copies and resets of a module, and its parameters that the self-check relies on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402

from nirbridge.importers.tracing.run import deep_copy  # noqa: E402
from nirbridge.verification.module_facts import has_active_dropout, leaf_modules, module_tensors, parameter_count  # noqa: E402
from nirbridge.verification.original_runs import _reset  # noqa: E402


def test_a_copy_that_shares_a_part_is_refused() -> None:
    module = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    copied = deep_copy(module)
    assert not {id(p) for p in module.parameters()} & {id(p) for p in copied.parameters()}

    class Sharing(nn.Module):
        def __init__(self, part: str) -> None:
            super().__init__()
            self.part, self.lin, self.norm = part, nn.Linear(1, 1), nn.BatchNorm1d(1)
            self.none = nn.Linear(1, 1, bias=False)

        def __deepcopy__(self, memo: Any) -> Any:
            other = Sharing(self.part)
            if self.part == "module":
                other.lin = self.lin
            elif self.part == "parameter":
                other.lin.weight = self.lin.weight
            elif self.part == "buffer":
                other.norm.running_mean = self.norm.running_mean
            return other

    deep_copy(Sharing("nothing"))
    for part in ("module", "parameter", "buffer"):
        with pytest.raises(RuntimeError, match=r"^its copy shares parts with it, and a check would change them$"):
            deep_copy(Sharing(part))


def test_all_numbers_of_a_module() -> None:
    inner = nn.Linear(2, 1)
    inner.weight.data = torch.tensor([[1.0, 2.0]])
    inner.bias.data = torch.tensor([3.0])
    module: Any = nn.ModuleDict({"inner": inner})
    module.register_buffer("buffer", torch.tensor([4.0], dtype=torch.float16))
    module.register_buffer("whole", torch.tensor([5]))
    module.register_buffer("empty", torch.zeros(0))
    module.beta, module.steps, module.flag, module.name, module.plain = 0.5, 7, True, "n", torch.tensor([6.0])
    inner.in_features, inner.out_features = 8, 9
    module.learning_window = torch.tensor([10.0])  # of surrogate gradients alone
    found = [a.ravel().tolist() for a in module_tensors(module)]
    assert sorted(found) == [[0.5], [1.0, 2.0], [3.0], [4.0], [6.0], [7.0], [8.0], [9.0]]
    assert all(a.dtype == np.float64 for a in module_tensors(module))
    assert (parameter_count(module), leaf_modules(module)) == (3, 1)
    assert leaf_modules(nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU(), nn.Linear(1, 1)))) == 3
    assert parameter_count(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))) == 13


def test_dropout_acts_in_training_mode_with_a_share_above_0() -> None:
    for p, is_training, acts in ((0.5, True, True), (0.5, False, False), (0.0, True, False)):
        assert has_active_dropout(nn.Sequential(nn.Linear(1, 1), nn.Dropout(p)).train(is_training)) is acts
    assert has_active_dropout(nn.Sequential(nn.Dropout(0.0), nn.Dropout2d(0.1)))
    assert not has_active_dropout(nn.Sequential(nn.Linear(1, 1)))


def framework(name: str, *methods: str, calls: list[str]) -> Any:
    def method(word: str) -> Any:
        def act(self: Any) -> None:
            calls.append(word)

        act.__module__ = name
        return act

    return type("Neuron", (), {word: method(word) for word in methods})()


def test_the_first_reset_of_a_framework_is_called_and_none_of_a_user() -> None:
    calls: list[str] = []
    every = ("reset_mem", "reset_states", "reset_state", "reset")
    for name in ("snntorch._neurons.leaky", "norse.torch", "sinabs", "spikingjelly.x", "rockpool.nn"):
        for k in range(len(every)):
            _reset(framework(name, *every[k:], calls=calls))
    assert calls == list(every) * 5
    for name in ("mine", "snntorch_mine", ""):
        _reset(framework(name, *every, calls=calls))
    assert len(calls) == 20
    mixed = framework("mine", "reset_mem", calls=calls)
    type(mixed).reset = framework("sinabs", "reset", calls=calls).__class__.reset
    _reset(mixed)
    assert calls[20:] == ["reset"]
    _reset(SimpleNamespace(reset=lambda: calls.append("own")))
    assert len(calls) == 21
