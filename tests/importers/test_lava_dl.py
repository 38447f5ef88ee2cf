"""Files of lava-dl, written here from their published structure, against the integer rule of Loihi's CUBA neuron."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import Array
from nirbridge.cli.main import run
from nirbridge.errors import FileError, ModelError, UsageError
from nirbridge.network import network_differences
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate

h5py = pytest.importorskip("h5py")
Layer = dict[str, Any]
STEPS = 40


def cuba(i_decay: object, v_decay: object, threshold: int, **more: object) -> Layer:
    return {
        "type": "CUBA",
        "iDecay": i_decay,
        "vDecay": v_decay,
        "vThMant": threshold,
        "refDelay": 1,
        "gradedSpike": False,
        **more,
    }


def written(path: Path, layers: list[Layer]) -> Path:
    """As ``export_hdf5``: the type of a layer is an array of fixed texts, that of a neuron one text."""
    with h5py.File(path, "w") as file:
        for k, layer in enumerate(layers):
            group = file.create_group(f"layer/{k}")
            for name, value in layer.items():
                if name == "type":
                    group.create_dataset(name, (1,), "S10", [value.encode("ascii")])
                elif name == "neuron":
                    for key, number in value.items():
                        group.create_dataset(f"neuron/{key}", data=number)
                else:
                    group.create_dataset(name, data=value)
    return path


def dense(rng: Any, pre: int, post: int, neuron: Layer | None, size: int = 127, **more: object) -> Layer:
    weight = 2.0 * rng.integers(-size, size, (post, pre))
    layer = {"type": "dense", "shape": np.array([post]), "inFeatures": pre, "outFeatures": post, "weight": weight}
    return {**layer, **more} | ({} if neuron is None else {"neuron": neuron})


# -- the chip ------------------------------------------------------------------------------------------------------


def decayed(x: Array, k: object) -> Array:
    return np.sign(x) * ((np.abs(x) * (4096 - np.asarray(k))) >> 12)


def on_the_chip(layers: list[Layer], spikes: Array) -> list[Array]:
    """Spikes of each dense layer: each gets those of the layer before one time step later, after its axonal delays."""
    every, before = [], spikes.astype(np.int64)
    for k, layer in enumerate(layers):
        n, weight = layer["neuron"], np.asarray(layer["weight"], np.int64)
        bias = np.asarray(layer.get("bias", 0), np.int64)
        u = v = np.zeros(len(weight), np.int64)
        s, sent = np.zeros(len(weight), np.int64), []
        for t in range(len(spikes)):
            arriving = before[t] if k == 0 else before[t - 1] * (t > 0)
            drive = weight @ arriving + np.asarray(layer.get("weight_rec", np.zeros((len(weight),) * 2)), np.int64) @ s
            u = decayed(u, n["iDecay"]) + (drive << 6)
            v = decayed(v, n["vDecay"]) + u + (bias << 6)
            s = (v > n["vThMant"] << 6).astype(np.int64)
            v = np.where(s > 0, 0, v)
            sent.append(s)
        every.append(np.array(sent))
        delays = np.broadcast_to(np.asarray(layer.get("delay", 0), np.int64), len(weight))
        before = np.array([[sent[t - d][i] if t >= d else 0 for i, d in enumerate(delays)] for t in range(len(spikes))])
    return every


def spikes_of(quantized: Any, spikes: Array) -> list[Array]:
    """Of the integers of the file, each population from its first time step on."""
    names = [p.name for p in quantized.populations]
    assert [float(p.neuron.scale) for p in quantized.populations] == [1.0] * len(names)
    late = max(quantized.latency[name] for name in names)
    padded = np.concatenate([spikes, np.zeros((late, spikes.shape[1]), spikes.dtype)])
    found = simulate_fixed(quantized, padded, record=[nb.Probe(name, ("s",)) for name in names]).recording.arrays
    return [found[name, "s"][quantized.latency[name] :][:STEPS] for name in names]


@pytest.mark.parametrize("seed", range(8))
def test_the_integers_are_those_of_the_file(tmp_path: Path, seed: int) -> None:
    """Decays that truncate, biases, axonal delays, recurrence: every spike of every layer, on both chips."""
    rng = np.random.default_rng(seed)
    neurons = [cuba(*map(int, rng.integers((200, 200, 40), (4097, 4097, 200)))) for _ in range(3)]
    layers = [
        dense(rng, 12, 9, neurons[0], bias=rng.integers(-30, 60, 9).astype(float)),
        dense(rng, 9, 8, neurons[1], 30, delay=rng.integers(0, 5, 8)),
        {**dense(rng, 8, 7, neurons[2]), "type": "dense_rec", "weight_rec": 2.0 * rng.integers(-60, 60, (7, 7))},
    ]
    spikes = (rng.random((STEPS, 12)) < 0.4).astype(np.uint8)
    expected = on_the_chip(layers, spikes)
    assert sum(s.sum() for s in expected) > 60
    network = nb.load(written(tmp_path / "x.net", layers))
    for chip in ("loihi1", "loihi2"):
        for found, wanted in zip(spikes_of(nb.quantize(network, chip), spikes), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_current_that_an_input_could_overflow_does_not_keep_its_integers(tmp_path: Path) -> None:
    """Each step may add 12 * 254 * 64, of which 4094 / 4096 stay: beyond 24 bits, so a smaller scale is proved."""
    layer = dense(np.random.default_rng(1), 12, 5, cuba(2, 3000, 190))
    quantized = nb.quantize(nb.load(written(tmp_path / "x.net", [layer])), "loihi2")
    assert quantized.populations[0].neuron.scale < 1
    assert quantized.report[0].bounds.proved


def test_decays_per_channel_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    layer = dense(rng, 6, 5, cuba(np.array([4096, 500, 200, 333, 4000]), np.array([128, 0, 4096, 7, 99]), 90))
    spikes = (rng.random((STEPS, 6)) < 0.5).astype(np.uint8)
    (expected,) = on_the_chip([layer], spikes)
    (found,) = spikes_of(nb.quantize(nb.load(written(tmp_path / "x.net", [layer])), "loihi2"), spikes)
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(found, expected)


def test_reals_are_exact_where_no_decay_truncates(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    layers = [dense(rng, 6, 5, cuba(4096, 0, 150)), dense(rng, 5, 4, cuba(4096, 4096, 60), bias=np.full(4, 10.0))]
    spikes = (rng.random((STEPS, 6)) < 0.5).astype(np.uint8)
    network = nb.load(written(tmp_path / "x.net", layers), dt=2e-3)
    assert (network.dt, network.is_dt_assumed) == (2e-3, False)
    record = [nb.Probe(p.name, ("s",)) for p in network.populations]
    found = simulate(network, spikes, record=record).recording.arrays
    for p, expected in zip(network.populations, on_the_chip(layers, spikes), strict=True):
        assert 0 < expected.mean() < 1
        np.testing.assert_array_equal(found[p.name, "s"], expected)


# -- layers --------------------------------------------------------------------------------------------------------


def images(rng: Any) -> list[Layer]:
    """An input block, a strided convolution, a pool, a flatten, a dense readout without neurons."""
    window = {"dilation": np.array([1, 1]), "padding": np.array([0, 0])}
    conv = {"type": "conv", "shape": np.array([4, 4, 6]), "stride": np.array([2, 1]), "groups": 2, **window}
    pool = {"type": "pool", "shape": np.array([4, 2, 3]), "stride": np.array([2, 2]), **window}
    return [
        {"type": "input", "shape": np.array([2, 9, 8]), "weight": np.float32(36), "bias": np.array([34.0]),
         "neuron": {**cuba(4096, 1024, 900), "type": "LOIHI", "wgtExp": 0}},
        {**conv, "weight": 2.0 * rng.integers(-20, 20, (4, 1, 3, 3, 1)), "bias": np.array([3.0, 0, 2, 8]),
         "neuron": cuba(4096, 0, 20)},
        {**pool, "weight": np.full((1, 1, 2, 2, 1), 8.0), "neuron": cuba(4096, 4096, 10)},
        {"type": "flatten", "shape": np.array([24, 1, 1])},
        {**dense(rng, 24, 3, None), "shape": np.array([3, 1, 1]), "weight": 2.0 * rng.integers(-9, 9, 72)},
    ]  # fmt: skip


def test_images_are_those_of_torch(tmp_path: Path) -> None:
    """Without decays; the sums are those of torch's layers on the same weights."""
    torch: Any = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    layers = images(rng)
    layers[0]["neuron"]["vDecay"] = 0
    network = nb.load(written(tmp_path / "x.net", layers))
    assert [p.shape for p in network.populations] == [(2, 9, 8), (4, 4, 6), (4, 2, 3), (3,)]
    values = rng.integers(0, 30, (STEPS, 2, 9, 8)).astype(float)
    names = [p.name for p in network.populations]
    found = simulate(network, values, record=[nb.Probe(n, ("v" if n == names[3] else "s",)) for n in names]).recording
    sent = [found.arrays[n, "s"].astype(float) for n in names[:3]]
    conv, pool = (torch.from_numpy(layers[k]["weight"][..., 0]) for k in (1, 2))
    drives = [
        36 * values + 34,
        torch.conv2d(torch.from_numpy(sent[0]), conv, stride=(2, 1), groups=2).numpy(),
        torch.conv2d(torch.from_numpy(sent[1]), pool.expand(4, 1, 2, 2), stride=2, groups=4).numpy(),
    ]
    biases = (0, np.array([3.0, 0, 2, 8])[:, None, None], 0)
    for k, (drive, bias, threshold) in enumerate(zip(drives, biases, (900, 20, 10), strict=True)):
        v = np.zeros(network.populations[k].shape)
        for t in range(STEPS):
            arriving = drive[t] if k == 0 else drive[t - 1] * (t > 0)
            v = v * (k < 2) + arriving + bias
            np.testing.assert_array_equal(sent[k][t], v > threshold)
            v[v > threshold] = 0
    weight = layers[4]["weight"].reshape(3, 24)
    summed = 64 * np.cumsum(sent[2].reshape(STEPS, 24) @ weight.T, axis=0)
    np.testing.assert_array_equal(found.arrays[names[3], "v"][1:], summed[:-1])
    assert all(0 < s.mean() < 1 for s in sent)


