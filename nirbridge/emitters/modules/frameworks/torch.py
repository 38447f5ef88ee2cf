"""PyTorch alone: the rule of the neurons (``program/rules.py``) printed, one class for each of its forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.modules.plan import Framework, HeldNeuron, LayerCall
from nirbridge.emitters.modules.render import template
from nirbridge.emitters.program import filled
from nirbridge.emitters.surrogates import DEFAULT, SURROGATES, Name, slope_of, threshold_of
from nirbridge.network.model import Population
from nirbridge.network.neurons import Neuron, flat_fields
from nirbridge.program.printing import ATOM, ArrayLanguage, Printer, Text, array_table, bracketed, number_text
from nirbridge.program.rules import first_value, traced_step
from nirbridge.program.terms import Stepped, Term, in_order, is_truth


def hold(population: Population, dt: float) -> HeldNeuron:
    """Any population."""
    n = population.neuron
    step = traced_step(n, is_open=True)
    tensors = {name: a for name, a in _fields(n) if isinstance(a, np.ndarray)}
    tensors |= {
        f"{name}_init": np.asarray(first_value(n, name), float) for name, t in step.state.items() if t.kind == "real"
    }
    tensors |= {t.name: t.value for t in in_order(step.ends) if t.op == "arg" and t.value is not None}
    each = tuple(name for name, a in tensors.items() if a.ndim)
    return HeldNeuron(
        call=LayerCall(f"Neurons({population.shape}{f', each={each}' if each else ''})", tensors),
        neuron=n,
        start="state_{id} = self.{id}.start({like})",
        step="spk_{id}, state_{id} = self.{id}({current}, state_{id})",
        own_class=filled(template("torch_class.py"), _blocks(n, step, tensors)),
    )


@dataclass(frozen=True, slots=True)
class TorchLanguage(ArrayLanguage):
    """Expressions of PyTorch on reals in the type of ``x``; no gradient passes a ``floor``."""

    leaf: Callable[[Term], str]
    table: ClassVar[Mapping[str, tuple[str, int]]] = array_table("torch")

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int] | None:
        """See ``Language``: numbers beside tensors."""
        if is_truth(term):
            return f"{bracketed(args[0], ATOM)}.to(x)", ATOM
        if term.op in ("min", "max") and term.args[1].op == "const":
            return f"{bracketed(args[0], ATOM)}.clamp({'max' if term.op == 'min' else 'min'}={args[1].text})", ATOM
        if term.op == "floor":
            return f"torch.floor({bracketed(args[0], ATOM)}.detach())", ATOM
        return ArrayLanguage.special(self, term, args)


def _leaf(term: Term) -> str:
    if term.op == "arg" and term.name.startswith("state."):
        return f'state["{term.name.removeprefix("state.")}"]'
    if term.op == "arg" and term.name != "drive":
        return f"self.{term.name}{'.to(x)' if term.kind == 'real' else ''}"
    return "x" if term.op == "arg" else number_text(term)


def _fields(n: Neuron) -> list[tuple[str, Any]]:
    found = [(name, value) for name, value in flat_fields(n).items() if name != "kind"]
    return [(name.rpartition(".")[2], x) for name, x in found if "." not in name or isinstance(x, bool)]


def _blocks(n: Neuron, step: Stepped, tensors: Mapping[str, Array]) -> dict[str, list[str]]:
    """Lines of the class of a neuron, by their marks in the template."""
    names = {kind: [name for name, a in tensors.items() if a.dtype == kind] for kind in (float, int)}
    threshold = threshold_of(step.sent)
    printer = Printer(TorchLanguage(_leaf))
    sent, *texts = printer.write([step.sent, *step.state.values(), *threshold])
    following = ", ".join(f'"{name}": {text}' for name, text in zip(step.state, texts, strict=False))
    if threshold:
        sent = f"Spike.apply({', '.join([sent, *texts[len(step.state) :]])}, self.max_spikes, self.slope)"
    none = "torch.zeros((), dtype=torch.int64)"
    first = {name: f"self.{name}_init" if t.kind == "real" else none for name, t in step.state.items()}
    return {
        "OPTIONS": [f"{name} = {a!r}" for name, a in _fields(n) if isinstance(a, str | int)],
        "NAMES": [f'{word} = "{" ".join(names[kind])}".split()' for word, kind in (("reals", float), ("counts", int))],
        "FIRST": [f'"{name}": self.first(like, {text}),' for name, text in first.items()],
        "STEP": [*printer.lines, f"return {sent}, {{{following}}}"],
    }


def torch_with(surrogate: Name = DEFAULT, slope: float | None = None) -> Framework:
    """PyTorch, with a derivative of spikes. Raises UsageError for a slope that is no positive number."""
    chosen = SURROGATES[surrogate]
    grad = f"grad = {chosen.code.format(xp='torch', slope='ctx.slope')}"
    return Framework(
        name="torch",
        package="torch",
        imports=(),
        hold=hold,
        carries=None,
        delays=True,
        support=("torch_neurons.py",),
        blocks=MappingProxyType({"GRAD": (grad,), "SLOPE": (f"slope = {slope_of(surrogate, slope, 'torch')!r}",)}),
        records=MappingProxyType({"s": (0,), "v": (1, "v")}),
        surrogate=chosen.sentence,
    )


TORCH = torch_with()
