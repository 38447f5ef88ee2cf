"""The command line.

Where this import begins the program ``nirbridge`` (and not a program that uses it as a library), Ctrl-C is quiet from
here on, also while the rest is imported. What comes before is Python's own start.
"""

import _signal  # pyright: ignore[reportMissingImports] - signal itself imports much, which an interrupt could hit
import os
import sys


def _begins_the_program() -> bool:
    started = sys.argv[0] if sys.argv else ""
    folder, name = os.path.split(started)
    return name == "nirbridge" or (name == "__main__.py" and os.path.basename(folder) == "nirbridge")


def _leave(number: int, frame: object) -> None:
    del number, frame
    os.write(2, b"nirbridge: interrupted\n")
    os._exit(130)


if _begins_the_program() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _leave)
