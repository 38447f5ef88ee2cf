"""The test bench of a circuit: recorded tokens in, what is sent compared with recorded tokens."""

from __future__ import annotations

from collections.abc import Iterator

from nirbridge.emitters.verilog.plan import Circuit, Stream


def bench_text(circuit: Circuit, template: str, steps: int) -> str:
    """The file ``testbench.v``."""
    inputs, outputs = circuit.inputs, [c.stream for c in circuit.outputs]
    inner = [c.stream for c in circuit.cores if not c.is_shown]
    signals, pins, processes = [], ["        .clock(clock), .reset(reset)"], []
    for k, s in enumerate((*inputs, *outputs)):
        is_input = s in inputs
        signals += _signals(s, is_input=is_input)
        pins.append(_pins(s))
        processes.append(_input(s, k) if is_input else _ready(s, k) + _compared(s, s.id))
    for s in inner:
        signals += _counts(s)
        processes.append(_compared(s, f"network.{s.id}_made"))
    watched = (*outputs, *inner)
    files = [f'        {s.id}_file = $fopen("vectors/{s.id}.hex", "r");' for s in (*inputs, *watched)]
    over = [f"{s.id}_is_over" for s in inputs] + [f"{s.id}_steps >= steps" for s in outputs]
    marks = {
        "SIGNALS": "\n".join(signals),
        "PINS": ",\n".join(pins),
        "FILES": "\n".join(files),
        "PROCESSES": "\n".join(processes),
        "STEPS": str(steps),
        "OVER": " & ".join(over),
        "MOVES": " | ".join(f"({s.id}_valid & {s.id}_ready)" for s in (*inputs, *outputs)),
        "TOKENS": " + ".join(f"{s.id}_tokens" for s in watched),
        "ERRORS": " + ".join(f"{s.id}_errors" for s in watched),
        "ABSENT": " | ".join(f"{s.id}_file == 0" for s in inputs) or "1'b0",
    }
    for name, text in marks.items():
        template = template.replace(f"/*{name}*/", text)
    return template


def _token(s: Stream, name: str) -> str:
    value = [f"{name}_value"] if s.value_bits else []
    return f"{{{', '.join([f'{name}_last', f'{name}_index', *value])}}}"


def _signals(s: Stream, *, is_input: bool) -> Iterator[str]:
    kinds = ("reg ", "wire") if is_input else ("wire", "reg ")
    yield f"    {kinds[0]} {s.id}_valid;"
    yield f"    {kinds[1]} {s.id}_ready;"
    yield f"    wire {s.id}_last;"
    yield f"    wire [{s.layout.bits - 1}:0] {s.id}_index;"
    if s.value_bits:
        yield f"    wire [{s.value_bits - 1}:0] {s.id}_value;"
    if is_input:
        yield f"    reg  [{s.bits}:0] {s.id}_read;"
        yield f"    integer {s.id}_file;"
        yield f"    reg  [{s.bits}:0] {s.id}_token = 0;"
        yield f"    wire {s.id}_is_over = {s.id}_token[{s.bits}];"
    else:
        yield from _counts(s)


def _counts(s: Stream) -> Iterator[str]:
    """What a stream that is compared needs."""
    yield f"    reg  [{s.bits}:0] {s.id}_read;"
    yield f"    integer {s.id}_file, {s.id}_steps = 0, {s.id}_errors = 0, {s.id}_tokens = 0;"


def _pins(s: Stream) -> str:
    names = ["valid", "ready", "last", "index", *(["value"] if s.value_bits else [])]
    return "        " + ", ".join(f".{s.id}_{x}({s.id}_{x})" for x in names)


def _input(s: Stream, k: int) -> str:
    return f"""
    assign {_token(s, s.id)} = {s.id}_token[{s.bits - 1}:0];
    always @(posedge clock)
        if (reset) begin
            {s.id}_valid <= 0;
            {s.id}_token <= 0;
        end else if ((!{s.id}_valid | {s.id}_ready) & !{s.id}_is_over & !rests({k})) begin
            if ($fscanf({s.id}_file, "%h\\n", {s.id}_read) != 1) begin
                $display("FAIL: {s.id}.hex ends within a sample");
                $finish;
            end
            {s.id}_token <= {s.id}_read;
            {s.id}_valid <= !{s.id}_read[{s.bits}];
        end else if ({s.id}_ready) {s.id}_valid <= 0;"""


def _ready(s: Stream, k: int) -> str:
    return f"""
    always @(posedge clock) {s.id}_ready <= !reset & !rests({k});"""


def _compared(s: Stream, name: str) -> str:
    """The tokens of a stream, ``name`` in front of its signals, beside those of its file."""
    token, end = _token(s, name), f"{s.id}_read[{s.bits - 1}]"
    return f"""
    always @(posedge clock)
        if (reset) {s.id}_steps <= 0;
        else if ({name}_valid & {name}_ready & {s.id}_steps < steps) begin
            if ({name}_last) {s.id}_steps <= {s.id}_steps + 1;
            if ({s.id}_file != 0) begin
                if ($fscanf({s.id}_file, "%h\\n", {s.id}_read) != 1) {s.id}_read = 0;
                {s.id}_tokens <= {s.id}_tokens + 1;
                if ({name}_last ? !{end} : {token} != {s.id}_read[{s.bits - 1}:0]) begin
                    if ({s.id}_errors < 10) $display("differs: {s.id}, time step %0d: found %h, expected %h",
                        {s.id}_steps, {token}, {s.id}_read);
                    {s.id}_errors <= {s.id}_errors + 1;
                end
            end
        end"""
