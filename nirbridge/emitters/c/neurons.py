"""The C function of a population: one time step of its neurons, as at the head of quantization/model.py."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.emitters.c.plan import INPUT_SHIFT, Neurons

FIRED = "m->fired"
"""Bytes of one time step, before they become bits."""


def neuron_function(n: Neurons) -> Iterator[str]:
    """``NAME_step(m, sums)``: sums to currents, potentials and spikes."""
    yield f"/* {n.id}: {n.population.size} {'neurons' if n.population.neuron.fires else 'read-outs'} */"
    yield f"static void {n.id}_step(nb_model *m, const {n.kind} *sums)"
    yield "{"
    if n.rows > 1:
        yield f"    for (uint32_t row = 0; row < {n.rows}u; ++row) {{"
        yield from _row_values(n)
        yield f"        for (uint32_t i = row * {n.row}u; i < (row + 1u) * {n.row}u; ++i) {{"
        yield from ("            " + line for line in _neuron(n))
        yield "        }"
        yield "    }"
    else:
        yield f"    for (uint32_t i = 0; i < {n.row}u; ++i) {{"
        yield from ("        " + line for line in _neuron(n))
        yield "    }"
    if n.source.is_binary and n.source.slots:
        yield f"    nb_pack(m->{n.id}_sent[m->step & {n.source.slots - 1}u], {FIRED}, {n.source.size}u);"
    yield "}"
    yield ""


def _row_values(n: Neurons) -> Iterator[str]:
    for name in _used(n):
        if n.parameters[name].level == "row":
            kind = "uint32_t" if name in ("keep_u", "keep_v") and n.kind == "int32_t" else n.kind
            cast = f"({kind})" if kind == "uint32_t" else ""
            yield f"        const {kind} {name} = {cast}{n.id}_{name}[row];"


def _used(n: Neurons) -> list[str]:
    return [name for name in n.parameters if name not in ("u_init", "v_init")]


def value_of(n: Neurons, name: str) -> str:
    """A parameter in an expression of one neuron."""
    parameter = n.parameters[name]
    if parameter.one is not None:
        return literal(parameter.one, n.kind)
    return name if parameter.level == "row" else f"{n.id}_{name}[i]"


def literal(value: int, kind: str) -> str:
    """A constant of a type of 32 or 64 bits."""
    if kind == "int64_t":
        return f"INT64_C({value})"
    return str(value)


def _neuron(n: Neurons) -> Iterator[str]:
    f, half = n.population.neuron, 1 << (n.population.neuron.u_bits - 1)
    last = literal((1 << (f.v_bits - 1)) - 1, n.kind)
    drive = f"sums[i] * {1 << (INPUT_SHIFT + n.exponent)}"
    kept = _kept(n, "keep_u", f"m->{n.id}_u[i]")
    yield f"{n.kind} u = {drive if kept is None else f'{kept} + {drive}'};"
    yield f"u = u > {literal(half, n.kind)} ? u - {literal(2 * half, n.kind)} : u;"
    yield f"u = u <= {literal(-half, n.kind)} ? u + {literal(2 * half, n.kind)} : u;"
    bias = "" if n.parameters["bias"].one == 0 else f" + {value_of(n, 'bias')}"
    kept = _kept(n, "keep_v", f"m->{n.id}_v[i]")
    yield f"{n.kind} v = {'' if kept is None else f'{kept} + '}u{bias};"
    yield f"v = v > {last} ? {last} : v < -{last} ? -{last} : v;"
    yield from _fire(n) if f.fires else _send(n, "v")
    if n.keeps_current:
        yield f"m->{n.id}_u[i] = u;"
    yield f"m->{n.id}_v[i] = v;"
    if not n.keeps_current:
        yield f"NB_TRACED(m->{n.id}_u[i] = u;)"


def _kept(n: Neurons, name: str, state: str) -> str | None:
    """What the decay leaves of a state; None: nothing."""
    one = n.parameters[name].one
    if one == 0:
        return None
    if one == 4096:
        return state
    keep = value_of(n, name) if one is None else f"{one}u"
    if one is None and n.parameters[name].level == "each":
        keep = f"(uint32_t){keep}"
    return f"nb_decayed{'64' if n.kind == 'int64_t' else ''}({state}, {keep})"


def _fire(n: Neurons) -> Iterator[str]:
    f, several = n.population.neuron, n.population.neuron.max_spikes > 1
    if n.rests:
        yield f"const uint32_t rest = m->{n.id}_rest[i];"
        yield "v = rest != 0u ? 0 : v;"
    ready = " && rest == 0u" if n.rests else ""
    fired = f"v > {value_of(n, 'above')}{ready}"
    if several:
        yield f"{n.kind} spikes = {fired} ? v / {value_of(n, 'size')} : 0;"
        yield f"spikes = spikes > {f.max_spikes} ? {f.max_spikes} : spikes;"
        fired = "spikes > 0"
    else:
        yield f"const int32_t spikes = {fired};"
        fired = "spikes != 0"
    if n.rests:
        cast = "" if n.rest_type == "uint32_t" else f"({n.rest_type})"
        yield f"m->{n.id}_rest[i] = {cast}({fired} ? {_hold(n)} : rest != 0u ? rest - 1u : 0u);"
    if f.reset == "zero":
        yield f"v = {fired} ? 0 : v;"
    elif f.reset == "subtract":
        amount = value_of(n, "amount")
        yield f"v -= {f'spikes * {amount}' if several else f'{fired} ? {amount} : 0'};"
    if "floor" in n.parameters:
        floor = value_of(n, "floor")
        yield f"v = v < {floor} ? {floor} : v;"
    yield from _send(n, "spikes")
    if f.reset == "none" and not (n.rests or n.source.slots or n.is_shown):
        yield "(void)spikes; /* nobody reads them */"


def _hold(n: Neurons) -> str:
    one = n.parameters["hold"].one
    return f"(uint32_t){value_of(n, 'hold')}" if one is None else f"{one}u"


def _send(n: Neurons, what: str) -> Iterator[str]:
    source = n.source
    if source.is_binary and source.slots:
        yield f"{FIRED}[i] = (uint8_t)spikes;"
    if source.slots and not source.is_binary:
        cast = "" if source.type == n.kind else f"({source.type})"
        yield f"m->{n.id}_sent[m->step & {source.slots - 1}u][i] = {cast}{what};"
    if n.is_shown:
        cast = "" if n.out_type == n.kind else f"({n.out_type})"
        yield f"m->out.{n.id}[i] = {cast}{what};"
    yield f"NB_TRACED(m->{n.id}_s[i] = {what};)"
