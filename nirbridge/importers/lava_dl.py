"""Networks that lava-dl exported: ``.net`` files (HDF5), in the integers of Loihi's CUBA neuron.

Layout: ``export_hdf5`` of the blocks of ``lava.lib.dl.slayer`` and ``lava.lib.dl.netx.hdf5``, which runs such files
(lava-dl 0.6). Groups ``layer/0``, ``layer/1`` … each with ``type``, ``shape``, ``weight``, ``bias``, ``delay`` and
``neuron``. One time step of a neuron, on the chip and in training::

    u = dec(u, iDecay) + 64 * (sum of weights of arriving spikes)      dec(x, k) = x * (4096 - k) / 4096, towards zero
    v = dec(v, vDecay) + u + 64 * bias
    s = v > 64 * vThMant;  v = 0 where s

The network computes this in reals, without the truncation of ``dec``, so exactly where no decay truncates; its
quantization (``quantization.scales``: integers of the chip stay as they are) is this rule to the last bit.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact, freeze
from nirbridge.errors import FileError, ModelError, quoted
from nirbridge.files.places import file_name
from nirbridge.importers.nirfile.hdf5.items import metadata_of
from nirbridge.importers.nirfile.hdf5.scan import ScanLimits
from nirbridge.importers.nirfile.reader import DEFAULT_MAX_BYTES, DEFAULT_MAX_EDGES, DEFAULT_MAX_NODES, open_scanned
from nirbridge.network.check import check_network
from nirbridge.network.compose import compose
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale
from nirbridge.network.storage.file import as_requested

SUFFIX = ".net"
_ONE, _UNIT = 4096, 64
_NEVER = 1 << 17
"""A threshold that v, at most 2**23 - 1, never exceeds: lava-dl writes 2**18 - 1 for readouts."""
_MOST = 1 << 26
"""Values of a layer."""
_DT = 1e-3
_AGAIN = "its sizes do not fit: export it again"
_NOT_READ = (
    ("gradedSpike", 0, "graded spikes", "spikes are 0 or 1 here"),
    ("messageBits", 0, "graded spikes", "spikes are 0 or 1 here"),
    ("wgtExp", 0, "an exponent of weights", "netx does not read it"),
    ("weight_exp", 0, "an exponent of weights", "netx does not read it"),
    ("refDelay", 1, "a refractory time", "netx runs it without"),
)
"""Parameters of a neuron: the most that they may be, what they are, and why."""
_REASONS = {
    "average": "averages and time decimation are stored alike",
    "convT": "netx does not run it either",
    "unpool": "netx does not run it either",
    "concat": "the layers it joins are not stored",
}


def load_lava_dl(
    path: str | os.PathLike[str],
    timing: Timing | None = None,
    repairs: Sequence[str] = (),
    *,
    max_bytes: int | None = None,
) -> Network:
    """The network of a ``.net`` file; v, thresholds and weights in the chip's own units, ``dt`` 1 ms unless given.

    A layer gets the spikes of the layer before one time step later (``delay_shift``, a hop on the chip), and later by
    that layer's axonal delays.

    Raises:
        FileError: it cannot be read, or is no file of lava-dl.
        ModelError: layers, neurons and numbers that Loihi's CUBA neuron does not have, each of the first such layer.
        UsageError: repairs, or a timing that is more than a time step.
    """
    shown = quoted(file_name(path))
    limits = ScanLimits(max_bytes or DEFAULT_MAX_BYTES, DEFAULT_MAX_NODES, DEFAULT_MAX_EDGES)
    with open_scanned(path, shown, limits, "a .net file", "export it again with export_hdf5") as scanned:
        stored = metadata_of(scanned.root).get("layer")
    if not isinstance(stored, dict) or sorted(stored) != sorted(map(str, range(len(stored)))) or not stored:
        limit = "groups 'layer/0', 'layer/1' … are expected"
        raise FileError.of(shown, "it holds no layers of lava-dl", limit, "export it with export_hdf5 of its network")
    made = _Made()
    for k in range(len(stored)):
        _add(made, f"{shown}, layer {k}", k, stored[str(k)])
    network = as_requested(made.network(), timing, repairs, f"file {shown}")
    check_network(network)
    return network


@dataclass(slots=True)
class _Made:
    """The network so far: ``source`` and ``shape`` of what the next layer gets, after the time steps ``delay``."""

    inputs: list[Port] = field(default_factory=list)
    populations: list[Population] = field(default_factory=list)
    projections: list[Projection] = field(default_factory=list)
    source: str = ""
    shape: Shape = ()
    delay: Array = field(default_factory=lambda: freeze(np.int64(0)))

    def start(self, shape: Shape) -> None:
        self.inputs.append(Port("input", shape))
        self.source, self.shape = "input", shape

    def connect(self, target: str, operator: Operator, **more: Any) -> None:
        """A projection from the source, whose values are put in the operator's shape."""
        own = self.populations[-1].shape if self.populations else self.inputs[0].shape
        parts = [Reshape(own, operator.input_shape), operator]
        joined, names = compose(parts, [target, target], own)
        self.projections.append(Projection(self.source, target, joined, nodes=names, delay_steps=self.delay, **more))

    def network(self) -> Network:
        if not self.populations:
            raise ModelError.of("network", "no layer has neurons", "", "export the layers of the network")
        own = self.populations[-1].shape
        extra = self.delay - 1  # the time step of a hop is that of the next layer
        read = Projection(self.source, "output", Identity(own), delay_steps=compact(extra))
        timing, assumed = Timing(_DT, "euler", "to-value", ">", "per-step"), (f"dt = {_DT:g} s (that of lava-dl)",)
        note = (
            "lava-dl: values in the chip's units; loihi1 and loihi2 keep its integers where no input can overflow them"
        )
        made = (tuple(self.populations), (*self.projections, read), tuple(self.inputs), (Port("output", own),))
        return Network(_DT, timing, *made, assumed=assumed, notes=(note,))


