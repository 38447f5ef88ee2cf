"""Draw a network, its floor plan and its proof in one figure: python draw_digits_cnn.py [FILE.svg|pdf|png]."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

import nirbridge as nb

HERE = Path(__file__).parent


def main(path: str = "digits_cnn.png") -> None:
    network = nb.load(HERE / "models" / "digits_cnn.nir")
    mapped = nb.map(network, HERE / "chips" / "my_chip.toml")
    figure, axes = plt.subplots(1, 3, figsize=(11, 4), width_ratios=(1.15, 1.25, 1.1), layout="constrained")
    nb.plot_network(network, ax=axes[0])
    nb.plot_floorplan(mapped, ax=axes[1])
    nb.plot_proof(mapped, ax=axes[2])
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(*sys.argv[1:2])
