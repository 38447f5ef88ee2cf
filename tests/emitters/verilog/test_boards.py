from __future__ import annotations

import os
import select
import subprocess
import sys
import tty
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.emitters.verilog.boards import (
    DEVICES,
    Board,
    StreamPort,
    board_from_record,
    builtin_boards,
    constraints,
    host_text,
    makefile_text,
    read_board,
    token_layout,
    top_text,
)
from nirbridge.emitters.verilog.emit import VERILOG, VerilogOptions
from nirbridge.errors import FileError, UsageError
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Probe
from tests.tools import needs

IN = {"pixels": StreamPort("in_pixels", 6), "sound": StreamPort("in_sound", 4, 5, signed=True)}
OUT = {"digit": StreamPort("out_digit", 4), "level": StreamPort("out_level", 4, 9, signed=True)}


def test_the_boards_that_come_with_nirbridge() -> None:
    assert builtin_boards() == ("ecp5-25k", "icebreaker", "ulx3s")
    for name in builtin_boards():
        board = read_board(name)
        assert board.name == name
        assert board.resources == DEVICES[board.family][board.device]
        assert board_from_record(board.record, "again") == board
    assert read_board("ecp5-25k").pins == {}


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        'name = "own"\nsummary = "s"\nsource = "a wire"\nfamily = "ecp5"\ndevice = "45k"\npackage = "CABGA256"\n'
        'mhz = 12.5\n[pins]\nclock = "A1"\nuart_rx = "B2"\nuart_tx = "C3"\n'
    )
    board = read_board(str(path))
    assert (board.mhz, board.pins["uart_tx"], board.resources.multipliers) == (12.5, "C3", 72)


def test_no_such_board() -> None:
    with pytest.raises(UsageError) as error:
        read_board("icebraker")
    assert str(error.value) == (
        "board 'icebraker': unknown, known boards: ecp5-25k, icebreaker, ulx3s; did you mean 'icebreaker'?"
    )
    with pytest.raises(FileError, match="cannot be opened"):
        read_board("no/such.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "b, key 'colour': unknown"),
        ({"mhz": "12"}, "b, mhz: found '12', expected a number of MHz from 4 to 1000"),
        ({"mhz": True}, "b, mhz: found 'True'"),
        ({"mhz": float("nan")}, "b, mhz: found 'nan'"),
        ({"name": 3}, "b, name: found '3', expected a line of printable text"),
        ({"package": "a; rm -rf"}, "b, package: found 'a; rm -rf', expected letters, digits"),
        ({"family": "xc7"}, "b, family: found 'xc7', known: ice40, ecp5"),
        ({"device": "25k"}, "b, device: found '25k', known of ice40: hx1k, hx8k, up5k"),
        ({"pins": 3}, "b, pins: found '3', expected a table"),
        ({"pins": {"clock": "1"}}, "b, [pins] key 'uart_rx': missing; add it"),
        ({"pins": {"clok": "1"}}, "b, [pins] key 'clok': unknown; did you mean 'clock'?"),
        ({"pins": {"clock": 35}}, "b, [pins] 'clock': found '35', expected a pin"),
        ({"pins": {"clock": '1";'}}, "expected a pin such as '35' or 'G2'"),
        ({"pins": {"led": "1", "led_n": "2"}}, "b, [pins] 'led': given with 'led_n'"),
    ],
)
def test_a_wrong_board_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FileError) as error:
        board_from_record({**read_board("icebreaker").record, **change}, "b")
    assert message in str(error.value)


def test_every_problem_is_named() -> None:
    with pytest.raises(FileError) as error:
        board_from_record({"mhz": 0, "pins": {"x": "1"}}, "b")
    assert len(error.value.problems) == 6 + 1 + 4


def test_constraints_name_every_pin() -> None:
    assert constraints(read_board("icebreaker")).splitlines()[1:] == [
        *("set_io clock 35", "set_io uart_rx 6", "set_io uart_tx 9", "set_io button_n 10", "set_io led_n 37"),
        "set_frequency clock 12",
    ]
    lines = constraints(read_board("ulx3s")).splitlines()
    assert 'LOCATE COMP "uart_rx" SITE "M1";' in lines
    assert 'IOBUF PORT "button" IO_TYPE=LVCMOS33 PULLMODE=DOWN;' in lines
    assert lines[-1] == 'FREQUENCY PORT "clock" 25 MHZ;'


