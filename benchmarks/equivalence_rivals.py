"""Files written by nirbridge, imported and run by the frameworks' own readers; failures become a short reason."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.equivalence_model import quiet

LIMIT = 100


class Failed(Exception):
    """Why a framework does not run a file, in its own words."""


def rerun(framework: str, path: Path, dt: float, inputs: tuple[Any, ...]) -> Any:
    """Output ``[steps, batch, *shape]`` of the file in a framework.

    Raises:
        Failed: it refuses the file, or its model does not run.
    """
    import nir

    if len(inputs) > 1:  # nirtorch's loader does not come back, or gives a module of one argument
        raise Failed("not run: its reader makes a module of one input")
    with quiet(), contextlib.redirect_stdout(io.StringIO()), _silent():
        try:
            graph = nir.read(path)
        except Exception as error:
            raise Failed(f"nir.read refuses: {_short(error)}") from None
        try:
            module = IMPORTERS[framework](graph, dt)
        except Failed:
            raise
        except Exception as error:  # whatever a framework raises
            raise Failed(f"refuses: {_short(error)}") from None
        try:
            return _run(module, inputs[0])
        except Exception as error:
            raise Failed(f"fails when run: {_short(error)}") from None


def _run(module: Any, inputs: Any) -> Any:
    import torch

    state, out = None, []
    for now in inputs:
        result = module(now, state)
        y, state = result if isinstance(result, tuple) else (result, None)
        out.append(y)
    return torch.stack(out)


def _snntorch(graph: Any, dt: float) -> Any:
    from snntorch.import_nir import import_from_nir

    return import_from_nir(graph)  # it has no dt: 1e-4 s is written into it


def _norse(graph: Any, dt: float) -> Any:
    import nir
    import norse.torch

    known = (
        *(nir.Input, nir.Output, nir.Affine, nir.Linear, nir.Conv2d, nir.Flatten, nir.SumPool2d),
        *(nir.IF, nir.LIF, nir.CubaLIF),
    )
    left_out = dict.fromkeys(type(n).__name__ for n in graph.nodes.values() if not isinstance(n, known))
    if left_out:  # nodes of None: what is run then depends on the order of a set
        raise Failed(f"its reader leaves out {', '.join(left_out)}")
    return norse.torch.from_nir(graph, dt=dt)


def _spikingjelly(graph: Any, dt: float) -> Any:
    from spikingjelly.activation_based.nir_exchange import import_from_nir

    return import_from_nir(graph, dt=dt)


IMPORTERS: Mapping[str, Callable[[Any, float], Any]] = {
    "snnTorch": _snntorch,
    "Norse": _norse,
    "spikingjelly": _spikingjelly,
}
"""Framework -> its importer of NIR graphs."""


def _short(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    text = re.sub(r" at 0x[0-9a-f]+", "", lines[0]).replace("|", "/").strip()
    text = text if len(text) <= LIMIT else text[: LIMIT - 1].rstrip() + "…"
    return text if text and not isinstance(error, KeyError) else f"{type(error).__name__} {text}".strip()


@contextlib.contextmanager
def _silent() -> Any:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            yield
        finally:
            logging.disable(before)
