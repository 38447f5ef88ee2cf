"""Networks of known sizes for the partitioner's tests, as shapes alone."""

from __future__ import annotations

from nirbridge.importers.shapes import graph_of_shapes
from nirbridge.network.model import Network
from nirbridge.network.nir.from_nir import from_nir

DVS_GESTURE = "1x32x32 conv16k3s2 lif conv32k3 lif conv64k3 lif conv11k3 lif flatten dense11 lif"
NMNIST = "2x34x34 conv16k5s2p1 if conv16k3p1 if sumpool2 conv8k3p1 if sumpool2 flatten dense256 if dense10 if"
DENSE_KILLERS = {
    "mlp": ("784 dense128 lif dense10 lif", 1, 1),
    "1500": ("1500 lif dense1500 lif", 1, 20),
    "2000x5": ("2000 lif" + " dense2000 lif" * 4, 2, 130),
    "recurrent": ("700 dense1024 lif:rec dense20 lif", 1, 16),
}
"""Name -> (shapes, chips, the fewest cores of loihi1 in any map)."""


def network_of(text: str) -> Network:
    """The network of a line of shapes."""
    return from_nir(graph_of_shapes(text))
