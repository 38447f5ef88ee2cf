"""Rewrites of networks, ``Network -> Network``: one pass per file, each a frozen dataclass of its options."""

from collections.abc import Mapping
from types import MappingProxyType

from nirbridge.passes.base import Pass, Promise, check_argument, run_passes
from nirbridge.passes.eliminate_dead import EliminateDead
from nirbridge.passes.relay_pools import RelayPools, RelayProjection
from nirbridge.passes.replicate_source import ReplicateSource
from nirbridge.passes.retiming.retime import Retime, RetimedNetwork, UniformDelays
from nirbridge.passes.text import check_options

PASSES: Mapping[str, str] = MappingProxyType(
    {
        "eliminate-dead": "nirbridge.passes.eliminate_dead:EliminateDead",
        "relay-pools": "nirbridge.passes.relay_pools:RelayPools",
        "relay-projection": "nirbridge.passes.relay_pools:RelayProjection",
        "replicate-source": "nirbridge.passes.replicate_source:ReplicateSource",
        "retime": "nirbridge.passes.retiming.retime:Retime",
        "uniform-delays": "nirbridge.passes.retiming.retime:UniformDelays",
    }
)
"""Registered names and their classes."""

__all__ = [
    "PASSES",
    "EliminateDead",
    "Pass",
    "Promise",
    "RelayPools",
    "RelayProjection",
    "ReplicateSource",
    "Retime",
    "RetimedNetwork",
    "UniformDelays",
    "check_argument",
    "check_options",
    "run_passes",
]
