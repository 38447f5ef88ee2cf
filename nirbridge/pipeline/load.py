"""From files and names: graphs, networks, chips, rates, labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nirbridge.arrays import Array
    from nirbridge.chips.model import Chip
    from nirbridge.network.model import Network, Timing


def load_graph(path: str | Path, *, max_bytes: int | None = None) -> Any:
    """A ``nir.NIRGraph`` from a file, scanned before anything is built. Raises FileError."""
    from nirbridge.importers import nir_file

    return nir_file.load(path) if max_bytes is None else nir_file.load(path, max_bytes=max_bytes)


def load_network(path: str | Path, timing: Timing | None = None, *, max_bytes: int | None = None) -> Network:
    """A network from a ``.nir`` file. Raises FileError (unreadable) or ModelError (no exact meaning)."""
    from nirbridge.network.from_nir import from_nir

    return from_nir(load_graph(path, max_bytes=max_bytes), timing)


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
