"""Network -> Network: one verb a file."""

from nirbridge.passes.balance_delays import Retimed, balance_delays
from nirbridge.passes.drop_dead import drop_dead
from nirbridge.passes.relay_pools import relay_pools, relay_projection

__all__ = ["Retimed", "balance_delays", "drop_dead", "relay_pools", "relay_projection"]
