"""``nirbridge doctor``: the optional tools, which are there and how to get the others."""

from __future__ import annotations

import click

from nirbridge.cli.output import print_result
from nirbridge.cli.paths import Command

EXAMPLE = """\b
Example:
  nirbridge doctor
  nirbridge doctor --json"""


@click.command(name="doctor", cls=Command, epilog=EXAMPLE)
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
def command(as_json: bool) -> None:
    """Show which optional tools are there, in which version, and how to get the others.

    Frameworks, compilers, runtimes and simulators that single commands use. Nothing is imported; programs are asked
    for their version.
    """
    from nirbridge import pipeline
    from nirbridge.report.doctor import doctor_document, doctor_table

    facts, states = pipeline.host_facts(), pipeline.tool_states()
    print_result(doctor_document(facts, states) if as_json else doctor_table(facts, states))
