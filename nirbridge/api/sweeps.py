"""``nirbridge.sweep``: many models, chips, widths, objectives and seeds in one table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nirbridge._types import Progress, no_progress
from nirbridge.api.arguments import Count, checked
from nirbridge.sweeps.model import Sweep


@checked
def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    output: str | os.PathLike[str] | None = None,
    *,
    jobs: Count = 1,
    scheduler: str | None = None,
    progress: Progress = no_progress,
) -> Sweep:
    """Map models onto chips with every width, objective and seed; measured on data where there are any.

    Each point depends on its definition and its files alone, so the table is the same for any number of processes, in
    any order, and after a worker was lost; only the columns ``measured_wall_s`` and ``measured_cpu_s`` differ.

    Args:
        spec: the path of a TOML file, or a mapping with its keys (``models``, ``chips``, ``bits``, ``objectives``,
            ``seeds``, ``effort``, ``input``, ``labels``, ``steps``, ``samples``, ``encoder``). Paths are relative to
            the folder of the file, or to the working folder.
        output: a ``.parquet``, ``.csv`` or ``.json`` file; each row is kept beside it (``output.parts``) as soon as it
            is computed, and is not computed again by the next run. None: nothing is written.
        jobs: processes of this machine (extra ``sweep``).
        scheduler: address of a Dask scheduler, whose workers do it instead (extra ``dask``); they see the same files,
            and it is trusted with code.
        progress: called with the count of points and the estimated rest, and the completed fraction.

    Raises:
        FileError: the file is wrong (every problem), files that cannot be read, or that change meanwhile.
        UsageError: a mapping that is wrong, no such scheduler, workers that end again and again, a missing extra.
        ChipError: unknown chips.

    Example:
        >>> table = nb.sweep({"models": ["model.nir"], "chips": ["loihi1", "loihi2"], "seeds": [0, 1]})
        >>> table
        Sweep: 4 points
        >>> [row["cores"] for row in table.rows()]
        [1, 1, 1, 1]
    """
    from nirbridge.files.gate import CommandInput, CommandOutput, check_outputs
    from nirbridge.sweeps.plan import make_plan
    from nirbridge.sweeps.run import run_sweep
    from nirbridge.sweeps.spec import load_spec
    from nirbridge.sweeps.table import check_table_path

    if output is not None:
        check_table_path(output)
    plan = make_plan(load_spec(spec))
    if output is not None:
        files = {file.path: file.role for point in plan.points for file in point.files if file.path}
        read = [CommandInput(f"the {role}", path) for path, role in files.items()]
        check_outputs([CommandOutput("output", os.fspath(output))], read)
    result = run_sweep(plan, output, jobs=jobs, scheduler=scheduler, progress=progress)
    if output is not None:
        result.save(output)
    return result
