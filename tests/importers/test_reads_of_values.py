"""Values that forward reads out of tensors: followed where they decide nothing, refused where they do."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import Diagnostic, ModelError
from nirbridge.importers.tracing.reads import MOST_RUNS, Reads, decide_nothing
from tests.importers.small_nets import TwoLayers, imported, notes_of_equal, on_grid, spikes, torch

pytestmark = pytest.mark.filterwarnings("ignore")
Look = Callable[[Any, Any], Any]


class Looking(TwoLayers):
    """``look`` sees the spikes of the first layer; a tensor that it returns takes their place."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look, self.log, self.best, self.calls = look, [], 0.0, 0

    def forward(self, x: Any) -> Any:
        spk = self.lif1(self.fc1(x))
        replaced = self.look(self, spk)
        return self.lif2(self.fc2(replaced if isinstance(replaced, torch.Tensor) else spk))


def item(net: Any, spk: Any) -> None:
    net.log.append(spk.mean().item())


def as_float(net: Any, spk: Any) -> None:
    net.rate = float(spk.mean())


def as_array(net: Any, spk: Any) -> None:
    net.log.append(spk.detach().cpu().numpy())


def as_list(net: Any, spk: Any) -> None:
    net.log.append(torch.histc(spk, 4).tolist())


def text(net: Any, spk: Any) -> None:
    net.log.append(f"{spk.sum().item():.1f} spikes, {spk.mean():.3f}, {round(100 * spk.mean().item(), 1)} %")


def running(net: Any, spk: Any) -> None:
    net.rate = 0.9 * getattr(net, "rate", 0.0) + spk.abs().mean().item()


def largest(net: Any, spk: Any) -> None:
    net.best = max(net.best, spk.mean().item())


def counted(net: Any, spk: Any) -> None:
    net.counts = getattr(net, "counts", [0] * 9)
    net.counts[int(spk[0].sum().item())] += 1


def no_nan(net: Any, spk: Any) -> None:
    assert not torch.isnan(spk).any()


def in_range(net: Any, spk: Any) -> None:
    assert spk.min() >= 0 and spk.max() <= 1, f"no spikes: {spk.max().item()}"  # noqa: PT018


def raises(net: Any, spk: Any) -> None:
    if torch.isnan(spk).any() or math.isnan(spk.sum().item()):
        raise ValueError("not a number")


def exits(net: Any, spk: Any) -> None:
    if not torch.isfinite(spk).all():
        sys.exit(1)


def debugs(net: Any, spk: Any) -> None:
    if torch.isnan(spk).any():
        breakpoint()


def logs_sometimes(net: Any, spk: Any) -> None:
    if spk.mean() > 0.5:
        net.log.append(spk.sum(0) * 2)


FOLLOWED = (
    logs_sometimes,
    item,
    as_float,
    as_array,
    as_list,
    text,
    running,
    largest,
    counted,
    no_nan,
    in_range,
    raises,
    exits,
    debugs,
)


@pytest.mark.parametrize("look", FOLLOWED, ids=lambda look: look.__name__)
def test_logs_losses_and_assertions_are_followed(look: Look) -> None:
    notes = notes_of_equal(imported(on_grid(Looking(look))))
    assert "values of tensors are read, but nothing that is computed depends on them" in notes


def test_the_reads_of_a_loop_over_time_and_of_several_modules_are_followed() -> None:
    class Loop(TwoLayers):
        def forward(self, x: Any) -> Any:
            out = []
            mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
            for now in x:
                spk, mem1 = self.lif1(self.fc1(now), mem1)
                assert spk.max() <= 1
                spk, mem2 = self.lif2(self.fc2(spk), mem2)
                self.rate = spk.mean().item()
                out.append(spk)
            return torch.stack(out)

    module: Any = on_grid(Loop())
    module.lif1.init_hidden = module.lif2.init_hidden = False
    assert "reads" not in notes_of_equal(imported(module, spikes(7, 2, 6)))


# -- decisions -------------------------------------------------------------------------------------------------------


def branch(net: Any, spk: Any) -> Any:
    return spk * 0.5 if spk.mean().item() > 5 else spk


def window(net: Any, spk: Any) -> Any:
    return spk * 0.5 if 0.2 < spk.mean().item() < 0.201 else spk


def both(net: Any, spk: Any) -> Any:
    many, few = bool(spk.sum() > 1000), bool(spk.min() > 1000)
    return spk * 0.5 if many and few else spk


def equal_number(net: Any, spk: Any) -> Any:
    return spk * 0.5 if spk.sum().item() == 77 else spk


def python_number(net: Any, spk: Any) -> Any:
    return spk * 0.5 if int(spk.min() - 1) == 2 else spk


def python_equal(net: Any, spk: Any) -> Any:
    return spk * 0.5 if int(spk.sum()) == 77 else spk


def python_window(net: Any, spk: Any) -> Any:
    return spk * 0.5 if 7000 < float(spk.sum()) < 7001 else spk


def equal_attribute(net: Any, spk: Any) -> Any:
    net.limit = 1234
    return spk * 0.5 if int(spk.sum()) == net.limit else spk


