"""``nirbridge stream``: run a model time step by time step, from standard input or a socket of this machine."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from nirbridge import pipeline
from nirbridge.cli.common import Choice, Command, ModelFile, RegisteredName
from nirbridge.cli.options import model_options
from nirbridge.errors import FileError, UsageError, counted, quoted

if TYPE_CHECKING:
    from nirbridge.api.streams import Deadlines

EXAMPLE = """\b
Example:
  nirbridge stream model.nir --format events < spikes.txt > out.txt
  nirbridge stream model.nir --listen 4000 --period 0.001 --realtime"""


@click.command(
    name="stream",
    cls=Command,
    epilog=EXAMPLE,
    usual=("--format", "--listen", "--period", "--realtime", "--backend", "--json"),
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--format",
    "form",
    type=Choice(["bytes", "bits", "events"]),
    default="bytes",
    show_default=True,
    help="A byte or a bit per element and time step, or lines 't address'.",
)
@click.option(
    "--listen",
    metavar="PORT|SOCKET",
    help="Serve one peer at this port of 127.0.0.1 (0: any), or a Unix socket at this path; default: stdin, stdout.",
)
@click.option("--period", type=float, metavar="SECONDS", help="Time between deadlines; default: the network's dt.")
@click.option("--realtime", is_flag=True, help="Begin no time step before its time, counted from the first one.")
@click.option("--times", is_flag=True, help="Print each time step's seconds, and met or missed, on stderr.")
@click.option(
    "--backend",
    type=RegisteredName("simulators"),
    default="auto",
    show_default=True,
    metavar="NAME",
    help="Simulator or emitter that keeps a state.",
)
@model_options
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON document, on stderr.")
def command(model: str, form: Any, listen: str | None, period: float | None, as_json: bool, **options: Any) -> None:
    """Run a model time step by time step, each as soon as its spikes are there.

    Spikes come from stdin and go to stdout, or through a socket of this machine. A time step is a frame of fixed size:
    a byte or a bit for each input element; with events it is the lines of its time. The last lines on stderr say how
    many time steps took longer than the period.
    """
    from nirbridge.api.sessions import open as opened
    from nirbridge.api.streams import stream

    early = {"rewrite": options["rewrite"], "repairs": options["repairs"], "max_bytes": options["max_bytes"]}
    network = pipeline.load_network(model, options["timing"], **early)
    period_s = network.dt if period is None else period
    if not 0 < period_s < float("inf"):
        raise UsageError.of(f"--period {period_s}", "is no duration", "a finite number of seconds above 0")
    if not network.inputs:
        raise UsageError.of("model", "has no input", "a stream gives the inputs of each time step", "simulate it")

    def after(step: int, seconds: float, is_met: bool) -> None:
        click.echo(f"{step} {seconds:.6f} {'met' if is_met else 'missed'}", err=True)

    with opened(network, backend=options["backend"], batch=1) as session, _ends(listen) as (source, sink):
        session.step({p.name: _silence(p.shape) for p in network.inputs})  # what is compiled or loaded at first
        session.reset()
        session.resume(session.state())
        each = after if options["times"] else None
        found = stream(session, network.inputs, source, sink, form, period_s, is_paced=options["realtime"], after=each)
    _print_summary(found, as_json)


def _silence(shape: tuple[int, ...]) -> Any:
    import numpy as np

    return np.zeros(shape, np.uint8)


def _print_summary(found: Deadlines, as_json: bool) -> None:
    """On stderr, since frames may be on stdout."""
    if as_json:
        record = {name: getattr(found, name) for name in ("steps", "missed", "worst_s", "mean_s", "period_s")}
        click.echo(json.dumps(record), err=True)
        return
    times = f"worst {found.worst_s * 1e3:.3f} ms, mean {found.mean_s * 1e3:.3f} ms, period {found.period_s * 1e3:g} ms"
    click.echo(f"{counted(found.steps, 'time step')}, {found.missed:,} missed; {times}", err=True)


@contextmanager
def _ends(listen: str | None) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Where frames come from and go to."""
    if listen is None:
        yield sys.stdin.buffer, sys.stdout.buffer
        return
    with _peer(listen) as peer, peer.makefile("rb") as source, peer.makefile("wb") as sink:
        try:
            yield source, sink
        except ConnectionResetError as error:
            raise FileError.of("stream", "the peer closed the connection", "", "connect again") from error


@contextmanager
def _peer(listen: str) -> Iterator[socket.socket]:
    """The first peer that connects; no other is served. The file of a Unix socket is removed."""
    is_port = listen.isdigit()
    server = socket.socket(socket.AF_INET if is_port else socket.AF_UNIX, socket.SOCK_STREAM)
    with server:
        _bind(server, listen, is_port)
        try:
            server.listen(1)
            place = f"127.0.0.1:{server.getsockname()[1]}" if is_port else listen
            click.echo(f"listening at {place}", err=True)
            peer, _ = server.accept()
        finally:
            if not is_port:
                with suppress(OSError):
                    os.unlink(listen)
    with peer:
        yield peer


def _bind(server: socket.socket, listen: str, is_port: bool) -> None:
    """Binds to this machine alone, a Unix socket for this user alone. Raises UsageError."""
    before = os.umask(0o177)
    try:
        server.bind(("127.0.0.1", int(listen)) if is_port else listen)
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError.of(f"--listen {quoted(listen)}", f"{reason}", "", "choose a free port or path") from error
    finally:
        os.umask(before)
