"""scikit-learn's digits (1,797 real 8x8 images, offline) as spikes: what the example models see.

Needs numpy and scikit-learn only, so that a trained file can be evaluated without a training framework.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

TRAINING_IMAGES = 1200  # the rest, 597 images, is the test set; unshuffled, so that its writers are (nearly all) new
STEPS = 25
TEST_SEED = 2024


def load() -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Training images and labels, test images and labels; an image is ``[64]`` float32, pixels 0 to 1 (ink)."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.data / 16).astype(np.float32)
    labels = data.target.astype(np.int64)
    n = TRAINING_IMAGES
    return images[:n], labels[:n], images[n:], labels[n:]


def encode(images: npt.NDArray[Any], steps: int, generator: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Rate code: a pixel spikes in a step with the probability of its ink; ``[steps, *images.shape]`` of 0, 1."""
    return (generator.random((steps, *images.shape), dtype=np.float32) < images).astype(np.uint8)


def test_spikes() -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """The spikes ``[25, 597, 64]`` and labels ``[597]`` that the accuracy stored in a model file was measured on."""
    _, _, images, labels = load()
    return encode(images, STEPS, np.random.default_rng(TEST_SEED)), labels
