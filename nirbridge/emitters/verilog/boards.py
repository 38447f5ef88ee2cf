"""Boards and devices of the open flow, and the files that put a network on one: pins, a serial port, a Makefile."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge.errors import Diagnostic, FileError, UsageError, did_you_mean, quoted
from nirbridge.files.json_text import read_toml
from nirbridge.files.regular import template_bytes, template_text

TEMPLATES = Path(__file__).with_name("templates")
BAUD = 115_200
MHZ_MIN, MHZ_MAX = 4.0, 1000.0
"""Slower clocks miss the rate of the serial port by more than 1 %."""
ROLES = ("clock", "uart_rx", "uart_tx", "button", "button_n", "led", "led_n")
"""Ports of ``top.v``; a name that ends in ``_n`` is active low."""
_NEEDED = ("clock", "uart_rx", "uart_tx")


@dataclass(frozen=True, slots=True)
class Resources:
    """Cells of a device, or those that a design takes.

    ``luts``: logic cells of an iCE40, each with a flip-flop, or LUTs of an ECP5; ``block_rams``: of 4,096 bits (iCE40)
    or 18,432 bits (ECP5); ``multipliers``: of 16 bits (iCE40 UP) or 18 bits (ECP5).
    """

    luts: int
    flip_flops: int
    block_rams: int
    multipliers: int


DEVICES: Mapping[str, Mapping[str, Resources]] = MappingProxyType(
    {
        # Of the families' data sheets (FPGA-DS-02008, FPGA-DS-02029, FPGA-DS-02012), as nextpnr counts them.
        "ice40": {
            "hx1k": Resources(1280, 1280, 16, 0),
            "hx8k": Resources(7680, 7680, 32, 0),
            "up5k": Resources(5280, 5280, 30, 8),
        },
        "ecp5": {
            "25k": Resources(24288, 24288, 56, 28),
            "45k": Resources(43848, 43848, 108, 72),
            "85k": Resources(83640, 83640, 208, 156),
        },
    }
)
"""By family, then by the name that nextpnr has for the device."""


@dataclass(frozen=True, slots=True)
class Board:
    """An FPGA, and the board that it is on.

    ``device`` and ``package``: as nextpnr names them. ``mhz``: the clock of the board; of a device alone, the clock
    that is aimed at. ``pins``: by role (``ROLES``); none for a device alone. ``source``: where the pins are published.
    """

    name: str
    summary: str
    source: str
    family: str
    device: str
    package: str
    mhz: float
    pins: Mapping[str, str]

    @property
    def resources(self) -> Resources:
        """The cells of the device."""
        return DEVICES[self.family][self.device]

    @property
    def record(self) -> dict[str, Any]:
        """Plain values, as a board file has them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "pins"} | {"pins": dict(self.pins)}


@dataclass(frozen=True, slots=True)
class StreamPort:
    """A stream of tokens at the edge of a network: ``<name>_valid, _ready, _last, _index``, and ``_value`` if any."""

    name: str
    index_bits: int
    value_bits: int = 0
    signed: bool = False


# -- board files ---------------------------------------------------------------------------------------------------


@cache
def builtin_boards() -> tuple[str, ...]:
    """Names of the boards that come with nirbridge, in alphabetical order."""
    files = (resources.files("nirbridge.emitters.verilog") / "boards").iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))


def read_board(name_or_path: str) -> Board:
    """A board by name, or from a file where the text ends in ``.toml``.

    Raises:
        UsageError: no board of that name.
        FileError: a file that cannot be read, or is wrong; every problem.
    """
    if name_or_path.endswith(".toml"):
        subject = f"board file {quoted(Path(name_or_path).name)}"
        return board_from_record(read_toml(name_or_path, subject), subject)
    if name_or_path not in builtin_boards():
        hint = did_you_mean(name_or_path, builtin_boards()) or "or give the path of a .toml file"
        limit = f"known boards: {', '.join(builtin_boards())}"
        raise UsageError.of(f"board {quoted(name_or_path)}", "unknown", limit, hint)
    place = resources.files("nirbridge.emitters.verilog") / "boards" / f"{name_or_path}.toml"
    return board_from_record(tomllib.loads(template_bytes(place).decode("utf-8")), f"board {quoted(name_or_path)}")


