"""Ctrl-C on a reservoir of 100,000 neurons and 3 million synapses: the best map so far, marked and legal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import nirbridge as nb
from benchmarks.reservoirs import reservoir, sources
from nirbridge.cli.main import run

ROOT = Path(__file__).parents[2]


def interrupted_when_shown(marker: bytes, arguments: list[str]) -> tuple[int, bytes]:
    """Exit code and stderr, a terminal, of the command that gets SIGINT when its progress shows ``marker``."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "200"}
    command = [sys.executable, "-m", "nirbridge", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    shown, is_sent = b"", False
    with suppress(OSError):  # EIO: the other end is closed
        while part := os.read(ours, 4096):
            shown += part
            if not is_sent and marker in shown:
                process.send_signal(signal.SIGINT)
                is_sent = True
    os.close(ours)
    assert is_sent
    return process.wait(timeout=60), shown


@pytest.mark.slow
@pytest.mark.parametrize("marker", [b"destination cores", b"place", b"check"])
def test_ctrl_c_on_a_large_reservoir_gives_the_best_map_so_far(marker: bytes, tmp_path: Path) -> None:
    model, out = tmp_path / "ring.net.npz", tmp_path / "ring.map.json"
    nb.save(reservoir(sources("ring", 100_000)), model)
    code, shown = interrupted_when_shown(marker, ["map", str(model), "--chip", "loihi1", "-o", str(out)])
    assert code == 130
    assert shown.endswith(b"nirbridge: interrupted: this is the best map so far\r\n")
    assert json.loads(out.read_text())["proof"]["interrupted"] is True
    assert run(["check", str(model), "--map", str(out)]) == 0
