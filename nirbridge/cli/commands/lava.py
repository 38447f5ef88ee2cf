"""``nirbridge lava``: the isolated environment that emitted Lava programs run in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import Choice, Command
from nirbridge.cli.output import print_result, progress_on_stderr
from nirbridge.errors import UsageError

if TYPE_CHECKING:
    from nirbridge.emitters.lava.runtime.environment import LavaStatus

EXAMPLE = """\b
Example:
  nirbridge lava install
  nirbridge lava status --json"""


@click.command(name="lava", cls=Command, epilog=EXAMPLE)
@click.argument("action", type=Choice(["status", "install"]))
@click.option("--python", metavar="PATH", type=click.Path(), help="Install: the Python (3.10 to 3.13) to use.")
@click.option("--again", is_flag=True, help="Install: replace an existing environment.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(action: str, python: str | None, again: bool, as_json: bool) -> int:
    """Show the isolated Lava environment, or install it.

    It is in $NIRBRIDGE_CACHE/lava, else in the user's cache folder, and uses Python 3.10 if installed.
    NIRBRIDGE_LAVA_PYTHON names another interpreter that has Lava. The exit code of status is 1 if Lava does not work.
    """
    environment = install(python, again) if action == "install" else status(python, again)
    print_result(status_document(environment) if as_json else summary_lines(environment))
    return 0 if environment.ready else 1


def install(python: str | None, again: bool) -> LavaStatus:
    """Installs the environment if it is missing, with progress on a terminal."""
    with progress_on_stderr() as progress:
        return pipeline.install_environment(None if python is None else Path(python), again=again, progress=progress)


def status(python: str | None, again: bool) -> LavaStatus:
    """The state of the environment. Raises UsageError for options of install."""
    if python is not None or again:
        raise UsageError.of(
            "nirbridge lava status", "--python and --again are options of install", "", "leave them out"
        )
    return pipeline.environment_status()


def status_document(environment: LavaStatus) -> dict[str, Any]:
    """As JSON."""
    return {
        "ready": environment.ready,
        "python": None if environment.python is None else str(environment.python),
        "source": environment.source,
        "versions": dict(environment.versions),
        "trouble": environment.trouble,
        "hint": environment.hint,
    }


def summary_lines(environment: LavaStatus) -> list[str]:
    """The lines of the text output."""
    lines = [f"Lava {'works' if environment.ready else 'does not work'}"]
    if environment.python is not None:
        lines.append(f"python   {environment.python} (from {environment.source})")
    lines += [f"{name:<8} {version}" for name, version in sorted(environment.versions.items())]
    if environment.trouble:
        lines += [f"problem  {environment.trouble}", f"hint     {environment.hint}"]
    return lines