def test_tokens_take_as_few_bytes_as_they_can() -> None:
    assert token_layout([StreamPort("a", 7)]).bytes == 1
    assert token_layout([StreamPort("a", 7)], answers=True).bytes == 2
    layout = token_layout([*IN.values()])
    assert (layout.number_bits, layout.index_bits, layout.value_bits, layout.bytes) == (1, 6, 5, 2)


# -- the top on a simulated board ----------------------------------------------------------------------------------

_NET = """module net (
    input clock, input reset,
    input in_pixels_valid, output in_pixels_ready, input in_pixels_last, input [5:0] in_pixels_index,
    input in_sound_valid, output in_sound_ready, input in_sound_last, input [3:0] in_sound_index,
    input [4:0] in_sound_value,
    output out_digit_valid, input out_digit_ready, output out_digit_last, output [3:0] out_digit_index,
    output out_level_valid, input out_level_ready, output out_level_last, output [3:0] out_level_index,
    output [8:0] out_level_value
);
    // pixels to digit and sound to level; nothing is taken for a long time, then at odd cycles
    reg [17:0] cycle;
    reg odd;
    always @(posedge clock) begin
        odd <= !reset && !odd;
        cycle <= reset ? 18'd0 : cycle + {17'd0, cycle < 18'd150000};
    end
    wire open = cycle == 18'd150000 && odd;
    assign in_pixels_ready = open && out_digit_ready;
    assign out_digit_valid = open && in_pixels_valid;
    assign out_digit_last = in_pixels_last;
    assign out_digit_index = in_pixels_index[3:0] ^ {2'd0, in_pixels_index[5:4]};
    assign in_sound_ready = open && out_level_ready;
    assign out_level_valid = open && in_sound_valid;
    assign out_level_last = in_sound_last;
    assign out_level_index = in_sound_index;
    assign out_level_value = {{4{in_sound_value[4]}}, in_sound_value};
endmodule
"""
_BENCH = """`timescale 1ns / 1ps
module bench;
    // a host at the other end of the wires, with the board's clock cycle as its unit of time
    reg clock = 0, rx = 1;
    wire tx, led;
    always #0.5 clock = !clock;
    initial #2000000 $finish;
    top top (.clock(clock), .led(led), .uart_rx(rx), .uart_tx(tx));
    reg [7:0] bytes [0:@COUNT@-1];
    reg [7:0] byte, got;
    integer i, b, c, r, count = 0, held = 0, quiet = 0;
    reg is_sent = 0, is_over = 0;
    reg [63:0] token = 0;
    always @(posedge clock) begin
        quiet <= is_sent && tx ? quiet + 1 : 0;
        if (is_over && quiet == 20000) $finish;
    end
    initial begin
        $readmemh("bytes.mem", bytes);
        #400;
        for (r = 0; r < @TIMES@; r = r + 1) begin
            if (r != 0) begin
                wait (quiet > 20000);
                rx = 0; #(25 * @BIT@); rx = 1; #400; // a break resets the board
                held = 0;
            end
            is_sent = 0;
            for (i = 0; i < @COUNT@; i = i + 1) begin
                if (i % @IN@ == 0) begin
                    wait (held < 192);
                    held = held + 1;
                end
                byte = bytes[i];
                rx = 0; #@BIT@;
                for (b = 0; b < 8; b = b + 1) begin rx = byte[b]; #@BIT@; end
                rx = 1; #@BIT@;
            end
            is_sent = 1;
        end
        is_over = 1;
    end
    always begin
        @(negedge tx); #(@BIT@ / 2.0);
        if (tx) $display("false start");
        for (c = 0; c < 8; c = c + 1) begin #@BIT@; got[c] = tx === 1; end // the index of an end token may be undefined
        #@BIT@;
        if (!tx) $display("no stop");
        $display("%02x", got);
        token = {token[55:0], got};
        count = count + 1;
        if (count % @OUT@ == 0 && token[8*@OUT@-1:0] == @ANSWER@) held = held - 64;
    end
endmodule
"""
BOARD = Board(
    "b", "s", "a wire", "ice40", "up5k", "sg48", 4.0, {"clock": "1", "uart_rx": "2", "uart_tx": "3", "led": "4"}
)


