"""The gate that every command's results pass before any work is done: nothing that is read is ever replaced."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nirbridge.errors import FileError, Problem, quoted
from nirbridge.files.folders import folder_place
from nirbridge.files.places import Place, output_place, place_of


@dataclass(frozen=True, slots=True)
class Input:
    """A file that a command reads; ``name`` is that of its option or argument."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Output:
    """A path that a command writes.

    ``kind``: ``file``; ``folder``, which is replaced as a whole; ``report``, a folder that may hold other files and
    gets those of ``files``.
    """

    name: str
    path: str
    kind: Literal["file", "folder", "report"] = "file"
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {quoted(self.path)}"


def check_outputs(outputs: Sequence[Output], inputs: Iterable[Input] = ()) -> tuple[Place, ...]:
    """The places of all results, a report's as one for each of its files; nothing is opened or changed.

    Paths are compared as files (symbolic and hard links are seen through), not as texts.

    Raises:
        FileError: with every problem: a place that cannot be written, that is read by the same command, or that two
            results share.
    """
    problems: list[Problem] = []
    found: list[tuple[Output, Place]] = []
    for output in outputs:
        try:
            found += [(output, place) for place in _places(output)]
        except FileError as error:
            problems += error.problems
    read = list(_read(inputs))
    problems += [problem for output, place in found for problem in _conflicts(output, place, read)]
    problems += _shared(found)
    if problems:
        raise FileError(*{str(problem): problem for problem in problems}.values())
    return tuple(place for _, place in found)


def _places(output: Output) -> Iterator[Place]:
    if output.kind == "file":
        yield output_place(output.path, str(output))
    elif output.kind == "folder":
        yield folder_place(output.path, str(output))
    else:
        yield from _report_places(output)


def _report_places(output: Output) -> Iterator[Place]:
    """Of each file; the folder, and those above it, may be new."""
    above = place_of(output.path, str(output))
    while above.kind == "new" and above.folder != above.path:
        above = place_of(above.folder, str(output))
    if above.kind != "folder":
        raise FileError.of(str(output), "is no folder", "", "name another one")
    if not os.access(above.path, os.W_OK | os.X_OK):
        raise FileError.of(str(output), "cannot be written", "this user has no right to", "name another folder")
    for name in output.files:
        path = os.path.join(output.path, name)
        place = place_of(path, f"{output.name} {quoted(path)}")
        yield place if place.kind == "new" else output_place(path, f"{output.name} {quoted(path)}")


def _read(inputs: Iterable[Input]) -> Iterator[tuple[Input, Place]]:
    for each in inputs:
        try:
            yield each, place_of(each.path, each.name)
        except FileError:  # its reader says it better
            continue


def _conflicts(output: Output, place: Place, read: list[tuple[Input, Place]]) -> Iterator[Problem]:
    for each, source in read:
        thing, name = str(output), f"{each.name} {quoted(each.path)}"
        if place.is_same(source):
            yield Problem(thing, f"is {name}", "which this command reads", "name another path")
        elif output.kind == "folder" and _is_inside(source, place):
            yield Problem(thing, f"holds {name}", "which this command reads", "name another folder")


def _shared(found: list[tuple[Output, Place]]) -> Iterator[Problem]:
    for i, (output, place) in enumerate(found):
        for other, second in found[:i]:
            if place.is_same(second) or _overlap(output, place, second) or _overlap(other, second, place):
                text = f"is the place of {other}, too"
                yield Problem(str(output), text, "each result has its own", "name another path")


def _overlap(folder: Output, place: Place, other: Place) -> bool:
    return folder.kind == "folder" and _is_inside(other, place)


def _is_inside(inner: Place, outer: Place) -> bool:
    return inner.path.startswith(outer.path.rstrip(os.sep) + os.sep)
