"""Words of a line of shapes: the syntax of each, before the shape that reaches it is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, UsageError, counted, nearest, quoted

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
