"""``nirbridge completion``: the script that completes commands, options and names in a shell."""

from __future__ import annotations

import click

from nirbridge.cli.common import Choice, Command
from nirbridge.cli.output import print_result

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_NIRBRIDGE_COMPLETE"
"""Set by the script; click then answers with completions instead of running a command."""

EXAMPLE = """\b
Example:
  eval "$(nirbridge completion bash)"
  eval "$(nirbridge completion zsh)"
  nirbridge completion fish > ~/.config/fish/completions/nirbridge.fish"""


@click.command(name="completion", cls=Command, epilog=EXAMPLE)
@click.argument("shell", metavar="bash|zsh|fish", type=Choice(SHELLS))
@click.option("--json", "as_json", is_flag=True, help="One JSON document with the script in it.")
def command(shell: str, as_json: bool) -> None:
    """Print the script that completes commands, options, chips, methods and plugins' names in a shell."""
    script = script_of(shell)
    print_result({"shell": shell, "script": script} if as_json else [script])


def script_of(shell: str) -> str:
    """The script of click, which asks this program for completions."""
    from click.shell_completion import ShellComplete, get_completion_class

    from nirbridge.cli.main import nirbridge

    kind = get_completion_class(shell)
    if kind is None:
        raise LookupError(shell)
    # ShellComplete's own, since that of bash runs bash to complain of old versions
    return ShellComplete.source(kind(nirbridge, {}, "nirbridge", VARIABLE)).strip()