def board_from_record(record: Mapping[str, Any], subject: str) -> Board:
    """The board of plain values. Raises FileError with every problem."""
    FileError.raise_all(Diagnostic(f"{subject}, {p.subject}", p.found, p.limit, p.hint) for p in _problems(record))
    pins = MappingProxyType({role: record["pins"][role] for role in ROLES if role in record.get("pins", {})})
    return Board(**{**record, "mhz": float(record["mhz"]), "pins": pins})


def _problems(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    texts = ("name", "summary", "source", "family", "device", "package")
    yield from _keys(record, (*texts, "mhz", "pins"), (*texts, "mhz"))
    for key in texts:
        if key in record and not _is_word(record[key]):
            yield Diagnostic(key, f"found {quoted(record[key])}", "expected a line of printable text")
        elif key in ("name", "package") and key in record and not re.fullmatch(r"[\w.-]+", record[key], re.ASCII):
            yield Diagnostic(key, f"found {quoted(record[key])}", "expected letters, digits, '.', '_' and '-'")
    mhz = record.get("mhz", MHZ_MAX)
    if isinstance(mhz, bool) or not isinstance(mhz, int | float) or not MHZ_MIN <= mhz <= MHZ_MAX:
        yield Diagnostic("mhz", f"found {quoted(mhz)}", f"expected a number of MHz from {MHZ_MIN:g} to {MHZ_MAX:g}")
    yield from _device(record.get("family"), record.get("device"))
    yield from _pins(record.get("pins", {}))


def _keys(table: Mapping[str, Any], known: Sequence[str], needed: Sequence[str], of: str = "") -> Iterator[Diagnostic]:
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"known keys: {', '.join(known)}"
            yield Diagnostic(f"{of}key {quoted(key)}", "unknown", hint=hint)
    for key in needed:
        if key not in table:
            yield Diagnostic(f"{of}key '{key}'", "missing", hint="add it")


def _is_word(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()


def _device(family: object, device: object) -> Iterator[Diagnostic]:
    """Problems of the two; a missing one is reported as a missing key."""
    if isinstance(family, str) and family not in DEVICES:
        yield Diagnostic("family", f"found {quoted(family)}", f"known: {', '.join(DEVICES)}")
    elif isinstance(family, str) and isinstance(device, str) and device not in DEVICES[family]:
        yield Diagnostic("device", f"found {quoted(device)}", f"known of {family}: {', '.join(DEVICES[family])}")


def _pins(pins: object) -> Iterator[Diagnostic]:
    if not isinstance(pins, Mapping):
        yield Diagnostic("pins", f"found {quoted(pins)}", "expected a table [pins]")
        return
    yield from _keys(pins, ROLES, _NEEDED if pins else (), "[pins] ")
    for role, pin in pins.items():
        if not (isinstance(pin, str) and pin.isascii() and pin.isalnum() and len(pin) <= 8):
            yield Diagnostic(f"[pins] {quoted(role)}", f"found {quoted(pin)}", "expected a pin such as '35' or 'G2'")
    for role in ("button", "led"):
        if role in pins and f"{role}_n" in pins:
            yield Diagnostic(f"[pins] '{role}'", f"given with '{role}_n'", "a board has one of them", "leave one out")


# -- constraints and Makefile --------------------------------------------------------------------------------------


def constraints_name(board: Board) -> str:
    """The file of ``constraints``."""
    return "board.pcf" if board.family == "ice40" else "board.lpf"


def constraints(board: Board) -> str:
    """Pins of ``top.v`` and the frequency of its clock, as nextpnr reads them."""
    head = f"# {board.name}; pins: {board.source}\n"
    if board.family == "ice40":
        pins = "".join(f"set_io {role} {pin}\n" for role, pin in board.pins.items())
        return f"{head}{pins}set_frequency clock {board.mhz:g}\n"
    lines = [f'LOCATE COMP "{role}" SITE "{pin}";' for role, pin in board.pins.items()]
    lines += [f'IOBUF PORT "{role}" IO_TYPE=LVCMOS33{_PULLS.get(role, "")};' for role in board.pins]
    return head + "\n".join([*lines, f'FREQUENCY PORT "clock" {board.mhz:g} MHZ;', ""])


_PULLS = {
    "clock": " PULLMODE=NONE",
    "uart_rx": " PULLMODE=UP",
    "button": " PULLMODE=DOWN",
    "button_n": " PULLMODE=UP",
    "led": " DRIVE=4",
    "led_n": " DRIVE=4",
    "uart_tx": " DRIVE=4",
}
"""An open input reads as if nothing were sent or pressed."""


def bitstream_name(board: Board) -> str:
    """The file that programs a board."""
    return "net.bin" if board.family == "ice40" else "net.bit"


def yosys_command(board: Board, top: str) -> str:
    """The command of yosys that makes the netlist ``net.json`` of the files that it has read."""
    if board.family == "ecp5":
        # digits CNN: 2,727 LUTs at 83.7 MHz instead of 2,975 at 82.2; it is the default of later versions. On an iCE40
        # the same costs 7 % more cells.
        return f"synth_ecp5 -abc9 -top {top} -json net.json"
    kind = {"hx": "hx", "up": "u"}[board.device[:2]]
    multipliers = "-dsp " if board.resources.multipliers else ""
    return f"synth_ice40 -device {kind} {multipliers}-top {top} -json net.json"


def nextpnr_arguments(board: Board, file: str) -> tuple[str, ...]:
    """The arguments of nextpnr for a device; ``file``: of its pins, empty: none are given."""
    device = (f"--{board.device}", "--package", board.package, "--json", "net.json", "--seed", "1")
    if board.family == "ice40":
        return (*device, "--asc", "net.asc", *(("--pcf", file) if file else ()))
    return (*device, "--textcfg", "net.config", *(("--lpf", file) if file else ("--lpf-allow-unconstrained",)))


def makefile_text(board: Board, sources: Sequence[str], top: str, simulated: Sequence[str]) -> str:
    """A Makefile with the targets sim, synth, bitstream and prog.

    Args:
        board: the board.
        sources: the Verilog files of the design.
        top: its topmost module.
        simulated: the Verilog files of the simulation, the test bench among them.
    """
    ice40 = board.family == "ice40"
    arguments = nextpnr_arguments(board, constraints_name(board) if board.pins else "")
    values = {
        "NEXTPNR": f"nextpnr-{board.family}",
        "PACK": "icepack" if ice40 else "ecppack",
        "PROG": "iceprog" if ice40 else f"openFPGALoader --board {board.name}",
        "SOURCES": " ".join(sources),
        "SIMULATED": " ".join(simulated),
        "SYNTH": yosys_command(board, top),
        "ARGUMENTS": " ".join(arguments),
        "ROUTED": "net.asc" if ice40 else "net.config",
        "PINS": constraints_name(board) if board.pins else "",
        "BITSTREAM": bitstream_name(board),
    }
    return _filled("Makefile", values)


def _filled(template: str, values: Mapping[str, object]) -> str:
    """A template with values in place of its marks; a line of a mark alone goes with an empty value."""
    text = template_text(TEMPLATES / f"{template}.txt")
    for name, value in values.items():
        text = text.replace(f"@{name}@\n", f"{value}\n" if value != "" else "").replace(f"@{name}@", str(value))
    return text


# -- top of a board ------------------------------------------------------------------------------------------------
# ``top.v`` joins the streams of a network to the serial port; ``host.py`` is the other end of it.


@dataclass(frozen=True, slots=True)
class TokenLayout:
    """The bits of a token on the serial port: last at the top; number of the stream, index and value at the bottom."""

    number_bits: int
    index_bits: int
    value_bits: int

    @property
    def bytes(self) -> int:
        """Bytes of a token."""
        return (self.kept_bits + 7) // 8

    @property
    def kept_bits(self) -> int:
        """The bits that mean something."""
        return 1 + self.number_bits + self.index_bits + self.value_bits

    @property
    def text(self) -> str:
        """The parts, from the highest bit down."""
        parts = {"number": self.number_bits, "index": self.index_bits, "value": self.value_bits}
        return ", ".join(f"{name} ({bits} bit{'s' * (bits > 1)})" for name, bits in parts.items() if bits)


def token_layout(ports: Sequence[StreamPort], *, answers: bool = False) -> TokenLayout:
    """The layout that all ports of a direction share; ``answers``: one more number, for answers of the board."""
    numbers = len(ports) + answers
    widest = max((port.index_bits for port in ports), default=1), max((port.value_bits for port in ports), default=0)
    return TokenLayout((numbers - 1).bit_length(), *widest)


def top_text(board: Board, inputs: Sequence[StreamPort], outputs: Sequence[StreamPort], module: str = "net") -> str:
    """The file ``top.v``: the network, the module ``module``, on a board that has pins."""
    to, back = token_layout(inputs), token_layout(outputs, answers=True)
    cycles = round(board.mhz * 1e6 / BAUD)
    width = (cycles - 1).bit_length()
    pad = range(to.kept_bits - 1, 8 * to.bytes - 1)
    values = {
        "BOARD": board.name,
        "BAUD": f"{BAUD:,}",
        "IN_BYTES": _bytes(to.bytes),
        "OUT_BYTES": _bytes(back.bytes),
        "IN_LAYOUT": to.text,
        "OUT_LAYOUT": back.text,
        "ACK": len(outputs),
        "W1": width - 1,
        "W": width,
        "LAST_CYCLE": cycles - 1,
        "HALF_CYCLE": cycles // 2,
        "IN_TOP": 8 * to.bytes - 1,
        "IN_LAST": to.bytes - 1,
        "RX_TOKEN": f"{{rx_token[{8 * to.bytes - 9}:0], rx_byte}}" if to.bytes > 1 else "rx_byte",
        "UNUSED": f"    wire unused = &{{1'b0, rx_token[{pad[-1]}:{pad[0]}]}};" if pad else "",
        "KEPT_TOP": to.kept_bits - 1,
        "KEPT": f"{{rx_token[{8 * to.bytes - 1}], rx_token[{to.kept_bits - 2}:0]}}" if pad else "rx_token",
        "OUT_TOP": 8 * back.bytes - 1,
        "OUT_BYTE": 8 * back.bytes - 8,
        "OUT_COUNT": back.bytes,
        "TX_TOKEN": f"{{tx_token[{8 * back.bytes - 9}:0], 8'd0}}" if back.bytes > 1 else "tx_token",
        "NETWORK": "\n".join(f"    {line}" for line in _network_lines(inputs, outputs, module, to, back)),
    }
    return _filled("top.v", {**_button_and_led(board, outputs), **values})


def _bytes(count: int) -> str:
    return "one byte" if count == 1 else f"{count} bytes"


def _button_and_led(board: Board, outputs: Sequence[StreamPort]) -> dict[str, str]:
    """Texts of the two roles that a board may lack."""
    button = next((role for role in ("button", "button_n") if role in board.pins), "")
    led = next((role for role in ("led", "led_n") if role in board.pins), "")
    ports = [f"    input  wire {button}," * bool(button), f"    output wire {led}," * bool(led)]
    level = f"{'~' * button.endswith('_n')}{button}"
    pressed = f"    reg [1:0] pressed = 2'b00;\n    always @(posedge clock) pressed <= {{pressed[0], {level}}};"
    first = f"n_{outputs[0].name}"
    lamp = (
        "    // The lamp changes with every time step of the first output.\n    reg lit = 1'b0;\n"
        f"    always @(posedge clock) if ({first}_valid && {first}_ready && {first}_last) lit <= !lit;\n"
        f"    assign {led} = lit;"
    )
    return {
        "MORE_PORTS": "\n".join(filter(None, ports)),
        "BUTTON": pressed * bool(button),
        "PRESSED": "pressed[1] || " if button else "",
        "LED": lamp * bool(led),
    }


def _network_lines(
    inputs: Sequence[StreamPort], outputs: Sequence[StreamPort], module: str, to: TokenLayout, back: TokenLayout
) -> Iterator[str]:
    """The instance, with tokens spread over its inputs, and those of its outputs joined."""
    ready = "1'b1"
    connections = ["clock(clock)", "reset(reset)"]
    for k, port in enumerate(inputs):
        chosen = f"head[{to.kept_bits - 2}:{to.index_bits + to.value_bits}] == {to.number_bits}'d{k}"
        valid = f"head_valid && {chosen}" if to.number_bits else "head_valid"
        ready = f"{chosen} ? n_{port.name}_ready : {ready}" if to.number_bits else f"n_{port.name}_ready"
        yield f"wire n_{port.name}_ready;"
        index = f"head[{to.value_bits + port.index_bits - 1}:{to.value_bits}]"
        given = {"valid": valid, "ready": f"n_{port.name}_ready", "last": f"head[{to.kept_bits - 1}]", "index": index}
        given |= {"value": f"head[{port.value_bits - 1}:0]"} if port.value_bits else {}
        connections += [f"{port.name}_{part}({wire})" for part, wire in given.items()]
    yield f"assign head_ready = {ready};"
    for port in outputs:
        yield f"wire n_{port.name}_valid, n_{port.name}_ready, n_{port.name}_last;"
        widths = {"index": port.index_bits, "value": port.value_bits}
        yield from (f"wire [{bits - 1}:0] n_{port.name}_{part};" for part, bits in widths.items() if bits)
        parts = ("valid", "ready", "last", *(part for part, bits in widths.items() if bits))
        connections += [f"{port.name}_{part}(n_{port.name}_{part})" for part in parts]
    yield from (f"{module} network (", "    ." + ",\n        .".join(connections), ");")
    yield from _joined(outputs, back)


def _joined(outputs: Sequence[StreamPort], back: TokenLayout) -> Iterator[str]:
    """One output at a time, an answer before all of them."""
    low = back.index_bits + back.value_bits
    number_bits = 8 * back.bytes - 1 - low
    busy, free, sent = "ack", "tx_free && !ack", f"ack ? {{1'b0, {number_bits}'d{len(outputs)}, {low}'d0}}"
    for k, port in enumerate(outputs):
        index, value = back.index_bits - port.index_bits, back.value_bits - port.value_bits
        parts = [f"n_{port.name}_last", f"{number_bits}'d{k}", *([f"{index}'d0"] * bool(index))]
        parts += [f"n_{port.name}_index", *([f"{value}'d0"] * bool(value))]
        parts += [f"n_{port.name}_value"] * bool(port.value_bits)
        chosen = f"n_{port.name}_valid ? " if port is not outputs[-1] else ""
        sent += f"\n        : {chosen}{{{', '.join(parts)}}}"
        yield f"assign n_{port.name}_ready = {free};"
        busy, free = f"{busy} || n_{port.name}_valid", f"{free} && !n_{port.name}_valid"
    yield f"wire sending = {busy};"
    yield f"wire [{8 * back.bytes - 1}:0] sent = {sent};"


def host_text(inputs: Mapping[str, StreamPort], outputs: Mapping[str, StreamPort]) -> str:
    """The file ``host.py`` for ports by name of the model: sends time steps and prints the outputs' tokens."""
    to, back = token_layout([*inputs.values()]), token_layout([*outputs.values()], answers=True)
    layouts = {"TO_BOARD": to, "FROM_BOARD": back}
    values: dict[str, Any] = {"BAUD": BAUD, "INPUTS": ascii([*inputs]), "OUTPUTS": ascii([*outputs])}
    values |= {name: (x.number_bits, x.index_bits, x.value_bits, x.bytes) for name, x in layouts.items()}
    values["VALUES"] = tuple((port.value_bits, port.signed) for port in outputs.values())
    values["RANGES"] = tuple(_value_range(port) for port in inputs.values())
    return _filled("host.py", values)


def _value_range(port: StreamPort) -> tuple[int, int]:
    return (
        (-(1 << port.value_bits - 1), (1 << port.value_bits - 1) - 1)
        if port.signed
        else (0, (1 << port.value_bits) - 1)
    )
