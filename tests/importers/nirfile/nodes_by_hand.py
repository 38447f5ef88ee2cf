"""NIR nodes of two neurons with simple numbers, and graphs of them in series."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import nir
import numpy as np

N = 2


def each(number: Any, size: int = N) -> Any:
    return np.full(size, number, float) if np.ndim(number) == 0 else np.asarray(number, float)


def lif(tau: Any = 2e-3, r: Any = 3.0, **own: Any) -> Any:
    return nir.LIF(tau=each(tau), r=each(r), **{k: each(v) for k, v in {"v_leak": 0, "v_threshold": 1, **own}.items()})


def cuba(tau_mem: Any = 2e-3, tau_syn: Any = 3e-3, r: Any = 3.0, w_in: Any = 4.0, **own: Any) -> Any:
    fields = {"v_leak": 0, "v_threshold": 1, **own}
    gains = {"tau_mem": each(tau_mem), "tau_syn": each(tau_syn), "r": each(r), "w_in": each(w_in)}
    return nir.CubaLIF(**gains, **{k: each(v) for k, v in fields.items()})


def counter(r: Any = 3.0, **own: Any) -> Any:
    return nir.IF(r=each(r), **{k: each(v) for k, v in {"v_threshold": 1, **own}.items()})


def port(*shape: int) -> Any:
    return nir.Input({"input": np.array(shape)})


def end(*shape: int) -> Any:
    return nir.Output({"output": np.array(shape)})


def row(*cells: Any, edges: list[tuple[str, str]] | None = None, **named: Any) -> Any:
    """Cells in a row, named '0', '1' …, then those of ``named``."""
    nodes = {"in": port(N), **{str(k): c for k, c in enumerate(cells)}, "out": end(N)}
    return nir.NIRGraph({**nodes, **named}, [*pairwise(nodes), *(edges or [])], type_check=False)
