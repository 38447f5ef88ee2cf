"""Draw a network, its floor plan and its proof in one figure: python draw_digits_cnn.py [FILE.svg|pdf|png]."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

import nirbridge as nb

HERE = Path(__file__).parent


def main(path: str = "digits_cnn.svg") -> None:
    network = nb.load(HERE / "models" / "digits_cnn.nir")
    mapped = nb.map(network, HERE / "chips" / "my_chip.toml")
    plt.rcParams["svg.hashsalt"] = "nirbridge"  # the same picture, the same file
    figure = plt.figure(figsize=(6.3, 4.4), layout="constrained")
    places = [["network", "floor plan"], ["network", "proof"]]
    axes = figure.subplot_mosaic(places, width_ratios=(1, 1.25), height_ratios=(1, 1.2))
    nb.plot_network(network, ax=axes["network"])
    nb.plot_floorplan(mapped, ax=axes["floor plan"])
    nb.plot_proof(mapped, ax=axes["proof"])
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(*sys.argv[1:2])
