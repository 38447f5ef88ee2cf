"""Imported models compared with their originals: generates docs/equivalence.md from runs.

    python -m benchmarks.equivalence -o docs/equivalence.md

Progress goes to standard error, the page to the file, or to standard output. The page holds no times and nothing of the
machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.equivalence_converted import rows as converted_rows
from benchmarks.equivalence_measure import Row, measure
from benchmarks.equivalence_models import models
from benchmarks.equivalence_page import page, reference

Progress = Callable[[Row], None]


def all_rows(progress: Progress | None = None, *, grid: bool = True) -> list[Row]:
    """Every row of the page, in its order."""
    found: list[Row] = []
    for source in ((measure(model, grid=grid) for model in models()), converted_rows()):
        for row in source:
            found.append(row)
            if progress:
                progress(row)
    return found


def _show(row: Row) -> None:
    print(f"{row.model.framework}: {row.model.name}: {reference(row)}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="where the page goes (default: standard output)")
    parser.add_argument("--off-grid", action="store_true", help="Gaussian weights, where the last bit may decide")
    options = parser.parse_args()
    text = page(all_rows(_show, grid=not options.off_grid))
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
