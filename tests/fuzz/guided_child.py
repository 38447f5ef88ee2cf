"""One target in atheris, started by ``guided.py``, because atheris instruments modules while they are imported."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path

REPORTED_EVERY = 500


def run(name: str, result: Path, options: list[str]) -> None:
    """Runs the target in atheris, which ends the process itself; the tally goes into ``result`` on the way."""
    import atheris

    warnings.simplefilter("ignore")
    if name not in ("part", "table"):  # numba compiles no instrumented function, and these alone need its loops
        sys.modules["numba"] = None  # type: ignore[assignment]
    with atheris.instrument_imports(include=["nirbridge"], enable_loader_override=False):
        from tests.fuzz.campaign import Session, Tally, count
        from tests.fuzz.choices import recipe
        from tests.fuzz.targets import TARGETS

        tally, session = Tally(name), Session(TARGETS[name], Path(tempfile.mkdtemp(prefix="nirbridge-fuzz-")))
        for index in range(40):  # what is imported at first use is imported here
            session.run(recipe(f"{name} warm", 0, index))
    session.watch.limit_memory()
    session.watch.counting(TARGETS[name].first)
    out = result.open("w", encoding="utf-8")

    def one(data: bytes) -> None:
        outcome = session.run(data)
        count(tally, tally.inputs, outcome)
        if outcome.failure or tally.inputs % REPORTED_EVERY == 0:
            line = {"tally": asdict(tally), "recipe": data.hex(), "said": outcome.failure}
            out.write(json.dumps(line) + "\n")
            out.flush()

    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
