"""IREE as a target: a network as MLIR, compiled ahead of time to a module that IREE's runtime loads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.iree.program import COMPILED, options_record, program_files
from nirbridge.emitters.iree.tool import compiled, has_compiler
from nirbridge.errors import ModelError, UsageError, instance_of
from nirbridge.mapping.model import Model
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Probe, Recording

TAKES = (Network, QuantizedNetwork)
NOT_INSTALLED = "no network.vmfb: iree-compile is not installed; `python compile.py` makes it where it is"
NOT_WANTED = "no network.vmfb: `python compile.py` makes it"
BATCH_MAX = 65_536
_CHOICES = {
    "source": ("linalg", "stablehlo"),
    "device": ("llvm-cpu", "vulkan-spirv"),
    "dtype": ("float32", "float64"),
}
_CPU = re.compile(r"[A-Za-z0-9_.-]{0,64}")


@dataclass(frozen=True, slots=True)
class IreeOptions:
    """Options for emitting a program for IREE.

    Attributes:
        source: ``linalg``, the lowering of nirbridge's own dialect, or ``stablehlo``, that of the emitter ``jax``.
        device: IREE's name of what it compiles for.
        batch: number of samples that the module takes at a time; others are run in groups of it.
        steps: number of time steps that a module from StableHLO takes at a time; one from linalg takes any.
        dtype: of a network in real numbers.
        cpu: the processor as LLVM names it, such as ``host``; empty: any x86-64 with AVX, or IREE's default elsewhere.
            A processor with fused multiply-add rounds less often, and the last bit of real numbers differs.
        vmfb: compile it; None: where ``iree-compile`` is installed.
    """

    source: Literal["linalg", "stablehlo"] = "linalg"
    device: Literal["llvm-cpu", "vulkan-spirv"] = "llvm-cpu"
    batch: int = 1
    steps: int = 100
    dtype: Literal["float32", "float64"] = "float32"
    cpu: str = ""
    vmfb: bool | None = None


def emit(model: Network | QuantizedNetwork, options: IreeOptions | None = None) -> Artifact:
    """The MLIR of a network, a script that runs it and, where IREE's compiler is installed, the compiled module.

    The same model and options give the same bytes; those of the module also depend on the version of IREE.

    Raises:
        ToolMissing: xDSL, or jax for StableHLO, is not installed, or a module is requested and IREE's compiler is not.
        UsageError: an unknown option.
        ModelError: no output to compute, or IREE refuses the module.
    """
    chosen = options or IreeOptions()
    _check_options(chosen)
    if not model.outputs:
        raise ModelError.of("network", "has no output", "a function for IREE returns one", "add an output")
    wanted = has_compiler() if chosen.vmfb is None else chosen.vmfb
    note = "" if wanted else (NOT_INSTALLED if chosen.vmfb is None else NOT_WANTED)
    files = program_files(model, options_record(chosen), notes=note)
    if wanted:
        files[COMPILED] = compiled(files)
    numbers = "integers" if isinstance(model, QuantizedNetwork) else chosen.dtype
    return make_artifact(files, {"kind": "iree", "schema": 1, "numbers": numbers, "notes": [note] if note else []})


def _check_options(options: IreeOptions) -> None:
    """Raises UsageError for the first option that is unknown."""
    subject = "options of emitter 'iree'"
    for name, known in _CHOICES.items():
        if getattr(options, name) not in known:
            raise UsageError.of(subject, f"{name} {getattr(options, name)!r}", " or ".join(known))
    for name in ("batch", "steps"):
        value = getattr(options, name)
        if not isinstance(value, int) or not 1 <= value <= BATCH_MAX:
            raise UsageError.of(subject, f"{name} {value!r}", f"a whole number from 1 to {BATCH_MAX:,}")
    if not isinstance(options.cpu, str) or not _CPU.fullmatch(options.cpu):
        raise UsageError.of(subject, f"cpu {options.cpu!r}", "a name of a processor that LLVM knows", "'host'")
    if options.device == "vulkan-spirv" and (options.dtype != "float32" or options.cpu):
        raise UsageError.of(subject, "a type or processor with vulkan-spirv", "it computes in float32", "leave it out")


@dataclass(frozen=True, slots=True)
class IreeEmitter:
    """Programs for IREE: MLIR and the module compiled from it, for processors and Vulkan devices."""

    takes = TAKES
    options = IreeOptions
    records = ("s", "u", "v")

    def emit(self, model: Model, options: IreeOptions | None = None) -> Artifact:
        """See ``emit``."""
        known = instance_of(model, TAKES, "model of emitter 'iree'", "emit its quantized network or the network itself")
        if options is not None:
            instance_of(options, IreeOptions, "options of emitter 'iree'")
        return emit(known, options)

    def run(
        self,
        artifact: Artifact,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        record: Sequence[Probe] | None = None,
        progress: Progress = no_progress,
    ) -> Recording:
        """See ``run_program``: in a process of its own."""
        from nirbridge.emitters.iree.process import run_program

        program = instance_of(artifact, Artifact, "program of emitter 'iree'")
        return run_program(program, inputs, steps=steps, record=record, progress=progress)


IREE = IreeEmitter()
