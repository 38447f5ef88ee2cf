"""Lowered programs as calls: IREE, and MLIR's own code generator with LLVM. Every call returns the first output."""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from nirbridge.arrays import Array
from nirbridge.dialect.lowering.program import LoweredProgram, iree_text, state_arrays
from nirbridge.emitters.iree.program import compile_flags
from tests.dialect import jit

Call = Callable[[], Array]

IREE_FLAGS = compile_flags({"source": "linalg", "device": "llvm-cpu", "cpu": "host"})
"""Those of `emit --to iree`, for this processor."""
TRANSFORM = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%m: !transform.any_op) {
    %product = transform.structured.match ops{["linalg.matmul"]} in %m : (!transform.any_op) -> !transform.any_op
    %sums = transform.structured.generalize %product : (!transform.any_op) -> !transform.any_op
    %tile, %loops:2 = transform.structured.tile_using_for %sums tile_sizes [32, 256, 0] interchange = [1, 0, 2]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %row = transform.structured.interchange %tile iterator_interchange = [2, 0, 1]
      : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
"""Products in tiles of 32 rows and 256 columns, a row of weights at a time: LLVM makes vectors of that."""


def inputs(program: LoweredProgram, spikes: Mapping[str, Array], batch: int) -> list[Array]:
    """Arguments of ``run``: inputs, then initial states."""
    given = [np.ascontiguousarray(spikes[t.node], dtype=t.dtype) for t in program.inputs]
    return [*given, *state_arrays(program, batch)]


def iree_call(program: LoweredProgram, spikes: Mapping[str, Array], batch: int, kept: Path) -> Call:
    """The program in IREE on llvm-cpu, in this thread; its arguments are on the device before."""
    import iree.compiler as compiler
    import iree.runtime as runtime

    text = iree_text(program)
    path = _kept(kept, text + repr(IREE_FLAGS), ".vmfb")
    if not path.is_file():
        path.write_bytes(compiler.compile_str(text, extra_args=IREE_FLAGS))
    config = runtime.Config("local-sync")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, path.read_bytes()))
    run = context.modules.module["run"]
    arguments = [runtime.asdevicearray(config.device, a) for a in inputs(program, spikes, batch)]

    def call() -> Array:
        out = run(*arguments)[0]
        return out.to_host().copy()  # the array on the host is a view that does not keep its memory

    return call


def loops_call(program: LoweredProgram, spikes: Mapping[str, Array], batch: int, kept: Path) -> Call:
    """The program as loops of MLIR and LLVM -O3. States are copied before each call, which overwrites them."""
    path = _kept(kept, program.text + TRANSFORM + jit.PIPELINE, ".so")
    if not path.is_file():
        with tempfile.TemporaryDirectory(prefix="nirbridge-stack-") as scratch:
            folder = Path(scratch)
            (folder / "transform.mlir").write_text(TRANSFORM)
            library = f"transform-preload-library{{transform-library-paths={folder / 'transform.mlir'}}}"
            jit.compiled(program.text, folder, f"{library},transform-interpreter,")
            path.write_bytes((folder / "module.so").read_bytes())
    return _LoopsCall(program, ctypes.CDLL(str(path)), inputs(program, spikes, batch))


class _LoopsCall:
    def __init__(self, program: LoweredProgram, library: ctypes.CDLL, arguments: list[Array]) -> None:
        self.library, self.arguments, self.count = library, arguments, len(program.inputs)
        self.kinds = [(len(t.shape) + 2, t.dtype) for t in program.outputs]
        self.kinds += [(len(t.shape) + 1, t.dtype) for t in program.states]
        fields = [(f"r{k}", jit.descriptor(rank)) for k, (rank, _) in enumerate(self.kinds)]
        self.results = type("Results", (ctypes.Structure,), {"_fields_": fields})
        self.free = ctypes.CDLL(None).free
        self.free.argtypes = [ctypes.c_void_p]

    def __call__(self) -> Array:
        given = [*self.arguments[: self.count], *(a.copy() for a in self.arguments[self.count :])]
        out = self.results()
        self.library._mlir_ciface_run(ctypes.byref(out), *(ctypes.byref(jit.taken(a)) for a in given))
        found = jit.given(out.r0, self.kinds[0][1])
        own = {a.ctypes.data for a in given}
        for address in {getattr(out, f"r{k}").allocated for k in range(len(self.kinds))} - own:
            self.free(address)
        return found


def _kept(folder: Path, content: str, ending: str) -> Path:
    """The file of a compiled program, by the digest of its source."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / (hashlib.sha256(content.encode()).hexdigest()[:24] + ending)


COMPILERS: Mapping[str, Callable[[LoweredProgram, Mapping[str, Array], int, Path], Call]] = {
    "iree": iree_call,
    "loops": loops_call,
}
"""By the names of ``choose_forms``."""
