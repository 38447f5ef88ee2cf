"""A modified ``program.json`` is refused before any process is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.artifact import write_artifact
from nirbridge.emitters.lava.emit import emit
from nirbridge.emitters.lava.runtime.run import run_program
from nirbridge.errors import FileError
from tests.emitters import hand_made as made

PORT = {"name": "in", "id": "in0", "shape": [3]}


@pytest.mark.parametrize(
    "change",
    [
        *({"processes": x} for x in (None, -1, 1.5, True, 10**9)),
        *({"inputs": x} for x in (None, 3, {}, [3], [{}], [PORT | {"shape": 3}], [PORT | {"id": 0}])),
        {"inputs": [PORT | {"shape": [2**40]}]},
    ],
    ids=str,
)
def test_refused(change: dict[str, Any], tmp_path: Path) -> None:
    write_artifact(emit(made.random_network(1)), tmp_path / "program")
    path = tmp_path / "program" / "program.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FileError, match=r"folder 'program': its program\.json is damaged"):
        run_program(tmp_path / "program", np.zeros((2, 3)))


def test_refused_where_it_is_no_table(tmp_path: Path) -> None:
    write_artifact(emit(made.random_network(1)), tmp_path / "program")
    (tmp_path / "program" / "program.json").write_text("[1]")
    with pytest.raises(FileError, match="damaged"):
        run_program(tmp_path / "program", np.zeros((2, 3)))