def _add(made: _Made, subject: str, k: int, layer: Any) -> None:
    kind = _text(layer)
    if kind not in (*_OPERATORS, "flatten"):
        limit = _REASONS.get(kind, "input, dense, dense_rec, conv, pool and flatten are read")
        raise ModelError.of(subject, f"its type is {quoted(kind)}", limit, "export a network without this layer")
    shape = tuple(int(n) for n in _numbers(layer, "shape", subject, 1, _MOST).reshape(-1))
    _refuse(math.prod(shape) > _MOST, subject, f"a shape of {shape}", f"at most {_MOST:,} values", _AGAIN)
    if kind == "input" and not made.inputs:
        made.start(shape)
        if "neuron" in layer:
            _add_layer(made, f"{kind}_{k}", subject, shape, layer)
    elif kind == "input" or (not made.inputs and kind not in ("dense", "dense_rec")):
        limit = "a network begins with one 'input', or with 'dense', which states the size of its input"
        raise ModelError.of(subject, f"layer {k} is {quoted(kind)}", limit, "export it with an Input block")
    elif kind == "flatten":
        made.shape = (math.prod(made.shape),)
    else:
        _add_layer(made, f"{kind}_{k}", subject, shape, layer)


def _add_layer(made: _Made, name: str, subject: str, shape: Shape, layer: Mapping[str, Any]) -> None:
    """Neurons after weights: ``shape`` is that of the file, channels first."""
    kind = _text(layer)
    operator = _OPERATORS[kind](made, kind, layer, subject)
    population = operator.output_shape
    if math.prod(shape) != math.prod(population):
        limit = "odd sizes that lava-dl's pools fill up have no form here" if kind == "pool" else ""
        raise ModelError.of(subject, f"its shape is {shape}, its weights make {population}", limit, _AGAIN)
    bias = _spread(_numbers(layer, "bias", subject, -(2**31), 2**31), population, subject, "bias")
    delay = _spread(_numbers(layer, "delay", subject, 0, 2**20), population, subject, "delay")
    made.connect(name, operator)
    record = _neuron(layer.get("neuron"), population, bias, subject)
    what = "a bias of inputs whose current decays"  # it is added to the current
    _refuse(kind == "input" and record.has_synapse and bool(np.any(bias)), subject, what, "no chip has it")
    made.populations.append(Population(name, population, record))
    made.source, made.shape = name, population
    made.delay = compact(delay.astype(np.int64) + 1)
    if kind == "dense_rec":
        what = "recurrent weights and axonal delays"
        _refuse(bool(delay.any()), subject, what, "netx delays both, training one")
        weight, neurons = _weights(layer, "weight_rec", subject), math.prod(population)
        what = f"recurrent weights of shape {weight.shape}"
        _refuse(weight.size != neurons**2, subject, what, f"it has {neurons:,} neurons", _AGAIN)
        square = Dense(freeze(weight.reshape(population * 2)))
        made.projections.append(Projection(name, name, square, delay_steps=freeze(np.int64(1)), is_back=True))