def _host(inputs: Mapping[str, StreamPort] = IN, outputs: Mapping[str, StreamPort] = OUT) -> Any:
    module = types.ModuleType("host")
    exec(host_text(inputs, outputs), module.__dict__)  # the emitted program itself
    return module


def _over_serial(
    folder: Path, files: Mapping[str, str], host: Any, sent: Sequence[bytes], times: int = 1
) -> list[tuple[int, ...]]:
    """The tokens that a simulated board answers, which is reset before each further time."""
    simulator, data = needs("iverilog"), b"".join(sent)
    answer = host.token(host.FROM_BOARD, 0, len(host.OUTPUTS))
    values = {"COUNT": len(data), "BIT": 1e6 * BOARD.mhz / 115_200, "IN": len(sent[0]), "OUT": len(answer)}
    values |= {"TIMES": times, "ANSWER": f"{8 * len(answer)}'h{answer.hex()}"}
    bench = _BENCH
    for name, value in values.items():
        bench = bench.replace(f"@{name}@", str(value))
    memory = "\n".join(f"{byte:02x}" for byte in data)
    for name, text in {**files, "bench.v": bench, "bytes.mem": memory}.items():
        (folder / name).write_text(text)
    sources = [name for name in ("bench.v", *files) if name.endswith(".v")]
    subprocess.run([simulator, "-g2005", "-s", "bench", "-o", "bench", *sources], cwd=folder, check=True)
    run = subprocess.run(["./bench"], cwd=folder, check=True, capture_output=True, timeout=300)
    back = bytes.fromhex("".join(run.stdout.decode().split()))
    size = len(answer)
    return [host.parts(host.FROM_BOARD, back[k : k + size]) for k in range(0, len(back), size)]


def test_spikes_go_over_the_serial_port_and_back(tmp_path: Path) -> None:
    host = _host()
    lines = [
        " ".join(
            f"pixels:{(7 * t + k) % 64} sound:{k % 16}={(5 * t + 3 * k) % 32 - 16}" for k in range(1 + 11 * (t % 4))
        )
        for t in range(14)
    ]
    sent = [each for line in lines for each in host.step_tokens(line)]
    assert len(sent) > 400  # more than the board can hold
    files = {"net.v": _NET, "top.v": top_text(BOARD, [*IN.values()], [*OUT.values()])}
    tokens = _over_serial(tmp_path, files, host, sent)
    assert sum(number == len(OUT) for _, number, _, _ in tokens) == len(sent) // 64
    shown = host.step_lines(iter(tokens), len(lines))
    assert [sorted(line.split()) for line in shown] == [sorted(_answer(x) for x in line.split()) for line in lines]


def test_a_network_on_a_simulated_board(root: Path, tmp_path: Path) -> None:
    needs("iverilog")
    board = tmp_path / "board.toml"
    pins = "".join(f'{role} = "{pin}"\n' for role, pin in BOARD.pins.items())
    facts = "".join(f"{key} = {value!r}\n" for key, value in BOARD.record.items() if key != "pins")
    board.write_text(f"{facts}[pins]\n{pins}")
    quantized = nb.quantize(root / "examples" / "models" / "digits_mlp.nir", "loihi2")
    program = VERILOG.emit(quantized, VerilogOptions(board=str(board)))
    host: Any = types.ModuleType("host")
    exec(program.files["host.py"], host.__dict__)
    picture = np.zeros((8, 8), bool)
    picture[1:7, 2:4] = True
    spikes = np.tile(picture.reshape(1, 64), (9, 1))
    lines = [" ".join(map(str, np.flatnonzero(row))) for row in spikes]
    sent = [each for line in lines for each in host.step_tokens(line)]
    assert host.TO_BOARD[3] == host.FROM_BOARD[3] == 1  # a byte for each spike
    texts = {
        name: text.decode() for name, text in program.files.items() if name.endswith((".v", ".hex")) and "/" not in name
    }
    files = {name: text for name, text in texts.items() if name not in ("testbench.v", "clock.v")}
    (folder := tmp_path / "design").mkdir()
    tokens = _over_serial(folder, files, host, sent, 2)
    half = len(tokens) // 2
    shown, again = (host.step_lines(iter(part), len(lines)) for part in (tokens[:half], tokens[half:]))
    assert shown == again
    [(_, name)] = [(read.target, read.source) for read in quantized.reads]
    expected = simulate_fixed(quantized, spikes, record=[Probe(name, ("s",))]).recording.arrays[name, "s"]
    assert expected.sum() > 9
    assert [sorted(map(int, line.split())) for line in shown] == [np.flatnonzero(row).tolist() for row in expected]


