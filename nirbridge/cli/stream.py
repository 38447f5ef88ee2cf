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
from nirbridge.cli.common import ChipFile, Choice, Command, ModelFile, RegisteredName, refuse_given
from nirbridge.cli.interrupts import exit_on_termination
from nirbridge.cli.options import early_option, model_options, options_of_networks
from nirbridge.cli.output import progress_on_stderr
from nirbridge.errors import FileError, UsageError, counted, quoted

if TYPE_CHECKING:
    from nirbridge.api.sessions import Session
    from nirbridge.api.streams import Deadlines
    from nirbridge.chips.model import Chip
    from nirbridge.network.model import Timing

EXAMPLE = """\b
Example:
  nirbridge stream model.nir --format events < spikes.txt > out.txt
  nirbridge stream model.nir --listen 4000 --period 0.001 --realtime
  nirbridge stream model.nir --chip loihi2 --backend c < frames.bin > out.bin
  nirbridge stream program < frames.bin > out.bin"""


@click.command(
    name="stream",
    cls=Command,
    epilog=EXAMPLE,
    usual=("--format", "--listen", "--period", "--realtime", "--backend", "--json"),
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|MODEL.q.npz|FILE.py:ATTR|DIR", type=ModelFile())
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
@click.option("--period", type=float, metavar="SECONDS", help="Time between deadlines; default: the model's dt.")
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
@click.option(
    "--chip", metavar="NAME|FILE.toml", type=ChipFile(), help="Chip whose integers run; default: real numbers."
)
@click.option(
    "--map",
    "map_file",
    metavar="FILE.map.json",
    type=click.Path(),
    help="Map whose cores run; default of --backend mapped: a new one.",
)
@early_option
@model_options
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON document, on stderr.")
def command(model: str, form: Any, listen: str | None, period: float | None, as_json: bool, **options: Any) -> None:
    """Run a model time step by time step, each as soon as its spikes are there.

    MODEL is a network, one that nirbridge quantize saved, or a folder of nirbridge emit. Spikes come from stdin and go
    to stdout, or through a socket of this machine. A time step is a frame of fixed size: a byte or a bit for each input
    element; with events it is the lines of its time. stderr ends with how many took longer than the period.
    """
    from nirbridge.api.streams import stream

    if period is not None and not 0 < period < float("inf"):
        raise UsageError.of(f"--period {period}", "is no duration", "a finite number of seconds above 0")

    def after(step: int, seconds: float, is_met: bool) -> None:
        click.echo(f"{step} {seconds:.6f} {'met' if is_met else 'missed'}", err=True)

    each, is_paced = after if options.pop("times") else None, options.pop("realtime")
    with _opened(model, **options) as session:
        dt = _warmed(session)
        with exit_on_termination(), _ends(listen) as (source, sink):
            period_s = dt if period is None else period
            found = stream(session, source, sink, form, period_s, is_paced=is_paced, after=each)
    _print_summary(found, as_json)


def _opened(
    model: str,
    backend: str,
    chip: str | Chip | None,
    map_file: str | None,
    keep_early_spikes: bool,
    timing: Timing,
    max_bytes: int,
    **rewrites: Any,
) -> Session:
    """The model on its back end, for one sample. Raises UsageError for options that do not apply to it."""
    from nirbridge.api.files import load_quantized
    from nirbridge.api.sessions import open as opened

    on_chip = {"--chip": chip, "--map": map_file, "--keep-early-spikes": keep_early_spikes}
    is_program = os.path.isdir(model)
    if is_program or pipeline.holds_integers(model):
        of_networks = options_of_networks(timing, **rewrites)
        refuse_given(on_chip | of_networks, "programs and quantized networks have their numbers")
        return opened(model if is_program else load_quantized(model, max_bytes=max_bytes), backend=backend, batch=1)
    network = pipeline.load_network(model, timing, max_bytes=max_bytes, **rewrites)
    if chip is None:
        refuse_given(on_chip, "it belongs to --chip")
        return opened(network, backend=backend, batch=1)
    with progress_on_stderr() as progress:
        settings: dict[str, Any] = {"is_mapped": backend == "mapped", "keep_early_spikes": keep_early_spikes}
        ready = pipeline.model_on_chip(network, chip, map_file, **settings, progress=progress)
    return opened(ready, backend=backend, batch=1)


def _warmed(session: Session) -> float:
    """The dt of a session, after a time step that compiles or loads what only a first one needs."""
    import numpy as np

    silence = {p.name: np.zeros(p.shape, np.uint8) for p in session.inputs}
    if not silence:
        raise UsageError.of("model", "has no input", "a stream gives the inputs of each time step", "simulate it")
    dt = session.run({name: x[None] for name, x in silence.items()}).meta["dt"]
    session.step(silence)
    session.reset()
    session.resume(session.state())
    return dt


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
    is_port = listen.isascii() and listen.isdigit()
    if not is_port and os.sep not in listen:
        limit = "a port is a number, the path of a socket has a '/'"
        raise UsageError.of(
            f"--listen {quoted(listen)}", "neither a port nor a path", limit, "such as 4000 or ./socket"
        )
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