def test_a_file_is_a_model_wherever_one_is(tmp_path: Path, capsys: Any) -> None:
    rng = np.random.default_rng(6)
    layers = [dense(rng, 6, 5, cuba(100, 200, 90)), dense(rng, 5, 4, cuba(4096, 50, 90), delay=np.array([3]))]
    path = written(tmp_path / "x.net", layers)
    network = nb.load(path)
    assert network.notes[0].startswith("lava-dl: values in the chip")
    assert run(["import", str(path), "-o", str(tmp_path / "x.nir")]) == 0
    assert "from lava-dl, dt 0.001 s (assumed" in capsys.readouterr().out
    assert network_differences(network, nb.load(tmp_path / "x.nir")) == ()
    for command in (["inspect"], ["map", "--chip", "loihi2"], ["check", "--chip", "loihi1"]):
        assert run([command[0], str(path), *command[1:]]) == 0
    with pytest.raises(UsageError, match="repair 'norse' is requested"):
        nb.load(path, repairs=["norse"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"neuron": {"type": "SDNN", "vThMant": 3}}, "neurons of type 'SDNN', CUBA and LOIHI are read"),
        ({"neuron": cuba(1, 2, 3, gradedSpike=True)}, r"graded spikes \(gradedSpike\)"),
        ({"neuron": cuba(1, 2, 3, weight_exp=2)}, r"an exponent of weights \(weight_exp\), netx does not read it"),
        ({"neuron": cuba(1, 2, 3, refDelay=4)}, "a refractory time"),
        ({"neuron": cuba(5000, 2, 3)}, "its 'iDecay' has other values, whole numbers from 0 to 4,096"),
        ({"neuron": cuba(np.array([1, 2]), 2, 3)}, "2 values of iDecay, one per channel or neuron"),
        ({"weight": np.full((4, 6), 0.5)}, "its 'weight' has other values, whole numbers from -256 to 255"),
        ({"weight": np.full((4, 6), 300.0)}, "its 'weight' has other values"),
        ({"weight": np.zeros((4, 0))}, "its 'weight' is no array of numbers"),
        ({"weight": np.zeros((3, 6))}, r"weights of shape \(3, 6\), it has 4 neurons"),
        ({"delay": np.array([1, 2])}, "2 values of delay"),
        ({"delay": np.array([-1])}, "its 'delay' has other values"),
        ({"shape": np.array([0])}, "its 'shape' has other values"),
        ({"type": "average"}, "its type is 'average', averages and time decimation are stored alike"),
        ({"type": "magic"}, "its type is 'magic', input, dense, dense_rec, conv, pool and flatten are read"),
        ({"type": "conv"}, "layer 0 is 'conv', a network begins with one 'input'"),
        ({"type": "dense_rec", "delay": np.array([2]), "weight_rec": np.zeros((4, 4))}, "recurrent weights and axonal"),
        ({"type": "dense_rec"}, "no 'weight_rec'"),
    ],
)
def test_what_a_chip_does_not_have_is_refused(tmp_path: Path, change: Layer, message: str) -> None:
    layer = dense(np.random.default_rng(0), 6, 4, cuba(1, 2, 3)) | change
    with pytest.raises(ModelError, match=rf"^'x\.net', layer 0: .*{message}"):
        nb.load(written(tmp_path / "x.net", [layer]))


