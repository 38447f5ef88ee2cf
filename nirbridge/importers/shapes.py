"""A network of shapes alone, from one line of text: does it fit, before anything is trained?

The line is an input shape and layers, separated by spaces; ``docs/shapes.md`` has the grammar. Weights and neuron
parameters are placeholders that take part in no answer about fitting: one valid value, seen through a zero-stride
view, so a layer of any size costs no memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import nir
import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, UsageError, counted, nearest, quoted
from nirbridge.network.nir.timing import PREFIX
from nirbridge.network.nir.windows import Window

ELEMENTS_MAX = 20_000_000
"""Most elements of the input and of the output of a layer."""
WEIGHTS_MAX = 10**15
AXIS_MAX = 10_000_000
"""Most pairs of output position and kernel element along one axis."""

DT_S = 1e-3
TAU_S = 20e-3
_TIMING = {
    "dt": DT_S,
    "integrator": "euler",
    "reset": "to-value",
    "compare": ">",
    "if_gain": "per-second",
    "source": "shapes alone",
}


def graph_of_shapes(text: str) -> nir.NIRGraph:
    """The network that a line such as ``"2x34x34 conv16k5s2p1 if sumpool2 flatten dense10 lif"`` describes.

    Every value in it is a placeholder (weights 1, thresholds 1, time constants 20 ms at time steps of 1 ms): only
    shapes matter. Nodes are called by the position and kind of their word (``0_input``, ``1_conv``, ``2_if``); the
    recurrent weights of ``2_lif`` are ``2_lif_rec``.

    Raises:
        UsageError: a word that is no input shape or layer (all such words), else the first layer that does not go
            with the shape that reaches it; each with the word, its position, the expected form and an example.
    """
    words = parse_shapes(text)
    first, *layers = words
    shape = _within(first, first.form.size)
    nodes: dict[str, Any] = {"0_input": nir.Input({"input": np.array(shape)})}
    edges: list[tuple[str, str]] = []
    last = "0_input"
    for word in layers:
        name = f"{word.position}_{word.kind}"
        nodes[name], after = _typed(*_node(word, shape))
        edges.append((last, name))
        if word.form.recurrent:
            nodes[f"{name}_rec"], _ = _typed(_all_to_all(word, "all-to-all recurrence", shape, shape[0]), shape, shape)
            edges += [(name, f"{name}_rec"), (f"{name}_rec", name)]
        last, shape = name, after
    output = f"{len(words)}_output"
    nodes[output] = nir.Output({"output": np.array(shape)})
    metadata = {PREFIX + key: value for key, value in _TIMING.items()}
    return nir.NIRGraph(nodes, [*edges, (last, output)], metadata=metadata, type_check=False)


def _typed(node: Any, before: Shape, after: Shape) -> tuple[Any, Shape]:
    """The node with its own types: nir infers them wrongly for non-square kernels and for groups."""
    node.input_type = {"input": np.array(before)}
    node.output_type = {"output": np.array(after)}
    return node, after


def _refuse(word: LayerToken, found: str, limit: str, hint: str) -> UsageError:
    return UsageError(Diagnostic(word.label, found, limit, hint, {"layer": word.position, "word": word.text}))


def _shown(shape: Shape) -> str:
    return "x".join(str(n) for n in shape)


def _within(word: LayerToken, shape: Shape) -> Shape:
    """``shape``, which ``word`` puts out, if it is not too large."""
    if math.prod(shape) > ELEMENTS_MAX:
        found = f"it has {math.prod(shape):,} elements ({_shown(shape)})"
        raise _refuse(word, found, f"at most {ELEMENTS_MAX:,} are taken", "make the layer smaller")
    return shape


def _view(value: float, *shape: int) -> Array:
    """``value`` everywhere, in the memory of one element."""
    return np.broadcast_to(np.float32(value), shape)


def _node(word: LayerToken, shape: Shape) -> tuple[Any, Shape, Shape]:
    """The node of a layer, the shape that it takes and the one that it puts out."""
    if word.kind in NEURONS:
        return _neurons(word.kind, shape), shape, shape
    if word.kind == "dense":
        return _all_to_all(word, "dense", shape, word.form.size[0]), shape, word.form.size
    if word.kind == "flatten":
        return nir.Flatten({"input": np.array(shape)}, start_dim=0, end_dim=-1), shape, (math.prod(shape),)
    return _conv(word, shape) if word.kind == "conv" else _pool(word, shape)


def _neurons(kind: str, shape: Shape) -> Any:
    """Neurons with valid placeholder values: v_threshold 1, v_leak and v_reset 0, a unit input adds 1."""
    one, zero, tau = _view(1.0, *shape), _view(0.0, *shape), _view(TAU_S, *shape)
    if kind == "if":
        return nir.IF(r=_view(1 / DT_S, *shape), v_threshold=one, v_reset=zero)
    if kind == "threshold":
        return nir.Threshold(threshold=one)
    if kind == "li":
        return nir.LI(tau=tau, r=one, v_leak=zero)
    if kind == "lif":
        return nir.LIF(tau=tau, r=one, v_leak=zero, v_threshold=one, v_reset=zero)
    # nir's constructor makes full arrays of w_in, so it is shown one neuron
    single = _view(1.0, 1)
    node = nir.CubaLIF(tau_syn=single, tau_mem=single, r=single, v_leak=single, v_threshold=single)
    node.tau_syn, node.tau_mem, node.r, node.w_in = tau, tau, one, one
    node.v_leak, node.v_threshold, node.v_reset = zero, one, zero
    return node


def _flat(word: LayerToken, shape: Shape, what: str) -> int:
    if len(shape) != 1:
        found = f"a shape of {_shown(shape)} reaches it"
        raise _refuse(word, found, f"{what} takes a flat one", f"put flatten before it: flatten {word.text}")
    return shape[0]


def _weights(word: LayerToken, shape: Shape) -> Array:
    if math.prod(shape) > WEIGHTS_MAX:
        found = f"it has {counted(math.prod(shape), 'weight')} ({_shown(shape)})"
        raise _refuse(word, found, f"at most {WEIGHTS_MAX:,} are taken", "make the layer smaller")
    return _view(1.0, *shape)


def _all_to_all(word: LayerToken, what: str, shape: Shape, out: int) -> Any:
    incoming = _flat(word, shape, what)
    _within(word, (out,))
    return nir.Linear(weight=_weights(word, (out, incoming)))


def _slide(word: LayerToken, shape: Shape) -> tuple[Window, Shape]:
    """The window over the spatial axes of ``shape``, and its positions along them."""
    form, axes = word.form, len(shape) - 1
    options = {"kernel": form.kernel, "stride": form.stride, "padding": form.padding, "dilation": form.dilation}
    for name, numbers in options.items():
        if len(numbers) > axes:
            found = f"its {name} {_shown(numbers)} has {len(numbers)} numbers"
            step = "give one number, for example conv16k5s2"
            raise _refuse(word, found, f"the shape {_shown(shape)} has one spatial axis", step)
    full = {name: numbers * (axes // len(numbers)) for name, numbers in options.items()}
    padding = tuple((p, p) for p in full["padding"])
    window = Window(full["kernel"], full["stride"], padding, full["dilation"], form.groups)
    spatial = window.slide(shape[1:])
    if min(spatial) < 1:
        found = f"its window {_shown(window.kernel)} is larger than the padded shape {_shown(shape)}"
        raise _refuse(
            word, found, "at least one window must fit", f"use a smaller kernel or more padding: {word.text}p2"
        )
    for n, k in zip(spatial, window.kernel, strict=True):
        if n * k > AXIS_MAX:
            found = f"{n:,} positions by {k:,} kernel elements along one axis"
            raise _refuse(word, found, f"at most {AXIS_MAX:,} pairs are taken", "make the layer smaller")
    return window, spatial


def _conv(word: LayerToken, shape: Shape) -> tuple[Any, Shape, Shape]:
    if len(shape) not in (2, 3):
        found = f"a flat shape of {_shown(shape)} reaches it"
        step = "start from one, for example 1x128 conv4k3 or 1x28x28 conv4k3"
        raise _refuse(word, found, "a convolution takes channels x positions or channels x rows x columns", step)
    window, spatial = _slide(word, shape)
    channels, (out,), groups = shape[0], word.form.size, word.form.groups
    if channels % groups or out % groups:
        found = f"groups {groups} on {channels} channels in and {out} out"
        raise _refuse(
            word, found, "groups divide both", f"correct g: conv{channels}k3g{channels} has one kernel a channel"
        )
    after = _within(word, (out, *spatial))
    weight = _weights(word, (out, channels // groups, *window.kernel))
    padding = tuple(low for low, _ in window.padding)
    shared: dict[str, Any] = {"weight": weight, "groups": groups, "bias": _view(0.0, out)}
    numbers: Any = (shape[1:], window.stride, padding, window.dilation)
    size, stride, pad, dilation = numbers if len(shape) == 3 else (n for (n,) in numbers)
    kind = nir.Conv2d if len(shape) == 3 else nir.Conv1d
    return kind(input_shape=size, stride=stride, padding=pad, dilation=dilation, **shared), shape, after


def _pool(word: LayerToken, shape: Shape) -> tuple[Any, Shape, Shape]:
    if len(shape) != 3:
        found = f"a shape of {_shown(shape)} reaches it"
        step = "start from one, for example 1x28x28 conv4k3 if sumpool2"
        raise _refuse(word, found, "a pool takes channels x rows x columns", step)
    window, spatial = _slide(word, shape)
    kind = nir.SumPool2d if word.kind == "sumpool" else nir.AvgPool2d
    padding = np.array([low for low, _ in window.padding])
    node = kind(kernel_size=np.array(window.kernel), stride=np.array(window.stride), padding=padding)
    return node, shape, _within(word, (shape[0], *spatial))


# -- tokens --------------------------------------------------------------------------------------------------------
# Words of a line of shapes: the syntax of each, before the shape that reaches it is known.

TEXT_MAX = 20_000
PROBLEMS_MAX = 20
LAYERS_MAX = 1_000
NUMBER_MAX = 100_000_000


EXAMPLE = "2x34x34 conv16k5s2p1 if sumpool2 flatten dense10 lif"
NEURONS = ("if", "lif", "cubalif", "li", "threshold")

#: Syntax of each kind of word, and an example.
GRAMMAR: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "conv": (
            "conv<out>k<kernel>[s<stride>][p<padding>][d<dilation>][g<groups>], each once, two axes as 3x5",
            "conv16k5s2p1",
        ),
        "dense": ("dense<out>", "dense128"),
        "sumpool": ("sumpool<kernel>[s<stride>][p<padding>], each once, two axes as 2x1", "sumpool2"),
        "avgpool": ("avgpool<kernel>[s<stride>][p<padding>], each once, two axes as 2x1", "avgpool3s2p1"),
        "flatten": ("flatten", "flatten"),
        **{kind: (f"{kind} or {kind}:rec", f"{kind}:rec") for kind in NEURONS},
    }
)

_NUMBERS = "[0-9]+(?:x[0-9]+)?"
_REST: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "conv": re.compile(rf"(?P<first>[0-9]+)(?P<options>(?:[kspdg]{_NUMBERS})+)"),
        "dense": re.compile(r"(?P<first>[0-9]+)(?P<options>)"),
        "sumpool": re.compile(rf"(?P<first>{_NUMBERS})(?P<options>(?:[sp]{_NUMBERS})*)"),
        "avgpool": re.compile(rf"(?P<first>{_NUMBERS})(?P<options>(?:[sp]{_NUMBERS})*)"),
        "flatten": re.compile(r"(?P<first>)(?P<options>)"),
        **dict.fromkeys(NEURONS, re.compile(r"(?P<first>(?::rec)?)(?P<options>)")),
    }
)
_OPTION = re.compile(rf"([kspdg])({_NUMBERS})")
_NAMES = {"k": "kernel", "s": "stride", "p": "padding", "d": "dilation", "g": "groups"}


@dataclass(frozen=True, slots=True)
class LayerForm:
    """The numbers of one word; windows have one number for all axes, or one an axis.

    ``size``: the input shape, the neurons of a dense layer or the channels of a convolution. ``recurrent``: each neuron
    feeds all of its layer.
    """

    size: Shape = ()
    kernel: Shape = (1,)
    stride: Shape = (1,)
    padding: Shape = (0,)
    dilation: Shape = (1,)
    groups: int = 1
    recurrent: bool = False


@dataclass(frozen=True, slots=True)
class LayerToken:
    """One word: position 0 is the input shape, 1 the first layer."""

    position: int
    text: str
    kind: str
    form: LayerForm

    @property
    def label(self) -> str:
        """Its name in messages: ``layer 3 'conv8'``."""
        return _label(self.position, self.text)


def _label(position: int, text: str) -> str:
    return f"layer {position} {quoted(text)}" if position else f"input shape {quoted(text)}"


class _TokenError(Exception):
    """A word that is wrong: found, limit, hint."""

    def __init__(self, found: str, limit: str, hint: str) -> None:
        super().__init__(found)
        self.parts = (found, limit, hint)


def parse_shapes(text: str) -> tuple[LayerToken, ...]:
    """The words of a line: the input shape, then at least one layer, the last one neurons.

    Raises:
        UsageError: every word that is wrong by itself, of many the first 20 and a count; or a line too long, or with no
            layer.
    """
    texts = _split(text)
    words: list[LayerToken] = []
    problems: list[Diagnostic] = []
    for position, word in enumerate(texts):
        try:
            kind, form = ("input", _input_shape(word)) if position == 0 else _layer(word)
        except _TokenError as wrong:
            ids = MappingProxyType({"layer": position, "word": word})
            problems.append(Diagnostic(_label(position, word), *wrong.parts, ids))
            continue
        words.append(LayerToken(position, word, kind, form))
    more = len(problems) - PROBLEMS_MAX
    rest = [Diagnostic("shapes", counted(more, "more wrong word"))] if more > 0 else []
    UsageError.raise_all([*problems[:PROBLEMS_MAX], *rest])
    if words[-1].kind not in NEURONS:
        found = "nothing follows it" if len(words) > 1 else "no layer follows it"
        step = f"add neurons: {words[-1].text} lif" if len(words) > 1 else f"add layers: {EXAMPLE}"
        raise UsageError.of(words[-1].label, found, "the last layer must be neurons", step, layer=len(words) - 1)
    return tuple(words)


def _split(text: str) -> list[str]:
    if len(text) > TEXT_MAX:
        found = f"it has {len(text):,} characters"
        raise UsageError.of("shapes", found, f"at most {TEXT_MAX:,} are read", "write the model as a .nir file")
    words = text.split()
    if not words:
        raise UsageError.of("shapes", "the text is empty", "an input shape and layers are expected", f"try {EXAMPLE}")
    if len(words) - 1 > LAYERS_MAX:
        found = f"it has {counted(len(words) - 1, 'layer')}"
        raise UsageError.of("shapes", found, f"at most {LAYERS_MAX:,} are read", "write the model as a .nir file")
    return words


def _input_shape(word: str) -> LayerForm:
    if not re.fullmatch(r"[0-9]+(?:x[0-9]+){0,2}", word):
        kind = re.match("[a-z]*", word)
        found = "the line begins with a layer" if kind and kind[0] in GRAMMAR else "it is no shape"
        limit = "N, channels x positions or channels x rows x columns is expected"
        raise _TokenError(found, limit, f"for example {EXAMPLE}")
    return LayerForm(_numbers("size", word, 1, "for example 2x34x34"))


def _layer(word: str) -> tuple[str, LayerForm]:
    kind = (re.match("[a-z]*", word) or [""])[0]
    if kind not in GRAMMAR:
        near = nearest(kind, GRAMMAR)
        step = f"did you mean {GRAMMAR[near[0]][1]}?" if near else f"for example {EXAMPLE}"
        raise _TokenError("no layer has this name", f"there are {', '.join(GRAMMAR)}", step)
    form, example = GRAMMAR[kind]
    rest = _REST[kind].fullmatch(word[len(kind) :])
    if rest is None:
        raise _TokenError("it is not understood", f"{form} is expected", f"for example {example}")
    return kind, _form(kind, rest["first"], dict(_options(rest["options"], form, example)), form, example)


def _form(kind: str, first: str, options: dict[str, Shape], form: str, example: str) -> LayerForm:
    if kind in NEURONS:
        return LayerForm(recurrent=bool(first))
    if kind == "flatten":
        return LayerForm()
    step = f"for example {example}"
    if kind == "dense":
        return LayerForm(_numbers("size", first, 1, step))
    if kind != "conv":
        kernel = _numbers("kernel", first, 1, step)
        return LayerForm(kernel=kernel, stride=options.get("s", kernel), padding=options.get("p", (0,)))
    if "k" not in options or len(options.get("g", (1,))) > 1:
        found = "it has no kernel" if "k" not in options else "its groups are two numbers"
        raise _TokenError(found, f"{form} is expected", step)
    (groups,) = options.pop("g", (1,))
    window: dict[str, Any] = {_NAMES[letter]: numbers for letter, numbers in options.items()}
    return LayerForm(_numbers("size", first, 1, step), groups=groups, **window)


def _options(text: str, form: str, example: str) -> Iterator[tuple[str, Shape]]:
    letters: set[str] = set()
    for letter, numbers in _OPTION.findall(text):
        if letter in letters:
            raise _TokenError(
                f"it gives {letter} (the {_NAMES[letter]}) twice", f"{form} is expected", f"for example {example}"
            )
        letters.add(letter)
        yield letter, _numbers(_NAMES[letter], numbers, 0 if letter == "p" else 1, f"for example {example}")


def _numbers(what: str, text: str, least: int, step: str) -> Shape:
    parts = text.split("x")
    # a number of many digits is not even converted
    numbers = tuple(int(part) if len(part) <= 18 else NUMBER_MAX + 1 for part in parts)
    if min(numbers) < least or max(numbers) > NUMBER_MAX:
        shown = text if len(text) <= 40 else text[:39] + "…"
        raise _TokenError(f"its {what} is {shown}", f"from {least} to {NUMBER_MAX:,} are taken", step)
    return numbers