# -- numbers -------------------------------------------------------------------------------------------------------


def _refuse(found: bool, subject: str, what: str, limit: str, hint: str = "train and export it without") -> None:
    if found:
        raise ModelError.of(subject, f"it has {what}", limit, hint)


def _text(values: Any) -> str:
    """The type of a layer, which is an array of one text, or of a neuron, which is a text."""
    return str(next(iter(np.ravel(values.get("type", ""))), "")) if isinstance(values, dict) else ""


def _numbers(values: Mapping[str, Any], name: str, subject: str, least: int, most: int) -> Array:
    """Whole numbers of the file in float64; 0 where there are none."""
    found = np.asarray(values.get(name, 0))
    if found.dtype.kind not in "biuf" or not found.size:
        raise ModelError.of(subject, f"its {quoted(name)} is no array of numbers", "", "export it again")
    numbers = found.astype(np.float64)
    if not bool(np.all((numbers == np.rint(numbers)) & (numbers >= least) & (numbers <= most))):
        limit = f"whole numbers from {least:,} to {most:,}"
        raise ModelError.of(subject, f"its {quoted(name)} has other values", limit, "export it in the chip's integers")
    return numbers


def _weights(layer: Mapping[str, Any], name: str, subject: str) -> Array:
    _refuse(isinstance(layer.get(name), dict), subject, "complex weights", "resonators are no CUBA neurons")
    _refuse(name not in layer, subject, f"no {quoted(name)}", "a layer has weights", _AGAIN)
    return _numbers(layer, name, subject, -256, 255)


def _spread(values: Array, shape: Shape, subject: str, name: str) -> Array:
    """One value for all, for each channel or for each neuron, as an array of shape () or ``shape``."""
    if values.size == 1:
        return values.reshape(())
    if values.size == math.prod(shape):
        return values.reshape(shape)
    _refuse(values.size != shape[0], subject, f"{values.size:,} values of {name}", "one per channel or neuron", _AGAIN)
    return np.broadcast_to(values.reshape(-1, *(1,) * (len(shape) - 1)), shape)


def _neuron(stored: Any, shape: Shape, bias: Array, subject: str) -> Neuron:
    """The record of a CUBA neuron; an integrator that never fires where a layer has none, as in netx."""
    n = {"type": "CUBA", "iDecay": np.array(_ONE), "vThMant": np.array(_NEVER)} if stored is None else stored
    found, limit = f"neurons of type {quoted(_text(n))}", "CUBA and LOIHI are read, Loihi's integrate-and-fire"
    _refuse(_text(n) not in ("CUBA", "LOIHI"), subject, found, limit)
    for name, most, what, why in _NOT_READ:
        _refuse(bool(np.any(_numbers(n, name, subject, 0, 2**31) > most)), subject, f"{what} ({name})", why)

    def stored_as(name: str, most: int) -> Array:
        return _spread(_numbers(n, name, subject, 0, most), shape, subject, name)

    a_syn, a_mem = (1 - stored_as(name, _ONE) / _ONE for name in ("iDecay", "vDecay"))
    theta = stored_as("vThMant", 2**20)
    has_current, never = bool(np.any(a_syn)), bool(np.all(theta >= _NEVER))
    kind = "Cuba" * has_current + ("LI" if has_current or bool(np.any(a_mem != 1)) else "I") + "F" * (not never)
    return neuron(
        kind, a_syn=a_syn, g_syn=_UNIT if has_current else 1, a_mem=a_mem, g_mem=1 if has_current else _UNIT,
        theta=None if never else theta * _UNIT, bias=bias * _UNIT,
    )  # fmt: skip


