"""``nirbridge doctor``: the optional tools, and the isolated environment that emitted Lava programs run in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import Command, OutputFolder, refuse_given
from nirbridge.cli.output import print_result, progress_on_stderr
from nirbridge.errors import UsageError, did_you_mean, quoted

if TYPE_CHECKING:
    from nirbridge.emitters.lava.runtime.environment import LavaStatus

EXAMPLE = """\b
Example:
  nirbridge doctor
  nirbridge doctor yosys --json
  nirbridge doctor --examples examples
  nirbridge doctor lava --install"""
LAVA = "lava"


@click.command(name="doctor", cls=Command, epilog=EXAMPLE)
@click.argument("tool", required=False, metavar="[TOOL]")
@click.option(
    "--examples", "output", metavar="DIR", type=OutputFolder(), help="Write example models, chips and sweeps to DIR."
)
@click.option("--install", is_flag=True, help="Set up the isolated environment of lava.")
@click.option("--python", metavar="PATH", type=click.Path(), help="With --install: the Python (3.10 to 3.13) to use.")
@click.option("--again", is_flag=True, help="With --install: replace an existing environment.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(tool: str | None, output: str | None, install: bool, python: str | None, again: bool, as_json: bool) -> int:
    """Show which optional tools are there, in which version, and how to get the others.

    Frameworks, compilers, runtimes and simulators that single commands use. Nothing is imported; programs are asked
    for their version. With TOOL, that one alone: the exit code is 1 if it is not there.

    Lava programs run in an environment of their own, which doctor lava --install sets up in $NIRBRIDGE_CACHE/lava,
    else in the user's cache folder, with Python 3.10 if installed; doctor lava imports Lava as a test.
    NIRBRIDGE_LAVA_PYTHON names another interpreter that has Lava.
    """
    if output is not None:
        refuse_given({"TOOL": tool, "--install": install or None}, "examples are written alone")
        return write_examples(output, as_json)
    if not install:
        refuse_given({"--python": python, "--again": again}, "it belongs to doctor lava --install")
    if tool == LAVA:
        environment = install_lava(python, again) if install else pipeline.environment_status()
        print_result(status_document(environment) if as_json else summary_lines(environment))
        return 0 if environment.ready else 1
    return show(tool, as_json=as_json, install=install)


def write_examples(folder: str, as_json: bool) -> int:
    """Writes the examples of the package, and says what to try."""
    files = pipeline.write_examples(folder)
    first = f"nirbridge map {folder}/models/digits_mlp.nir --chip {folder}/chips/my_chip.toml"
    said = [f"saved {quoted(folder)}: {', '.join(files)}", f"try: {first}"]
    print_result({"output": folder, "files": list(files)} if as_json else said)
    return 0


def show(tool: str | None, *, as_json: bool, install: bool) -> int:
    """The table of all tools or of one. Raises UsageError for an unknown one, and for one that is not installed so."""
    from nirbridge.report.chips import doctor_document, doctor_table

    states = pipeline.tool_states()
    chosen = [state for state in states if tool in (None, state.name)]
    if not chosen:
        hint = did_you_mean(tool or "", [state.name for state in states]) or "nirbridge doctor lists them"
        raise UsageError.of(f"tool {quoted(tool)}", "unknown", "", hint)
    if install:
        hint = "nirbridge doctor lava --install" if tool is None else chosen[0].hint
        raise UsageError.of("--install", "does not apply here", "lava alone has an environment of nirbridge's", hint)
    facts = pipeline.host_facts()
    print_result(doctor_document(facts, chosen) if as_json else doctor_table(facts, chosen))
    return int(tool is not None and chosen[0].version is None)


def install_lava(python: str | None, again: bool) -> LavaStatus:
    """Installs the environment if it is missing, with progress on a terminal."""
    with progress_on_stderr() as progress:
        return pipeline.install_environment(None if python is None else Path(python), again=again, progress=progress)


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
