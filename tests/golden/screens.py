"""What a terminal shows of each command, at 80 and at 50 columns; ``python -m tests.golden.screens`` writes it again.

A line of ``SCREENS`` is what a user types, in the folder of ``option_files`` and the models of ``examples``; output and
messages are kept together, in the order in which they came.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import nir
import numpy as np

from nirbridge.cli.main import run
from nirbridge.importers import save_nir
from nirbridge.network import to_nir
from tests.cli.option_files import write_files
from tests.golden.models import network_of
from tests.network.graphs import graph_of, lif, out, port

SCREENS: dict[str, str] = {
    "map": "map digits_cnn.nir --chip loihi2",
    "map-many-cores": "map digits_cnn.nir --chip chip.toml --effort fast",
    "map-verbose": "map digits_cnn.nir --chip chip.toml --effort fast --verbose",
    "map-two-chips": "map digits_cnn.nir --chip chip.toml --chips 2 --effort fast --pin leaky_8=20",
    "map-placement-only": "map tiny.nir --chip loihi1 --placement-only",
    "map-summary": "map digits_cnn.nir --chip loihi2 --summary",
    "map-summary-partial": "map digits_cnn.nir --chip chip.toml --effort fast --summary",
    "check": "check digits_cnn.nir --chip loihi2",
    "map-set": "map digits_cnn.nir --chip loihi2 --set core.neurons=64 --summary",
    "check-set": "check digits_cnn.nir --chip loihi2 --set core.neurons=64 --set mesh.height_tiles=1",
    "chips": "chips",
    "chips-set": "chips loihi2 --set core.neurons=512",
    "sweep": "sweep sweep.toml",
    "sweep-axes": "sweep axes.toml",
    "inspect": "inspect digits_cnn.nir",
    "inspect-faults": "inspect snntorch.nir",
    "inspect-recurrent": "inspect recurrent.nir",
    "inspect-verbose": "inspect digits_cnn.nir --verbose",
    "quantize": "quantize digits_cnn.nir --chip loihi2 -o digits.q.npz",
    "verify": "verify tiny.nir --chip loihi1 --input in.npy",
    "emit-c": "emit digits_cnn.nir --to c --chip loihi2 -o firmware",
    "show-model": "show tiny.nir",
    "compare": "compare a.npz b.npz",
    "profile": "profile tiny.nir --chip loihi1 --input in.npy",
    "profile-not-public": "profile tiny.nir --chip loihi2 --input in.npy",
    "profile-chips": "profile tiny.nir --chip loihi1 --chip loihi2 --input in.npy",
    "simulate": "simulate tiny.nir --input in.npy -o o.npz",
    "chip": "chips loihi2",
    "show-map": "show m.map.json",
    "show-map-verbose": "show m.map.json --verbose",
    "show-quantized": "show m.q.npz",
    "view": "view digits_cnn.nir",
    "show-recording": "show a.npz",
    "show-verification": "show verified.npz",
    "show-profile": "show profiled.json",
    "show-sweep": "show swept.csv",
    "show-chip": "show chip.toml",
    "show-program": "show circuit",
    "show-page": "show page.html",
    "show-array": "show in.npy",
    "help": "--help",
    "help-map": "map --help",
    "help-view": "view --help",
    "help-all-map": "map --help-all",
    "help-emit": "emit --help",
    "help-simulate": "simulate --help",
}
"""Name -> the line; nothing in its output may depend on the machine, the day or optional packages."""
WIDTHS = 80, 50
KNOWN = Path(__file__).parent / "known" / "screens"
MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"


@contextmanager
def folder_of_files() -> Iterator[None]:
    """A working directory with the files that the lines name."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        write_files(Path(name))
        for path in MODELS.glob("*.nir"):
            shutil.copy(path, name)
        save_nir(to_nir(network_of("recurrent")), "recurrent.nir")
        save_nir(_as_snntorch_writes(), "snntorch.nir")
        yield


def _as_snntorch_writes() -> nir.NIRGraph:
    """Neurons without a reset, and a layer that lost its way out."""
    cells = [lif(5, tau=1e-3, r=10.0) for _ in range(3)]
    nodes = {"in": port(5), "lif1": cells[0], "lif2": cells[1], "lif3": cells[2], "skip": nir.Linear(np.eye(5))}
    edges = [("in", "lif1"), ("lif1", "lif2"), ("lif2", "lif3"), ("lif3", "out"), ("in", "skip")]
    return graph_of({**nodes, "out": out(5)}, edges)


def screen(line: str, width: int) -> str:
    """What the terminal shows of one line, the line itself first and an exit code that is not 0 last."""
    shown = StringIO()
    with (
        patch.dict(os.environ, {"COLUMNS": str(width), "TERM": "dumb"}),
        redirect_stdout(shown),
        redirect_stderr(shown),
    ):
        code = run(shlex.split(line))
    return f"$ nirbridge {line}\n{shown.getvalue()}" + (f"(exit code {code})\n" if code else "")


def known(name: str, width: int) -> Path:
    """The file of one screen."""
    return KNOWN / f"{name}.{width}.txt"


def write() -> None:
    """Every screen, anew."""
    shutil.rmtree(KNOWN, ignore_errors=True)
    KNOWN.mkdir(parents=True)
    with folder_of_files():
        for name, line in SCREENS.items():
            for width in WIDTHS:
                known(name, width).write_text(screen(line, width), encoding="utf-8")


if __name__ == "__main__":
    write()
