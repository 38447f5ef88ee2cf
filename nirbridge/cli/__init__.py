"""The command line.

Where this import begins the program ``nirbridge`` (and not a program that uses it as a library), Ctrl-C is quiet from
here on, also while the rest is imported.
"""

import os
import sys


def _begins_the_program() -> bool:
    started = sys.argv[0] if sys.argv else ""
    folder, name = os.path.split(started)
    return name == "nirbridge" or (name == "__main__.py" and os.path.basename(folder) == "nirbridge")


if _begins_the_program():
    from nirbridge.cli.interrupts import leave_on_interrupt

    leave_on_interrupt()
