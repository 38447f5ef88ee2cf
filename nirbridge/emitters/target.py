"""The form of nirbridge's own targets: facts, and two functions whose arguments are checked here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact
from nirbridge.errors import Diagnostic, UsageError, instance_of, quoted
from nirbridge.files.attributes import load_attribute
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.network.neurons import EXTRAS, USUAL, Neuron, check_extras, extras_of
from nirbridge.quantization.model import FixedNeuron
from nirbridge.simulators.continued import Continued
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Probe, Recording


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a target that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An ``Emitter`` of ``nirbridge.plugins``, which says what its fields are.

    ``name``: as registered. ``hint``: the way to a model that it takes. ``make``: the program of a model, for options.
    ``start``: the function of ``run``; see ``later``. ``carries``: the optional fields of neurons (``EXTRAS``) that its
    programs follow, or that it refuses in words of its own. ``synthesize``, ``prove``: see ``Emitter``.
    ``facts``: labels and texts that ``nirbridge emit`` prints, from the manifest; default: those of ``program.json``.
    ``session``: a program, prepared to run on from a state in this process; None: its runs keep no state.
    ``exact_reals``: programs in real numbers have every bit of the reference in float32.
    """

    name: str
    summary: str
    takes: tuple[type, ...]
    hint: str
    make: Callable[[Any, Any], Artifact]
    start: Callable[..., Recording]
    options: type[Any] = NoOptions
    records: tuple[str, ...] = ("s", "u", "v")
    one_sample_at_a_time: bool = False
    carries: tuple[str, ...] = USUAL
    synthesize: Callable[..., Any] | None = None
    prove: Callable[[Artifact, Progress], Mapping[str, str]] | None = None
    facts: Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]] | None = None
    session: Callable[[Artifact], Continued] | None = None
    exact_reals: bool = False

    def emit(self, model: Model, options: Any = None) -> Artifact:
        """See ``Emitter``."""
        known = instance_of(model, self.takes, f"model of emitter '{self.name}'", self.hint)
        self._check_carried(known)
        subject = f"options of emitter '{self.name}'"
        chosen = self.options() if options is None else instance_of(options, self.options, subject)
        UsageError.raise_all(wrong_choices(chosen, subject))
        return self.make(known, chosen)

    def _check_carried(self, model: Model) -> None:
        known = model.quantized or model.network if isinstance(model, MappedNetwork) else model
        if any(name not in self.carries for p in known.populations for name in extras_of(p.neuron)):
            names, get = (load_attribute(f"nirbridge.plugins.registry:{each}") for each in ("names", "get"))
            able = [x for x in names("emitters") if set(getattr(get("emitters", x), "carries", ())) > set(USUAL)]
            hint = f"emit for {', '.join(able)}" if able else ""
            check_extras(known.populations, self.carries, f"a program of emitter {quoted(self.name)}", hint)

    def run(
        self,
        artifact: Artifact,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``Emitter``; in a process of its own, or in the tool's runtime within this one."""
        program = instance_of(artifact, Artifact, f"program of emitter '{self.name}'")
        return self.start(program, inputs, steps=steps, record=record, progress=progress)


def later(where: str) -> Callable[..., Any]:
    """The function that ``where`` names as ``"module:function"``; its module is imported when it is called."""
    return lambda *args, **options: load_attribute(where)(*args, **options)


def other_fields(n: Neuron | FixedNeuron, *carried: str) -> list[str]:
    """Optional fields of a neuron that are not at their defaults, in words, but those that a target ``carried``."""
    optional = {f.name: f.default for f in fields(n) if f.default is not MISSING and f.name not in carried}
    values = {name: getattr(n, name) for name in optional}
    found = [name for name, default in optional.items() if not np.array_equal(values[name], np.asarray(default))]
    return [EXTRAS[name].noun if name in EXTRAS else f"its field {name!r}" for name in found]


def wrong_choices(options: Any, subject: str) -> Iterator[Diagnostic]:
    """Values that are none of the words of their ``Literal``, or of ``tuple[Literal[…], ...]``."""
    for name, kind in get_type_hints(type(options)).items():
        value, is_list = getattr(options, name), get_origin(kind) is tuple
        values, word = (value, get_args(kind)[0]) if is_list else ((value,), kind)
        if get_origin(word) is Literal:
            wrong = (each for each in values if each not in get_args(word))
            yield from (Diagnostic(subject, f"{name} {each!r}", " or ".join(get_args(word))) for each in wrong)
