"""The reference of the dialect in docs/mlir.md: tables of the operations, and an example that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from xdsl.irdl import OptionalDef

import nirbridge as nb
from nirbridge.dialect.kinds import CLASSES, OF_OPERATIONS, VALUES
from nirbridge.dialect.module import OPERATIONS

PAGE = (Path(__file__).parents[2] / "docs" / "mlir.md").read_text(encoding="utf-8")


def operation_row(kind: Any) -> str:
    """One operation: its operands and results, its attributes, with ``?`` where they are optional."""
    defined = kind.get_irdl_definition()
    ends = [", ".join(name for name, _ in values) or "-" for values in (defined.operands, defined.results)]
    names = sorted(defined.attributes.items(), key=lambda each: isinstance(each[1], OptionalDef))
    listed = [f"`{name}`{'?' if isinstance(each, OptionalDef) else ''}" for name, each in names]
    return f"| `{kind.name}` | {ends[0]} → {ends[1]} | {', '.join(listed) or '-'} |"


def kind_row(noun: str) -> str:
    """The attributes of operations, or the parameters of a class, that are of one kind."""
    of_class = {f"{each.name}.{name}": kind for each in CLASSES for name, kind in each.parameters.items()}
    named = {**of_class, **OF_OPERATIONS}
    return f"| {noun} | {', '.join(f'`{name}`' for name, kind in named.items() if kind.noun == noun)} |"


def tables() -> str:
    """The tables of the page: ``python -c 'from tests.dialect.test_reference import *; print(tables())'``."""
    kinds = {kind.noun for each in CLASSES for kind in each.parameters.values()} | {
        k.noun for k in OF_OPERATIONS.values()
    }
    plain = sorted(noun for noun in kinds if not noun.startswith(("#", VALUES.noun)))
    rows = ["| operation | operands → results | attributes, `?`: optional |", "|---|---|---|"]
    rows += [*map(operation_row, OPERATIONS), "", "| attributes and parameters | |", "|---|---|"]
    rows += [*map(kind_row, plain), f"| {VALUES.noun} | all others |", "", "Parameters stand in this order:", ""]
    return "\n".join([*rows, *(f"* `{each.kind.noun}`" for each in CLASSES)])


def test_the_tables_are_those_of_the_operations() -> None:
    assert tables() in PAGE


def test_the_example_is_read_and_runs(tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text(PAGE.split("```mlir\n")[1].split("```")[0], encoding="utf-8")
    network = nb.load(tmp_path / "two.mlir")
    x = (np.random.default_rng(0).random((100, 3)) < 0.4).astype(np.float32)
    recording = nb.simulate(network, x, record=["cells:s,v"])
    v, past = np.zeros(2, np.float32), [np.zeros(2, np.float32)] * 2
    weight = np.array([[0.5, 0.25, -0.5], [1, 0.5, 0.25]], np.float32)
    recurrent = np.array([[0, 0.25], [-0.5, 0]], np.float32)
    for t in range(100):
        u = np.float32(0.875) * v + (weight @ x[t] + recurrent @ past[0])
        v, past = np.where(u > 1, np.float32(0), u), [past[1], (u > 1).astype(np.float32)]
        assert np.array_equal(recording["cells", "v"][t].ravel(), v)
        assert np.array_equal(recording["cells"][t].ravel(), past[1])
    assert recording["cells"].sum() > 20
