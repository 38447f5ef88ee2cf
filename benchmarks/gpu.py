"""Networks A to D on one GPU: equal spikes first, then microseconds a time step, in torch, JAX, CuPy and Triton.

    python -m benchmarks.gpu -o build/gpu.json                      # a card; under five minutes
    python -m benchmarks.gpu --device cpu --small -o build/gpu.json # tries the script itself

Needs torch with CUDA; JAX, CuPy and Triton are used where they are, and all else is a row with the reason. No network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "0")  # before any of them is loaded: products are rounded
if platform.machine() in ("x86_64", "AMD64"):
    os.environ["XLA_FLAGS"] = f"--xla_cpu_max_isa=AVX {os.environ.get('XLA_FLAGS', '')}"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes most of the card

import numpy as np

from benchmarks import sim_nets
from benchmarks.gpu_contenders import CONTENDERS, Absent, Case, Run
from nirbridge.errors import NirbridgeError, ToolMissing
from nirbridge.network.model import Network, Port
from nirbridge.program.step import step_program
from nirbridge.simulators.simulate import simulate

STEPS = {"A": 100, "B": 50, "C": 100, "D": 50}
RATES = {"C": 0.3}
"""Input spikes per time step and element, otherwise 0.1."""
BATCHES = (1, 128, 4096)
LARGE_STEPS, DISTINCT, CHECKED = 20, 16, 2
"""Time steps of the largest batch, distinct samples of any batch, samples that are compared."""
LONG_S = 0.2
"""Runs up to this are traced to count their kernels: longer ones have too many."""
CNN_FILES = (sim_nets.CNN_FILE, Path("shared/data/nir_paper/02_cnn/cnn_sinabs.nir"))


@dataclass(slots=True)
class Row:
    """What became of a contender; shares are of the time that a copy, or empty launches alone, would take."""

    net: str
    batch: int
    contender: str
    status: str
    reason: str = ""
    steps: int = 0
    us_a_step: float | None = None
    first_run_s: float | None = None
    spikes: int = 0
    kernels_a_step: float | None = None
    bandwidth_share: float | None = None
    launch_share: float | None = None


def networks(small: bool) -> Iterator[tuple[str, Network | None]]:
    """Networks A to D with an input of the name ``in``; None for B without its file."""
    file = next((path for path in CNN_FILES if path.is_file()), None)
    makers = {"A": sim_nets.net_a, "B": partial(sim_nets.net_b, file) if file else None, "C": sim_nets.net_c}
    makers["D"] = partial(sim_nets.net_d, 1000 if small else 10_000)
    for name, make in makers.items():
        network = make().network if make else None
        if network is not None:  # D has no input: one that drives nothing states the number of time steps
            port = replace(network.inputs[0], name="in") if network.inputs else Port("in", (1,))
            ends = {p.name for p in network.inputs}
            edges = tuple(replace(p, source="in") if p.source in ends else p for p in network.projections)
            network = replace(network, inputs=(port,), projections=edges)
        yield name, network


def case_of(name: str, network: Network, batch: int, steps: int, device: str) -> Case:
    shape = (steps, min(batch, DISTINCT), *network.inputs[0].shape)
    few = np.random.default_rng(0).random(shape) < RATES.get(name, 0.1)
    x = np.ascontiguousarray(few[:, np.arange(batch) % DISTINCT], np.float32)
    arrays = simulate(network, {"in": x[:, :CHECKED]}).recording.arrays
    program = step_program(network)
    parts = [getattr(part, "parts", (part,)) for part in (p.operator for p in network.projections)]
    fields = [getattr(q, key, None) for part in parts for q in part for key in ("weight", "data", "indices", "scale")]
    weights = sum(4 * np.size(values) for values in fields if values is not None)
    state = sum(program.initial[key].size for key in program.carried if key in program.initial)
    state += sum(np.prod(h.shape) for h in program.histories.values())
    moved = 2 * state + np.prod(network.inputs[0].shape) + np.prod(network.outputs[0].shape)
    expected = arrays[network.outputs[0].name, "s"]
    return Case(name, network, x, expected, int(weights + 4 * batch * moved), device)


def finish(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def seconds(run: Run, device: str, repeats: int = 5, limit: float = 0.5) -> float:
    """The shortest of two to five runs; no third one begins after the limit."""
    found, begun = [], time.perf_counter()
    while len(found) < 2 or (len(found) < repeats and time.perf_counter() - begun < limit):
        start = time.perf_counter()
        run()
        finish(device)
        found.append(getattr(run, "seconds", None) or time.perf_counter() - start)
    return min(found)


def limits(device: str, small: bool) -> dict[str, float]:
    """Bytes a second of a large copy (read and written), and seconds of a kernel that does nearly nothing."""
    import torch

    large = torch.zeros(2**22 if small else 2**26, device=device)
    other, one = torch.empty_like(large), torch.zeros(1, device=device)
    seconds(lambda: other.copy_(large), device)
    copy = seconds(lambda: other.copy_(large), device)
    launches = seconds(lambda: [one.add_(1) for _ in range(1000)], device) / 1000
    return {"copy_bytes_a_second": 8 * large.numel() / copy, "launch_s": launches}


def kernels(run: Run, case: Case, taken: float) -> float | None:
    """Kernels and copies that the card ran a time step, of whichever library; None where nothing counts them."""
    if case.device != "cuda" or hasattr(run, "seconds") or taken > LONG_S:
        return None
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CUDA]) as trace:
            run()
            finish(case.device)
    except RuntimeError:  # of a machine that lets nobody trace
        return None
    return sum("CUDA" in str(event.device_type) for event in trace.events() or ()) / len(case.x) or None


def measured(case: Case, name: str, ceiling: Mapping[str, float]) -> Row:
    """Equality first, then times; a row that differs says in how many spikes and is timed all the same."""
    row = Row(case.net, case.batch, name, "equal", steps=len(case.x))
    try:
        start = time.perf_counter()
        run = CONTENDERS[name](case)
        found = run()
        finish(case.device)
        row.first_run_s = time.perf_counter() - start
        row.spikes = int(case.expected.sum())
        host = np.asarray(found.cpu() if hasattr(found, "cpu") else found)
        differing = int((host[:, :CHECKED] != case.expected).sum())
        if differing:
            row.status, row.reason = "differs", f"{differing:,} of {case.expected.size:,} values"
        taken = seconds(run, case.device) / len(case.x)
        row.us_a_step, row.bandwidth_share = taken * 1e6, case.bytes_a_step / ceiling["copy_bytes_a_second"] / taken
        row.kernels_a_step = kernels(run, case, taken * len(case.x))
        row.launch_share = row.kernels_a_step and row.kernels_a_step * ceiling["launch_s"] / taken
    except (Absent, ToolMissing, ModuleNotFoundError) as error:
        row.status, row.reason = "absent", str(error)
    except NirbridgeError as error:
        row.status, row.reason = "refused", str(error)
    except Exception as error:  # of a library: no row ends the others
        row.status, row.reason = "failed", f"{type(error).__name__}: {str(error)[:300]}"
    return row


def rows(device: str, small: bool, limit: float, ceiling: Mapping[str, float]) -> Iterator[Row]:
    """A row of each contender, network and batch; those that the time limit cuts say so."""
    begun = time.monotonic()
    nets, cases = dict(networks(small)), {}
    for contender in CONTENDERS:
        for name, network in nets.items():
            for batch in (1, 4) if small else BATCHES:
                row = Row(name, batch, contender, "absent", f"no file {CNN_FILES[0].name} beside the checkout")
                if network is not None and time.monotonic() - begun > limit:
                    row.status, row.reason = "not run", f"the limit of {limit:g} s was over"
                elif network is not None:
                    steps = 40 if small else LARGE_STEPS if batch == BATCHES[-1] else STEPS[name]
                    if (name, batch) not in cases:
                        cases[name, batch] = case_of(name, network, batch, steps, device)
                    row = measured(cases[name, batch], contender, ceiling)
                yield row


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/gpu.json"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="small networks, batches and numbers of time steps")
    parser.add_argument("--limit", type=float, default=240, help="seconds after which no row begins; default: 240")
    chosen = parser.parse_args(arguments)
    try:
        import torch
    except ImportError:
        print("benchmarks.gpu needs torch", file=sys.stderr)
        return 2
    if chosen.device == "cuda" and not torch.cuda.is_available():
        print("torch finds no card; --device cpu --small tries the script", file=sys.stderr)
        return 2
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    name = torch.cuda.get_device_name() if chosen.device == "cuda" else platform.machine()
    document: dict[str, Any] = {"device": name, "torch": torch.__version__, "rows": []}
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    document |= limits(chosen.device, chosen.small)
    for row in rows(chosen.device, chosen.small, chosen.limit, document):
        document["rows"].append(asdict(row))
        shown = "" if row.us_a_step is None else f"{row.us_a_step:,.1f} us a step "
        print(f"{row.net} {row.batch:5} {row.contender:18} {row.status:8} {shown}{row.reason}", flush=True)
        chosen.output.write_text(json.dumps(document, indent=1))  # after each row: a cut run leaves the rest
    return int(any(row["status"] in ("differs", "failed") for row in document["rows"]))


if __name__ == "__main__":
    raise SystemExit(main())
