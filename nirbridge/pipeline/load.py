"""From files and names: graphs, networks, chips, rates, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nirbridge.arrays import Array
    from nirbridge.chips.model import Chip
    from nirbridge.network.model import Network, Timing


def timing(
    dt: float | None = None, integrator: Any = None, reset: Any = None, compare: Any = None, if_gain: Any = None
) -> Timing:
    """How a model is read; what is None is left to its file."""
    from nirbridge.network.model import Timing

    return Timing(dt, integrator, reset, compare, if_gain)


def load_graph(
    path: str | Path, *, max_bytes: int | None = None, repairs: Sequence[str] = (), dt: float | None = None
) -> Any:
    """A ``nir.NIRGraph`` from a file, scanned before anything is built.

    ``repairs``: names of exporter faults to mend (``importers.exporter_repairs``), with ``dt`` seconds a step; nothing
    is mended that is not asked for. Raises FileError; UsageError or ModelError for repairs that are none or do not fit.
    """
    from nirbridge.importers.load_repaired import load_repaired
    from nirbridge.importers.nir_file import DEFAULT_MAX_BYTES

    return load_repaired(path, repairs, dt=dt, max_bytes=max_bytes or DEFAULT_MAX_BYTES)[0]


def load_network(
    path: str | Path, timing: Timing | None = None, *, max_bytes: int | None = None, repairs: Sequence[str] = ()
) -> Network:
    """A network from a ``.nir`` file, repaired as of ``load_graph``, which its notes say.

    Raises FileError (unreadable), ModelError (no exact meaning) or UsageError (repairs).
    """
    from nirbridge.network.from_nir import from_nir

    dt = None if timing is None else timing.dt
    network = from_nir(load_graph(path, max_bytes=max_bytes, repairs=repairs, dt=dt), timing)
    if not repairs:
        return network
    return replace(network, notes=(*network.notes, f"repaired on request: {', '.join(repairs)}"))


def network_of_shapes(text: str, timing: Timing | None = None) -> Network:
    """A network of shapes alone from a line of text (``importers.shapes_text``). Raises UsageError."""
    from nirbridge.importers.shapes_text import graph_of
    from nirbridge.network.from_nir import from_nir

    return from_nir(graph_of(text), timing)


def load_chip(name_or_path: str | Path, without: tuple[int, ...] = ()) -> Chip:
    """A chip by name or from a TOML file, with cores masked out (flat indices on chip 0). Raises ChipError."""
    from nirbridge import registry
    from nirbridge.chips import without_cores

    chip = registry.load_chip(name_or_path)
    return without_cores(chip, without) if without else chip


def load_rates(path: str | Path, network: Network) -> tuple[Mapping[str, Array], str]:
    """Rates of a ``.npz`` file for ``MapOptions.rates``. Raises FileError or UsageError."""
    from nirbridge.mapping import rates

    return rates.load_rates(path, network)


def load_labels(path: str | Path) -> Array:
    """The right class of each sample, from a ``.npy`` file. Raises FileError."""
    from nirbridge.simulators.npy_file import load_npy

    return load_npy(path)


def fingerprint(path: str | Path) -> str:
    """SHA-256 of a model file, which a map file names. Raises FileError."""
    from nirbridge.importers import nir_file

    return nir_file.fingerprint(Path(path))
