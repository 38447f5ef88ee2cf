"""The option of every command that puts a model on a chip."""

from __future__ import annotations

import click

early_option = click.option(
    "--keep-early-spikes",
    is_flag=True,
    help="Keep spikes fired before the first input instead of refusing them; verify reports the effect.",
)
