"""A limit of address space (``ulimit -v``) that the numerical libraries would hang or abort under."""

from __future__ import annotations

import os

from nirbridge.errors import NirbridgeError, UsageError
from nirbridge.files.regular import read_own

MIB = 2**20
NEEDED_BYTES = 768 * MIB
PER_CORE_BYTES = 48 * MIB
"""Measured: 670 MB for ``verify`` with two cores and nothing compiled yet; each core adds the stack and the buffer of
a thread of the linear algebra library. With less, its start waits for ever, and LLVM aborts the process."""
SCARCE_BYTES = 128 * MIB
_LIFT = "raise the limit, or lift it: ulimit -v unlimited"


def check_address_space() -> None:
    """Raises UsageError where a limit leaves less than any command is sure to start with."""
    limit = _limit()
    if limit is None:
        return
    needed = NEEDED_BYTES + PER_CORE_BYTES * len(os.sched_getaffinity(0))
    if limit < needed:
        found = f"address space is limited to {limit // MIB:,} MiB"
        raise UsageError.of("memory", found, f"nirbridge needs {needed // MIB:,} MiB to start", _LIFT)


def memory_error(error: Exception) -> NirbridgeError | None:
    """The error of ours where memory ran out: as MemoryError, or as anything else with a limit that is used up."""
    limit, used = _limit(), _used()
    reached = limit is not None and limit - used < SCARCE_BYTES
    if not reached and not isinstance(error, MemoryError):
        return None
    found = f"it is used up ({used // MIB:,} MiB in use)"
    if limit is None or not reached:
        text = " ".join(str(error).split())[:200]
        return NirbridgeError.of("memory", found, text, "use fewer steps or samples, or a larger machine")
    return NirbridgeError.of("memory", found, f"address space is limited to {limit // MIB:,} MiB", _LIFT)


def _limit() -> int | None:
    """Bytes of address space that this process may have; None: no limit."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def _used() -> int:
    try:
        return int(read_own("/proc/self/statm").split()[0]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return 0
