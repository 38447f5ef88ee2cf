"""The text of a circuit: a module for each core and one for the whole, made of the parts of ``library.v``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.verilog.neuron import Field
from nirbridge.emitters.verilog.plan import Circuit, Core, Stream, Table, Walk, index_bits
from nirbridge.program.rules import first_value

Words = tuple[Array, Sequence[int]]
"""Words of a memory: ``[words, parts]``, and the bits of each part, the first lowest."""


HEAD = """// A spiking network as a circuit, made by nirbridge: README.md says what it takes and sends.
// Each population is a core; its neuron is the module before it. The parts that start with nb_ are in library.v.
/* verilator lint_off DECLFILENAME */     // several modules in a file, so that a person can read it from top to bottom
/* verilator lint_off PINCONNECTEMPTY */  // parts have pins that some networks do not need
"""


def circuit_text(circuit: Circuit) -> str:
    """The file ``net.v``."""
    parts = [HEAD]
    if any(not core.walks for core in circuit.cores):
        parts.append(
            "/* verilator lint_off UNUSEDSIGNAL */   // a neuron that nothing reaches does not read its drive\n"
        )
    for core in circuit.cores:
        parts += [core.neuron.text, core_text(core)]
    return "\n".join([*parts, top_text(circuit)])


def hex_lines(words: Words) -> str:
    """The file of a memory, a word a line."""
    columns, bits = words
    digits, shifts = -(-sum(bits) // 4), np.cumsum([0, *bits])[:-1].tolist()
    parts = list(zip(shifts, [(1 << b) - 1 for b in bits], strict=True))
    rows = np.atleast_2d(columns).tolist()
    return "".join(
        f"{sum((x & mask) << shift for x, (shift, mask) in zip(row, parts, strict=True)):0{digits}x}\n" for row in rows
    )


def memories(core: Core) -> dict[str, Words]:
    """The memories of a core that are filled from files, by the name of the file."""
    layout, n, found = core.stream.layout, core.neuron, {}
    for w in core.walks:
        found[f"{w.id}.hex"] = w.form.weights, [w.weight_bits] * layout.lanes
        found |= {f"{w.id}_{name}.hex": words for name, words in _tables(w, core).items()}
    fields = {f.name: n.values[f.name] for f in n.parameters}
    if fields:
        found[f"{core.id}_neurons.hex"] = _side_by_side(core, fields), [f.bits for f in n.parameters] * core.neurons
    if _differing_starts(core):
        starts = {f.name: first_value(core.population.neuron, f.name) for f in n.states}
        found[f"{core.id}_start.hex"] = _side_by_side(core, starts), [f.bits for f in n.states] * core.neurons
    return found


def _side_by_side(core: Core, fields: Mapping[str, Array]) -> Array:
    """``[steps, neurons x fields]``."""
    shape = core.population.shape
    packed = [core.stream.layout.packed(np.broadcast_to(values, shape)) for values in fields.values()]
    return np.stack(packed, axis=2).reshape(core.steps, -1)


def _differing_starts(core: Core) -> bool:
    starts = (np.asarray(first_value(core.population.neuron, f.name)) for f in core.neuron.states)
    return any(bool(np.ptp(x)) for x in starts)


def _tables(w: Walk, core: Core) -> dict[str, Words]:
    """The small tables of a walk."""
    word, form = index_bits(core.stream.layout.words), w.form
    address = index_bits(len(form.weights))
    if isinstance(form, Table):
        if form.words is None or form.start is None or form.count is None:
            return {}
        delays = np.broadcast_to(np.asarray(w.delay) - 1, form.start.shape)
        lists = np.stack([np.where(form.count > 0, form.start, 0), form.count, delays], axis=1)
        bits = [address, index_bits(int(form.count.max()) + 1), index_bits(core.slots)]
        return {"lists": (lists, bits), "words": (form.words[:, None], [word])}
    count = index_bits(int(max(form.rows[:, 0].max(), form.columns[:, 0].max())) + 1)
    hits = {"rows": form.rows, "columns": form.columns}
    tables: dict[str, Words] = {name: (x[:, ::-1], [word, address, count]) for name, x in hits.items()}
    return tables | {"channels": (form.channels[:, ::-1], [word, address])}


# -- text ----------------------------------------------------------------------------------------------------------


def _range(bits: int) -> str:
    return f"[{bits - 1}:0] "


def _instance(module: str, name: str, parameters: Mapping[str, object], pins: Mapping[str, str]) -> Iterator[str]:
    own = ", ".join(f".{k}({v})" for k, v in parameters.items())
    yield f"    {module} #({own}) {name} (" if own else f"    {module} {name} ("
    row: list[str] = []
    cells = [f".{k}({v})" for k, v in pins.items()]
    for k, cell in enumerate(cells):
        row.append(cell + ("," if k < len(cells) - 1 else ""))
        if sum(map(len, row)) + len(row) > 100 or k == len(cells) - 1:
            yield "        " + " ".join(row)
            row = []
    yield "    );"


def _clocked(**more: str) -> dict[str, str]:
    return {"clock": "clock", "reset": "reset", **more}


def stream_ports(prefix: str, s: Stream, way: str) -> list[str]:
    """The ports of a stream, without commas."""
    back, way = ("output" if way == "input" else "input "), f"{way:6}"
    ports = [f"{way} wire {prefix}_valid", f"{back} wire {prefix}_ready", f"{way} wire {prefix}_last"]
    ports.append(f"{way} wire {_range(s.layout.bits)}{prefix}_index")
    return ports + ([f"{way} wire signed {_range(s.value_bits)}{prefix}_value"] if s.value_bits else [])


def _header(module: str, ports: Sequence[str], comment: str) -> list[str]:
    return [f"// {comment}", f"module {module} (", *(f"    {p}," for p in ports[:-1]), f"    {ports[-1]}", ");"]


def core_text(core: Core) -> str:
    """The module of a core."""
    layout, size = core.stream.layout, core.population.size
    ports = ["input  wire clock", "input  wire reset"]
    for w in core.walks:
        ports += stream_ports(w.id, w.source, "input")
    ports += stream_ports("out", core.stream, "output")
    comment = (
        f"{core.id}: {size} neurons in {layout.words} words of {layout.lanes} sums, {core.neurons} neurons a cycle"
    )
    parts = (
        _header(core.id, ports, comment),
        _phases(core),
        _walks(core),
        _adding(core),
        _neurons(core),
        _sender(core),
    )
    return "\n".join([*(line for part in parts for line in part), "endmodule", ""])


def _clears(core: Core) -> int:
    """Cycles that clear all sums and states after a reset; one more where states are read from a memory first."""
    words = core.stream.layout.words
    sums = words if core.slots == 1 else core.slots << index_bits(words)
    return max(sums, core.steps if core.neuron.states else 0) + _differing_starts(core)


def _clear_bits(core: Core) -> int:
    return max(index_bits(_clears(core)), _address(core), index_bits(core.steps))


def _address(core: Core) -> int:
    """Bits of the address of a word of sums."""
    return index_bits(core.stream.layout.words) + (index_bits(core.slots) if core.slots > 1 else 0)


def _phases(core: Core) -> Iterator[str]:
    yield "    genvar l;"
    slot, word, step = (index_bits(n) for n in (core.slots, core.stream.layout.words, core.steps))
    part, clear = index_bits(core.parts), _clear_bits(core)
    yield "    wire next, is_ready, go, clears, reads, reads_word, has_read, ends_word, has_result;"
    yield f"    wire {_range(step)}read_step, result_step;"
    yield f"    wire {_range(word)}read_word, word;"
    yield f"    wire {_range(part)}part;"
    yield f"    wire {_range(clear)}clear_word;"
    own = {"STEPS": core.steps, "STEP": step, "WORD": word, "PARTS": core.parts, "PART": part}
    own |= {"CLEARS": _clears(core), "CLEAR": clear, "LATENCY": core.neuron.latency}
    names = ("is_ready", "go", "clears", "clear_word", "reads", "read_step", "reads_word", "read_word", "has_read",
             "part", "ends_word", "word", "has_result", "result_step", "next")  # fmt: skip
    yield from _instance("nb_phases", "phases", own, _clocked(**{n: n for n in names}))
    if core.slots > 1:
        yield f"    reg  {_range(slot)}slot; // the sums of this time step; those of later ones are in the next slots"
        yield "    always @(posedge clock)"
        yield "        if (reset) slot <= 0;"
        yield f"        else if (next) slot <= slot + {slot}'d1;"


def _walks(core: Core) -> Iterator[str]:
    word, slot = index_bits(core.stream.layout.words), index_bits(core.slots)
    for w in core.walks:
        value, bits = w.source.value_bits, core.stream.layout.lanes * w.weight_bits
        yield ""
        yield f"    // {w.id}: what spikes of {w.source.id} add, {len(w.form.weights)} words of weights"
        yield f"    wire {w.id}_hit, {w.id}_go, {w.id}_is_ended;"
        yield f"    wire {_range(word)}{w.id}_word;"
        yield f"    wire {_range(bits)}{w.id}_weights;"
        if core.slots > 1:
            yield f"    wire {_range(slot)}{w.id}_slot;"
        if value:
            yield f"    wire signed {_range(value)}{w.id}_hit_value;"
        yield from _walk(w, core)


def _walk(w: Walk, core: Core) -> Iterator[str]:
    s, form, layout = w.source, w.form, core.stream.layout
    address, word = index_bits(len(form.weights)), index_bits(layout.words)
    own: dict[str, object] = {"VALUE": max(1, s.value_bits), "WORD": word, "ADDRESS": address}
    own |= {"DEPTH": len(form.weights), "BITS": layout.lanes * w.weight_bits, "FILE": f'"{w.id}.hex"'}
    pins = _clocked(in_valid=f"{w.id}_valid", in_ready=f"{w.id}_ready", in_last=f"{w.id}_last")
    end = {"in_value": f"{w.id}_value" if s.value_bits else "1'b0", "next": "next", "is_ended": f"{w.id}_is_ended"}
    end |= {"hit": f"{w.id}_hit", "hit_ready": f"{w.id}_go", "hit_word": f"{w.id}_word"}
    end |= {"hit_value": f"{w.id}_hit_value" if s.value_bits else "", "weights": f"{w.id}_weights"}
    slot = f"{index_bits(core.slots)}'d{int(np.max(w.delay)) - 1}"
    if not isinstance(form, Table):
        yield from _window(w, core, own, pins, end)
    elif form.words is None:
        own |= {"INDEX": s.layout.bits, "WORDS": layout.words}
        yield from _instance("nb_rows", f"{w.id}_walk", own, {**pins, "in_index": f"{w.id}_index", **end})
    else:
        (_, bits), slots = _tables(w, core)["lists"], index_bits(core.slots)
        own |= {"INDEX": s.layout.bits, "SLOT": slots, "COUNT": bits[1], "SOURCES": 1 << s.layout.bits}
        own |= {"LISTS": f'"{w.id}_lists.hex"', "WORDS": f'"{w.id}_words.hex"'}
        end["hit_slot"] = f"{w.id}_slot" if core.slots > 1 else ""
        yield from _instance("nb_lists", f"{w.id}_walk", own, {**pins, "in_index": f"{w.id}_index", **end})
        return
    if core.slots > 1:
        yield f"    assign {w.id}_slot = {slot};"


def _window(w: Walk, core: Core, own: dict[str, object], pins: dict[str, str], end: dict[str, str]) -> Iterator[str]:
    form, layout = w.form, w.source.layout
    assert not isinstance(form, Table)
    row, column, channel = layout.fields
    tables = _tables(w, core)
    own |= {"ROW": max(1, row), "COLUMN": max(1, column), "CHANNEL": channel, "WORDS": form.words}
    own |= {"COUNT": tables["rows"][1][2], "ROWS": layout.rows, "COLUMNS": layout.columns, "CHANNELS": layout.channels}
    own |= {"DOWN_TAPS": form.row_steps[0], "DOWN_WORDS": form.row_steps[1]}
    own |= {"ON_TAPS": form.column_steps[0], "ON_WORDS": form.column_steps[1]}
    own |= {f"{name.upper()}_FILE": f'"{w.id}_{name}.hex"' for name in tables}
    index, first = f"{w.id}_index", column + channel
    pins["in_row"] = f"{index}[{layout.bits - 1}:{first}]" if row else "1'b0"
    pins["in_column"] = f"{index}[{first - 1}:{channel}]" if column else "1'b0"
    yield from _instance("nb_window", f"{w.id}_walk", own, {**pins, "in_channel": f"{index}[{channel - 1}:0]", **end})


def _adding(core: Core) -> Iterator[str]:
    """From a hit to its sums: its weights are there one cycle later, become a term, and are added."""
    groups, address = range(len(core.sums)), _address(core)
    of = {g: [w for w in core.walks if w.group == g] for g in groups}
    yield ""
    yield "    // hits become sums: one walk at a time, and none while the word that comes next is being written"
    stays = " | ".join(f"sums{g}_add & sums{g}_is_same" for g in groups) or "1'b0"
    yield f"    wire stays = {stays};"
    for k, w in enumerate(core.walks):
        yield f"    assign {w.id}_go = !stays{''.join(f' & !{b.id}_hit' for b in core.walks[:k])};"
        yield f"    reg  {w.id}_adds;"
        if w.source.value_bits:
            yield f"    reg  signed {_range(w.source.value_bits)}{w.id}_adds_value;"
    if core.walks:
        chosen = "".join(f"{w.id}_hit ? {_target(w, core)} : " for w in core.walks[:-1]) + _target(core.walks[-1], core)
        yield f"    reg  {_range(address)}add_word;"
        yield "    always @(posedge clock)"
        yield "        if (!stays) begin"
        yield f"            add_word <= {chosen};"
        for w in core.walks:
            if w.source.value_bits:
                yield f"            {w.id}_adds_value <= {w.id}_hit_value;"
        yield "        end"
    for w in core.walks:
        yield "    always @(posedge clock)"
        yield f"        if (reset) {w.id}_adds <= 0;"
        yield f"        else if (!stays) {w.id}_adds <= {w.id}_hit & {w.id}_go;"
    for g in groups:
        yield from _sums(core, g, of[g])
    ended = [f"{w.id}_is_ended & !{w.id}_adds" for w in core.walks] + [f"!sums{g}_is_adding" for g in groups]
    yield "    wire is_idle;"
    yield f"    assign is_ready = {' & '.join([*ended, 'is_idle'])};"


def _target(w: Walk, core: Core) -> str:
    return f"{{slot + {w.id}_slot, {w.id}_word}}" if core.slots > 1 else f"{w.id}_word"


def _sums(core: Core, g: int, walks: Sequence[Walk]) -> Iterator[str]:
    """What walks add to a group of sums: weights, times the value of a spike if it has one, in their place."""
    lanes, bits = core.stream.layout.lanes, core.sums[g].bits
    total = lanes * bits
    yield f"    wire sums{g}_add = {' | '.join(f'{w.id}_adds' for w in walks)};"
    yield f"    wire sums{g}_is_same, sums{g}_is_adding;"
    yield f"    wire {_range(total)}sums{g}_terms, sums{g};"
    yield "    generate"
    yield f"        for (l = 0; l < {lanes}; l = l + 1) begin : sums{g}_lane"
    for w in walks:
        cut = f"$signed({w.id}_weights[l*{w.weight_bits} +: {w.weight_bits}])"
        product = cut + (f" * {w.id}_adds_value" if w.source.value_bits else "")
        wide = max(bits, w.weight_bits + w.source.value_bits + w.shift)
        yield f"            wire signed {_range(wide)}{w.id}_term = " + (
            f"({product}) <<< {w.shift};" if w.shift else f"{product};"
        )
    terms = [f"{w.id}_term[{bits - 1}:0]" for w in walks]
    if len(walks) > 1:
        terms = [f"{t} & {{{bits}{{{w.id}_adds}}}}" for t, w in zip(terms, walks, strict=True)]
    yield f"            assign sums{g}_terms[l*{bits} +: {bits}] = {' | '.join(terms)};"
    yield "        end"
    yield "    endgenerate"
    yield from _sums_memory(core, g)


def _sums_memory(core: Core, g: int) -> Iterator[str]:
    """The memory of a group of sums, and the parts of a word that it gives to neurons."""
    layout, bits = core.stream.layout, core.sums[g].bits
    depth = layout.words if core.slots == 1 else core.slots << index_bits(layout.words)
    own = {"LANES": layout.lanes, "BITS": bits, "WORD": _address(core), "DEPTH": depth}
    slots = core.slots > 1
    to = "{slot, word}" if slots else "word"
    cleared = f"clear_word[{_address(core) - 1}:0]"
    pins = _clocked(
        clear="clears | (has_read & ends_word & go)", clear_word=f"clears ? {cleared} : {to}",
        read="reads_word & go",
        read_word="{slot, read_word}" if slots else "read_word", add=f"sums{g}_add & !stays", add_word="add_word",
        terms=f"sums{g}_terms", is_same=f"sums{g}_is_same", is_adding=f"sums{g}_is_adding", sums=f"sums{g}",
    )  # fmt: skip
    yield from _instance("nb_sums", f"sums{g}_memory", own, pins)
    part = core.neurons * bits
    yield f"    wire {_range(part)}sums{g}_parts [0:{core.parts - 1}];"
    yield f"    wire {_range(part)}sums{g}_part = sums{g}_parts[part];"
    yield "    generate"
    yield f"        for (l = 0; l < {core.parts}; l = l + 1) begin : sums{g}_cut"
    yield f"            assign sums{g}_parts[l] = sums{g}[l*{part} +: {part}];"
    yield "        end"
    yield "    endgenerate"


def _neurons(core: Core) -> Iterator[str]:
    """States and coefficients of a word, and its neurons side by side."""
    n, lanes, step = core.neuron, core.neurons, index_bits(core.steps)
    yield ""
    yield f"    // {lanes} neurons at a time" if lanes > 1 else "    // one neuron at a time"
    yield f"    wire {_range(lanes * n.sent.bits)}results;"
    state, coefficients = sum(f.bits for f in n.states), sum(f.bits for f in n.parameters)
    if state:
        yield from _states(core, state)
    if coefficients:
        yield f"    wire {_range(lanes * coefficients)}coefficients;"
        own = {"BITS": lanes * coefficients, "ADDRESS": step, "DEPTH": core.steps, "FILE": f'"{core.id}_neurons.hex"'}
        pins = {"clock": "clock", "read": "reads & go", "address": "read_step", "word": "coefficients"}
        yield from _instance("nb_rom", "coefficients_memory", own, pins)
    yield from _lanes(core, state, coefficients)
    yield "`ifdef NB_TRACE"
    yield "    always @(posedge clock)"
    yield f'        if (has_result & go) $display("{core.id} %h", trace);'
    yield "`endif"


def _lanes(core: Core, state: int, coefficients: int) -> Iterator[str]:
    """The neurons that are computed side by side; ``state``, ``coefficients``: bits of those of a neuron."""
    n, lanes, sent = core.neuron, core.neurons, core.neuron.sent.bits
    traced = sent + sum(f.bits for f in n.variables)
    yield f"    wire {_range(lanes * traced)}trace;"
    yield "    generate"
    yield f"        for (l = 0; l < {lanes}; l = l + 1) begin : lane"
    yield f"            wire signed {_range(n.drive.bits)}drive = {_drive(core)};"
    pins = {"clock": "clock", "enable": "go", "drive": "drive"}
    pins |= _cuts(n.states, "states", state) | _cuts(n.parameters, "coefficients", coefficients)
    pins |= {f"{k}_next": v.replace("states", "states_next", 1) for k, v in _cuts(n.states, "states", state).items()}
    pins["sent"] = f"results[l*{sent} +: {sent}]"
    pins |= _cuts(n.variables, "trace", traced)
    yield from ("        " + line for line in _instance(n.name, "neuron", {}, pins))
    yield f"            assign trace[l*{traced} + {traced - sent} +: {sent}] = results[l*{sent} +: {sent}];"
    yield "        end"
    yield "    endgenerate"


def _states(core: Core, bits: int) -> Iterator[str]:
    n, lanes, step = core.neuron, core.neurons, index_bits(core.steps)
    yield f"    wire {_range(lanes * bits)}states, states_next;"
    to, begin = f"clear_word[{step - 1}:0]", ""
    if _differing_starts(core):
        yield f"    wire {_range(lanes * bits)}start;"
        yield f"    reg  {_range(step)}start_step;"
        yield f"    always @(posedge clock) start_step <= {to};"
        own = {"BITS": lanes * bits, "ADDRESS": step, "DEPTH": core.steps, "FILE": f'"{core.id}_start.hex"'}
        pins = {"clock": "clock", "read": "clears", "address": to, "word": "start"}
        yield from _instance("nb_rom", "start_memory", own, pins)
        to, begin = "start_step", "start"
    else:
        firsts = [int(np.asarray(first_value(core.population.neuron, f.name)).flat[0]) for f in n.states]
        parts = [f"{f.bits}'d{x & ((1 << f.bits) - 1)}" for f, x in zip(n.states, firsts, strict=True)]
        begin = f"{{{lanes}{{{', '.join(reversed(parts))}}}}}"
    own = {"BITS": lanes * bits, "ADDRESS": step, "DEPTH": core.steps}
    pins = {"clock": "clock", "write": "clears | (has_result & go)", "to": f"clears ? {to} : result_step"}
    pins |= {"in": f"clears ? {begin} : states_next", "read": "reads & go", "from": "read_step", "word": "states"}
    yield from _instance("nb_memory", "states_memory", own, pins)


def _cuts(fields: Sequence[Field], bus: str, total: int) -> dict[str, str]:
    """Pins of fields: their bits in lane l of a bus."""
    found, first = {}, 0
    for f in fields:
        found[f.name] = f"{bus}[l*{total}{f' + {first}' if first else ''} +: {f.bits}]"
        first += f.bits
    return found


def _drive(core: Core) -> str:
    """The current of a lane as the rule takes it."""
    parts = []
    for g, s in enumerate(core.sums):
        cut = f"$signed(sums{g}_part[l*{s.bits} +: {s.bits}])"
        shift = f" <<< {s.exponent}" if s.exponent > 0 else f" >>> {-s.exponent}" if s.exponent < 0 else ""
        parts.append(f"({cut}{shift})" if shift and len(core.sums) > 1 else cut + shift)
    return " + ".join(parts) or "0"


def _sender(core: Core) -> Iterator[str]:
    layout, s = core.stream.layout, core.stream
    row, column, channel = layout.fields
    span = layout.words_of_place * layout.lanes
    own = {"LANES": core.neurons, "BITS": core.neuron.sent.bits, "CHANNELS": layout.channels, "SPAN": span}
    own |= {
        "CHANNEL": max(channel, index_bits(span)),
        "ROW": max(1, row),
        "COLUMN": max(1, column),
        "COLUMNS": layout.columns,
    }
    first = column + channel
    pins = _clocked(has_result="has_result", next="next", results="results", go="go", is_idle="is_idle")
    pins |= {f"out_{x}": f"out_{x}" for x in ("valid", "ready", "last")}
    pins |= {"out_row": f"out_index[{layout.bits - 1}:{first}]" if row else ""}
    pins |= {"out_column": f"out_index[{first - 1}:{channel}]" if column else ""}
    pins |= {"out_channel": "channel", "out_value": "value" if s.value_bits else ""}
    yield ""
    yield f"    wire {_range(own['CHANNEL'])}channel;"
    yield f"    assign out_index[{channel - 1}:0] = channel[{channel - 1}:0];"
    if s.value_bits:
        yield f"    wire {_range(core.neuron.sent.bits)}value;"
        wide, is_signed = s.value_bits - core.neuron.sent.bits, core.neuron.sent.signed
        zeros = f"{{{wide}'d0, value}}" if wide and not is_signed else "$signed(value)" if is_signed else "value"
        yield f"    assign out_value = {zeros};"
    yield from _instance("nb_sender", "sender", own, pins)


def top_text(circuit: Circuit) -> str:
    """The module of the whole circuit, ``net``."""
    ports = ["input  wire clock", "input  wire reset"]
    for s in circuit.inputs:
        ports += stream_ports(s.id, s, "input")
    for core in circuit.outputs:
        ports += stream_ports(core.id, core.stream, "output")
    lines = _header("net", ports, "The network: streams in, cores, streams out.")
    streams = [*circuit.inputs, *(c.stream for c in circuit.cores)]
    shown = {c.id for c in circuit.outputs}
    for s in streams:
        walks = [w for c in circuit.cores for w in c.walks if w.source is s]
        lines += _links(s, walks, is_input=s in circuit.inputs, is_shown=s.id in shown)
    for core in circuit.cores:
        pins = _clocked()
        for w in core.walks:
            pins |= {f"{w.id}_{x}": f"{w.id}_{x}" for x in _names(w.source)}
        pins |= {f"out_{x}": f"{core.id}_made_{x}" for x in _names(core.stream)}
        lines += ["", *_instance(core.id, f"{core.id}_core", {}, pins)]
    return "\n".join([*lines, "endmodule", ""])


def _names(s: Stream) -> tuple[str, ...]:
    return ("valid", "ready", "last", "index", *(("value",) if s.value_bits else ()))


def _links(s: Stream, walks: Sequence[Walk], *, is_input: bool, is_shown: bool) -> Iterator[str]:
    """The queues in front of all that take a stream; a token goes on when each of them has room."""
    own = s.id if is_input else f"{s.id}_made"
    ends = [(w.id, w.fifo) for w in walks] + ([(s.id, 1)] if is_shown else [])
    yield ""
    for name, is_wire in ((own, not is_input), *((w.id, True) for w in walks)):
        if is_wire:
            yield f"    wire {name}_valid, {name}_ready, {name}_last;"
            yield f"    wire {_range(s.layout.bits)}{name}_index;"
            if s.value_bits:
                yield f"    wire signed {_range(s.value_bits)}{name}_value;"
    for name, _ in ends:
        yield f"    wire {name}_has_room;"
    room = " & ".join(f"{name}_has_room" for name, _ in ends) or "1'b1"
    yield f"    assign {own}_ready = {room};"
    value = [f"{own}_value"] if s.value_bits else []
    for name, depth in ends:
        end_value = [f"{name}_value"] if s.value_bits else []
        pins = _clocked(in_valid=f"{own}_valid & {own}_ready", in_ready=f"{name}_has_room")
        pins["in"] = f"{{{', '.join([f'{own}_last', f'{own}_index', *value])}}}"
        pins |= {"out_valid": f"{name}_valid", "out_ready": f"{name}_ready"}
        pins["out"] = f"{{{', '.join([f'{name}_last', f'{name}_index', *end_value])}}}"
        yield from _instance("nb_queue", f"{name}_queue", {"BITS": s.bits, "DEPTH": depth}, pins)
