"""The ``nirbridge`` command: finds the subcommand, turns errors into messages and exit codes.

Exit codes: 0 done; 1 the model cannot do what was requested; 2 wrong usage or unreadable input; 3 a bug of nirbridge;
130 interrupted; 141 the reader of the output went away. Nothing heavy is imported here, so that ``--help`` answers
at once: subcommands are modules that are imported when they run.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from nirbridge._version import __version__
from nirbridge.cli import interrupts, streams
from nirbridge.cli.help import HelpContext, write_examples, write_options
from nirbridge.cli.memory import memory_error
from nirbridge.cli.output import print_error
from nirbridge.errors import Bug, Diagnostic, FileError, NirbridgeError, UsageError, did_you_mean, printable, quoted
from nirbridge.files.attributes import load_attribute

_WHERE = "nirbridge.cli.commands."
GROUPS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Map",
        (
            ("map", f"{_WHERE}map:command", "Map a model onto a chip, with a proved lower bound."),
            ("check", f"{_WHERE}check:command", "Does a model fit a chip? Is a saved map legal?"),
            ("profile", f"{_WHERE}profile:command", "Measure energy, time and accuracy on your data."),
            ("sweep", f"{_WHERE}sweep:command", "Map many models, chips, widths and seeds into one table."),
        ),
    ),
    (
        "Run",
        (
            ("simulate", f"{_WHERE}simulate:command", "Simulate a model on inputs, exactly; save a recording."),
            ("stream", "nirbridge.cli.stream:command", "Run a model on spikes as they come, step by step."),
            ("run", f"{_WHERE}run:command", "Run an emitted program, supervised; save a recording."),
            ("bench", f"{_WHERE}bench:command", "Compare and time a model on every back end."),
            ("verify", f"{_WHERE}verify:command", "Compare reference, integers, map and program, bit for bit."),
            ("compare", f"{_WHERE}compare:command", "Compare two recordings, spike by spike."),
        ),
    ),
    (
        "Write",
        (
            ("import", f"{_WHERE}import_:command", "Import a trained module of a framework, exactly."),
            ("quantize", f"{_WHERE}quantize:command", "Quantize a model to a chip's integers; bound overflow."),
            ("emit", f"{_WHERE}emit:command", "Write a model as a program for another tool."),
            ("lower", f"{_WHERE}lower:command", "Lower a model to MLIR, stage by stage."),
            ("report", f"{_WHERE}report:command", "Write one HTML page on a model, its map and its runs."),
        ),
    ),
    (
        "Read",
        (
            ("inspect", f"{_WHERE}inspect:command", "Show a model: nodes, shapes, timing, and how it is read."),
            ("view", f"{_WHERE}report:view", "Write a page that shows a model, a map or a recording."),
            ("show", f"{_WHERE}show:command", "Show a file of any kind: model, map, recording, table, chip."),
            ("diff", f"{_WHERE}show:diff", "Show differences in meaning between two saved files."),
        ),
    ),
    (
        "Set up",
        (
            ("chips", f"{_WHERE}chips:command", "Show the chips, their limits, and the source of every number."),
            ("doctor", f"{_WHERE}doctor:command", "Show which optional tools are there, and how to get them."),
            ("completion", f"{_WHERE}completion:command", "Print the completion script of a shell."),
        ),
    ),
)
"""Commands by what they do: subcommand, where it is ("module:attribute"), one line of help."""
COMMANDS = tuple(command for _, commands in GROUPS for command in commands)

EXAMPLE = """\b
Example:
  nirbridge map model.nir --chip loihi1 -o model.map.json
  nirbridge map --help"""

REMOVED = {
    "--drop-batch": "use --repair batch-axis",
    "--print-after": "nirbridge inspect has it",
    "--replace-maxpool": "use --accept replaced-maxpool",
    "--portability": "use nirbridge inspect MODEL.nir --portability",
    "--no-potentials": "in Python: nirbridge.profile(..., potentials=False)",
}
"""Options of earlier versions, in commands that no longer have them, and what takes their place."""
READER_GONE = 141
_SHOWN = 500
"""Characters of a message of click, which holds the value of an option as it is."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they run; its help lists them from ``GROUPS`` alone."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of ``COMMANDS``."""
        return [name for name, _, _ in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None where there is none of that name."""
        for name, where, _ in COMMANDS:
            if name == cmd_name:
                return load_attribute(where)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest name where there is no such command."""
        if args[:1] == ["lava"]:  # as commands and scripts of version 0.1 have it: lava status, lava install
            args = ["doctor", *("--install" if arg == "install" else arg for arg in args if arg != "status")]
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            commands = self.list_commands(ctx)
            step = did_you_mean(args[0], commands) or f"commands: {', '.join(commands)}"
            ctx.fail(f"no command {args[0]!r}; {step}")
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """As click does, but an interrupt prints no empty line first."""
        try:
            return super().make_context(*args, **options)
        except KeyboardInterrupt as error:
            raise click.exceptions.Abort from error

    def invoke(self, ctx: click.Context) -> object:
        """As click does, but a reader that went away is told from other errors (click would exit with 1).

        Nor does an interrupt print an empty line first.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise streams.ReaderGone from error
        except KeyboardInterrupt as error:
            raise click.exceptions.Abort from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands by group, without importing them, then the options."""
        formatter.write_paragraph()
        longest = max(len(name) for name, _, _ in COMMANDS)
        for heading, commands in GROUPS:
            formatter.write_heading(heading)
            with formatter.indentation():
                formatter.write_dl([(name.ljust(longest), text) for name, _, text in commands])
        write_options(ctx, formatter, self.get_params(ctx), ())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples."""
        write_examples(formatter, self.epilog or "")


