"""Check of a command's outputs before any work is done: no input is ever replaced."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from nirbridge.errors import Diagnostic, FileError, quoted
from nirbridge.files.atomic import resolve_folder
from nirbridge.files.places import ResolvedPath, resolve_output, resolve_path


@dataclass(frozen=True, slots=True)
class CommandInput:
    """A file that a command reads; ``name`` is that of its option or argument."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class CommandOutput:
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


def check_outputs(outputs: Sequence[CommandOutput], inputs: Iterable[CommandInput] = ()) -> tuple[ResolvedPath, ...]:
    """The places of all results, a report's as one for each of its files; nothing is opened or changed.

    Paths are compared as files (symbolic and hard links are followed), not as texts.

    Raises:
        FileError: with every problem: a place that cannot be written, that is read by the same command, or that two
            results share.
    """
    problems: list[Diagnostic] = []
    places: list[tuple[CommandOutput, ResolvedPath]] = []
    for output in outputs:
        try:
            places += [(output, place) for place in _places(output)]
        except FileError as error:
            problems += error.problems
    read = list(_read(inputs))
    problems += [problem for output, place in places for problem in _conflicts(output, place, read)]
    problems += _shared(places)
    if problems:
        raise FileError(*{str(problem): problem for problem in problems}.values())
    return tuple(place for _, place in places)


def _places(output: CommandOutput) -> Iterator[ResolvedPath]:
    if output.kind == "file":
        yield resolve_output(output.path, str(output))
    elif output.kind == "folder":
        yield resolve_folder(output.path, str(output))
    else:
        yield from _report_places(output)


def _report_places(output: CommandOutput) -> Iterator[ResolvedPath]:
    """Of each file; the folder, and those above it, may be new."""
    above = resolve_path(output.path, str(output))
    while above.kind == "new" and above.folder != above.path:
        above = resolve_path(above.folder, str(output))
    if above.kind != "folder":
        raise FileError.of(str(output), "is not a folder", "", "name another one")
    if not os.access(above.path, os.W_OK | os.X_OK):
        raise FileError.of(str(output), "cannot be written", "permission denied", "name another folder")
    for name in output.files:
        path = os.path.join(output.path, name)
        place = resolve_path(path, f"{output.name} {quoted(path)}")
        yield place if place.kind == "new" else resolve_output(path, f"{output.name} {quoted(path)}")


def _read(inputs: Iterable[CommandInput]) -> Iterator[tuple[CommandInput, ResolvedPath]]:
    for each in inputs:
        with suppress(FileError):  # its reader reports it
            yield each, resolve_path(each.path, each.name)


def _conflicts(
    output: CommandOutput, place: ResolvedPath, read: list[tuple[CommandInput, ResolvedPath]]
) -> Iterator[Diagnostic]:
    for each, source in read:
        subject, name = str(output), f"{each.name} {quoted(each.path)}"
        if place.is_same(source):
            yield Diagnostic(subject, f"is {name}", "which this command reads", "name another path")
        elif output.kind == "folder" and _is_inside(source, place):
            yield Diagnostic(subject, f"holds {name}", "which this command reads", "name another folder")


def _shared(places: list[tuple[CommandOutput, ResolvedPath]]) -> Iterator[Diagnostic]:
    for i, (output, place) in enumerate(places):
        for other, second in places[:i]:
            if place.is_same(second) or _overlap(output, place, second) or _overlap(other, second, place):
                text = f"is also the path of {other}"
                yield Diagnostic(str(output), text, "each result has its own", "name another path")


def _overlap(folder: CommandOutput, place: ResolvedPath, other: ResolvedPath) -> bool:
    return folder.kind == "folder" and _is_inside(other, place)


def _is_inside(inner: ResolvedPath, outer: ResolvedPath) -> bool:
    return inner.path.startswith(outer.path.rstrip(os.sep) + os.sep)
