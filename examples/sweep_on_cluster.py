"""A sweep on two Dask workers of this machine, compared with the same sweep in one process.

python examples/sweep_on_cluster.py [--out FOLDER]      (extra: dask)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import nirbridge as nb

SWEEP = Path(__file__).resolve().parent / "sweeps" / "digits.toml"


def main() -> None:
    """Run both sweeps."""
    from distributed import LocalCluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path())
    folder = parser.parse_args().out
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        table = nb.sweep(SWEEP, folder / "digits.parquet", scheduler=cluster.scheduler_address)
    print(table.summary())
    print("equal to one process:", table.unmeasured() == nb.sweep(SWEEP).unmeasured())


if __name__ == "__main__":
    main()