# -- operators -----------------------------------------------------------------------------------------------------


def _scale(made: _Made, kind: str, layer: Mapping[str, Any], subject: str) -> Scale:
    """One weight for all inputs or for each; 64 where there is none."""
    weight = _weights(layer, "weight", subject) if "weight" in layer else np.full((), float(_UNIT))
    return Scale(np.array(np.broadcast_to(_spread(weight, made.shape, subject, "weight"), made.shape)))


def _dense(made: _Made, kind: str, layer: Mapping[str, Any], subject: str) -> Dense:
    """Weights ``[post, pre]``, also stored flat; the first layer states the size of the input."""
    weight = _weights(layer, "weight", subject)
    posts = math.prod(map(int, np.ravel(layer["shape"])))
    _refuse(weight.size % posts != 0, subject, f"weights of shape {weight.shape}", f"it has {posts:,} neurons", _AGAIN)
    weight = weight.reshape(posts, -1)
    if not made.inputs:
        made.start(weight.shape[1:])
    found, limit = f"weights of {weight.shape[1]:,} inputs", f"the layer before has {math.prod(made.shape):,} neurons"
    _refuse(weight.shape[1] != math.prod(made.shape), subject, found, limit, _AGAIN)
    return Dense(freeze(weight))


def _window(made: _Made, kind: str, layer: Mapping[str, Any], subject: str) -> Conv:
    """A convolution, or a pool as one with the same kernel for each channel; some files have a fifth axis of size 1."""
    weight, before = _weights(layer, "weight", subject), made.shape
    is_four = weight.ndim == 4 or weight.shape[4:] == (1,)
    _refuse(not is_four, subject, f"weights of shape {weight.shape}", "[out, in, height, width]", _AGAIN)
    _refuse(len(before) != 3, subject, f"an input of shape {before}", "[channels, height, width]", _AGAIN)
    out, fan_in, height, width = weight.shape[:4]
    groups = _pair(layer, "groups", subject)[0] if kind == "conv" else before[0]
    fits = fan_in * groups == before[0] and (out % groups == 0 if kind == "conv" else out == 1)
    _refuse(not fits, subject, f"weights of shape {weight.shape}", f"input {before}", _AGAIN)
    one_each = (out if kind == "conv" else groups, fan_in, height, width)
    kernel = np.array(np.broadcast_to(weight.reshape(out, fan_in, height, width), one_each))
    stride, padding, dilation = (_pair(layer, name, subject) for name in ("stride", "padding", "dilation"))
    return Conv(freeze(kernel), stride, tuple((p, p) for p in padding), dilation, groups, before)


def _pair(layer: Mapping[str, Any], name: str, subject: str) -> tuple[int, ...]:
    values = _numbers(layer, name, subject, 0 if name == "padding" else 1, 2**20).reshape(-1)
    _refuse(values.size > 2, subject, f"{values.size} values of {name}", "one per axis", _AGAIN)
    return tuple(int(n) for n in np.broadcast_to(values, 2))


_OPERATORS: dict[str, Callable[..., Operator]] = {
    "input": _scale, "dense": _dense, "dense_rec": _dense, "conv": _window, "pool": _window
}  # fmt: skip
