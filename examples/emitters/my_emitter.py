"""An emitter of your own: copy this file, change ``make``, and register ``PLUGIN`` as docs/plugins.md describes.

``make`` writes the program; each field of ``Options`` is a flag of ``nirbridge emit``. This program is a table, which
cannot be run: ``records`` is empty. ``nirbridge/emitters/c/emit.py`` is an emitter whose programs run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NoReturn

from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.target import Target
from nirbridge.errors import UsageError
from nirbridge.network.model import Network
from nirbridge.plugins import Plugin


@dataclass(frozen=True, slots=True)
class Options:
    """Every field has a default; the text of ``Annotated`` is the help of its flag."""

    separator: Annotated[str, "Text between two columns"] = ","


def make(network: Network, options: Options) -> Artifact:
    """The files by path: the same model and options give the same bytes."""
    rows = [("population", "neurons"), *((p.name, str(p.size)) for p in network.populations)]
    text = "".join(f"{options.separator.join(row)}\n" for row in rows)
    files = {"populations.csv": text.encode(), "README.md": b"populations.csv lists the neurons of every population.\n"}
    return make_artifact(files, {"kind": "my_emitter"})


def start(*_: object, **__: object) -> NoReturn:
    """Runs a program, where ``records`` names what it records."""
    raise UsageError.of("program 'my_emitter'", "is a table", "nothing runs it", "open populations.csv")


TARGET = Target(
    name="my_emitter",
    summary="a table of the populations",
    takes=(Network,),
    hint="load it with nirbridge.load",
    make=make,
    start=start,
    options=Options,
    records=(),
)
PLUGIN = Plugin(emitters={"my_emitter": "my_emitter:TARGET"})
