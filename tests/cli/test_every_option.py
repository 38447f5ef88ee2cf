"""Every option of every command changes something: exit code, text, or a file that is written.

``option_rows`` has a row for each; an option without one fails here. A line is run in an empty folder, beside the
folder of its inputs, and in this process; what the same line does twice is equal, so a difference is the option's.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from nirbridge.cli.main import nirbridge, run
from tests.cli.option_files import write_files
from tests.cli.option_rows import ALONE, ROWS, Row

TIMES = re.compile(r"\b\d[\d.,]*(e[+-]?\d+)?(?= ?(s|ms|us|MiB)\b)|(?<=_s\": )[\d.e+-]+")


SHARED = Counter(row.without for rows in ROWS.values() for row in rows.values())


class Outcome(NamedTuple):
    code: int
    text: str
    files: dict[str, str]


def options_of(command: click.Command) -> set[str]:
    """The first long name of each option, as ``--output`` of ``-o, --output``."""
    params = command.get_params(click.Context(command, resilient_parsing=True, help_option_names=["-h", "--help"]))
    names = {next(n for n in p.opts if n.startswith("--")) for p in params if isinstance(p, click.Option)}
    return names - {"--help", "--help-all"}


def commands() -> Iterator[tuple[str, click.Command]]:
    yield "", nirbridge
    context = click.Context(nirbridge)
    for name in nirbridge.list_commands(context):
        command = nirbridge.get_command(context, name)
        assert command is not None
        assert not isinstance(command, click.Group), "commands of a group of its own are not walked"
        yield name, command


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_row(name: str) -> None:
    assert options_of(COMMANDS[name]) == set(ROWS[name])


class Lines:
    """Runs lines, each in an empty folder; a line that was run is remembered."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.known = folder, dict[tuple[str, object], Outcome]()
        (folder / "in").mkdir()
        write_files(folder / "in")

    def __call__(self, line: str, patch: object = None) -> Outcome:
        """The outcome of a line without its option; that of several rows is run twice, and is the same."""
        if (line, patch) not in self.known:
            self.known[line, patch] = self.ran(line)
            if SHARED[line] > 1 or "--plot" in line:
                assert self.ran(line) == self.known[line, patch], f"'{line}' has two outcomes"
        return self.known[line, patch]

    def ran(self, line: str) -> Outcome:
        place, before = self.folder / "here", Path.cwd()
        place.mkdir()
        try:
            os.chdir(place)
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                code = run(shlex.split(line.replace("@", "../in/")))
            files = {str(p.relative_to(place)): p for p in sorted(place.rglob("*")) if p.is_file()}
            return Outcome(code, TIMES.sub("T", said.getvalue()), {name: digest(p) for name, p in files.items()})
        finally:
            os.chdir(before)
            place.rename(self.folder / f"run{len(list(self.folder.iterdir()))}")


def digest(path: Path) -> str:
    data = path.read_bytes()
    with contextlib.suppress(UnicodeDecodeError):
        data = TIMES.sub("T", data.decode("utf-8")).encode()
    return sha256(data).hexdigest()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    for name in ("torch", "snntorch", "onnxruntime", "matplotlib"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    return Lines(tmp_path_factory.mktemp("options"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_changes_something(name: str, ran: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = []
    for option, row in ROWS[name].items():
        with monkeypatch.context() as patches:
            if row.patch is not None:
                row.patch(patches)
            faults += [f"{option}: {fault}" for fault in faults_of(row, ran)]
    assert not faults, "\n".join(faults)


def faults_of(row: Row, ran: Lines) -> Iterator[str]:
    without, given = ran(row.without, row.patch), ran.ran(row.given)
    if row.code not in (None, given.code):
        yield f"exit code {given.code} of '{row.given}':\n{given.text}"
    if row.says not in given.text:
        yield f"'{row.says}' is not said by '{row.given}':\n{given.text}"
    if row.no_effect:
        if given != without:
            yield f"it changes something, despite: {row.no_effect}"
    elif given == without:
        yield f"nothing differs between '{row.without}' and '{row.given}':\n{given.text}"


@pytest.mark.parametrize("line", ALONE)
def test_an_option_without_effect_beside_another_is_refused(line: str, ran: Lines) -> None:
    outcome = ran.ran(line)
    assert outcome.code == 2
    assert not outcome.files
    faults = [text for text in outcome.text.splitlines() if text.startswith("error: ")]
    starts = [f"error: {option}: does not apply here, " for option in ALONE[line]]
    assert [text[: len(start)] for text, start in zip(faults, starts, strict=True)] == starts
