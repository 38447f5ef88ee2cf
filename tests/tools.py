"""System programs that some tests use; ``python -m tests.tools`` (``make tools``) installs them.

A test that needs one calls ``needs("zsh")``: where it is absent, the test is skipped with its name, or fails with
``NIRBRIDGE_TOOLS=required``. Installing uses the standard library alone, since it runs before anything is installed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Tool:
    """A program, under any of its names, Debian's packages of it, and what tests do with it.

    ``optional``: not every release of Debian and Ubuntu has it, so that its absence never fails a test.
    """

    commands: tuple[str, ...]
    package: str
    use: str
    optional: bool = False


TOOLS: Mapping[str, Tool] = {
    "make": Tool(("make",), "make", "reads what targets run"),
    "bash": Tool(("bash",), "bash", "completes a command line"),
    "zsh": Tool(("zsh",), "zsh", "completes a command line"),
    "fish": Tool(("fish",), "fish", "completes a command line"),
    "cppcheck": Tool(("cppcheck",), "cppcheck", "reads emitted C"),
    "clang": Tool(("clang",), "clang libclang-rt-dev", "compiles emitted C with all warnings and its sanitizers"),
    "arm-gcc": Tool(
        ("arm-none-eabi-gcc",), "gcc-arm-none-eabi libnewlib-arm-none-eabi", "compiles emitted C for a Cortex-M4"
    ),
    "qemu-arm": Tool(("qemu-system-arm",), "qemu-system-arm", "runs it"),
    "riscv-gcc": Tool(
        ("riscv64-linux-gnu-gcc",), "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross", "compiles emitted C for RISC-V"
    ),
    "qemu-riscv": Tool(("qemu-riscv64",), "qemu-user", "runs it"),
    "cmake": Tool(("cmake",), "cmake", "builds emitted C"),
    "iverilog": Tool(("iverilog",), "iverilog", "runs emitted Verilog"),
    "verilator": Tool(("verilator",), "verilator", "reads and runs emitted Verilog"),
    "yosys": Tool(("yosys",), "yosys", "proves emitted neurons and counts their cells"),
    "mlir": Tool(("mlir-opt-22",), "mlir-22-tools", "verifies and compiles lowered modules", optional=True),
    "nextpnr": Tool(("nextpnr-ice40",), "nextpnr-ice40", "places and routes it"),
    "icepack": Tool(("icepack",), "fpga-icestorm", "makes a bitstream of it"),
    "browser": Tool(("chromium", "chromium-browser", "google-chrome"), "chromium", "opens HTML reports"),
}


def path_of(name: str) -> str | None:
    """Where a tool is, None if it is not installed."""
    found = (shutil.which(command) for command in TOOLS[name].commands)
    return next((path for path in found if path is not None), None)


def needs(name: str) -> str:
    """The path of a tool; without it the calling test is skipped, or fails where tools are required."""
    path = path_of(name)
    return path if path is not None else not_there(name, f"the system's {name}")


def not_there(name: str, part: str) -> NoReturn:
    """Skips the calling test for want of a part of a tool, or fails it where tools are required."""
    import pytest

    text = f"{part} ({TOOLS[name].package}) is not installed; run: make tools"
    if os.environ.get("NIRBRIDGE_TOOLS") == "required" and not TOOLS[name].optional:
        pytest.fail(f"{text} (NIRBRIDGE_TOOLS=required)", pytrace=False)
    pytest.skip(text)


def absent(tools: Mapping[str, Tool] = TOOLS) -> list[Tool]:
    """The tools that are not installed."""
    return [tool for name, tool in tools.items() if path_of(name) is None]


def packages_of(tools: Sequence[Tool]) -> list[str]:
    """The packages of tools; one may need several."""
    return [name for tool in tools for name in tool.package.split()]


def installation(packages: Sequence[str]) -> list[list[str]]:
    """The commands that install packages of Debian."""
    options = ["--yes", "--no-install-recommends"]
    return [["apt-get", "update"], ["apt-get", "install", *options, *packages]]


def permitted_prefix() -> list[str] | None:
    """Words before apt-get: none for root, sudo where it asks for no password; None where apt may not run."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "--non-interactive"]
    if shutil.which("sudo") is None:
        return None
    return sudo if subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode == 0 else None


def main() -> int:
    """Installs what is absent; 1 if something still is, with the command that installs it."""
    missing = absent()
    if not missing:
        print(f"tools: all installed ({', '.join(TOOLS)})")
        return 0
    for tool in missing:
        print(f"tools: {tool.commands[0]} is not installed (a test {tool.use})")
    required = packages_of([tool for tool in missing if not tool.optional])
    groups = [required, *(packages_of([tool]) for tool in missing if tool.optional)]  # one that is not to be had
    installs = [installation(group)[-1] for group in groups if group]  # keeps no other from being installed
    commands = [installation([])[0], *installs]
    prefix = permitted_prefix()
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in commands if prefix is not None else ():
        print(shlex.join([*prefix, *command]), flush=True)
        subprocess.run([*prefix, *command], env=environment, check=False)
    still = absent()
    if still:
        text = " && ".join(shlex.join(["sudo", *c]) for c in installation(packages_of(still)))
        print(f"tools: not installed here; on Debian and Ubuntu: {text}")
    return 0 if all(tool.optional for tool in still) else 1


if __name__ == "__main__":
    sys.exit(main())
