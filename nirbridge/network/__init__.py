"""The IR of a spiking network: frozen populations and projections in discrete time."""

from nirbridge.network.apply import apply, matrix
from nirbridge.network.check import check_network, diagnose_network, is_valid_network
from nirbridge.network.equality import network_differences, same_network
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.portability import export_warnings
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.network.sparse import sparse_operator

__all__ = [
    "Network",
    "Neuron",
    "Population",
    "Port",
    "Projection",
    "Timing",
    "apply",
    "check_network",
    "diagnose_network",
    "export_warnings",
    "from_nir",
    "is_valid_network",
    "matrix",
    "network_differences",
    "neuron",
    "same_network",
    "sparse_operator",
    "to_nir",
]