def test_other_refusals_name_their_layer(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    first = dense(rng, 6, 4, cuba(1, 2, 3))
    with pytest.raises(ModelError, match="layer 1: it has weights of 5 inputs, the layer before has 4 neurons"):
        nb.load(written(tmp_path / "x.net", [first, dense(rng, 5, 4, cuba(1, 2, 3))]))
    biased = images(rng)
    biased[0]["neuron"]["iDecay"] = 9
    with pytest.raises(ModelError, match="layer 0: it has a bias of inputs whose current decays"):
        nb.load(written(tmp_path / "x.net", biased))
    odd = images(rng)
    odd[2]["shape"] = np.array([4, 3, 3])
    with pytest.raises(ModelError, match="layer 2: its shape is .* odd sizes that lava-dl's pools fill up"):
        nb.load(written(tmp_path / "x.net", odd))
    odd = images(rng)
    odd[1]["weight"] = np.zeros((*odd[1]["weight"].shape[:4], 2))
    with pytest.raises(ModelError, match=r"layer 1: it has weights of shape \(.*, 2\)"):
        nb.load(written(tmp_path / "x.net", odd))
    odd[0]["shape"] = np.array([2**26, 2, 2])
    with pytest.raises(ModelError, match="layer 0: it has a shape of .*, at most 67,108,864 values"):
        nb.load(written(tmp_path / "x.net", odd))


def test_files_that_are_none_of_lava_dl(tmp_path: Path) -> None:
    path = tmp_path / "x.net"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(FileError, match="it is not an HDF5 file, a .net file is HDF5; export it again"):
        nb.load(path)
    with h5py.File(path, "w") as file:
        file["layer/1/type"] = "dense"
    with pytest.raises(FileError, match="it holds no layers of lava-dl, groups 'layer/0'"):
        nb.load(path)
    with h5py.File(path, "w") as file:
        file["layer/0/weight"] = h5py.ExternalLink("other.h5", "/weight")
    with pytest.raises(FileError, match="it is a link to another file, links are never followed"):
        nb.load(path)
    written(path, [dense(np.random.default_rng(0), 60, 40, cuba(1, 2, 3))])
    with pytest.raises(FileError, match="raise the limit with --max-bytes"):
        nb.load(path, max_bytes=100)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError):
        nb.load(path)
