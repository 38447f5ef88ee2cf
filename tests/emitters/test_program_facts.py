"""What ``nirbridge emit`` says of the inputs and the latency of a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from nirbridge.cli.main import run
from nirbridge.emitters.readme import latency_facts, port_facts

INPUT = "input 'input' [time steps, 64] or [time steps, samples, 64]"


@pytest.mark.parametrize(("target", "shown"), [("torch", [INPUT]), ("lava", [INPUT, "latency 'output' 2 time steps"])])
def test_inputs_and_latency_are_shown(
    target: str, shown: list[str], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(root / "examples/models/digits_mlp.nir")
    assert run(["emit", model, "--to", target, "-o", str(tmp_path / "p")]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line.startswith(("input ", "latency "))] == shown


def test_many_inputs_and_outputs_are_counted() -> None:
    ports = [{"name": f"p{k}", "shape": [k + 1, 2]} for k in range(6)]
    found = list(port_facts({"inputs": ports, "outputs": ports, "latency": {f"p{k}": 1 for k in range(9)}}))
    assert found[0] == ("input", "'p0' [time steps, 1, 2] or [time steps, samples, 1, 2]")
    assert found[4:] == [
        ("", "and 2 more inputs"),
        ("latency", "'p0' 1 time step, 'p1' 1 time step, 'p2' 1 time step, 'p3' 1 time step and 2 more"),
    ]
    assert list(latency_facts({})) == []
