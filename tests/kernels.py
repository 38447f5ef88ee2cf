"""Compiled kernels of numba, made once for all processes of a test run.

Processes that start together with an empty cache would each compile what the others compile. After ``made_once`` one
of them compiles at a time; the others wait, and load its result from the cache.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any


def made_once() -> None:
    """From here on no function is compiled while another process of this checkout compiles one."""
    try:
        from numba.core.compiler_lock import global_compiler_lock
        from numba.core.dispatcher import Dispatcher
    except ImportError:
        return
    compiled, depth = Dispatcher.compile, 0

    def compiled_alone(self: Any, sig: Any) -> Any:
        nonlocal depth
        with global_compiler_lock, Path(__file__).open("rb") as file:  # the first: no other thread counts here
            if not depth:  # a function compiles those that it calls; one lock for all, so that none waits in a circle
                fcntl.flock(file, fcntl.LOCK_EX)
            depth += 1
            try:
                return compiled(self, sig)
            finally:
                depth -= 1
                if not depth:
                    fcntl.flock(file, fcntl.LOCK_UN)

    Dispatcher.compile = compiled_alone
