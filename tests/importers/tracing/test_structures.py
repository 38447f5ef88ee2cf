"""Tensors in the arguments and results of forward: tuples, lists, dicts, named tuples, dataclasses, nested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from nirbridge.importers.tracing.structures import bound_arguments, by_position, is_all_state, tensors_of

torch = pytest.importorskip("torch")


@dataclass
class Held:
    v: Any
    i: Any = None


class Named(NamedTuple):
    a: Any
    b: Any


ONE, TWO, THREE = torch.zeros(1), torch.ones(1), torch.full((1,), 2.0)


@pytest.mark.parametrize(
    ("structure", "wanted"),
    [
        (ONE, [("", ONE)]),
        ((ONE, [TWO, "text", THREE]), [("0", ONE), ("1_0", TWO), ("1_2", THREE)]),
        ({"x": ONE, 3: TWO}, [("x", ONE), ("3", TWO)]),
        (Named(ONE, TWO), [("a", ONE), ("b", TWO)]),
        (Held(ONE, TWO), [("v", ONE), ("i", TWO)]),
        ((Held(ONE), Held(TWO, (THREE,))), [("0_v", ONE), ("1_v", TWO), ("1_i_0", THREE)]),
        (Held, []),
        ([None, 3, Held(None)], []),
    ],
    ids=lambda v: type(v).__name__,
)
def test_every_tensor_has_a_name_made_of_its_place(structure: Any, wanted: list[tuple[str, Any]]) -> None:
    found = list(tensors_of(structure))
    assert [name for name, _ in found] == [name for name, _ in wanted]
    assert all(a is b for (_, a), (_, b) in zip(found, wanted, strict=True))


def test_a_call_that_is_given_all_state() -> None:
    def forward(x: Any, state: Any = None, other: Any = None) -> Any:
        return x, state, other

    assert is_all_state(bound_arguments(forward, (ONE,), {}), keeps=False)
    assert not is_all_state(bound_arguments(forward, (ONE,), {}), keeps=True)
    assert not is_all_state(bound_arguments(forward, (ONE, TWO), {}), keeps=True)
    assert not is_all_state(bound_arguments(forward, (ONE,), {"other": TWO}), keeps=True)
    assert is_all_state(bound_arguments(forward, (ONE, TWO), {"other": THREE}), keeps=True)
    assert not is_all_state(bound_arguments(forward, (ONE,), {"more": TWO}), keeps=True)
    assert not is_all_state(bound_arguments(lambda x: x, (ONE,), {}), keeps=True)


def test_arguments_that_stand_for_any_number_count_one_by_one() -> None:
    """As spikingjelly's neurons declare them, which keep their state."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    assert not is_all_state(bound_arguments(forward, (ONE,), {}), keeps=True)
    assert is_all_state(bound_arguments(forward, (ONE, TWO), {}), keeps=True)
    assert is_all_state(bound_arguments(forward, (ONE,), {"state": TWO}), keeps=True)
    assert not is_all_state(bound_arguments(forward, (ONE, TWO), {"state": None}), keeps=True)


def test_the_first_argument_of_a_torch_function_by_position() -> None:
    assert by_position((), {"dim": 1, "input": ONE}) == ((ONE,), {"dim": 1})
    assert by_position((), {"tensors": (ONE, TWO)}) == (((ONE, TWO),), {})
    for args, kwargs in (((ONE,), {"input": TWO}), ((), {"dim": 1}), ((), {"condition": ONE, "input": TWO})):
        assert by_position(args, kwargs) == (args, kwargs)
