"""What a spiking network is after import: frozen populations and projections in discrete time."""

from nirbridge.network.apply import apply, matrix
from nirbridge.network.check import diagnose, is_valid, verify
from nirbridge.network.equality import differences, same
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.portability import export_warnings
from nirbridge.network.nir.to_nir import to_nir

__all__ = [
    "Network",
    "Neuron",
    "Population",
    "Port",
    "Projection",
    "Timing",
    "apply",
    "diagnose",
    "differences",
    "export_warnings",
    "from_nir",
    "is_valid",
    "matrix",
    "neuron",
    "same",
    "to_nir",
    "verify",
]
