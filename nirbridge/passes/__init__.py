"""Network -> Network: one verb a file."""

from nirbridge.passes.eliminate_dead import drop_dead
from nirbridge.passes.relay_pools import relay_pools, relay_projection
from nirbridge.passes.replicate_source import split_source
from nirbridge.passes.retiming.retime import Retimed, balance_delays

__all__ = ["Retimed", "balance_delays", "drop_dead", "relay_pools", "relay_projection", "split_source"]
