"""The files ``model.h``, ``model.c`` and ``weights.h``. No name of the model enters them: identifiers are numbered."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nirbridge.emitters.c.neurons import neuron_function
from nirbridge.emitters.c.plan import CPlan, Neurons, Source, Synapses
from nirbridge.emitters.c.synapses import synapse_functions
from nirbridge.emitters.c.tables import BYTES, Table


def header(plan: CPlan, template: str) -> str:
    """The file ``model.h``: the struct of inputs, of outputs, and of the whole state."""
    parts = {
        "@INPUTS@": _struct(_input_fields(plan)),
        "@OUTPUTS@": _struct(_output_fields(plan)),
        "@STATE@": _struct([*state_fields(plan), *trace_fields(plan)]),
    }
    for mark, text in parts.items():
        template = template.replace(mark, text)
    return template


def weights_header(found: list[Table]) -> str:
    """The file ``weights.h``."""
    head = "/* Made by nirbridge: constant tables of model.c, which alone includes them. */\n"
    return (
        head
        + "#ifndef NB_WEIGHTS_H\n#define NB_WEIGHTS_H\n\n#include <stdint.h>\n\n"
        + "\n".join([t.text() for t in found] or ["/* none */\n"])
        + "\n#endif\n"
    )


def source_text(plan: CPlan, helpers: dict[str, str]) -> str:
    """The file ``model.c``; ``helpers``: functions by name, of which it holds those that it calls."""
    functions: dict[str, str] = {}
    lines = [*_synapses(plan), *_neurons(plan, functions), *_reset(plan), *_step(plan)]
    body = "\n".join([*functions.values(), *lines]) + "\n"
    used = [text for name, text in helpers.items() if f"{name}(" in body]
    head = "/* Made by nirbridge: one time step of the network, in integers. README.md names its parts. */\n"
    return "\n".join([head + '#include "model.h"\n#include "weights.h"\n', *used, body])


def _synapses(plan: CPlan) -> Iterator[str]:
    for n in plan.neurons:
        for s in n.into:
            yield from synapse_functions(n, s)


def _neurons(plan: CPlan, functions: dict[str, str]) -> Iterator[str]:
    for n in plan.neurons:
        yield from neuron_function(n, functions)


def _struct(fields: list[str]) -> str:
    return "\n".join(f"    {field}" for field in fields or ["uint8_t none;"])


def input_type(source: Source) -> str:
    """The C type of one value of an input."""
    return "uint8_t" if source.is_binary else source.type


def _input_fields(plan: CPlan) -> list[str]:
    return [f"{input_type(s)} {s.id}[{s.size}];" for s in plan.inputs]


def _output_fields(plan: CPlan) -> list[str]:
    return [f"{n.out_type} {n.id}[{n.source.size}];" for n in plan.shown]


def state_fields(plan: CPlan) -> list[str]:
    """The fields of the state, the widest types first, so that no byte between them is lost."""
    arrays = sorted(_arrays(plan), key=lambda field: -BYTES[field[0]])
    return ["uint32_t step;", "nb_outputs out;", *(f"{kind} {name}{_sizes(sizes)};" for kind, name, sizes in arrays)]


def _sizes(sizes: tuple[int, ...]) -> str:
    return "".join(f"[{size}]" for size in sizes)


def state_sizes(plan: CPlan) -> Iterator[int]:
    """Bytes of every field of the state."""
    yield 4
    yield from (BYTES[n.out_type] * n.source.size for n in plan.shown)
    yield from (BYTES[kind] * math.prod(sizes) for kind, _, sizes in _arrays(plan))


def _arrays(plan: CPlan) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """(type, name, sizes) of every array of the state."""
    for n in plan.neurons:
        yield n.kind, f"{n.id}_v", (n.source.size,)
        if n.keeps_current:
            yield n.kind, f"{n.id}_u", (n.source.size,)
        if "refractory" in n.step.state:
            yield n.refractory_type, f"{n.id}_refractory", (n.source.size,)
    for source in (*plan.inputs, *(n.source for n in plan.neurons)):
        if source.slots:
            yield source.type, f"{source.id}_sent", (source.slots, source.words if source.is_binary else source.size)
    for kind, size in sum_sizes(plan).items():
        yield kind, f"sums{kind[3:5]}", (size,)
    for kind, size in part_sizes(plan).items():
        yield kind, f"part{kind[3:5]}", (size,)
    packed = [n.source.size for n in plan.neurons if n.source.is_binary and n.source.slots]
    if packed:
        yield "uint8_t", "fired", (max(packed),)


def sum_sizes(plan: CPlan) -> dict[str, int]:
    """Neurons of the largest population of each type of sums."""
    sizes: dict[str, int] = {}
    for n in plan.neurons:
        sizes[n.kind] = max(sizes.get(n.kind, 0), n.source.size)
    return sizes


def part_sizes(plan: CPlan) -> dict[str, int]:
    """The same for projections with sums of their own."""
    sizes: dict[str, int] = {}
    for n in plan.neurons:
        for s in n.into:
            if n.has_own_sum(s):
                sizes[s.kind] = max(sizes.get(s.kind, 0), n.source.size)
    return sizes


def trace_fields(plan: CPlan) -> list[str]:
    """Fields of a traced build: what every population sent, and currents without memory."""
    fields = ["#ifdef NB_TRACE"]
    for n in plan.neurons:
        fields.append(f"{n.kind} {n.id}_s[{n.source.size}];")
        fields += [] if n.keeps_current else [f"{n.kind} {n.id}_u[{n.source.size}];"]
    return [*fields, "#endif"] if plan.neurons else []


def _reset(plan: CPlan) -> Iterator[str]:
    yield "void nb_reset(nb_model *m)"
    yield "{"
    yield "    uint8_t *const bytes = (uint8_t *)m;"
    yield ""
    yield "    for (uint32_t i = 0; i < (uint32_t)sizeof *m; ++i)"
    yield "        bytes[i] = 0;"
    for n in plan.neurons:
        for name in ("u_init", "v_init") if n.keeps_current else ("v_init",):
            parameter = n.parameters[name]
            if parameter.one == 0:
                continue
            place = {
                "one": str(parameter.values[0]),
                "row": f"{n.id}_{name}[i / {n.row}u]",
                "each": f"{n.id}_{name}[i]",
            }
            yield f"    for (uint32_t i = 0; i < {n.source.size}u; ++i)"
            yield f"        m->{n.id}_{name[0]}[i] = {place[parameter.level]};"
    yield "}"
    yield ""


def _step(plan: CPlan) -> Iterator[str]:
    yield "void nb_step(nb_model *m, const nb_inputs *in)"
    yield "{"
    for n in plan.neurons:
        sums = f"m->sums{n.kind[3:5]}"
        yield f"    nb_clear{n.kind[3:5]}({sums}, {n.source.size}u);"
        for s in n.into:
            yield from _added(n, s, sums)
        yield f"    {n.id}_step(m, {sums});"
    for source in plan.inputs:
        yield from _taken(source)
    if not plan.inputs:
        yield "    (void)in;"
    yield "    m->step += 1u;"
    yield "}"


def _added(n: Neurons, s: Synapses, sums: str) -> Iterator[str]:
    if not n.has_own_sum(s):
        yield f"    {s.id}_add(m, {sums});"
        return
    part = f"m->part{s.kind[3:5]}"
    yield f"    nb_clear{s.kind[3:5]}({part}, {n.source.size}u);"
    yield f"    {s.id}_add(m, {part});"
    yield f"    for (uint32_t i = 0; i < {n.source.size}u; ++i)"
    shift = max(0, -s.projection.weight_exp)
    value = f"nb_shifted{s.kind[3:5]}({part}[i], {shift}u)" if shift else f"{part}[i]"
    yield f"        {sums}[i] += {value if s.kind == n.kind else f'({n.kind}){value}'};"


def _taken(source: Source) -> Iterator[str]:
    if not source.slots:
        yield "    (void)in;"
        return
    slot = f"m->{source.id}_sent[m->step & {source.slots - 1}u]"
    if source.is_binary:
        yield f"    nb_pack({slot}, in->{source.id}, {source.size}u);"
    else:
        yield f"    for (uint32_t i = 0; i < {source.size}u; ++i)"
        yield f"        {slot}[i] = in->{source.id}[i];"
