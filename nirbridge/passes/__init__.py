"""Network -> Network: one verb a file."""

from nirbridge.passes.eliminate_dead import eliminate_dead
from nirbridge.passes.relay_pools import relay_pools, relay_projection
from nirbridge.passes.replicate_source import replicate_source
from nirbridge.passes.retiming.retime import RetimedNetwork, balance_delays

__all__ = ["RetimedNetwork", "balance_delays", "eliminate_dead", "relay_pools", "relay_projection", "replicate_source"]
