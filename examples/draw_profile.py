"""Draw the energy of an inference by layer, and by chip and width: python draw_profile.py [FILE.svg|pdf|png]."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt

import nirbridge as nb

HERE = Path(__file__).parent


def main(path: str = "profile.png") -> None:
    model = HERE / "models" / "digits_cnn.nir"
    data = np.random.default_rng(0).random((25, 8, 1, 8, 8)) < 0.3
    one = nb.profile(model, "loihi1", data)
    table = nb.profile(model, ["loihi1", "loihi2"], data, bits=[4, 8])
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.9, 2.6), layout="constrained")
    nb.plot_profile(one, ax=left)
    nb.plot_profile(table, ax=right)
    figure.savefig(path, dpi=170)


if __name__ == "__main__":
    main(*sys.argv[1:2])
