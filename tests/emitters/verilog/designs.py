"""Designs by hand for the tests of synthesis."""

from __future__ import annotations

from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.verilog.boards import Board, StreamPort, constraints, constraints_name, top_text

INPUT, OUTPUT = StreamPort("spikes", 8), StreamPort("sums", 8, 16)
NET = """module core (input clock, input reset, input valid, input [7:0] index, output reg [15:0] sum);
    // the square of a weight from a memory, added up
    reg [15:0] weights [0:255];
    reg [15:0] weight;
    initial $readmemh("weights.hex", weights);
    always @(posedge clock) begin
        if (valid) weight <= weights[index];
        sum <= reset ? 16'd0 : sum + weight * weight;
    end
endmodule

module net (
    input clock, input reset,
    input spikes_valid, output spikes_ready, input spikes_last, input [7:0] spikes_index,
    output sums_valid, input sums_ready, output sums_last, output [7:0] sums_index, output [15:0] sums_value
);
    core first (.clock(clock), .reset(reset), .valid(spikes_valid), .index(spikes_index), .sum(sums_value));
    assign spikes_ready = sums_ready;
    assign sums_valid = spikes_valid;
    assign sums_last = spikes_last;
    assign sums_index = spikes_index;
endmodule
"""
WEIGHTS = "\n".join(f"{37 * k % 65536:04x}" for k in range(256))
LARGE = """module net (input clock, input [11:0] at, input [11:0] to, input [47:0] word, output reg [47:0] read);
    reg [47:0] memory [0:4095];
    always @(posedge clock) begin
        memory[to] <= word;
        read <= memory[at];
    end
endmodule
"""


def files(board: Board) -> dict[str, bytes]:
    """The design of ``NET``, with the top of a board that has pins."""
    texts = {"net.v": NET, "weights.hex": WEIGHTS}
    if board.pins:
        texts |= {"top.v": top_text(board, [INPUT], [OUTPUT]), constraints_name(board): constraints(board)}
    return {name: text.encode() for name, text in texts.items()}


def program(board: Board) -> Artifact:
    """``files`` as an emitted program."""
    design = {"sources": ["net.v", "top.v"], "top": "top"} if board.pins else {"sources": ["net.v"], "top": "net"}
    return make_artifact(files(board), {"kind": "verilog", "board": board.record, "cycles_per_step": 300, **design})
