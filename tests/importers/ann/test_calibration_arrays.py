"""Calibration data in every accepted form, and each refusal in full; an import that differs from the module."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import ModelError, UsageError
from nirbridge.importers.ann.replay import calibration_arrays, folding_error
from nirbridge.network.model import Port

ONE, TWO = [Port("in", (2, 3))], [Port("a", (3,)), Port("b", (2,))]
STEP = "give one array per input: [samples, *shape]; concatenate batches with torch.cat"


def full(samples: int, *shape: int, value: float = 1.0) -> Any:
    return np.full((samples, *shape), value)


@pytest.mark.parametrize(
    ("data", "ports", "samples"),
    [
        (full(5, 2, 3), ONE, 5),
        ([full(1, 2, 3)], ONE, 1),
        ((full(2, 2, 3), full(3, 2, 3)), ONE, 5),
        ({"any name": full(4, 2, 3)}, ONE, 4),
        ({"b": full(2, 2), "a": full(2, 3)}, TWO, 2),
        ([full(2, 3), full(2, 2)], TWO, 2),
        (full(5, 2, 3).astype(bool), ONE, 5),
        (full(5, 2, 3).astype(np.uint8), ONE, 5),
    ],
)
def test_what_is_taken(data: Any, ports: list[Port], samples: int) -> None:
    found = calibration_arrays(data, ports)
    assert {k: (v.shape, v.dtype, v.flags.c_contiguous) for k, v in found.items()} == {
        p.name: ((samples, *p.shape), np.float32, True) for p in ports
    }


def spoiled(value: float) -> Any:
    data = full(3, 2, 3)
    data[1, 1, 2] = value
    return data


@pytest.mark.parametrize(
    ("data", "ports", "message"),
    [
        ([1.0, 2.0], ONE, f"calibration data: 2 arrays, the module has the inputs 'in'; {STEP}"),
        ([], ONE, f"calibration data: 0 arrays, the module has the inputs 'in'; {STEP}"),
        ([full(2, 2, 3), full(2, 3, 2)], ONE, f"calibration data: 2 arrays, the module has the inputs 'in'; {STEP}"),
        (full(2, 3), TWO, f"calibration data: 1 array, the module has the inputs 'a', 'b'; {STEP}"),
        ([full(2, 3)] * 3, TWO, f"calibration data: 3 arrays, the module has the inputs 'a', 'b'; {STEP}"),
        (
            {"a": full(2, 3), "c": full(2, 2)}, TWO,
            f"calibration data: arrays 'a', 'c', the module has the inputs 'a', 'b'; {STEP}",
        ),
        ({"a": full(2, 3)}, TWO, f"calibration data: arrays 'a', the module has the inputs 'a', 'b'; {STEP}"),
        (
            [full(1002, 3), full(1003, 2)], TWO,
            "calibration data: 1,002, 1,003 samples, every input needs the same number; "
            "give the same samples to every input",
        ),
        (
            np.array([[None]]), ONE,
            "calibration data of input 'in': no array, the samples are read several times: give one array or tensor; "
            "concatenate some of its batches, without labels: torch.cat([x for x, _ in loader])",
        ),
        (
            np.array(["x"]), ONE,
            "calibration data of input 'in': values of type <U1, numbers are needed; convert them",
        ),
        (
            full(2, 2, 3).astype(complex), ONE,
            "calibration data of input 'in': values of type complex128, numbers are needed; convert them",
        ),
        (
            full(2, 3, 2), ONE,
            "calibration data of input 'in': shape (2, 3, 2), [samples, 2, 3] is needed; "
            "reshape it, with the samples along the first axis",
        ),
        (
            full(2, 3), ONE,
            "calibration data of input 'in': shape (2, 3), [samples, 2, 3] is needed; "
            "reshape it, with the samples along the first axis",
        ),
        (
            full(0, 2, 3), ONE,
            "calibration data of input 'in': no samples, at least one is needed, some hundreds are better; "
            "give the network's typical inputs",
        ),
        (spoiled(np.nan), ONE, "calibration data of input 'in': values that are not finite; remove those samples"),
        (spoiled(-np.inf), ONE, "calibration data of input 'in': values that are not finite; remove those samples"),
    ],
)  # fmt: skip
def test_what_is_refused(data: Any, ports: list[Port], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        calibration_arrays(data, ports)
    assert str(caught.value) == message


def test_a_single_number_is_no_sample_of_an_input_without_shape() -> None:
    with pytest.raises(UsageError, match=r"shape \(\), \[samples, \] is needed"):
        calibration_arrays(np.float32(1), [Port("in", ())])


def test_every_input_that_is_wrong_is_listed() -> None:
    with pytest.raises(UsageError) as caught:
        calibration_arrays([full(0, 3), full(2, 3)], TWO)
    assert [p.found for p in caught.value.problems] == ["no samples", "shape (2, 3)"]


def outputs(*ports: str) -> Any:
    return SimpleNamespace(outputs=[SimpleNamespace(name=name) for name in ports])


def test_largest_difference_and_largest_output_over_all_outputs() -> None:
    wanted = {"a": np.array([1.0, -1000.0]), "b": np.array([3.0])}
    found = {"a": np.array([1.5, -1000.0]), "b": np.array([2.75])}
    assert folding_error(outputs("a", "b"), wanted, found) == (0.5, 1000.0)
    assert folding_error(outputs("b", "a"), wanted, found) == (0.5, 1000.0)
    assert folding_error(outputs("a"), {"a": np.zeros(3)}, {"a": np.zeros(3)}) == (0.0, 0.0)
    assert folding_error(outputs("a"), {"a": np.array([1000.0])}, {"a": np.array([1001.0])}) == (1.0, 1000.0)


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        ([1000.0, 0.0], [1000.0, 1.5], "its outputs differ by 1.5 from those of the imported network"),
        ([0.0], [-2.0], "its outputs differ by 2 from those of the imported network"),
        ([np.inf], [1.0], "its outputs differ by inf from those of the imported network"),
    ],
)
def test_a_module_that_computes_something_else(wanted: list[float], found: list[float], said: str) -> None:
    with pytest.raises(ModelError) as caught:
        folding_error(outputs("a"), {"a": np.array(wanted)}, {"a": np.array(found)})
    (problem,) = caught.value.problems
    assert (problem.subject, problem.found) == ("module", said)
    assert problem.limit == f"at most 0.001 of the largest output, {max(map(abs, wanted)):.3g}"
    assert problem.hint == "make it a deterministic function of its inputs; if it is one, report this"