@click.group(
    name="nirbridge",
    cls=LazyGroup,
    help="Maps trained spiking networks (NIR files) onto neuromorphic chips, with a proved lower bound"
    " on the number of cores.",
    epilog=EXAMPLE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="nirbridge")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def nirbridge(debug: bool) -> None:
    """The group itself does nothing."""
    del debug  # read from the arguments by ``main``, since an error can come before click has parsed them


def main(args: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its code; the console script.

    Without ``args`` it is the program: Ctrl-C and closed standard streams are its own to handle.
    """
    if args is not None:
        sys.exit(run(list(args)))
    interrupts.leave_on_interrupt()
    is_open = streams.open_missing()
    sys.stdout = streams.Stdout(sys.stdout)
    try:
        interrupts.raise_on_interrupt()
        code = run(sys.argv[1:]) if is_open else _report(streams.closed_stdout(), as_json=False, debug=False)
        interrupts.leave_on_interrupt()
    except KeyboardInterrupt:  # before or after all that ``run`` guards
        streams.write_to_stderr(interrupts.MESSAGE)
        code = interrupts.EXIT_CODE
    streams.abandon_failing_streams()
    if code == interrupts.EXIT_CODE:
        interrupts.leave_after_cleaning()
    sys.exit(code)


def run(args: list[str]) -> int:
    """Runs the command line and returns its exit code; errors go to stderr (and, with --json, to stdout too)."""
    before = _before_command(args)
    as_json, debug, has_frames = _has_flag(args, "--json"), "--debug" in before, args[len(before) :][:1] == ["stream"]
    try:
        code = nirbridge.main(args=args, prog_name="nirbridge", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        streams.write_to_stderr(interrupts.MESSAGE)
        return interrupts.EXIT_CODE
    except (streams.ReaderGone, BrokenPipeError):
        return READER_GONE
    except click.exceptions.NoArgsIsHelpError as help_text:
        streams.write_to_stderr(help_text.format_message())
        return UsageError.exit_code
    except Exception as error:
        if _is_interrupted(error):
            streams.write_to_stderr(interrupts.MESSAGE)
            return interrupts.EXIT_CODE
        if isinstance(error.__cause__, BrokenPipeError):  # of a result that goes to /dev/stdout or a FIFO
            return READER_GONE
        return _report(error, as_json, debug, has_frames)


def _is_interrupted(error: BaseException | None) -> bool:
    """Whether an error came while Ctrl-C was handled, as from a ZIP file that cannot be closed in mid-member."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _report(error: Exception, as_json: bool, debug: bool, has_frames: bool = False) -> int:
    problem = _known(error)
    try:
        if debug:
            traceback.print_exception(error)
        print_error(problem, as_json=as_json, has_frames=has_frames)
        sys.stdout.flush()
    except (streams.ReaderGone, BrokenPipeError):
        return READER_GONE
    except FileError:  # of a stdout that is full; stderr has the error
        return problem.exit_code
    return problem.exit_code


def _known(error: Exception) -> NirbridgeError:
    """The error as one of ours: wrong usage found by click, or else a bug."""
    if isinstance(error, NirbridgeError):
        return error
    if isinstance(error, click.ClickException):
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "nirbridge"
        if isinstance(error, click.NoSuchOption):
            return UsageError(_unknown_option(error, command))
        found = printable(error.format_message(), _SHOWN).rstrip(".")
        return UsageError(Diagnostic(command, found[:1].lower() + found[1:], hint=f"{command} --help"))
    short = memory_error(error)
    if short is not None:
        return short
    found = f"{type(error).__name__}: {error}"
    step = "please report it; 'nirbridge --debug COMMAND …' shows the traceback"
    return Bug(Diagnostic("this is a bug of nirbridge", found, hint=step))


def _unknown_option(error: click.NoSuchOption, command: str) -> Diagnostic:
    names = (
        [name for p in error.ctx.command.get_params(error.ctx) for name in (*p.opts, *p.secondary_opts)]
        if error.ctx
        else []
    )
    options = [name for name in names if name.startswith("-")]
    near = REMOVED.get(error.option_name) or did_you_mean(error.option_name, options)
    step = "; ".join(text for text in (near, f"{command} --help") if text)
    return Diagnostic(command, f"no such option {quoted(error.option_name)}", hint=step)


def _has_flag(args: list[str], flag: str) -> bool:
    options = args[: args.index("--")] if "--" in args else args
    return flag in options


def _before_command(args: list[str]) -> list[str]:
    names = {name for name, _, _ in COMMANDS}
    return args[: next((i for i, arg in enumerate(args) if arg in names), len(args))]


if __name__ == "__main__":
    main()
