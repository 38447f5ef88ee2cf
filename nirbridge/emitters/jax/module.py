"""The Python module of a network for JAX under construction: lines, weights, initial states and helpers in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import Array, same_array
from nirbridge.emitters.readme import table_name
from nirbridge.files.regular import template_text

TEMPLATES = Path(__file__).with_name("templates")
INDENT = "    "


@dataclass(slots=True)
class ModuleWriter:
    """What the module holds so far.

    ``before``: lines of ``currents``, which takes all time steps at once; ``step``: lines of one time step.
    ``functions``: texts of functions of neurons by name.
    ``weights``: arrays by key, as ``weights.npz`` has them. ``states``: texts of the initial values by key.
    """

    before: list[str] = field(default_factory=list)
    step: list[str] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    helpers: set[str] = field(default_factory=set)
    functions: dict[str, str] = field(default_factory=dict)

    def weight(self, key: str, values: Any, dtype: str) -> str:
        """The text of an array of ``weights.npz``; another array of the same key gets a number."""
        array = np.asarray(np.asarray(values).astype(dtype), order="C").reshape(np.shape(values))
        name, number = key, 1
        while name in self.weights and not same_array(self.weights[name], array):
            number += 1
            name = f"{key}{number}"
        self.weights[name] = array
        return f'w["{name}"]'

    def state(self, key: str, start: Array, dtype: str, depth: int | None = None) -> str:
        """A state ``[*batch, *shape]`` of initial values, or ``[depth, *batch, *shape]``; the text of its value."""
        shape = tuple(start.shape)
        if not start.any():
            value = "0"
        elif (start == start.flat[0]).all():
            value = repr(start.flat[0].item())
        else:
            value = self.weight(f"{key}_init", start, dtype)
        leading = "" if depth is None else f"{depth}, "
        self.states[key] = f"jnp.full({axes(shape, f'{leading}*batch')}, {value}, jnp.{dtype})"
        return f'state["{key}"]'

    def counter(self, key: str) -> str:
        """A state that is one whole number, whatever the batch."""
        self.states[key] = "jnp.int32(0)"
        return f'state["{key}"]'

    def helper(self, name: str) -> str:
        """A function of ``helpers.py.txt``, by name."""
        self.helpers.add(name)
        return name


def axes(shape: Sequence[object], leading: str = "") -> str:
    """The text of a tuple."""
    parts = [leading, *map(str, shape)] if leading else list(map(str, shape))
    return f"({', '.join(parts)},)" if len(parts) == 1 else f"({', '.join(parts)})"


def comment(name: str) -> str:
    """A name of the model in a comment: one line, ASCII."""
    return table_name(name).encode("ascii", "backslashreplace").decode("ascii")


def helper_texts() -> Mapping[str, str]:
    """The functions of ``helpers.py.txt`` by name, in the order of the file."""
    text = template_text(TEMPLATES / "helpers.py.txt")
    blocks = [block.strip("\n") for block in text.split("\n\n\n") if block.strip()]
    return {block.partition("def ")[2].partition("(")[0]: block for block in blocks}


def used_helpers(names: set[str]) -> list[str]:
    """The texts of the helpers in use, none of which calls another."""
    return [text for name, text in helper_texts().items() if name in names]