def _answer(word: str) -> str:
    """What the network of the test makes of a word."""
    name, _, rest = word.partition(":")
    if name == "sound":
        return f"level:{rest}"
    index = int(rest)
    return f"digit:{index % 16 ^ index // 16}"


def test_the_host_keeps_to_what_a_board_can_hold(tmp_path: Path) -> None:
    """A terminal in place of the board: it answers the first tokens late, and every 64th as the board does."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    (tmp_path / "host.py").write_text(host_text(IN, OUT))
    lines = [" ".join(f"sound:{k % 16}={k % 32 - 16}" for k in range(90)) for _ in range(3)]
    command = [sys.executable, "-S", str(tmp_path / "host.py"), os.ttyname(theirs)]  # without packages: no pyserial
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(lines))
        process.stdin.close()
        host, held, taken = _host(), b"", 0
        while len(held) < 192 * 2:
            held += os.read(ours, 1000)
        assert not select.select([ours], [], [], 0.3)[0]  # it waits
        while taken < sum(len(host.step_tokens(line)) for line in lines):
            while len(held) < 2:
                held += os.read(ours, 1000)
            last, number, index, value = host.parts(host.TO_BOARD, held[:2])
            held, taken = held[2:], taken + 1
            signed = value - 32 * (value >> 4)
            os.write(ours, host.token(host.FROM_BOARD, last, number, index, signed % 512))
            if taken % 64 == 0:
                os.write(ours, host.token(host.FROM_BOARD, 0, len(OUT)))
        shown = process.stdout.read().splitlines()
    os.close(ours)
    os.close(theirs)
    assert shown == [line.replace("sound", "level") for line in lines]


class _Port:
    """A port of pyserial."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    break_condition = property(lambda self: False, lambda self, value: self.done.append(value))

    def reset_input_buffer(self) -> None:
        self.done.append("dropped")


def test_the_host_drops_what_the_board_sent_before_its_reset() -> None:
    host = _host()
    port = _Port()
    host.reset(port)
    assert port.done == [True, "dropped", False]
    board, end = os.openpty()
    tty.setraw(end)
    os.write(board, b"before")
    with os.fdopen(end, "r+b", buffering=0) as opened:
        host.reset(opened)
        os.write(board, b"after")
        assert opened.read(6) == b"after"
    os.close(board)


def test_values_out_of_range_are_refused_by_the_host() -> None:
    host = _host()
    assert host.step_tokens("sound:3=-16")
    for word in ("sound:3=-17", "pixels:64", "pixels:1=1", "nose:1"):
        with pytest.raises(ValueError, match=r".+"):
            host.step_tokens(word)


def test_the_top_has_no_warnings(tmp_path: Path) -> None:
    lint = needs("verilator")
    inputs, outputs = [*IN.values()], [*OUT.values()]
    for number, board in enumerate((BOARD, read_board("icebreaker"), read_board("ulx3s"))):
        (tmp_path / "net.v").write_text(_NET)
        (tmp_path / "top.v").write_text(top_text(board, inputs, outputs))
        done = subprocess.run([lint, "--lint-only", "-Wall", "top.v"], cwd=tmp_path, capture_output=True, check=False)
        assert (number, done.stderr.decode()) == (number, "")


def test_the_makefile_builds_a_bitstream_with_the_open_flow() -> None:
    text = makefile_text(read_board("icebreaker"), ("net.v", "top.v"), "top", ("net.v", "bench.v"))
    assert "synth_ice40 -device u -dsp -top top -json net.json" in text
    assert "--up5k --package sg48 --json net.json --seed 1 --asc net.asc --pcf board.pcf" in text
    assert "@" not in text.replace("$@", "")
    alone = makefile_text(read_board("ecp5-25k"), ("net.v",), "net", ("net.v", "bench.v"))
    assert "--25k --package CABGA381 --json net.json --seed 1 --textcfg net.config --lpf-allow-unconstrained" in alone
