"""The option of every command that puts a model on a chip."""

from __future__ import annotations

import click

early_option = click.option(
    "--keep-early-spikes",
    is_flag=True,
    help="Start populations that fire before their first input at once; verify says how that differs.",
)
