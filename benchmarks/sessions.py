"""Cost of a time step of a session above the back end's own kernel, and of a second simulation of integers.

Prints the Markdown tables of ``docs/sessions.md``: microseconds, the least of many short loops. The kernel is, for
simulators, the call that advances a run by a chunk of one time step, and for C the call of the program's step.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nirbridge as nb
from nirbridge.files.atomic import atomic_write_bytes

MODELS = ("digits_mlp", "digits_cnn")
REALS, INTEGERS = ("reference", "numpy", "fast", "event"), ("fixed", "c")
FOLDER = Path(__file__).parents[1] / "examples" / "models"


@dataclass(frozen=True, slots=True)
class Row:
    """One back end on inputs of a type: microseconds of its kernel, and of the rest of ``Session.step``."""

    model: str
    backend: str
    inputs: str
    kernel_us: float
    above_us: float


class Clock:
    """A function that adds up the time of its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any) -> Any:
        """The function's result."""
        start = time.perf_counter()
        try:
            return self.function(*args)
        finally:
            self.seconds += time.perf_counter() - start


def least_us(session: nb.Session, x: Any, loops: int) -> tuple[float, float]:
    """Least time of the kernel, and of all else in ``Session.step``: other work on the machine only adds to them."""
    session.step(x)
    runner: Any = session._runner
    inner = (
        runner
        if session.backend == "c"
        else next(c.cell_contents for c in runner._advance.__closure__ if hasattr(c.cell_contents, "chunk"))
    )
    name = "_step" if session.backend == "c" else "chunk"
    clock, kernel, above = Clock(getattr(inner, name)), float("inf"), float("inf")
    setattr(inner, name, clock)
    for _ in range(loops):
        before, start = clock.seconds, time.perf_counter()
        for _ in range(20):
            session.step(x)
        seconds, inside = time.perf_counter() - start, clock.seconds - before
        kernel, above = min(kernel, inside / 20 * 1e6), min(above, (seconds - inside) / 20 * 1e6)
    return kernel, above


def rows(loops: int) -> Iterator[Row]:
    """Every model on every back end."""
    for name in MODELS:
        network = nb.load(FOLDER / f"{name}.nir", progress=False)
        quantized = nb.quantize(network, "loihi2", progress=False)
        x = (np.random.default_rng(0).random(network.inputs[0].shape) < 0.3).astype(np.uint8)
        for backend in (*REALS, *INTEGERS):
            model = network if backend in REALS else quantized
            for values in (x, x.astype(np.float32)):
                session = nb.open(model, backend=backend, progress=False)
                yield Row(name, backend, str(values.dtype), *least_us(session, values, loops))


def calls_ms(model: Any, x: Any) -> tuple[float, float]:
    """Milliseconds of a first simulation of one time step, and of the quickest of the next ones."""
    times = []
    for _ in range(20):
        start = time.perf_counter()
        nb.simulate(model, x[None], progress=False)
        times.append((time.perf_counter() - start) * 1e3)
    return times[0], min(times[1:])


def preparations() -> Iterator[tuple[str, str, float, float]]:
    """(model, numbers, first and later milliseconds) of ``nirbridge.simulate``."""
    for name in MODELS:
        network = nb.load(FOLDER / f"{name}.nir", progress=False)
        x = np.zeros(network.inputs[0].shape, np.uint8)
        quantized, mapped = (f(network, "loihi2", progress=False) for f in (nb.quantize, nb.map))
        nb.simulate(nb.quantize(network, "loihi2", progress=False), x[None], progress=False)  # kernels are loaded
        yield name, "integers", *calls_ms(quantized, x)
        yield name, "mapped", *calls_ms(mapped, x)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=int, default=300, help="short loops of 20 calls each")
    parser.add_argument("-o", type=Path, help="also write the figures as JSON")
    options = parser.parse_args()
    found, prepared = list(rows(options.loops)), list(preparations())
    print("| model | back end | kernel, us: uint8 | float32 | above, us: uint8 | float32 |\n|---|---|---|---|---|---|")
    for a, b in zip(found[::2], found[1::2], strict=True):
        figures = (f"{us:.1f}" for us in (a.kernel_us, b.kernel_us, a.above_us, b.above_us))
        print(f"| {a.model} | {a.backend} | {' | '.join(figures)} |")
    print("\n| model | numbers | first simulate(), ms | next, ms |\n|---|---|---|---|")
    for name, numbers, first, later in prepared:
        print(f"| {name} | {numbers} | {first:.1f} | {later:.1f} |")
    if options.o is not None:
        document = {"steps": [asdict(row) for row in found], "simulate": prepared}
        atomic_write_bytes(options.o, (json.dumps(document, indent=1) + "\n").encode(), subject="figures")


if __name__ == "__main__":
    main()
