"""Ctrl-C during a search: the blocks that it had found so far travel with the exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from nirbridge.partitioner.cost.axons import Blocks

P = ParamSpec("P")
T = TypeVar("T")


class SearchInterrupted(KeyboardInterrupt):
    """A search ended by KeyboardInterrupt; ``blocks``: the best legal ones so far, None if there are none."""

    def __init__(self, blocks: Blocks | None) -> None:
        super().__init__()
        self.blocks = blocks


def interrupted(error: KeyboardInterrupt, blocks: Blocks | None) -> SearchInterrupted:
    """The exception with the better of ``blocks`` and what ``error`` brings; fewer cores are better."""
    found = [b for b in (blocks, error.blocks if isinstance(error, SearchInterrupted) else None) if b is not None]
    return SearchInterrupted(min(found, key=len, default=None))


@contextmanager
def keeping(blocks: Blocks | None) -> Iterator[None]:
    """An interrupt within takes the best blocks of before along."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise interrupted(error, blocks) from error


def kept(blocks: Blocks | None, search: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``search(...)``; an interrupt of it takes the best blocks of before along."""
    with keeping(blocks):
        return search(*args, **kwargs)


def finished(keep_best: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, bool]:
    """``work(...)``, which is short and ends a search, and whether an interrupt came: then it is done once more.

    Without ``keep_best`` the interrupt goes on.
    """
    try:
        return work(*args, **kwargs), False
    except KeyboardInterrupt:
        if not keep_best:
            raise
        return work(*args, **kwargs), True
