"""One page per command, made from the command itself: usage, options and examples as ``--help`` has them."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from nirbridge.cli import main as cli
from nirbridge.cli.help import record, sections
from nirbridge.cli.target_options import TargetCommand, target_rows


def write(folder: Path) -> None:
    """``folder/index.md`` and a page per command."""
    folder.mkdir(parents=True)
    context = click.Context(cli.nirbridge, info_name="nirbridge")
    for name, _, _ in cli.COMMANDS:
        command = cli.nirbridge.get_command(context, name)
        assert command is not None, name
        (folder / f"{name}.md").write_text(page(command, name, context), encoding="utf-8")
    rows = "\n".join(
        f"| **{heading}** | |\n" + "\n".join(f"| [{name}]({name}.md) | {text} |" for name, _, text in commands)
        for heading, commands in cli.GROUPS
    )
    names = "\n".join(name for name, _, _ in cli.COMMANDS)
    text = (
        "# Commands\n\nRules that hold for all of them (exit codes, files, JSON): "
        f"[the command line](../reference/cli.md).\n\n| command | |\n|---|---|\n{rows}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )
    (folder / "index.md").write_text(text, encoding="utf-8")


def page(command: click.Command, name: str, parent: click.Context) -> str:
    """The page of one command; a group has its commands one after the other."""
    context = click.Context(command, info_name=name, parent=parent, resilient_parsing=True)  # with all flags
    lines = [f"# nirbridge {name}" if parent.parent is None else f"## nirbridge {parent.info_name} {name}", ""]
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines += ["```text", " ".join(usage.split()), "```", "", _description(command), ""]
    for heading, options in sections(command.get_params(context)).items():
        rows = [_row(option, context) for option in options]
        lines += [f"{heading}:", "", "| option | |", "|---|---|", *rows, ""] if rows else []
    if isinstance(command, TargetCommand):
        rows = (f"| `{target}` | {text} |" for target, text in target_rows(emits=command.emits))
        lines += ["| target | |", "|---|---|", *rows, ""]
    if command.epilog:
        lines += ["```text", inspect.cleandoc(command.epilog).replace("\b", "").strip(), "```", ""]
    if isinstance(command, click.Group):
        children = ((n, command.get_command(context, n)) for n in command.list_commands(context))
        lines += [page(child, n, context) for n, child in children if child is not None]
    return "\n".join(lines) + "\n"


def _description(command: click.Command) -> str:
    """The help text; its blocks that keep their lines (click's mark) become fences."""
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    parts = [f"```text\n{p[1:].strip()}\n```" if p.startswith("\b") else p for p in text.split("\n\n")]
    return "\n\n".join(parts)


def _row(option: click.Option, context: click.Context) -> str:
    flags, text = record(option, context) or (", ".join(option.opts), option.help or "")
    return f"| `{_cell(flags)}` | {_cell(text)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
