"""MLIR's own compiler as a second opinion: a lowered program as machine code, by Debian's tools of LLVM 22 alone.

``mlir-opt`` turns linalg into loops and those into the llvm dialect, ``mlir-translate`` into LLVM's IR, LLVM's C
interface optimizes that without fast math, and the system's compiler links it. Nothing of it is part of the library.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.dialect.lowering.program import LoweredProgram, state_arrays
from tests.tools import needs

PIPELINE = ",".join(
    (
        "canonicalize",
        "cse",
        "one-shot-bufferize{bufferize-function-boundaries allow-return-allocs-from-loops"
        " function-boundary-type-conversion=identity-layout-map}",
        "canonicalize",
        "func.func(buffer-loop-hoisting)",
        "buffer-deallocation-pipeline",
        "convert-bufferization-to-memref",
        "func.func(convert-linalg-to-loops)",
        "loop-invariant-code-motion",
        "expand-strided-metadata",
        "lower-affine",
        "arith-expand",
        "convert-scf-to-cf",
        "func.func(llvm-request-c-wrappers)",
        "convert-math-to-libm",
        "convert-to-llvm",
        "reconcile-unrealized-casts",
    )
)
MAIN = Path("/usr/lib/llvm-22")


def compiled(text: str, folder: Path, before: str = "") -> ctypes.CDLL:
    """The functions of a module in linalg; ``before``: passes that come first, each with a comma after it."""
    needs("mlir")
    source = folder / "linalg.mlir"
    source.write_text(text)
    run(["mlir-opt-22", f"--pass-pipeline=builtin.module({before}{PIPELINE})", source, "-o", folder / "llvm.mlir"])
    run([MAIN / "bin/mlir-translate", "--mlir-to-llvmir", folder / "llvm.mlir", "-o", folder / "module.ll"])
    write_object(folder / "module.ll", folder / "module.o")
    helper = MAIN / "lib/libmlir_c_runner_utils.so.22.1"
    run(["gcc", "-shared", "-o", folder / "module.so", folder / "module.o", helper, "-lm", f"-Wl,-rpath,{MAIN}/lib"])
    return ctypes.CDLL(str(folder / "module.so"))


def run(command: list[Any]) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stderr[:3000]}"


def write_object(source: Path, target: Path) -> None:
    """Machine code of LLVM IR, at -O3 for this processor."""
    llvm = ctypes.CDLL("libLLVM.so.22.1")
    for name in ("Target", "TargetInfo", "TargetMC", "AsmPrinter"):
        getattr(llvm, f"LLVMInitializeX86{name}")()
    pointer, text = ctypes.c_void_p, ctypes.c_char_p

    def call(name: str, *args: Any, result: Any = pointer) -> Any:
        function = getattr(llvm, name)
        function.restype = result
        return function(*args)

    error, module, kind, buffer = pointer(), pointer(), pointer(), pointer()
    context = pointer(call("LLVMContextCreate"))
    assert not call("LLVMCreateMemoryBufferWithContentsOfFile", text(str(source).encode()), ctypes.byref(buffer),
                    ctypes.byref(error), result=ctypes.c_int)  # fmt: skip
    failed = call(
        "LLVMParseIRInContext", context, buffer, ctypes.byref(module), ctypes.byref(error), result=ctypes.c_int
    )
    assert not failed, ctypes.cast(error, text).value
    triple = call("LLVMGetDefaultTargetTriple", result=pointer)
    call("LLVMGetTargetFromTriple", pointer(triple), ctypes.byref(kind), ctypes.byref(error), result=ctypes.c_int)
    cpu, features = (pointer(call(f"LLVMGetHostCPU{what}")) for what in ("Name", "Features"))
    machine = pointer(call("LLVMCreateTargetMachine", kind, pointer(triple), cpu, features, 3, 2, 0))
    options = pointer(call("LLVMCreatePassBuilderOptions"))
    assert not call("LLVMRunPasses", module, text(b"default<O3>"), machine, options)
    path = text(str(target).encode())
    failed = call("LLVMTargetMachineEmitToFile", machine, module, path, 1, ctypes.byref(error), result=ctypes.c_int)
    assert not failed, ctypes.cast(error, text).value


def descriptor(rank: int) -> Any:
    fields = [("allocated", ctypes.c_void_p), ("aligned", ctypes.c_void_p), ("offset", ctypes.c_int64)]
    if rank:
        fields += [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]  # type: ignore[list-item]
    return type(f"Memref{rank}", (ctypes.Structure,), {"_fields_": fields})


def taken(array: Array) -> Any:
    address, rank = array.ctypes.data, array.ndim
    strides = [s // array.itemsize for s in array.strides]
    return descriptor(rank)(address, address, 0, *([(ctypes.c_int64 * rank)(*array.shape),
                                                     (ctypes.c_int64 * rank)(*strides)] if rank else []))  # fmt: skip


def given(memref: Any, dtype: str) -> Array:
    kind = np.dtype(dtype)
    shape, strides = tuple(memref.sizes), [s * kind.itemsize for s in memref.strides]
    if 0 in shape:
        return np.zeros(shape, kind)
    extent = 1 + sum((n - 1) * s // kind.itemsize for n, s in zip(shape, strides, strict=True))
    start = memref.aligned + memref.offset * kind.itemsize
    raw = (ctypes.c_byte * (extent * kind.itemsize)).from_address(start)
    return np.lib.stride_tricks.as_strided(np.frombuffer(raw, kind), shape, strides).copy()


class Compiled:
    """A program as machine code."""

    def __init__(self, program: LoweredProgram, folder: Path) -> None:
        self.program, self.library = program, compiled(program.text, folder)

    def call(self, arguments: list[Array]) -> list[Array]:
        """The results of ``run`` on inputs and states."""
        program = self.program
        results = [(len(t.shape) + 2, t.dtype) for t in program.outputs]
        results += [(len(t.shape) + 1, t.dtype) for t in program.states]
        fields = [(f"r{k}", descriptor(rank)) for k, (rank, _) in enumerate(results)]
        out = type("Results", (ctypes.Structure,), {"_fields_": fields})()
        kept = [np.array(a, order="C") for a in arguments]  # states are overwritten in place
        self.library._mlir_ciface_run(ctypes.byref(out), *(ctypes.byref(taken(a)) for a in kept))
        return [given(getattr(out, f"r{k}"), dtype) for k, (_, dtype) in enumerate(results)]

    def run(self, inputs: Mapping[str, Array], batch: int) -> dict[tuple[str, str], Array]:
        """Outputs over time by node and variable, from the initial state."""
        given_inputs = [np.asarray(inputs[t.node], t.dtype) for t in self.program.inputs]
        found = self.call([*given_inputs, *state_arrays(self.program, batch)])
        return {(t.node, t.variable): a for t, a in zip(self.program.outputs, found, strict=False)}
