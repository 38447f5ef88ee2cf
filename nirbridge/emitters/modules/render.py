"""The text of ``model.py``: classes that the module needs, and the module itself."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.emitters.modules.plan import ModulePlan, PlannedMember, PlannedNeurons, PlannedSynapse
from nirbridge.emitters.program import filled
from nirbridge.errors import counted
from nirbridge.files.regular import template_text
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Operator

TEMPLATES = Path(__file__).with_name("templates")
BODY, LOOP = " " * 8, " " * 12


def model_text(plan: ModulePlan) -> str:
    """The file ``model.py``."""
    blocks = [f"{template('model_head.py')}\n{chr(10).join(_imports(plan))}"]
    names = (*plan.framework.support, *(f"{name.lower()}.py" for name in _tables(plan)))
    blocks += [filled(template(name), plan.framework.blocks) for name in names]
    blocks += [text.replace("NAME", name, 1) for text, name in plan.classes.items()]
    blocks += [_class(plan), template("model_load.py")]
    return "\n\n\n".join(block.strip("\n") for block in blocks) + "\n"


def template(name: str) -> str:
    """The text of a template."""
    return template_text(TEMPLATES / f"{name}.txt")


def _imports(plan: ModulePlan) -> Iterator[str]:
    tables = _tables(plan)
    yield from ["import math"] if "Matrix" in tables else []
    yield "from pathlib import Path\n"
    yield "import numpy as np"
    yield "import torch"
    if {"Sparse", "Select"} & {*tables} or any("F." in step for s in plan.synapses for step in s.path):
        yield "import torch.nn.functional as F"
    yield from plan.framework.imports
    yield "from torch import nn"


def _tables(plan: ModulePlan) -> list[str]:
    """The classes of sparse matrices that are used."""
    used = {m.call.text.partition("(")[0] for m in plan.members}
    return [name for name in ("Sparse", "Select", "Matrix") if name in used]


def _class(plan: ModulePlan) -> str:
    arguments = ", ".join(["self", *(plan.ids[p.name] for p in plan.network.inputs)])
    init = "\n".join(line for member in plan.members for line in _member(member))
    lines = [
        "class Model(nn.Module):",
        f'    """{_title(plan)}"""',
        "",
        textwrap.indent(f"nirbridge = {literal(facts_of(plan))}", "    "),
        "",
        "    def __init__(self):",
        f"{BODY}super().__init__()",
        init,
        "",
        f"    def forward({arguments}):",
        f'{BODY}"""{_synopsis(plan)}"""',
        *_forward(plan),
    ]
    return "\n".join(lines)


def _title(plan: ModulePlan) -> str:
    neurons = counted(sum(n.population.size for n in plan.neurons), "neuron")
    return f"{neurons} in {counted(len(plan.neurons), 'population')}; comments have the names of the network."


def _member(member: PlannedMember) -> Iterator[str]:
    comment = f"  # {member.comment}" if member.comment else ""
    if member.kind == "buffer":
        yield f'{BODY}self.register_buffer("{member.id}", {member.call.text}){comment}'
    elif member.kind == "parameter":
        yield f"{BODY}self.{member.id} = nn.Parameter({member.call.text}){comment}"
    else:
        yield f"{BODY}self.{member.id} = {member.call.text}{comment}"


def _shape(shape: Shape) -> str:
    return ", ".join(["time", "batch", *map(str, shape)])


def _synopsis(plan: ModulePlan) -> str:
    given = ", ".join(f"{plan.ids[p.name]} [{_shape(p.shape)}]" for p in plan.network.inputs)
    ports = plan.network.outputs
    if len(ports) == 1:
        return f"{given} -> [{_shape(ports[0].shape)}]"
    return f"{given} -> a dict of {', '.join(f'{p.name!a} [{_shape(p.shape)}]' for p in ports)}"


# -- forward -------------------------------------------------------------------------------------------------------


def _forward(plan: ModulePlan) -> list[str]:
    first = plan.ids[plan.network.inputs[0].name]
    lines = [f"{BODY}{line}" for line in plan.framework.reset]
    lines += [f"{BODY}{line}" for line in starts(plan, first)]
    lines += [f"{BODY}out_{plan.ids[p.name]} = []" for p in plan.network.outputs]
    lines += [f"{BODY}for step in range({first}.shape[0]):"]
    lines += [f"{LOOP}{line}" for line in step_lines(plan)]
    return [*lines, f"{BODY}{_returned(plan)}"]


def _returned(plan: ModulePlan) -> str:
    stacked = [(p.name, f"torch.stack(out_{plan.ids[p.name]})") for p in plan.network.outputs]
    if len(stacked) == 1:
        return f"return {stacked[0][1]}"
    return f"return {{{', '.join(f'{name!a}: {text}' for name, text in stacked)}}}"


def starts(plan: ModulePlan, first: str) -> Iterator[str]:
    """States of neurons, and what was sent before the first time step: nothing."""
    for n in plan.neurons:
        if n.held.start:
            yield n.held.start.format(id=n.id, like=first)
    if plan.framework.delays:
        for name, depth in depths(plan).items():
            yield f"past_{plan.ids[name]} = {_zeros(first, plan.shape_of(name), depth)}"
        for s in plan.synapses:
            if s.target_delay:
                depth = int(s.projection.target_delay_steps.max())
                yield f"late_{s.id} = {_zeros(first, s.projection.operator.output_shape, depth)}"
        return
    for n in plan.neurons:
        if _is_heard_late(plan, n):
            yield f"{output_of(n)} = {_zeros(first, n.population.shape)}"


def _zeros(like: str, shape: Shape, depth: int | None = None) -> str:
    sizes = ", ".join([*([] if depth is None else [str(depth)]), f"{like}.shape[1]", *map(str, shape)])
    return f"torch.zeros({sizes}, dtype={like}.dtype, device={like}.device)"


def depths(plan: ModulePlan) -> dict[str, int]:
    """The longest delay of every source that has one."""
    found: dict[str, int] = {}
    for s in plan.synapses:
        depth = int(s.projection.delay_steps.max())
        if depth:
            found[s.projection.source] = max(depth, found.get(s.projection.source, 0))
    return found


def _is_heard_late(plan: ModulePlan, n: PlannedNeurons) -> bool:
    is_back = n.held.outside.back is not None
    return is_back or any(s.source_delay and s.projection.source == n.population.name for s in plan.synapses)


def output_of(n: PlannedNeurons) -> str:
    """The variable of what a population sends."""
    return n.held.output.format(id=n.id)


def step_lines(plan: ModulePlan) -> Iterator[str]:
    """One time step, number ``step`` of the inputs; each output is appended to its list."""
    done = {p.name for p in plan.network.inputs}
    sent = {n.population.name: output_of(n) for n in plan.neurons}
    sent |= {p.name: f"{plan.ids[p.name]}[step]" for p in plan.network.inputs}
    if not plan.framework.delays:
        rank = {n.population.name: k for k, n in enumerate(plan.neurons)}
        for n in plan.neurons:
            if any(_is_earlier(s, n, rank) for s in plan.synapses):
                yield f"past_{n.id} = {output_of(n)}"
    for n in plan.neurons:
        current = f"cur_{n.id}"
        yield from _current(plan, n.population.name, n.population.shape, current, done, sent)
        yield from _outside(n, current)
        yield n.held.step.format(id=n.id, current=current)
        done.add(n.population.name)
    returned: set[str] = set()
    for port in plan.network.outputs:
        current = f"now_{plan.ids[port.name]}"
        lines = list(_current(plan, port.name, port.shape, current, done, sent))
        value = current
        if len(lines) == 1:
            value, lines = lines[0].partition(" = ")[2], []
        yield from lines
        value = f"{value} * 1.0" if _is_same_value(value, returned) and not plan.framework.delays else value
        returned.add(value)
        yield f"out_{plan.ids[port.name]}.append({value})"
    for name in depths(plan) if plan.framework.delays else ():
        key = plan.ids[name]
        yield f"past_{key} = torch.cat([{sent[name]}[None], past_{key}[:-1]])"


def _is_same_value(value: str, returned: set[str]) -> bool:
    """True where importers would see no output of its own: an input as it is, or a value that is returned already."""
    return value in returned or value.endswith("[step]")


def _is_earlier(s: PlannedSynapse, n: PlannedNeurons, rank: dict[str, int]) -> bool:
    """True for a delayed connection to a population that is stepped later in the same time step."""
    p = s.projection
    return bool(s.source_delay) and p.source == n.population.name and rank.get(p.target, len(rank)) > rank[p.source]


def _outside(n: PlannedNeurons, current: str) -> Iterator[str]:
    outside = n.held.outside
    if outside.gain is not None:
        yield f"{current} = {current} * self.{n.id}_gain"
    if outside.offset is not None:
        yield f"{current} = {current} + self.{n.id}_offset"
    if outside.back is not None:
        yield f"{current} = {current} - spk_{n.id} * self.{n.id}_back"


def _current(
    plan: ModulePlan, target: str, shape: Shape, name: str, done: Iterable[str], sent: dict[str, str]
) -> Iterator[str]:
    """The summed input of a target, one line for each projection."""
    into = [s for s in plan.synapses if s.projection.target == target]
    for k, s in enumerate(into):
        value = _value(plan, s, s.projection.source in done, sent)
        if s.target_delay:
            yield f"late_{s.id} = torch.cat([({value})[None], late_{s.id}])"
            value = f"late_{s.id}[{s.target_delay}]"
            if isinstance(s.target_delay, str):
                value = f"ago(late_{s.id}, self.{s.target_delay})"
        value = f"{value} + self.{s.bias}" if s.bias else value
        yield (
            f"{name} = {value}" if not k else f"{name} = {name} + ({value})" if s.bias else f"{name} = {name} + {value}"
        )
        if s.target_delay:
            yield f"late_{s.id} = late_{s.id}[:-1]"
    if not into:
        first = plan.ids[plan.network.inputs[0].name]
        yield f"{name} = {_zeros(first, shape)}"


def _value(plan: ModulePlan, s: PlannedSynapse, is_done: bool, sent: dict[str, str]) -> str:
    """What a projection carries in this time step, after its layers."""
    source, key = s.projection.source, plan.ids[s.projection.source]
    value = sent[source]
    if isinstance(s.source_delay, str):
        past = f"torch.cat([{value}[None], past_{key}])" if is_done else f"past_{key}"
        value = f"ago({past}, self.{s.source_delay}{'' if is_done else ' - 1'})"
    elif s.source_delay:
        late = f"past_{key}[{s.source_delay - 1}]" if plan.framework.delays else f"past_{key}"
        value = late if plan.framework.delays or is_done else value
    for text in s.path:
        value = text.replace("{}", value)
    return value


# -- facts ---------------------------------------------------------------------------------------------------------
# The attribute ``nirbridge`` of an emitted class: what its importer reads besides the parameters, as plain values.

FORM = 1
"""Of the attribute; another number is another meaning of it."""
WIDTH = 116


def facts_of(plan: ModulePlan) -> dict[str, Any]:
    """The facts of a module.

    A module of a framework is traced by its importer, which only lacks the names of the network and its time step. That
    of PyTorch alone says its structure too, since no other module has such neurons and delays.
    """
    network = plan.network
    facts: dict[str, Any] = {
        "form": FORM,
        "framework": plan.framework.name,
        "dt": network.dt,
        "timing": {key: value for key, value in asdict(network.timing).items() if key != "dt"},
        "inputs": {plan.ids[p.name]: p.name for p in network.inputs},
        "populations": {n.id: n.population.name for n in plan.neurons},
        "outputs": [p.name for p in network.outputs],
    }
    if plan.framework.delays:
        facts["shapes"] = {x.name: x.shape for x in (*network.inputs, *network.outputs)}
        facts["kinds"] = {n.id: n.population.neuron.kind for n in plan.neurons}
        facts["order"] = [p.name for p in network.populations]
        facts["projections"] = [_projection(s) for s in plan.synapses]
    return facts


def _projection(s: PlannedSynapse) -> dict[str, Any]:
    p = s.projection
    parts = zip(parts_of(p.operator), s.parts, strict=True)
    facts: dict[str, Any] = {"source": p.source, "target": p.target, "parts": [_part(*pair) for pair in parts]}
    if p.bias is not None:
        facts["bias"] = s.bias or f"{s.parts[-1]}.bias"
    for key, steps, member in (
        ("delay", p.delay_steps, s.source_delay),
        ("late", p.target_delay_steps, s.target_delay),
    ):
        if np.any(steps):
            facts[key] = member
    facts |= {"is_back": True} if p.is_back else {}
    names = {key: list(found) for key, found in (("nodes", p.nodes), ("delay_nodes", p.delay_nodes)) if found}
    return {**facts, **names}


_TYPES = ("Conv", "SumPool", "Reshape", "Sparse")


def _part(part: Operator, member: str) -> dict[str, Any]:
    """A part of an operator: its class, its member and type of numbers, and what its layer does not say."""
    facts: dict[str, Any] = {"kind": type(part).__name__}
    weights: Array | None = next((getattr(part, f) for f in ("weight", "data", "scale") if hasattr(part, f)), None)
    if member and weights is not None:
        facts |= {"member": member, "dtype": str(weights.dtype)}
    for name in ("shape", "input_shape", "output_shape", "kernel", "stride", "padding", "dilation", "groups", "factor"):
        is_field = name in type(part).__dataclass_fields__
        if is_field:
            facts[name] = getattr(part, name)
    return facts


def literal(value: Any, indent: int = 0) -> str:
    """A value as Python text in ASCII: strings, numbers, None, truth values, and containers of them."""
    flat = _flat(value)
    if indent + len(flat) <= WIDTH - 4 or not isinstance(value, Mapping | list):
        return flat
    inner = " " * (indent + 4)
    if isinstance(value, Mapping):
        items = [f"{key!a}: {literal(v, indent + 4)}" for key, v in value.items()]
        opened, closed = "{", "}"
    else:
        items, (opened, closed) = [literal(v, indent + 4) for v in value], "[]"
    lines = "".join(f"{inner}{item},\n" for item in items)
    return f"{opened}\n{lines}{' ' * indent}{closed}"


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!a}: {_flat(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        inner = ", ".join(map(_flat, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    return ascii(value)