def equal_in_list(net: Any, spk: Any) -> Any:
    return spk * 0.5 if 77.0 in spk.flatten().tolist() else spk


def equal_in_array(net: Any, spk: Any) -> Any:
    return spk * 0.5 if (spk.detach().numpy() == 77).any() else spk


def repeated(net: Any, spk: Any) -> Any:
    for _ in range(int((spk * 0).sum())):
        spk = spk * 0.5
    return spk


def while_above(net: Any, spk: Any) -> Any:
    while (spk > 1000).any():
        spk = spk - 1
    return spk


def from_array(net: Any, spk: Any) -> Any:
    return spk * 0.5 if (spk.detach().numpy() > 3).any() else spk


def from_list(net: Any, spk: Any) -> Any:
    return spk * 0.5 if max(spk[0].tolist()) > 3 else spk


def kept_number(net: Any, spk: Any) -> Any:
    net.log.append(spk.mean().item())
    return spk * 0.5 if len(net.log) > 20 and sum(net.log) > 500 else spk


def kept_largest(net: Any, spk: Any) -> Any:
    largest(net, spk)
    return spk * 0.5 if net.best > 5 else spk


def kept_count(net: Any, spk: Any) -> Any:
    net.calls += bool(spk.sum() > 1000)
    return spk * 0.5 if net.calls > 3 else spk


def fed_back(net: Any, spk: Any) -> Any:
    return spk + spk.mean().item()


def resets(net: Any, spk: Any) -> None:
    if spk.min() > 1000:
        net.lif1.reset_mem()


DECIDING = (resets, branch, window, both, equal_number, python_number, python_equal, python_window,
            equal_attribute, equal_in_list, equal_in_array, repeated, while_above, from_array, from_list,
            kept_number, kept_largest, kept_count, fed_back)  # fmt: skip


@pytest.mark.parametrize("look", DECIDING, ids=lambda look: look.__name__)
def test_a_value_that_decides_what_is_computed_is_refused(look: Look) -> None:
    with pytest.raises(ModelError, match=r"reads the value of a tensor \(.*data-dependent control flow"):
        imported(on_grid(Looking(look)))


def test_an_array_that_is_written_to_is_refused() -> None:
    def written(net: Any, spk: Any) -> None:
        values = spk.detach().numpy()
        values *= 0.5

    with pytest.raises(ModelError, match="read-only"):
        imported(on_grid(Looking(written)))


def test_the_numbers_that_the_user_keeps_are_plain_after_the_run() -> None:
    kept: list[Any] = []
    imported(on_grid(Looking(lambda net, spk: kept.append(spk.mean().item()))))
    number = next(k for k in kept if k == 0.5 or k > 0)
    assert (number + 1 > number, float(number) == number, hash(number) == hash(float(number)), bool(number)) == (
        True, True, True, True)  # fmt: skip


# -- by hand ---------------------------------------------------------------------------------------------------------


class Trace:
    def __init__(self, computed: Any = "", failure: str = "") -> None:
        self.computed, self.failure = computed, failure


PROBLEM = Diagnostic("module", "reads")


def settled(forward: Callable[[Reads], Any]) -> bool:
    """``forward`` gives what it computes; the answers of the first run are the values."""
    first = Reads()
    computed = forward(first)
    runs: list[Reads] = []

    def rerun(reads: Reads) -> Trace:
        runs.append(reads)
        assert len(runs) <= MOST_RUNS
        return Trace(forward(reads))

    return decide_nothing(first.places, rerun, lambda trace: trace.computed == computed, 0)


def test_more_places_or_runs_than_are_tried_settle_nothing() -> None:
    def reads(count: int) -> Callable[[Reads], Any]:
        lines = "\n".join("    reads.truth('bool', True)" for _ in range(count))
        scope: dict[str, Any] = {"__name__": "user"}
        exec(f"def forward(reads):\n{lines}\n    return 1", scope)
        return scope["forward"]

    assert settled(reads(4))
    assert not settled(reads(9))  # places
    assert not settled(reads(7))  # runs: every combination is one


def test_nan_and_arrays_of_every_number_format_are_answered() -> None:
    def forward(reads: Reads) -> Any:
        for kind in (np.float32, np.uint8, np.bool_):
            shown = reads.answer("numpy", np.zeros(3, kind), PROBLEM)
            assert shown.dtype == kind
            assert not shown.flags.writeable
        return 1

    assert settled(forward)
    assert not settled(lambda reads: math.isnan(reads.answer("item", 0.5, PROBLEM)))
    assert not settled(lambda reads: reads.answer("tolist", [[0.5], [2]], PROBLEM)[1][0] == 7)


def test_numbers_that_are_read_stay_so_in_arithmetic() -> None:
    assert not settled(lambda reads: 0.2 < abs(-(3 - 2 * reads.answer("item", 0.5, PROBLEM)) + 1) % 7 < 0.21)
    assert settled(lambda reads: bool(reads.answer("item", 0.5, PROBLEM) > 2) * 0)
