"""Network -> Network: one verb a file."""

from nirbridge.passes.balance_delays import Retimed, balance_delays
from nirbridge.passes.drop_dead import drop_dead
from nirbridge.passes.relay_pools import relay_pools, relay_projection
from nirbridge.passes.split_source import split_source

__all__ = ["Retimed", "balance_delays", "drop_dead", "relay_pools", "relay_projection", "split_source"]
