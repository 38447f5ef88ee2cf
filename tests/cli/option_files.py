"""The small files that the lines of ``option_rows`` read: models, modules, inputs, maps, recordings, programs."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import nir
import numpy as np

from nirbridge.cli.main import run
from tests.network.graphs import chain, graph_of, lif, out, port

ROOT = Path(__file__).resolve().parents[2]
MODULES = """
import torch, snntorch as snn
torch.manual_seed(0)
def chain(beta):
    return torch.nn.Sequential(torch.nn.Linear(4, 3), snn.Leaky(beta, 0.2, init_hidden=True, reset_mechanism="zero"))
net = chain(0.9)
ann = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3), torch.nn.ReLU())
linear = torch.nn.Sequential(torch.nn.Linear(4, 3))
pooled = torch.nn.Sequential(
    torch.nn.Conv2d(1, 2, 3), torch.nn.MaxPool2d(2), snn.Leaky(beta=0.5, threshold=0.3, init_hidden=True)
)
"""
SWEEP = """
models = ["tiny.nir"]
chips = ["chip.toml"]
effort = "fast"
input = "in.npy"
"""
AXES = """
models = ["tiny.nir"]
chips = ["chip.toml"]
effort = "fast"
[set]
"core.neurons" = [4, 8]
"synapses.words" = [2, 64]
"""
MADE = """
map {tiny} --chip loihi1 --effort fast -o m.map.json
map {tiny} --chip loihi1 --effort fast --pin lif=5 --weight-bits 3 -o n.map.json
map {tiny} --chip chip.toml --effort fast -o my.map.json
quantize {tiny} --chip loihi1 -o m.q.npz
simulate {tiny} --input in.npy --record *:s,v -o a.npz
simulate {tiny} --input other.npy --record *:s,v -o b.npz
verify {tiny} --chip loihi1 --input in.npy -o verified.npz
emit {tiny} --to onnx -o onnx
emit {tiny} --to verilog -o circuit
profile {tiny} --chip loihi1 --chip loihi2 --input in.npy --effort fast -o profiled.json
sweep sweep.toml -o swept.csv
report {tiny} -o page.html
"""


def write_files(folder: Path) -> None:
    """All of them, into ``folder``."""
    rng = np.random.default_rng(0)
    for name, graph in graphs(rng).items():
        nir.write(folder / f"{name}.nir", graph)
    spikes = (rng.random((12, 2, 4)) < 0.6).astype(np.uint8)
    np.save(folder / "in.npy", spikes)
    np.save(folder / "other.npy", 1 - spikes)
    np.save(folder / "current.npy", rng.random((12, 2, 4)))
    np.save(folder / "labels.npy", np.array([0, 1]))
    np.save(folder / "sparse.npy", (rng.random((8, 2, 300)) < 0.02).astype(np.uint8))
    np.savez(folder / "data.npz", **{"in": spikes, "labels": np.array([0, 1])})
    moments, places = np.nonzero(rng.random((8, 4)) < 0.7)
    np.savez(folder / "events.npz", x=places, t=moments * 200 + 150)
    np.savez(folder / "rates.npz", lif=np.full(6, 0.9), relay=np.full(6, 0.01), last=np.full(3, 0.5))
    np.save(folder / "calibrate.npy", rng.random((40, 4)).astype(np.float32))
    np.savez(folder / "images.npz", images=rng.random((6, 8, 1, 8, 8)), labels=np.arange(8) % 2)
    shutil.copy(ROOT / "examples" / "chips" / "my_chip.toml", folder / "chip.toml")
    (folder / "nets.py").write_text(MODULES)
    (folder / "sweep.toml").write_text(SWEEP)
    (folder / "axes.toml").write_text(AXES)
    make(folder)


def graphs(rng: np.random.Generator) -> dict[str, nir.NIRGraph]:
    """Models of 4 inputs and 3 outputs, each with what some option is about."""
    weights = [rng.normal(0.4, 0.8, (6, 4)), rng.normal(0.2, 0.8, (6, 6)), rng.normal(0.3, 0.8, (3, 6))]
    nodes = {
        "in": port(4),
        "fc1": nir.Affine(weights[0], np.full(6, 0.1)),
        "lif": lif(6, tau=4e-4, r=2.0, theta=0.9),
        "fc2": nir.Linear(weights[1]),
        "relay": nir.IF(np.full(6, 8e3), np.ones(6)),
        "fc3": nir.Linear(weights[2]),
        "last": lif(3, tau=4e-4, r=2.0, theta=0.9),
        "out": out(3),
    }
    chain_edges = [("in", "fc1"), ("fc1", "lif"), ("lif", "fc2"), ("fc2", "relay"), ("relay", "fc3"), ("fc3", "last")]
    edges = [*chain_edges, ("last", "out")]
    weights[2][0, :2] = 0.0
    dead = {"fc4": nir.Linear(weights[1]), "unused": lif(6)}
    three = {"tau_mem": np.full(3, 2e-4), "tau_syn": np.full(3, 4e-4), "r": np.ones(3), "v_threshold": np.ones(3)}
    drawn = {"last": nir.CubaLIF(v_leak=np.full(3, -1.0), **three)}
    fixed: dict[str, Any] = {"dt": 1e-4}
    return {
        "tiny": graph_of(nodes, edges),
        "dead": graph_of(nodes | dead, [*edges, ("lif", "fc4"), ("fc4", "unused")], **fixed),
        "early": graph_of(nodes | drawn, edges, **fixed),
        "batch": graph_of(nodes | {"in": port(1, 4), "out": out(1, 3)}, edges),
        "wide": chain(port(300), nir.Linear(rng.random((4, 300))), lif(4, theta=3.0), out(4), **fixed),
        "norse": chain(port(4), nir.Linear(weights[0]), lif(6, tau=1e-5), out(6)),
    }


def make(folder: Path) -> None:
    """What commands of ours make of them."""
    import torch

    before = Path.cwd()
    os.chdir(folder)
    try:
        names = {"tiny": "tiny.nir", "chip": "chip.toml"}
        for line in MADE.format(**names).strip().splitlines():
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                assert run(shlex.split(line)) == 0, said.getvalue()
    finally:
        os.chdir(before)
    names = dict[str, Any]()
    exec(MODULES, names)
    torch.save(names["chain"](0.6).state_dict(), folder / "state.pt")
